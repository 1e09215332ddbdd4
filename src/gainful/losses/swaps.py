"""What a metric gains or loses when two documents of a query swap places, in O(1) per pair.

Two forms cover the metrics. A metric that sums gains times discounts, such as NDCG, changes by
(G_i − G_j)·|D_i − D_j|. For the others, i being the better document of a pair, it changes by (G_i − G_j) times

    P_i·Q_j + R_i + S_j

with one set of P, Q, R, S where j stands above i and another where it stands below (:class:`Places`). They come from
one pass along the ranking.

Equal scores: lower grades come first, so that a ranking without information counts as wrong. Documents of equal score
and grade stand in any order; every figure here is the mean over these orders.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gainful.data.rows import Array, read_only
from gainful.errors import DataError, ParameterError
from gainful.losses.base import ByGrade
from gainful.losses.gains import exponential_gain, perfect_sums
from gainful.metrics import Metric, metric
from gainful.metrics.formulas import rank_discounts
from gainful.parameters.constraints import Spec

SUMS = ("ndcg", "dcg", "p", "recall", "rbp", "wta")  # of gains times discounts
OTHERS = ("map", "mrr", "hit", "err")
WITH_CUT_OFF = ("p", "hit", "recall")  # the others may have one
HIGHEST_GRADE = 50  # of err: above, the chance to stop at the highest grade rounds to 1


@dataclass(frozen=True)
class SwapMetric(Spec):
    """A metric whose change by a swap is known."""

    def make(self, value: Any) -> Metric:
        found = metric(value)
        if found.kind not in SUMS + OTHERS or (found.kind in WITH_CUT_OFF and found.k is None):
            raise ParameterError(f"the change of {found} by a swap is not known")
        if found.max_grade is not None and found.max_grade > HIGHEST_GRADE:
            raise ParameterError(f"max_grade of {found} must be at most {HIGHEST_GRADE}")
        return found

    def expected(self) -> str:
        known = ", ".join(f"{kind}@k" if kind in WITH_CUT_OFF else kind for kind in sorted(SUMS + OTHERS))
        return (
            f"one of {known}, with conventions where you like (any other metric, and functions, can be optimised by "
            "coordinate-ascent, and used as eval_metric by all rankers)"
        )


def short_text(measure: Metric) -> str:
    """The shortest text of the metric."""
    return measure.name if metric(measure.name) == measure else str(measure)


def can_change(measure: Metric | str, y: Array, offsets: Array) -> bool:
    """Whether swapping two documents changes the metric of some query, in some of its rankings."""
    chosen, rows, ranks = metric(measure), ByGrade(y, offsets), np.diff(offsets)
    if chosen.kind in SUMS:
        gains, worth = gains_and_discounts(chosen, rows)
    else:
        places = Places(chosen, rows)
        gains, worth = places.gains, np.arange(float(len(places.values)))
        if chosen.kind in ("mrr", "hit"):  # only the first relevant document counts: it stands behind irrelevant ones
            worth = places.values
            ranks = 1 + ranks - np.add.reduceat(places.worth, offsets[:-1]).astype(np.int64)
    first_ranks = 1 + int(np.argmax(np.append(worth[1:] != worth[0], True)))  # these are worth the same
    differ = np.maximum.reduceat(gains, offsets[:-1]) > np.minimum.reduceat(gains, offsets[:-1])
    return bool((differ & (ranks > first_ranks)).any())


# -- sums of gains times discounts -------------------------------------------------------------------------------------


def gains_and_discounts(measure: Metric, rows: ByGrade) -> tuple[Array, Array]:
    """The gain of each position, divided by what the metric divides by, and the discounts of all ranks."""
    longest = int(np.diff(rows.offsets).max())
    depth = longest if measure.k is None else min(longest, measure.k)
    discounts = np.zeros(longest)
    if measure.kind in ("ndcg", "dcg"):
        table = rank_discounts(measure.discount or "log2", depth)
        discounts[: len(table)] = table
        return _gains(measure, rows, discounts), discounts
    hits = _hits(measure, rows)
    if measure.kind == "rbp":
        assert measure.p is not None
        discounts[:depth] = (1.0 - measure.p) * measure.p ** np.arange(depth)
    else:
        discounts[: 1 if measure.kind == "wta" else depth] = 1.0
    return hits / _per_row(_divisor(measure, rows, hits), rows), discounts


def _gains(measure: Metric, rows: ByGrade, discounts: Array) -> Array:
    if isinstance(measure.gain, tuple):
        grades = rows.y.astype(np.int64)
        if not ((grades == rows.y) & (grades >= 0) & (grades < len(measure.gain))).all():
            raise DataError(f"the gains of {measure} are for the grades 0 to {len(measure.gain) - 1}; others are there")
        values = np.asarray(measure.gain)[grades]
    elif measure.gain == "linear":
        values = rows.y.astype(np.float64)
    else:
        values = exponential_gain(rows.y, rows.offsets) if measure.kind == "ndcg" else np.exp2(rows.y) - 1.0
    if measure.kind == "dcg":
        return rows.take(values)
    best = perfect_sums(values, rows.order, rows.offsets, discounts)
    if measure.short == "zero" and measure.k is not None:
        best[np.diff(rows.offsets) < measure.k] = 0.0
    scale = np.divide(1.0, best, out=np.zeros_like(best), where=best >= np.finfo(np.float64).tiny)
    return rows.take(values * _per_row(scale, rows))


def _divisor(measure: Metric, rows: ByGrade, hits: Array) -> Array:
    """What the hits of each query are divided by."""
    counts = np.diff(rows.offsets)
    relevant = np.maximum(1.0, np.add.reduceat(hits, rows.offsets[:-1]))
    depth = float(measure.k or counts.max())
    if measure.kind == "p":
        whole = {"k": np.full(len(counts), depth), "relevant": np.minimum(depth, relevant)}
        return whole.get(measure.divisor or "k", np.minimum(depth, counts))
    if measure.kind == "map":
        return relevant if measure.divisor in (None, "all") else np.minimum(depth, relevant)
    return relevant if measure.kind == "recall" else np.ones(len(counts))


def _hits(measure: Metric, rows: ByGrade) -> Array:
    """1 where the document at a position is relevant, else 0; its grade over the highest for a metric of grades."""
    if measure.worth == "scaled":
        highest = np.maximum.reduceat(rows.y, rows.offsets[:-1])
        return rows.take(rows.y / _per_row(np.maximum(1.0, highest), rows))
    return (rows.take(rows.y) >= (measure.relevant or 1.0)).astype(np.float64)


def _per_row(values: Array, rows: ByGrade) -> Array:
    return np.repeat(values, np.diff(rows.offsets))


# -- other metrics -----------------------------------------------------------------------------------------------------


Forms = tuple[Array, Array, Array, Array, Array, Array, Array, Array]


class Places:
    """P, Q, R and S of each document where j stands above i, and where it stands below, by the ranks of documents.

    ``worth`` by position: 1 or 0 for relevant or not, for ERR the probability that the document stops the reader.
    """

    def __init__(self, measure: Metric, rows: ByGrade):
        self.kind, self.offsets, self.worth = measure.kind, rows.offsets, _worth(measure, rows)
        divisor = _divisor(measure, rows, self.worth) if measure.kind == "map" else np.ones(len(rows.offsets) - 1)
        self.gains = read_only(self.worth / _per_row(divisor, rows))
        longest = int(np.diff(rows.offsets).max())
        self.depth = longest if measure.k is None else min(longest, measure.k)
        values = np.zeros(longest + 1)  # of the first relevant document, by its rank from 0
        values[: self.depth] = 1.0 if measure.kind == "hit" else 1.0 / np.arange(1.0, self.depth + 1.0)
        self.values = read_only(values)
        self._of: Callable[[Array, int, int], Forms] = {"map": self._precisions, "err": self._stops}.get(
            measure.kind, self._first
        )

    def __call__(self, rank: Array, first: int, last: int) -> Forms:
        """``rank`` is twice the rank of each document of these queries."""
        return self._of(rank, first, last)

    def _precisions(self, rank: Array, first: int, last: int) -> Forms:
        from gainful.losses.swap_kernels import precisions

        none, up, down = np.zeros(len(rank)), np.empty(len(rank)), np.empty(len(rank))
        precisions(rank, self.worth, self.offsets, first, last, self.depth, *self._room(), up, down)
        return none, none, up, up, none, none, down, down

    def _first(self, rank: Array, first: int, last: int) -> Forms:
        from gainful.losses.swap_kernels import first_relevant

        none, up, down, share = np.zeros(len(rank)), np.empty(len(rank)), np.empty(len(rank)), np.empty(len(rank))
        first_relevant(rank, self.worth, self.offsets, first, last, self.values, *self._room(), up, down, share)
        return none, none, none, up, share, down, none, none

    def _stops(self, rank: Array, first: int, last: int) -> Forms:
        from gainful.losses.swap_kernels import stops

        none, before, at, rest = np.zeros(len(rank)), np.empty(len(rank)), np.empty(len(rank)), np.empty(len(rank))
        stops(rank, self.worth, self.offsets, first, last, self.depth, *self._room(), before, at, rest)
        return -before, rest, none, at, -rest, before, at, none

    def _room(self) -> tuple[Array, Array, Array]:
        """Workspace by twice the rank: documents, one of them, and two sums."""
        size = 2 * len(self.values)
        return np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64), np.zeros((2, size))


def _worth(measure: Metric, rows: ByGrade) -> Array:
    if measure.kind != "err":
        return read_only(_hits(measure, rows))
    assert measure.max_grade is not None
    if len(rows.y) and rows.y.max() > measure.max_grade:
        raise DataError(
            f"grades of {measure.name} must be at most max_grade={measure.max_grade:g}, one is {rows.y.max():g}; "
            f"write err(max_grade={rows.y.max():g}) with the highest grade of your scale"
        )
    return rows.take((np.exp2(rows.y) - 1.0) / 2.0**measure.max_grade)
