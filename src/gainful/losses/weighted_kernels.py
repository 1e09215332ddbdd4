"""Compiled losses on pairs weighted by the effect of swapping the two documents, for a run of queries.

Conventions as in ``pairwise_kernels``: documents by decreasing grade, so the pairs of a document are a contiguous run,
and unsigned indices in inner loops. ``gains`` are φ(g)/N_q. The weights come from the ranking by the current scores,
and the gradient treats them as constants.

Ranks of equal scores: lower grades first, so that a ranking without information counts as wrong; documents of equal
score and grade share the mean of their ranks and of their discounts. Nothing depends on the order of the rows.

``rank`` and ``D`` are twice the rank of each document and its discount. For metrics that are not sums of gains times
discounts, the rows of ``forms`` replace ``D``: P, Q, R, S of ``swaps`` where j stands above i, the same where it stands
below, and the rank.
``gaps`` are those of ``lambdaloss``, None for other losses. ``own`` are the weights of the documents, or None: a pair
counts by the product of its two. If ``gains`` is None, it counts by nothing else. ``room``, as long as ``t``, is a
workspace for the weights of the pairs of one document.

Below the cut-off of a metric all discounts are 0, and so is the weight of a pair of two such documents. Where they are
most of a query, the logistic losses visit only the pairs of the others: each of these looks down at the documents of
lower grades, and up at those of higher grades that stand below the cut-off.
"""
# mypy: ignore-errors

from __future__ import annotations

import math

from numpy import uint64

from gainful.compute.compiled import LOOSE, helper, kernel

LONG_LIST = 500  # at this length sorting becomes faster than counting


# Each loss has its own kernels, so that using one does not compile the others.


@kernel
def rank_by_counting(t, offsets, blocks, starts, discounts, first, last, rank, D):
    """Twice the rank and the discount of each document of the queries below LONG_LIST; ``discounts`` at rank 1, 2, …"""
    base = offsets[first]
    for q in range(first, last):
        lo, end = offsets[q] - base, offsets[q + 1] - base
        if end - lo >= LONG_LIST or blocks[q + 1] - blocks[q] < 2:
            continue
        total = 0
        for b in range(blocks[q], blocks[q + 1]):
            below = starts[b + 1] - base
            for i in range(starts[b] - base, below):
                x, above = t[i], 0
                for j in range(uint64(lo), uint64(below)):
                    above += t[j] > x
                for j in range(uint64(below), uint64(end)):
                    above += t[j] >= x
                rank[i] = above
                total += above
        # A pair adds 1, unless it has equal scores and grades, or a score that is NaN.
        distinct = 2 * total == (end - lo) * (end - lo - 1)
        above, equal, mean = -1, 1, 0.0
        for b in range(blocks[q], blocks[q + 1]):
            begin, below = starts[b] - base, starts[b + 1] - base
            for i in range(begin, below):
                was_above, was_equal = above, equal
                above = rank[i]
                if not distinct:
                    x, equal = t[i], 0
                    for j in range(uint64(begin), uint64(below)):
                        equal += t[j] == x
                if above != was_above or equal != was_equal:
                    mean = 0.0
                    for place in range(above, above + equal):
                        mean += discounts[place]
                    mean = mean / equal if equal > 0 else 0.0  # NaN equals nothing, not even itself
                rank[i] = 2 * above + equal + 1
                D[i] = mean


@helper(fastmath=LOOSE)
def _weigh(i, begin, end, base, gains, rank, D, forms, gaps, own, room):
    """The weights of the pairs of document i with those from ``begin`` to ``end``, into ``room``."""
    shift = uint64(base)
    if gains is None:  # known at compile time, as below: what is not there is not compiled
        for j in range(uint64(begin), uint64(end)):
            room[j] = 1.0
    if D is not None:
        _weigh_swap(i, begin, end, base, gains, rank, D, gaps, room)
    if forms is not None:
        _weigh_forms(i, begin, end, base, gains, forms, room)
    if own is not None:
        mine = own[base + i]
        for j in range(uint64(begin), uint64(end)):
            room[j] *= mine * own[shift + j]


@helper(fastmath=LOOSE)
def _weigh_swap(i, begin, end, base, gains, rank, D, gaps, room):
    gain, d, shift = gains[base + i], D[i], uint64(base)
    if gaps is None:
        for j in range(uint64(begin), uint64(end)):
            room[j] = (gain - gains[shift + j]) * abs(d - D[j])
    else:
        r = rank[i]
        for j in range(uint64(begin), uint64(end)):
            room[j] = (gain - gains[shift + j]) * (abs(d - D[j]) + gaps[abs(r - rank[j])])


@helper
def _mostly_past(lo, end, D, gaps):
    """Whether most documents stand below the cut-off, so that few pairs have a weight."""
    past = 0
    if D is not None:  # noqa: SIM102 - each alone is known at compile time
        if gaps is None:
            for i in range(uint64(lo), uint64(end)):
                past += D[i] == 0.0
    return 2 * past > end - lo


@helper
def _is_past(i, D):
    return False if D is None else D[i] == 0.0


@helper(fastmath=LOOSE)
def _weigh_up(i, begin, end, base, gains, D, own, room):
    """The weights of the pairs of document i with those of higher grades that stand below the cut-off."""
    if D is not None:
        gain, d, shift = gains[base + i], D[i], uint64(base)
        for j in range(uint64(begin), uint64(end)):
            room[j] = (gains[shift + j] - gain) * (d if D[j] == 0.0 else 0.0)
        if own is not None:
            mine = own[base + i]
            for j in range(uint64(begin), uint64(end)):
                room[j] *= mine * own[shift + j]


@helper(fastmath=LOOSE)
def _weigh_forms(i, begin, end, base, gains, forms, room):
    gain, shift, places = gains[base + i], uint64(base), forms[8]
    p, r, p_below, r_below, place = forms[0, i], forms[2, i], forms[4, i], forms[6, i], places[i]
    q, s, q_below, s_below = forms[1], forms[3], forms[5], forms[7]
    for j in range(uint64(begin), uint64(end)):
        above = p * q[j] + r + s[j]
        below = p_below * q_below[j] + r_below + s_below[j]
        change = above if places[j] < place else below
        room[j] = (gain - gains[shift + j]) * (change if change > 0.0 else 0.0)  # not below 0 but for rounding


# -- modified Huber ----------------------------------------------------------------------------------------------------


@kernel(fastmath=LOOSE)
def huber(t, offsets, blocks, starts, gains, gaps, own, rank, D, forms, room, first, last, values, g):
    """Σ weight · ((1 − v)² on [−1, 1], −4v below, 0 above), with v = t_i − t_j."""
    base = offsets[first]
    for q in range(first, last):
        value, end = 0.0, offsets[q + 1] - base
        for b in range(blocks[q], blocks[q + 1] - 1):
            below = starts[b + 1] - base
            for i in range(starts[b] - base, below):
                _weigh(i, below, end, base, gains, rank, D, forms, gaps, own, room)
                x, slope = t[i], 0.0
                for j in range(uint64(below), uint64(end)):
                    v = x - t[j]
                    bent = 1.0 - v if v < 1.0 else 0.0
                    bent = bent if bent < 2.0 else 2.0
                    pull = 2.0 * room[j] * bent
                    value += room[j] * (bent * bent - (4.0 * (v + 1.0) if v < -1.0 else 0.0))
                    slope += pull
                    g[j] += pull
                g[i] -= slope
        values[q] = value


@kernel(fastmath=LOOSE)
def huber_newton(t, offsets, blocks, starts, gains, gaps, own, rank, D, forms, room, first, last, g, h):
    """Gradient and curvature; the curvature is 2 on (−1, 1) and 0 outside."""
    base = offsets[first]
    for q in range(first, last):
        end = offsets[q + 1] - base
        for b in range(blocks[q], blocks[q + 1] - 1):
            below = starts[b + 1] - base
            for i in range(starts[b] - base, below):
                _weigh(i, below, end, base, gains, rank, D, forms, gaps, own, room)
                x, slope, bend = t[i], 0.0, 0.0
                for j in range(uint64(below), uint64(end)):
                    v = x - t[j]
                    bent = 1.0 - v if v < 1.0 else 0.0
                    bent = bent if bent < 2.0 else 2.0
                    pull = 2.0 * room[j] * bent
                    bow = 2.0 * room[j] if abs(v) < 1.0 else 0.0
                    slope += pull
                    bend += bow
                    g[j] += pull
                    h[j] += bow
                g[i] -= slope
                h[i] += bend


# -- logistic ----------------------------------------------------------------------------------------------------------


@kernel(fastmath=LOOSE, error_model="numpy")
def logistic(t, offsets, blocks, starts, gains, gaps, own, rank, D, forms, room, sigma, E, first, last, values, g):
    """Σ weight · log(1 + exp(−σ(t_i − t_j))), for queries with exponentials ``E``."""
    base = offsets[first]
    for q in range(first, last):
        value, lo, end = 0.0, offsets[q] - base, offsets[q + 1] - base
        skip = _mostly_past(lo, end, D, gaps)
        for b in range(blocks[q], blocks[q + 1] if skip else blocks[q + 1] - 1):
            begin, below = starts[b] - base, starts[b + 1] - base
            for i in range(begin, below):
                if skip and _is_past(i, D):
                    continue
                _weigh(i, below, end, base, gains, rank, D, forms, gaps, own, room)
                value += _logistic_pairs(i, below, end, 1.0, t, sigma, E, room, g)
                if skip:
                    _weigh_up(i, lo, begin, base, gains, D, own, room)
                    value += _logistic_pairs(i, lo, begin, -1.0, t, sigma, E, room, g)
        values[q] = value


@helper(fastmath=LOOSE, error_model="numpy", forceinline=True)
def _logistic_pairs(i, begin, end, side, t, sigma, E, room, g):
    """The pairs of document i with those from ``begin`` to ``end``, which are worse if ``side`` is 1, better if −1.

    One division per pair gives the slope q, the share of the worse document in E_i + E_j, and, from z,
    −log max(q, 1 − q).
    """
    x, e, slope, value, step = t[i], E[i], 0.0, 0.0, side * sigma
    for j in range(uint64(begin), uint64(end)):
        both = e + E[j]
        less = e if e < E[j] else E[j]
        rest = 2.0 * both - less
        r = 1.0 / (both * rest)
        pull = room[j] * ((E[j] if side > 0.0 else e) * rest * r)
        wrong = side * (t[j] - x)
        value += room[j] * (_minus_log(less * both * r) + sigma * (wrong if wrong > 0.0 else 0.0))
        slope += pull
        g[j] += step * pull
    g[i] -= step * slope
    return value


@helper(fastmath=LOOSE, error_model="numpy")
def _minus_log(z):
    """−log(1 − p) = 2 artanh(z), z = p/(2 − p), for p in [0, ½].

    A polynomial, so that the compiler can vectorise it: artanh(z)/z in z², interpolated at the ten Chebyshev points
    of [0, 1/9] (1e-16 off), even and odd terms separate, for two short dependency chains instead of a long one.
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


@kernel(fastmath=LOOSE, error_model="numpy")
def logistic_newton(t, offsets, blocks, starts, gains, gaps, own, rank, D, forms, room, sigma, E, first, last, g, h):
    """Gradient weight · σq and curvature weight · σ²q(1 − q)."""
    base = offsets[first]
    for q in range(first, last):
        lo, end = offsets[q] - base, offsets[q + 1] - base
        skip = _mostly_past(lo, end, D, gaps)
        for b in range(blocks[q], blocks[q + 1] if skip else blocks[q + 1] - 1):
            begin, below = starts[b] - base, starts[b + 1] - base
            for i in range(begin, below):
                if skip and _is_past(i, D):
                    continue
                _weigh(i, below, end, base, gains, rank, D, forms, gaps, own, room)
                _logistic_newton_pairs(i, below, end, 1.0, sigma, E, room, g, h)
                if skip:
                    _weigh_up(i, lo, begin, base, gains, D, own, room)
                    _logistic_newton_pairs(i, lo, begin, -1.0, sigma, E, room, g, h)


@helper(fastmath=LOOSE, error_model="numpy", forceinline=True)
def _logistic_newton_pairs(i, begin, end, side, sigma, E, room, g, h):
    """As ``_logistic_pairs``."""
    e, slope, bend = E[i], 0.0, 0.0
    for j in range(uint64(begin), uint64(end)):
        r = sigma / (e + E[j])
        pull = side * room[j] * ((E[j] if side > 0.0 else e) * r)
        bow = room[j] * (E[j] * r) * (e * r)
        slope += pull
        bend += bow
        g[j] += pull
        h[j] += bow
    g[i] -= slope
    h[i] += bend


@kernel
def logistic_far(
    t, offsets, blocks, starts, gains, gaps, own, rank, D, forms, room, sigma, queries, first, values, g, h
):
    """Value, gradient and curvature of ``queries`` whose scores are too far apart for exponentials.

    ``values`` has one entry for each of them; overwrites ``g`` and ``h``.
    """
    base = offsets[first]
    for k in range(len(queries)):
        q = queries[k]
        value, end = 0.0, offsets[q + 1] - base
        for i in range(offsets[q] - base, end):
            g[i] = h[i] = 0.0
        for b in range(blocks[q], blocks[q + 1] - 1):
            below = starts[b + 1] - base
            for i in range(starts[b] - base, below):
                _weigh(i, below, end, base, gains, rank, D, forms, gaps, own, room)
                for j in range(below, end):
                    x = sigma * (t[i] - t[j])
                    small = math.exp(-abs(x))
                    r = sigma / (1.0 + small)
                    pull = room[j] * (small if x > 0.0 else 1.0) * r
                    bow = room[j] * small * r * r
                    value += room[j] * (math.log1p(small) + (0.0 if x > 0.0 else -x))
                    g[i] -= pull
                    g[j] += pull
                    h[i] += bow
                    h[j] += bow
        values[k] = value
