"""Losses averaged over the pairs of documents with different grades."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from gainful.compute.query_loop import Fill
from gainful.data.rows import Array, read_only
from gainful.losses.base import ByGrade, LossEntry, Parameter, convex_loss, exponentials
from gainful.losses.weighted import bind_logistic
from gainful.parameters.constraints import Real

CROWDED = 1000.0  # pairs per document above which sorting beats the vectorised loop over all pairs


def _bind_hinges(
    name: str,
    params: Mapping[str, Any],
    y: Array,
    offsets: Array,
    weights: Array | None = None,
    *,
    curved: bool = False,
) -> Fill:
    from gainful.losses import pairwise_kernels as kernels

    rows = ByGrade(y, offsets)
    pairs, own = rows.pairs(weights), rows.take_optional(weights)
    crowded = rows.pairs() >= CROWDED * np.diff(offsets)
    kernel, queries = getattr(kernels, name), np.flatnonzero(crowded).tolist()

    def sweep_crowded(t: Array, *arguments: Any) -> None:
        kernel(t, *arguments)
        *_, first, last, values, g, h = arguments
        for q in (q for q in queries if first <= q < last):
            mine, cuts = _of_query(rows, q, first)
            w = None if own is None else own[offsets[q] : offsets[q + 1]]
            bends, n_pairs = np.zeros(len(t[mine])) if h is None else h[mine], float(pairs[q]) or 1.0
            value = sweep_hinges(t[mine], cuts, name == "squared_hinge", g[mine], bends, w)
            g[mine] /= n_pairs
            bends /= n_pairs
            if values is not None:
                values[q] = value / n_pairs

    share = read_only(np.where(crowded, 0.0, _share(pairs)))  # a crowded query is left to the sweep
    return rows.fill(sweep_crowded if queries else kernel, share, own, curved=curved)


def _bind_logistic(
    params: Mapping[str, Any], y: Array, offsets: Array, weights: Array | None = None, *, curved: bool = False
) -> Fill:
    from gainful.losses import pairwise_kernels as kernels
    from gainful.losses.tile_kernels import ROOM

    if weights is not None:
        return bind_logistic(PairProducts(y, offsets, weights), float(params["sigma"]), curved=curved)
    rows, sigma = ByGrade(y, offsets), float(params["sigma"])
    share = read_only(_share(rows.pairs()))

    def run(t: Array, *arguments: Any) -> None:
        *shape, first, last, values, g, h = arguments
        E, far = exponentials(t, rows.offsets[first : last + 1], sigma)
        kernels.logistic(t, *shape, share, sigma, E, np.zeros(ROOM), first, last, values, g, h)
        if len(far):
            kernels.logistic_far(t, *shape, share, sigma, far + first, first, values, g, h)

    return rows.fill(run, curved=curved)


def _bind_graded(
    params: Mapping[str, Any], y: Array, offsets: Array, weights: Array | None = None, *, curved: bool = False
) -> Fill:
    return bind_logistic(PairProducts(y, offsets, weights, graded=True), float(params["sigma"]), curved=curved)


def _share(pairs: Array) -> Array:
    return np.divide(1.0, pairs, out=np.zeros_like(pairs), where=pairs > 0.0)


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
    convex_loss(
        "pairwise-squared-hinge",
        "Mean over the pairs of [1 − (s_i − s_j)]₊².",
        partial(_bind_hinges, "squared_hinge"),
        preferences="squared_hinge",
        paper="Chapelle and Keerthi 2010, Efficient algorithms for ranking with SVMs",
    ),
    convex_loss(
        "ranknet",
        "Mean over the pairs of log(1 + exp(−σ(s_i − s_j))).",
        _bind_logistic,
        preferences="logistic",
        parameters={"sigma": Parameter(Real(low=0, open_low=True), 1.0)},
        paper="Burges et al. 2005, Learning to rank using gradient descent",
    ),
    convex_loss(
        "ranknet-graded",
        "Mean over the pairs, by g_i − g_j, of log(1 + exp(−σ(s_i − s_j))).",
        _bind_graded,
        parameters={"sigma": Parameter(Real(low=0, open_low=True), 1.0)},
        paper="RankNet with the weights LabelDiff of TF-Ranking and Rax",
    ),
)
