"""Compiled losses on pairs weighted by what swapping the two documents would change, for a run of queries.

Conventions as in ``pairwise_kernels``: documents by falling grade, so the pairs of a document are a contiguous run.
``gains`` are φ(g)/N_q. The weights come from the ranking by the present scores and count as constants in the gradient.

Ranks of equal scores: lower grades first, so that a ranking that says nothing counts as wrong; documents of equal score
and grade share the mean of their ranks and of their discounts. Nothing depends on the order of the rows.
"""
# mypy: ignore-errors

from __future__ import annotations

import math

import numpy as np
from numba import njit

LOOSE = {"reassoc", "contract", "arcp", "nsz"}  # sums may be reordered; NaN and infinity keep their meaning
LAMBDA, LAMBDALOSS, HUBER = 0, 1, 2
RANGE = 600.0  # of exponents: exp(±RANGE/2) and their quotients are ordinary numbers


@njit(cache=True, nogil=True)
def run(kind, t, offsets, blocks, starts, gains, params, first, last, values, g):
    """The queries first … last − 1; ``params`` are σ, k (0: no cut) and μ."""
    base = offsets[first]
    longest = 1
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    discounts = np.zeros(longest)
    depth = longest if params[1] <= 0.0 else min(longest, int(params[1]))
    for r in range(depth):
        discounts[r] = math.log(2.0) / math.log(r + 2.0)
    gaps = _gaps(longest, params[2]) if kind == LAMBDALOSS else np.zeros(1)
    for q in range(first, last):
        cuts = starts[blocks[q] : blocks[q + 1] + 1]
        values[q] = 0.0
        if len(cuts) <= 2:
            continue
        lo, hi = offsets[q] - base, offsets[q + 1] - base
        own, slope, gain = t[lo:hi], g[lo:hi], gains[offsets[q] : offsets[q + 1]]
        rank, D = _ranks(own, cuts, offsets[q], discounts)
        if kind == HUBER:
            values[q] = _huber(own, cuts, offsets[q], gain, D, slope)
        else:
            values[q] = _logistic(own, cuts, offsets[q], gain, D, rank, gaps, params[0], slope)


@njit(cache=True, nogil=True)
def _gaps(longest, mu):
    """μ|D(d) − D(d + 1)| at d = 0, ½, 1, …: entry 2d."""
    gaps = np.zeros(2 * longest + 1)
    for i in range(2, len(gaps)):
        d = 0.5 * i
        gaps[i] = mu * abs(math.log(2.0) / math.log(1.0 + d) - math.log(2.0) / math.log(2.0 + d))
    return gaps


@njit(cache=True, nogil=True)
def _ranks(t, cuts, at, discounts):
    """Twice the rank of each document, and its discount."""
    n = len(t)
    order = n - 1 - np.argsort(-t[::-1], kind="mergesort")  # stable: of equal scores the lower grade first
    grade = np.empty(n, dtype=np.int64)
    for b in range(len(cuts) - 1):
        grade[cuts[b] - at : cuts[b + 1] - at] = b
    rank, D = np.empty(n, dtype=np.int64), np.empty(n)
    begin = 0
    while begin < n:
        end, total = begin, 0.0
        head = order[begin]
        while end < n and t[order[end]] == t[head] and grade[order[end]] == grade[head]:
            total += discounts[end]
            end += 1
        for place in range(begin, end):
            rank[order[place]] = begin + end + 1
            D[order[place]] = total / (end - begin)
        begin = end
    return rank, D


@njit(cache=True, nogil=True, fastmath=LOOSE, error_model="numpy")
def _huber(t, cuts, at, gain, D, g):
    """(1 − v)² on [−1, 1], −4v below, 0 above, with v = t_i − t_j."""
    n, value = len(t), 0.0
    for b in range(len(cuts) - 2):
        below = cuts[b + 1] - at
        for i in range(cuts[b] - at, below):
            ti, Di, gi, total, slope = t[i], D[i], gain[i], 0.0, 0.0
            for j in range(below, n):
                weight = (gi - gain[j]) * abs(Di - D[j])
                v = ti - t[j]
                bent = min(max(1.0 - v, 0.0), 2.0)
                total += weight * (bent * bent - 4.0 * min(v + 1.0, 0.0))
                slope += weight * bent
                g[j] += 2.0 * weight * bent
            value += total
            g[i] -= 2.0 * slope
    return value


@njit(cache=True, nogil=True, fastmath=LOOSE, error_model="numpy")
def _logistic(t, cuts, at, gain, D, rank, gaps, sigma, g):
    """Σ weight · log(1 + exp(−σ(t_i − t_j))): one division for the slope q, one for the logarithm of max(q, 1 − q)."""
    low, high = t.min(), t.max()
    near = sigma * (high - low) <= RANGE
    E = np.exp(sigma * (t - 0.5 * (low + high))) if near else np.ones(len(t))
    n, value = len(t), 0.0
    for b in range(len(cuts) - 2):
        below = cuts[b + 1] - at
        for i in range(cuts[b] - at, below):
            if not near:
                value += _far(t, i, below, gain, D, rank, gaps, sigma, g)
            elif len(gaps) > 1:
                value += _near_by_gap(t, i, below, gain, D, rank, gaps, E, sigma, g)
            else:
                value += _near(t, i, below, n, gain, D, E, sigma, g)
    return value


@njit(cache=True, nogil=True, fastmath=LOOSE, error_model="numpy")
def _near(t, i, below, n, gain, D, E, sigma, g):
    ti, Ei, Di, gi, total, slope = t[i], E[i], D[i], gain[i], 0.0, 0.0
    for j in range(below, n):
        weight = (gi - gain[j]) * abs(Di - D[j])
        q = E[j] / (Ei + E[j])
        rest = min(q, 1.0 - q)
        total += weight * (_minus_log(rest) + sigma * max(t[j] - ti, 0.0))
        slope += weight * q
        g[j] += sigma * weight * q
    g[i] -= sigma * slope
    return total


@njit(cache=True, nogil=True, fastmath=LOOSE, error_model="numpy")
def _near_by_gap(t, i, below, gain, D, rank, gaps, E, sigma, g):
    ti, Ei, Di, gi, ri, total, slope = t[i], E[i], D[i], gain[i], rank[i], 0.0, 0.0
    for j in range(below, len(t)):
        weight = (gi - gain[j]) * (abs(Di - D[j]) + gaps[abs(ri - rank[j])])
        q = E[j] / (Ei + E[j])
        rest = min(q, 1.0 - q)
        total += weight * (_minus_log(rest) + sigma * max(t[j] - ti, 0.0))
        slope += weight * q
        g[j] += sigma * weight * q
    g[i] -= sigma * slope
    return total


@njit(cache=True, nogil=True, fastmath=LOOSE, error_model="numpy", inline="always")
def _minus_log(rest):
    """−log(1 − rest) for rest in [0, ½]: 2 artanh(rest/(2 − rest)), a series that the compiler runs many at a time."""
    z = rest / (2.0 - rest)
    x = z * z
    tail = 1.0 / 31.0
    tail = tail * x + 1.0 / 29.0
    tail = tail * x + 1.0 / 27.0
    tail = tail * x + 1.0 / 25.0
    tail = tail * x + 1.0 / 23.0
    tail = tail * x + 1.0 / 21.0
    tail = tail * x + 1.0 / 19.0
    tail = tail * x + 1.0 / 17.0
    tail = tail * x + 1.0 / 15.0
    tail = tail * x + 1.0 / 13.0
    tail = tail * x + 1.0 / 11.0
    tail = tail * x + 1.0 / 9.0
    tail = tail * x + 1.0 / 7.0
    tail = tail * x + 1.0 / 5.0
    tail = tail * x + 1.0 / 3.0
    tail = tail * x + 1.0
    return 2.0 * z * tail


@njit(cache=True, nogil=True)
def _far(t, i, below, gain, D, rank, gaps, sigma, g):
    total = 0.0
    for j in range(below, len(t)):
        gap = gaps[abs(rank[i] - rank[j])] if len(gaps) > 1 else 0.0
        weight = (gain[i] - gain[j]) * (abs(D[i] - D[j]) + gap)
        x = sigma * (t[i] - t[j])
        small = math.exp(-abs(x))
        total += weight * (math.log1p(small) + max(-x, 0.0))
        q = small / (1.0 + small) if x > 0.0 else 1.0 / (1.0 + small)
        g[i] -= sigma * weight * q
        g[j] += sigma * weight * q
    return total
