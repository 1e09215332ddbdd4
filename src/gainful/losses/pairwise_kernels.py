"""Compiled losses on pairs of documents of different grades, for a run of queries.

Conventions
-----------
Documents of a query come by falling grade: ``t`` (n,) are their scores and ``g`` (n,) the gradient, which starts at 0.
``cuts`` are the positions where grades begin, ending with the position after the last document, all counted from
``at``: every document of block b beats all positions from ``cuts[b + 1] − at`` on, a contiguous run. Each function
returns the value of the query; those for Newton steps return nothing and add the curvature to ``h``, which starts at 0.

A loop over such a run is a function of its own that takes the run as slices, counted from 0: with ``range(below, n)``
the compiler cannot rule out negative positions, which count from the end, and does one pair at a time. Slicing costs,
so it is done once a block.
"""
# mypy: ignore-errors

from __future__ import annotations

import math

import numpy as np
from numba import njit

LOOSE = {"reassoc", "contract", "arcp", "nsz"}  # sums may be reordered; NaN and infinity keep their meaning
HINGE, SQUARED_HINGE, LOGISTIC = 0, 1, 2
CROWDED = 1000.0  # pairs a document from which on sorting beats looking at each, several of them at a time
RANGE = 600.0  # of exponents: exp(±RANGE/2) and their quotients are ordinary numbers
BATCH = 512  # factors in [½, 1] whose product is an ordinary number


@njit(cache=True, nogil=True)
def run(kind, t, offsets, blocks, starts, params, first, last, values, g):
    """The queries first … last − 1; entry 0 of ``t`` and ``g`` is the first document of query ``first``."""
    base = offsets[first]
    for q in range(first, last):
        lo, hi = offsets[q] - base, offsets[q + 1] - base
        cuts = starts[blocks[q] : blocks[q + 1] + 1]
        own, slope = t[lo:hi], g[lo:hi]
        pairs = _n_pairs(cuts)
        if pairs == 0.0:
            values[q] = 0.0
            continue
        if kind == LOGISTIC:
            value = _logistic(own, cuts, offsets[q], params[0], slope)
        elif pairs < CROWDED * (hi - lo):
            value = (
                _squared_hinge(own, cuts, offsets[q], slope)
                if kind == SQUARED_HINGE
                else _hinge(own, cuts, offsets[q], slope)
            )
        else:
            value = _swept(own, cuts, offsets[q], kind == SQUARED_HINGE, slope, np.zeros(hi - lo))
        values[q] = value / pairs
        for i in range(hi - lo):
            slope[i] /= pairs


@njit(cache=True, nogil=True)
def newton(kind, t, offsets, blocks, starts, params, first, last, g, h):
    """Gradient and curvature of the queries first … last − 1; both start at 0."""
    base = offsets[first]
    for q in range(first, last):
        lo, hi = offsets[q] - base, offsets[q + 1] - base
        cuts = starts[blocks[q] : blocks[q + 1] + 1]
        own, slope, bend = t[lo:hi], g[lo:hi], h[lo:hi]
        pairs = _n_pairs(cuts)
        if pairs == 0.0:
            continue
        if kind == LOGISTIC:
            _logistic_newton(own, cuts, offsets[q], params[0], slope, bend)
        elif pairs < CROWDED * (hi - lo):
            _squared_hinge_newton(own, cuts, offsets[q], slope, bend)
        else:
            _swept(own, cuts, offsets[q], True, slope, bend)
        for i in range(hi - lo):
            slope[i] /= pairs
            bend[i] /= pairs


@njit(cache=True, nogil=True)
def _n_pairs(cuts):
    pairs, end = 0.0, cuts[-1]
    for b in range(len(cuts) - 2):
        pairs += float(cuts[b + 1] - cuts[b]) * float(end - cuts[b + 1])
    return pairs


# -- every pair --------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _hinge(t, cuts, at, g):
    value = 0.0
    for b in range(len(cuts) - 2):
        below = cuts[b + 1] - at
        lower, push = t[below:], g[below:]
        for i in range(cuts[b] - at, below):
            total, slope = _hinge_row(t[i], lower, push)
            value += total
            g[i] -= slope
    return value


@njit(cache=True, nogil=True, fastmath=LOOSE)
def _hinge_row(x, lower, push):
    total, count = 0.0, 0.0
    for j in range(len(lower)):
        short = 1.0 - x + lower[j]
        active = 1.0 if short > 0.0 else 0.0
        total += short * active
        count += active
        push[j] += active
    return total, count


@njit(cache=True, nogil=True)
def _squared_hinge(t, cuts, at, g):
    value = 0.0
    for b in range(len(cuts) - 2):
        below = cuts[b + 1] - at
        lower, push = t[below:], g[below:]
        for i in range(cuts[b] - at, below):
            total, slope = _squared_hinge_row(t[i], lower, push)
            value += total
            g[i] -= slope
    return value


@njit(cache=True, nogil=True, fastmath=LOOSE)
def _squared_hinge_row(x, lower, push):
    total, slope = 0.0, 0.0
    for j in range(len(lower)):
        short = max(1.0 - x + lower[j], 0.0)
        total += short * short
        slope += 2.0 * short
        push[j] += 2.0 * short
    return total, slope


@njit(cache=True, nogil=True)
def _squared_hinge_newton(t, cuts, at, g, h):
    for b in range(len(cuts) - 2):
        below = cuts[b + 1] - at
        lower, push, curve = t[below:], g[below:], h[below:]
        for i in range(cuts[b] - at, below):
            slope, bend = _squared_hinge_newton_row(t[i], lower, push, curve)
            g[i] -= slope
            h[i] += bend


@njit(cache=True, nogil=True, fastmath=LOOSE)
def _squared_hinge_newton_row(x, lower, push, curve):
    slope, bend = 0.0, 0.0
    for j in range(len(lower)):
        short = max(1.0 - x + lower[j], 0.0)
        bow = 2.0 if short > 0.0 else 0.0
        slope += 2.0 * short
        bend += bow
        push[j] += 2.0 * short
        curve[j] += bow
    return slope, bend


@njit(cache=True, nogil=True)
def _exponentials(t, sigma):
    """exp(σ(t − mid)), from which a pair needs one division; nothing where they leave the range."""
    low, high = t.min(), t.max()
    return np.exp(sigma * (t - 0.5 * (low + high))) if sigma * (high - low) <= RANGE else np.empty(0)


@njit(cache=True, nogil=True)
def _logistic(t, cuts, at, sigma, g):
    """Σ log(1 + exp(−σ(t_i − t_j)))."""
    E, value = _exponentials(t, sigma), 0.0
    for b in range(len(cuts) - 2):
        below = cuts[b + 1] - at
        if len(E) == 0:
            value += _far(t, cuts[b] - at, below, sigma, g)
            continue
        for begin in range(below, len(t), BATCH):
            end = min(begin + BATCH, len(t))
            lower, lower_E, push = t[begin:end], E[begin:end], g[begin:end]
            for i in range(cuts[b] - at, below):
                total, slope = _near(t[i], E[i], lower, lower_E, sigma, push)
                value += total
                g[i] -= slope
    return value


@njit(cache=True, nogil=True, fastmath=LOOSE, error_model="numpy")
def _near(x, e, lower, E, sigma, push):
    """One division a pair gives the slope q = E_j/(E_i + E_j).

    log(1 + exp(−|σd|)) = −log max(q, 1 − q), of which many are taken at once as the logarithm of a product.
    """
    product, wrong, slope = 1.0, 0.0, 0.0
    for j in range(len(lower)):
        q = E[j] / (e + E[j])
        product *= max(q, 1.0 - q)
        wrong += max(lower[j] - x, 0.0)
        slope += sigma * q
        push[j] += sigma * q
    return sigma * wrong - math.log(product), slope


@njit(cache=True, nogil=True)
def _far(t, first, below, sigma, g):
    value = 0.0
    for i in range(first, below):
        for j in range(below, len(t)):
            x = sigma * (t[i] - t[j])
            small = math.exp(-abs(x))
            value += math.log1p(small) + max(-x, 0.0)
            q = small / (1.0 + small) if x > 0.0 else 1.0 / (1.0 + small)
            g[i] -= sigma * q
            g[j] += sigma * q
    return value


@njit(cache=True, nogil=True)
def _logistic_newton(t, cuts, at, sigma, g, h):
    E = _exponentials(t, sigma)
    for b in range(len(cuts) - 2):
        below = cuts[b + 1] - at
        if len(E) == 0:
            _far_newton(t, cuts[b] - at, below, sigma, g, h)
            continue
        lower_E, push, curve = E[below:], g[below:], h[below:]
        for i in range(cuts[b] - at, below):
            slope, bend = _near_newton(E[i], lower_E, sigma, push, curve)
            g[i] -= slope
            h[i] += bend


@njit(cache=True, nogil=True, fastmath=LOOSE, error_model="numpy")
def _near_newton(e, E, sigma, push, curve):
    """Slope σq and curvature σ²q(1 − q) of each pair."""
    slope, bend = 0.0, 0.0
    for j in range(len(E)):
        r = sigma / (e + E[j])
        pull = E[j] * r
        bow = pull * (e * r)
        slope += pull
        bend += bow
        push[j] += pull
        curve[j] += bow
    return slope, bend


@njit(cache=True, nogil=True)
def _far_newton(t, first, below, sigma, g, h):
    for i in range(first, below):
        for j in range(below, len(t)):
            x = sigma * (t[i] - t[j])
            small = math.exp(-abs(x))
            r = sigma / (1.0 + small)
            pull = (small if x > 0.0 else 1.0) * r
            bow = small * r * r
            g[i] -= pull
            g[j] += pull
            h[i] += bow
            h[j] += bow


# -- by sorting --------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _swept(t, cuts, at, squared, g, h):
    """Hinges of all pairs in O(n log n): two sweeps along the scores over a Fenwick tree of grades.

    The first sums what each document falls short by against those of lower grades, the second, which is the first with
    scores and grades turned round, what those of higher grades fall short by against it. ``h`` takes the curvature of
    the squares.
    """
    n, levels = len(t), len(cuts) - 1
    level = np.empty(n, dtype=np.int64)
    for b in range(levels):
        level[cuts[b] - at : cuts[b + 1] - at] = levels - b  # 1 = the lowest grade
    rising = np.argsort(t)
    number, short = np.empty(n), np.empty(n)
    squares = _sweep(t, rising[::-1].copy(), level, levels, number, short)
    value = squares if squared else short.sum()
    for i in range(n):
        g[i] -= 2.0 * short[i] if squared else number[i]
        h[i] += 2.0 * number[i]
    _sweep(-t, rising, levels + 1 - level, levels, number, short)
    for j in range(n):
        g[j] += 2.0 * short[j] if squared else number[j]
        h[j] += 2.0 * number[j]
    return value


@njit(cache=True, nogil=True)
def _sweep(t, falling, level, levels, number, short):
    """For each document i the number and sum of all 1 − (t_i − t_j) > 0 with level_j < level_i; Σ of their squares.

    ``falling``: documents by falling score. On the way down documents only come within reach. A node of the tree holds
    number, sum and sum of squares as seen from the score ``seen`` and is brought to the present one when it is touched.
    So only numbers ≥ 0 are ever added, and no digits are lost however far apart the scores are.
    """
    n, squares, come = len(t), 0.0, 0
    count, total, square, seen = np.zeros(levels + 1), np.zeros(levels + 1), np.zeros(levels + 1), np.zeros(levels + 1)
    for place in range(n):
        i = falling[place]
        here = t[i]
        while come < n:
            excess = 1.0 - (here - t[falling[come]])
            if excess <= 0.0:
                break
            node = level[falling[come]]
            while node <= levels:
                _bring(count, total, square, seen, node, here)
                count[node] += 1.0
                total[node] += excess
                square[node] += excess * excess
                node += node & -node
            come += 1
        number[i], short[i], node = 0.0, 0.0, level[i] - 1
        while node > 0:
            if count[node] > 0.0:
                _bring(count, total, square, seen, node, here)
                number[i] += count[node]
                short[i] += total[node]
                squares += square[node]
            node -= node & -node
    return squares


@njit(cache=True, nogil=True)
def _bring(count, total, square, seen, node, here):
    if count[node] > 0.0:
        down = seen[node] - here
        square[node] += down * (2.0 * total[node] + count[node] * down)
        total[node] += count[node] * down
    seen[node] = here
