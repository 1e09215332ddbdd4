"""NDCG, MAP and precision as XGBoost evaluates them."""

from __future__ import annotations

import numpy as np
import pytest

from gainful.metrics import metric

xgb = pytest.importorskip("xgboost")


def reported(scores, y, sizes, names, **params):
    """XGBoost's own evaluation of these scores: they enter as base margins of a model without trees."""
    data = xgb.DMatrix(np.zeros((len(y), 1)), y, base_margin=scores)
    data.set_group(sizes)
    params |= {"objective": "rank:ndcg", "eval_metric": names, "nthread": 1}
    line = xgb.train(params, data, 0).eval(data)
    return {
        name.removeprefix("eval-"): float(value) for name, value in (part.split(":") for part in line.split("\t")[1:])
    }


def rows(seed, n_grades, n_scores=6):
    rng = np.random.default_rng(seed)
    sizes = np.concatenate([[1, 1, 2, 9, 10, 11], rng.integers(1, 40, 40)])
    qid = np.repeat(np.arange(len(sizes)), sizes)
    y = rng.integers(0, n_grades, len(qid)) * rng.integers(0, 2, len(qid))
    y[(qid % 7 == 0)] = 0
    return rng.integers(0, n_scores, len(qid)) / 4, y.astype(float), qid, sizes


@pytest.mark.parametrize("n_scores", [1, 6, 10**6])
@pytest.mark.parametrize("k", [1, 3, 10, 100])
def test_ndcg(k, n_scores):
    scores, y, qid, sizes = rows(k, 5, n_scores)
    theirs = reported(scores, y, sizes, [f"ndcg@{k}", f"ndcg@{k}-"])
    m = metric(f"ndcg@{k}", convention="xgboost")
    assert m(scores, y, qid=qid) == pytest.approx(theirs[m.name], rel=1e-6)
    assert metric(m, empty=0)(scores, y, qid=qid) == pytest.approx(theirs[f"{m.name}-"], rel=1e-6)
    linear = reported(scores, y, sizes, [m.name], ndcg_exp_gain=False)
    assert metric(m, gain="linear")(scores, y, qid=qid) == pytest.approx(linear[m.name], rel=1e-6)


@pytest.mark.parametrize("n_scores", [1, 6, 10**6])
@pytest.mark.parametrize("k", [1, 3, 10, 100])
def test_map_and_precision(k, n_scores):
    scores, y, qid, sizes = rows(k, 2, n_scores)
    theirs = reported(scores, y, sizes, [f"map@{k}", f"map@{k}-", f"pre@{k}"])
    m = metric(f"map@{k}", convention="xgboost")
    assert m(scores, y, qid=qid) == pytest.approx(theirs[m.name], rel=1e-9)
    assert metric(m, empty=0)(scores, y, qid=qid) == pytest.approx(theirs[f"{m.name}-"], rel=1e-9)
    precision = metric(f"p@{k}", convention="xgboost")
    assert precision(scores, y, qid=qid) == pytest.approx(theirs[f"pre@{k}"], rel=1e-9)


@pytest.mark.parametrize("name", ["ndcg", "map"])
def test_a_name_without_a_rank_means_32(name):
    """XGBoost cuts at its default number of pairs, where every other tool looks at the whole list."""
    scores, y, qid, sizes = rows(0, 2)
    theirs = reported(scores, y, sizes, [name])[name]
    assert metric(f"{name}@32", convention="xgboost")(scores, y, qid=qid) == pytest.approx(theirs, rel=1e-6)
    assert metric(name, convention="xgboost")(scores, y, qid=qid) != pytest.approx(theirs, rel=1e-4)
