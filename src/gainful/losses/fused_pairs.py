"""Losses on pairs in one pass on a GPU: no tensor of pairs is ever stored.

Documents are sorted by decreasing grade, so the better document of a pair comes first. A program takes some documents
of one query and visits those from there on. It sums the slopes of its own documents, and stores those of the others
beside those of the other programs, which are summed at the end: every sum has a fixed order, and the same scores give
the same bits.

This module imports Triton, which comes with PyTorch's CUDA builds: import it only where that is installed.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gainful.losses.base import RANGE

KINDS = {"hinge": 0, "squared": 1, "logistic": 2, "huber": 3}
# Documents of a program, and those it visits at once: they fit in the registers of a warp, whose sums need no barrier.
TILES = {torch.float32: (16, 16), torch.float64: (16, 8)}
RANK_TILE = (16, 32)
WARPS = 1
# artanh(z)/z in z² on [0, 1/9]: the polynomial of ``weighted_kernels``, even and odd terms
EVEN = tl.constexpr((0.04940414659347673, 0.07681838573021182, 0.11111095432143078, 0.1999999999764473, 1.0))
ODD = tl.constexpr(
    (0.08890338989999957, 0.06795648730571371, 0.09091429868764374, 0.1428571455578215, 0.33333333333341275)
)


@triton.jit
def _rank(t, levels, sums, twice, size, D, n, WIDTH: tl.constexpr, AHEAD: tl.constexpr):
    """Twice the rank of each document, how many share it, and their mean discount: lower grades come first."""
    base = tl.program_id(0).to(tl.int64) * n
    i = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    mine = tl.load(t + base + i, mask=i < n, other=0.0)[:, None]
    level = tl.load(levels + base + i, mask=i < n, other=float("nan"))[:, None]
    above = tl.zeros((WIDTH, AHEAD), dtype=tl.int32)
    same = tl.zeros((WIDTH, AHEAD), dtype=tl.int32)
    for start in range(0, n, AHEAD):
        j = start + tl.arange(0, AHEAD)
        other = tl.load(t + base + j, mask=j < n, other=0.0)[None, :]
        its = tl.load(levels + base + j, mask=j < n, other=float("nan"))[None, :]
        tied = other == mine
        above += (((other > mine) & (its == its)) | (tied & (its > level))).to(tl.int32)
        same += (tied & (its == level)).to(tl.int32)
    first, ties = tl.sum(above, axis=1), tl.sum(same, axis=1)
    tl.store(twice + base + i, 2 * first + ties + 1, mask=i < n)
    ties = tl.maximum(ties, 1)
    tl.store(size + base + i, ties, mask=i < n)
    last = tl.minimum(first + ties, n)
    mean = (tl.load(sums + last) - tl.load(sums + tl.minimum(first, n))) / ties
    tl.store(D + base + i, mean, mask=i < n)


@triton.jit
def _exponentials(t, levels, E, near, n, SIGMA: tl.constexpr, RANGE: tl.constexpr, SPAN: tl.constexpr):
    """exp(σ(s − c)) of each document of a query, c the middle of its scores, and whether they can be used."""
    base = tl.program_id(0).to(tl.int64) * n
    low = tl.full((SPAN,), float("inf"), dtype=E.dtype.element_ty)
    high = tl.full((SPAN,), float("-inf"), dtype=E.dtype.element_ty)
    for start in range(0, n, SPAN):
        j = start + tl.arange(0, SPAN)
        its = tl.load(levels + base + j, mask=j < n, other=float("nan"))
        s = tl.load(t + base + j, mask=j < n, other=0.0)
        low = tl.where(its == its, tl.minimum(low, s), low)
        high = tl.where(its == its, tl.maximum(high, s), high)
    bottom, top = tl.min(low, axis=0), tl.max(high, axis=0)
    middle = bottom + 0.5 * (top - bottom)
    tl.store(near + tl.program_id(0), (SIGMA * (top - bottom) <= RANGE).to(tl.int32))
    for start in range(0, n, SPAN):
        j = start + tl.arange(0, SPAN)
        s = tl.load(t + base + j, mask=j < n, other=0.0)
        tl.store(E + base + j, tl.exp(SIGMA * (s - middle)), mask=j < n)


@triton.jit
def _positive(x):
    """max(x, 0), NaN for NaN."""
    return tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _minus_log(z):
    """−log(1 − p) = 2 artanh(z), z = p/(2 − p), for p in [0, ½]."""
    x = z * z
    y = x * x
    even = EVEN[0] * y + EVEN[1]
    odd = ODD[0] * y + ODD[1]
    for k in tl.static_range(2, 5):
        even = even * y + EVEN[k]
        odd = odd * y + ODD[k]
    return 2.0 * z * (odd * x + even)


@triton.jit
def _pairs(
    t, levels, E, near, gains, D, twice, size, gaps, gap_sums, values, slopes, n, n_parts,
    SIGMA: tl.constexpr, KIND: tl.constexpr, BY_SWAP: tl.constexpr, BY_GAP: tl.constexpr, BY_EXPONENTIALS: tl.constexpr,
    WIDTH: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """Σ over the pairs (i, j), i one of this program's documents, of weight · cost(s_i − s_j), and slopes by both."""
    part = tl.program_id(0).to(tl.int64) * n_parts + tl.program_id(1)
    base, first = tl.program_id(0).to(tl.int64) * n, tl.program_id(1) * WIDTH
    i = first + tl.arange(0, WIDTH)
    mine = tl.load(t + base + i, mask=i < n, other=0.0)[:, None]
    level = tl.load(levels + base + i, mask=i < n, other=float("nan"))[:, None]
    best = tl.load(levels + base + first)
    own = tl.zeros((WIDTH, AHEAD), dtype=mine.dtype)
    total = tl.zeros((WIDTH, AHEAD), dtype=mine.dtype)
    if BY_SWAP:
        gain = tl.load(gains + base + i, mask=i < n, other=0.0)[:, None]
        discount = tl.load(D + base + i, mask=i < n, other=0.0)[:, None]
        rank = tl.load(twice + base + i, mask=i < n, other=0)[:, None]
        shared = tl.load(size + base + i, mask=i < n, other=1)[:, None]
    if BY_EXPONENTIALS:
        e = tl.load(E + base + i, mask=i < n, other=0.0)[:, None]
        by_division = tl.load(near + tl.program_id(0)) > 0
    for start in range(first, n, AHEAD):
        j = start + tl.arange(0, AHEAD)
        worst = tl.load(levels + base + tl.minimum(start + AHEAD, n) - 1)  # NaN past the end of a query
        below = tl.zeros((AHEAD,), dtype=mine.dtype)
        if (best == best) & (best != worst):  # not all of one grade
            better = level < tl.load(levels + base + j, mask=j < n, other=float("nan"))[None, :]
            d = mine - tl.load(t + base + j, mask=j < n, other=0.0)[None, :]
            if KIND == 0:
                cost = _positive(1.0 - d)
                slope = -(d < 1.0).to(mine.dtype)
            elif KIND == 1:
                short = _positive(1.0 - d)
                cost = short * short
                slope = -2.0 * short
            elif KIND == 2:
                x = SIGMA * d
                if BY_EXPONENTIALS:
                    if by_division:
                        other = tl.load(E + base + j, mask=j < n, other=1.0)[None, :]
                        both, less = e + other, tl.minimum(e, other)
                        rest = 2.0 * both - less
                        r = 1.0 / (both * rest)
                        cost = tl.maximum(-x, 0.0) + _minus_log(less * both * r)
                        slope = -SIGMA * (other * rest * r)
                    else:
                        cost, slope = _logistic(x, SIGMA)
                else:
                    cost, slope = _logistic(x, SIGMA)
            else:
                bent = tl.minimum(_positive(1.0 - d), 2.0, propagate_nan=tl.PropagateNan.ALL)
                cost = bent * bent - 4.0 * tl.minimum(d + 1.0, 0.0)
                slope = -2.0 * bent
            if BY_SWAP:
                weight = tl.abs(discount - tl.load(D + base + j, mask=j < n, other=0.0)[None, :])
                if BY_GAP:
                    away = tl.abs(rank - tl.load(twice + base + j, mask=j < n, other=0)[None, :])
                    others = tl.load(size + base + j, mask=j < n, other=1)[None, :]
                    if tl.max(shared) + tl.max(others) == 2:
                        weight += tl.load(gaps + away, mask=better, other=0.0)
                    else:  # the mean over the orders of documents that share a rank
                        k = tl.maximum((away - shared - others) // 2, 0)  # ranks between them
                        mean = tl.load(gap_sums + k + shared, mask=better, other=0.0)
                        mean -= tl.load(gap_sums + k, mask=better, other=0.0)
                        mean -= tl.load(gap_sums + k + shared + others, mask=better, other=0.0)
                        mean += tl.load(gap_sums + k + others, mask=better, other=0.0)
                        weight += (mean / (shared * others)).to(mine.dtype)
                weight *= gain - tl.load(gains + base + j, mask=j < n, other=0.0)[None, :]
                cost *= weight
                slope *= weight
            slope = tl.where(better, slope, 0.0)
            own += slope
            total += tl.where(better, cost, 0.0)
            below = -tl.sum(slope, axis=0)
        tl.store(slopes + part * n + j, below, mask=j < n)
    tl.store(values + part, tl.sum(tl.sum(total, axis=1), axis=0))
    # What the first tiles wrote for this program's own documents is there already: add to it.
    tl.debug_barrier()
    before = tl.load(slopes + part * n + i, mask=i < n, other=0.0)
    tl.store(slopes + part * n + i, before + tl.sum(own, axis=1), mask=i < n)


@triton.jit
def _logistic(x, SIGMA: tl.constexpr):
    """log(1 + exp(−x)) and its slope, for any x."""
    small = tl.exp(-tl.abs(x))
    cost = tl.maximum(-x, 0.0) + tl.log(1.0 + small)
    return cost, -SIGMA * tl.where(x >= 0.0, small, 1.0) / (1.0 + small)


@triton.jit
def _add_up(slopes, gradient, n, n_parts, WIDTH: tl.constexpr, SPAN: tl.constexpr):
    """The slopes of each document from the programs that visited it: those that begin at it or before."""
    j = tl.program_id(1) * SPAN + tl.arange(0, SPAN)
    total = tl.zeros((SPAN,), dtype=gradient.dtype.element_ty)
    base = tl.program_id(0).to(tl.int64) * n_parts * n
    for part in range(n_parts):
        total += tl.load(slopes + base + part * n + j, mask=(j < n) & (part * WIDTH <= j), other=0.0)
    tl.store(gradient + tl.program_id(0).to(tl.int64) * n + j, total, mask=j < n)


class FusedPairs:
    """Σ over the pairs of weight · cost, and its gradient with fixed weights; (m, n) scores, one row per query.

    ``gains`` (m, n) and ``discounts`` by rank weigh a pair by what its swap changes; ``gaps``, by twice the difference
    of ranks, add to the discounts, where ranks are shared by their mean, from ``gap_sums``. Without them every pair
    counts once.
    """

    def __init__(
        self,
        kind: str,
        levels: Tensor,
        *,
        sigma: float = 1.0,
        gains: Tensor | None = None,
        discounts: Tensor | None = None,
        gaps: Tensor | None = None,
        gap_sums: Tensor | None = None,
    ):
        self.kind, self.levels, self.sigma = KINDS[kind], levels, sigma
        self.gains, self.gaps, self.gap_sums = gains, gaps, gap_sums
        self.width, self.ahead = TILES[levels.dtype]
        self.grid = levels.shape[0], triton.cdiv(levels.shape[1], self.width)
        self.sums = None
        if discounts is not None:
            self.sums = torch.cat([discounts.new_zeros(1), discounts.cumsum(0)])
        # In float64 an exponential and a logarithm per pair cost most; float32 has both in hardware.
        self.by_exponentials = kind == "logistic" and levels.dtype == torch.float64

    def __call__(self, t: Tensor) -> tuple[Tensor, Tensor]:
        with torch.cuda.device_of(t):  # where Triton starts kernels
            return self._sum_up(t)

    def _sum_up(self, t: Tensor) -> tuple[Tensor, Tensor]:
        t, (m, n), n_parts = t.contiguous(), t.shape, self.grid[1]
        values, slopes, gradient = t.new_empty(self.grid), t.new_empty((m, n_parts, n)), torch.empty_like(t)
        D, twice, size, E, near = t, t, t, t, t  # not read unless needed
        sizes: dict[str, Any] = {"WIDTH": self.width, "AHEAD": self.ahead, "num_warps": WARPS}
        if self.sums is not None:
            D, twice, size = torch.empty_like(t), *torch.empty((2, m, n), dtype=torch.int32, device=t.device)
            width, ahead = RANK_TILE
            _rank[m, triton.cdiv(n, width)](
                t, self.levels, self.sums, twice, size, D, n, WIDTH=width, AHEAD=ahead, num_warps=WARPS
            )
        if self.by_exponentials:
            E, near = torch.empty_like(t), torch.empty(m, dtype=torch.int32, device=t.device)
            _exponentials[m,](t, self.levels, E, near, n, SIGMA=self.sigma, RANGE=RANGE, SPAN=128, num_warps=WARPS)
        _pairs[self.grid](
            t, self.levels, E, near, t if self.gains is None else self.gains, D, twice, size,
            t if self.gaps is None else self.gaps, t if self.gap_sums is None else self.gap_sums,
            values, slopes, n, n_parts,
            SIGMA=self.sigma, KIND=self.kind, BY_SWAP=self.sums is not None, BY_GAP=self.gaps is not None,
            BY_EXPONENTIALS=self.by_exponentials, **sizes,
        )  # fmt: skip
        _add_up[m, triton.cdiv(n, 128)](slopes, gradient, n, n_parts, WIDTH=self.width, SPAN=128)
        return values.sum(dim=1), gradient


@triton.jit
def _try(x, found):
    tl.store(found, _minus_log(tl.load(x)))


def check(device: torch.device) -> None:
    """Run a kernel on the device; an error unless it gives the right number to all digits."""
    x = torch.tensor([0.3], dtype=torch.float64, device=device)
    found = torch.empty_like(x)
    with torch.cuda.device_of(x):
        _try[1,](x, found, num_warps=WARPS)
    if not torch.allclose(found, 2.0 * torch.atanh(x), rtol=1e-14, atol=0.0):
        raise ArithmeticError("its constants are rounded to float32; a newer Triton keeps them")
