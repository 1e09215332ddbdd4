"""Features and BM25 of a corpus small enough to compute by hand."""

from __future__ import annotations

from math import log, log1p

import numpy as np
import pytest
from search_examples import tools

from gainful.demo.features import FEATURES, SEARCHED, USUAL_WEIGHTS, letters_covered
from gainful.demo.index import K1, B, FieldIndex


def idf(df, n=4):
    return log(1 + (n - df + 0.5) / (df + 0.5))


def bm25(tf, length, mean, df):
    return idf(df) * tf * (K1 + 1) / (tf + K1 * (1 - B + B * length / mean))


@pytest.fixture(scope="module")
def found():
    """Name → feature → value, for one query."""
    corpus = tools()
    rows = corpus.features("shorter ropes, cut lengths", np.arange(4))
    return {one.name: dict(zip(FEATURES, row, strict=True)) for one, row in zip(corpus.documents, rows, strict=True)}


def test_match_in_a_field(found):
    # summaries: work rope | knot rope | open | cut rope
    cut = found["tools.cutRope"]
    mean = (2 + 2 + 1 + 2) / 4
    assert cut["bm25_summary"] == pytest.approx(bm25(1, 2, mean, 3) + bm25(1, 2, mean, 1))
    assert found["tools.Knot.untie"]["bm25_summary"] == 0.0
    assert cut["bm25_name"] == pytest.approx(bm25(1, 2, (1 + 1 + 1 + 2) / 4, 1) * 2)  # cut and rope
    assert cut["share_summary"] == pytest.approx((idf(3) + idf(1)) / (idf(3) + idf(1) + 2 * idf(0)))


def test_match_of_names_and_letters(found):
    cut = found["tools.cutRope"]
    assert cut["name_covered"] == 1.0
    assert cut["name_letters"] == 1.0
    assert letters_covered("cutrope", ["rope", "cu"]) == 4 / 7  # two letters are too few
    assert found["tools.Knot"]["name_covered"] == 0.0
    assert cut["pairs"] == 0.0
    assert cut["share_sentence"] > found["tools.Knot"]["share_sentence"] > 0


def test_figures_that_no_query_changes(found):
    cut, untie, module = found["tools.cutRope"], found["tools.Knot.untie"], found["tools"]
    assert (cut["n_parameters"], cut["name_length"], cut["body_length"]) == (2, 2, log1p(3))
    assert (untie["is_method"], untie["is_class"], module["is_module"]) == (1, 0, 1)
    assert module["n_members"] == log1p(2)
    assert (untie["module_imports"], untie["name_uses"]) == (log1p(3), log1p(7))
    assert cut["name_uses"] == log1p(2)
    assert module["name_uses"] == log1p(3)


def test_neighbours_support_each_other(found):
    scores = {name: one["bm25"] for name, one in found.items()}
    whole = sum(scores.values())
    assert found["tools.cutRope"]["class_support"] == pytest.approx(scores["tools.Knot"] / whole)
    assert found["tools"]["module_support"] == pytest.approx((whole - scores["tools"]) / whole)
    assert max(one["bm25_relative"] for one in found.values()) == 1.0


def test_bm25_over_fields_adds_up_counts_before_it_saturates():
    maker = tools().maker
    query = ["rope", "knot"]
    got = maker.field_bm25(query, np.array([1]), np.array([USUAL_WEIGHTS.get(field, 1.0) for field in SEARCHED]))
    knot, expected = maker.documents[1], 0.0
    for term in query:
        z = 0.0
        for field in SEARCHED:
            words, index = getattr(knot, field), maker.indexes[field]
            z += USUAL_WEIGHTS.get(field, 1.0) * words.count(term) / (1 - B + B * len(words) / index.mean_length)
        expected += maker.indexes["all"].idf(term) * z * (K1 + 1) / (z + K1)
    assert got[0] == pytest.approx(expected)


def test_likelihood_is_nought_for_a_mean_document_without_the_words():
    index = FieldIndex.of([["a", "b"], ["c", "d"], ["a", "a"]])
    value = index.likelihood(["a", "unknown"])
    assert value[1] == 0.0
    assert value[2] == pytest.approx(log1p(2 * 6 / (2 * 3)))
    assert value[2] > value[0] > 0
