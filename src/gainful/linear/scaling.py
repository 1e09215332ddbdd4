"""The feature scaling of a fit: divided by standard deviations, or as given.

X is never changed. A solver works on v, which represents the weights w = v/scales of the original features; since
X·w = (X/scales)·v, this trains on the scaled features. Nothing is centred: adding a constant to all scores of a query
changes no ranking loss, and ridge regression has an intercept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from gainful.data.blocks import PerBlock, Task
from gainful.data.dataset import Dataset, RankingData
from gainful.data.query_weights import mean_weight_above_zero
from gainful.data.rows import Array
from gainful.data.spread import Spread, Sums, feature_sums, first_row, spread_of_sums
from gainful.errors import DataError
from gainful.linear.journal import Journal, record_vector
from gainful.parameters.constraints import Choice, Maybe
from gainful.solvers.ridge import NormalEquations, Targets, solve_ridge
from gainful.training.shared_setup import share

SCALE = Maybe(
    inner=Choice(of=("standard",)),
    help="standard divides features by their standard deviations over the training rows; None uses them as given",
)


class Scaling:
    """The scales of one fit, and its initial ridge regressions. A journal, if any, records the scales."""

    def __init__(self, data: Dataset, scale: str | None, journal: Journal | None = None):
        self.data, self.scale, self.journal = data, scale, journal

    @cached_property
    def scales(self) -> Array:
        """What each feature is divided by, (d,); ∞ for a constant feature, whose weight is then exactly 0."""
        if self.scale is None:
            return np.ones(self.data.n_features)
        found = record_vector(self.journal, "feature scales", lambda: self.spread.scales(self.scale))
        if not (found > 0.0).all():
            raise DataError(
                "the checkpoint is damaged (its feature scales are not all positive); delete it to start afresh"
            )
        return found

    @cached_property
    def spread(self) -> Spread:
        return share(self.data, "spread of features", lambda: spread_of_blocks(self.data))

    def deviations(self) -> Array:
        """The standard deviation of each scaled feature; 1 if it is constant."""
        if self.scale is not None:
            return np.ones(self.data.n_features)
        found = record_vector(self.journal, "feature deviations", lambda: self.spread.deviation)
        return np.where(found > 0.0, found, 1.0)

    def ridge(self, alpha: float, targets: Targets = np.asarray) -> tuple[Array, float, float]:
        """(v, b, objective) of ridge regression on the targets of the grades, with the penalty alpha·‖v‖².

        Weights count over their mean by query, so that neither equal ones nor queries of weight 0 change anything.
        """

        def each(task: Task, *arguments: Any) -> list[Any]:
            shared = PerBlock((arguments,) * self.data.n_blocks)
            return self.data.map(_of_targets, targets, task, shared)

        def keep(make: Callable[[], NormalEquations]) -> NormalEquations:
            key = ("normal equations", self.scale, targets)
            return share(self.data, key, make, lambda made: made.gram.nbytes)

        mean = mean_weight_above_zero(self.data)
        v, intercept, objective = solve_ridge(each, self.spread, self.scale, alpha * mean, keep)
        return v, intercept, objective / mean

    def start(self, alpha: float = 1.0) -> Array:
        """The v of ridge regression on the grades, as a start for solvers; alpha is in mean squares of a feature."""

        def make() -> Array:
            squares = self.spread.mean_square(self.scale) / mean_weight_above_zero(self.data)  # as ``ridge`` multiplies
            return self.ridge(alpha * squares)[0]

        return record_vector(self.journal, "ridge regression", make)


class ScaledRisk:
    """A risk as a function of v = w·scales, for any solver; all other methods of the risk still take w."""

    def __init__(self, inner: Any, scales: Array):
        self.inner, self.scales = inner, scales
        self.n_features = inner.n_features

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # not set yet, as while copying
            raise AttributeError(name)
        return getattr(self.inner, name)

    def unscale(self, v: Array) -> Array:
        """The weights of the original features."""
        return self._divide(v)

    def _divide(self, values: Array) -> Array:
        """By the scales; what overflows makes the loss NaN or the slope infinite, which solvers refuse."""
        with np.errstate(all="ignore"):
            return np.asarray(values / self.scales)

    def at(self, iteration: int, total: int) -> ScaledRisk:
        """The risk in iteration 1 … ``total`` of a staged loss."""
        return ScaledRisk(self.inner.at(iteration, total), self.scales)

    def value_and_gradient(self, v: Array) -> tuple[float, Array, Any]:
        value, gradient, scores = self.inner.value_and_gradient(self.unscale(v))
        return value, self._divide(gradient), scores

    def objective(self, v: Array, C: float) -> tuple[float, Array]:
        """½‖v‖² + C·R and its gradient."""
        value, gradient = self.inner.without_scores(self.unscale(v))
        return 0.5 * float(v @ v) + C * value, v + C * self._divide(gradient)


def spread_of_blocks(data: Dataset) -> Spread:
    """Mean and standard deviation of each feature over all blocks."""
    shift = next(row for row in data.map(_first_row) if row is not None)
    return spread_of_sums(data.map(_feature_sums, shift), shift)


# -- tasks -------------------------------------------------------------------------------------------------------------


def _first_row(data: RankingData) -> Array | None:
    """The first row that counts; None if all queries of the block have weight 0."""
    weights = data.query_weights
    return first_row(data.X, data.row_weights) if weights is None or weights.any() else None


def _feature_sums(data: RankingData, shift: Array) -> Sums:
    return feature_sums(data.X, shift, data.row_weights)


def _of_targets(data: RankingData, targets: Targets, task: Task, arguments: tuple[Any, ...]) -> Any:
    weights, wanted = data.row_weights, targets(data.y)
    if data.init_scores is not None:
        wanted = wanted - data.init_scores
    return task(data.X, wanted, np.ones(data.n_rows) if weights is None else weights, *arguments)
