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

from gainful.compiled import LOOSE, helper, kernel

CROWDED = 1000.0  # pairs a document from which on sorting beats looking at each, several of them at a time
RANGE = 600.0  # of exponents: exp(±RANGE/2) and their quotients are ordinary numbers
BATCH = 512  # factors in [½, 1] whose product is an ordinary number


# Each loss has kernels of its own, so that using one compiles no other. Hinges leave out crowded queries, which
# ``sweep`` is for.


@kernel
def hinge(t, offsets, blocks, starts, params, first, last, values, g):
    """The queries first … last − 1; entry 0 of ``t`` and ``g`` is the first document of query ``first``."""
    for q in range(first, last):
        own, cuts, at, pairs, slope = _query(t, offsets, blocks, starts, first, q, g)
        values[q] = 0.0
        if pairs > 0.0 and pairs < CROWDED * len(own):
            values[q] = _hinge(own, cuts, at, slope) / pairs
            _divide(slope, pairs)


@kernel
def squared_hinge(t, offsets, blocks, starts, params, first, last, values, g):
    """As ``hinge``."""
    for q in range(first, last):
        own, cuts, at, pairs, slope = _query(t, offsets, blocks, starts, first, q, g)
        values[q] = 0.0
        if pairs > 0.0 and pairs < CROWDED * len(own):
            values[q] = _squared_hinge(own, cuts, at, slope) / pairs
            _divide(slope, pairs)


@kernel
def logistic(t, offsets, blocks, starts, params, first, last, values, g):
    """As ``hinge``; ``params`` is σ."""
    for q in range(first, last):
        own, cuts, at, pairs, slope = _query(t, offsets, blocks, starts, first, q, g)
        values[q] = 0.0
        if pairs > 0.0:
            values[q] = _logistic(own, cuts, at, params[0], slope) / pairs
            _divide(slope, pairs)


@kernel
def squared_hinge_newton(t, offsets, blocks, starts, params, first, last, g, h):
    """Gradient and curvature of the queries first … last − 1; both start at 0."""
    for q in range(first, last):
        own, cuts, at, pairs, slope = _query(t, offsets, blocks, starts, first, q, g)
        if pairs > 0.0 and pairs < CROWDED * len(own):
            bend = h[at - offsets[first] : at - offsets[first] + len(own)]
            _squared_hinge_newton(own, cuts, at, slope, bend)
            _divide(slope, pairs)
            _divide(bend, pairs)


@kernel
def logistic_newton(t, offsets, blocks, starts, params, first, last, g, h):
    """As ``squared_hinge_newton``."""
    for q in range(first, last):
        own, cuts, at, pairs, slope = _query(t, offsets, blocks, starts, first, q, g)
        if pairs > 0.0:
            bend = h[at - offsets[first] : at - offsets[first] + len(own)]
            _logistic_newton(own, cuts, at, params[0], slope, bend)
            _divide(slope, pairs)
            _divide(bend, pairs)


@helper
def _query(t, offsets, blocks, starts, first, q, g):
    """Scores, cuts, first position, number of pairs and gradient of query q."""
    lo, hi = offsets[q] - offsets[first], offsets[q + 1] - offsets[first]
    cuts = starts[blocks[q] : blocks[q + 1] + 1]
    return t[lo:hi], cuts, offsets[q], _n_pairs(cuts), g[lo:hi]


@helper
def _divide(values, by):
    for i in range(len(values)):
        values[i] /= by


@helper
def _n_pairs(cuts):
    pairs, end = 0.0, cuts[-1]
    for b in range(len(cuts) - 2):
        pairs += float(cuts[b + 1] - cuts[b]) * float(end - cuts[b + 1])
    return pairs


# -- every pair --------------------------------------------------------------------------------------------------------


@helper
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


@helper(fastmath=LOOSE)
def _hinge_row(x, lower, push):
    total, count = 0.0, 0.0
    for j in range(len(lower)):
        short = 1.0 - x + lower[j]
        active = 1.0 if short > 0.0 else 0.0
        total += short * active
        count += active
        push[j] += active
    return total, count


@helper
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


@helper(fastmath=LOOSE)
def _squared_hinge_row(x, lower, push):
    total, slope = 0.0, 0.0
    for j in range(len(lower)):
        short = 1.0 - x + lower[j]
        short = short if short > 0.0 else 0.0
        total += short * short
        slope += 2.0 * short
        push[j] += 2.0 * short
    return total, slope


@helper
def _squared_hinge_newton(t, cuts, at, g, h):
    for b in range(len(cuts) - 2):
        below = cuts[b + 1] - at
        lower, push, curve = t[below:], g[below:], h[below:]
        for i in range(cuts[b] - at, below):
            slope, bend = _squared_hinge_newton_row(t[i], lower, push, curve)
            g[i] -= slope
            h[i] += bend


@helper(fastmath=LOOSE)
def _squared_hinge_newton_row(x, lower, push, curve):
    slope, bend = 0.0, 0.0
    for j in range(len(lower)):
        short = 1.0 - x + lower[j]
        short = short if short > 0.0 else 0.0
        bow = 2.0 if short > 0.0 else 0.0
        slope += 2.0 * short
        bend += bow
        push[j] += 2.0 * short
        curve[j] += bow
    return slope, bend


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
def _logistic(t, cuts, at, sigma, g):
    """Σ log(1 + exp(−σ(t_i − t_j)))."""
    E, value = _exponentials(t, sigma), 0.0
    for b in range(len(cuts) - 2):
        below = cuts[b + 1] - at
        if len(E) == 0:
            value += _far(t, cuts[b] - at, below, sigma, g)
            continue
        for begin in range(below, len(t), BATCH):
            end = begin + BATCH if begin + BATCH < len(t) else len(t)
            lower, lower_E, push = t[begin:end], E[begin:end], g[begin:end]
            for i in range(cuts[b] - at, below):
                total, slope = _near(t[i], E[i], lower, lower_E, sigma, push)
                value += total
                g[i] -= slope
    return value


@helper(fastmath=LOOSE, error_model="numpy")
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


@helper
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


@helper
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


@helper(fastmath=LOOSE, error_model="numpy")
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


@helper
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


@kernel
def sweep(t, falling, level, levels, number, short):
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


@helper
def _bring(count, total, square, seen, node, here):
    if count[node] > 0.0:
        down = seen[node] - here
        square[node] += down * (2.0 * total[node] + count[node] * down)
        total[node] += count[node] * down
    seen[node] = here
