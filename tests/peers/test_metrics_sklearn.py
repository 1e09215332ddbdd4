"""DCG, NDCG, average precision and the area under the curve of scikit-learn, one query at a time."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import (
    average_precision_score,
    dcg_score,
    label_ranking_average_precision_score,
    ndcg_score,
    roc_auc_score,
)

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


@pytest.mark.parametrize("n_scores", [1, 4, 10**6])
def test_two_grades_in_order_are_the_area_under_the_curve(n_scores):
    for scores, grades in queries(6, n_scores):
        relevant = grades >= 1
        ours = metric("pair-accuracy")(scores, relevant, qid=np.zeros(len(grades)))
        if relevant.any() and not relevant.all():
            assert ours == pytest.approx(roc_auc_score(relevant, scores), rel=1e-12)
        else:
            assert np.isnan(ours)
