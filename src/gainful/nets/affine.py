"""x W + b with a gradient by b that a GPU computes as a product, in half the time of a sum over rows.

This module imports PyTorch: import it on use.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _Affine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, W: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(x, W)
        return torch.addmm(b, x, W)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        x, W = ctx.saved_tensors
        (g,) = slopes
        by_x = g @ W.T if ctx.needs_input_grad[0] else None
        return by_x, x.T @ g, torch.mv(g.T, torch.ones(len(g), dtype=g.dtype, device=g.device))


def affine(x: Tensor, W: Tensor, b: Tensor) -> Tensor:
    """x W + b, for x (n, d), W (d, m) and b (m,)."""
    return _Affine.apply(x, W, b) if x.is_cuda else torch.addmm(b, x, W)  # type: ignore[no-untyped-call]
