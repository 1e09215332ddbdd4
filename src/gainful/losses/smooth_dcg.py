"""Smoothed DCG: the ranks in DCG as sums of sigmoids or of smoothed hinges, and its mixture with regression.

With G_α(x) = 1/(1 + exp(αx)) and r̂_i = 1 + Σ_{j≠i} h_ij(s_i − s_j), the smoothed DCG of a query is
S = Σ_i φ(g_i) G_β(r̂_i − cut-off)/log2(1 + r̂_i). The losses are N − S, with N the ideal DCG of the whole list, divided
by the ideal DCG@k of the query if the target is NDCG. S never exceeds N: see ``docs/smooth-dcg.md``.

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
from gainful.losses.base import ByGrade, FrozenFill, LossEntry, Parameter, StagedFill, centre
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


def _bind(hinged: bool, params: Mapping[str, Any], y: Array, offsets: Array) -> FrozenFill:
    from gainful.losses import smooth_dcg_kernels as kernels

    rows, k, every = ByGrade(y, offsets), params["k"], params.get("tied") == "all"
    discount = _Discount(rows, params)
    alpha, shape = float(params["alpha"]), (rows.offsets, rows.blocks, rows.starts)

    def cut(t: Array, first: int, last: int) -> tuple[Array]:
        """The cut-off of each query; with hinges it moves with the scores."""
        cutoffs = np.full(last - first, np.inf if k is None else float(k))
        if hinged and k is not None:
            room = np.empty(int(np.diff(offsets[first : last + 1]).max()))
            kernels.moving_cutoffs(every, t, *shape, int(k), first, last, room, cutoffs)
        return (cutoffs,)

    def run(t: Array, first: int, last: int, cutoffs: tuple[Array, ...], values: Array, slopes: Array) -> None:
        z, bands = in_bands(t, offsets[first : last + 1], alpha)
        r = smooth_ranks(z, bands, rows, discount.known, first, last, hinged)
        p = alpha * discount(r, cutoffs[0], first, last, values)
        if hinged:
            kernels.hinged_slopes(*bands, *shape, discount.known, p, first, last, slopes)
        else:
            kernels.sigmoid_slopes(*bands, offsets, discount.known, p, first, last, slopes)

    return FrozenFill(rows, cut, run, by_query=True)


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


def _bind_mixed(params: Mapping[str, Any], y: Array, offsets: Array) -> StagedFill:
    return _Mixture(_bind(True, params, y, offsets), float(params["regression"]), y, offsets)


class _Mixture:
    """τ_m · regression · R + (1 − τ_m) · the smoothed loss, with R the mean of (s_i − g_i)² over the query.

    Outside training there are no iterations: calling it directly gives the smoothed loss alone, the last stage.
    """

    def __init__(self, smoothed: FrozenFill, regression: float, y: Array, offsets: Array):
        self.smoothed, self.regression, self.y, self.offsets = smoothed, regression, y, offsets
        self.bind_frozen = smoothed.bind_frozen

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
        values[first:last] *= 1.0 - tau
        values[first:last] += weights * np.add.reduceat(away**2, ends[:-1] - ends[0])
        gradient *= 1.0 - tau
        away *= np.repeat(2.0 * weights, counts)
        gradient += away


PARAMETERS = {
    "alpha": Parameter(Real(low=0, open_low=True), 1.0),
    "beta": Parameter(Real(low=0, open_low=True), 1.0),
    "k": Parameter(Maybe(inner=Integer(low=1)), 10),
    "target": Parameter(Choice(of=("ndcg", "dcg")), "ndcg"),
}
HINGED = PARAMETERS | {"tied": Parameter(Choice(of=("all", "best")), "all")}  # at the k-th place, for the cut-off
SMOOTH_DCG = (
    LossEntry(
        "sdcg",
        "N − smoothed DCG@k, ranks by sigmoids of all differences of scores; divided by N_q if the target is NDCG.",
        partial(_bind, False),
        smooth=True,
        flat=True,
        parameters=PARAMETERS,
        paper=PAPER,
    ),
    LossEntry(
        "shf-sdcg",
        "The same with smoothed hinges for pairs of different grades, and a cut-off that moves with the ranking.",
        partial(_bind, True),
        frozen=True,
        parameters=HINGED,
        paper=PAPER,
    ),
    LossEntry(
        "reg-shf-sdcg",
        "From squared error against the grades, in the first iterations, to shf-sdcg in the last.",
        _bind_mixed,
        frozen=True,
        staged=True,
        parameters=HINGED | {"regression": Parameter(Real(low=0, open_low=True), 1.0)},
        paper=PAPER,
    ),
)
