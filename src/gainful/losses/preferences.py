"""Losses on preferences: pairs of documents given by the user instead of grades.

The loss of a query is the weighted mean of the costs of its pairs; that of a query without pairs is 0. A loss that
averages over the pairs of different grade is the special case of all these pairs with equal weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gainful.compute.query_loop import Fill
from gainful.data.dataset import RankingData
from gainful.data.query_weights import pair_weights
from gainful.data.rows import Array, read_only


@dataclass(frozen=True)
class WeighedPairs:
    """The preferences of some queries with the weights that the loss gives them, as the kernels take them."""

    better: Array
    worse: Array
    weight: Array
    starts: Array
    offsets: Array

    @classmethod
    def mean_of(cls, data: RankingData) -> WeighedPairs:
        """Weights that sum to 1 in each query."""
        assert data.pairs is not None
        weights = pair_weights(data)
        totals = data.pairs.sums(weights)
        shares = np.divide(1.0, totals, out=np.zeros_like(totals), where=totals > 0.0)
        return cls.with_weights(data, weights * shares[data.pairs.query])

    @classmethod
    def with_weights(cls, data: RankingData, weight: Array) -> WeighedPairs:
        assert data.pairs is not None
        pairs = data.pairs
        return cls(pairs.better, pairs.worse, read_only(weight), pairs.starts, read_only(data.offsets))

    @property
    def arrays(self) -> tuple[Array, ...]:
        return self.better, self.worse, self.weight, self.starts, self.offsets


class PairFill:
    """The fill of a loss on preferences: values and gradient or, if ``curved``, gradient and curvature.

    It depends on no ranking, so nothing is left to freeze.
    """

    def __init__(self, cost: str, sigma: float, pairs: WeighedPairs, curved: bool = False):
        self.cost, self.sigma, self.pairs, self.curved = cost, sigma, pairs, curved

    def __call__(self, scores: Array, first: int, last: int, values: Array, gradient: Array) -> None:
        from gainful.losses import preference_kernels as kernels

        spare, kind = np.empty(max(last, len(scores))), getattr(kernels, self.cost.upper())
        sums = (spare, values, gradient) if self.curved else (values, gradient, spare)
        for one in sums[1:]:
            one[:] = 0.0
        kernels.over_pairs(kind, self.sigma, scores, *self.pairs.arrays, first, last, *sums)

    def bind_frozen(self, scores: Array, threads: int | None = None) -> Fill:
        return self


def bind_preferences(cost: str, params: dict[str, Any], data: RankingData, curved: bool = False) -> PairFill:
    """The weighted mean over the preferences of each query of a cost of :mod:`gainful.losses.preference_kernels`."""
    return PairFill(cost, float(params.get("sigma", 1.0)), WeighedPairs.mean_of(data), curved)
