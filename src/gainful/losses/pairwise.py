"""Losses averaged over the pairs of documents with different grades."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from gainful.compute.query_loop import Fill, NewtonFill
from gainful.data.rows import Array, read_only
from gainful.losses.base import ByGrade, LossEntry, Parameter, exponentials
from gainful.losses.weighted import bind_logistic, bind_newton_logistic
from gainful.parameters.constraints import Real

CROWDED = 1000.0  # pairs per document above which sorting beats the vectorised loop over all pairs


def _bind_hinges(name: str, params: Mapping[str, Any], y: Array, offsets: Array, weights: Array | None = None) -> Fill:
    def sweep(
        q: int, n_pairs: float, mine: slice, t: Array, w: Array | None, cuts: Array, values: Array, g: Array
    ) -> None:
        values[q] = sweep_hinges(t, cuts, name == "squared_hinge", g[mine], np.zeros(len(t)), w) / n_pairs
        g[mine] /= n_pairs

    rows, run, share, own = _hinges(name, y, offsets, weights, sweep)
    return rows.fill(run, share, own)


def _bind_newton_hinges(
    name: str, params: Mapping[str, Any], y: Array, offsets: Array, weights: Array | None = None
) -> NewtonFill:
    def sweep(q: int, n_pairs: float, mine: slice, t: Array, w: Array | None, cuts: Array, g: Array, h: Array) -> None:
        sweep_hinges(t, cuts, True, g[mine], h[mine], w)
        g[mine] /= n_pairs
        h[mine] /= n_pairs

    rows, run, share, own = _hinges(name, y, offsets, weights, sweep)
    return rows.newton(run, share, own)


def _hinges(
    name: str, y: Array, offsets: Array, weights: Array | None, sweep: Any
) -> tuple[ByGrade, Any, Array, Array | None]:
    """Rows, the kernel (with a ``sweep`` of each crowded query), the weight of a pair elsewhere, those of documents."""
    from gainful.losses import pairwise_kernels as kernels

    rows = ByGrade(y, offsets)
    pairs, own = rows.pairs(weights), rows.take_optional(weights)
    crowded = rows.pairs() >= CROWDED * np.diff(offsets)
    kernel, queries = getattr(kernels, name), np.flatnonzero(crowded).tolist()

    def run(t: Array, *arguments: Any) -> None:
        kernel(t, *arguments)
        *_, first, last, one, other = arguments
        for q in (q for q in queries if first <= q < last):
            mine, cuts = _of_query(rows, q, first)
            w = None if own is None else own[offsets[q] : offsets[q + 1]]
            sweep(q, float(pairs[q]) or 1.0, mine, t[mine], w, cuts, one, other)

    return rows, run if queries else kernel, read_only(np.where(crowded, 0.0, _share(pairs))), own


def _bind_logistic(params: Mapping[str, Any], y: Array, offsets: Array, weights: Array | None = None) -> Fill:
    from gainful.losses import pairwise_kernels as kernels
    from gainful.losses.tile_kernels import ROOM

    if weights is not None:
        return bind_logistic(PairProducts(y, offsets, weights), float(params["sigma"]))
    rows, sigma = ByGrade(y, offsets), float(params["sigma"])
    share = read_only(_share(rows.pairs()))

    def run(
        t: Array, ends: Array, blocks: Array, starts: Array, first: int, last: int, values: Array, g: Array
    ) -> None:
        E, far = exponentials(t, ends[first : last + 1], sigma)
        kernels.logistic(t, ends, blocks, starts, share, sigma, E, np.zeros(ROOM), first, last, values, g)
        if len(far):
            totals = np.empty(len(far))
            far += first
            kernels.logistic_far(t, ends, blocks, starts, share, sigma, far, first, totals, g, np.empty(len(g)))
            values[far] = totals

    return rows.fill(run)


def _bind_newton_logistic(
    params: Mapping[str, Any], y: Array, offsets: Array, weights: Array | None = None
) -> NewtonFill:
    from gainful.losses import pairwise_kernels as kernels

    if weights is not None:
        return bind_newton_logistic(PairProducts(y, offsets, weights), float(params["sigma"]))
    rows, sigma = ByGrade(y, offsets), float(params["sigma"])
    share = read_only(_share(rows.pairs()))

    def run(t: Array, ends: Array, blocks: Array, starts: Array, first: int, last: int, g: Array, h: Array) -> None:
        E, far = exponentials(t, ends[first : last + 1], sigma)
        kernels.logistic_newton(t, ends, blocks, starts, share, sigma, E, first, last, g, h)
        if len(far):
            far += first
            kernels.logistic_far(t, ends, blocks, starts, share, sigma, far, first, np.empty(len(far)), g, h)

    return rows.newton(run)


def _share(pairs: Array) -> Array:
    return np.divide(1.0, pairs, out=np.zeros_like(pairs), where=pairs > 0.0)


def _graded(bind: Any, params: Mapping[str, Any], y: Array, offsets: Array, weights: Array | None = None) -> Any:
    return bind(PairProducts(y, offsets, weights, graded=True), float(params["sigma"]))


class PairProducts:
    """Pairs that count by the product of the weights of their documents, 1 in all per query: no ranks are involved.

    With ``graded``, also by the difference of their grades.
    """

    def __init__(self, y: Array, offsets: Array, weights: Array | None, graded: bool = False):
        rows = self.rows = ByGrade(y, offsets)
        w, grades, counts = rows.take(np.ones(len(y)) if weights is None else weights), rows.take(y), np.diff(offsets)
        pairs, gains, gaps = rows.pairs(weights), None, None
        if graded:  # gaps of 1 stand for changes by swaps
            gains, gaps = grades, read_only(np.ones(1))
            totals = np.add.reduceat(w, offsets[:-1])
            below = np.repeat(np.cumsum(totals), counts) - np.cumsum(w)  # the weight of the documents further down
            steps = np.append(grades[:-1] - grades[1:], 0.0)
            steps[offsets[1:] - 1] = 0.0
            pairs = np.add.reduceat(steps * below * (np.repeat(totals, counts) - below), offsets[:-1])
        own = read_only(w * np.repeat(np.sqrt(_share(pairs)), counts))
        self.arrays = rows.offsets, rows.blocks, rows.starts, gains, gaps, own
        self.ranked = graded

    def rank(self, t: Array, first: int, last: int) -> tuple[Any, Any]:
        return (np.zeros(len(t), dtype=np.int64), np.zeros(len(t))) if self.ranked else (None, None)


# -- by sorting --------------------------------------------------------------------------------------------------------


def _of_query(rows: ByGrade, q: int, first: int) -> tuple[slice, Array]:
    """Its positions, counted from the first position of query ``first``, and where its grades begin."""
    base = rows.offsets[first]
    cuts = rows.starts[rows.blocks[q] : rows.blocks[q + 1] + 1]
    return slice(int(rows.offsets[q] - base), int(rows.offsets[q + 1] - base)), cuts


def sweep_hinges(t: Array, cuts: Array, squared: bool, g: Array, h: Array, weights: Array | None = None) -> float:
    """Hinges of all pairs of one query in O(n log n): two sweeps along the scores over a Fenwick tree of grades.

    With ``weights`` of the documents a pair counts by the product of its two.

    The first sweep sums how far each document falls short of its margin over those of lower grades. The second, with
    scores and grades reversed, sums how far those of higher grades fall short of their margin over it. Adds the
    gradient to ``g`` and the curvature of the squares to ``h``. Returns Σ over the pairs.
    """
    from gainful.losses.pairwise_kernels import sweep

    levels = len(cuts) - 1
    level = np.repeat(np.arange(levels, 0, -1), np.diff(cuts))  # 1 = the lowest grade
    rising = np.argsort(t)
    number, short = np.empty(len(t)), np.empty(len(t))
    squares = sweep(t, weights, rising[::-1].copy(), level, *np.zeros((4, levels + 1)), number, short)
    value = squares if squared else short.sum()
    g -= 2.0 * short if squared else number
    h += 2.0 * number
    sweep(-t, weights, rising, levels + 1 - level, *np.zeros((4, levels + 1)), number, short)
    g += 2.0 * short if squared else number
    h += 2.0 * number
    return float(value)


PAIRWISE = (
    LossEntry(
        "pairwise-hinge",
        "Mean over the pairs of [1 − (s_i − s_j)]₊, g_i > g_j.",
        partial(_bind_hinges, "hinge"),
        convex=True,
        weighs_documents=True,
        preferences="hinge",
        paper="Joachims 2002, Optimizing search engines using clickthrough data",
    ),
    LossEntry(
        "pairwise-squared-hinge",
        "Mean over the pairs of [1 − (s_i − s_j)]₊².",
        partial(_bind_hinges, "squared_hinge"),
        newton=partial(_bind_newton_hinges, "squared_hinge_newton"),
        convex=True,
        smooth=True,
        weighs_documents=True,
        preferences="squared_hinge",
        paper="Chapelle and Keerthi 2010, Efficient algorithms for ranking with SVMs",
    ),
    LossEntry(
        "ranknet",
        "Mean over the pairs of log(1 + exp(−σ(s_i − s_j))).",
        _bind_logistic,
        newton=_bind_newton_logistic,
        convex=True,
        smooth=True,
        weighs_documents=True,
        preferences="logistic",
        parameters={"sigma": Parameter(Real(low=0, open_low=True), 1.0)},
        paper="Burges et al. 2005, Learning to rank using gradient descent",
    ),
    LossEntry(
        "ranknet-graded",
        "Mean over the pairs, by g_i − g_j, of log(1 + exp(−σ(s_i − s_j))).",
        partial(_graded, bind_logistic),
        newton=partial(_graded, bind_newton_logistic),
        convex=True,
        smooth=True,
        weighs_documents=True,
        parameters={"sigma": Parameter(Real(low=0, open_low=True), 1.0)},
        paper="RankNet with the weights LabelDiff of TF-Ranking and Rax",
    ),
)
