"""Compiled losses on whole lists, and on single documents, for a run of queries.

Conventions as in ``pairwise_kernels``: documents by decreasing grade. ``targets`` is the target of each document:
its probability, or its grade.
"""
# mypy: ignore-errors

from __future__ import annotations

import math

import numpy as np

from gainful.compute.compiled import helper, kernel

# Each loss has its own kernels, so that using one does not compile the others.


@kernel
def squared(t, offsets, blocks, starts, targets, first, last, values, g):
    """The queries first … last − 1; entry 0 of ``t`` and ``g`` is the first document of query ``first``."""
    for q in range(first, last):
        own, target, _cuts, _at, slope = _query(t, offsets, blocks, starts, targets, first, q, g)
        values[q] = _squared(own, target, slope)


@kernel
def centred_squared(t, offsets, blocks, starts, targets, first, last, values, g):
    """As ``squared``."""
    for q in range(first, last):
        own, target, _cuts, _at, slope = _query(t, offsets, blocks, starts, targets, first, q, g)
        values[q] = _squared(_shifted(own, target), target, slope)


@kernel
def softmax(t, offsets, blocks, starts, targets, first, last, values, g):
    """As ``squared``; a query with a single grade has no preferred order and no list loss."""
    for q in range(first, last):
        own, target, cuts, _at, slope = _query(t, offsets, blocks, starts, targets, first, q, g)
        values[q] = 0.0
        if len(cuts) > 2:
            values[q] = _softmax(own, target, slope)


@kernel
def listmle(t, offsets, blocks, starts, targets, first, last, values, g):
    """As ``softmax``."""
    for q in range(first, last):
        own, _target, cuts, at, slope = _query(t, offsets, blocks, starts, targets, first, q, g)
        values[q] = 0.0
        if len(cuts) > 2:
            values[q] = _listmle(own, cuts, at, slope, np.empty(len(own)))


@kernel
def squared_newton(t, offsets, blocks, starts, targets, first, last, g, h):
    """Gradient and curvature of the queries first … last − 1; both start at 0."""
    for q in range(first, last):
        own, target, _cuts, at, slope = _query(t, offsets, blocks, starts, targets, first, q, g)
        bend = h[at - offsets[first] : at - offsets[first] + len(own)]
        _squared_newton(own, target, slope, bend)


@kernel
def centred_squared_newton(t, offsets, blocks, starts, targets, first, last, g, h):
    """As ``squared_newton``."""
    for q in range(first, last):
        own, target, _cuts, at, slope = _query(t, offsets, blocks, starts, targets, first, q, g)
        _squared(_shifted(own, target), target, slope)
        for i in range(len(own)):
            h[at - offsets[first] + i] = 2.0 * (len(own) - 1) / len(own) ** 2


@kernel
def softmax_newton(t, offsets, blocks, starts, targets, first, last, g, h):
    """As ``squared_newton``."""
    for q in range(first, last):
        own, target, cuts, at, slope = _query(t, offsets, blocks, starts, targets, first, q, g)
        bend = h[at - offsets[first] : at - offsets[first] + len(own)]
        if len(cuts) > 2:
            _softmax_newton(own, target, slope, bend)


@kernel
def listmle_newton(t, offsets, blocks, starts, targets, first, last, g, h):
    """As ``squared_newton``."""
    for q in range(first, last):
        own, _target, cuts, at, slope = _query(t, offsets, blocks, starts, targets, first, q, g)
        bend = h[at - offsets[first] : at - offsets[first] + len(own)]
        if len(cuts) > 2:
            _listmle(own, cuts, at, slope, bend)


@helper
def _query(t, offsets, blocks, starts, targets, first, q, g):
    """Scores, targets, cuts, first position and gradient of query q."""
    lo, hi = offsets[q] - offsets[first], offsets[q + 1] - offsets[first]
    cuts = starts[blocks[q] : blocks[q + 1] + 1]
    return t[lo:hi], targets[offsets[q] : offsets[q + 1]], cuts, offsets[q], g[lo:hi]


@helper
def _highest(t):
    top = t[0]
    for i in range(1, len(t)):
        top = t[i] if t[i] > top else top
    return top


@helper
def _squared(t, target, g):
    n, value = len(t), 0.0
    for i in range(n):
        away = t[i] - target[i]
        value += away * away
        g[i] = 2.0 * away / n
    return value / n


@helper
def _shifted(t, target):
    """The scores plus the constant that brings them nearest to the targets."""
    away = 0.0
    for i in range(len(t)):
        away += target[i] - t[i]
    return t + away / len(t)


@helper
def _squared_newton(t, target, g, h):
    _squared(t, target, g)
    for i in range(len(t)):
        h[i] = 2.0 / len(t)


@helper
def _softmax(t, target, g):
    top, total, wanted, value = _highest(t), 0.0, 0.0, 0.0
    for i in range(len(t)):
        g[i] = math.exp(t[i] - top)
        total += g[i]
        wanted += target[i]
        value += target[i] * (top - t[i])
    for i in range(len(t)):
        g[i] = wanted * g[i] / total - target[i]
    return value + wanted * math.log(total)


@helper
def _softmax_newton(t, target, g, h):
    """With p = softmax(t): Σ target · p − target, and Σ target · p(1 − p)."""
    top, total, wanted = _highest(t), 0.0, 0.0
    for i in range(len(t)):
        h[i] = math.exp(t[i] - top)
        total += h[i]
        wanted += target[i]
    for i in range(len(t)):
        p = h[i] / total
        g[i] = wanted * p - target[i]
        h[i] = wanted * p * ((total - h[i]) / total)


@helper
def _listmle(t, cuts, at, g, h):
    """Σ_i log(1 + Σ_{j below i} exp(t_j − t_i)), from the lowest grade up and, for the gradient, down again.

    Document j has probability p = exp(t_j)/(exp(t_i) + Σ below i exp) of coming next, at i = j and every i above; the
    curvature is Σ_i p(1 − p).
    """
    n_blocks, value = len(cuts) - 1, 0.0
    rests = np.empty(n_blocks)  # logarithm of Σ exp(t) below each block
    rest = -np.inf
    for b in range(n_blocks - 1, -1, -1):
        rests[b] = rest
        own = t[cuts[b] - at : cuts[b + 1] - at]
        top = max(rest, _highest(own))
        total = math.exp(rest - top)
        for i in range(len(own)):
            total += math.exp(own[i] - top)
        rest = top + math.log(total)
    pull = -np.inf  # logarithm of Σ 1/(exp(t_i) + Σ below i exp), over the documents above
    squares = -np.inf  # and of Σ 1/(…)²
    for b in range(n_blocks):
        lo, hi = cuts[b] - at, cuts[b + 1] - at
        for j in range(lo, hi):
            g[j] = math.exp(t[j] + pull)
            h[j] = max(g[j] - math.exp(2.0 * t[j] + squares), 0.0)
        if b == n_blocks - 1:
            break
        for i in range(lo, hi):
            x = rests[b] - t[i]
            small = math.exp(-abs(x))
            value += math.log1p(small) + max(x, 0.0)
            g[i] -= small / (1.0 + small) if x < 0.0 else 1.0 / (1.0 + small)
            h[i] += small / (1.0 + small) / (1.0 + small)
            here = -(max(t[i], rests[b]) + math.log1p(small))
            pull, squares = _log_add(pull, here), _log_add(squares, 2.0 * here)
    return value


@helper
def _log_add(a, b):
    """log(exp(a) + exp(b)), b finite."""
    high = max(a, b)
    return high + math.log(math.exp(a - high) + math.exp(b - high))
