"""DCG, NDCG and average precision of scikit-learn, one query at a time."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, dcg_score, label_ranking_average_precision_score, ndcg_score

from gainful.metrics import metric


def queries(seed, n_scores):
    rng = np.random.default_rng(seed)
    for size in [2, 3, 9, 10, 11, 40, 200]:
        grades = rng.integers(0, 5, size) * rng.integers(0, 2, size)
        yield rng.integers(0, n_scores, size).astype(float), grades
    yield np.arange(5.0), np.zeros(5)


@pytest.mark.parametrize("n_scores", [1, 4, 10**6])
@pytest.mark.parametrize("k", [None, 1, 3, 10, 100])
def test_discounted_gain(k, n_scores):
    for scores, grades in queries(k or 0, n_scores):
        qid = np.zeros(len(grades))
        for kind, theirs in (("ndcg", ndcg_score), ("dcg", dcg_score)):
            m = metric(kind if k is None else f"{kind}@{k}", convention="sklearn")
            assert m(scores, grades, qid=qid) == pytest.approx(theirs([grades], [scores], k=k), rel=1e-12)
            if kind == "ndcg":
                cut = metric(m, ties="input")(-np.arange(len(grades)), grades, qid=qid)
                order = [-np.arange(len(grades))]
                assert cut == pytest.approx(theirs([grades], order, k=k, ignore_ties=True), rel=1e-12)


def test_average_precision_without_ties():
    """With ties scikit-learn's two functions treat equal scores as one step, each in its own way."""
    for scores, grades in queries(5, 10**9):
        relevant = grades >= 1
        if relevant.any():
            ours = metric("map", convention="sklearn")(scores, grades, qid=np.zeros(len(grades)))
            assert ours == pytest.approx(average_precision_score(relevant, scores), rel=1e-12)
            assert ours == pytest.approx(label_ranking_average_precision_score([relevant], [scores]), rel=1e-12)
