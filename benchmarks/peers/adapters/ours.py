"""gainful's rankers."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

import gainful
from peers.settings import BINS, LEAST_DOCUMENTS, LEAVES, RATE, SWEEPS
from peers.snapshots import Budget, Clock, Scores, Snapshot, checkpoints, refitted, staged


def trees(train: gainful.RankingData, budget: Budget, *, name: str, **params: Any) -> list[Snapshot]:
    """Boosted trees; the runner validates, as for every library."""
    model = gainful.ranker(
        name,
        n_trees=budget.iterations,
        n_leaves=LEAVES,
        learning_rate=RATE,
        min_docs_in_leaf=LEAST_DOCUMENTS,
        bins=BINS,
        early_stopping=None,
        n_jobs=budget.threads,
        **params,
    )
    clock = Clock(budget)
    model.fit(train, progress=lambda _: clock.tick())

    def scores(data: gainful.RankingData, n: int) -> np.ndarray:
        model.best_iteration_ = n
        return model.predict(data)

    return staged(clock.times, scores)


def linear(train: gainful.RankingData, budget: Budget, *, name: str, **params: Any) -> list[Snapshot]:
    """Linear rankers with a limit on their iterations; the last fit runs to convergence."""

    def fit(n: int) -> tuple[Scores, bool]:
        model = gainful.ranker(name, max_iter=n, **params).fit(train)
        return model.predict, model.n_iter_ < n

    return refitted(fit, checkpoints(budget.iterations, 1.5), budget)


def closed_form(train: gainful.RankingData, budget: Budget, *, name: str, **params: Any) -> list[Snapshot]:
    """A ranker without iterations."""
    return refitted(lambda _: (gainful.ranker(name, **params).fit(train).predict, True), [1], budget)


def ascent(train: gainful.RankingData, budget: Budget) -> list[Snapshot]:
    """Coordinate ascent: sweeps from one start, then more starts."""

    def fit(n: int) -> tuple[Scores, bool]:
        ranker = gainful.CoordinateAscent("ndcg@10", n_restarts=ceil(n / SWEEPS), n_sweeps=min(n, SWEEPS))
        return ranker.fit(train).predict, False

    return refitted(fit, (1, 2, 4, 8, 16, SWEEPS, 2 * SWEEPS, 4 * SWEEPS), budget)
