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

KINDS = {"hinge": 0, "squared": 1, "logistic": 2, "huber": 3}
AHEAD = 32  # documents visited at once
WARPS = 4


@triton.jit
def _rank(t, levels, sums, twice, D, n, WIDTH: tl.constexpr, AHEAD: tl.constexpr):
    """Twice the rank of each document, and the mean discount of those it ties with: lower grades come first."""
    base = tl.program_id(0).to(tl.int64) * n
    i = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    mine = tl.load(t + base + i, mask=i < n, other=0.0)[:, None]
    level = tl.load(levels + base + i, mask=i < n, other=float("nan"))[:, None]
    above = tl.zeros((WIDTH,), dtype=tl.int32)
    same = tl.zeros((WIDTH,), dtype=tl.int32)
    for start in range(0, n, AHEAD):
        j = start + tl.arange(0, AHEAD)
        other = tl.load(t + base + j, mask=j < n, other=0.0)[None, :]
        its = tl.load(levels + base + j, mask=j < n, other=float("nan"))[None, :]
        tied = other == mine
        above += tl.sum((((other > mine) & (its == its)) | (tied & (its > level))).to(tl.int32), axis=1)
        same += tl.sum((tied & (its == level)).to(tl.int32), axis=1)
    tl.store(twice + base + i, 2 * above + same + 1, mask=i < n)
    same = tl.maximum(same, 1)
    last = tl.minimum(above + same, n)
    mean = (tl.load(sums + last) - tl.load(sums + tl.minimum(above, n))) / same
    tl.store(D + base + i, mean, mask=i < n)


@triton.jit
def _pairs(
    t, levels, gains, D, twice, gaps, sigma, values, slopes, n, n_parts,
    KIND: tl.constexpr, BY_SWAP: tl.constexpr, BY_GAP: tl.constexpr, WIDTH: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """Σ over the pairs (i, j), i one of this program's documents, of weight · cost(s_i − s_j), and slopes by both."""
    part = tl.program_id(0).to(tl.int64) * n_parts + tl.program_id(1)
    base, first = tl.program_id(0).to(tl.int64) * n, tl.program_id(1) * WIDTH
    i = first + tl.arange(0, WIDTH)
    mine = tl.load(t + base + i, mask=i < n, other=0.0)[:, None]
    level = tl.load(levels + base + i, mask=i < n, other=float("nan"))[:, None]
    own = tl.zeros((WIDTH,), dtype=mine.dtype)
    total = tl.zeros((WIDTH,), dtype=mine.dtype)
    if BY_SWAP:
        gain = tl.load(gains + base + i, mask=i < n, other=0.0)[:, None]
        discount = tl.load(D + base + i, mask=i < n, other=0.0)[:, None]
        rank = tl.load(twice + base + i, mask=i < n, other=0)[:, None]
    for start in range(first, n, AHEAD):
        j = start + tl.arange(0, AHEAD)
        better = level < tl.load(levels + base + j, mask=j < n, other=float("nan"))[None, :]
        below = tl.zeros((AHEAD,), dtype=mine.dtype)
        if tl.max(better.to(tl.int32)) > 0:  # not all of one grade
            d = mine - tl.load(t + base + j, mask=j < n, other=0.0)[None, :]
            if KIND == 0:
                cost = tl.maximum(1.0 - d, 0.0)
                slope = -(d < 1.0).to(mine.dtype)
            elif KIND == 1:
                short = tl.maximum(1.0 - d, 0.0)
                cost = short * short
                slope = -2.0 * short
            elif KIND == 2:
                x = sigma * d
                small = tl.exp(-tl.abs(x))
                cost = tl.maximum(-x, 0.0) + tl.log(1.0 + small)
                slope = -sigma * tl.where(x >= 0.0, small, 1.0) / (1.0 + small)
            else:
                bent = tl.minimum(tl.maximum(1.0 - d, 0.0), 2.0)
                cost = bent * bent - 4.0 * tl.minimum(d + 1.0, 0.0)
                slope = -2.0 * bent
            if BY_SWAP:
                weight = tl.abs(discount - tl.load(D + base + j, mask=j < n, other=0.0)[None, :])
                if BY_GAP:
                    away = tl.abs(rank - tl.load(twice + base + j, mask=j < n, other=0)[None, :])
                    weight += tl.load(gaps + away, mask=better, other=0.0)
                weight *= gain - tl.load(gains + base + j, mask=j < n, other=0.0)[None, :]
                cost *= weight
                slope *= weight
            slope = tl.where(better, slope, 0.0)
            own += tl.sum(slope, axis=1)
            total += tl.sum(tl.where(better, cost, 0.0), axis=1)
            below = -tl.sum(slope, axis=0)
        tl.store(slopes + part * n + j, below, mask=j < n)
    tl.store(values + part, tl.sum(total, axis=0))
    # What the first tile wrote for this program's own documents is there already: add to it.
    tl.debug_barrier()
    before = tl.load(slopes + part * n + i, mask=i < n, other=0.0)
    tl.store(slopes + part * n + i, before + own, mask=i < n)


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
    of ranks, add to the discounts. Without them every pair counts once.
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
    ):
        self.kind, self.levels, self.sigma = KINDS[kind], levels, sigma
        self.gains, self.gaps = gains, gaps
        self.width = 8 if levels.dtype == torch.float64 else 32  # documents of a program; more would spill registers
        self.grid = levels.shape[0], triton.cdiv(levels.shape[1], self.width)
        self.sums = None
        if discounts is not None:
            self.sums = torch.cat([discounts.new_zeros(1), discounts.cumsum(0)])

    def __call__(self, t: Tensor) -> tuple[Tensor, Tensor]:
        t, (m, n), n_parts = t.contiguous(), t.shape, self.grid[1]
        values, slopes, gradient = t.new_empty(self.grid), t.new_empty((m, n_parts, n)), torch.empty_like(t)
        D, twice = t, t  # not read unless pairs are weighted
        sizes: dict[str, Any] = {"WIDTH": self.width, "AHEAD": AHEAD, "num_warps": WARPS}
        if self.sums is not None:
            D, twice = torch.empty_like(t), torch.empty_like(t, dtype=torch.int32)
            _rank[self.grid](t, self.levels, self.sums, twice, D, n, **sizes)
        _pairs[self.grid](
            t, self.levels, t if self.gains is None else self.gains, D, twice, t if self.gaps is None else self.gaps,
            self.sigma, values, slopes, n, n_parts,
            KIND=self.kind, BY_SWAP=self.sums is not None, BY_GAP=self.gaps is not None, **sizes,
        )  # fmt: skip
        _add_up[m, triton.cdiv(n, 128)](slopes, gradient, n, n_parts, WIDTH=self.width, SPAN=128)
        return values.sum(dim=1), gradient
