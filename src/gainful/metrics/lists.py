"""Ranked lists as metrics see them, and the metrics that NumPy computes over all lists at once, without a compiler.

A list may leave documents out: a run holds some of the documents that were judged, and some that were not. The rows of
a query are its listed documents, then those that are judged but not listed. Only the first have a rank; all of them
count when relevant documents are counted and in the best order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gainful.data.rows import Array

if TYPE_CHECKING:
    from gainful.data.judgments import JudgedRun
    from gainful.metrics.value import Metric

INFERRED = 1e-5  # that trec_eval adds to counts in inferred average precision
LEVELS = tuple(i / 10 for i in range(11))


@dataclass(frozen=True)
class Lists:
    """Scores and grades of grouped rows; NaN as a grade means that the document is not judged."""

    scores: Array
    y: Array
    offsets: Array
    partly_judged: bool = False  # whether grades may be NaN, or negative as in qrels
    listed: Array | None = None  # the number of listed documents of each query, its first rows; None for all rows
    in_order: bool = False  # whether rows are ranked already
    origin: Array | None = None  # the row of each row before rows were reordered or left out
    run: JudgedRun | None = None  # where the rows come from, if documents may be missing or not judged

    @property
    def n_queries(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def counts(self) -> Array:
        """The number of ranks of each query."""
        return np.diff(self.offsets) if self.listed is None else self.listed

    @cached_property
    def query(self) -> Array:
        return np.repeat(np.arange(self.n_queries), np.diff(self.offsets))

    @cached_property
    def grades(self) -> Array:
        """Grades from 0: a document that is not judged counts as not relevant."""
        return np.where(self.y > 0.0, self.y, 0.0) if self.partly_judged else self.y

    def without_unjudged(self) -> Lists:
        """The lists with only judged documents, which move up to fill the gaps."""
        kept = self.y >= 0.0
        if kept.all():
            return self
        rows = np.flatnonzero(kept)
        sizes = np.bincount(self.query[rows], minlength=self.n_queries)
        listed = None
        if self.listed is not None:
            place = np.arange(len(self.y)) - self.offsets[self.query]
            ranked = kept & (place < self.listed[self.query])
            listed = np.bincount(self.query[ranked], minlength=self.n_queries)
        return Lists(
            scores=self.scores[rows],
            y=self.y[rows],
            offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            listed=listed,
            partly_judged=self.partly_judged,
            in_order=self.in_order,
            origin=rows if self.origin is None else self.origin[rows],
            run=self.run,
        )

    def sum(self, values: Array) -> Array:
        """Σ of one value per row, over the rows of each query."""
        return np.bincount(self.query, weights=values, minlength=self.n_queries)

    def ranked(self, ties: str) -> Ranking:
        """The listed rows, best first."""
        keys = (self.y_for_worst, -self.scores, self.query) if ties == "worst" else (-self.scores, self.query)
        rows = np.arange(len(self.y)) if self.in_order else np.lexsort(keys)
        if self.listed is not None:
            rank = np.arange(len(rows)) - self.offsets[self.query]
            rows = rows[rank < self.listed[self.query]]
        return Ranking(rows, self.query[rows], self.scores[rows], self.counts, ties == "average")

    def perfect(self, gains: Array) -> Ranking:
        """All rows, listed or not, by falling gain."""
        rows = np.lexsort((-gains, self.query))
        return Ranking(rows, self.query, gains[rows], np.diff(self.offsets), averaged=False)

    @property
    def unknown(self) -> Array:
        """1 where a document is not judged: not in the qrels, or there with a negative grade."""
        return (~(self.y >= 0.0)).astype(np.float64)

    @property
    def y_for_worst(self) -> Array:
        """Grades by which tied documents rise when ties are broken in the worst way; not judged ones come first."""
        return np.nan_to_num(self.y, nan=-np.inf)


@dataclass(frozen=True)
class Ranking:
    """The listed rows of all queries, each query best first. With ``averaged``, tied documents share their ranks."""

    rows: Array
    query: Array
    scores: Array
    counts: Array
    averaged: bool

    @cached_property
    def rank(self) -> Array:
        """From 0 in each query."""
        starts = np.cumsum(self.counts) - self.counts
        return np.asarray(np.arange(len(self.rows)) - starts[self.query])

    @cached_property
    def block(self) -> Array:
        """The number of each row's block: documents whose order is open."""
        new = np.ones(len(self.rows), dtype=bool)
        if self.averaged:
            new[1:] = (np.diff(self.query) != 0) | (self.scores[1:] != self.scores[:-1])
        return np.cumsum(new) - 1

    @cached_property
    def sizes(self) -> Array:
        return np.bincount(self.block)

    def in_block(self, values: Array) -> Array:
        """Σ over the block of each row."""
        return np.bincount(self.block, weights=values)[self.block] if len(values) else values

    def shared(self, values: Array) -> Array:
        """The mean over the block of each row: what is expected at its rank."""
        return self.in_block(values) / self.sizes[self.block] if len(values) else values

    def sum(self, values: Array) -> Array:
        """Σ over the ranks of each query."""
        return np.bincount(self.query, weights=values, minlength=len(self.counts))

    def running(self, values: Array) -> Array:
        """Σ from the first rank of the query to each row's."""
        sums = np.concatenate([[0.0], np.cumsum(values)])
        starts = np.cumsum(self.counts) - self.counts
        return np.asarray(sums[1:] - sums[starts[self.query]])

    def before_block(self, values: Array) -> Array:
        """Σ over the ranks of the query above each row's block."""
        begins = np.cumsum(self.sizes) - self.sizes
        above = self.running(values) - values
        return above[begins[self.block]] if len(values) else values


def order_by_document(
    scores: Array, offsets: Array, doc_ids: Array, listed: Array | None = None, *, rising: bool = False
) -> Array:
    """The order of rows by query and falling score; equal scores by falling (or rising) id, compared as text."""
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((-scores, query))
    again = (scores[order[1:]] == scores[order[:-1]]) & (query[order[1:]] == query[order[:-1]])
    if listed is not None:
        again &= (np.arange(len(scores)) - offsets[query] < listed[query])[1:]
    if not again.any():
        return np.asarray(order)
    tied = np.concatenate([[False], again]) | np.concatenate([again, [False]])
    _, rank = np.unique(doc_ids[order[tied]].astype(str), return_inverse=True)
    key = np.zeros(len(scores), dtype=np.int64)
    key[order[tied]] = rank if rising else -rank
    return np.lexsort((key, -scores, query))


# -- relevant or not ---------------------------------------------------------------------------------------------------


def hits(m: Metric, lists: Lists) -> Array:
    """1 where a document is relevant, else 0."""
    return (lists.grades >= (m.relevant or 1.0)).astype(np.float64)


def _share(part: Array, whole: Array) -> Array:
    """part / whole; NaN where the whole is 0, that is, for a query without a relevant document."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(whole > 0.0, part / whole, np.nan)


def recall(m: Metric, lists: Lists, depth: int) -> Array:
    own, order = hits(m, lists), lists.ranked(m.ties)
    top = order.shared(own[order.rows]) * (order.rank < depth)
    return _share(order.sum(top), lists.sum(own))


def hit(m: Metric, lists: Lists, depth: int) -> Array:
    """1 − the chance that no relevant document is among the first k.

    In a block of t documents with H relevant ones, the j-th is not relevant, if those before it are not, with chance
    (t − H − j)/(t − j), j from 0.
    """
    own, order = hits(m, lists), lists.ranked(m.ties)
    inside = np.arange(len(order.rows)) - (np.cumsum(order.sizes) - order.sizes)[order.block]
    left = order.sizes[order.block] - inside
    none = np.maximum(left - order.in_block(own[order.rows]), 0.0) / left
    missed = np.ones(lists.n_queries)
    np.multiply.at(missed, order.query, np.where(order.rank < depth, none, 1.0))
    return np.where(lists.sum(own) > 0.0, 1.0 - missed, np.nan)


def r_precision(m: Metric, lists: Lists, depth: int) -> Array:
    own, order = hits(m, lists), lists.ranked(m.ties)
    relevant = lists.sum(own)
    cut = np.maximum(1.0, np.floor((m.times or 1.0) * relevant + 0.9))
    top = order.shared(own[order.rows]) * (order.rank < cut[order.query])
    return np.where(relevant > 0.0, order.sum(top) / cut, np.nan)


def interpolated_precision(m: Metric, lists: Lists, depth: int) -> Array:
    """The highest precision at or after the rank where the recall is reached; the mean over levels where several."""
    own, order = hits(m, lists), lists.ranked(m.ties)
    relevant = lists.sum(own)
    found = order.running(own[order.rows])
    precision = found / (order.rank + 1.0)
    levels = LEVELS if m.recall is None else (m.recall,)
    values = np.zeros(lists.n_queries)
    for level in levels:
        needed = np.floor(level * relevant + (0.9 if m.rounding == "up" else 0.5))  # trec_eval 9, and 10
        reached = found >= needed[order.query]
        highest = np.zeros(lists.n_queries)
        np.maximum.at(highest, order.query[reached], precision[reached])
        values += highest
    return np.where(relevant > 0.0, values / len(levels), np.nan)


def preference(m: Metric, lists: Lists, depth: int) -> Array:
    """bpref: Σ over the relevant documents of 1 − min(n, R)/min(N, R), divided by R.

    n of the N documents judged not relevant are ranked above. In a block with b of them and a ones above it, n is each
    of a, …, a + b with the same chance.
    """
    level = m.relevant or 1.0
    order = lists.ranked(m.ties)
    relevant, other = lists.y >= level, (lists.y >= 0.0) & (lists.y < level)
    R, N = lists.sum(relevant), lists.sum(other)
    above, beside = (f(other[order.rows].astype(np.float64)) for f in (order.before_block, order.in_block))
    cap = R[order.query]
    mean = (_sum_capped(above + beside + 1.0, cap) - _sum_capped(above, cap)) / (beside + 1.0)
    least = np.minimum(N, R)[order.query]
    kept = 1.0 - mean / np.where(least > 0.0, least, 1.0)
    return _share(order.sum(relevant[order.rows] * kept), R)


def _sum_capped(n: Array, cap: Array) -> Array:
    """Σ min(i, cap) for i = 0, …, n − 1."""
    low = np.minimum(n, cap + 1.0)
    return np.asarray(low * (low - 1.0) / 2.0 + np.maximum(n - cap - 1.0, 0.0) * cap)


def inferred_precision(m: Metric, lists: Lists, depth: int) -> Array:
    """infAP: the precision at a relevant document is estimated from the judged documents above it.

    A document in the qrels with a negative grade was in the pool but not judged, as in trec_eval.
    """
    level = m.relevant or 1.0
    order = lists.ranked(m.ties)
    y = lists.y[order.rows]
    relevant, other = y >= level, (y >= 0.0) & (y < level)
    found = order.running(relevant.astype(np.float64)) - 1.0
    judged = found + order.running(other.astype(np.float64))
    pool = judged + order.running((y < 0.0).astype(np.float64))
    precise = (found + INFERRED) / (judged + 2.0 * INFERRED)
    values = (1.0 + pool * precise) / (order.rank + 1.0)
    return _share(order.sum(np.where(relevant, values, 0.0)), lists.sum(lists.y >= level))


def judged(m: Metric, lists: Lists, depth: int) -> Array:
    order = lists.ranked(m.ties)
    known = (~np.isnan(lists.y[order.rows])).astype(np.float64)
    top = order.sum(order.shared(known) * (order.rank < depth))
    return top / np.maximum(1.0, np.minimum(depth, lists.counts))


def unjudged(m: Metric, lists: Lists, depth: int) -> Array:
    order = lists.ranked(m.ties)
    return order.sum(order.shared(lists.unknown[order.rows]) * (order.rank < depth)) / float(m.k or 1)


def residual(m: Metric, lists: Lists, depth: int) -> Array:
    """What RBP would gain if all were relevant: documents that are not judged, and those below the end of the list.

    As in trec_eval, 0 for a list whose documents are all judged.
    """
    order, p = lists.ranked(m.ties), m.p or 0.0
    own = order.shared(lists.unknown[order.rows])
    found = (1.0 - p) * order.sum(own * p**order.rank)
    return np.where(order.sum(own) > 0.0, found + p**lists.counts, 0.0)


# -- sets --------------------------------------------------------------------------------------------------------------


def of_sets(m: Metric, lists: Lists, depth: int) -> Array:
    """Precision, recall and what is made of them, over all listed documents, whatever their order."""
    own, order = hits(m, lists), lists.ranked("input")
    found, relevant, listed = order.sum(own[order.rows]), lists.sum(own), lists.counts
    below = {
        "set-p": listed,
        "set-recall": relevant,
        "set-f1": (listed + relevant) / 2.0,
        "set-map": listed * relevant,
        "set-relative-p": np.minimum(listed, relevant),
    }[m.kind]
    above = found**2 if m.kind == "set-map" else found
    return np.where(relevant > 0.0, above / np.maximum(below, 1.0), np.nan)


def count(m: Metric, lists: Lists, depth: int) -> Array:
    order, level = lists.ranked("input"), m.relevant or 1.0
    y = lists.y[order.rows]
    found = order.sum(y >= level)
    if m.kind == "num-ret":
        return lists.counts.astype(np.float64)
    if m.kind == "num-rel":
        return lists.sum(lists.y >= level)
    if m.kind == "num-nonrel-judged-ret":
        return order.sum((y >= 0.0) & (y < level))
    return found if m.kind == "num-rel-ret" else 2.0 * found - lists.counts


# -- one query after the other -----------------------------------------------------------------------------------------


def by_query(m: Metric, lists: Lists, depth: int) -> Array:
    """Measures of trec_eval that compare a list with the best order, from the gains in both."""
    order = lists.ranked(m.ties)
    gains = hits(m, lists) if m.kind == "bin-g" else lists.grades
    ends = np.cumsum(order.counts)
    values = np.full(lists.n_queries, np.nan)
    for q in range(lists.n_queries):
        best = np.sort(gains[lists.offsets[q] : lists.offsets[q + 1]])[::-1]
        best = best[best > 0.0]
        if len(best):
            values[q] = _BY_QUERY[m.kind](gains[order.rows[ends[q] - order.counts[q] : ends[q]]], best)
    return values


def _g(gains: Array, best: Array) -> float:
    """Σ gain/log2(2 + c): c is what the best order has gained by then, at least 1 per rank, less what this one has."""
    costs = np.ones(len(gains))
    n = min(len(gains), len(best))
    costs[:n] = np.maximum(1.0, best[:n])
    return float((gains / np.log2(2.0 + np.cumsum(costs) - np.cumsum(gains))).sum() / best.sum())


def _dcg_sums(gains: Array, best: Array) -> tuple[Array, Array]:
    """DCG down to each rank (from 0 ranks), of the list and of the best order; both as long as the longer one."""
    n = max(len(gains), len(best))
    sums = np.zeros((2, n + 1))
    discounts = 1.0 / np.log2(np.arange(2.0, n + 2.0))
    for out, values in zip(sums, (gains, best), strict=True):
        padded = np.zeros(n)
        padded[: len(values)] = values
        out[1:] = np.cumsum(padded * discounts)
    return sums[0], sums[1]


def _r_ndcg(gains: Array, best: Array) -> float:
    """The mean of NDCG at the ranks where the best order changes its grade, and at the end of a longer list."""
    ours, ideal = _dcg_sums(gains, best)
    ranks = np.append(np.flatnonzero(np.diff(best) != 0.0) + 1, len(best))
    if len(gains) > len(best) + 1:
        ranks = np.append(ranks, len(gains))
    return float((ours[ranks] / ideal[ranks]).mean())


def _ndcg_rel(gains: Array, best: Array) -> float:
    """The mean of NDCG at the ranks of relevant documents; at the end of the list for those not in it."""
    ours, ideal = _dcg_sums(gains, best)
    ranks = np.flatnonzero(gains > 0.0) + 1
    rest = (len(best) - len(ranks)) * ours[-1] / ideal[-1]
    return float(((ours[ranks] / ideal[ranks]).sum() + rest) / len(best))


_BY_QUERY: dict[str, Any] = {"g": _g, "bin-g": _g, "r-ndcg": _r_ndcg, "ndcg-rel": _ndcg_rel}


# -- subtopics ---------------------------------------------------------------------------------------------------------


def of_subtopics(m: Metric, lists: Lists, depth: int) -> Array:
    """α-nDCG and ERR-IA: a document gains Σ (1 − α)^c over its subtopics, c times met above."""
    assert lists.run is not None
    assert m.k is not None
    doc_ids = lists.run.doc_ids
    order = lists.ranked(m.ties)
    ends = np.cumsum(order.counts)
    values = np.full(lists.n_queries, np.nan)
    for q, held in enumerate(lists.run.subtopics.by_query(m.relevant or 1.0)):
        if not held:
            continue
        top = order.rows[ends[q] - order.counts[q] : ends[q]][: m.k]
        rows = top if lists.origin is None else lists.origin[top]
        gains = _novelty([held.get(row, []) for row in rows.tolist()], m.alpha or 0.0)
        if m.kind == "err-ia":
            n = len(set().union(*held.values()))
            ranks = np.arange(1.0, m.k + 1.0)
            most = n * ((1.0 - (m.alpha or 0.0)) ** (ranks - 1.0) / ranks).sum()
            values[q] = (gains / ranks[: len(gains)]).sum() / most
        else:
            by_id = sorted(held, key=lambda row: str(doc_ids[row]), reverse=True)
            ideal = _novelty(_greedy([held[row] for row in by_id], m.alpha or 0.0, m.k), m.alpha or 0.0)
            discounts = 1.0 / np.log2(np.arange(2.0, m.k + 2.0))
            values[q] = (gains @ discounts[: len(gains)]) / (ideal @ discounts[: len(ideal)])
    return values


def _novelty(documents: list[list[int]], alpha: float) -> Array:
    """The gain of each document, given the subtopics of those above it."""
    worth: dict[int, float] = {}
    gains = np.zeros(len(documents))
    for i, subtopics in enumerate(documents):
        for one in subtopics:
            gains[i] += worth.get(one, 1.0)
            worth[one] = worth.get(one, 1.0) * (1.0 - alpha)
    return gains


def _greedy(documents: list[list[int]], alpha: float, k: int) -> list[list[int]]:
    """The documents (their subtopics) in the order that gains most at each rank; the first of equal ones."""
    width = 1 + max(map(max, documents))
    covers = np.zeros((len(documents), width))
    for row, subtopics in zip(covers, documents, strict=True):
        row[subtopics] = 1.0
    worth, chosen = np.ones(width), []
    left = np.ones(len(documents), dtype=bool)
    for _ in range(min(k, len(documents))):
        i = int(np.argmax(np.where(left, covers @ worth, -1.0)))
        left[i] = False
        worth[documents[i]] *= 1.0 - alpha
        chosen.append(documents[i])
    return chosen
