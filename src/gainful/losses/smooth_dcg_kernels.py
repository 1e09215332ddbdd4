"""Compiled stages of smoothed DCG, for a run of queries.

As in ``pairwise_kernels``, documents are sorted by decreasing grade and inner loops use unsigned indices. The
documents with a gain therefore come first, up to ``known[q]``: the ranks of the others are never needed, nor any pair
of two of them. A call processes the queries ``first`` to ``last − 1``; arrays over documents begin at the first
document of these, ``far`` at query ``first``.

With z = α·score and E = exp(z), one division per pair gives G_α(s_i − s_j) = E_j/(E_i + E_j). With m = min(G, ½) the
smoothed hinge is A = m + ¼[z_j − z_i]₊ and its slope by z_i is −m(1 − m), on both sides of 0, so no pair needs a
branch. For g_i > g_j the pair adds A to the rank of i and 1 + A to that of j: one evaluation serves both.

``h``, if not None, collects the sizes of the slopes of all pairs of a document: times α, a curvature. None is known at
compile time, so what is not asked for is not compiled.

E is relative to the middle of the query's scores. Where they spread too far for that, z is cut into ``bands`` and a row
of pairs measures E relative to the band of its own document: documents two bands away compare as 0 or 1, to about
1e-55. ``seen`` holds these values; in the other queries it holds E.
"""
# mypy: ignore-errors

from __future__ import annotations

import math

from numpy import uint64

from gainful.compute.compiled import LOOSE, helper, kernel

BAND = 128.0
UP, DOWN = math.exp(BAND), math.exp(-BAND)


@helper(fastmath=LOOSE)
def _see(i, begin, end, E, bands, seen):
    """E from ``begin`` to ``end`` relative to the band of document i."""
    own = bands[i]
    for j in range(uint64(begin), uint64(end)):
        d = bands[j] - own
        up = (UP if d > 0.5 else 1.0) * (UP if d > 1.5 else 1.0)
        down = (DOWN if d < -0.5 else 1.0) * (DOWN if d < -1.5 else 1.0)
        seen[j] = E[j] * up * down


# -- sigmoids for every pair -------------------------------------------------------------------------------------------


@kernel(fastmath=LOOSE, error_model="numpy")
def sigmoid_ranks(E, bands, seen, far, offsets, known, first, last, r):
    """The ranks ½ + Σ_j G(s_i − s_j) of the documents with a gain; a document's share against itself is ½."""
    base = offsets[first]
    for q in range(first, last):
        lo, end = offsets[q] - base, offsets[q + 1] - base
        for i in range(lo, known[q] - base):
            if far[q - first]:
                _see(i, lo, end, E, bands, seen)
            e, total = E[i], 0.5
            for j in range(uint64(lo), uint64(end)):
                total += seen[j] / (e + seen[j])
            r[i] = total


@kernel(fastmath=LOOSE, error_model="numpy")
def sigmoid_slopes(E, bands, seen, far, offsets, known, p, first, last, g, h):
    """Adds to ``g`` the slope by z through all ranks, where ``p`` is minus the slope by each rank."""
    base = offsets[first]
    for q in range(first, last):
        lo, rest, end = offsets[q] - base, known[q] - base, offsets[q + 1] - base
        for i in range(lo, rest):
            if far[q - first]:
                _see(i, lo, end, E, bands, seen)
            e, pi, total, size = E[i], p[i], 0.0, 0.0
            for j in range(uint64(lo), uint64(rest)):
                part = 1.0 / (e + seen[j])
                slope = (p[j] - pi) * ((seen[j] * part) * (e * part))  # G(1 − G) would round to 0 where G is nearly 1
                total += slope
                if h is not None:
                    size += abs(slope)
            for j in range(uint64(rest), uint64(end)):
                part = 1.0 / (e + seen[j])
                slope = pi * ((seen[j] * part) * (e * part))
                total -= slope
                g[j] += slope
                if h is not None:
                    size += slope
                    h[j] += slope
            g[i] += total
            if h is not None:
                h[i] += size


# -- smoothed hinges for pairs of different grades ---------------------------------------------------------------------


@kernel(fastmath=LOOSE, error_model="numpy")
def hinged_ranks(z, E, bands, seen, far, offsets, blocks, starts, known, first, last, r):
    """The ranks of the documents with a gain; ``r`` starts at ½."""
    base = offsets[first]
    for q in range(first, last):
        lo, rest, end = offsets[q] - base, known[q] - base, offsets[q + 1] - base
        for b in range(blocks[q], blocks[q + 1]):
            begin, below = starts[b] - base, starts[b + 1] - base
            ranked = below if below > rest else rest
            for i in range(begin, below if below < rest else rest):
                if far[q - first]:
                    _see(i, lo, end, E, bands, seen)
                own, e, total = z[i], E[i], 0.0
                for j in range(uint64(begin), uint64(below)):
                    total += seen[j] / (e + seen[j])
                for j in range(uint64(below), uint64(ranked)):
                    share, x = seen[j] / (e + seen[j]), z[j] - own
                    hinge = share if x < 0.0 else 0.5 + 0.25 * x
                    total += hinge
                    r[j] += 1.0 + hinge
                for j in range(uint64(ranked), uint64(end)):
                    share, x = seen[j] / (e + seen[j]), z[j] - own
                    total += share if x < 0.0 else 0.5 + 0.25 * x
                r[i] += total


@kernel(fastmath=LOOSE, error_model="numpy")
def hinged_slopes(E, bands, seen, far, offsets, blocks, starts, known, p, first, last, g, h):
    """As ``sigmoid_slopes``."""
    base = offsets[first]
    for q in range(first, last):
        lo, rest, end = offsets[q] - base, known[q] - base, offsets[q + 1] - base
        for b in range(blocks[q], blocks[q + 1]):
            begin, below = starts[b] - base, starts[b + 1] - base
            for i in range(begin, below if below < rest else rest):
                if far[q - first]:
                    _see(i, lo, end, E, bands, seen)
                e, pi, total, size = E[i], p[i], 0.0, 0.0
                for j in range(uint64(begin), uint64(below)):
                    part = 1.0 / (e + seen[j])
                    slope = (p[j] - pi) * ((seen[j] * part) * (e * part))
                    total += slope
                    if h is not None:
                        size += abs(slope)
                for j in range(uint64(below), uint64(end)):
                    share = seen[j] / (e + seen[j])
                    part = share if share < 0.5 else 0.5
                    slope = (pi + p[j]) * (part * (1.0 - part))
                    total -= slope
                    g[j] += slope
                    if h is not None:
                        size += slope
                        h[j] += slope
                g[i] += total
                if h is not None:
                    h[i] += size


# -- the cut-off -------------------------------------------------------------------------------------------------------


@kernel
def moving_cutoffs(every, t, offsets, blocks, starts, k, first, last, room, cutoffs):
    """The largest current rank among the k most relevant documents of each query, and at least k.

    Among equal scores lower grades come first. If the k-th is one of several with its grade, all of them count if
    ``every``, unless that is the lowest grade of the query; otherwise only the best-ranked count, so that there are k.
    """
    base = offsets[first]
    for q in range(first, last):
        at, lo, stop = offsets[q], offsets[q] - base, offsets[q + 1] - base
        worst = k
        for b in range(blocks[q], blocks[q + 1]):
            begin, end = starts[b] - at, starts[b + 1] - at
            wanted = k - begin if k < end else end - begin
            if wanted <= 0 or (every and b == blocks[q + 1] - 1):
                break
            if every:
                wanted = end - begin
            # Above the last of these: higher grades that score more, lower ones that score as much, and the others.
            for j in range(begin, end):
                room[j - begin] = t[lo + j]
            score = _select(room, end - begin, end - begin - wanted)
            place = wanted
            for j in range(uint64(lo), uint64(lo + begin)):
                place += t[j] > score
            for j in range(uint64(lo + end), uint64(stop)):
                place += t[j] >= score
            worst = place if place > worst else worst
        cutoffs[q - first] = worst


@helper
def _select(values, n, k):
    """The k-th smallest of the first n values, from 0; reorders them."""
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
