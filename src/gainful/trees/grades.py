"""Grades as classes: labels, relevance, and the cumulative logistic models of ordinal classification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from gainful.data.dataset import Dataset, RankingData
from gainful.data.query_weights import rows_of_mean_one
from gainful.data.rows import Array

LARGEST_PLAIN_GRADE = 30.0  # LightGBM keeps labels and gains of splits in float32: 2^60 still has room there


def relevance_of(grades: Array, kind: str, highest: float | None = None) -> Array:
    """T of each grade: the grade, or its gain 2^g − 1; above a highest grade of 30 divided by 2^(highest grade).

    ``highest`` is the highest grade of all data, if these grades are a part.
    """
    if kind == "grade":
        return grades
    top = float(grades.max()) if highest is None else highest
    if top <= LARGEST_PLAIN_GRADE:
        return np.asarray(np.exp2(grades) - 1.0)
    return np.asarray(np.exp2(grades - top) - np.exp2(-top))


@dataclass(frozen=True)
class Tally:
    """The distinct grades of some rows in ascending order, how many rows have each, and the weight of these rows."""

    grades: Array
    counts: Array
    weights: Array

    @classmethod
    def of(cls, y: Array, weights: Array | None) -> Self:
        distinct, rank, counts = np.unique(y, return_inverse=True, return_counts=True)
        weighed = counts.astype(np.float64) if weights is None else np.bincount(rank, weights, len(distinct))
        return cls(distinct, counts, weighed)

    @classmethod
    def of_data(cls, data: Dataset) -> Self:
        """Over all rows, wherever they are."""
        if isinstance(data, RankingData):
            return cls.of(data.y, data.row_weights)
        parts: list[Tally] = data.map(_tally)
        distinct, rank = np.unique(np.concatenate([part.grades for part in parts]), return_inverse=True)
        counts = np.bincount(rank, np.concatenate([part.counts for part in parts]), len(distinct))
        weights = np.bincount(rank, np.concatenate([part.weights for part in parts]), len(distinct))
        return cls(distinct, counts.astype(np.int64), weights)


def _tally(data: RankingData) -> Tally:
    return Tally.of(data.y, data.row_weights)


@dataclass(frozen=True)
class Grades:
    """The classes that the grades of training data fall into, in ascending order.

    ``lows`` is the lowest grade of each class, ``highs`` the highest, ``grades`` their grade and ``relevance`` T (means
    where grades are merged), all (K,). ``start`` (K − 1,) is the log odds of Pr(g ≥ k), k ≥ 2, in the training data.
    """

    lows: Array
    highs: Array
    grades: Array
    relevance: Array
    start: Array

    @classmethod
    def of(cls, y: Array, kind: str, most: int | None, weights: Array | None) -> Self:
        """One class per distinct grade; more than ``most`` grades are merged into classes of about equal size."""
        return cls.of_tally(Tally.of(y, weights), kind, most)

    @classmethod
    def of_tally(cls, tally: Tally, kind: str, most: int | None) -> Self:
        distinct, counts = tally.grades, tally.counts
        if most is None or len(distinct) <= most:
            member = np.arange(len(distinct))
        else:
            middle = np.cumsum(counts) - 0.5 * counts
            member = np.unique(np.floor(most * middle / counts.sum()), return_inverse=True)[1]
        first = np.flatnonzero(np.diff(member, prepend=-1))
        last = np.append(first[1:], len(member)) - 1
        relevance = relevance_of(distinct, kind)

        def mean(values: Array) -> Array:
            if len(first) == len(distinct):
                return values  # not even rounded
            return np.asarray(np.add.reduceat(values * counts, first) / np.add.reduceat(counts, first))

        return cls(
            lows=distinct[first],
            highs=distinct[last],
            grades=mean(distinct),
            relevance=mean(relevance),
            start=_start(np.bincount(member, tally.weights)),
        )

    @property
    def n(self) -> int:
        return len(self.lows)

    def labels(self, y: Array) -> Array:
        """The class of each grade, 0 … K − 1."""
        return np.maximum(np.searchsorted(self.lows, y, side="right") - 1, 0)

    def stranger(self, y: Array) -> float | None:
        """A grade that belongs to no class, or None."""
        outside = np.flatnonzero((y < self.lows[0]) | (y > self.highs[self.labels(y)]))
        return float(y[outside[0]]) if len(outside) else None

    def at_least(self, raw: Array) -> Array:
        """Pr(g ≥ k), (n_rows, K − 1), from the trees' sums, (n_rows,) or (n_rows, K − 1)."""
        from scipy.special import expit

        return np.asarray(expit(raw.reshape(-1, len(self.start)) + self.start))

    def pack(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def unpack(cls, state: Mapping[str, Any]) -> Self:
        fields = {name: np.asarray(state[name], dtype=np.float64) for name in cls.__dataclass_fields__}
        n = fields["lows"].size
        if n == 0 or any(field.shape != (n - (name == "start"),) for name, field in fields.items()):
            raise ValueError("the classes of grades do not fit together")
        return cls(**fields)


def _start(share: Array) -> Array:
    """The log odds of Pr(g ≥ k), k ≥ 2, where each class has its share."""
    above = np.cumsum(share[::-1])[::-1][1:]
    # classes whose queries have weight 0 would have infinite odds
    p = np.clip(above / share.sum(), 1e-15, 1.0 - 1e-15)
    return np.asarray(np.log(p) - np.log1p(-p))


class CumulativeLogits:
    """Gradients of K − 1 logistic models, one for each of Pr(g ≥ k), k = 2 … K, side by side in one booster.

    LightGBM grows the trees of an iteration each from its own column of gradients, so they are the trees that K − 1
    boosters of their own would grow, but the binned features are stored only once. Each model starts from ``start``,
    the log odds of the training data, as LightGBM's ``binary`` does.
    """

    value = None

    def __init__(self, labels: Array, start: Array, weights: Array | None):
        self.labels, self.start, self.weights = labels, start, weights
        # class after class, as LightGBM reads them
        self.gradient = np.empty((len(start), len(labels)), dtype=np.float32)
        self.curvature = np.empty_like(self.gradient)

    def __call__(self, scores: Array, iteration: int) -> tuple[Array, Array]:
        from scipy.special import expit

        columns = scores.reshape(len(self.labels), -1).T
        for k, column in enumerate(columns):
            p = expit(column + self.start[k])
            error, curvature = p - (self.labels > k), p * (1.0 - p)
            self.gradient[k] = error if self.weights is None else error * self.weights
            self.curvature[k] = curvature if self.weights is None else curvature * self.weights
        if len(columns) == 1:
            return self.gradient[0], self.curvature[0]
        return self.gradient.T, self.curvature.T


def cumulative_logits(
    grades: Grades, data: RankingData, mean_weight: float | None = None, **_: Any
) -> CumulativeLogits:
    """The objective of some queries; one thread suffices."""
    return CumulativeLogits(grades.labels(data.y), grades.start, rows_of_mean_one(data, mean_weight))


def proper_probabilities(at_least: Array, steps: Array) -> Array:
    """Pr(g = k), (n_rows, K), from Pr(g ≥ k), (n_rows, K − 1), made to fall with k where they cross.

    The falling sequence is the nearest by least squares with the weights ``steps``, T(k) − T(k − 1); it pools
    neighbours into their weighted means and so keeps Σ_k steps_k Pr(g ≥ k).
    """
    from gainful.trees.grades_kernels import pool_rising

    falling = np.ascontiguousarray(at_least, dtype=np.float64).copy()
    pool_rising(falling, np.ascontiguousarray(steps, dtype=np.float64))
    edges = np.concatenate([np.ones((len(falling), 1)), falling, np.zeros((len(falling), 1))], axis=1)
    return np.asarray(edges[:, :-1] - edges[:, 1:])
