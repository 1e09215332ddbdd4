"""The experiment, its words on the terminal, and the page."""

from __future__ import annotations

import html
import json
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from search_examples import MODULES

import gainful
from gainful.cli import demo as command
from gainful.cli import run as run_command
from gainful.demo.corpus import SearchCorpus
from gainful.demo.experiment import BM25, FIRST, HEADLINE, PLAIN, SHOWN, Experiment, tally, verdict
from gainful.demo.features import FEATURES

QUERIES = ("shortest text that fits", "merge sorted HTTPServer inputs", "naïve café, heap heaps heaped")


@pytest.fixture(scope="module")
def done():
    found = Experiment.prepare(SearchCorpus.gather(MODULES))
    return found, found.run(seconds=0)


def test_bm25_is_tuned_on_the_validation_queries(done):
    found, comparison = done
    valid, ndcg = found.parts.valid, gainful.metric(HEADLINE)
    column = list(FEATURES).index("bm25")
    tuned = ndcg(found.bm25.predict(valid), valid.y, qid=valid.qid)
    assert tuned > ndcg(valid.X[:, column], valid.y, qid=valid.qid)  # usual weights, where the search begins
    test = found.parts.test
    expected = ndcg(found.bm25.predict(test), test.y, qid=test.qid)
    assert comparison.mean(BM25, HEADLINE) == pytest.approx(expected)
    assert set(comparison.labels) == {BM25, PLAIN, "regression", SHOWN, "structured-svm-tight", "lambdamart"}
    assert comparison.baseline == BM25


def test_the_verdict_says_what_the_tests_say_of_the_ranking_fixed_beforehand(done):
    _, comparison = done
    said = {sign: verdict(_with_verdict(comparison, SHOWN, sign)) for sign in (1, 0, -1)}
    assert f"({SHOWN}) beats tuned BM25" in said[1]
    assert f"({SHOWN}) loses to tuned BM25" in said[-1]
    assert f"({SHOWN}) does not differ from tuned BM25 beyond chance" in said[0]
    for text in said.values():
        assert f"{comparison.mean(SHOWN, HEADLINE):.3f}" in text
        assert f"{comparison.mean(BM25, HEADLINE):.3f}" in text
    assert f"first in {100 * comparison.mean(SHOWN, FIRST):.0f} of 100" in said[1]


def test_the_sentence_and_the_page_are_of_one_ranking_whatever_is_best_on_the_test_searches(done):
    found, comparison = done
    other = "lambdamart"
    better = _with_verdict(comparison, other, 1)
    better.__dict__["by_mean"] = (other, *(label for label in comparison.by_mean if label != other))
    told = found.page(better).partition('<script type="application/json"')[0]
    for text in (verdict(better), tally(better), told):
        assert SHOWN in text
        assert other not in text


def _with_verdict(comparison, label, sign):
    """The comparison with this difference made significant, or not."""
    changed = replace(comparison)
    tests = dict(comparison.paired_tests)
    p = dict.fromkeys(comparison.tests, 0.001 if sign else 0.5)
    tests[label, HEADLINE] = replace(tests[label, HEADLINE], p_holm=p, difference=0.1 * (sign or 1))
    changed.__dict__["paired_tests"] = tests
    return changed


def test_after_an_early_interrupt_nothing_is_written(done, tmp_path, capsys):
    found, comparison = done
    early = replace(comparison, labels=(BM25, PLAIN), interrupted=True)
    command.show_result(found, early, tmp_path, print)
    assert "stopped before" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_command_prints_a_verdict_and_writes_both_pages(done, tmp_path, monkeypatch, capsys):
    found, comparison = done
    monkeypatch.setattr(SearchCorpus, "gather", classmethod(lambda cls: found.corpus))
    assert run_command(["demo", "--out", str(tmp_path / "made"), "--seconds", "0", "--no-open"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "tuned BM25" in out
    test = comparison.paired_tests[SHOWN, HEADLINE]  # the command divides the same way
    assert f"in {test.wins} test searches, worse in {test.losses} and" in " ".join(out.split())
    assert (tmp_path / "made" / "report" / "report.html").exists()
    page = (tmp_path / "made" / "search.html").read_text(encoding="utf-8")
    words = " ".join(html.unescape(page).split())
    assert " ".join(sys.copyright.split()) in words  # the texts are Python's, whose licence wants both with them
    assert "PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2 1. This LICENSE AGREEMENT" in words
    assert "http://" not in re.sub(r'<script type="application/json".*?</script>', "", page, flags=re.S)


@pytest.mark.parametrize(
    ("asked", "terminal", "environment", "expected"),
    [
        (None, True, {"DISPLAY": ":0"}, True),
        (None, True, {}, False),
        (None, False, {"DISPLAY": ":0"}, False),
        (None, True, {"DISPLAY": ":0", "SSH_CONNECTION": "there"}, False),
        (True, False, {}, True),
        (False, True, {"DISPLAY": ":0"}, False),
    ],
)
def test_a_browser_opens_only_before_somebody(asked, terminal, environment, expected, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal, raising=False)
    assert command.may_open(asked) is expected


def test_an_example_says_why_the_answer_moved(done):
    found, _ = done
    one = next(found._readable())
    rival, reasons = found.reasons(one, n=len(FEATURES))
    assert rival != one.target
    a, b = one.names.index(one.target), one.names.index(rival)
    assert sum(share for _, share in reasons) == pytest.approx(one.learned[a] - one.learned[b])
    assert one.order(one.bm25)[one.place(one.bm25) - 1] == one.target


# -- in a browser ------------------------------------------------------------------------------------------------------

SEARCHING = """
view.begin();
const told = QUERIES.map((text) => view.gainfulSearch.search(text).found.map(
  (one) => [one.document.name, one.bm25, one.learned, one.features, one.shares.reduce((a, b) => a + b.share, 0)]));
return told;
"""
TYPING = """
view.begin();
const box = page.getElementById("query"), state = page.getElementById("state"), told = {};
const names = (id) => [...page.querySelectorAll(`#${id} details`)].map((one) => one.dataset.name);
const type = (text) => { box.value = text; page.getElementById("form").requestSubmit(); };
const press = (key) => page.activeElement.dispatchEvent(new view.KeyboardEvent("keydown", {key, bubbles: true}));
type("merge sorted inputs");
told.lists = [names("bm25"), names("learned")];
press("/"); told.box = page.activeElement === box;
press("ArrowDown"); told.first = page.activeElement.closest("details").dataset.name;
page.activeElement.closest("details").open = true;
type("the of"); told.common = state.textContent; told.hidden = page.getElementById("results").hidden;
type("zzzqqq"); told.nothing = state.textContent;
type(""); told.empty = state.textContent;
type("merge sorted inputs"); told.back = page.getElementById("results").hidden;
const root = page.documentElement;
told.overflow = root.scrollWidth - root.clientWidth;
told.examples = page.querySelectorAll("#examples button").length;
return told;
"""


@pytest.fixture(scope="module")
def page(done):
    return done[0].page(done[1])


def test_the_page_scores_as_python_does(done, page, browse):
    found = done[0]
    told = browse(page, SEARCHING.replace("QUERIES", json.dumps(QUERIES)))
    for text, rows in zip(QUERIES, told, strict=True):
        documents = found.corpus.candidates(text)
        assert [found.corpus.documents[d].name for d in documents] == [row[0] for row in rows]
        X = found.corpus.features(text, documents)
        assert np.allclose([row[3] for row in rows], X, rtol=1e-9, atol=1e-9)
        assert np.allclose([row[1] for row in rows], found.bm25.score(text, documents), rtol=1e-9)
        learned = found.model.predict(X)
        assert np.allclose([row[2] for row in rows], learned, rtol=1e-9, atol=1e-9)
        assert np.allclose([row[4] for row in rows], learned - learned.mean(), atol=1e-9)  # why: shares add up


@pytest.mark.parametrize("width", [1280, 390])
def test_one_can_type_and_walk_through_the_results(done, page, browse, width):
    corpus = done[0].corpus
    told = browse(page, TYPING, width)
    documents = corpus.candidates("merge sorted inputs")
    scores = {"bm25": done[0].bm25.score("merge sorted inputs", documents)}
    scores["learned"] = done[0].model.predict(corpus.features("merge sorted inputs", documents))
    for names, values in zip(told["lists"], scores.values(), strict=True):
        assert names == [corpus.documents[documents[i]].name for i in np.argsort(-values, kind="stable")[:10]]
    assert told["box"]
    assert told["first"] == told["lists"][0][0]
    assert told["hidden"]
    assert not told["back"]
    assert "too common" in told["common"]
    assert told["nothing"].startswith("No document has")
    assert told["empty"].startswith("Type a few words")
    assert told["overflow"] <= 0
