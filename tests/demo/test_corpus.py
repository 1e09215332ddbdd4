"""Documents, held-out queries and grades."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from search_examples import MODULES, NO_USES, made_up

import gainful
from gainful.demo import library
from gainful.demo.corpus import SearchCorpus
from gainful.demo.features import FEATURES
from gainful.demo.gather import gather, is_skipped
from gainful.demo.held_out import MOST_CONTAINED
from gainful.demo.library import gather_library
from gainful.demo.text import terms
from gainful.errors import DataError, GainfulError, ParameterError

SENTENCE = "Tie two strong ropes together firmly."


@pytest.fixture(scope="module")
def corpus():
    return SearchCorpus.gather(MODULES)


def test_what_is_gathered_repeats_in_every_process(corpus):
    """The child's order of sets differs from run to run, as its hashes do."""
    again = SearchCorpus.gather(MODULES)
    assert again.documents == corpus.documents
    first, second = corpus.data(), again.data()
    assert np.array_equal(first.X, second.X)
    assert first.query_ids.tolist() == second.query_ids.tolist()


def test_the_whole_library_can_be_gathered():
    """Of every Python that the suite runs on, whatever its modules do when they are looked at."""
    objects, uses = gather_library()
    modules = {one.module for one in objects}
    assert {"json", "select", "importlib.metadata"} <= modules
    assert min(len(modules) / 150, len(objects) / 3000, len(uses["calls"]) / 500) > 1


def test_an_object_whose_signature_fails_is_gathered_without_parameters(monkeypatch):
    def broken(*_):
        raise AttributeError("module 'select' has no attribute 'EPOLLIN'")

    monkeypatch.setattr(inspect, "signature", broken)
    (function,) = (one for one in gather(["textwrap"]) if one["name"] == "textwrap.dedent")
    assert function["parameters"] is None
    assert function["doc"]


def test_a_gathering_that_fails_says_what_python_said(monkeypatch, tmp_path):
    script = tmp_path / "gather.py"
    script.write_text("raise AttributeError('no EPOLLIN')")
    monkeypatch.setattr(library, "SCRIPT", script)
    with pytest.raises(GainfulError, match=r"could not be gathered by \S+: AttributeError: no EPOLLIN$"):
        gather_library(MODULES)


def test_objects_have_one_name_and_their_own_methods_only(corpus):
    names = [one.name for one in corpus.documents]
    assert len(set(names)) == len(names)
    assert {"collections.OrderedDict", "heapq.merge", "json", "textwrap.TextWrapper.fill"} <= set(names)
    assert "collections.UserDict.update" not in names  # inherited
    assert "json.decoder.JSONDecoder" not in names  # offered by json, where users find it
    assert "json.JSONDecoder" in names
    title = corpus.documents[corpus.place["heapq.merge"]].title
    assert title == "heapq.merge(*iterables, key, reverse)"


def test_no_document_says_what_a_query_says(corpus):
    assert len(corpus.queries) > 50
    spoken = [set(terms(one)) for document in corpus.documents for one in document.sentences]
    for target, text in corpus.queries.items():
        words = set(terms(text))
        assert max(len(words & one) for one in spoken) <= MOST_CONTAINED * len(words), target
        assert not any(text in " ".join(document.sentences) for document in corpus.documents)
        assert text in corpus.documents[corpus.place[target]].held_out


def test_a_sentence_that_a_parent_or_a_sibling_repeats_is_no_query():
    objects = [
        made_up("tools", f"Ropes. {SENTENCE}", "module", ""),
        made_up("tools.tie", f"{SENTENCE} Needs both hands."),
        made_up("tools.knot", f"Make a knot. To {SENTENCE[0].lower()}{SENTENCE[1:-1]} is hard."),
        made_up("tools.cut", "Needs a knife. Cut every long rope into short pieces."),
        made_up("tools.only", "Measure the full length of some cable."),
    ]
    assert SearchCorpus(objects, NO_USES).queries == {"tools.cut": "Cut every long rope into short pieces."}


def test_grades_say_how_close_a_document_is(corpus):
    assert corpus.grade("textwrap.TextWrapper.fill", "textwrap.TextWrapper.fill") == 3
    assert corpus.grade("textwrap.TextWrapper.fill", "textwrap.TextWrapper") == 2
    assert corpus.grade("textwrap.TextWrapper.fill", "textwrap") == 1
    assert corpus.grade("textwrap.TextWrapper", "textwrap.TextWrapper.fill") == 0
    assert corpus.grade("textwrap", "textwrap") == 3


def test_candidates_are_objects_that_lost_a_sentence(corpus):
    data = corpus.data(20)
    assert data.feature_names == tuple(FEATURES)
    assert data.longest <= 20
    assert set(data.doc_ids.tolist()) <= set(corpus.queries)
    for q, target in enumerate(data.query_ids.tolist()):
        rows = slice(data.offsets[q], data.offsets[q + 1])
        names = data.doc_ids[rows].tolist()
        assert data.y[rows].tolist() == [corpus.grade(target, name) for name in names]
        assert data.y[rows].max() == 3
        best = data.X[rows, list(FEATURES).index("bm25_all")]
        assert (np.diff(best) <= 0).all()


def test_modules_that_print_or_act_do_no_harm(capfd):
    objects, _ = gather_library(["this", "textwrap"])
    assert "textwrap.fill" in {one.name for one in objects}
    assert capfd.readouterr() == ("", "")
    assert all(
        is_skipped(name) for name in ("antigravity", "idlelib.run", "test.support", "unittest.test", "_io", "tkinter")
    )


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: gainful.make_search("json"), ParameterError, "modules .* a list of names"),
        (lambda: gainful.make_search(["no_such_module"]), DataError, "no module 'no_such_module'"),
        (lambda: gainful.make_search(n_candidates=1), ParameterError, "n_candidates .* an integer ≥ 2"),
        (lambda: SearchCorpus([made_up("tools.f", "f(x)")], NO_USES), DataError, "none of the objects"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(call, error, words):
    with pytest.raises(error, match=words):
        call()
