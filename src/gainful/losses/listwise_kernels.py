"""Compiled losses on whole lists, and on single documents, for a run of queries.

Conventions as in ``pairwise_kernels``: documents by decreasing grade. ``targets`` is the target of each document:
its probability, or its grade. ``own`` are the weights of the documents, of mean 1 in each query, or None.
"""
# mypy: ignore-errors

from __future__ import annotations

import math

import numpy as np

from gainful.compute.compiled import helper, kernel

# Each loss has its own kernels, so that using one does not compile the others.


@kernel
def squared(t, offsets, blocks, starts, targets, own, first, last, values, g, h):
    """The queries first … last − 1; entry 0 of ``t``, ``g`` and ``h`` is the first document of query ``first``."""
    for q in range(first, last):
        s, target, w, _cuts, _at, slope, bend = _query(t, offsets, blocks, starts, targets, own, first, q, g, h)
        value = _squared(s, target, w, slope)
        if values is not None:
            values[q] = value
        if h is not None:
            for i in range(len(s)):
                bend[i] = 2.0 * _weight(w, i) / len(s)


@kernel
def centred_squared(t, offsets, blocks, starts, targets, own, first, last, values, g, h):
    """As ``squared``."""
    for q in range(first, last):
        s, target, w, _cuts, _at, slope, bend = _query(t, offsets, blocks, starts, targets, own, first, q, g, h)
        value = _squared(_shifted(s, target, w), target, w, slope)
        if values is not None:
            values[q] = value
        if h is not None:
            for i in range(len(s)):
                bend[i] = 2.0 * _weight(w, i) * (len(s) - _weight(w, i)) / len(s) ** 2


@kernel
def sigmoid(t, offsets, blocks, starts, targets, own, first, last, values, g, h):
    """As ``squared``."""
    for q in range(first, last):
        s, target, w, _cuts, _at, slope, bend = _query(t, offsets, blocks, starts, targets, own, first, q, g, h)
        value = _sigmoid(s, target, w, slope, bend)
        if values is not None:
            values[q] = value


@kernel
def softmax(t, offsets, blocks, starts, targets, own, first, last, values, g, h):
    """As ``squared``; a query with a single grade has no preferred order and no list loss."""
    for q in range(first, last):
        s, target, w, cuts, _at, slope, bend = _query(t, offsets, blocks, starts, targets, own, first, q, g, h)
        value = _softmax(s, target, w, slope, bend) if len(cuts) > 2 else 0.0
        if values is not None:
            values[q] = value


@kernel
def listmle(t, offsets, blocks, starts, targets, own, first, last, values, g, h):
    """As ``softmax``."""
    for q in range(first, last):
        s, _target, w, cuts, at, slope, bend = _query(t, offsets, blocks, starts, targets, own, first, q, g, h)
        value = _listmle(s, w, cuts, at, slope, bend) if len(cuts) > 2 else 0.0
        if values is not None:
            values[q] = value


@helper
def _query(t, offsets, blocks, starts, targets, own, first, q, g, h):
    """Scores, targets, weights, cuts, first position, gradient and curvature of query q."""
    lo, hi = offsets[q] - offsets[first], offsets[q + 1] - offsets[first]
    cuts = starts[blocks[q] : blocks[q + 1] + 1]
    w = None if own is None else own[offsets[q] : offsets[q + 1]]  # known at compile time
    bend = None if h is None else h[lo:hi]
    return t[lo:hi], targets[offsets[q] : offsets[q + 1]], w, cuts, offsets[q], g[lo:hi], bend


@helper
def _weight(w, i):
    return 1.0 if w is None else w[i]


@helper
def _weighed_exp(w, i, x):
    """w_i exp(x): 0 without weight, however large x is."""
    if w is None:
        return math.exp(x)
    return w[i] * math.exp(x) if w[i] > 0.0 else 0.0


@helper
def _highest(t, w, lo, hi):
    """The highest score of the documents lo … hi − 1 that have weight."""
    top = -np.inf
    for i in range(lo, hi):
        top = t[i] if _weight(w, i) > 0.0 and not t[i] <= top else top
    return top


@helper
def _squared(t, target, w, g):
    n, value = len(t), 0.0
    for i in range(n):
        away = t[i] - target[i]
        value += _weight(w, i) * away * away
        g[i] = 2.0 * _weight(w, i) * away / n
    return value / n


@helper
def _sigmoid(t, target, w, g, h):
    """log(1 + exp(t)) − target · t, the mean; with p = 1/(1 + exp(−t)) its slope p − target and curvature p(1 − p)."""
    n, value = len(t), 0.0
    for i in range(n):
        small, share = math.exp(-abs(t[i])), _weight(w, i) / n
        p = (1.0 if t[i] > 0.0 else small) / (1.0 + small)
        value += share * (math.log1p(small) + ((1.0 - target[i]) * t[i] if t[i] > 0.0 else -target[i] * t[i]))
        g[i] = share * (p - target[i])
        if h is not None:
            h[i] = share * small / (1.0 + small) / (1.0 + small)
    return value


@helper
def _shifted(t, target, w):
    """The scores plus the constant that brings them nearest to the targets."""
    away = 0.0
    for i in range(len(t)):
        away += _weight(w, i) * (target[i] - t[i])
    return t + away / len(t)


@helper
def _softmax(t, target, w, g, h):
    """With p = softmax(t) the slope Σ target · p − target, and the curvature Σ target · p(1 − p)."""
    top, total, wanted, value = _highest(t, w, 0, len(t)), 0.0, 0.0, 0.0
    for i in range(len(t)):
        g[i] = _weighed_exp(w, i, t[i] - top)
        total += g[i]
        wanted += target[i]
        value += target[i] * (top - t[i])
    for i in range(len(t)):
        p = g[i] / total
        if h is not None:
            h[i] = wanted * p * ((total - g[i]) / total)
        g[i] = wanted * p - target[i]
    return value + wanted * math.log(total)


@helper
def _listmle(t, w, cuts, at, g, h):
    """Σ_i w_i log(1 + Σ_{j below i} w_j exp(t_j − t_i)), from the lowest grade up and, for the gradient, down again.

    Document j has probability p = w_j exp(t_j)/(exp(t_i) + Σ below i w exp) of coming next, at every i above it, and
    p = exp(t_j)/(…) at i = j; the curvature is Σ_i w_i p(1 − p).
    """
    n_blocks, value = len(cuts) - 1, 0.0
    rests = np.empty(n_blocks)  # logarithm of Σ w exp(t) below each block
    rest = -np.inf
    for b in range(n_blocks - 1, -1, -1):
        rests[b] = rest
        lo, hi = cuts[b] - at, cuts[b + 1] - at
        top = max(rest, _highest(t, w, lo, hi))
        if top == -np.inf:  # no document with weight so far
            continue
        total = math.exp(rest - top)
        for i in range(lo, hi):
            total += _weighed_exp(w, i, t[i] - top)
        rest = top + math.log(total)
    pull = -np.inf  # logarithm of Σ w_i/(exp(t_i) + Σ below i w exp), over the documents above
    squares = -np.inf  # and of Σ w_i/(…)²
    for b in range(n_blocks):
        lo, hi = cuts[b] - at, cuts[b + 1] - at
        for j in range(lo, hi):
            g[j] = _weighed_exp(w, j, t[j] + pull)
            if h is not None:
                h[j] = max(g[j] - _weight(w, j) * _weighed_exp(w, j, 2.0 * t[j] + squares), 0.0)
        if b == n_blocks - 1 or rests[b] == -np.inf:
            break
        for i in range(lo, hi):
            x = rests[b] - t[i]
            small = math.exp(-abs(x))
            if _weight(w, i) == 0.0:
                continue
            value += _weight(w, i) * (math.log1p(small) + max(x, 0.0))
            g[i] -= _weight(w, i) * (small / (1.0 + small) if x < 0.0 else 1.0 / (1.0 + small))
            if h is not None:
                h[i] += _weight(w, i) * small / (1.0 + small) / (1.0 + small)
            here = -(max(t[i], rests[b]) + math.log1p(small))
            heavy = 0.0 if w is None else math.log(_weight(w, i))
            pull, squares = _log_add(pull, here + heavy), _log_add(squares, 2.0 * here + heavy)
    return value


@helper
def _log_add(a, b):
    """log(exp(a) + exp(b)), b finite."""
    high = max(a, b)
    return high + math.log(math.exp(a - high) + math.exp(b - high))
