"""ω_q: how much each query counts. They sum to 1, so that C means the same everywhere.

Documents count within their query by ``data.relative_weights``, of mean 1 there: see :mod:`gainful.losses.base`.
"""

from __future__ import annotations

import numpy as np

from gainful.data.dataset import Dataset, RankingData
from gainful.data.grades import by_grade, count_pairs
from gainful.data.rows import Array


def query_shares(data: RankingData) -> Array:
    """ω_q: 1/m for each query, or its share of the weights."""
    total = data.n_queries if data.query_weights is None else data.query_weights.sum()
    return block_shares(data, float(total))


def block_shares(data: RankingData, total: float) -> Array:
    """ω_q of the queries of a block, where ``total`` is the weight of all queries of all blocks."""
    if data.query_weights is None:
        return np.full(data.n_queries, 1.0 / total)
    return np.asarray(data.query_weights / total)


def weights_of_mean_one(data: RankingData, mean: float | None = None) -> Array:
    """The weight of each query over the mean weight: that of the data, or ``mean`` if the data is one block of many."""
    return block_shares(data, mean_weight(data) if mean is None else mean)


def rows_of_mean_one(data: RankingData, mean: float | None = None) -> Array | None:
    """The weight of each row over the mean weight of the queries, as above; None if all count the same."""
    if data.row_weights is None:
        return None
    mean = mean_weight(data) if mean is None else mean
    return data.row_weights if mean == 1.0 else np.asarray(data.row_weights / mean)


def mean_weight(data: Dataset) -> float:
    """The mean weight of the queries."""
    return data.total_weight / data.n_queries


def mean_weight_above_zero(data: Dataset) -> float:
    """The mean weight of the queries that count at all, so that one of weight 0 is as good as absent."""
    weights = data.query_weights
    return 1.0 if weights is None else data.total_weight / int(np.count_nonzero(weights))


def pair_counts(data: RankingData) -> Array:
    """|R_q|, the number of pairs of different grade in each query, by weight of documents: (n_queries,) float64.

    Preferences count by their weights. In the lists of clicked documents each has a pair with every other document.
    """
    if data.click_weights is not None:
        return data.counts - 1.0
    if data.pairs is not None:
        return data.pairs.sums(pair_weights(data))
    order, blocks, starts = by_grade(data.y, data.offsets)
    weights = data.relative_weights
    if weights is not None:
        weights = weights[np.repeat(data.offsets[:-1], data.counts) + order]
    return count_pairs(data.offsets, blocks, starts, weights)


def pair_weights(data: RankingData) -> Array:
    """The weight of each preference, times those of its two documents: (n_pairs,) float64."""
    assert data.pairs is not None
    weights = data.relative_weights
    if weights is None:
        return data.pairs.weight
    return np.asarray(data.pairs.weight * weights[data.pairs.better] * weights[data.pairs.worse])


def pair_shares(data: RankingData) -> Array:
    """ω_q in proportion to the query's weight and pairs: Σ_q ω_q (mean over pairs) is the mean over all pairs."""
    shares = query_shares(data) * pair_counts(data)
    total = shares.sum()
    return np.asarray(shares / total) if total > 0 else query_shares(data)
