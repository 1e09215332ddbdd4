"""A loss on a linear model, as the solvers see it.

A :class:`LinearRisk` is R(w) = Σ_q ω_q L_q(X_q w), for any loss: the loss enters only through its fill, which
:meth:`gainful.losses.Loss.bind` returns. Each evaluation is one pass over X, which is never copied; along a line the
scores are known, and X is not read.
"""

from __future__ import annotations

import copy
from typing import Any, cast

import numpy as np

from gainful.compute import query_loop
from gainful.compute.features import Features
from gainful.compute.query_loop import Fill
from gainful.data.dataset import RankingData
from gainful.data.query_weights import query_shares
from gainful.data.rows import Array, read_only
from gainful.losses import Loss
from gainful.losses.base import StagedFill


class LinearRisk:
    """R of the rows X of queries that end at ``offsets``, with the weights ω_q of the queries."""

    def __init__(self, fill: Fill, X: Any, offsets: Array, weights: Array, *, threads: int | None = None):
        self.fill, self.features, self.offsets = fill, Features(X), read_only(offsets)
        self.weights, self.threads = np.ascontiguousarray(weights, dtype=np.float64), threads
        self.n_features, self.n_queries = self.features.n_features, len(self.offsets) - 1

    @classmethod
    def of(
        cls, loss: Loss, data: RankingData, weights: Array | None = None, *, threads: int | None = None
    ) -> LinearRisk:
        """The risk of a loss on a training set; without weights the ω_q are the queries' shares."""
        fill = loss.bind_to(data)
        weights = query_shares(data) if weights is None else weights
        return cls(fill, data.X, data.offsets, weights, threads=loss.entry.threads if threads is None else threads)

    def at(self, iteration: int, total: int) -> LinearRisk:
        """The risk in iteration 1 … ``total`` of a staged loss; it shares everything else with this one."""
        stage = copy.copy(self)
        stage.fill = cast(StagedFill, self.fill).at(iteration, total)
        return stage

    def value_and_gradient(self, w: Array) -> tuple[float, Array, Array]:
        value, gradient, scores = query_loop.risk_of_features(
            self.fill, self.offsets, self.features, w, self.weights, want_scores=True, threads=self.threads
        )
        return value, gradient, np.asarray(scores)

    def along(self, scores: Array, direction: Array, t: float) -> tuple[float, float]:
        return query_loop.risk_along(self.fill, self.offsets, scores, direction, t, self.weights, self.threads)
