"""The mean of a measure over queries at a point and along a line through the scores."""

from __future__ import annotations

import numpy as np

from gainful.compute.query_loop import even_cuts, run_each, threads_for
from gainful.data.dataset import RankingData
from gainful.data.query_weights import query_shares
from gainful.data.rows import Array, read_only
from gainful.metrics import Metric, mean_over_queries

ROWS_PER_THREAD = 20_000
COMPILED = ("ndcg", "dcg", "p", "wta", "rbp", "map")


class LineMeasure:
    """``at(scores)`` and ``along(scores, x, steps)``: the weighted mean over queries, as the metric defines it.

    Measures that are sums of discounted gains, and average precision, are compiled for many steps at once; others are
    evaluated step by step.
    """

    def __init__(self, data: RankingData, measure: Metric):
        self._data, self._measure = data, measure
        by_id = measure.ties in ("docid", "docid-rising")
        self._compiled = measure.kind in COMPILED and not by_id and measure.divisor != "relevant"
        if self._compiled:
            self._prepare()

    def at(self, scores: Array) -> float:
        values = self._measure.evaluate(scores, self._data.y, self._data.offsets, self._data.doc_ids)
        mean = mean_over_queries(values, self._data.query_weights)
        return 0.0 if np.isnan(mean) else mean

    def along(self, scores: Array, x: Array, steps: Array) -> Array:
        """The measure at the scores s + step·x for each step, (len(steps),). Steps must be ascending."""
        if not self._compiled:
            return np.array([self.at(scores + step * x) for step in steps])
        from gainful.metrics.kernels import AVERAGE, INPUT, WORST
        from gainful.rankers import coordinate_ascent_kernels as kernels

        ties = {"average": AVERAGE, "worst": WORST}.get(self._measure.ties, INPUT)
        line, steps = (read_only(scores), read_only(x)), read_only(steps)
        few = np.zeros(self._data.n_queries, dtype=bool)
        if self._measure.kind == "map" and ties != WORST:
            few = self._n_relevant <= kernels.COUNTED
        some, others = np.where(few, self._scales, 0.0), np.where(few, 0.0, self._scales)

        def piece(first: int, last: int) -> Array:
            out, room = np.zeros(len(steps)), self._workspaces()
            if some[first:last].any():
                query = self._rows, self._n_relevant, self._offsets, some
                kernels.few_precisions_along(*line, *query, steps, first, last, ties, self._depth, *room, out)
            if others[first:last].any():
                rest = self._gains, self._offsets, others, steps, first, last, ties
                if self._measure.kind == "map":
                    kernels.precisions_along(*line, *rest, self._depth, *room, out)
                else:
                    kernels.gains_along(*line, *rest, self._discounts, *room, out)
            return out

        found = run_each(piece, even_cuts(self._data.n_queries, threads_for(len(scores), per_thread=ROWS_PER_THREAD)))
        return np.asarray(np.sum(found, axis=0) + self._constant)

    def _workspaces(self) -> tuple[Array, Array]:
        width = int(self._data.counts.max()) + 1
        return np.empty((4, width)), np.empty((3, width), dtype=np.int64)

    # -- gains, discounts and scales -----------------------------------------------------------------------------------

    def _prepare(self) -> None:
        m, data = self._measure, self._data
        longest = int(data.counts.max())
        depth = longest if m.k is None else min(longest, m.k)
        gains = self._gains_of(m, data)
        discounts: Array = np.ones(depth)
        norms: Array = np.ones(data.n_queries)
        if m.kind in ("ndcg", "dcg"):
            discounts = m.discounts(depth)
            if m.kind == "ndcg":
                norms = best_sums(gains, discounts, data)
        elif m.kind == "p":
            norms = np.full(data.n_queries, float(m.k or 1)) if m.divisor == "k" else np.minimum(depth, data.counts)
        elif m.kind == "wta":
            discounts = np.ones(1)
        elif m.kind == "rbp":
            discounts = (1.0 - float(m.p or 0.0)) * float(m.p or 0.0) ** np.arange(depth)
        elif m.kind == "map":
            hits = np.add.reduceat(gains, data.offsets[:-1])
            norms = hits if m.k is None or m.divisor == "all" else np.minimum(hits, m.k)
        empty = ~(np.maximum.reduceat(gains, data.offsets[:-1]) > 0) | ~(norms > 0)
        short = np.asarray(data.counts < m.k if m.short == "zero" and m.k is not None else np.zeros_like(empty))
        omega = query_shares(data)
        if m.empty == "skip":
            omega = np.where(empty, 0.0, omega)
            omega /= max(float(omega.sum()), 1e-300)
        self._constant = 0.0 if m.empty == "skip" else float(omega[empty].sum()) * float(m.empty)
        self._scales = read_only(np.where(empty | short, 0.0, omega / np.where(norms > 0, norms, 1.0)))
        self._gains, self._offsets, self._depth = read_only(gains), read_only(data.offsets), depth
        if m.kind == "map":
            query = np.repeat(np.arange(data.n_queries), data.counts)
            self._rows = read_only(np.lexsort((gains <= 0, query)))
            self._n_relevant = np.add.reduceat(gains > 0, data.offsets[:-1], dtype=np.int64)
        self._discounts = read_only(np.ascontiguousarray(discounts, dtype=np.float64))

    @staticmethod
    def _gains_of(m: Metric, data: RankingData) -> Array:
        """The gain of each document; for NDCG with large grades, divided by a power of two per query."""
        if m.gain is None:
            return (data.y >= (m.relevant or 1.0)).astype(np.float64)
        if m.gain == "linear":
            return data.y
        if m.gain != "exp2":
            return np.asarray(m.gain)[data.y.astype(np.int64)]
        if m.kind == "dcg":
            return np.asarray(np.exp2(data.y) - 1.0)
        highest = np.maximum.reduceat(data.y, data.offsets[:-1])
        shift = np.repeat(np.where(highest > 100.0, highest, 0.0), data.counts)
        return np.asarray(np.exp2(data.y - shift) - np.exp2(-shift))


def best_sums(gains: Array, discounts: Array, data: RankingData) -> Array:
    """Σ discount·gain of the best order of each query, (n_queries,)."""
    query = np.repeat(np.arange(data.n_queries), data.counts)
    order = np.lexsort((-gains, query))
    rank = np.arange(data.n_rows) - data.offsets[:-1][query]
    padded = np.append(discounts, 0.0)
    return np.add.reduceat(gains[order] * padded[np.minimum(rank, len(discounts))], data.offsets[:-1])
