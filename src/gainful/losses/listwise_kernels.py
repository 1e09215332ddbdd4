"""Compiled losses on whole lists, and on single documents, for a run of queries.

Conventions as in ``pairwise_kernels``: documents by falling grade. ``targets`` is what the loss wants of each document:
its probability, or its grade.
"""
# mypy: ignore-errors

from __future__ import annotations

import math

import numpy as np
from numba import njit

SOFTMAX, LISTMLE, SQUARED = 0, 1, 2


@njit(cache=True, nogil=True)
def run(kind, t, offsets, blocks, starts, targets, first, last, values, g):
    """The queries first … last − 1. A query of a single grade wants no order and has no list loss."""
    base = offsets[first]
    for q in range(first, last):
        cuts = starts[blocks[q] : blocks[q + 1] + 1]
        lo, hi = offsets[q] - base, offsets[q + 1] - base
        own, slope, target = t[lo:hi], g[lo:hi], targets[offsets[q] : offsets[q + 1]]
        if kind == SQUARED:
            values[q] = _squared(own, target, slope)
        elif len(cuts) <= 2:
            values[q] = 0.0
        elif kind == SOFTMAX:
            values[q] = _softmax(own, target, slope)
        else:
            values[q] = _listmle(own, cuts, offsets[q], slope)


@njit(cache=True, nogil=True)
def _squared(t, target, g):
    n, value = len(t), 0.0
    for i in range(n):
        away = t[i] - target[i]
        value += away * away
        g[i] = 2.0 * away / n
    return value / n


@njit(cache=True, nogil=True)
def _softmax(t, target, g):
    top, total, wanted, value = t.max(), 0.0, 0.0, 0.0
    for i in range(len(t)):
        g[i] = math.exp(t[i] - top)
        total += g[i]
        wanted += target[i]
        value += target[i] * (top - t[i])
    for i in range(len(t)):
        g[i] = wanted * g[i] / total - target[i]
    return value + wanted * math.log(total)


@njit(cache=True, nogil=True)
def _listmle(t, cuts, at, g):
    """Σ_i log(1 + Σ_{j below i} exp(t_j − t_i)), from the lowest grade up and, for the gradient, down again."""
    n_blocks, value = len(cuts) - 1, 0.0
    rests = np.empty(n_blocks)  # logarithm of Σ exp(t) below each block
    rest = -np.inf
    for b in range(n_blocks - 1, -1, -1):
        rests[b] = rest
        own = t[cuts[b] - at : cuts[b + 1] - at]
        top = max(rest, own.max())
        total = math.exp(rest - top)
        for x in own:
            total += math.exp(x - top)
        rest = top + math.log(total)
    pull = -np.inf  # logarithm of Σ 1/(exp(t_i) + Σ below i exp), over the documents above
    for b in range(n_blocks):
        lo, hi = cuts[b] - at, cuts[b + 1] - at
        for j in range(lo, hi):
            g[j] = math.exp(t[j] + pull)
        if b == n_blocks - 1:
            break
        for i in range(lo, hi):
            x = rests[b] - t[i]
            small = math.exp(-abs(x))
            value += math.log1p(small) + max(x, 0.0)
            g[i] -= small / (1.0 + small) if x < 0.0 else 1.0 / (1.0 + small)
            here = -(max(t[i], rests[b]) + math.log1p(small))
            high = max(pull, here)
            pull = high + math.log(math.exp(pull - high) + math.exp(here - high))
    return value
