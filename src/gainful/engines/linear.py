"""Losses on linear models: what the solvers see of the data.

A :class:`LinearRisk` is R(w) = Σ_q ω_q L_q(X_q w). Each evaluation is one stream over X, which is never copied; along a
line the scores are known and X is not touched.
"""

from __future__ import annotations

import copy
from typing import Any, cast

import numpy as np

from gainful import streams
from gainful.data import RankingData
from gainful.engines.shares import query_shares
from gainful.inference.features import Features
from gainful.losses import Loss
from gainful.losses.base import StagedFill
from gainful.rows import Array, value_blocks
from gainful.streams import read_only


class LinearRisk:
    """R of a training set. ``scales`` (d,): the solvers' vector v stands for the weights w = v/scales."""

    def __init__(
        self,
        loss: Loss,
        data: RankingData,
        weights: Array | None = None,
        *,
        scales: Array | None = None,
        threads: int | None = None,
    ):
        self.loss, self.offsets = loss, read_only(data.offsets)
        self.features = Features(data.X)
        self.fill = loss.bind(np.ascontiguousarray(data.y, dtype=np.float64), self.offsets)
        self.weights = query_shares(data) if weights is None else weights
        self.scales = scales
        self.threads = loss.entry.threads if threads is None else threads
        self.n_features = data.n_features

    def at(self, iteration: int, total: int) -> LinearRisk:
        """The risk in iteration 1 … ``total`` of a staged loss; it shares everything else with this one."""
        stage = copy.copy(self)
        stage.fill = cast(StagedFill, self.fill).at(iteration, total)
        return stage

    def value_and_gradient(self, w: Array) -> tuple[float, Array, Array]:
        value, gradient, scores = streams.risk_of_features(
            self.fill, self.offsets, self.features, self.unscaled(w), self.weights, want_scores=True,
            threads=self.threads,
        )  # fmt: skip
        return value, gradient if self.scales is None else gradient / self.scales, np.asarray(scores)

    def along(self, scores: Array, direction: Array, t: float) -> tuple[float, float]:
        return streams.risk_along(self.fill, self.offsets, scores, direction, t, self.weights, self.threads)

    def unscaled(self, v: Array) -> Array:
        """The weights of the features as they are."""
        return v if self.scales is None else v / self.scales

    def objective(self, w: Array, C: float) -> tuple[float, Array]:
        """½‖w‖² + C·R(w) and its gradient."""
        value, gradient, _ = self.value_and_gradient(w)
        return 0.5 * float(w @ w) + C * value, w + C * gradient


def feature_scales(X: Any) -> Array:
    """The standard deviation of each feature, 1 where it is constant; block by block, without a copy of X."""
    return scales_of_sums([feature_sums(X, first_row(X))])


def first_row(X: Any) -> Array:
    """A point near the values, from which sums of squares lose few digits; 0 where most values are."""
    return X[0].astype(np.float64) if isinstance(X, np.ndarray) else np.zeros(X.shape[1])


def feature_sums(X: Any, shift: Array) -> tuple[int, Array, Array]:
    """How many rows, and Σ (x − shift) and Σ (x − shift)² over them."""
    n, d = X.shape
    if not isinstance(X, np.ndarray):
        total = np.bincount(X.indices, weights=X.data, minlength=d)
        squares = np.bincount(X.indices, weights=np.square(X.data, dtype=np.float64), minlength=d)
        return n, total, squares
    total, squares = np.zeros(d), np.zeros(d)
    for block in value_blocks(X):
        away = block.astype(np.float64) - shift
        total += away.sum(axis=0)
        squares += np.einsum("ij,ij->j", away, away)
    return n, total, squares


def scales_of_sums(parts: list[tuple[int, Array, Array]]) -> Array:
    """Standard deviations from the sums of the blocks of the data, all taken about one point."""
    n = sum(part[0] for part in parts)
    total, squares = sum(part[1] for part in parts), sum(part[2] for part in parts)
    variance = squares / n - (total / n) ** 2
    noise = 1e-12 * np.maximum(squares / n, np.finfo(np.float64).tiny)
    return np.asarray(np.where(variance > noise, np.sqrt(np.maximum(variance, 0.0)), 1.0))
