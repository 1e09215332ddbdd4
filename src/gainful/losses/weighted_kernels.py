"""Compiled losses on pairs weighted by what swapping the two documents would change, for a run of queries.

Conventions as in ``pairwise_kernels``: documents by falling grade, so the pairs of a document are a contiguous run.
``gains`` are φ(g)/N_q. The weights come from the ranking by the present scores and count as constants in the gradient.

Loops over such a run take it as slices, once more as in ``pairwise_kernels``.

Ranks of equal scores: lower grades first, so that a ranking that says nothing counts as wrong; documents of equal score
and grade share the mean of their ranks and of their discounts. Nothing depends on the order of the rows.
"""
# mypy: ignore-errors

from __future__ import annotations

import math

import numpy as np

from gainful.compiled import LOOSE, helper, kernel

RANGE = 600.0  # of exponents: exp(±RANGE/2) and their quotients are ordinary numbers
LONG_LIST = 500  # from here on sorting beats counting who is above


# Each loss has kernels of its own, so that using one compiles no other.


@kernel
def huber(t, offsets, blocks, starts, gains, sigma, discounts, gaps, rank, D, first, last, values, g):
    """The queries first … last − 1; entry 0 of ``t``, ``rank``, ``D`` and ``g`` is the first document of ``first``.

    ``discounts`` are D(r) at rank r = 1, 2, …; ``gaps`` those of ``lambdaloss``, a single 0 for losses without.
    ``rank`` and ``D`` are room for twice the rank of each document and its discount; those of long lists are given.
    """
    for q in range(first, last):
        own, cuts, at, gain, weights, places = _query(t, offsets, blocks, starts, gains, discounts, rank, D, first, q)
        values[q] = 0.0
        if len(cuts) > 2:
            slope = g[at - offsets[first] : at - offsets[first] + len(own)]
            values[q] = _huber(own, cuts, at, gain, weights, places, gaps, slope)


@kernel
def logistic(t, offsets, blocks, starts, gains, sigma, discounts, gaps, rank, D, first, last, values, g):
    """As ``huber``."""
    for q in range(first, last):
        own, cuts, at, gain, weights, places = _query(t, offsets, blocks, starts, gains, discounts, rank, D, first, q)
        values[q] = 0.0
        if len(cuts) > 2:
            slope = g[at - offsets[first] : at - offsets[first] + len(own)]
            values[q] = _logistic(own, cuts, at, gain, weights, places, gaps, sigma, slope)


@kernel
def huber_newton(t, offsets, blocks, starts, gains, sigma, discounts, gaps, rank, D, first, last, g, h):
    """Gradient and curvature of the queries first … last − 1; both start at 0."""
    for q in range(first, last):
        own, cuts, at, gain, weights, places = _query(t, offsets, blocks, starts, gains, discounts, rank, D, first, q)
        if len(cuts) > 2:
            mine = slice(at - offsets[first], at - offsets[first] + len(own))
            _huber_newton(own, cuts, at, gain, weights, places, gaps, g[mine], h[mine])


@kernel
def logistic_newton(t, offsets, blocks, starts, gains, sigma, discounts, gaps, rank, D, first, last, g, h):
    """As ``huber_newton``."""
    for q in range(first, last):
        own, cuts, at, gain, weights, places = _query(t, offsets, blocks, starts, gains, discounts, rank, D, first, q)
        if len(cuts) > 2:
            mine = slice(at - offsets[first], at - offsets[first] + len(own))
            _logistic_newton(own, cuts, at, gain, weights, places, gaps, sigma, g[mine], h[mine])


@helper
def _query(t, offsets, blocks, starts, gains, discounts, rank, D, first, q):
    """Scores, cuts, first position, gains, discounts and ranks of query q."""
    at, lo, hi = offsets[q], offsets[q] - offsets[first], offsets[q + 1] - offsets[first]
    own, cuts, places, weights = t[lo:hi], starts[blocks[q] : blocks[q + 1] + 1], rank[lo:hi], D[lo:hi]
    if hi - lo < LONG_LIST and len(cuts) > 2:
        _ranks_by_counting(own, cuts, at, discounts, places, weights)
    return own, cuts, at, gains[at : offsets[q + 1]], weights, places


# -- ranks and weights -------------------------------------------------------------------------------------------------


@helper
def _ranks_by_counting(t, cuts, at, discounts, rank, D):
    begin, end, mean = 0, 0, 0.0
    for b in range(len(cuts) - 1):
        lo, hi = cuts[b] - at, cuts[b + 1] - at
        beside, upper, lower = t[lo:hi], t[:hi], t[hi:]
        for i in range(lo, hi):
            above, equal = _counts(t[i], beside, upper, lower)
            if above != begin or above + equal != end:
                begin, end = above, above + equal
                mean = _mean(discounts, begin, end)
            rank[i], D[i] = begin + end + 1, mean


@helper
def _counts(x, beside, upper, lower):
    """How many documents come before one of score x, and how many share its score and grade."""
    above, equal = 0, 0
    for j in range(len(upper)):
        above += 1 if upper[j] > x else 0
    for j in range(len(lower)):
        above += 1 if lower[j] >= x else 0
    for j in range(len(beside)):
        equal += 1 if beside[j] == x else 0
    return above, equal


@helper
def _mean(discounts, begin, end):
    total = 0.0
    for place in range(begin, end):
        total += discounts[place]
    return total / (end - begin) if end > begin else 0.0


@helper(fastmath=LOOSE)
def _weigh(gain, D, rank, gains, discounts, ranks, gaps, weights):
    """The weights of the pairs of one document with those of lower grades."""
    if len(gaps) == 1:
        for j in range(len(weights)):
            weights[j] = (gain - gains[j]) * abs(D - discounts[j])
    else:
        for j in range(len(weights)):
            weights[j] = (gain - gains[j]) * (abs(D - discounts[j]) + gaps[abs(rank - ranks[j])])


# -- modified Huber ----------------------------------------------------------------------------------------------------


@helper
def _huber(t, cuts, at, gain, D, rank, gaps, g):
    """(1 − v)² on [−1, 1], −4v below, 0 above, with v = t_i − t_j."""
    scratch, value = np.empty(len(t)), 0.0
    for b in range(len(cuts) - 2):
        below = cuts[b + 1] - at
        gains, discounts, ranks, weights = gain[below:], D[below:], rank[below:], scratch[below:]
        lower, push = t[below:], g[below:]
        for i in range(cuts[b] - at, below):
            _weigh(gain[i], D[i], rank[i], gains, discounts, ranks, gaps, weights)
            total, slope = _huber_row(t[i], lower, weights, push)
            value += total
            g[i] -= slope
    return value


@helper(fastmath=LOOSE)
def _huber_row(x, lower, weights, push):
    total, slope = 0.0, 0.0
    for j in range(len(lower)):
        v = x - lower[j]
        bent = min(max(1.0 - v, 0.0), 2.0)
        pull = 2.0 * weights[j] * bent
        total += weights[j] * (bent * bent - 4.0 * min(v + 1.0, 0.0))
        slope += pull
        push[j] += pull
    return total, slope


@helper
def _huber_newton(t, cuts, at, gain, D, rank, gaps, g, h):
    scratch = np.empty(len(t))
    for b in range(len(cuts) - 2):
        below = cuts[b + 1] - at
        gains, discounts, ranks, weights = gain[below:], D[below:], rank[below:], scratch[below:]
        lower, push, curve = t[below:], g[below:], h[below:]
        for i in range(cuts[b] - at, below):
            _weigh(gain[i], D[i], rank[i], gains, discounts, ranks, gaps, weights)
            slope, bend = _huber_newton_row(t[i], lower, weights, push, curve)
            g[i] -= slope
            h[i] += bend


@helper(fastmath=LOOSE)
def _huber_newton_row(x, lower, weights, push, curve):
    """The curvature is 2 on (−1, 1) and 0 outside."""
    slope, bend = 0.0, 0.0
    for j in range(len(lower)):
        v = x - lower[j]
        pull = 2.0 * weights[j] * min(max(1.0 - v, 0.0), 2.0)
        bow = 2.0 * weights[j] if abs(v) < 1.0 else 0.0
        slope += pull
        bend += bow
        push[j] += pull
        curve[j] += bow
    return slope, bend


# -- logistic ----------------------------------------------------------------------------------------------------------


@helper
def _exponentials(t, sigma):
    """exp(σ(t − mid)), from which a pair needs one division; nothing where they leave the range."""
    low = high = t[0]
    for i in range(len(t)):
        low = t[i] if t[i] < low else low
        high = t[i] if t[i] > high else high
    E, middle = np.empty(len(t) if sigma * (high - low) <= RANGE else 0), 0.5 * (low + high)
    for i in range(len(E)):
        E[i] = math.exp(sigma * (t[i] - middle))
    return E


@helper
def _logistic(t, cuts, at, gain, D, rank, gaps, sigma, g):
    """Σ weight · log(1 + exp(−σ(t_i − t_j)))."""
    E, scratch, value = _exponentials(t, sigma), np.empty(len(t)), 0.0
    for b in range(len(cuts) - 2):
        below = cuts[b + 1] - at
        gains, discounts, ranks, weights = gain[below:], D[below:], rank[below:], scratch[below:]
        lower, below_E, push = t[below:], E[below:], g[below:]
        for i in range(cuts[b] - at, below):
            _weigh(gain[i], D[i], rank[i], gains, discounts, ranks, gaps, weights)
            if len(E) > 0:
                total, slope = _near(t[i], E[i], lower, below_E, weights, sigma, push)
            else:
                total, slope = _far(t[i], lower, weights, sigma, push)
            value += total
            g[i] -= slope
    return value


@helper(fastmath=LOOSE, error_model="numpy")
def _near(x, e, lower, E, weights, sigma, push):
    """One division a pair gives the slope q = E_j/(E_i + E_j) and, from z, −log max(q, 1 − q)."""
    total, slope = 0.0, 0.0
    for j in range(len(lower)):
        both = e + E[j]
        less = e if e < E[j] else E[j]
        rest = 2.0 * both - less
        r = 1.0 / (both * rest)
        pull = sigma * weights[j] * (E[j] * rest * r)
        total += weights[j] * (_minus_log(less * both * r) + sigma * max(lower[j] - x, 0.0))
        slope += pull
        push[j] += pull
    return total, slope


@helper(fastmath=LOOSE, error_model="numpy", inline="always")
def _minus_log(z):
    """−log(1 − p) = 2 artanh(z), z = p/(2 − p), for p in [0, ½].

    A polynomial, so that the compiler does many at a time: artanh(z)/z in z², interpolated at the ten Chebyshev points
    of [0, 1/9] (1e-16 off), its even and odd terms apart to have two short chains instead of a long one.
    """
    x = z * z
    y = x * x
    even = 0.04940414659347673 * y + 0.07681838573021182
    even = even * y + 0.11111095432143078
    even = even * y + 0.1999999999764473
    even = even * y + 1.0
    odd = 0.08890338989999957 * y + 0.06795648730571371
    odd = odd * y + 0.09091429868764374
    odd = odd * y + 0.1428571455578215
    odd = odd * y + 0.33333333333341275
    return 2.0 * z * (odd * x + even)


@helper
def _far(x, lower, weights, sigma, push):
    total, slope = 0.0, 0.0
    for j in range(len(lower)):
        away = sigma * (x - lower[j])
        small = math.exp(-abs(away))
        pull = sigma * weights[j] * (small if away > 0.0 else 1.0) / (1.0 + small)
        total += weights[j] * (math.log1p(small) + max(-away, 0.0))
        slope += pull
        push[j] += pull
    return total, slope


@helper
def _logistic_newton(t, cuts, at, gain, D, rank, gaps, sigma, g, h):
    E, scratch = _exponentials(t, sigma), np.empty(len(t))
    for b in range(len(cuts) - 2):
        below = cuts[b + 1] - at
        gains, discounts, ranks, weights = gain[below:], D[below:], rank[below:], scratch[below:]
        lower, below_E, push, curve = t[below:], E[below:], g[below:], h[below:]
        for i in range(cuts[b] - at, below):
            _weigh(gain[i], D[i], rank[i], gains, discounts, ranks, gaps, weights)
            if len(E) > 0:
                slope, bend = _near_newton(E[i], below_E, weights, sigma, push, curve)
            else:
                slope, bend = _far_newton(t[i], lower, weights, sigma, push, curve)
            g[i] -= slope
            h[i] += bend


@helper(fastmath=LOOSE, error_model="numpy")
def _near_newton(e, E, weights, sigma, push, curve):
    """Slope σq and curvature σ²q(1 − q) of each pair."""
    slope, bend = 0.0, 0.0
    for j in range(len(E)):
        r = sigma / (e + E[j])
        pull = weights[j] * (E[j] * r)
        bow = pull * (e * r)
        slope += pull
        bend += bow
        push[j] += pull
        curve[j] += bow
    return slope, bend


@helper
def _far_newton(x, lower, weights, sigma, push, curve):
    slope, bend = 0.0, 0.0
    for j in range(len(lower)):
        away = sigma * (x - lower[j])
        small = math.exp(-abs(away))
        r = sigma / (1.0 + small)
        pull = weights[j] * (small if away > 0.0 else 1.0) * r
        bow = pull * (1.0 if away > 0.0 else small) * r
        slope += pull
        bend += bow
        push[j] += pull
        curve[j] += bow
    return slope, bend
