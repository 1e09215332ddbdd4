"""fastrank: coordinate ascent on NDCG@10 and random forests, written in Rust. It does not report progress.

The runner sets its threads through ``RAYON_NUM_THREADS``.
"""

from __future__ import annotations

from math import ceil

import fastrank
import numpy as np

import gainful
from peers.settings import LEAST_DOCUMENTS, SWEEPS
from peers.snapshots import Budget, Scores, Snapshot, checkpoints, refitted


def ascent(train: gainful.RankingData, budget: Budget) -> list[Snapshot]:
    def fit(n: int) -> tuple[Scores, bool]:
        request = fastrank.TrainRequest.coordinate_ascent()
        request.params.num_restarts, request.params.num_max_iterations = ceil(n / SWEEPS), min(n, SWEEPS)
        return _trained(train, request), False

    return refitted(fit, (1, 2, 4, 8, 16, SWEEPS, 2 * SWEEPS, 4 * SWEEPS), budget)


def forest(train: gainful.RankingData, budget: Budget) -> list[Snapshot]:
    """Its own defaults (depth 8, half of the queries, a quarter of the features) except for the smallest leaf."""

    def fit(n: int) -> tuple[Scores, bool]:
        request = fastrank.TrainRequest.random_forest()
        request.params.num_trees, request.params.min_leaf_support = n, LEAST_DOCUMENTS
        return _trained(train, request), False

    return refitted(fit, checkpoints(budget.iterations, 2.0), budget)


def _trained(train: gainful.RankingData, request: fastrank.TrainRequest) -> Scores:
    request.measure, request.params.seed, request.params.quiet = "ndcg@10", 1, True
    model = _dataset(train).train_model(request)
    return lambda rows: np.asarray(model.predict_dense_scores(_dataset(rows)), dtype=np.float64)


def _dataset(data: gainful.RankingData) -> fastrank.CDataset:
    query = np.repeat(np.arange(data.n_queries), data.counts)
    return fastrank.CDataset.from_numpy(np.ascontiguousarray(data.X, dtype=np.float32), data.y, query)
