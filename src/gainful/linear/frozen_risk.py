"""A loss with frozen weights on a linear model, as the truncated gradient descent sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from gainful.compute.features import Features
from gainful.compute.query_loop import Fill, apply_gradient, values_and_gradient
from gainful.data.dataset import RankingData
from gainful.data.query_weights import query_shares
from gainful.data.rows import Array, read_only
from gainful.linear.weighted_pairs import row_scores, varies_within_queries
from gainful.losses import Loss
from gainful.losses.base import FrozenFill


@dataclass(frozen=True)
class Evaluation:
    """A point given by its scores: loss and gradient, and the loss with the weights fixed at this point."""

    scores: Array
    loss: float
    gradient: Array
    fill: Fill


class FrozenRisk:
    """L(u) = Σ_q ω_q L_q(X_q (u/scales)) of a frozen loss, with weights at the ranks by score.

    ``scales`` scale the features without copying X; a feature that is constant within every query gets the scale ∞, and
    so never gets a weight.
    """

    def __init__(self, loss: Loss, data: RankingData, scales: Array):
        self.features, self.offsets, self.shares = Features(data.X), data.offsets, query_shares(data)
        self.scales = np.where(varies_within_queries(data), scales, np.inf)
        self.fill = cast(FrozenFill, loss.bind_judgments(data))
        self.row_shares = np.repeat(self.shares, data.counts)

    def scores(self, u: Array) -> Array:
        return row_scores(self.features, u / self.scales)

    def at(self, scores: Array) -> Evaluation:
        """Loss and gradient by u with the weights at the ranks of these scores."""
        return self.with_ranks_of(scores, scores)

    def with_ranks_of(self, scores: Array, ranked_by: Array) -> Evaluation:
        """The same with the weights at the ranks of other scores."""
        fill = self.fill.bind_frozen(ranked_by)
        values, c = values_and_gradient(fill, self.offsets, read_only(scores))
        c *= self.row_shares
        return Evaluation(scores, float(self.shares @ values), apply_gradient(self.features, c) / self.scales, fill)

    def frozen_loss(self, look: Evaluation, scores: Array) -> float:
        """L at other scores, with the weights of ``look``."""
        return float(self.shares @ values_and_gradient(look.fill, self.offsets, read_only(scores))[0])
