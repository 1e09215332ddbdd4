"""Metrics print as they are typed, parse back, and refuse what makes no sense."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gainful.data.dataset import RankingData
from gainful.errors import DataError, ParameterError, UnknownNameError
from gainful.metrics import CONVENTIONS, Metric, metric
from gainful.metrics.conventions import KINDS, WITHOUT_AVERAGE

NUMBERS = st.floats(0, 1e300) | st.integers(0, 40).map(float)
DISCOUNTS = st.lists(NUMBERS, min_size=1, max_size=6).map(lambda d: sorted(d, reverse=True)).filter(lambda d: d[0] > 0)


@st.composite
def metrics(draw):
    kind = draw(st.sampled_from(list(KINDS)))
    cuts = {
        "no": st.none(),
        "may": st.none() | st.integers(1, 10**6),
        "must": st.integers(1, 50),
        "recall": st.floats(0, 1),
    }
    cut = draw(cuts[KINDS[kind][0]])
    spec = kind if cut is None else f"{kind}@{cut!r}"
    if kind in ("rbp", "rbp-resid"):
        spec = f"{spec}({draw(st.floats(0, 1, exclude_max=True))!r})"
    if kind == "rprec":
        spec = f"rprec(times={draw(st.floats(0.1, 9))!r})"
    options = {
        "gain": st.sampled_from(["exp2", "linear"]) | st.lists(NUMBERS, min_size=1, max_size=6),
        "discount": st.sampled_from(["log2", "letor"]) | DISCOUNTS,
        "ties": st.sampled_from(["average", "input", "worst", "docid"]),
        "empty": st.sampled_from([0, 1, "skip"]),
        "relevant": st.floats(0, 1e9, exclude_min=True),
        "short": st.sampled_from(["use", "zero"]),
        "max_grade": st.floats(0.5, 1000),
        "divisor": st.sampled_from(["min", "k", "relevant"] if kind == "p" else ["min", "all"]),
        "alpha": st.floats(0, 1, exclude_max=True),
        "unjudged": st.sampled_from(["zero", "skip"]),
        "rounding": st.sampled_from(["up", "nearest"]),
        "worth": st.sampled_from(["binary", "scaled"]),
    }
    if kind in WITHOUT_AVERAGE:
        options["ties"] = st.sampled_from(["input", "worst", "docid", "docid-rising"])
    known = [name for name in metric(spec).conventions if name not in ("p", "times")]
    return metric(spec, **{name: draw(options[name]) for name in known if draw(st.booleans())})


@settings(max_examples=100, deadline=None)
@given(m=metrics())
def test_parses_back(m):
    again = metric(str(m))
    assert again == m
    assert hash(again) == hash(m)
    assert metric(m) is m
    assert metric(m.name).name == m.name
    assert eval(repr(m), {"metric": metric}) == m
    assert pickle.loads(pickle.dumps(m)) == m
    assert metric(str(m).upper()) == m


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("ndcg@10", "ndcg@10(gain=exp2, discount=log2, ties=average, empty=0)"),
        (" NDCG @5 ", "ndcg@5(gain=exp2, discount=log2, ties=average, empty=0)"),
        ("rbp", "rbp(p=0.8, ties=average, empty=0, relevant=1)"),
        ("rbp( 0.5 )", "rbp(p=0.5, ties=average, empty=0, relevant=1)"),
        ("rbp(0.5, ties=worst)", "rbp(p=0.5, ties=worst, empty=0, relevant=1)"),
        ("rbp(ties=worst)", "rbp(p=0.8, ties=worst, empty=0, relevant=1)"),
        ("p@10", "p@10(ties=average, empty=0, relevant=1)"),
        ("map()", "map(ties=average, empty=0, relevant=1)"),
        ("err@10", "err@10(max_grade=4, ties=average, empty=0)"),
        ("wta", "wta(ties=average, empty=0, relevant=1)"),
        ("dcg(gain=0|1|3.5)", "dcg(gain=0|1|3.5, discount=log2, ties=average, empty=0)"),
        ("map@10(convention=trec)", "map@10(ties=docid, empty=0, relevant=1, divisor=all)"),
        ("ndcg@3(convention=letor4)", "ndcg@3(gain=exp2, discount=letor, ties=input, empty=0, short=zero)"),
    ],
)
def test_prints_its_conventions(spec, text):
    assert str(metric(spec)) == text
    assert repr(metric(spec)) == f"metric({text!r})"


def test_names_are_short():
    assert [metric(s).name for s in ("ndcg@10", "ndcg", "rbp", "p@3", "err@5(ties=worst)")] == [
        "ndcg@10", "ndcg", "rbp(0.8)", "p@3", "err@5",
    ]  # fmt: skip


def test_metrics_are_values():
    assert metric("ndcg@10") == metric("NDCG@10", gain="exp2", ties="average")
    assert metric("ndcg@10") != metric("ndcg@5")
    assert metric("dcg", gain=[0, 1, 3]) == metric("dcg", gain=np.array([0.0, 1.0, 3.0]))
    assert len({metric("map"), metric("map", empty="0"), metric("map", empty=1)}) == 2
    with pytest.raises(AttributeError):
        metric("map").ties = "input"


def test_a_metric_is_changed_by_keywords():
    m = metric("ndcg@10", gain="linear", ties="input")
    assert metric(m, empty=1) == metric("ndcg@10", gain="linear", ties="input", empty=1)
    assert metric(m, convention="letor3") == metric("ndcg@10", convention="letor3")
    assert metric(metric("rbp(0.5)"), convention="trec").p == 0.5
    assert metric("ndcg@10(gain=linear)", convention="letor3").gain == "linear"
    assert metric("ndcg@10", convention="lightgbm", empty=0).empty == 0
    assert isinstance(m, Metric)


@pytest.mark.parametrize("tool", CONVENTIONS)
@pytest.mark.parametrize(
    "spec", [kind + {"must": "@5", "recall": "@0.5"}.get(cut, "") for kind, (cut, _) in KINDS.items()] + ["map@5"]
)
def test_every_convention_covers_every_metric(tool, spec):
    m = metric(spec, convention=tool)
    assert metric(str(m)) == m
    assert metric(f"{spec[:-1] if spec.endswith(')') else spec}(convention={tool})") == m


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("ncdg@10", {}, "there is no metric 'ncdg'; did you mean 'ndcg'?"),
        ("rr", {}, "there is no metric 'rr'; it is called 'mrr' here"),
        ("gm_map", {}, "there is no metric 'gm_map'"),
        ("P_0", {}, "k of metric 'p' must be an integer from 1"),
        ("P_2.5", {}, "k of metric 'p' must be an integer from 1"),
        ("iprec_at_recall_1.5", {}, "recall of metric 'iprec@1.5' must be a number from 0 to 1"),
        ("success@5", {}, "there is no metric 'success'; it is called 'hit' here"),
        ("zzz", {}, "there is no metric 'zzz'; choose from ndcg, dcg, mean-ndcg, p, map, mrr, wta, err, nerr, rbp"),
        ("ndcg@0", {}, "k of metric 'ndcg' must be an integer from 1, as in 'ndcg@10', was '0'"),
        ("ndcg@-3", {}, "k of metric 'ndcg' must be an integer from 1"),
        ("ndcg@ten", {}, "k of metric 'ndcg' must be an integer from 1"),
        ("ndcg@", {}, "k of metric 'ndcg' must be an integer from 1"),
        ("p", {}, "spec of metric must be 'p@k' with a rank k, as in 'p@10', was 'p'"),
        ("wta@3", {}, "spec of metric must be 'wta' without a rank, was 'wta@3'"),
        ("ndcg@10(", {}, "spec of metric must be like 'ndcg@10'"),
        ("ndcg@10(linear)", {}, "spec of metric must be like 'ndcg@10'"),
        ("ndcg@10(gain=)", {}, "spec of metric must be like 'ndcg@10'"),
        ("ndcg@10(gain=linear, gain=exp2)", {}, "spec of metric must be like 'ndcg@10'"),
        ("", {}, "spec of metric must be like 'ndcg@10'"),
        (10, {}, "spec of metric must be like 'ndcg@10'"),
        ("ndcg@10(tie=input)", {}, "metric 'ndcg@10' has no convention 'tie'; did you mean 'ties'?"),
        ("map", {"gain": "linear"}, "metric 'map' has no gain; its conventions are ties, empty, relevant"),
        ("ndcg", {"short": "zero"}, "metric 'ndcg' has no short"),
        ("ndcg", {"gain": "exp"}, "gain of metric 'ndcg' must be 'exp2' or 'linear' or an array of finite numbers"),
        ("ndcg", {"gain": [[1, 2]]}, "gain of metric 'ndcg' must be"),
        ("ndcg", {"gain": []}, "gain of metric 'ndcg' must be"),
        ("ndcg", {"gain": [0, -1]}, "gain of metric 'ndcg' must be"),
        ("ndcg", {"discount": [1, 2]}, "discount of metric 'ndcg' must be above 0 at rank 1 and never increasing"),
        ("ndcg", {"discount": [0]}, "discount of metric 'ndcg' must be above 0 at rank 1"),
        ("ndcg", {"ties": "random"}, "ties of metric 'ndcg' must be 'average' or 'input' or 'worst' or 'docid'"),
        ("ndcg", {"empty": 2}, "empty of metric 'ndcg' must be 0 or 1 or 'skip', was 2"),
        ("map", {"relevant": 0}, "relevant of metric 'map' must be a number above 0, was 0"),
        ("map", {"relevant": "high"}, "relevant of metric 'map' must be a number above 0, was 'high'"),
        ("map@3", {"divisor": "k"}, "divisor of metric 'map@3' must be 'min' or 'all', was 'k'"),
        ("err", {"max_grade": -1}, "max_grade of metric 'err' must be a number above 0, at most 1000, was -1"),
        ("rbp(1)", {}, "p of metric 'rbp' must be a number from 0, below 1, was '1'"),
        ("ndcg", {"convention": "lightgmb"}, "there is no convention 'lightgmb'; did you mean 'lightgbm'?"),
    ],
)
def test_refuses_and_says_why(spec, options, message):
    with pytest.raises(ParameterError) as caught:
        metric(spec, **options)
    assert str(caught.value).startswith(message)
    assert isinstance(caught.value, UnknownNameError) == ("there is no" in message or "has no convention" in message)


ROWS = {"scores": [1.0, 2.0, 3.0], "y": [0, 1, 2], "qid": [1, 1, 2]}


@pytest.mark.parametrize(
    ("spec", "changes", "message"),
    [
        ("ndcg", {"qid": None}, "qid is missing; ranking needs the query id of every row, qid=[...]"),
        ("ndcg", {"qid": [1, 1]}, "qid has 2 entries for 3 rows"),
        ("ndcg", {"scores": [1, 2]}, "scores must have one entry per row (3), had shape (2,)"),
        ("ndcg", {"scores": [[1], [2], [3]]}, "scores must have one entry per row (3), had shape (3, 1)"),
        ("ndcg", {"scores": ["a", "b", "c"]}, "scores must be numbers"),
        ("ndcg", {"scores": [1, float("nan"), 3]}, "score of row 1 is NaN; every row needs a score"),
        ("ndcg", {"y": [0, 1, -2]}, "grade of row 2 must be finite and not negative, was -2"),
        ("ndcg", {"y": [0, float("nan"), 2]}, "grade of row 1 must be finite and not negative, was nan"),
        ("ndcg", {"y": [], "scores": [], "qid": []}, "there are no rows"),
        (
            "ndcg(gain=0|1)",
            {},
            "grade of row 2 must be an integer from 0 to 1, because gain is a table of 2 entries; was 2",
        ),
        ("dcg(gain=0|1|2)", {"y": [0, 0.5, 1]}, "grade of row 1 must be an integer from 0 to 2"),
        (
            "err(max_grade=1)",
            {},
            "grade of row 2 of err must be at most max_grade=1, was 2; pass max_grade= with",
        ),
        ("ndcg", {"query_weights": [1]}, "query_weights must have 2 entries, had shape (1,)"),
        ("ndcg", {"query_weights": [1, -1]}, "query weights must be finite and not negative"),
        ("mrr(ties=docid)", {"doc_ids": ["a"]}, "doc_ids has 1 entries for 3 rows"),
    ],
)
def test_refuses_rows_and_says_which(spec, changes, message):
    arguments = ROWS | changes
    with pytest.raises(DataError) as caught:
        metric(spec)(arguments.pop("scores"), arguments.pop("y"), **arguments)
    assert str(caught.value).startswith(message)


def test_refuses_a_second_qid():
    data = RankingData.from_rows(np.zeros((3, 1)), ROWS["y"], ROWS["qid"])
    with pytest.raises(DataError, match="qid is given twice"):
        metric("ndcg")(ROWS["scores"], data, qid=ROWS["qid"])
    with pytest.raises(DataError, match="scores must have one entry per row"):
        metric("ndcg")([1, 2], data)


def test_import_brings_no_compiler():
    code = (
        "import sys, gainful.metrics as g; g.metric('ndcg@10'); print({'numba', 'sklearn', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_gains_that_cannot_be_summed_are_refused():
    with pytest.raises(DataError, match="grade of row 1 must be at most 1000 for dcg@5, whose gains"):
        metric("dcg@5")([1.0, 2.0], [0, 2000], qid=[1, 1])
    assert metric("dcg@5(gain=linear)")([1.0, 2.0], [0, 2000], qid=[1, 1]) == 2000.0
    assert metric("ndcg@5")([1.0, 2.0], [0, 2000], qid=[1, 1]) == 1.0
