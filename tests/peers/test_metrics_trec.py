"""The measures of trec_eval, through pytrec-eval-terrier."""

from __future__ import annotations

import numpy as np
import pytest

from gainful.metrics import metric

pytrec_eval = pytest.importorskip("pytrec_eval")
MEASURES = {"ndcg", "ndcg_cut", "map", "map_cut", "P", "recip_rank", "success"}
SAME = {"ndcg": "ndcg", "map": "map", "mrr": "recip_rank", "wta": "success_1"}
SAME |= {
    f"{kind}@{k}": f"{name}_{k}"
    for kind, name in (("ndcg", "ndcg_cut"), ("map", "map_cut"), ("p", "P"))
    for k in (5, 10, 100)
}


def rows(seed, n_scores):
    rng = np.random.default_rng(seed)
    sizes = np.concatenate([[1, 1, 2, 9, 10, 11], rng.integers(1, 150, 40)])
    qid = np.repeat(np.arange(len(sizes)), sizes)
    y = rng.integers(0, 5, len(qid)) * rng.integers(0, 2, len(qid))
    y[(qid % 7 == 0)] = 0
    scores = rng.integers(0, n_scores, len(qid)) / 4
    doc_ids = np.array([f"d{i}" for i in rng.permutation(len(qid))])
    return scores, y, qid, doc_ids


def measured(scores, y, qid, doc_ids):
    qrels: dict = {}
    run: dict = {}
    for score, grade, query, document in zip(scores.tolist(), y.tolist(), qid.tolist(), doc_ids.tolist(), strict=True):
        qrels.setdefault(str(query), {})[document] = grade
        run.setdefault(str(query), {})[document] = score
    found = pytrec_eval.RelevanceEvaluator(qrels, MEASURES).evaluate(run)
    return {
        name: np.array([found[str(query)][name] for query in dict.fromkeys(qid.tolist())]) for name in SAME.values()
    }


@pytest.mark.parametrize("n_scores", [1, 6, 10**6])
def test_equal_query_by_query(n_scores):
    scores, y, qid, doc_ids = rows(n_scores, n_scores)
    theirs = measured(scores, y, qid, doc_ids)
    for spec, name in SAME.items():
        ours = metric(spec, convention="trec").per_query(scores, y, qid=qid, doc_ids=doc_ids)
        np.testing.assert_allclose(ours, theirs[name], rtol=1e-9, err_msg=spec)


def test_equal_when_scores_differ_only_beyond_single_precision():
    scores, y, qid, doc_ids = rows(1, 6)
    scores = 1.0 + np.random.default_rng(2).integers(0, 50, len(scores)) * 1e-8
    theirs = measured(scores, y, qid, doc_ids)
    for spec, name in SAME.items():
        ours = metric(spec, convention="trec").per_query(scores, y, qid=qid, doc_ids=doc_ids)
        np.testing.assert_allclose(ours, theirs[name], rtol=1e-9, err_msg=spec)
