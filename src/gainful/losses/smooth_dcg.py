"""Smoothed DCG: the ranks in DCG as sums of sigmoids or of smoothed hinges, and its mixture with regression.

With G_α(x) = 1/(1 + exp(αx)) and r̂_i = 1 + Σ_{j≠i} h_ij(s_i − s_j), the smoothed DCG of a query is
S = Σ_i φ(g_i) G_β(r̂_i − cut-off)/log2(1 + r̂_i). The losses are N − S, with N the ideal DCG of the whole list, divided
by the ideal DCG@k of the query if the target is NDCG. S never exceeds N: see ``docs/smooth-dcg.md``.

With a ``least_spread`` u, α is per unit of v_q = √(σ_q² + u²), with σ_q the standard deviation of the scores of the
query: the loss is v_q · L(s/v_q) with v_q held fixed, so its gradient has the same size however far the scores spread.

Wu, Chang, Zheng and Zha 2009, Smoothing DCG for learning to rank: a novel approach using smoothed hinge functions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from gainful.compute.query_loop import Fill
from gainful.data.rows import Array, read_only
from gainful.errors import DataError
from gainful.losses.base import ByGrade, FrozenFill, LossEntry, Parameter, centre
from gainful.parameters.constraints import Choice, Integer, Maybe, Real

FIRST_SHARE = 0.999999  # share of regression in the first iteration
PAPER = (
    "Wu, Chang, Zheng and Zha 2009, Smoothing DCG for learning to rank: a novel approach using smoothed hinge functions"
)


def regression_share(iteration: int, total: int) -> float:
    """τ_m = 1/(1 + exp(γ(m − M/2))) with τ_1 = 0.999999, which makes γ = ln(999999)/(M/2 − 1).

    This needs at least three iterations. With two, the first has τ_1 and the second 1 − τ_1, which is also the share
    of a single iteration.
    """
    if total <= 2:
        return FIRST_SHARE if iteration < total else 1.0 - FIRST_SHARE
    gamma = math.log(FIRST_SHARE / (1.0 - FIRST_SHARE)) / (0.5 * total - 1.0)
    x = gamma * (iteration - 0.5 * total)
    small = math.exp(-abs(x))
    return (small if x > 0.0 else 1.0) / (1.0 + small)


def _gains(rows: ByGrade, target: str, k: int | None) -> Array:
    """c_i by position: φ(g_i), divided by the ideal DCG@k of the query if the target is NDCG."""
    if target == "ndcg":
        return rows.gains(k)
    with np.errstate(over="ignore"):
        gains = np.expm1(rows.y * math.log(2.0))
        if not np.isfinite(gains.sum()):
            raise DataError(f"the gain 2^g − 1 of a grade of {rows.y.max():g} is too large to sum; use target='ndcg'")
    return rows.take(gains)


def _best(gains: Array, offsets: Array) -> Array:
    """Σ_r c_(r)/log2(1 + r) of each query over its whole list, best grades first."""
    place = np.arange(len(gains)) - np.repeat(offsets[:-1], np.diff(offsets))
    return np.asarray(np.add.reduceat(gains / np.log2(place + 2.0), offsets[:-1]))


class _Smoothed:
    """One of the two smoothed DCGs, bound to grades."""

    def __init__(self, hinged: bool, params: Mapping[str, Any], y: Array, offsets: Array):
        self.hinged, self.rows, self.k = hinged, ByGrade(y, offsets), params["k"]
        self.every, self.alpha, self.least = params.get("tied") == "all", float(params["alpha"]), params["least_spread"]
        self.discount = _Discount(self.rows, params)

    def weigh(self, t: Array, first: int, last: int) -> tuple[Array, Array]:
        """The cut-off of each query, which moves with the scores if there are hinges, and the unit of its scores."""
        if self.least is None:
            return self._cut(t, first, last), np.ones(last - first)
        units = np.hypot(spreads(t, self.rows.offsets[first : last + 1]), self.least)
        return self._cut(t, first, last), np.where(units > 0.0, units, 1.0)

    def _cut(self, t: Array, first: int, last: int) -> Array:
        from gainful.losses.smooth_dcg_kernels import moving_cutoffs

        rows, cutoffs = self.rows, np.full(last - first, np.inf if self.k is None else float(self.k))
        if self.hinged and self.k is not None:
            room = np.empty(int(np.diff(rows.offsets[first : last + 1]).max()))
            shape = rows.offsets, rows.blocks, rows.starts
            moving_cutoffs(self.every, t, *shape, int(self.k), first, last, room, cutoffs)
        return cutoffs

    def run(
        self,
        t: Array,
        first: int,
        last: int,
        weights: tuple[Array, ...],
        values: Array | None,
        slopes: Array,
        bends: Any,
    ) -> None:
        """|G''| and |A''| are at most α times the slope of G and A: the curvature is that bound, summed over the pairs.

        The curvature by the ranks is left out; it is mostly negative.
        """
        from gainful.losses import smooth_dcg_kernels as kernels

        (cutoffs, units), rows, known = weights, self.rows, self.discount.known
        ends = rows.offsets[first : last + 1]
        values = np.empty(last) if values is None else values
        z, bands = in_bands(t / np.repeat(units, np.diff(ends)) if self.least is not None else t, ends, self.alpha)
        r = smooth_ranks(z, bands, rows, known, first, last, self.hinged)
        p = self.alpha * self.discount(r, cutoffs, first, last, values)
        values[first:last] *= units  # so that the slopes by the scores are those by the scores in this unit
        if self.hinged:
            shape = rows.offsets, rows.blocks, rows.starts
            kernels.hinged_slopes(*bands, *shape, known, p, first, last, slopes, bends)
        else:
            kernels.sigmoid_slopes(*bands, rows.offsets, known, p, first, last, slopes, bends)
        if bends is not None:
            bends *= self.alpha


def _bind(hinged: bool, params: Mapping[str, Any], y: Array, offsets: Array, *, curved: bool = False) -> FrozenFill:
    smoothed = _Smoothed(hinged, params, y, offsets)
    return FrozenFill(smoothed.rows, smoothed.weigh, smoothed.run, curved=curved, by_query=True)


def spreads(t: Array, ends: Array) -> Array:
    """The standard deviation of the scores of each query.

    ``ends`` are the offsets of these queries; ``t`` begins at the first of them.
    """
    begins, counts = ends[:-1] - ends[0], np.diff(ends)
    low, high = np.minimum.reduceat(t, begins), np.maximum.reduceat(t, begins)
    half = 0.5 * high - 0.5 * low
    safe = np.where(half > 0.0, half, 1.0)
    x = (t - np.repeat(0.5 * high + 0.5 * low, counts)) / np.repeat(safe, counts)  # in [−1, 1]: squares cannot overflow
    mean = np.add.reduceat(x, begins) / counts
    squares = np.add.reduceat((x - np.repeat(mean, counts)) ** 2, begins) / counts
    return half * np.sqrt(squares)


def in_bands(t: Array, ends: Array, alpha: float) -> tuple[Array, tuple[Array, Array, Array, Array]]:
    """z, and the forms of it that the kernels use: E, bands, E relative to a band, and which queries need bands."""
    from gainful.losses.smooth_dcg_kernels import BAND

    z, far = centre(t, ends, alpha)
    if not far.any():
        E = np.exp(z)
        return z, (E, E, E, far)
    bands = np.where(np.repeat(far, np.diff(ends)), np.floor(z / BAND + 0.5), 0.0)
    E = np.exp(z - BAND * bands)
    return z, (E, bands, E.copy(), far)


def smooth_ranks(
    z: Array, bands: tuple[Array, ...], rows: ByGrade, known: Array, first: int, last: int, hinged: bool
) -> Array:
    """r̂ by position, of the documents before ``known`` of each query."""
    from gainful.losses import smooth_dcg_kernels as kernels

    r = np.full(len(z), 0.5)
    if hinged:
        kernels.hinged_ranks(z, *bands, rows.offsets, rows.blocks, rows.starts, known, first, last, r)
    else:
        kernels.sigmoid_ranks(*bands, rows.offsets, known, first, last, r)
    return r


class _Discount:
    """tops[q] − Σ_i c_i F(r_i) with F(r) = G_β(r − cut-off)/log2(1 + r), over the documents with a gain."""

    def __init__(self, rows: ByGrade, params: Mapping[str, Any]):
        gains, offsets = _gains(rows, params["target"], params["k"]), rows.offsets
        ordered = np.diff(rows.blocks) > 1
        self.beta = float(params["beta"])
        self.tops = np.where(ordered, _best(gains, offsets), 0.0)
        with_gain = (gains > 0.0) & np.repeat(ordered, np.diff(offsets))
        self.known = read_only(offsets[:-1] + np.add.reduceat(with_gain, offsets[:-1], dtype=np.int64))
        self.places = np.flatnonzero(with_gain)
        self.queries = np.repeat(np.arange(len(ordered)), self.known - offsets[:-1])
        self.gains, self.offsets = gains[self.places], offsets

    def __call__(self, r: Array, cutoffs: Array, first: int, last: int, values: Array) -> Array:
        """Minus the slope by each rank; writes the values of the queries to ``values``."""
        base, end = self.offsets[first], self.offsets[last]
        mine = slice(*np.searchsorted(self.places, [base, end]))
        places, queries = self.places[mine] - base, self.queries[mine] - first
        r = r[places]
        log = np.log(1.0 + r)
        with np.errstate(over="ignore"):
            inside = 1.0 / (1.0 + np.exp(self.beta * (r - cutoffs[queries])))
        terms = self.gains[mine] * inside / log
        totals, tops = math.log(2.0) * np.bincount(queries, terms, last - first), self.tops[first:last]
        values[first:last] = np.where(tops > totals, tops - totals, 0.0)
        p = np.zeros(int(end - base))
        p[places] = math.log(2.0) * terms * (self.beta * (1.0 - inside) + 1.0 / ((1.0 + r) * log))
        return p


class _Mixture:
    """τ_m · regression · R + (1 − τ_m) · the smoothed loss, with R the mean of (s_i − y_i)² over the query.

    Outside training there are no iterations: calling it directly gives the smoothed loss alone, the last stage.
    """

    def __init__(self, params: Mapping[str, Any], y: Array, offsets: Array, *, curved: bool = False):
        self.smoothed, self.curved = _bind(True, params, y, offsets, curved=curved), curved
        self.regression, self.y, self.offsets = float(params["regression"]), params["grade_step"] * y, offsets
        self.bind_frozen = self.smoothed.bind_frozen

    def __call__(self, scores: Array, first: int, last: int, values: Array, gradient: Array) -> None:
        self.smoothed(scores, first, last, values, gradient)

    def at(self, iteration: int, total: int) -> Fill:
        return partial(self._fill_mixture, regression_share(iteration, total))

    def _fill_mixture(self, tau: float, scores: Array, first: int, last: int, values: Array, gradient: Array) -> None:
        self.smoothed(scores, first, last, values, gradient)
        ends = self.offsets[first : last + 1]
        away = scores - self.y[ends[0] : ends[-1]]
        counts = np.diff(ends)
        weights = tau * self.regression / counts
        bends = np.repeat(2.0 * weights, counts)
        if self.curved:
            gradient, curvature = values, gradient
            curvature *= 1.0 - tau
            curvature += bends
        else:
            values[first:last] *= 1.0 - tau
            values[first:last] += weights * np.add.reduceat(away**2, ends[:-1] - ends[0])
        gradient *= 1.0 - tau
        gradient += away * bends


PARAMETERS = {
    "alpha": Parameter(Real(low=0, open_low=True), 1.0),
    "beta": Parameter(Real(low=0, open_low=True), 1.0),
    "k": Parameter(Maybe(inner=Integer(low=1)), 10),
    "target": Parameter(Choice(of=("ndcg", "dcg")), "ndcg"),
    "least_spread": Parameter(Maybe(inner=Real(low=0)), None),
}
HINGED = PARAMETERS | {"tied": Parameter(Choice(of=("all", "best")), "all")}  # at the k-th place, for the cut-off
SMOOTH_DCG = (
    LossEntry(
        "sdcg",
        "N − smoothed DCG@k, ranks by sigmoids of all differences of scores; divided by N_q if the target is NDCG.",
        partial(_bind, False),
        newton=True,
        smooth=True,
        flat=True,
        frozen_by="least_spread",
        parameters=PARAMETERS,
        paper=PAPER,
    ),
    LossEntry(
        "shf-sdcg",
        "The same with smoothed hinges for pairs of different grades, and a cut-off that moves with the ranking.",
        partial(_bind, True),
        newton=True,
        frozen=True,
        parameters=HINGED,
        paper=PAPER,
    ),
    LossEntry(
        "reg-shf-sdcg",
        "From squared error against the grades, in the first iterations, to shf-sdcg in the last.",
        _Mixture,
        newton=True,
        frozen=True,
        staged=True,
        parameters=HINGED
        | {
            "regression": Parameter(Real(low=0, open_low=True), 1.0),
            "grade_step": Parameter(Real(low=0, open_low=True), 1.0),  # what regression takes for one grade, in scores
        },
        paper=PAPER,
    ),
)
