"""A risk that is a sum over blocks of queries: what the solvers see, wherever the blocks are.

Each block holds a risk of its own (:mod:`gainful.engines.linear`, ``structured``, ``pairwise``), tied to its grades
once. An evaluation sends the weights to the blocks and adds up values and gradients in the order of the blocks. Scores
stay with the blocks, as :class:`~gainful.blocks.RowVector`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from gainful.blocks import Kept, RowVector, Task
from gainful.data import RankingData
from gainful.engines.linear import LinearRisk, feature_sums, first_row, scales_of_sums
from gainful.engines.shares import block_shares, pair_counts
from gainful.losses import Loss
from gainful.rows import Array, linear_scores
from gainful.sharded import ShardedData
from gainful.solvers import ridge


class SummedRisk:
    """R(w) = Σ over blocks of their own risks. ``scales`` (d,): the solvers' vector v stands for the weights v/scales.

    ``parts`` are risks with ``value_and_gradient`` and ``along`` of their own, one kept with each block.
    """

    def __init__(self, data: ShardedData, parts: Kept, *, scales: Array | None = None, loss: Loss | None = None):
        self.source, self.parts, self.scales = data.source, parts, scales
        self.n_features = data.n_features
        self.loss = loss
        self.stage: tuple[int, int] | None = None

    def at(self, iteration: int, total: int) -> SummedRisk:
        """The risk in iteration 1 … ``total`` of a staged loss; it shares everything else with this one."""
        staged = copy.copy(self)
        staged.stage = (iteration, total)
        return staged

    def value_and_gradient(self, w: Array) -> tuple[float, Array, RowVector]:
        weights = np.array(self.unscaled(w))
        answers, kept = self.source.run_and_keep(_evaluated, self.parts, weights, self.stage)
        value, gradient = self._sum(answers)
        return value, gradient, RowVector(self.source, kept, weights)

    def along(self, scores: RowVector, direction: RowVector, t: float) -> tuple[float, float]:
        answers = self.source.run(_along, self.parts, scores.kept, direction.kept, float(t))
        return float(sum(value for value, _ in answers)), float(sum(slope for _, slope in answers))

    def unscaled(self, v: Array) -> Array:
        """The weights of the features as they are."""
        return v if self.scales is None else v / self.scales

    def objective(self, w: Array, C: float) -> tuple[float, Array]:
        """½‖w‖² + C·R(w) and its gradient."""
        value, gradient = self._sum(self.source.run(_value_and_gradient, self.parts, self.unscaled(w), self.stage))
        return 0.5 * float(w @ w) + C * value, w + C * gradient

    def _sum(self, answers: list[tuple[float, Array]]) -> tuple[float, Array]:
        value = float(sum(value for value, _ in answers))
        gradient = answers[0][1]
        if len(answers) > 1:
            gradient = np.array(gradient)
            for _, more in answers[1:]:
                gradient += more
        return value, gradient if self.scales is None else gradient / self.scales


def linear_risk(loss: Loss, data: ShardedData, *, by_pairs: bool = False, scales: Array | None = None) -> SummedRisk:
    """Σ_q ω_q L_q(X_q w), where the ω_q sum to 1: alike, by weight, or also by the number of the query's pairs."""
    total = data.total_weight
    if by_pairs:
        pairs = float(sum(data.source.run(_weighted_pairs, data.source.data)))
        total, by_pairs = (pairs, True) if pairs > 0 else (total, False)
    parts = data.source.keep(_bind_linear, data.source.data, loss, total, by_pairs)
    return SummedRisk(data, parts, scales=scales, loss=loss)


def sharded_scales(data: ShardedData) -> Array:
    """The standard deviation of each feature, 1 where it is constant."""
    shift = data.source.run(_first_row, Kept(data.source.data.parts[:1]))[0]
    return scales_of_sums(data.source.run(_feature_sums, data.source.data, shift))


# -- ridge regression --------------------------------------------------------------------------------------------------

Targets = Callable[[Array], Array]


def solve_sharded_ridge(
    data: ShardedData, alpha: float | None = None, targets: Targets = np.asarray
) -> tuple[Array, float, float]:
    """(w, b, objective) of ridge regression on the targets of the grades; without alpha the features' mean spread."""
    penalty = sharded_spread(data) if alpha is None else alpha
    if data.whole is not None:
        X, t, weights = data.whole.X, targets(data.whole.y), data.whole.row_weights
        return ridge.solve_ridge(X, t, alpha=penalty, weights=weights)

    def each(task: Task, *arguments: Any) -> list[Any]:
        shared = Kept((arguments,) * data.n_blocks)
        return data.source.run(_of_targets, data.source.data, targets, task, shared)

    return ridge.solve_ridge_of_sums(each, data.n_features, penalty)


def sharded_spread(data: ShardedData) -> float:
    """:func:`~gainful.solvers.ridge.mean_spread` of all rows, by weight."""
    shared = Kept(((),) * data.n_blocks)
    moments = data.source.run(_of_targets, data.source.data, np.asarray, ridge.first_moments, shared)
    return ridge.mean_spread_of_sums(moments, data.n_features)


# -- tasks -------------------------------------------------------------------------------------------------------------


def _at_stage(part: Any, stage: tuple[int, int] | None) -> Any:
    return part if stage is None else part.at(*stage)


def _evaluated(part: Any, w: Array, stage: tuple[int, int] | None) -> tuple[tuple[float, Array], Array]:
    value, gradient, scores = _at_stage(part, stage).value_and_gradient(w)
    return (value, gradient), scores


def _value_and_gradient(part: Any, w: Array, stage: tuple[int, int] | None) -> tuple[float, Array]:
    value, gradient, _ = _at_stage(part, stage).value_and_gradient(w)
    return value, gradient


def _along(part: Any, scores: Array, direction: Array, t: float) -> tuple[float, float]:
    value, slope = part.along(scores, direction, t)
    return value, slope


def _weighted_pairs(data: RankingData) -> float:
    return float(block_shares(data, 1.0) @ pair_counts(data))


def _bind_linear(data: RankingData, loss: Loss, total: float, by_pairs: bool) -> LinearRisk:
    shares = block_shares(data, total)
    return LinearRisk(loss, data, shares * pair_counts(data) if by_pairs else shares)


def _first_row(data: RankingData) -> Array:
    return first_row(data.X)


def _feature_sums(data: RankingData, shift: Array) -> tuple[int, Array, Array]:
    return feature_sums(data.X, shift)


def _of_targets(data: RankingData, targets: Targets, task: Task, arguments: tuple[Any, ...]) -> Any:
    weights = data.row_weights
    return task(data.X, targets(data.y), np.ones(data.n_rows) if weights is None else weights, *arguments)


def linear_scores_of(data: RankingData, w: Array) -> Array:
    """X·w of a block."""
    return linear_scores(data.X, w)
