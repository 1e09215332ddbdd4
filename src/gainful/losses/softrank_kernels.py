"""Compiled SoftRank: expected NDCG when every score is drawn from a normal distribution around it.

Document i stands before j with probability π_ij = Φ((s_i − s_j)/(√2σ)). Taking these as independent, the rank of j
begins at 1 and moves down by one with probability π_ij for each i in turn; ranks past k do not count and are dropped.
Conventions as in ``pairwise_kernels``.
"""
# mypy: ignore-errors

from __future__ import annotations

import math

from gainful.compute.compiled import LOOSE, kernel


@kernel(fastmath=LOOSE, error_model="numpy")
def run(t, offsets, blocks, starts, gains, sigma, discounts, before, steps, back, first, last, values, g):
    """1 − E[NDCG] of the queries first … last − 1; the gradient runs each document's recursion backwards.

    ``discounts`` end at the cut-off. ``before``, ``steps`` and ``back`` are workspaces for π, for the distribution of
    the rank after each step, whose first row starts at 0, and for the backward recursion.
    """
    base, wide = offsets[first], 2.0 * sigma
    for q in range(first, last):
        values[q] = 0.0
        if blocks[q + 1] - blocks[q] <= 1:
            continue
        lo, n, value = offsets[q] - base, offsets[q + 1] - offsets[q], 1.0
        depth = n if n < len(discounts) else len(discounts)
        for j in range(n):
            gain, own = gains[offsets[q] + j], t[lo + j]
            if gain <= 0.0:
                continue
            for i in range(n):
                before[i] = 0.0 if i == j else 0.5 * math.erfc((own - t[lo + i]) / wide)
            steps[0, 0] = 1.0
            for i in range(n):
                p = before[i]
                steps[i + 1, 0] = steps[i, 0] * (1.0 - p)
                for r in range(depth - 1):
                    steps[i + 1, r + 1] = steps[i, r + 1] * (1.0 - p) + steps[i, r] * p
            for r in range(depth):
                value -= gain * discounts[r] * steps[n, r]
                back[r] = discounts[r]
            back[depth] = 0.0
            for i in range(n - 1, -1, -1):
                p, slope = before[i], 0.0
                for r in range(depth):
                    slope += steps[i, r] * (back[r + 1] - back[r])
                    back[r] = back[r] * (1.0 - p) + back[r + 1] * p
                if i != j:
                    x = (t[lo + i] - own) / wide
                    slope *= gain * math.exp(-x * x) / (math.sqrt(math.pi) * wide)
                    g[lo + i] -= slope
                    g[lo + j] += slope
        values[q] = value
