"""Losses on linear models: what the solvers see of the data.

A :class:`LinearRisk` is R(w) = Σ_q ω_q L_q(X_q w). Each evaluation is one stream over X, which is never copied; along a
line the scores are known and X is not touched.
"""

from __future__ import annotations

import copy
from typing import cast

import numpy as np

from gainful.compute import query_loop
from gainful.compute.features import Features
from gainful.data.dataset import RankingData
from gainful.data.query_weights import query_shares
from gainful.data.rows import Array, read_only
from gainful.losses import Loss
from gainful.losses.base import StagedFill


class LinearRisk:
    """R of a training set."""

    def __init__(
        self,
        loss: Loss,
        data: RankingData,
        weights: Array | None = None,
        *,
        threads: int | None = None,
    ):
        self.loss, self.offsets = loss, read_only(data.offsets)
        self.features = Features(data.X)
        self.fill = loss.bind(np.ascontiguousarray(data.y, dtype=np.float64), self.offsets)
        self.weights = query_shares(data) if weights is None else weights
        self.threads = loss.entry.threads if threads is None else threads
        self.n_features = data.n_features

    def at(self, iteration: int, total: int) -> LinearRisk:
        """The risk in iteration 1 … ``total`` of a staged loss; it shares everything else with this one."""
        stage = copy.copy(self)
        stage.fill = cast(StagedFill, self.fill).at(iteration, total)
        return stage

    def value_and_gradient(self, w: Array) -> tuple[float, Array, Array]:
        value, gradient, scores = query_loop.risk_of_features(
            self.fill, self.offsets, self.features, w, self.weights, want_scores=True,
            threads=self.threads,
        )  # fmt: skip
        return value, gradient, np.asarray(scores)

    def along(self, scores: Array, direction: Array, t: float) -> tuple[float, float]:
        return query_loop.risk_along(self.fill, self.offsets, scores, direction, t, self.weights, self.threads)
