"""How a fit measures its features: divided by their standard deviations, or as they are given.

X is never touched. A solver works on v, which stands for the weights w = v/scales of the features as they are; since
X·w = (X/scales)·v, that is training on the scaled features. Nothing is centred: adding a constant to all scores of a
query changes no ranking loss, and ridge regression has an intercept for it.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from gainful.data.blocks import PerBlock, Task
from gainful.data.dataset import Dataset, RankingData
from gainful.data.rows import Array
from gainful.data.spread import Spread, Sums, feature_sums, first_row, spread_of_sums
from gainful.linear.journal import Journal, record_vector
from gainful.parameters.constraints import Choice, Maybe
from gainful.solvers.ridge import Targets, solve_ridge_of_sums

SCALE = Maybe(
    inner=Choice(of=("standard",)),
    help="standard divides features by their standard deviations over the training rows; None takes them as given",
)


class Scaling:
    """The scales of one fit, and the ridge regressions that start it. With a journal, scales are written there."""

    def __init__(self, data: Dataset, scale: str | None, journal: Journal | None = None):
        self.data, self.scale, self.journal = data, scale, journal

    @cached_property
    def scales(self) -> Array:
        """What each feature is divided by, (d,); ∞ for a constant one, whose weight then is exactly 0."""
        if self.scale is None:
            return np.ones(self.data.n_features)
        return record_vector(self.journal, "feature scales", lambda: self.spread.scales(self.scale))

    @cached_property
    def spread(self) -> Spread:
        return spread_of_blocks(self.data)

    def deviations(self) -> Array:
        """The standard deviation of each scaled feature; 1 where it is constant."""
        if self.scale is not None:
            return np.ones(self.data.n_features)
        found = record_vector(self.journal, "feature deviations", lambda: self.spread.deviation)
        return np.where(found > 0.0, found, 1.0)

    def ridge(self, alpha: float, targets: Targets = np.asarray) -> tuple[Array, float, float]:
        """(v, b, objective) of ridge regression on the targets of the grades, with the penalty alpha·‖v‖²."""

        def each(task: Task, *arguments: Any) -> list[Any]:
            shared = PerBlock((arguments,) * self.data.n_blocks)
            return self.data.map(_of_targets, targets, task, shared)

        return solve_ridge_of_sums(each, self.spread, self.scale, alpha)

    def start(self, alpha: float = 1.0) -> Array:
        """v of ridge regression on the grades, for solvers to start from; alpha counts mean squares of a feature."""
        return record_vector(
            self.journal, "ridge regression", lambda: self.ridge(alpha * self.spread.mean_square(self.scale))[0]
        )


class ScaledRisk:
    """A risk as a function of v = w·scales, for any solver; what else the risk can do, it does for w."""

    def __init__(self, inner: Any, scales: Array):
        self.inner, self.scales = inner, scales
        self.n_features = inner.n_features

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # not set yet, as in a copy that is being made
            raise AttributeError(name)
        return getattr(self.inner, name)

    def unscaled(self, v: Array) -> Array:
        """The weights of the features as they are."""
        return np.asarray(v / self.scales)

    def at(self, iteration: int, total: int) -> ScaledRisk:
        """The risk in iteration 1 … ``total`` of a staged loss."""
        return ScaledRisk(self.inner.at(iteration, total), self.scales)

    def value_and_gradient(self, v: Array) -> tuple[float, Array, Any]:
        value, gradient, scores = self.inner.value_and_gradient(self.unscaled(v))
        return value, gradient / self.scales, scores

    def objective(self, v: Array, C: float) -> tuple[float, Array]:
        """½‖v‖² + C·R and its gradient."""
        value, gradient = self.inner.without_scores(self.unscaled(v))
        return 0.5 * float(v @ v) + C * value, v + C * (gradient / self.scales)


def spread_of_blocks(data: Dataset) -> Spread:
    """Mean and standard deviation of each feature over all blocks."""
    shift = next(row for row in data.map(_first_row) if row is not None)
    return spread_of_sums(data.map(_feature_sums, shift), shift)


# -- tasks -------------------------------------------------------------------------------------------------------------


def _first_row(data: RankingData) -> Array | None:
    """The first row that counts; None where all queries of the block weigh 0."""
    weights = data.query_weights
    return first_row(data.X, data.row_weights) if weights is None or weights.any() else None


def _feature_sums(data: RankingData, shift: Array) -> Sums:
    return feature_sums(data.X, shift, data.row_weights)


def _of_targets(data: RankingData, targets: Targets, task: Task, arguments: tuple[Any, ...]) -> Any:
    weights = data.row_weights
    return task(data.X, targets(data.y), np.ones(data.n_rows) if weights is None else weights, *arguments)
