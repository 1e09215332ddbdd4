"""Ranking as importance-weighted classification of pairs: the NDCG reduction's view of the data.

The weight of a pair of documents with g_i > g_j is the change in NDCG from swapping them (no truncation)::

    w_ij = |(2^{g_i} − 2^{g_j}) (D(π_i) − D(π_j))| / N_q,   D(r) = 1/log2(1 + r)

with π the ranks by the current scores. Among tied scores the lower grade comes first, and documents equal in both share
the mean of their discounts, so that nothing depends on the order of the rows. For every ranking 1 − NDCG is at most the
sum of the weights of its inverted pairs (Sun, Qin, Tao and Wang 2009, theorem 1). A query whose grades are all equal
has no pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gainful.compute.features import Features
from gainful.compute.query_loop import cuts_of_equal_work, even_cuts, run_each, threads_for
from gainful.data.dataset import RankingData
from gainful.data.grades import by_grade
from gainful.data.query_weights import query_shares
from gainful.data.rows import Array, read_only, row_chunks
from gainful.data.spread import ROUNDING
from gainful.losses.gains import exponential_gain, perfect_sums

CODE_SEED = 20090719  # seed of the fixed direction along which rows of one grade are sorted
WORK_PER_THREAD = 200_000  # pairs, or rows times features: fewer are not worth a thread


def query_order(query_ids: Any) -> Array:
    """Positions of the queries by their ids: by type, then by number or text, regardless of their position in the data.

    >>> query_order(np.array(["b", "c", "a"])).tolist()
    [2, 0, 1]
    """
    ids = np.asarray(query_ids)
    if ids.dtype != object:
        return np.argsort(ids, kind="stable")
    keys = [(type(v).__name__, v if isinstance(v, (int, float)) else 0, str(v)) for v in ids]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)


def row_scores(features: Features, w: Array, threads: int | None = None) -> Array:
    """X·w; equal rows get equal scores to the last bit, regardless of their position."""
    out, weights = np.empty(features.n_rows), read_only(w)

    def piece(lo: int, hi: int) -> None:
        features.scores(weights, lo, hi, out[lo:hi])

    n_parts = threads_for(features.n_rows * features.row_bytes / 8.0, threads, WORK_PER_THREAD)
    run_each(piece, even_cuts(features.n_rows, n_parts))
    return out


class WeightedPairs:
    """The pairs of a training set, visited query by query and never stored; threads share the queries.

    ``gains`` (n_rows,) are (2^g − 1)/N_q, ``discounts`` D(1), D(2), …; see the kernels for ``order`` and ``below``.
    """

    def __init__(self, data: RankingData, *, threads: int | None = None):
        self.offsets, counts = read_only(data.offsets), data.counts
        self.n_rows, self.n_queries = data.n_rows, data.n_queries
        self.discounts = 1.0 / np.log2(np.arange(2.0, int(counts.max()) + 2.0))
        self.shares = query_shares(data)
        self.order, blocks, starts = by_grade(data.y, data.offsets)
        values = exponential_gain(data.y, data.offsets)
        best = perfect_sums(values, self.order, data.offsets, self.discounts)
        self.gains = values / np.repeat(np.where(best > 0.0, best, 1.0), counts)
        ends = np.repeat(starts[1:], np.diff(starts)) - np.repeat(data.offsets[:-1], counts)
        self.below = ends.astype(np.int32)
        sizes, heads = np.diff(starts).astype(np.float64), ends[starts[:-1]]
        longest = np.repeat(counts, np.diff(blocks))
        self.n_pairs = int(sizes @ (longest - heads))
        self.threads = threads
        self.queries = np.arange(self.n_queries)

    def arrange(self, data: RankingData, scales: Array) -> None:
        """Sort pairs by query id, and the rows of one grade by their features, regardless of row order."""
        self.queries = query_order(data.query_ids)
        direction = np.random.default_rng(CODE_SEED).standard_normal(data.n_features) / scales
        code = row_scores(Features(data.X), direction, self.threads)
        query = np.repeat(np.arange(self.n_queries), data.counts)
        self.order = (np.lexsort((code, -data.y, query)) - data.offsets[query]).astype(np.int32)

    # -- from scores ---------------------------------------------------------------------------------------------------

    def rank_discounts(self, scores: Array) -> Array:
        """D(π_i) of each row."""
        kernels = _kernels()
        D, s = np.empty(self.n_rows), read_only(scores)
        shape = self.offsets, self.order, self.below
        self._run_in_threads(lambda a, b: kernels.rank_discounts(s, a, b, *shape, self.discounts, *self._ranking(), D))
        return D

    def inverted_weights(self, scores: Array) -> Array:
        """Σ of w_ij over the pairs that these scores put in the wrong order, per query: at least 1 − NDCG."""
        kernels = _kernels()
        D, out = read_only(self.rank_discounts(scores)), np.empty(self.n_queries)
        self._run_in_threads(lambda a, b: kernels.inverted_weights(D, a, b, *self._arrays(), out))
        return out

    # -- pairs for a classifier ----------------------------------------------------------------------------------------

    def pairs(self, D: Array) -> tuple[Array, Array, Array]:
        """(better, worse, ω_q w_ij) of every pair with a positive weight."""
        kernels = _kernels()
        better, worse, weight = self._room(self.n_pairs)
        n = kernels.every_pair(read_only(D), self.queries, *self._arrays(), self.shares, better, worse, weight)
        return better[:n], worse[:n], weight[:n]

    def draw(self, D: Array, n_draws: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        """At most ``n_draws`` pairs, drawn in proportion to ω_q w_ij, and how often each was drawn.

        Systematic sampling: every pair's expected count is its share of the weights times ``n_draws``, and its count
        is that number rounded up or down.
        """
        kernels = _kernels()
        frozen, totals = read_only(D), np.empty(self.n_queries)
        self._run_in_threads(lambda a, b: kernels.total_weights(frozen, a, b, *self._arrays(), totals))
        spacing = float(self.shares @ totals) / n_draws
        better, worse, weight = self._room(n_draws)
        if not spacing > 0.0:
            return better[:0], worse[:0], weight[:0]
        n = kernels.drawn_pairs(
            frozen, self.queries, *self._arrays(), self.shares, spacing, rng.random() * spacing,
            better, worse, weight,
        )  # fmt: skip
        return better[:n], worse[:n], weight[:n]

    @staticmethod
    def _room(n: int) -> tuple[Array, Array, Array]:
        return np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), np.empty(n)

    def _arrays(self) -> tuple[Array, ...]:
        return self.offsets, self.order, self.below, self.gains

    def _ranking(self) -> tuple[Array, Array, Array]:
        """Workspaces of the ranking of one query; ``discounts`` are as long as the longest."""
        n = len(self.discounts)
        return np.empty(n), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)

    def _run_in_threads(self, piece: Callable[[int, int], Any]) -> list[Any]:
        """``piece(first, last)`` for runs of queries of about equal work, one per thread; results in order."""
        work = np.concatenate([[0.0], np.cumsum(np.diff(self.offsets).astype(np.float64) ** 2)])
        return run_each(piece, cuts_of_equal_work(work, threads_for(work[-1], self.threads, WORK_PER_THREAD)))


def varies_within_queries(data: RankingData, threads: int | None = None) -> Array:
    """Whether a feature distinguishes two documents of one query, (n_features,); queries of weight 0 are ignored.

    Values that differ only by rounding count as equal.
    """
    X, offsets, shares = data.X, read_only(data.offsets), query_shares(data)
    dense = isinstance(X, np.ndarray)

    def piece(first: int, last: int) -> Array:
        return (
            _dense_varies(X, offsets, shares, first, last) if dense else _sparse_varies(X, offsets, shares, first, last)
        )

    values = X.size if dense else X.nnz
    cuts = cuts_of_equal_work(offsets, threads_for(float(values), threads, WORK_PER_THREAD))
    return np.asarray(np.logical_or.reduce(run_each(piece, cuts)))


def _dense_varies(X: Array, offsets: Array, shares: Array, first: int, last: int) -> Array:
    """Works on blocks of queries, so that no temporary is as large as X."""
    found = np.zeros(X.shape[1], dtype=bool)
    for queries in row_chunks(last - first, X.shape[1]):
        start, stop = first + queries.start, first + queries.stop
        rows, at = X[offsets[start] : offsets[stop]], offsets[start:stop] - offsets[start]
        low, high = np.minimum.reduceat(rows, at), np.maximum.reduceat(rows, at)
        apart = high - low > ROUNDING * np.maximum(np.abs(low), np.abs(high))
        found |= (apart & (shares[start:stop, None] > 0.0)).any(axis=0)
    return found


def _sparse_varies(X: Any, offsets: Array, shares: Array, first: int, last: int) -> Array:
    work, found = np.zeros((3, X.shape[1])), np.zeros(X.shape[1], dtype=np.uint8)
    _kernels().sparse_varies(*Features(X).parts, first, last, offsets, shares, ROUNDING, work, found)
    return np.asarray(found > 0)


def _kernels() -> Any:
    """The compiled module, loaded on first use."""
    from gainful.linear import weighted_pairs_kernels

    return weighted_pairs_kernels
