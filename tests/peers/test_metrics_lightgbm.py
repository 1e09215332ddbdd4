"""NDCG and MAP as LightGBM reports them while it trains."""

from __future__ import annotations

import numpy as np
import pytest

from gainful.metrics import metric

lgb = pytest.importorskip("lightgbm")
CUTS = [1, 2, 3, 5, 10, 100]


def reported(scores, y, sizes, weight=None):
    """LightGBM's own evaluation of these scores: they enter as initial scores, and no tree changes them."""

    def no_gradient(_predictions, dataset):
        return np.zeros(dataset.num_data()), np.ones(dataset.num_data())

    params = {"objective": no_gradient, "metric": ["ndcg", "map"], "eval_at": CUTS, "verbosity": -1, "num_threads": 1}
    params |= {"min_data_in_leaf": 1, "feature_pre_filter": False}
    X = np.arange(len(y), dtype=float)[:, None]
    data = lgb.Dataset(X, y, group=sizes, init_score=scores, weight=weight, params=params)
    found: dict = {}
    lgb.train(params, data, 1, valid_sets=[data], callbacks=[lgb.record_evaluation(found)])
    return {name: values[0] for name, values in found["training"].items()}


def rows(seed, n_queries=40, n_scores=6):
    rng = np.random.default_rng(seed)
    sizes = np.concatenate([[1, 1, 2, 9, 10, 11], rng.integers(1, 40, n_queries)])
    qid = np.repeat(np.arange(len(sizes)), sizes)
    y = rng.integers(0, 5, len(qid)) * rng.integers(0, 2, len(qid))
    y[(qid % 7 == 0)] = 0
    return rng.integers(0, n_scores, len(qid)) / 4, y.astype(float), qid, sizes


@pytest.mark.parametrize("n_scores", [1, 6, 10**6])
@pytest.mark.parametrize("name", ["ndcg", "map"])
def test_equal_with_ties_and_empty_queries(name, n_scores):
    scores, y, qid, sizes = rows(n_scores, n_scores=n_scores)
    theirs = reported(scores, y, sizes)
    ours = {f"{name}@{k}": metric(f"{name}@{k}", convention="lightgbm")(scores, y, qid=qid) for k in CUTS}
    assert ours == pytest.approx({key: theirs[key] for key in ours}, rel=1e-12)


def test_equal_on_the_scores_of_a_trained_model():
    rng = np.random.default_rng(3)
    _, y, qid, sizes = rows(9)
    X = np.round(rng.normal(size=(len(y), 3)) + y[:, None] / 3, 1)
    params = {"objective": "lambdarank", "metric": ["ndcg", "map"], "eval_at": CUTS, "verbosity": -1, "num_leaves": 4}
    found: dict = {}
    data = lgb.Dataset(X, y, group=sizes)
    model = lgb.train(params | {"num_threads": 1}, data, 5, valid_sets=[data], callbacks=[lgb.record_evaluation(found)])
    scores = model.predict(X)
    assert len(np.unique(scores)) < len(scores) / 3  # trees tie many documents
    for key, values in found["training"].items():
        assert metric(key, convention="lightgbm")(scores, y, qid=qid) == pytest.approx(values[-1], rel=1e-9)


def test_weights_agree_where_no_query_is_empty():
    """LightGBM counts an empty query with weight 1 instead of its own; elsewhere the weighted means agree."""
    scores, y, qid, sizes = rows(4)
    y[np.concatenate([[0], np.cumsum(sizes)[:-1]])] = 1
    weights = np.random.default_rng(0).random(len(sizes)) + 0.5
    theirs = reported(scores, y, sizes, weight=np.repeat(weights, sizes))
    for k in CUTS:
        m = metric(f"ndcg@{k}", convention="lightgbm")
        assert m(scores, y, qid=qid, query_weights=weights) == pytest.approx(theirs[m.name], rel=1e-6)
