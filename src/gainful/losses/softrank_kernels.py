"""Compiled SoftRank: expected NDCG when every score is drawn from a normal distribution around it.

Document i stands before j with probability π_ij = Φ((s_i − s_j)/(√2σ)). Taking these as independent, the rank of j
begins at 1 and moves down by one with probability π_ij for each i in turn; ranks past k count nothing and are dropped.
Conventions as in ``pairwise_kernels``.
"""
# mypy: ignore-errors

from __future__ import annotations

import math

import numpy as np

from gainful.compiled import helper, kernel


@kernel
def run(t, offsets, blocks, starts, gains, params, first, last, values, g):
    """The queries first … last − 1; ``params`` are σ and k (0: no cut)."""
    base = offsets[first]
    for q in range(first, last):
        values[q] = 0.0
        if blocks[q + 1] - blocks[q] <= 1:
            continue
        lo, hi = offsets[q] - base, offsets[q + 1] - base
        depth = hi - lo if params[1] <= 0.0 else min(hi - lo, int(params[1]))
        values[q] = _softrank(t[lo:hi], gains[offsets[q] : offsets[q + 1]], params[0], depth, g[lo:hi])


@helper(fastmath={"reassoc", "contract", "arcp", "nsz"}, error_model="numpy")
def _softrank(t, gain, sigma, depth, g):
    """1 − E[NDCG@depth]; the gradient runs each document's recursion backwards."""
    n = len(t)
    discounts = np.empty(depth)
    for r in range(depth):
        discounts[r] = math.log(2.0) / math.log(r + 2.0)
    before, steps, back = np.empty(n), np.zeros((n + 1, depth)), np.zeros(depth + 1)
    value, wide = 1.0, 2.0 * sigma
    for j in range(n):
        if gain[j] <= 0.0:
            continue
        for i in range(n):
            before[i] = 0.0 if i == j else 0.5 * math.erfc((t[j] - t[i]) / wide)
        steps[0, 0] = 1.0
        for i in range(n):
            p, now, then = before[i], steps[i], steps[i + 1]
            then[0] = now[0] * (1.0 - p)
            for r in range(depth - 1):
                then[r + 1] = now[r + 1] * (1.0 - p) + now[r] * p
        for r in range(depth):
            value -= gain[j] * discounts[r] * steps[n, r]
            back[r] = discounts[r]
        for i in range(n - 1, -1, -1):
            p, now, slope = before[i], steps[i], 0.0
            for r in range(depth):  # back[depth] is 0
                slope += now[r] * (back[r + 1] - back[r])
                back[r] = back[r] * (1.0 - p) + back[r + 1] * p
            if i != j:
                x = (t[i] - t[j]) / wide
                slope *= gain[j] * math.exp(-x * x) / (math.sqrt(math.pi) * wide)
                g[i] -= slope
                g[j] += slope
    return value
