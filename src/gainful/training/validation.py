"""Several named validation sets as one: the first decides, the others are watched.

All their queries are in one RankingData, in which those of the other sets have weight 0. So whatever computes the mean
over the validation queries computes that of the first set, and rankers need not know that there are more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gainful.data.dataset import RankingData, join_pieces
from gainful.data.rows import Array
from gainful.errors import DataError
from gainful.metrics import mean_over_queries


@dataclass(frozen=True)
class NamedSets:
    """Which queries of the joined data belong to which set, and their weights."""

    joined: RankingData
    first: RankingData
    parts: Mapping[str, tuple[slice, Array | None]]

    @classmethod
    def of(cls, sets: Mapping[str, RankingData]) -> NamedSets:
        """Join sets that have the same features."""
        pieces = list(sets.values())
        if len({one.is_sparse for one in pieces}) > 1:
            raise DataError("the sets of eval_set must be all dense or all sparse")
        ends = np.cumsum([one.n_queries for one in pieces]).tolist()
        parts = {
            name: (slice(end - one.n_queries, end), one.query_weights)
            for (name, one), end in zip(sets.items(), ends, strict=True)
        }
        joined = join_pieces([one.replace(query_weights=None, document_weights=None) for one in pieces])
        weights, first = np.zeros(joined.n_queries), pieces[0]
        weights[: first.n_queries] = 1.0 if first.query_weights is None else first.query_weights
        if len(pieces) > 1 or first.query_weights is not None:
            joined = joined.replace(query_weights=weights)
        joined = joined.replace(query_ids=np.arange(joined.n_queries))  # a query may be in several sets
        return cls(joined, next(iter(sets.values())), parts)

    def means(self, values: Array) -> dict[str, float]:
        """The mean of each set, from one value per query of the joined data, as rows of the history name them."""
        found = {name: mean_over_queries(values[own], weights) for name, (own, weights) in self.parts.items()}
        return {f"validation {name}": mean for name, mean in found.items()}
