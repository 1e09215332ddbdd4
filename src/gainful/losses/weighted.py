"""Losses on pairs weighted by the change in a metric from swapping the two documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from gainful.data.rows import Array, read_only
from gainful.errors import ParameterError
from gainful.losses.base import ByGrade, FrozenFill, LossEntry, Parameter, exponentials
from gainful.losses.swaps import SUMS, Places, SwapMetric, gains_and_discounts, short_text
from gainful.metrics import metric
from gainful.parameters.constraints import Integer, Maybe, Real

NDCG = "ndcg"
SIGMA = Parameter(Real(low=0, open_low=True), 1.0)
DEPTH = Parameter(Maybe(inner=Integer(low=1)), None)
LARGEST_NOISE = 1e6  # a draw is at most 40 times that, which losses can hold
NOISE = {
    "noise": Parameter(Real(low=0, high=LARGEST_NOISE), 0.0),  # size of Gumbel noise on the scores
    "draws": Parameter(Integer(low=1, high=100_000), 4),
    "seed": Parameter(Integer(low=0, high=2**32 - 1), 0),
}


class Pairs(Protocol):
    """How much each pair counts: fixed ``arrays``, and what depends on the scores."""

    rows: ByGrade
    arrays: tuple[Any, ...]

    def rank(self, t: Array, first: int, last: int) -> tuple[Any, ...]: ...


def _parts(ranks: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    """Ranks, discounts and forms as the kernels take them: there are discounts or forms, not both."""
    rank, *others = ranks
    return (rank, None, np.stack([*others, rank.astype(np.float64)])) if len(others) > 1 else (rank, *others, None)


def _arrays(pairs: Pairs, ranks: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arrays of the pairs, with gaps of two dimensions if documents share ranks."""
    from gainful.losses.weighted_kernels import SHARED

    *before, gaps, own = pairs.arrays
    shared = gaps is not None and (ranks[0] >> SHARED).max(initial=0) > 1
    return (*before, gaps[None] if shared else gaps, own)


def _bind_huber(
    params: Mapping[str, Any], y: Array, offsets: Array, weights: Array | None = None, *, curved: bool = False
) -> FrozenFill:
    from gainful.losses.tile_kernels import ROOM
    from gainful.losses.weighted_kernels import huber

    pairs = SwappedPairs(params, y, offsets, weights)

    def run(t: Array, first: int, last: int, ranks: tuple[Any, ...], values: Any, g: Array, h: Any) -> None:
        huber(t, *pairs.arrays, *_parts(ranks), np.zeros(ROOM), first, last, values, g, h)

    return FrozenFill(pairs.rows, pairs.rank, run, curved=curved)


def _bind_logistic(
    params: Mapping[str, Any], y: Array, offsets: Array, weights: Array | None = None, *, curved: bool = False
) -> FrozenFill:
    return bind_logistic(SwappedPairs(params, y, offsets, weights), float(params["sigma"]), curved=curved)


def bind_logistic(pairs: Pairs, sigma: float, *, curved: bool = False) -> FrozenFill:
    """Σ over the pairs of weight · log(1 + exp(−σ(s_i − s_j)))."""
    from gainful.losses.tile_kernels import ROOM
    from gainful.losses.weighted_kernels import logistic, logistic_far

    offsets = pairs.rows.offsets

    def run(t: Array, first: int, last: int, ranks: tuple[Any, ...], values: Any, g: Array, h: Any) -> None:
        weights = (*_arrays(pairs, ranks), *_parts(ranks), np.zeros(ROOM))
        E, far = exponentials(t, offsets[first : last + 1], sigma)
        logistic(t, *weights, sigma, E, first, last, values, g, h)
        if len(far):
            logistic_far(t, *weights, sigma, far + first, first, values, g, h)

    return FrozenFill(pairs.rows, pairs.rank, run, curved=curved)


class SwappedPairs:
    """Pairs that count by what swapping them changes in a metric: fixed ``arrays``, the rest by the scores.

    With ``weights`` of the documents, that is multiplied by the product of the pair's two.
    """

    def __init__(self, params: Mapping[str, Any], y: Array, offsets: Array, weights: Array | None = None):
        from gainful.losses.weighted_kernels import LONG_LIST

        rows = self.rows = ByGrade(y, offsets)
        found, counts = swap_gains(params, rows), np.diff(rows.offsets)
        gains, self.places = found.gains, found.places
        gaps, longest = None, int(counts.max())
        if "mu" in params:  # lambdaloss: the one with gaps and a logarithm to base 2
            gains, (near, sums) = gains / np.log(2.0), rank_gaps(longest, float(params["mu"]))
            gaps = read_only(np.concatenate([sums, near[:0:-1], near, sums]))  # by the difference, from the middle
        self.long_lists, self.discounts = np.flatnonzero(counts >= LONG_LIST), read_only(found.discounts)
        own = rows.take_optional(weights)
        self.arrays = rows.offsets, rows.blocks, rows.starts, read_only(gains), gaps, own

    def rank(self, t: Array, first: int, last: int) -> tuple[Array, ...]:
        """Twice the rank of each document with how many share it, and its discount; or twice the rank, and forms."""
        from gainful.losses.weighted_kernels import RANK_ROOM, TWICE, rank_by_counting

        ends, blocks, starts = self.rows.offsets, self.rows.blocks, self.rows.starts
        room = np.empty(RANK_ROOM, dtype=np.int64)
        rank, D = np.zeros(len(t), dtype=np.int64), np.empty(len(t))  # queries of one grade keep 0
        rank_by_counting(t, ends, blocks, starts, self.discounts, room, first, last, rank, D)
        long_lists = self.long_lists
        for q in long_lists[np.searchsorted(long_lists, first) : np.searchsorted(long_lists, last)]:
            mine = slice(int(ends[q] - ends[first]), int(ends[q + 1] - ends[first]))
            rank[mine], D[mine] = rank_by_sorting(t[mine], starts[blocks[q] : blocks[q + 1] + 1], self.discounts)
        if self.places is None:
            return rank, D
        rank &= TWICE
        return rank, *self.places(rank, first, last)


class SwapGains(NamedTuple):
    """What the changes by swaps are made of: gains by position, discounts by rank, and ``places`` for other metrics."""

    gains: Array
    discounts: Array
    places: Places | None


def swap_gains(params: Mapping[str, Any], rows: ByGrade) -> SwapGains:
    """For the metric of a loss, NDCG@k unless it has one."""
    measure, longest = metric(params.get("metric", NDCG)), int(np.diff(rows.offsets).max())
    if measure == metric(NDCG):
        k = params.get("k")
        depth, discounts = longest if k is None else min(longest, k), np.zeros(longest)
        discounts[:depth] = np.log(2.0) / np.log(np.arange(2.0, depth + 2.0))
        return SwapGains(rows.gains(k), discounts, None)
    if measure.kind in SUMS:
        return SwapGains(*gains_and_discounts(measure, rows), None)
    places = Places(measure, rows)
    return SwapGains(places.gains, np.zeros(longest), places)


def rank_by_sorting(t: Array, cuts: Array, discounts: Array) -> tuple[Array, Array]:
    """Rank and discount of each document of a query, as the compiled loops have them."""
    from gainful.losses.weighted_kernels import SHARED

    n = len(t)
    order = n - 1 - np.argsort(-t[::-1], kind="stable")  # among equal scores the lower grade comes first
    grade, score = np.repeat(np.arange(len(cuts) - 1), np.diff(cuts))[order], t[order]
    begins = np.flatnonzero(np.concatenate([[True], (score[1:] != score[:-1]) | (grade[1:] != grade[:-1])]))
    sizes = np.diff(np.append(begins, n))
    rank, D = np.empty(n, dtype=np.int64), np.empty(n)
    rank[order] = np.repeat(sizes << SHARED | (2 * begins + sizes + 1), sizes)
    D[order] = np.repeat(np.add.reduceat(discounts[:n], begins) / sizes, sizes)
    return rank, D


def rank_gaps(longest: int, mu: float) -> tuple[Array, Array]:
    """μ|D(d) − D(d + 1)| at the distance d of ranks: entry 2d; and μ(D(1) + … + D(d)): entry d."""
    discounts = mu * np.log(2.0) / np.log(np.arange(2.0, longest + 3.0))
    gaps = np.zeros(2 * longest + 1)
    gaps[2::2] = discounts[:-1] - discounts[1:]
    return gaps, np.concatenate([[0.0], np.cumsum(discounts[:-1])])


def _settle_metric(params: dict[str, Any]) -> dict[str, Any]:
    """The metric by its shortest text, ndcg@k by ``k``; ``k`` and a metric exclude each other."""
    if "metric" not in params:
        return params
    measure = metric(params["metric"])
    if measure != metric(NDCG) and params.get("k") is not None:
        raise ParameterError(
            f"k of the loss lambda is short for metric='ndcg@{params['k']}', and metric={str(params['metric'])!r} is "
            "given too; leave one of them out"
        )
    if measure.k is not None and measure == metric(f"ndcg@{measure.k}"):
        return params | {"metric": NDCG, "k": measure.k}
    return params | {"metric": short_text(measure)}


WEIGHTED = (
    LossEntry(
        "lambda",
        "Σ over the pairs of |Δmetric| · log(1 + exp(−σ(s_i − s_j))); k is short for metric=ndcg@k.",
        _bind_logistic,
        newton=True,
        frozen=True,
        weighs_documents=True,
        parameters={"k": DEPTH, "sigma": SIGMA, "metric": Parameter(SwapMetric(), NDCG)} | NOISE,
        settle=_settle_metric,
        paper="Burges, Ragno and Le 2006, Learning to rank with nonsmooth cost functions",
    ),
    LossEntry(
        "lambdaloss",
        "NDCG-Loss2++: Σ over the pairs of (ρ_ij + μ δ_ij)|G_i − G_j| · log2(1 + exp(−σ(s_i − s_j))).",
        _bind_logistic,
        newton=True,
        frozen=True,
        weighs_documents=True,
        parameters={"mu": Parameter(Real(low=0), 10.0), "sigma": SIGMA} | NOISE,
        paper="Wang, Li, Golbandi, Bendersky and Najork 2018, The LambdaLoss framework for ranking metric optimization",
    ),
    LossEntry(
        "weighted-huber",
        "Σ over the pairs of |ΔNDCG| · modified Huber of s_i − s_j.",
        _bind_huber,
        newton=True,
        frozen=True,
        weighs_documents=True,
        parameters=NOISE,
        preferences="huber",
        paper="Sun, Qin, Tao and Wang 2009, Robust sparse rank learning for non-smooth ranking measures",
    ),
)
