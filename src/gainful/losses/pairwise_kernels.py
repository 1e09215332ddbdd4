"""Compiled losses on pairs of documents with different grades, for a run of queries.

Conventions
-----------
Documents of a query are sorted by decreasing grade, so each beats a contiguous run: the documents of block b, which
begins at ``starts[b]``, beat all from ``starts[b + 1]`` to the end of the query. A call processes the queries ``first``
to ``last − 1``; entry 0 of ``t``, the scores, and of ``g`` and ``h``, gradient and curvature, is the first document of
query ``first``. ``g`` and ``h`` start at 0. One of ``values`` and ``h`` is None: a kernel fills values and gradient, or
gradient and curvature, and is compiled for each. ``share[q]`` is the weight of each pair of query q; hinges skip a
query where it is 0. ``own`` are the weights of the documents by position, or None; a pair counts by the product of its
two.

Inner loops use unsigned indices. A signed index might be negative, that is, count from the end, and the
compiler would then not vectorise the loop.

Each loss has its own kernels, so that using one does not compile the others.
"""
# mypy: ignore-errors

from __future__ import annotations

import math

from numpy import uint64

from gainful.compute.compiled import LOOSE, helper, kernel
from gainful.compute.kernels import WIDTH, round_up
from gainful.losses.tile_kernels import BEND, EXPONENTIAL, SCORE, SLOPE, TILE, enter, leave

SMALL = 1e-130  # times 2^−TILE, the least that the pairs of one more document multiply by, it does not underflow


# -- every pair --------------------------------------------------------------------------------------------------------


@kernel(fastmath=LOOSE)
def hinge(t, offsets, blocks, starts, share, own, first, last, values, g, h):
    """Σ share · [1 − (t_i − t_j)]₊."""
    base, shift = offsets[first], uint64(offsets[first])
    for q in range(first, last):
        value, unit, end = 0.0, share[q], offsets[q + 1] - base
        for b in range(blocks[q], blocks[q + 1] - 1 if unit > 0.0 else blocks[q]):
            below = starts[b + 1] - base
            for i in range(starts[b] - base, below):
                x, slope = 1.0 - t[i], 0.0
                mine = unit if own is None else unit * own[base + i]
                for j in range(uint64(below), uint64(end)):
                    short = x + t[j]
                    pair = mine if own is None else mine * own[shift + j]
                    pull = pair if short > 0.0 else 0.0
                    value += short * pull
                    slope += pull
                    g[j] += pull
                g[i] -= slope
        values[q] = value


@kernel(fastmath=LOOSE)
def squared_hinge(t, offsets, blocks, starts, share, own, first, last, values, g, h):
    """Σ share · [1 − (t_i − t_j)]₊²."""
    base, shift = offsets[first], uint64(offsets[first])
    for q in range(first, last):
        value, unit, end = 0.0, share[q], offsets[q + 1] - base
        for b in range(blocks[q], blocks[q + 1] - 1 if unit > 0.0 else blocks[q]):
            below = starts[b + 1] - base
            for i in range(starts[b] - base, below):
                x, slope, bend = 1.0 - t[i], 0.0, 0.0
                mine = 1.0 if own is None else own[base + i]
                for j in range(uint64(below), uint64(end)):
                    pair = mine if own is None else mine * own[shift + j]
                    short = x + t[j]
                    short = short if short > 0.0 else 0.0
                    pull = 2.0 * unit * pair * short
                    slope += pull
                    g[j] += pull
                    if h is None:
                        value += pair * short * short
                    else:
                        bow = 2.0 * unit * pair if short > 0.0 else 0.0
                        bend += bow
                        h[j] += bow
                g[i] -= slope
                if h is not None:
                    h[i] += bend
        if values is not None:
            values[q] = unit * value


@kernel(fastmath=LOOSE, error_model="numpy")
def logistic(t, offsets, blocks, starts, share, sigma, E, room, first, last, values, g, h):
    """Σ share · log(1 + exp(−σ(t_i − t_j))), for queries with exponentials ``E``: exp(σt) times a constant.

    One division per pair gives the slope q = E_j/(E_i + E_j), and the curvature σq(1 − q). log(1 + exp(−|σd|)) =
    −log max(q, 1 − q); many of these are the logarithm of a product. The worse documents come from tiles
    (``tile_kernels``).
    """
    base = offsets[first]
    for q in range(first, last):
        value, product, unit, end = 0.0, 1.0, share[q] * sigma, offsets[q + 1] - base
        for start in range(offsets[q] - base, end, TILE):
            stop = start + TILE if start + TILE < end else end
            enter(start, stop, 0, t, E, None, None, None, room)
            for b in range(blocks[q], blocks[q + 1] - 1):
                below = starts[b + 1] - base
                begin = below if below > start else start
                if begin >= stop:
                    break
                for i in range(starts[b] - base, below):
                    x, e, wrong, slope, bend = t[i], E[i], 0.0, 0.0, 0.0
                    to = uint64(WIDTH + begin - start)
                    for j in range(to, to + round_up(stop - begin)):
                        other, away = room[EXPONENTIAL + j], room[SCORE + j] - x
                        if h is None:
                            part = other / (e + other)
                            rest = 1.0 - part
                            product *= part if part > rest else rest
                            wrong += away if away > 0.0 else 0.0
                        else:
                            r = 1.0 / (e + other)
                            part = other * r
                            bow = unit * part * (e * r) * sigma
                            bend += bow
                            room[BEND + j] += bow
                        slope += unit * part
                        room[SLOPE + j] += unit * part
                    g[i] -= slope
                    if h is not None:
                        h[i] += bend
                    value += sigma * wrong
                    if product < SMALL:
                        value -= math.log(product)
                        product = 1.0
            leave(start, stop, SLOPE, room, g)
            if h is not None:
                leave(start, stop, BEND, room, h)
        if values is not None:
            values[q] = share[q] * (value - math.log(product))


@kernel
def logistic_far(t, offsets, blocks, starts, share, sigma, queries, first, values, g, h):
    """The same of ``queries`` whose scores are too far apart for exponentials; overwrites ``g`` and ``h``."""
    base = offsets[first]
    for q in queries:
        value, unit, end = 0.0, share[q] * sigma, offsets[q + 1] - base
        for i in range(offsets[q] - base, end):
            g[i] = 0.0
            if h is not None:
                h[i] = 0.0
        for b in range(blocks[q], blocks[q + 1] - 1):
            below = starts[b + 1] - base
            for i in range(starts[b] - base, below):
                for j in range(below, end):
                    x = sigma * (t[i] - t[j])
                    small = math.exp(-abs(x))
                    pull = unit * (small if x > 0.0 else 1.0) / (1.0 + small)
                    g[i] -= pull
                    g[j] += pull
                    if h is None:
                        value += math.log1p(small) + (0.0 if x > 0.0 else -x)
                    else:
                        bow = unit * sigma * small / ((1.0 + small) * (1.0 + small))
                        h[i] += bow
                        h[j] += bow
        if values is not None:
            values[q] = share[q] * value


# -- by sorting --------------------------------------------------------------------------------------------------------


@kernel
def sweep(t, own, falling, level, count, total, square, seen, number, short):
    """For each document i the number and sum of all 1 − (t_i − t_j) > 0 with level_j < level_i; Σ of their squares.

    ``falling``: documents by decreasing score. The four arrays of the tree start at 0. As the sweep goes down,
    documents enter the margin and never leave it. A node holds number, sum and sum of squares relative to the score
    ``seen``, and is updated to the current score when it is visited. So only numbers ≥ 0 are ever added, and no digits
    are lost however far apart the scores are. A pair counts by the product of the weights ``own`` unless they are None.
    """
    n, squares, come, levels = len(t), 0.0, 0, len(count) - 1
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
                weight = 1.0 if own is None else own[falling[come]]
                count[node] += weight
                total[node] += weight * excess
                square[node] += weight * excess * excess
                node += node & -node
            come += 1
        number[i], short[i], node = 0.0, 0.0, level[i] - 1
        weight = 1.0 if own is None else own[i]
        while node > 0:
            if count[node] > 0.0:
                _bring(count, total, square, seen, node, here)
                number[i] += weight * count[node]
                short[i] += weight * total[node]
                squares += weight * square[node]
            node -= node & -node
    return squares


@helper
def _bring(count, total, square, seen, node, here):
    if count[node] > 0.0:
        down = seen[node] - here
        square[node] += down * (2.0 * total[node] + count[node] * down)
        total[node] += count[node] * down
    seen[node] = here
