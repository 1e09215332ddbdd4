"""Compiled losses on pairs weighted by the effect of swapping the two documents, for a run of queries.

Conventions as in ``pairwise_kernels``: documents by decreasing grade, so the pairs of a document are a contiguous run,
unsigned indices in inner loops. The documents that one is compared with come from tiles (``tile_kernels``). ``gains``
are φ(g)/N_q. The weights come from the ranking by the current scores, and the gradient treats them as constants.

Ranks of equal scores: lower grades first, so that a ranking without information counts as wrong; documents of equal
score and grade share the mean of their ranks and of their discounts. Nothing depends on the order of the rows.

``rank`` and ``D`` are twice the rank of each document and its discount. For metrics that are not sums of gains times
discounts, the rows of ``forms`` replace ``D``: P, Q, R, S of ``swaps`` where j stands above i, the same where it stands
below, and the rank.
``gaps`` are those of ``lambdaloss``, None for other losses: by twice the difference of ranks, counted from the middle,
and after them their sums; as many numbers stand before them. Their mean over the orders of equal documents is not that
at mean ranks. So ``rank`` also holds, from bit SHARED on, how many have the same rank, and ``gaps`` has two dimensions
where some are shared.

``own`` are the weights of the documents, or None: a pair counts by the product of its two. If ``gains`` is None, it
counts by nothing else.

Below the cut-off of a metric all discounts are 0, and so is the weight of a pair of two such documents. Where they are
most of a query, the logistic losses visit only the pairs of the others: each of these looks down at the documents of
lower grades, and up at those of higher grades that stand below the cut-off.
"""
# mypy: ignore-errors

from __future__ import annotations

import math

import numpy as np
from numpy import uint64

from gainful.compute.compiled import LOOSE, helper, kernel
from gainful.compute.kernels import WIDTH, round_up
from gainful.losses.tile_kernels import (
    BEND,
    DISCOUNT,
    EXPONENTIAL,
    EXTRA,
    GAIN,
    OWN,
    SCORE,
    SLOPE,
    TILE,
    enter,
    leave,
)

LONG_LIST = 1024  # at this length sorting becomes faster than counting
ABOVE = uint64(LONG_LIST + WIDTH)  # where the counts begin in the room for ranks
RANK_ROOM = 2 * (LONG_LIST + WIDTH)
SHARED = 32
TWICE = (1 << SHARED) - 1  # the bits of ``rank`` with twice the rank
LOWEST, HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


# Each loss has its own kernels, so that using one does not compile the others.


@kernel
def rank_by_counting(t, offsets, blocks, starts, discounts, room, first, last, rank, D):
    """Rank and discount of each document of the queries below LONG_LIST, as above; ``discounts`` at rank 1, 2, …

    ``room`` has RANK_ROOM integers. Documents have equally many above them only if their scores and grades are equal.
    """
    base = offsets[first]
    for q in range(first, last):
        lo, n = offsets[q] - base, offsets[q + 1] - offsets[q]
        if n >= LONG_LIST or blocks[q + 1] - blocks[q] < 2:
            continue
        if _count_above(q, t, lo, offsets, blocks, starts, room):
            for i in range(uint64(n)):
                rank[uint64(lo) + i] = (1 << SHARED) | (2 * room[ABOVE + i] + 2)
                D[uint64(lo) + i] = discounts[uint64(room[ABOVE + i])]
            continue
        for i in range(uint64(n)):
            room[i] = 0
        for i in range(uint64(n)):
            if t[uint64(lo) + i] == t[uint64(lo) + i]:
                room[uint64(room[ABOVE + i])] += 1
        for i in range(uint64(n)):
            row, above, mean = lo + np.int64(i), room[ABOVE + i], 0.0
            equal = room[uint64(above)]
            if t[row] != t[row]:  # NaN equals nothing, not even itself
                rank[row], D[row] = (1 << SHARED) | 1, 0.0
            elif equal < 0:  # an equal one came before, at −1 − equal
                rank[row], D[row] = rank[-1 - equal], D[-1 - equal]
            else:
                for place in range(above, above + equal):
                    mean += discounts[place]
                rank[row], D[row] = (equal << SHARED) | (2 * above + equal + 1), mean / equal
                room[uint64(above)] = -1 - row


@helper
def _count_above(q, t, lo, offsets, blocks, starts, room):
    """Count the documents above each, into ``room``. Return whether none is NaN or equal to another, grade included.

    The scores become integers in the same order. Against lower grades, which win ties, a document counts as one less.
    """
    n, known, total = uint64(offsets[q + 1] - offsets[q]), 0, 0
    for i in range(n):
        x = t[uint64(lo) + i]
        known += x == x
        bits = np.float64(x + 0.0).view(np.int64)  # −0 becomes 0
        room[i] = (bits ^ ((bits >> 63) & HIGHEST)) if x == x else LOWEST + 1
    for i in range(round_up(n)):
        room[ABOVE + i] = 0
    for b in range(blocks[q], blocks[q + 1]):
        begin, below = uint64(starts[b] - offsets[q]), uint64(starts[b + 1] - offsets[q])
        for j in range(begin, below, uint64(4)):  # four at a time: fewer loads and stores
            first, second, third, fourth = room[j], LOWEST, LOWEST, LOWEST
            if j + uint64(1) < below:
                second = room[j + uint64(1)]
            if j + uint64(2) < below:
                third = room[j + uint64(2)]
            if j + uint64(3) < below:
                fourth = room[j + uint64(3)]
            for i in range(round_up(n)):
                key = room[i]
                higher = np.int64(first > key) + np.int64(second > key)
                room[ABOVE + i] += higher + (np.int64(third > key) + np.int64(fourth > key))
        for i in range(begin, below):
            room[i] -= 1
    for i in range(n):
        total += room[ABOVE + i]
    # A pair adds 1 unless its documents are equal.
    return known == offsets[q + 1] - offsets[q] and 2 * total == known * (known - 1)


@helper
def _describe(i, base, gains, own, D):
    """Weight, gain and discount of document i."""
    mine = 1.0 if own is None else own[base + i]
    gain = 0.0 if gains is None else gains[base + i]
    return mine, gain, 0.0 if D is None else D[i]


@helper
def _look_up(i, begin, stop, start, rank, gaps, forms, room):
    """Look up what the weights of the pairs of i with those from ``begin`` to ``stop`` need besides discounts."""
    to = EXTRA + uint64(WIDTH) - uint64(start)
    if gaps is not None:
        if gaps.ndim == 1:  # known at compile time: no ranks are shared
            middle = uint64(len(gaps) // 2 - rank[i])
            for j in range(uint64(begin), uint64(stop)):
                room[to + j] = gaps[middle + uint64(rank[j])]
        else:
            _mean_gaps(i, begin, stop, to, rank, gaps, room)
    if forms is not None:
        _change_by_forms(i, begin, stop, to, forms, room)


@helper(error_model="numpy")
def _mean_gaps(i, begin, stop, to, rank, gaps, room):
    """The mean gap of i and each other over the orders of the documents that share their ranks.

    With m and n of them, and k ranks between these: Σ over m·n pairs of D(d) − D(d + 1), which sums of D give.
    """
    m, mine = rank[i] >> SHARED, rank[i] & TWICE
    middle = gaps.shape[1] // 2
    sums = uint64(middle + middle // 3 * 2 + 1)
    for j in range(uint64(begin), uint64(stop)):
        n = rank[j] >> SHARED
        k = abs((rank[j] & TWICE) - mine) - m - n
        near = sums + uint64(k >> 1 if k > 0 else 0)
        far = near + uint64(n)
        total = gaps[0, near + uint64(m)] - gaps[0, near] - gaps[0, far + uint64(m)] + gaps[0, far]
        alone = gaps[0, uint64(middle + (rank[j] & TWICE) - mine)]  # the same bits as without ties elsewhere
        room[to + j] = alone if m * n == 1 else total / np.float64(m * n)


@helper(fastmath=LOOSE)
def _change_by_forms(i, begin, stop, to, forms, room):
    p, r, p_below, r_below, place = forms[0, i], forms[2, i], forms[4, i], forms[6, i], forms[8, i]
    q, s, q_below, s_below, places = forms[1], forms[3], forms[5], forms[7], forms[8]
    for j in range(uint64(begin), uint64(stop)):
        above = p * q[j] + r + s[j]
        below = p_below * q_below[j] + r_below + s_below[j]
        change = above if places[j] < place else below
        room[to + j] = change if change > 0.0 else 0.0  # not below 0 but for rounding


@helper(fastmath=LOOSE, forceinline=True)
def _weigh(j, side, mine, gain, d, gains, gaps, forms, room):
    """The weight of the pair of a document with document j of the tile, which is worse if ``side`` is 1, better if −1.

    A better document counts only if it stands below the cut-off.
    """
    weight = mine * room[OWN + j]
    if gains is not None:
        change = abs(d - room[DISCOUNT + j]) if forms is None else room[EXTRA + j]
        if gaps is not None:
            change += room[EXTRA + j]
        if side < 0.0:
            change = change if room[DISCOUNT + j] == 0.0 else 0.0
        weight *= side * (gain - room[GAIN + j]) * change
    return weight


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


# -- modified Huber ----------------------------------------------------------------------------------------------------


@kernel(fastmath=LOOSE)
def huber(t, offsets, blocks, starts, gains, gaps, own, rank, D, forms, room, first, last, values, g, h):
    """Σ weight · ((1 − v)² on [−1, 1], −4v below, 0 above), with v = t_i − t_j; the curvature is 2 on (−1, 1)."""
    base = offsets[first]
    for q in range(first, last):
        value, end = 0.0, offsets[q + 1] - base
        for start in range(offsets[q] - base, end, TILE):
            stop = start + TILE if start + TILE < end else end
            enter(start, stop, base, t, None, gains, own, D, room)
            for b in range(blocks[q], blocks[q + 1] - 1):
                below = starts[b + 1] - base
                begin = below if below > start else start
                if begin >= stop:
                    break
                for i in range(starts[b] - base, below):
                    mine, gain, d = _describe(i, base, gains, own, D)
                    _look_up(i, begin, stop, start, rank, gaps, forms, room)
                    x, slope, bend, to = t[i], 0.0, 0.0, uint64(WIDTH + begin - start)
                    for k in range(round_up(stop - begin)):
                        weight = _weigh(to + k, 1.0, mine, gain, d, gains, gaps, forms, room)
                        v = x - room[SCORE + to + k]
                        bent = 1.0 - v if v < 1.0 else 0.0
                        bent = bent if bent < 2.0 else 2.0
                        pull = 2.0 * weight * bent
                        slope += pull
                        room[SLOPE + to + k] += pull
                        if h is None:
                            value += weight * (bent * bent - (4.0 * (v + 1.0) if v < -1.0 else 0.0))
                        else:
                            bow = 2.0 * weight if abs(v) < 1.0 else 0.0
                            bend += bow
                            room[BEND + to + k] += bow
                    g[i] -= slope
                    if h is not None:
                        h[i] += bend
            _leave_both(start, stop, room, g, h)
        if values is not None:
            values[q] = value


@helper
def _leave_both(start, stop, room, g, h):
    leave(start, stop, SLOPE, room, g)
    if h is not None:
        leave(start, stop, BEND, room, h)


# -- logistic ----------------------------------------------------------------------------------------------------------


@kernel(fastmath=LOOSE, error_model="numpy")
def logistic(t, offsets, blocks, starts, gains, gaps, own, rank, D, forms, room, sigma, E, first, last, values, g, h):
    """Σ weight · log(1 + exp(−σ(t_i − t_j))), for queries with exponentials ``E``."""
    base = offsets[first]
    for q in range(first, last):
        value, lo, end = 0.0, offsets[q] - base, offsets[q + 1] - base
        skip = _mostly_past(lo, end, D, gaps)
        for start in range(lo, end, TILE):
            stop = start + TILE if start + TILE < end else end
            enter(start, stop, base, t, E, gains, own, D, room)
            for b in range(blocks[q], blocks[q + 1] if skip else blocks[q + 1] - 1):
                above, below = starts[b] - base, starts[b + 1] - base
                begin, finish = below if below > start else start, above if above < stop else stop
                for i in range(above, below):
                    if skip and _is_past(i, D):
                        continue
                    mine, gain, d = _describe(i, base, gains, own, D)
                    if begin < stop:
                        _look_up(i, begin, stop, start, rank, gaps, forms, room)
                        count = round_up(stop - begin)
                        to = uint64(WIDTH + begin - start)
                        value += _logistic_pairs(
                            i, to, count, 1.0, mine, gain, d, gains, gaps, forms, t, sigma, E, room, g, h
                        )
                    if skip and finish > start:
                        count = round_up(finish - start)
                        to = uint64(WIDTH + finish - start) - count
                        value += _logistic_pairs(
                            i, to, count, -1.0, mine, gain, d, gains, gaps, forms, t, sigma, E, room, g, h
                        )
            _leave_both(start, stop, room, g, h)
        if values is not None:
            values[q] = value


@helper(fastmath=LOOSE, error_model="numpy", forceinline=True)
def _logistic_pairs(i, to, count, side, mine, gain, d, gains, gaps, forms, t, sigma, E, room, g, h):
    """The pairs of document i with ``count`` of the tile, which are worse if ``side`` is 1, better if −1.

    One division per pair gives the slope q, the share of the worse document in E_i + E_j, and, from z,
    −log max(q, 1 − q); or q and the curvature σ²q(1 − q).
    """
    x, e, slope, bend, value, step = t[i], E[i], 0.0, 0.0, 0.0, side * sigma if h is None else side
    for k in range(count):
        j = to + k
        weight = _weigh(j, side, mine, gain, d, gains, gaps, forms, room)
        other = room[EXPONENTIAL + j]
        both = e + other
        if h is None:
            less = e if e < other else other
            rest = 2.0 * both - less
            r = 1.0 / (both * rest)
            pull = weight * ((other if side > 0.0 else e) * rest * r)
            wrong = side * (room[SCORE + j] - x)
            value += weight * (_minus_log(less * both * r) + sigma * (wrong if wrong > 0.0 else 0.0))
        else:
            r = sigma / both
            pull = weight * ((other if side > 0.0 else e) * r)
            bow = weight * (other * r) * (e * r)
            bend += bow
            room[BEND + j] += bow
        slope += pull
        room[SLOPE + j] += step * pull
    g[i] -= step * slope
    if h is not None:
        h[i] += bend
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


@kernel
def logistic_far(
    t, offsets, blocks, starts, gains, gaps, own, rank, D, forms, room, sigma, queries, first, values, g, h
):
    """The same of ``queries`` whose scores are too far apart for exponentials; overwrites ``g`` and ``h``."""
    base = offsets[first]
    for q in queries:
        value, lo, end = 0.0, offsets[q] - base, offsets[q + 1] - base
        for i in range(lo, end):
            g[i] = 0.0
            if h is not None:
                h[i] = 0.0
        for start in range(lo, end, TILE):
            stop = start + TILE if start + TILE < end else end
            enter(start, stop, base, t, None, gains, own, D, room)
            for b in range(blocks[q], blocks[q + 1] - 1):
                below = starts[b + 1] - base
                begin = below if below > start else start
                if begin >= stop:
                    break
                for i in range(starts[b] - base, below):
                    mine, gain, d = _describe(i, base, gains, own, D)
                    _look_up(i, begin, stop, start, rank, gaps, forms, room)
                    for j in range(begin, stop):
                        weight = _weigh(uint64(WIDTH + j - start), 1.0, mine, gain, d, gains, gaps, forms, room)
                        x = sigma * (t[i] - t[j])
                        small = math.exp(-abs(x))
                        r = sigma / (1.0 + small)
                        pull = weight * (small if x > 0.0 else 1.0) * r
                        g[i] -= pull
                        g[j] += pull
                        if h is None:
                            value += weight * (math.log1p(small) + (0.0 if x > 0.0 else -x))
                        else:
                            bow = weight * small * r * r
                            h[i] += bow
                            h[j] += bow
        if values is not None:
            values[q] = value
