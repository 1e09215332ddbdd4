"""Scores of rows after each tree, in one pass over the rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from gainful.data.dataset import RankingData
from gainful.data.frames import without_codes
from gainful.data.rows import Array, chunks
from gainful.metrics import Metric
from gainful.trees.data_sets import as_lightgbm
from gainful.trees.grow import predict_rows

ROWS = 1 << 15  # whose scores after every tree are in memory at once, with one model per tree

ToScores = Callable[[Array], Array]


def start_scores(data: RankingData, trees: str) -> Array:
    """The raw scores of all rows, (n_rows,) or (n_rows, models), by the trees of a booster's text."""
    return predict_rows(_booster(trees), data.X, -1, raw_score=True, **_threads_here())


def add_trees(data: RankingData, scores: Array | None, trees: str) -> Array:
    """Raw scores after these trees, from those before: the same sums as LightGBM's while it grows them."""
    total: Array | None = None
    for rows, _, sums in _sums(data, scores, _booster(trees)):
        total = np.empty((data.n_rows, *sums.shape[2:])) if total is None else total
        total[rows] = sums[-1]
    assert total is not None
    return total


def measure_trees(
    data: RankingData, scores: Array | None, trees: str, metric: Metric, to_scores: ToScores
) -> tuple[Array, Array]:
    """The metric of each query after each tree, (trees, n_queries), and the raw scores after the last."""
    values, total = np.empty((0, 0)), np.empty(0)
    for rows, queries, sums in _sums(data, scores, _booster(trees)):
        if not values.size:
            values, total = np.empty((len(sums), data.n_queries)), np.empty((data.n_rows, *sums.shape[2:]))
        part = data[queries]
        for t, raw in enumerate(sums):
            values[t, queries] = metric.per_query(to_scores(raw), part)
        total[rows] = sums[-1]
    return values, total


def softmax(raw: Array) -> Array:
    """Probabilities of classes, as LightGBM's multiclass predicts them."""
    from scipy.special import softmax as of_rows

    return np.asarray(of_rows(raw, axis=1))


def _threads_here() -> dict[str, int]:
    """LightGBM's setting on a worker of a cluster: the threads that Dask gave it; elsewhere all cores."""
    distributed = sys.modules.get("distributed")
    try:
        return {} if distributed is None else {"num_threads": int(distributed.get_worker().state.nthreads)}
    except ValueError:  # not on a worker
        return {}


def _booster(trees: str) -> Any:
    from gainful.trees.lightgbm_library import lgb

    return lgb.Booster(model_str=trees)


def _sums(data: RankingData, scores: Array | None, booster: Any) -> Iterator[tuple[slice, slice, Array]]:
    """For runs of queries: their rows, the queries, and raw scores (trees, rows) or (trees, rows, models)."""
    leaves = _leaf_values(booster)
    at_once = max(1, ROWS // booster.num_model_per_iteration())
    for first, last in pairwise(chunks(data.offsets, 0, data.n_queries, at_once)):
        rows = slice(int(data.offsets[first]), int(data.offsets[last]))
        X = as_lightgbm(without_codes(data.X[rows]))
        sums = _tree_outputs(booster, X, leaves)
        if scores is not None:
            sums[0] += scores[rows]
        for t in range(1, len(sums)):
            sums[t] += sums[t - 1]
        yield rows, slice(first, last), sums


def _leaf_values(booster: Any) -> list[Array]:
    """The value of each leaf of each tree."""
    return [
        np.array([booster.get_leaf_output(t, leaf) for leaf in range(tree["num_leaves"])])
        for t, tree in enumerate(booster.dump_model()["tree_info"])
    ]


def _tree_outputs(booster: Any, X: Any, leaves: list[Array]) -> Array:
    n, models = X.shape[0], booster.num_model_per_iteration()
    n_trees = booster.current_iteration()
    reached = booster.predict(X, pred_leaf=True, **_threads_here()).reshape(n, n_trees, models).astype(np.intp)
    outputs = np.empty((n_trees, n, models))
    for t in range(n_trees):
        for k in range(models):
            outputs[t, :, k] = leaves[t * models + k][reached[:, t, k]]
    return outputs if models > 1 else outputs[:, :, 0]
