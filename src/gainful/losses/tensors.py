"""Losses on tensors: value and gradient by score without leaving the device.

The compiled losses are the definition; the forms here compute the same numbers on a GPU, and the tests check that they
agree to rounding. Losses without a form here (``tensor_loss`` returns None) run as compiled losses on the host.

Queries of similar length are padded to one width and share a :class:`Bucket`, a matrix of (queries, places). As in the
compiled kernels, the documents of a query are sorted by decreasing grade, so a document can beat only later ones and
pairs below the diagonal are skipped. Places past the end of a query have the level NaN, which is neither above nor
below any other.

This module imports PyTorch: import it only where needed.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gainful.data.rows import Array
from gainful.losses import smooth_dcg
from gainful.losses.base import ByGrade, Loss
from gainful.losses.listwise import gain_shares, top_one, weighted_grades
from gainful.losses.swap_tensors import Ranking, best_first, forms
from gainful.losses.weighted import rank_gaps, swap_gains

PAIRS_AT_ONCE = 1 << 25  # elements (query, document, document) per step: bounds its memory
FEW_PAIRS = 1 << 25  # up to this many run in one step: more launches would take longer
SLACK = 1 << 24  # this many padded pairs cost less than another bucket

Form = Callable[[Tensor], tuple[Tensor, Tensor]]  # padded scores (m, n) → values (m,), gradient (m, n)


class TensorLoss:
    """A loss on the queries of one batch: scores (n_rows,) → values (n_queries,), gradient (n_rows,)."""

    def __init__(self, build: Build, params: Mapping[str, Any], y: Array, offsets: Array, at: Tensor):
        """``at`` is any tensor: everything is stored on its device and in its type."""
        self.n_rows, self.n_queries = int(offsets[-1]), len(offsets) - 1
        rows = ByGrade(y, offsets)
        buckets = [Bucket(rows, queries, at) for queries in similar_lengths(np.diff(offsets))]
        self.parts = [(bucket, build(params, rows, bucket)) for bucket in buckets]

    def stage(self, iteration: int, total: int) -> None:
        """Set the iteration, 1 … ``total``, for a loss that changes during training."""
        for _, form in self.parts:
            if isinstance(form, Mixture):
                form.share = smooth_dcg.regression_share(iteration, total)

    def __call__(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        padded = torch.cat([scores, scores.new_zeros(1)])
        values, gradient = scores.new_empty(self.n_queries), scores.new_empty(self.n_rows + 1)
        for bucket, form in self.parts:
            values[bucket.queries], gradient[bucket.rows] = form(padded[bucket.rows])
        return values, gradient[:-1]


class Bucket:
    """Queries padded to the longest of them. ``rows`` (m, n): the row at each place, n_rows for padding."""

    def __init__(self, rows: ByGrade, queries: Array, at: Tensor):
        starts, ends = rows.offsets[queries, None], rows.offsets[queries + 1, None]
        place = starts + np.arange(int((ends - starts).max()))
        self._outside = place >= ends
        self._place = np.where(self._outside, 0, place)
        self._at = at
        self.queries = torch.as_tensor(queries, device=at.device)
        self.rows = self.of_int(rows.rows, pad=len(rows.rows))
        self.inside = torch.as_tensor(~self._outside, device=at.device)
        block = np.repeat(np.arange(len(rows.starts) - 1), np.diff(rows.starts))
        self.levels = self.of(block - np.repeat(rows.blocks[:-1], np.diff(rows.offsets)), pad=np.nan)
        self.counts = self.number(ends[:, 0] - starts[:, 0])
        self.several = torch.as_tensor(np.diff(rows.blocks)[queries] > 1, device=at.device)  # grades

    def of(self, by_position: Array, pad: float = 0.0) -> Tensor:
        """A number per row, in order of position, as an (m, n) tensor."""
        return self.number(np.where(self._outside, pad, by_position[self._place]))

    def of_int(self, by_position: Array, pad: int = 0) -> Tensor:
        whole = np.where(self._outside, pad, by_position[self._place]).astype(np.int64)
        return torch.as_tensor(whole, device=self._at.device)

    def number(self, values: Any) -> Tensor:
        return torch.as_tensor(np.asarray(values), dtype=self._at.dtype, device=self._at.device)


class Build(Protocol):
    """Binds a form to the grades of a bucket."""

    def __call__(self, params: Mapping[str, Any], rows: ByGrade, bucket: Bucket) -> Form: ...


def similar_lengths(counts: Array, slack: int = SLACK) -> Iterator[Array]:
    """Queries in groups of similar length: little padding, but no separate group for up to ``slack`` padded pairs."""
    order = np.argsort(-counts, kind="stable")
    area = counts[order].astype(np.float64) ** 2
    begin = 0
    while begin < len(order):
        useful = np.cumsum(area[begin:])
        waste = area[begin] * np.arange(1, len(useful) + 1) - useful
        too_much = np.flatnonzero(waste > np.maximum(slack, useful / 4.0))
        end = begin + (int(too_much[0]) if len(too_much) else len(useful))
        yield np.sort(order[begin:end])
        begin = end


# -- kernels of our own ------------------------------------------------------------------------------------------------


def fuses(at: Tensor) -> bool:
    """Whether our kernels in Triton run on the device of this tensor."""
    return at.is_cuda and _runs_triton(at.device)


@cache
def _runs_triton(device: torch.device) -> bool:
    """It comes with PyTorch's CUDA builds, but needs a C compiler and a folder to write to."""
    if find_spec("triton") is None:
        return False
    try:
        from gainful.losses.fused_pairs import check

        check(device)
    except Exception as error:  # whatever its compilers raise
        why = str(error).strip().partition("\n")[0]
        warnings.warn(
            f"training on {device} is slower than it could be: Triton does not run there ({why}); it comes with "
            f"PyTorch, and needs a C compiler and Python's header files",
            stacklevel=2,
        )
        return False
    return True


# -- pairs -------------------------------------------------------------------------------------------------------------

OfDifference = Callable[[Tensor], tuple[Tensor, Tensor]]  # s_i − s_j → the cost of the pair, and its derivative
Weigh = Callable[[slice, slice], Tensor]


def over_pairs(t: Tensor, levels: Tensor, of: OfDifference, weigh: Weigh | None = None) -> tuple[Tensor, Tensor]:
    """Σ over the pairs, i of higher grade than j, of weight_ij · of(t_i − t_j), and its gradient with fixed weights."""
    values, gradient = t.new_zeros(len(t)), torch.zeros_like(t)
    for here, later, cost, slope in weighed_pairs(t, levels, of, weigh):
        values += cost.sum(dim=(1, 2))
        gradient[:, here] += slope.sum(dim=2)
        gradient[:, later] -= slope.sum(dim=1)
    return values, gradient


def weighed_pairs(
    t: Tensor, levels: Tensor, of: OfDifference, weigh: Weigh | None
) -> Iterator[tuple[slice, slice, Tensor, Tensor]]:
    """Runs of places, all the later ones, and what ``of`` gives for their pairs, times the weight of each."""
    for here, later in steps(*t.shape):
        beats = levels[:, here, None] < levels[:, None, later]
        weight = beats.to(t.dtype) if weigh is None else torch.where(beats, weigh(here, later), 0.0)
        one, other = of(t[:, here, None] - t[:, None, later])
        yield here, later, one * weight, other * weight


def steps(m: int, n: int) -> Iterator[tuple[slice, slice]]:
    """Runs of places, with all the later places each can beat."""
    size = n if m * n * n <= FEW_PAIRS else max(1, min(math.ceil(n / 8), PAIRS_AT_ONCE // (m * n)))
    for begin in range(0, n - 1, size):
        yield slice(begin, min(begin + size, n)), slice(begin + 1, n)


def hinge(d: Tensor) -> tuple[Tensor, Tensor]:
    short = 1.0 - d
    return short.clamp(min=0.0), -(short > 0.0).to(d.dtype)


def squared_hinge(d: Tensor) -> tuple[Tensor, Tensor]:
    short = (1.0 - d).clamp(min=0.0)
    return short * short, -2.0 * short


def logistic(sigma: float, d: Tensor) -> tuple[Tensor, Tensor]:
    x = sigma * d
    return -F.logsigmoid(x), -sigma * torch.sigmoid(-x)


def modified_huber(d: Tensor) -> tuple[Tensor, Tensor]:
    bent = (1.0 - d).clamp(0.0, 2.0)
    return bent * bent - 4.0 * (d + 1.0).clamp(max=0.0), -2.0 * bent


def _mean_of_pairs(kind: str, params: Mapping[str, Any], rows: ByGrade, bucket: Bucket) -> Form:
    sigma = float(params.get("sigma", 1.0))
    of: OfDifference = {"hinge": hinge, "squared": squared_hinge}.get(kind, partial(logistic, sigma))
    share = 1.0 / bucket.number(pair_counts(rows)).clamp(min=1.0)[bucket.queries]
    sum_up: Form = partial(over_pairs, levels=bucket.levels, of=of)
    if fuses(bucket.levels):
        from gainful.losses.fused_pairs import FusedPairs

        sum_up = FusedPairs(kind, bucket.levels, sigma=sigma)

    def form(t: Tensor) -> tuple[Tensor, Tensor]:
        values, gradient = sum_up(t)
        return values * share, gradient * share[:, None]

    return form


def pair_counts(rows: ByGrade) -> Array:
    """The number of pairs of different grades in each query."""
    sizes = np.diff(rows.starts).astype(np.float64)
    same = np.add.reduceat(sizes**2, rows.blocks[:-1])
    return np.asarray((np.diff(rows.offsets).astype(np.float64) ** 2 - same) / 2.0)


# -- pairs weighted by the effect of a swap ----------------------------------------------------------------------------


class SwapTensors:
    """What weighs pairs by the effect of a swap: ``swap_gains``, and for lambdaloss the gaps of ranks, as tensors."""

    def __init__(self, params: Mapping[str, Any], rows: ByGrade, bucket: Bucket):
        swaps, n = swap_gains(params, rows), bucket.levels.shape[1]
        self.places, self.discounts = swaps.places, bucket.number(swaps.discounts[:n])
        self.gains, self.gaps, self.gap_sums = bucket.of(swaps.gains), None, None
        if "mu" in params:  # lambdaloss: the one with gaps and a logarithm to base 2
            near, far = rank_gaps(n, float(params["mu"]))
            self.gains, self.gaps = bucket.of(swaps.gains * (1.0 / math.log(2.0))), bucket.number(near)
            self.gap_sums = torch.as_tensor(far, device=bucket.levels.device)  # float64: they cancel

    def weigh(self, ranking: Ranking) -> Weigh:
        """The weights of pairs by the discounts of a ranking."""
        D = ranking.shared(self.discounts.expand_as(self.gains))

        def weigh(here: slice, later: slice) -> Tensor:
            change = (D[:, here, None] - D[:, None, later]).abs()
            if self.gap_sums is not None:
                change = change + ranking.mean_gaps(self.gap_sums, here, later).to(change.dtype)
            return (self.gains[:, here, None] - self.gains[:, None, later]) * change

        return weigh


def _weighted_pairs(kind: str, params: Mapping[str, Any], rows: ByGrade, bucket: Bucket) -> Form:
    swaps, sigma = SwapTensors(params, rows, bucket), float(params.get("sigma", 1.0))
    of: OfDifference = modified_huber if kind == "huber" else partial(logistic, sigma)
    if swaps.places is None and fuses(swaps.gains):
        from gainful.losses.fused_pairs import FusedPairs

        return FusedPairs(
            kind,
            bucket.levels,
            sigma=sigma,
            gains=swaps.gains,
            discounts=swaps.discounts,
            gaps=swaps.gaps,
            gap_sums=swaps.gap_sums,
        )
    worth = None if swaps.places is None else bucket.of(swaps.places.worth)

    def form(t: Tensor) -> tuple[Tensor, Tensor]:
        ranking = Ranking(t, bucket.levels, bucket.inside)
        rank, gains = ranking.twice, swaps.gains

        def by_forms(here: slice, later: slice) -> Tensor:
            P, Q, R, S, P_below, Q_below, R_below, S_below = (
                form[:, here, None] if place % 2 == 0 else form[:, None, later] for place, form in enumerate(each)
            )
            above = rank[:, None, later] < rank[:, here, None]
            change = torch.where(above, P * Q + R + S, P_below * Q_below + R_below + S_below).clamp(min=0.0)
            return (gains[:, here, None] - gains[:, None, later]) * change

        if swaps.places is None or worth is None:
            return over_pairs(t, bucket.levels, of, swaps.weigh(ranking))
        each = forms(swaps.places, worth, ranking)
        return over_pairs(t, bucket.levels, of, by_forms)

    return form


# -- lists -------------------------------------------------------------------------------------------------------------


def _cross_entropy(target_of: Callable[[Mapping[str, Any], Array, Array], Array]) -> Build:
    def build(params: Mapping[str, Any], rows: ByGrade, bucket: Bucket) -> Form:
        target = bucket.of(rows.take(target_of(params, rows.y, rows.offsets))) * bucket.several[:, None]
        wanted = target.sum(dim=1, keepdim=True)

        def form(t: Tensor) -> tuple[Tensor, Tensor]:
            logs = torch.log_softmax(torch.where(bucket.inside, t, -torch.inf), dim=1)
            logs = torch.where(bucket.inside, logs, 0.0)
            chances = torch.where(bucket.inside, logs.exp(), 0.0)
            return -(target * logs).sum(dim=1), wanted * chances - target

        return form

    return build


def _listmle(params: Mapping[str, Any], rows: ByGrade, bucket: Bucket) -> Form:
    sizes = np.diff(rows.starts)
    first = np.repeat(rows.offsets[:-1], np.diff(rows.offsets))
    above = bucket.of_int(np.repeat(rows.starts[:-1], sizes) - first)  # documents of higher grade
    below = bucket.of_int(np.repeat(rows.starts[1:], sizes) - first)  # the first place of a lower grade
    competes = bucket.inside & (below < bucket.counts[:, None])
    none = -torch.inf

    def form(t: Tensor) -> tuple[Tensor, Tensor]:
        real = torch.where(bucket.inside, t, none)
        rests = F.pad(torch.logcumsumexp(real.flip(1), dim=1).flip(1), (0, 1), value=none).gather(1, below)
        rests = torch.where(competes, rests, t)  # any finite number: masked below
        total = torch.logaddexp(t, rests)
        pulls = torch.logcumsumexp(torch.where(competes, -total, none), dim=1)
        pull = F.pad(pulls, (1, 0), value=none).gather(1, above)
        gradient = torch.where(bucket.inside, (t + pull).exp(), 0.0)
        gradient = gradient - torch.where(competes, torch.sigmoid(rests - t), 0.0)
        return torch.where(competes, total - t, 0.0).sum(dim=1), gradient

    return form


def _squared_error(centred: bool, params: Mapping[str, Any], rows: ByGrade, bucket: Bucket) -> Form:
    grades, n = bucket.of(params.get("grade_step", 1.0) * rows.take(rows.y)), bucket.counts[:, None]

    def form(t: Tensor) -> tuple[Tensor, Tensor]:
        away = torch.where(bucket.inside, t - grades, 0.0)
        if centred:
            away = torch.where(bucket.inside, away - away.sum(dim=1, keepdim=True) / n, 0.0)
        return (away * away / n).sum(dim=1), 2.0 * away / n

    return form


# -- smoothed DCG ------------------------------------------------------------------------------------------------------


class SmoothedDCG:
    """top − Σ_i c_i F(r_i) with F(r) = G_β(r − cut-off)/log2(1 + r) and smooth ranks r: two passes over all pairs."""

    def __init__(self, hinged: bool, params: Mapping[str, Any], rows: ByGrade, bucket: Bucket):
        self.hinged, self.bucket, self.k = hinged, bucket, params["k"]
        self.alpha, self.beta = float(params["alpha"]), float(params["beta"])
        self.least = params["least_spread"]
        gains = smooth_dcg._gains(rows, params["target"], self.k)
        self.gains = bucket.of(gains) * bucket.several[:, None]
        self.counted = self._cutoff_documents(rows) if params.get("tied") == "all" and self.k is not None else None
        self.top = bucket.number(smooth_dcg._best(gains, rows.offsets))[bucket.queries] * bucket.several

    def __call__(self, t: Tensor) -> tuple[Tensor, Tensor]:
        units = torch.ones_like(t[:, 0]) if self.least is None else self._units(t, self.least)
        r, z = torch.full_like(t, 0.5), self.alpha * (t / units[:, None])  # a document's share against itself is ½
        for here in self._runs(t):
            r[:, here] += self._compare(z, here)[0].sum(dim=2)
        total, p = self._discounted_gain(r, self._cutoffs(t))
        gradient = torch.zeros_like(t)
        for here in self._runs(t):
            slope = self._compare(z, here)[1] * p[:, here, None]
            gradient[:, here] += slope.sum(dim=2)
            gradient -= slope.sum(dim=1)
        return (self.top - total).clamp(min=0.0) * units, self.alpha * gradient

    def _units(self, t: Tensor, least: float) -> Tensor:
        """√(variance of the scores + least²) of each query."""
        inside, counts = self.bucket.inside, self.bucket.counts
        mean = torch.where(inside, t, 0.0).sum(dim=1) / counts
        variance = torch.where(inside, (t - mean[:, None]) ** 2, 0.0).sum(dim=1) / counts
        units = (variance + least**2).sqrt()
        return torch.where(units > 0.0, units, 1.0)

    def _runs(self, t: Tensor) -> Iterator[slice]:
        (m, n), levels = t.shape, self.bucket.levels
        size = n if m * n * n <= FEW_PAIRS else max(1, min(n, PAIRS_AT_ONCE // (m * n)))
        for begin in range(0, levels.shape[1], size):
            yield slice(begin, min(begin + size, n))

    def _compare(self, z: Tensor, here: slice) -> tuple[Tensor, Tensor]:
        """What each document adds to the ranks of those in ``here``, and the derivative by the z of the latter."""
        x = z[:, here, None] - z[:, None, :]
        share = torch.sigmoid(-x)
        levels, own = self.bucket.levels[:, None, :], self.bucket.levels[:, here, None]
        if not self.hinged:
            there = self.bucket.inside[:, None, :]
            return torch.where(there, share, 0.0), torch.where(there, -share * (1.0 - share), 0.0)
        equal, sign = own == levels, torch.sign(levels - own).nan_to_num(0.0)  # sign: +1 over lower grades
        away = sign * x  # > 0 if the pair is in the right order
        hinge = torch.where(away > 0.0, torch.sigmoid(-away), 0.5 - 0.25 * away)
        part = torch.where(equal, share, torch.where(away > 0.0, hinge, 0.5))
        slope = -part * (1.0 - part) * torch.where(equal, 1.0, sign)
        return torch.where(equal, share, sign.abs() * hinge + (sign < 0.0).to(z.dtype)), slope

    def _cutoff_documents(self, rows: ByGrade) -> Tensor:
        """The documents whose ranks move the cut-off: all grades that reach into the first k, except the lowest."""
        begin = rows.starts[:-1] - np.repeat(rows.offsets[:-1], np.diff(rows.blocks))
        lowest = np.zeros(len(begin), dtype=bool)
        lowest[rows.blocks[1:] - 1] = True
        return self.bucket.of_int(np.repeat((begin < self.k) & ~lowest, np.diff(rows.starts)))

    def _cutoffs(self, t: Tensor) -> Tensor | float:
        """k, or the largest current rank among the k most relevant documents if that is larger; (m, 1)."""
        if self.k is None:
            return torch.inf
        if not self.hinged:
            return float(self.k)
        order = best_first(t, self.bucket.inside)
        if self.counted is None:  # the k best-ranked of the highest grades
            levels = self.bucket.levels.gather(1, order)
            first = torch.sort(levels, dim=1, stable=True).indices[:, : self.k]  # ranks from 0, the padding last
            ranks = torch.where(first < self.bucket.counts[:, None], first + 1, 0)
        else:
            places = torch.arange(1, t.shape[1] + 1, device=t.device).expand_as(order)
            ranks = torch.empty_like(order).scatter_(1, order, places) * self.counted
        return ranks.amax(dim=1, keepdim=True).clamp(min=int(self.k)).to(t.dtype)

    def _discounted_gain(self, r: Tensor, cutoffs: Tensor | float) -> tuple[Tensor, Tensor]:
        """Σ c_i F(r_i), and −c_i F'(r_i)."""
        log = torch.log1p(r)
        x = self.beta * (r - cutoffs)
        part = self.gains * torch.sigmoid(-x) * (math.log(2.0) / log)
        return part.sum(dim=1), part * (self.beta * torch.sigmoid(x) + 1.0 / ((1.0 + r) * log))


class Mixture:
    """share · regression · squared error + (1 − share) · smoothed DCG; outside training the share is 0."""

    def __init__(self, params: Mapping[str, Any], rows: ByGrade, bucket: Bucket):
        self.smoothed, self.squared = (
            SmoothedDCG(True, params, rows, bucket),
            _squared_error(False, params, rows, bucket),
        )
        self.regression, self.share = float(params["regression"]), 0.0

    def __call__(self, t: Tensor) -> tuple[Tensor, Tensor]:
        value, gradient = self.smoothed(t)
        other, slope = self.squared(t)
        own, weight = 1.0 - self.share, self.share * self.regression
        return own * value + weight * other, own * gradient + weight * slope


FORMS: Mapping[str, Build] = {
    "pairwise-hinge": partial(_mean_of_pairs, "hinge"),
    "pairwise-squared-hinge": partial(_mean_of_pairs, "squared"),
    "ranknet": partial(_mean_of_pairs, "logistic"),
    "lambda": partial(_weighted_pairs, "logistic"),
    "lambdaloss": partial(_weighted_pairs, "logistic"),
    "weighted-huber": partial(_weighted_pairs, "huber"),
    "listnet": _cross_entropy(top_one),
    "softmax-cross-entropy": _cross_entropy(weighted_grades),
    "xendcg": _cross_entropy(gain_shares),
    "listmle": _listmle,
    "squared": partial(_squared_error, False),
    "centred-squared": partial(_squared_error, True),
    "sdcg": partial(SmoothedDCG, False),
    "shf-sdcg": partial(SmoothedDCG, True),
    "reg-shf-sdcg": Mixture,
}


def tensor_loss(loss: Loss, y: Array, offsets: Array, at: Tensor) -> TensorLoss | None:
    """The loss on these queries as a function of a tensor like ``at``, or None if it has no such form."""
    if loss.name not in FORMS or loss.params.get("noise"):  # noise is drawn by the compiled form
        return None
    return TensorLoss(FORMS[loss.name], loss.params, y, offsets, at)
