"""Losses on linear models: what the solvers see of the data.

A :class:`LinearRisk` is R(w) = Σ_q ω_q L_q(X_q w). Each evaluation is one stream over X, which is never copied; along a
line the scores are known and X is not touched.
"""

from __future__ import annotations

import copy
from typing import cast

import numpy as np

from gainful import streams
from gainful.data import RankingData
from gainful.engines.structured import query_shares
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


def pair_counts(data: RankingData) -> Array:
    """|R_q|, the pairs of documents of different grades, of each query: (n_queries,) float64."""
    query = np.repeat(np.arange(data.n_queries), data.counts)
    order = np.lexsort((data.y, query))
    y, q = data.y[order], query[order]
    new = np.ones(len(y), dtype=bool)
    new[1:] = (y[1:] != y[:-1]) | (q[1:] != q[:-1])
    sizes = np.diff(np.append(np.flatnonzero(new), len(y))).astype(np.float64)
    same = np.bincount(q[new], weights=sizes**2, minlength=data.n_queries)
    counts = data.counts.astype(np.float64)
    return np.asarray((counts**2 - same) / 2.0)


def pair_shares(data: RankingData) -> Array:
    """ω_q in proportion to the query's weight and pairs: Σ_q ω_q (mean over pairs) is the mean over all pairs."""
    shares = query_shares(data) * pair_counts(data)
    total = shares.sum()
    return np.asarray(shares / total) if total > 0 else query_shares(data)


def feature_scales(X: object) -> Array:
    """The standard deviation of each feature, 1 where it is constant; block by block, without a copy of X."""
    n, d = X.shape  # type: ignore[attr-defined]
    total, squares = np.zeros(d), np.zeros(d)
    shift = np.zeros(d)
    if isinstance(X, np.ndarray):
        shift = X[0].astype(np.float64)
        for block in value_blocks(X):
            away = block.astype(np.float64) - shift
            total += away.sum(axis=0)
            squares += np.einsum("ij,ij->j", away, away)
    else:
        values, columns = X.data, X.indices  # type: ignore[attr-defined]
        total = np.bincount(columns, weights=values, minlength=d)
        squares = np.bincount(columns, weights=np.square(values, dtype=np.float64), minlength=d)
    variance = squares / n - (total / n) ** 2
    noise = 1e-12 * np.maximum(squares / n, np.finfo(np.float64).tiny)
    return np.asarray(np.where(variance > noise, np.sqrt(np.maximum(variance, 0.0)), 1.0))
