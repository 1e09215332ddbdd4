"""Compiled query losses over pairs of documents with different grades, from scores.

The documents of a query are sorted best grade first. With *levels* t_i = s_i − g_i, the loss [(g_j − g_k) − (s_j −
s_k)]_+ of a pair g_j > g_k is [t_k − t_j]_+: a pair costs the amount by which its worse document rises above its better
one. ``preferred[lo + p]`` is the number of documents with a higher grade than the one at place p; these occupy the
first places.

A call fills the losses of the queries ``first`` to ``last − 1`` and their gradient by score; ``scores`` and ``c`` begin
at the rows of ``first``. ``t`` and ``g`` are workspaces as long as the longest query: levels and gradient by place.
Each loss has its own kernel, and a second one if it treats queries of at least ``long`` documents differently: only the
kernels in use are compiled.
"""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from gainful.compute.compiled import LOOSE, helper, kernel

SORTED_FROM = 2000  # with this many documents sorting becomes faster than the vectorised loop over all pairs


@helper
def _levels(scores, grades, order, lo, n, base, t, g):
    """The levels of a query's documents, best grade first, and a gradient of 0."""
    for p in range(n):
        i = lo + order[lo + p]
        t[p] = scores[i - base] - grades[i]
        g[p] = 0.0


@helper
def _by_row(g, order, lo, n, base, c):
    for p in range(n):
        c[lo + order[lo + p] - base] = g[p]


@helper
def _block_end(preferred, lo, n, p):
    """The first place after p with a lower grade, or n: places are grouped, so bisection finds it."""
    low, high = p + 1, n
    while low < high:
        middle = (low + high) // 2
        if preferred[lo + middle] > preferred[lo + p]:
            high = middle
        else:
            low = middle + 1
    return low


@helper
def _sum_before(tree, row, place):
    """Σ over the places before ``place`` of a Fenwick tree."""
    total = 0.0
    while place > 0:
        total += tree[row, place]
        place &= place - 1
    return total


@helper
def _add_at(tree, row, n, place, value):
    place += 1
    while place <= n:
        tree[row, place] += value
        place += place & -place


@helper
def _share(t, level, start, stop, value, g):
    """Divide ``value`` among the documents of this level."""
    count = 0
    for p in range(start, stop):
        count += 1 if t[p] == level else 0
    for p in range(start, stop):
        if t[p] == level:
            g[p] += value / count


# -- the mean over all pairs: Σ [t_k − t_j]_+ / |R| --------------------------------------------------------------------


@kernel(fastmath=LOOSE)
def fill_average(scores, grades, offsets, order, preferred, n_pairs, first, last, long, t, g, losses, c):
    base = offsets[first]
    for q in range(first, last):
        lo, n = offsets[q], offsets[q + 1] - offsets[q]
        if n >= long:
            continue
        _levels(scores, grades, order, lo, n, base, t, g)
        for k in range(n):
            mine, count = t[k], 0.0
            for j in range(preferred[lo + k]):
                on = 1.0 if mine > t[j] else 0.0
                g[j] -= on
                count += on
            g[k] += count
        losses[q] = _mean_of_counts(t, n, n_pairs[q], g)
        _by_row(g, order, lo, n, base, c)


@kernel
def fill_long_average(
    scores, grades, offsets, order, preferred, n_pairs, by_level, tree, first, last, long, t, g, losses, c
):  # fmt: skip
    """The same for long queries, in one pass over increasing levels with a tree of counts over the places.

    ``by_level`` are the places by increasing level, ``tree`` (1 or more, longest + 1) is a workspace.
    """
    base = offsets[first]
    for q in range(first, last):
        lo, n = offsets[q], offsets[q + 1] - offsets[q]
        if n < long:
            continue
        _levels(scores, grades, order, lo, n, base, t, g)
        for p in range(n + 1):
            tree[0, p] = 0.0
        for seen in range(n):
            p = by_level[lo - base + seen]
            block = preferred[lo + p]
            above = _sum_before(tree, 0, block)  # documents of better grade and lower level: each is a violated pair
            end = _block_end(preferred, lo, n, p)
            lower_seen = seen - _sum_before(tree, 0, end)
            g[p] = above - (n - end - lower_seen)
            _add_at(tree, 0, n, block, 1.0)
        losses[q] = _mean_of_counts(t, n, n_pairs[q], g)
        _by_row(g, order, lo, n, base, c)


@helper
def _mean_of_counts(t, n, pairs, g):
    """The loss, where g_i counts the pairs that rank i too high minus those that rank it too low; scales g."""
    if pairs == 0:
        return 0.0
    value, origin = 0.0, t[0]
    for p in range(n):  # the counts sum to 0, so any origin works; a nearby one preserves digits
        value += g[p] * (t[p] - origin)
        g[p] /= pairs
    return value / pairs if value > 0.0 else 0.0


# -- the worst pair ----------------------------------------------------------------------------------------------------


@kernel
def fill_maximum(scores, grades, offsets, order, preferred, first, last, t, g, losses, c):
    """max over pairs [t_k − t_j]_+; the gradient is divided among documents that tie exactly."""
    base = offsets[first]
    for q in range(first, last):
        lo, n = offsets[q], offsets[q + 1] - offsets[q]
        _levels(scores, grades, order, lo, n, base, t, g)
        lowest, best, block, floor, done = np.inf, 0.0, -1, 0.0, 0
        for k in range(n):
            while done < preferred[lo + k]:
                lowest = t[done] if t[done] < lowest else lowest
                done += 1
            if t[k] - lowest > best:
                best, block, floor = t[k] - lowest, k, lowest
        losses[q] = best
        if block >= 0:
            ahead = preferred[lo + block]
            _share(t, t[block], ahead, _block_end(preferred, lo, n, block), 1.0, g)
            _share(t, floor, 0, ahead, -1.0, g)
        _by_row(g, order, lo, n, base, c)


# -- the worst mean over the documents preferred to one: max over k of the mean of [t_k − t_j]_+ over these j ----------


@kernel(fastmath=LOOSE)
def fill_max_average(scores, grades, offsets, order, preferred, first, last, long, t, g, losses, c):
    base = offsets[first]
    for q in range(first, last):
        lo, n = offsets[q], offsets[q + 1] - offsets[q]
        if n >= long:
            continue
        _levels(scores, grades, order, lo, n, base, t, g)
        worst, best = -1, 0.0
        for k in range(n):
            mine, total, ahead = t[k], 0.0, preferred[lo + k]
            for j in range(ahead):
                over = mine - t[j]
                total += over if over > 0.0 else 0.0
            if total > best * ahead:
                worst, best = k, total / ahead
        losses[q] = _worst_mean(t, preferred, lo, n, worst, g)
        _by_row(g, order, lo, n, base, c)


@kernel
def fill_long_max_average(
    scores, grades, offsets, order, preferred, by_level, tree, first, last, long, t, g, losses, c
):
    """The same for long queries; ``by_level`` as above, ``tree`` (2, longest + 1)."""
    base = offsets[first]
    for q in range(first, last):
        lo, n = offsets[q], offsets[q + 1] - offsets[q]
        if n < long:
            continue
        _levels(scores, grades, order, lo, n, base, t, g)
        worst, best = -1, 0.0
        for p in range(n + 1):
            tree[0, p] = tree[1, p] = 0.0
        origin = t[by_level[lo - base]]
        for seen in range(n):
            p = by_level[lo - base + seen]
            block, level = preferred[lo + p], t[p] - origin
            total = _sum_before(tree, 0, block) * level - _sum_before(tree, 1, block)
            if total > best * block:
                worst, best = p, total / block
            _add_at(tree, 0, n, block, 1.0)
            _add_at(tree, 1, n, block, level)
        losses[q] = _worst_mean(t, preferred, lo, n, worst, g)
        _by_row(g, order, lo, n, base, c)


@helper
def _worst_mean(t, preferred, lo, n, k, g):
    """The mean of document k, and its gradient; 0 if k < 0."""
    if k < 0:
        return 0.0
    ahead, level = preferred[lo + k], t[k]
    total, count = 0.0, 0
    for j in range(ahead):
        if level > t[j]:
            total += level - t[j]
            count += 1
            g[j] = -1.0 / ahead
    _share(t, level, ahead, _block_end(preferred, lo, n, k), count / ahead, g)
    return total / ahead
