"""Compiled smoothed DCG for a run of queries.

Documents come by falling grade, as in ``pairwise_kernels``; ``gains`` are c_i = φ(g_i), or φ(g_i)/N_q, by position. The
documents with a gain therefore come first: the ranks of the others are never needed, nor any pair of two of them.

With z = α·score and E = exp(z), one division a pair gives G_α(s_i − s_j) = E_j/(E_i + E_j). With m = min(G, ½) the
smoothed hinge is A = m + ¼[z_j − z_i]₊ and its slope by z_i is −m(1 − m), on both sides of 0, so no pair branches. For
g_i > g_j the pair adds A to the rank of i and 1 + A to that of j: one evaluation serves both.

E is taken in the middle of the query's scores. Where they spread too far for that, z is cut into bands and a row of
pairs measures E in the band of its own document: documents two bands away compare as 0 or 1, to about 1e-55.

Inner loops run over whole slices: a loop from ``begin`` to ``end`` would have to allow for negative indices, and the
compiler would then gather numbers one by one. Slicing costs, so it is done once a grade.
"""
# mypy: ignore-errors

from __future__ import annotations

import math

from gainful.compiled import LOOSE, helper, kernel

RANGE = 600.0  # of z: E, its products and its quotients are ordinary numbers
BAND = 128.0
UP, DOWN = math.exp(BAND), math.exp(-BAND)


@kernel
def sigmoids(t, offsets, blocks, starts, gains, tops, cutoffs, params, room, first, last, values, g):
    """tops[q] − Σ_i c_i W(r̂_i)/log2(1 + r̂_i) and its gradient, for the queries first … last − 1.

    ``cutoffs`` has one entry for each of these queries, infinite where nothing is cut off; ``params`` are α and β;
    ``room`` has six rows, as long as the longest query.
    """
    for q in range(first, last):
        values[q] = 0.0
        if blocks[q + 1] - blocks[q] <= 1:
            continue
        lo, hi = offsets[q] - offsets[first], offsets[q + 1] - offsets[first]
        c, slope, r, p = gains[offsets[q] : offsets[q + 1]], g[lo:hi], room[0][: hi - lo], room[1][: hi - lo]
        _z, E, bands, seen, far = _exponentials(t[lo:hi], params[0], room)
        known = _known(c)
        _ranks(E, bands, far, seen, known, r)
        total = _discounted(r, c, known, params[1], cutoffs[q - first], p)
        values[q] = tops[q] - total if tops[q] > total else 0.0
        _slopes(E, bands, far, seen, known, p, slope)
        for i in range(hi - lo):
            slope[i] *= params[0]


@kernel
def smoothed_hinges(t, offsets, blocks, starts, gains, tops, cutoffs, params, room, first, last, values, g):
    """As ``sigmoids``; a kernel of its own, so that using one compiles nothing of the other."""
    for q in range(first, last):
        values[q] = 0.0
        if blocks[q + 1] - blocks[q] <= 1:
            continue
        lo, hi = offsets[q] - offsets[first], offsets[q + 1] - offsets[first]
        c, slope, r, p = gains[offsets[q] : offsets[q + 1]], g[lo:hi], room[0][: hi - lo], room[1][: hi - lo]
        z, E, bands, seen, far = _exponentials(t[lo:hi], params[0], room)
        known = _known(c)
        _hinged_ranks(z, E, bands, far, seen, starts[blocks[q] : blocks[q + 1] + 1], offsets[q], known, r)
        total = _discounted(r, c, known, params[1], cutoffs[q - first], p)
        values[q] = tops[q] - total if tops[q] > total else 0.0
        _hinged_slopes(E, bands, far, seen, starts[blocks[q] : blocks[q + 1] + 1], offsets[q], known, p, slope)
        for i in range(hi - lo):
            slope[i] *= params[0]


@helper
def _known(c):
    """How many documents have a gain; they come first."""
    known = len(c)
    while known > 0 and c[known - 1] <= 0.0:
        known -= 1
    return known


@kernel
def moving_cutoffs(every, t, offsets, blocks, starts, k, first, last, room, cutoffs):
    """The largest present rank among the k most relevant documents of each query, and at least k.

    Of equal scores lower grades come first. Where the k-th is one of several of its grade, all of them count if
    ``every``, unless it is the lowest of the query; else the best-ranked count, so that there are k.
    """
    base = offsets[first]
    for q in range(first, last):
        at = offsets[q]
        own = t[at - base : offsets[q + 1] - base]
        worst = k
        for b in range(blocks[q], blocks[q + 1]):
            begin, end = starts[b] - at, starts[b + 1] - at
            wanted = k - begin if k < end else end - begin
            if wanted <= 0 or (every and b == blocks[q + 1] - 1):
                break
            if every:
                wanted = end - begin
            # The last of these documents: those above it, lower grades beside it, and its equals that come before it.
            for j in range(begin, end):
                room[j - begin] = own[j]
            score = _select(room, end - begin, end - begin - wanted)
            better, beside, mine = 0, 0, 0
            for j in range(len(own)):
                better += own[j] > score
            for j in range(end, len(own)):
                beside += own[j] == score
            for j in range(begin, end):
                mine += own[j] > score
            place = better + beside + wanted - mine
            worst = place if place > worst else worst
        cutoffs[q - first] = worst


@helper
def _select(values, n, k):
    """The k-th smallest of the first n values, from 0; they are reordered."""
    low, high = 0, n - 1
    while low < high:
        pivot, i, j = values[(low + high) // 2], low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            break
    return values[k]


@helper
def _exponentials(t, alpha, room):
    """z = α(t − middle), E = exp(z), the bands, E as seen from a band, and whether z goes too far for a single band."""
    z, E, bands, seen = room[2][: len(t)], room[3][: len(t)], room[4][: len(t)], room[5][: len(t)]
    low = high = t[0]
    for i in range(1, len(t)):
        low = t[i] if t[i] < low else low
        high = t[i] if t[i] > high else high
    middle = 0.5 * (low + high)
    far = alpha * (high - low) > RANGE
    for i in range(len(t)):
        z[i] = alpha * (t[i] - middle)
        bands[i] = math.floor(z[i] / BAND + 0.5) if far else 0.0
        E[i] = math.exp(z[i] - BAND * bands[i])
    return z, E, bands, seen if far else E, far


@helper(fastmath=LOOSE)
def _see(i, E, bands, seen):
    """E as document i sees it: in its own band."""
    own = bands[i]
    for j in range(len(E)):
        d = bands[j] - own
        up = (UP if d > 0.5 else 1.0) * (UP if d > 1.5 else 1.0)
        down = (DOWN if d < -0.5 else 1.0) * (DOWN if d < -1.5 else 1.0)
        seen[j] = E[j] * up * down


@helper
def _discounted(r, c, known, beta, cutoff, p):
    """Σ c_i F(r_i) with F(r) = G_β(r − cutoff)/log2(1 + r); −c_i F'(r_i) goes to p."""
    total = 0.0
    for i in range(known, len(p)):
        p[i] = 0.0
    for i in range(known):
        log = math.log1p(r[i])
        discount = math.log(2.0) / log
        x = beta * (r[i] - cutoff)
        small = math.exp(-abs(x))
        inside = (small if x > 0.0 else 1.0) / (1.0 + small)
        outside = (1.0 if x > 0.0 else small) / (1.0 + small)
        total += c[i] * inside * discount
        p[i] = c[i] * inside * discount * (beta * outside + 1.0 / ((1.0 + r[i]) * log))
    return total


# -- sigmoids for every pair -------------------------------------------------------------------------------------------


@helper
def _ranks(E, bands, far, seen, known, r):
    for i in range(known):
        if far:
            _see(i, E, bands, seen)
        r[i] = 0.5 + _shares(E[i], seen)  # a document's share against itself is ½


@helper
def _slopes(E, bands, far, seen, known, p, g):
    beside, below, others, push = seen[:known], seen[known:], p[:known], g[known:]
    for i in range(known):
        if far:
            _see(i, E, bands, seen)
        g[i] += _share_slopes(E[i], p[i], beside, others) - _lone_slopes(E[i], p[i], below, push)


@helper(fastmath=LOOSE, error_model="numpy")
def _shares(Ei, E):
    total = 0.0
    for j in range(len(E)):
        total += E[j] / (Ei + E[j])
    return total


@helper(fastmath=LOOSE, error_model="numpy")
def _share_slopes(Ei, pi, E, p):
    """Of the loss by z_i, through the ranks of i and of these documents."""
    total = 0.0
    for j in range(len(E)):
        part = 1.0 / (Ei + E[j])
        total += (p[j] - pi) * ((E[j] * part) * (Ei * part))  # not G(1 − G), which rounds to 0 where G is nearly 1
    return total


@helper(fastmath=LOOSE, error_model="numpy")
def _lone_slopes(Ei, pi, E, g):
    """Where only i has a gain: minus the slope by z_i; those by the others' z are added to g."""
    total = 0.0
    for j in range(len(E)):
        part = 1.0 / (Ei + E[j])
        slope = pi * ((E[j] * part) * (Ei * part))
        total += slope
        g[j] += slope
    return total


# -- smoothed hinges for pairs of different grades ---------------------------------------------------------------------


@helper
def _hinged_ranks(z, E, bands, far, seen, cuts, at, known, r):
    for i in range(len(r)):
        r[i] = 0.5
    for b in range(len(cuts) - 1):
        begin, end = cuts[b] - at, cuts[b + 1] - at
        rest = known if known > end else end
        beside, below, last = seen[begin:end], seen[end:rest], seen[rest:]
        below_z, last_z, push = z[end:rest], z[rest:], r[end:rest]
        for i in range(begin, end if end < known else known):
            if far:
                _see(i, E, bands, seen)
            total = _shares(E[i], beside) + _hinges_of_both(E[i], z[i], below, below_z, push)
            r[i] += total + _hinges(E[i], z[i], last, last_z)


@helper
def _hinged_slopes(E, bands, far, seen, cuts, at, known, p, g):
    for b in range(len(cuts) - 1):
        begin, end = cuts[b] - at, cuts[b + 1] - at
        beside, below, equals, others, push = seen[begin:end], seen[end:], p[begin:end], p[end:], g[end:]
        for i in range(begin, end if end < known else known):
            if far:
                _see(i, E, bands, seen)
            g[i] += _share_slopes(E[i], p[i], beside, equals) - _hinge_slopes(E[i], p[i], below, others, push)


@helper(fastmath=LOOSE, error_model="numpy")
def _hinges(Ei, zi, E, z):
    total = 0.0
    for j in range(len(E)):
        share, x = E[j] / (Ei + E[j]), z[j] - zi
        total += share if x < 0.0 else 0.5 + 0.25 * x
    return total


@helper(fastmath=LOOSE, error_model="numpy")
def _hinges_of_both(Ei, zi, E, z, r):
    total = 0.0
    for j in range(len(E)):
        share, x = E[j] / (Ei + E[j]), z[j] - zi
        hinge = share if x < 0.0 else 0.5 + 0.25 * x
        total += hinge
        r[j] += 1.0 + hinge
    return total


@helper(fastmath=LOOSE, error_model="numpy")
def _hinge_slopes(Ei, pi, E, p, g):
    """Minus the slope by z_i; those by the z of these documents, of lower grades, are added to g."""
    total = 0.0
    for j in range(len(E)):
        share = E[j] / (Ei + E[j])
        part = share if share < 0.5 else 0.5
        slope = (pi + p[j]) * (part * (1.0 - part))
        total += slope
        g[j] += slope
    return total
