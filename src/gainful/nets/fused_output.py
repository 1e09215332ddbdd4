"""The last hidden layer and the output of a net on a GPU, with two passes over the hidden units instead of ten.

s = h(xW + b) w + c. The product xW is stored; activation, bias and the output's product read it once on the way
forward. On the way back, one pass writes the gradient by xW and sums those by b, w and c. Each program sums its rows,
and the sums of the programs are added in a fixed order, so the same inputs give the same bits.

This module imports Triton, which comes with PyTorch's CUDA builds: import it only where that is installed.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

KINDS = {"relu": 0, "tanh": 1, "sigmoid": 2, "silu": 3}
ROWS, UNITS = 32, 64  # of a tile
TILES = 4  # of a program, one below the other
WARPS = 4


@triton.jit
def _activate(z, KIND: tl.constexpr):
    """h(z) and h'(z)."""
    if KIND == 0:
        return tl.maximum(z, 0.0, propagate_nan=tl.PropagateNan.ALL), (z > 0.0).to(z.dtype)
    small = tl.exp(-tl.abs(z))
    if KIND == 1:
        square = small * small
        # Near 0, where 1 − exp(−2|z|) cancels, the series of tanh is exact to rounding.
        near: tl.constexpr = 0.25 if z.dtype == tl.float32 else 0.02
        large = tl.where(z < 0.0, -1.0, 1.0) * (1.0 - square) / (1.0 + square)
        y = z * z
        series = z * (1.0 - y * (1.0 / 3.0 - y * (2.0 / 15.0 - y * (17.0 / 315.0 - y * (62.0 / 2835.0)))))
        h = tl.where(tl.abs(z) < near, series, large)
        return h, 1.0 - h * h
    share = tl.where(z < 0.0, small, 1.0) / (1.0 + small)
    if KIND == 2:
        return share, share * (1.0 - share)
    return z * share, share * (1.0 + z * (1.0 - share))


@triton.jit
def _forward(z, b, w, c, scores, n, units, KIND: tl.constexpr, ROWS: tl.constexpr, UNITS: tl.constexpr):
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = i.to(tl.int64)[:, None] * units
    total = tl.zeros((ROWS,), dtype=scores.dtype.element_ty)
    for start in range(0, units, UNITS):
        u = start + tl.arange(0, UNITS)
        inside = (i < n)[:, None] & (u < units)[None, :]
        x = tl.load(z + at + u[None, :], mask=inside, other=0.0)
        h, _ = _activate(x + tl.load(b + u, mask=u < units, other=0.0)[None, :], KIND)
        total += tl.sum(h * tl.load(w + u, mask=u < units, other=0.0)[None, :], axis=1)
    tl.store(scores + i, total + tl.load(c), mask=i < n)


@triton.jit
def _backward(
    z, b, w, slopes, by_z, sums, n, units,
    KIND: tl.constexpr, ROWS: tl.constexpr, UNITS: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """The gradient by z = xW, and those by b, w and c summed over the rows of this program, side by side."""
    u = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
    bias = tl.load(b + u, mask=u < units, other=0.0)[None, :]
    weight = tl.load(w + u, mask=u < units, other=0.0)[None, :]
    by_b = tl.zeros((ROWS, UNITS), dtype=sums.dtype.element_ty)
    by_w = tl.zeros((ROWS, UNITS), dtype=sums.dtype.element_ty)
    by_c = tl.zeros((ROWS,), dtype=sums.dtype.element_ty)
    for tile in range(TILES):
        i = (tl.program_id(0) * TILES + tile) * ROWS + tl.arange(0, ROWS)
        at = i.to(tl.int64)[:, None] * units + u[None, :]
        inside = (i < n)[:, None] & (u < units)[None, :]
        h, slope = _activate(tl.load(z + at, mask=inside, other=0.0) + bias, KIND)
        g = tl.load(slopes + i, mask=i < n, other=0.0)
        d = g[:, None] * weight * slope
        tl.store(by_z + at, d, mask=inside)
        by_b += d
        by_w += g[:, None] * h
        by_c += g
    row = sums + tl.program_id(0).to(tl.int64) * (2 * units + 1)
    tl.store(row + u, tl.sum(by_b, axis=0), mask=u < units)
    tl.store(row + units + u, tl.sum(by_w, axis=0), mask=u < units)
    tl.store(row + 2 * units, tl.sum(by_c, axis=0))  # the same from every column of programs


class _Output(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, W: Tensor, b: Tensor, w: Tensor, c: Tensor, activation: str) -> Tensor:
        z = x @ W
        (n, units), scores = z.shape, x.new_empty(len(x))
        ctx.kind = KINDS[activation]
        ctx.save_for_backward(x, W, b, w, z)
        with torch.cuda.device_of(x):  # where Triton starts kernels; PyTorch sees to the way back
            _forward[triton.cdiv(n, ROWS),](
                z, b, w, c, scores, n, units, KIND=ctx.kind, ROWS=ROWS, UNITS=UNITS, num_warps=WARPS
            )
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        x, W, b, w, z = ctx.saved_tensors
        n, units = z.shape
        programs, by_z = triton.cdiv(n, ROWS * TILES), torch.empty_like(z)
        sums = z.new_empty((programs, 2 * units + 1))
        _backward[programs, triton.cdiv(units, UNITS)](
            z, b, w, slopes[0].contiguous(), by_z, sums, n, units,
            KIND=ctx.kind, ROWS=ROWS, UNITS=UNITS, TILES=TILES, num_warps=WARPS,
        )  # fmt: skip
        by_b, by_w, by_c = sums.sum(dim=0).split([units, units, 1])
        by_x = by_z @ W.T if ctx.needs_input_grad[0] else None
        return by_x, x.T @ by_z, by_b, by_w[:, None], by_c, None


def fused_output(x: Tensor, W: Tensor, b: Tensor, w: Tensor, c: Tensor, activation: str) -> Tensor:
    """The scores (n,) of x (n, d) by a hidden layer W (d, m), b (m,) and an output w (m, 1), c (1,)."""
    return _Output.apply(x, W, b, w, c, activation)  # type: ignore[no-any-return]
