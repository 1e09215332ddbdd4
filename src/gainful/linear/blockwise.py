"""A risk summed over blocks of queries: the solvers' view, wherever the blocks are.

Each block holds a :class:`~gainful.linear.risk.LinearRisk`, bound to its grades once. An evaluation sends the weights
to the blocks and adds values and gradients in block order. Scores stay with the blocks, as
:class:`~gainful.data.blocks.RowVector`.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from gainful.data.blocks import PerBlock, RowVector
from gainful.data.dataset import Dataset, RankingData
from gainful.data.query_weights import block_shares, pair_counts
from gainful.data.rows import Array, linear_scores
from gainful.linear.risk import LinearRisk
from gainful.losses import Loss
from gainful.training.shared_setup import share


class BlockwiseRisk:
    """R(w) = Σ over the risks of the blocks, ``parts``, which stay with the blocks."""

    def __init__(self, data: Dataset, parts: PerBlock):
        self.source, self.parts = data.source, parts
        self.n_features = data.n_features
        self.stage: tuple[int, int] | None = None

    def at(self, iteration: int, total: int) -> BlockwiseRisk:
        """The risk in iteration 1 … ``total`` of a staged loss; it shares everything else with this one."""
        staged = copy.copy(self)
        staged.stage = (iteration, total)
        return staged

    def value_and_gradient(self, w: Array) -> tuple[float, Array, RowVector]:
        weights = np.array(w)
        answers, scores = self.source.map_both(_evaluate, self.parts, weights, self.stage)
        value, gradient = self._sum(answers)
        return value, gradient, RowVector(self.source, scores, weights)

    def along(self, scores: RowVector, direction: RowVector, t: float) -> tuple[float, float]:
        answers = self.source.map(_along, self.parts, scores.values, direction.values, float(t))
        return float(sum(value for value, _ in answers)), float(sum(slope for _, slope in answers))

    def without_scores(self, w: Array) -> tuple[float, Array]:
        """Value and gradient only; keeps no scores."""
        return self._sum(self.source.map(_value_and_gradient, self.parts, w, self.stage))

    def _sum(self, answers: list[tuple[float, Array]]) -> tuple[float, Array]:
        value = float(sum(value for value, _ in answers))
        gradient = answers[0][1]
        if len(answers) > 1:
            gradient = np.array(gradient)
            for _, more in answers[1:]:
                gradient += more
        return value, gradient


def linear_risk(loss: Loss, data: Dataset, *, by_pairs: bool = False) -> BlockwiseRisk:
    """Σ_q ω_q L_q(X_q w), where the ω_q sum to 1: equal, by weight, or also by the query's number of pairs."""
    total = data.total_weight
    if by_pairs:
        pairs = float(sum(data.map(_weighted_pairs)))
        total, by_pairs = (pairs, True) if pairs > 0 else (total, False)
    parts = data.map_resident(_bind_linear, loss, total, by_pairs)
    return BlockwiseRisk(data, parts)


# -- tasks -------------------------------------------------------------------------------------------------------------


def _at_stage(part: Any, stage: tuple[int, int] | None) -> Any:
    return part if stage is None else part.at(*stage)


def _evaluate(part: Any, w: Array, stage: tuple[int, int] | None) -> tuple[tuple[float, Array], Array]:
    value, gradient, scores = _at_stage(part, stage).value_and_gradient(w)
    return (value, gradient), scores


def _value_and_gradient(part: Any, w: Array, stage: tuple[int, int] | None) -> tuple[float, Array]:
    value, gradient, _ = _at_stage(part, stage).value_and_gradient(w)
    return value, gradient


def _along(part: Any, scores: Array, direction: Array, t: float) -> tuple[float, float]:
    value, slope = part.along(scores, direction, t)
    return value, slope


def _pair_counts(data: RankingData) -> Array:
    return share(data, "pairs of queries", lambda: pair_counts(data))


def _weighted_pairs(data: RankingData) -> float:
    return float(block_shares(data, 1.0) @ _pair_counts(data))


def _bind_linear(data: RankingData, loss: Loss, total: float, by_pairs: bool) -> LinearRisk:
    shares = block_shares(data, total)
    return LinearRisk.of(loss, data, shares * _pair_counts(data) if by_pairs else shares)


def linear_scores_of(data: RankingData, w: Array) -> Array:
    """X·w of a block, added to its initial scores if it has any."""
    return data.add_init_scores(linear_scores(data.X, w))
