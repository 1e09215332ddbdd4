"""Metrics of lists that leave documents out, or hold documents that nobody judged."""

from __future__ import annotations

import math
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gainful.data.judgments import Qrels, Run
from gainful.errors import DataError, ParameterError
from gainful.metrics import metric
from gainful.metrics.conventions import KINDS

AVERAGED = ("recall@3", "recall", "hit@1", "hit@3", "rprec", "rprec(times=1.6)", "bpref", "judged@3", "judged")
AVERAGED = (*AVERAGED, "pair-accuracy", "pair-accuracy(empty=0, unjudged=skip)", "auc", "unj@3", "rbp-resid(0.6)")
SETS = ("set-p", "set-recall", "set-f1", "set-map", "set-relative-p", "utility", "num-ret", "num-rel-ret", "num-rel")
BROKEN = (
    "iprec@0",
    "iprec@0.4",
    "iprec@1",
    "iprec@0.7(rounding=nearest)",
    "iprec-avg(rounding=nearest)",
    "iprec-avg",
    "infap",
    "bin-g",
    "g",
    "ndcg-rel",
    "r-ndcg",
)
OLD = ("ndcg", "ndcg@2", "p@3", "map", "map@2", "mrr", "wta", "err", "rbp", "dcg@3", "p@4(divisor=relevant)")
OLD = (*OLD, "nerr", "nerr@2", "rbp@2", "mean-ndcg", "ndcg@3(gain=2|3|0|7)", "dcg(gain=1|0|1|4)")

SUBTOPICS = ("alpha-ndcg@5", "err-ia@5")


def test_every_kind_of_metric_is_tested():
    """Those of OLD are tested as rows in test_metric_values.py too; nonrelevant documents are counted by peers."""
    specs = (*AVERAGED, *SETS, *BROKEN, *OLD, *SUBTOPICS)
    assert {metric(spec).kind for spec in specs} == set(KINDS) - {"num-nonrel-judged-ret"}


# -- definitions: a list of grades in order (None: not judged), and the grades of judged documents left out ------------


def value_of(m, listed, absent):
    """The metric of this list, by the book."""
    if m.unjudged == "skip":
        listed = [grade for grade in listed if grade is not None]
    level = m.relevant or 1
    hits = [grade is not None and grade >= level for grade in listed]
    R = sum(hits) + sum(grade >= level for grade in absent)
    n, k = len(listed), len(listed) if m.k is None else m.k
    if m.kind == "judged":
        return sum(grade is not None for grade in listed[:k]) / max(1, min(k, n))
    if m.kind == "unj":
        return sum(grade is None or grade < 0 for grade in listed[:k]) / k
    if m.kind == "rbp-resid":
        away = [grade is None or grade < 0 for grade in listed]
        return (1 - m.p) * sum(one * m.p**i for i, one in enumerate(away)) + m.p**n if any(away) else 0.0
    if m.kind.startswith("num"):
        return {"num-ret": n, "num-rel": R, "num-rel-ret": sum(hits)}[m.kind]
    if m.kind == "utility":
        return sum(hits) - (n - sum(hits))
    if m.kind in ("pair-accuracy", "auc"):  # documents left out stand below the list, in no order
        grades, below = ([max(0, grade or 0) for grade in part] for part in (listed, absent))
        if m.kind == "auc":
            grades, below = ([grade >= level for grade in part] for part in (grades, below))
        above = [(a, b) for i, a in enumerate(grades) for b in [*grades[i + 1 :], *below] if a != b]
        open_ = sum(a != b for i, a in enumerate(below) for b in below[i + 1 :])
        if not above and not open_:
            return math.nan if m.empty == "skip" else m.empty
        return (sum(a > b for a, b in above) + 0.5 * open_) / (len(above) + open_)
    graded = m.kind in ("ndcg", "dcg", "mean-ndcg", "err", "nerr", "g", "ndcg-rel", "r-ndcg")
    worth = (lambda g: m.gain[g]) if isinstance(m.gain, tuple) else (lambda g: 2**g - 1) if m.gain else lambda g: g
    gains = [0 if grade is None else worth(grade) for grade in listed]
    best = sorted([*gains, *map(worth, absent)], reverse=True)
    if (max(best, default=0) if graded else R) == 0:
        return math.nan if m.empty == "skip" else m.empty
    found = sum(hits)
    if m.kind == "recall":
        return sum(hits[:k]) / R
    if m.kind == "hit":
        return float(any(hits[:k]))
    if m.kind == "rprec":
        cut = max(1, int((m.times or 1) * R + 0.9))
        return sum(hits[:cut]) / cut
    if m.kind in ("iprec", "iprec-avg"):
        levels = [m.recall] if m.kind == "iprec" else [i / 10 for i in range(11)]
        values = []
        for recall in levels:
            reached = [
                i for i in range(n) if sum(hits[: i + 1]) >= int(recall * R + (0.9 if m.rounding == "up" else 0.5))
            ]
            values.append(max((sum(hits[: i + 1]) / (i + 1) for i in reached), default=0.0))
        return sum(values) / len(values)
    if m.kind == "bpref":
        others = [grade is not None and not hit for grade, hit in zip(listed, hits, strict=True)]
        N = sum(others) + sum(grade < level for grade in absent)
        above = [sum(others[:i]) for i in range(n) if hits[i]]
        return sum(1 - min(a, R) / min(N, R) if a else 1.0 for a in above) / R
    if m.kind == "infap":
        total = 0.0
        for i in range(n):
            if hits[i]:
                judged = [hit for hit, grade in zip(hits[:i], listed[:i], strict=True) if grade is not None]
                share = (sum(judged) + 1e-5) / (len(judged) + 2e-5)
                total += 1 / (i + 1) + (i / (i + 1)) * (len(judged) / i if i else 0) * share
        return total / R
    if m.kind.startswith("set"):
        p, r = (found / n if n else 0.0), found / R
        f1 = 2 * p * r / (p + r) if found else 0.0
        relative = found / min(n, R) if n else 0.0
        return {"set-p": p, "set-recall": r, "set-f1": f1, "set-map": p * r, "set-relative-p": relative}[m.kind]
    if m.kind in ("g", "bin-g"):
        gains = [float(hit) for hit in hits] if m.kind == "bin-g" else gains
        best = [1.0] * R if m.kind == "bin-g" else [gain for gain in best if gain > 0]
        total, cost, mine = 0.0, 0.0, 0.0
        for i, gain in enumerate(gains):
            cost, mine = cost + max(1, best[i] if i < len(best) else 0), mine + gain
            total += gain / math.log2(2 + cost - mine)
        return total / sum(best)
    if m.kind in ("ndcg-rel", "r-ndcg"):
        best = [gain for gain in best if gain > 0]

        def ndcg(rank):
            ours, ideal = (sum(g / math.log2(i + 2) for i, g in enumerate(gains_[:rank])) for gains_ in (gains, best))
            return ours / ideal

        if m.kind == "ndcg-rel":
            ranks = [i + 1 for i in range(n) if gains[i] > 0]
            rest = (len(best) - len(ranks)) * ndcg(max(n, len(best)))
            return (sum(map(ndcg, ranks)) + rest) / len(best)
        ranks = [i for i in range(1, len(best)) if best[i] != best[i - 1]] + [len(best)]
        ranks += [n] if n > len(best) + 1 else []
        return sum(map(ndcg, ranks)) / len(ranks)
    if m.kind in ("ndcg", "dcg"):
        total = sum(g / math.log2(i + 2) for i, g in enumerate(gains[:k]))
        cut = len(best) if m.k is None else m.k
        ideal = sum(g / math.log2(i + 2) for i, g in enumerate(best[:cut]))
        return total / ideal if m.kind == "ndcg" else total
    if m.kind == "mean-ndcg":
        cuts = range(1, n + 1)
        ours, ideal = ([sum(g / math.log2(i + 2) for i, g in enumerate(x[:c])) for c in cuts] for x in (gains, best))
        return sum(a / b for a, b in zip(ours, ideal, strict=True)) / max(1, n)
    if m.kind == "p":
        return sum(hits[:k]) / (min(k, R) if m.divisor == "relevant" else k)
    if m.kind == "wta":
        return float(bool(hits and hits[0]))
    if m.kind == "mrr":
        return 1 / (hits.index(True) + 1) if found else 0.0
    if m.kind == "rbp":
        return (1 - m.p) * sum(hit * m.p**i for i, hit in enumerate(hits[:k]))
    if m.kind in ("err", "nerr"):

        def err(grades):
            total, reading = 0.0, 1.0
            for i, grade in enumerate(grades):
                stop = (2**grade - 1) / 16
                total, reading = total + reading * stop / (i + 1), reading * (1 - stop)
            return total

        return err(gains[:k]) / (err(best[: m.k]) if m.kind == "nerr" else 1.0)
    assert m.kind == "map"
    precisions = sum(sum(hits[: i + 1]) / (i + 1) for i in range(min(k, n)) if hits[i])
    return precisions / (R if m.k is None else min(R, m.k))


def value_by_definition(m, scores, listed, absent):
    levels = sorted(set(scores), reverse=True)
    blocks = [[g for s, g in zip(scores, listed, strict=True) if s == level] for level in levels]
    if m.ties == "worst":
        worth = m.gain if isinstance(m.gain, tuple) else range(4)
        blocks = [sorted(block, key=lambda g: (0 if m.gain else -1) if g is None else worth[g]) for block in blocks]
    if m.ties != "average" or m.kind in ("set-p",):
        return value_of(m, [g for block in blocks for g in block], absent)
    orders = list(product(*(permutations(block) for block in blocks)))
    return sum(value_of(m, [g for block in order for g in block], absent) for order in orders) / len(orders)


@st.composite
def queries(draw):
    n = draw(st.integers(0, 5))
    grades = st.integers(0, 3)
    scores = draw(st.lists(st.sampled_from([1.0, 2.0, 3.5]), min_size=n, max_size=n))
    listed = draw(st.lists(st.none() | grades, min_size=n, max_size=n))
    absent = draw(st.lists(grades, min_size=0 if any(g is not None for g in listed) else 1, max_size=3))
    return scores, listed, absent


def run_and_qrels(given):
    run, qrels = {}, {}
    for q, (scores, listed, absent) in enumerate(given):
        run[f"q{q}"] = {f"d{i}": score for i, score in enumerate(scores)}
        qrels[f"q{q}"] = {f"d{i}": grade for i, grade in enumerate(listed) if grade is not None}
        qrels[f"q{q}"] |= {f"x{i}": grade for i, grade in enumerate(absent)}
    run["filler"], qrels["filler"] = {"d": 1.0}, {"d": 1}
    return Run({query: held for query, held in run.items() if held}), Qrels(qrels)


def metrics_of(spec):
    options = {"empty": (0, 1, "skip"), "relevant": (1, 2), "unjudged": ("zero", "skip")}
    known = [name for name in metric(spec).conventions if name in options]
    ties = ["worst", "input"] + (["average"] if spec not in BROKEN else [])
    drawn = {name: st.sampled_from(options[name]) for name in known}
    if "ties" in metric(spec).conventions:
        drawn["ties"] = st.sampled_from(ties)
    changed = {name: value for name, value in drawn.items() if f"{name}=" not in spec}
    return st.fixed_dictionaries(changed).map(lambda chosen: changed_metric(spec, chosen))


def changed_metric(spec, chosen):
    head, _, inside = spec.partition("(")
    words = ([inside.rstrip(")")] if inside else []) + [f"{name}={value}" for name, value in chosen.items()]
    return metric(f"{head}({', '.join(words)})")


@pytest.mark.parametrize("spec", [*AVERAGED, *SETS, *BROKEN, *OLD])
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_a_run_is_measured_by_definition(spec, data):
    m = data.draw(metrics_of(spec))
    given = data.draw(st.lists(queries(), min_size=1, max_size=3))
    run, qrels = run_and_qrels(given)
    expected = [value_by_definition(m, *one) for one in given]
    np.testing.assert_allclose(m.per_query(run, qrels)[:-1], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("spec", [*AVERAGED, *SETS, *BROKEN])
def test_rows_are_lists_in_which_nothing_is_missing(spec):
    rng = np.random.default_rng(3)
    qid = np.repeat(np.arange(30), rng.integers(1, 9, 30))
    scores, grades = rng.integers(0, 4, len(qid)).astype(float), rng.integers(0, 4, len(qid))
    run = {str(q): {f"d{i}": scores[i] for i in np.flatnonzero(qid == q)} for q in range(30)}
    qrels = {str(q): {f"d{i}": grades[i] for i in np.flatnonzero(qid == q)} for q in range(30)}
    m = metric(spec)
    np.testing.assert_allclose(m.per_query(scores, grades, qid=qid), m.per_query(run, qrels), rtol=1e-12)


# -- what is not judged ------------------------------------------------------------------------------------------------

RUN = {"a": {"d1": 4.0, "d2": 3.0, "d3": 2.0, "d4": 1.0}}
QRELS = {"a": {"d2": 1, "d4": 2, "d5": 1}}


def test_documents_that_are_not_judged_follow_the_convention():
    assert metric("p@2")(RUN, QRELS) == 0.5
    assert metric("p@2", unjudged="skip")(RUN, QRELS) == 1.0
    assert metric("judged@2")(RUN, QRELS) == 0.5
    assert metric("recall@4")(RUN, QRELS) == pytest.approx(2 / 3)
    assert str(metric("map", unjudged="skip")) == "map(ties=average, empty=0, relevant=1, unjudged=skip)"
    assert metric(str(metric("map", unjudged="skip"))) == metric("map", unjudged="skip")
    with pytest.raises(ParameterError, match="metric 'bpref' has no unjudged; its conventions are"):
        metric("bpref", unjudged="skip")


def test_rows_may_be_not_judged_if_the_metric_says_what_that_means():
    scores, grades, qid = [4.0, 3.0, 2.0, 1.0], [np.nan, 1, np.nan, 2], [7, 7, 7, 7]
    assert metric("p@2", unjudged="skip")(scores, grades, qid=qid) == 1.0
    assert metric("judged@2")(scores, grades, qid=qid) == 0.5
    with pytest.raises(DataError, match="grade of row 0 must be finite and not negative, was nan; documents"):
        metric("p@2")(scores, grades, qid=qid)
    with pytest.raises(DataError, match="grade of row 1 must be finite and not negative, was -1"):
        metric("p@2", unjudged="skip")(scores, [np.nan, -1, 0, 0], qid=qid)


def test_queries_that_a_run_lacks_are_empty_lists():
    qrels = Qrels({"a": QRELS["a"], "b": {"d1": 1}})
    assert metric("mrr").per_query(RUN, qrels).tolist() == [0.5, 0.0]
    assert metric("mrr").per_query(qrels.judge(RUN, queries="run")).tolist() == [0.5]
    assert qrels.judge(RUN).missing == ("b",)
    with pytest.raises(DataError, match="no query in common; the first ones are 'c' and 'a'"):
        metric("mrr")({"c": {"d": 1.0}}, qrels)


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(DataError, match="a run is measured by qrels, query → document → grade, not by NoneType"):
        metric("map")(RUN)
    with pytest.raises(DataError, match="a run has its own queries and document ids; leave out qid and doc_ids"):
        metric("map")(RUN, QRELS, qid=[1])
    with pytest.raises(DataError, match="qrels judge a run"):
        metric("map")([1.0], QRELS)
    with pytest.raises(DataError, match="the grade of document 'd' of query 'a' must be a finite number, was nan"):
        metric("map")(RUN, {"a": {"d": math.nan}})
    with pytest.raises(DataError, match="alpha-ndcg@5 needs the subtopics of documents"):
        metric("alpha-ndcg@5")([1.0], [1], qid=[1])
    with pytest.raises(ParameterError, match=r"spec of metric must be 'iprec@r' with a recall r, as in 'iprec@0.1'"):
        metric("iprec")
    with pytest.raises(ParameterError, match=r"recall of metric 'iprec@2' must be a number from 0 to 1, was '2'"):
        metric("iprec@2")
    with pytest.raises(ParameterError, match="ties of metric 'infap' must be 'input' or 'worst'"):
        metric("infap", ties="average")


def test_negative_grades_are_those_of_trec_eval():
    """All of them: in the pool, but not judged."""
    run = {"a": {"d1": 5.0, "d2": 4.0, "d3": 3.0, "d4": 2.0}}
    qrels = {"a": {"d1": -1, "d2": -2, "d3": 0, "d4": 1}}
    assert metric("bpref")(run, qrels) == 0.0
    estimate = 1 / 4 + 3 / 4 * (3 / 3) * (1e-5 / (1 + 2e-5))
    assert metric("infap")(run, qrels) == pytest.approx(estimate, rel=1e-12)
    assert metric("p@4", unjudged="skip")(run, qrels) == 0.25
    assert metric("mrr", unjudged="skip")(run, qrels) == 0.5


@pytest.mark.parametrize("grade", [-1, -2, -7])
def test_a_negative_grade_counts_as_in_the_pool_whatever_it_is(grade):
    """Of three documents the second is relevant and the first in the pool: 1/2 + 1/2 · 1 · ε/2ε."""
    run = {"a": {"d1": 5.0, "d2": 4.0}}
    assert metric("infap")(run, {"a": {"d1": grade, "d2": 1}}) == pytest.approx(0.75)
    assert metric("infap")(run, {"a": {"d2": 1}}) == pytest.approx(0.5)  # not in the pool
    assert metric("unj@2")(run, {"a": {"d1": grade, "d2": 1}}) == 0.5


def test_the_versions_of_trec_eval_differ_as_they_do():
    """Worked out by hand from the definitions of both, and equal to what version 10.0 prints."""
    run = {"1": {"a": 9, "x": 8, "b": 7, "d": 6, "c": 5}, "2": {"b": 9, "a": 8}}
    qrels = {"1": {"a": 1, "b": 3, "c": 0, "d": -1}, "2": {"a": 1, "b": 0}}
    ten = {"rbp": [0.1 / 3 + 0.081, 0.09], "rbp_resid": [0.9**5 + 0.1 * (0.9 + 0.9**3), 0.0],
           "unj_5": [0.4, 0.0], "unj_20": [0.1, 0.0]}  # fmt: skip
    for spec, values in ten.items():
        assert metric(spec, convention="trec_eval-10").per_query(run, qrels) == pytest.approx(values, abs=1e-12)
    many = {"1": {f"d{i}": -float(i) for i in range(1, 9)}}
    relevant = {"1": {f"d{i}": 1 for i in (1, 4, 8)}}  # precisions 1, 1/2, 3/8 at recalls 1/3, 2/3, 1
    for convention, values in {"trec_eval-9": (0.5, 0.375), "trec_eval-10": (1.0, 0.5)}.items():
        found = [metric(f"iprec_at_recall_{level}", convention=convention)(many, relevant) for level in (0.4, 0.75)]
        assert found == pytest.approx(values)
    nine, ten = (metric("11pt_avg", convention=f"trec_eval-{version}")(many, relevant) for version in (9, 10))
    assert nine == pytest.approx((4 * 1.0 + 4 * 0.5 + 3 * 0.375) / 11)
    assert ten == pytest.approx((5 * 1.0 + 4 * 0.5 + 2 * 0.375) / 11)


def test_trec_is_version_9():
    for kind in KINDS:
        spec = kind + {"must": "@5", "recall": "@0.3"}.get(KINDS[kind][0], "")
        assert metric(spec, convention="trec") == metric(spec, convention="trec_eval-9")
    with pytest.raises(ParameterError, match="there is no convention 'trec_eval-8'; did you mean 'trec_eval-9'"):
        metric("map", convention="trec_eval-8")


@pytest.mark.parametrize("ties", ["average", "worst", "docid"])
@pytest.mark.parametrize("spec", ["ndcg", "dcg", "ndcg@3", "mean-ndcg"])
def test_a_document_that_is_not_judged_gains_nothing_whatever_grade_0_gains(spec, ties):
    """It stands where a document of gain 0 would stand."""
    run = {"a": {"d1": 4.0, "d2": 3.0, "d3": 2.0, "d4": 2.0}}
    qrels = {"a": {"d2": 1, "d4": 2, "d5": 1}}
    for unjudged in ({}, {"d1": -1, "d3": -2}):
        found = metric(spec, gain=[3, 1, 7, 0], ties=ties)(run, {"a": qrels["a"] | unjudged})
        assert found == pytest.approx(metric(spec, gain=[0, 1, 7], ties=ties)(run, qrels), rel=1e-12)


# -- subtopics ---------------------------------------------------------------------------------------------------------


def novelty(order, alpha):
    """The gains of documents, each a set of subtopics, in this order."""
    return [
        sum((1 - alpha) ** sum(one in before for before in order[:i]) for one in own) for i, own in enumerate(order)
    ]


@settings(max_examples=30, deadline=None)
@given(
    documents=st.lists(st.sets(st.integers(0, 3), max_size=3), min_size=1, max_size=6),
    alpha=st.sampled_from([0.0, 0.25, 0.5, 0.9]),
    k=st.integers(2, 6),
)
def test_subtopics_by_definition(documents, alpha, k):
    rows = [("q", str(one), f"d{i}", 1) for i, own in enumerate(documents) for one in own] + [("q", "9", "z", 0)]
    query, subtopics, document, grades = zip(*rows, strict=True)
    qrels = Qrels.from_rows(query, document, grades, subtopics=subtopics)
    listed = documents[: len(documents) - 1] or documents
    run = {"q": {f"d{i}": 9.0 - i for i in range(len(listed))}}
    gains, n = novelty(listed, alpha)[:k], len(set().union(*documents))
    left, best = sorted(range(len(documents)), reverse=True), []
    while left:  # greedy; of equal documents the one with the larger id
        values = [novelty([*(documents[i] for i in best), documents[j]], alpha)[-1] for j in left]
        best.append(left.pop(int(np.argmax(np.round(values, 12)))))
    ideal = novelty([documents[i] for i in best], alpha)[:k]
    dcg = [sum(gain / math.log2(i + 2) for i, gain in enumerate(values)) for values in (gains, ideal)]
    most = n * sum((1 - alpha) ** i / (i + 1) for i in range(k))
    expected = [0.0, 0.0] if n == 0 else [dcg[0] / dcg[1], sum(g / (i + 1) for i, g in enumerate(gains)) / most]
    found = [metric(f"{kind}@{k}", alpha=alpha)(run, qrels) for kind in ("alpha-ndcg", "err-ia")]
    assert found == pytest.approx(expected, rel=1e-9)
