"""Every measure of pytrec-eval-terrier and ir-measures on made-up runs: ties, documents not judged, short lists."""

from __future__ import annotations

import numpy as np
import pytest

import gainful
from benchmarks.trec_measures import TREC, compare_with_ir_measures, compare_with_trec


def made_up(seed, subtopics=False):
    """Queries with few or many documents, some without a relevant one, and grades from −2 to 3."""
    rng = np.random.default_rng(seed)
    run, qrels = {}, []
    for q in range(25):
        pool = rng.permutation(60)
        scores = rng.integers(0, 12, len(pool)) / 4
        run[f"q{q}"] = {
            f"d{i:02d}": score for i, score in zip(pool, scores, strict=True) if rng.random() < 0.6 or i == 0
        }
        for i in rng.permutation(80)[: rng.integers(1, 50)]:
            topics = rng.choice(4, rng.integers(1, 3), replace=False) if subtopics else [0]
            grade = 0 if q % 6 == 5 else int(rng.integers(0, 4)) * int(rng.integers(0, 2))
            qrels += [(f"q{q}", f"d{i:02d}", grade, str(topic)) for topic in topics]
    queries, documents, grades, topics = zip(*qrels, strict=True)
    return gainful.Run(run), gainful.Qrels.from_rows(
        queries, documents, grades, subtopics=topics if subtopics else None
    )


@pytest.mark.parametrize("seed", range(4))
def test_equal_to_trec_eval_query_by_query(seed):
    pytest.importorskip("pytrec_eval")
    compared = list(compare_with_trec(*made_up(seed)))
    assert len(compared) > 80
    assert {spec: largest for spec, _, _, largest in compared if not largest <= 1e-9} == {}


def test_trec_evals_names_are_taken():
    """All that pytrec_eval has, with its values; they print by our names."""
    pytrec_eval = pytest.importorskip("pytrec_eval")
    run, qrels = made_up(2)
    judged = {query: {document: int(grade) for document, grade in qrels[query].items()} for query in qrels}
    ranked = {query: dict(run[query]) for query in run}
    names = sorted(set(TREC.values()))
    theirs = pytrec_eval.RelevanceEvaluator(judged, pytrec_eval.supported_measures).evaluate(ranked)
    for name in names:
        ours = gainful.metric(name, convention="trec")
        values = dict(zip(qrels, ours.per_query(run, qrels).tolist(), strict=True))
        expected = {query: found[name] for query, found in theirs.items() if found[name] == found[name]}
        assert {query: values[query] for query in expected} == pytest.approx(expected, abs=1e-9), name
        assert "_" not in str(ours)
    assert {str(gainful.metric(theirs)) for theirs in TREC.values()} == {
        str(gainful.metric(ours)) for ours in TREC if ours != "wta"
    }
    assert str(gainful.metric("P_10(relevant=2)")) == str(gainful.metric("p@10", relevant=2))
    assert str(gainful.metric("relative_P_5(relevant=2)")) == str(gainful.metric("p@5(divisor=relevant, relevant=2)"))


@pytest.mark.parametrize("subtopics", [False, True])
def test_equal_to_ir_measures_query_by_query(subtopics):
    pytest.importorskip("ir_measures")
    compared = list(compare_with_ir_measures(*made_up(7, subtopics)))
    assert len(compared) >= 35
    assert {spec: largest for spec, _, _, largest in compared if not largest <= 1e-9} == {}


def test_measures_of_subtopics_equal_those_of_ndeval():
    """By pyndeval itself, so that this holds without ir-measures; rank 1 is not normalised there."""
    pyndeval = pytest.importorskip("pyndeval")
    run, qrels = made_up(9, subtopics=True)
    queries = np.repeat(qrels.query_ids, np.diff(qrels.offsets)).tolist()
    rows = [
        pyndeval.SubtopicQrel(*row)
        for row in zip(queries, qrels.subtopics.tolist(), qrels.doc_ids.tolist(), qrels.grades.tolist(), strict=True)
    ]
    found = pyndeval.ndeval(
        rows, [pyndeval.ScoredDoc(q, d, s) for q in run for d, s in run[q].items()], ["alpha-nDCG@10", "ERR-IA@10"]
    )
    for spec, name in (("alpha-ndcg@10", "alpha-nDCG@10"), ("err-ia@10", "ERR-IA@10")):
        ours = gainful.metric(spec, convention="ir-measures").per_query(run, qrels)
        theirs = [found[query][name] for query in qrels]
        np.testing.assert_allclose(ours, theirs, atol=1e-9)
