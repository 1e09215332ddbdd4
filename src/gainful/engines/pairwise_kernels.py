"""Compiled query losses over pairs of documents with different grades, from scores.

A query's documents stand best grade first. With *levels* t_i = s_i − g_i, the loss [(g_j − g_k) − (s_j − s_k)]_+ of a
pair g_j > g_k is [t_k − t_j]_+: a pair costs what its worse document rises above its better one. ``preferred[p]`` is
the number of documents with a higher grade than the one at place p, which are exactly those at the places before it.
"""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from numba import njit

LOOSE = {"reassoc", "contract", "arcp", "nsz"}  # sums may be reordered; NaN and infinity keep their meaning
SORTED_FROM = 2000  # documents from which sorting is quicker than all pairs, which are looped over many at a time
AVERAGE, MAXIMUM, MAX_AVERAGE = 0, 1, 2


@njit(cache=True, nogil=True)
def fill_losses(kind, scores, grades, offsets, order, preferred, first, last, losses, c):
    """The loss of each query from ``first`` to ``last`` and its gradient by score; scores and c begin at ``first``."""
    base, longest = offsets[first], 0
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    own_t, own_c, tree = np.empty(longest), np.empty(longest), np.empty((2, longest + 1))
    for q in range(first, last):
        lo, n = offsets[q], offsets[q + 1] - offsets[q]
        t, out, before = own_t[:n], own_c[:n], preferred[lo : lo + n]
        for p in range(n):
            i = lo + order[lo + p]
            t[p] = scores[i - base] - grades[i]
        out[:] = 0.0
        if before[n - 1] == 0:
            losses[q] = 0.0
        elif kind == AVERAGE:
            losses[q] = average(t, before, tree, out)
        elif kind == MAXIMUM:
            losses[q] = maximum(t, before, out)
        else:
            losses[q] = max_average(t, before, tree, out)
        for p in range(n):
            c[lo + order[lo + p] - base] = out[p]


# -- the mean over all pairs -------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def average(t, preferred, tree, c):
    """Σ over pairs [t_k − t_j]_+ / |R|."""
    n, pairs = len(t), 0.0
    for p in range(n):
        pairs += preferred[p]
    if n < SORTED_FROM:
        count_pairs(t, preferred, c)
    else:
        count_sorted(t, preferred, tree[0], c)
    value, origin = 0.0, t[0]
    for p in range(n):  # the counts sum to 0, so any origin will do; a near one keeps the digits
        value += c[p] * (t[p] - origin)
        c[p] /= pairs
    return max(0.0, value / pairs)


@njit(cache=True, nogil=True, fastmath=LOOSE)
def count_pairs(t, preferred, c):
    """c_i += pairs in which i stands too high − pairs in which it stands too low, over all pairs."""
    for k in range(len(t)):
        mine, total = t[k], 0.0
        for j in range(preferred[k]):
            on = 1.0 if mine > t[j] else 0.0
            c[j] -= on
            total += on
        c[k] += total


@njit(cache=True, nogil=True)
def count_sorted(t, preferred, tree, c):
    """The same by one walk up the levels, with a tree of counts over the places."""
    n = len(t)
    tree[:] = 0.0
    for seen, p in enumerate(np.argsort(t, kind="mergesort")):
        block = preferred[p]
        above = _sum_before(tree, block)  # of better grade and lower level: each is a violated pair
        end = _block_end(preferred, p)
        lower_seen = seen - _sum_before(tree, end)
        c[p] = above - (n - end - lower_seen)
        _add_at(tree, block, 1.0)


@njit(cache=True, nogil=True)
def _block_end(preferred, p):
    """The first place after p with a lower grade, or n: places are grouped, so bisection finds it."""
    lo, hi = p + 1, len(preferred)
    while lo < hi:
        middle = (lo + hi) // 2
        if preferred[middle] > preferred[p]:
            hi = middle
        else:
            lo = middle + 1
    return lo


@njit(cache=True, nogil=True)
def _sum_before(tree, place):
    """Σ over the places before ``place`` of a Fenwick tree."""
    total = 0.0
    while place > 0:
        total += tree[place]
        place &= place - 1
    return total


@njit(cache=True, nogil=True)
def _add_at(tree, place, value):
    place += 1
    while place < len(tree):
        tree[place] += value
        place += place & -place


# -- the worst pair ----------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def maximum(t, preferred, c):
    """max over pairs [t_k − t_j]_+; the gradient is shared among documents that tie exactly."""
    n, lowest, best, block, floor = len(t), np.inf, 0.0, -1, 0.0
    done = 0
    for k in range(n):
        while done < preferred[k]:
            lowest = min(lowest, t[done])
            done += 1
        if t[k] - lowest > best:
            best, block, floor = t[k] - lowest, k, lowest
    if block < 0:
        return 0.0
    _share(t, t[block], preferred[block], _block_end(preferred, block), 1.0, c)
    _share(t, floor, 0, preferred[block], -1.0, c)
    return best


@njit(cache=True, nogil=True)
def _share(t, level, start, stop, value, c):
    count = 0
    for p in range(start, stop):
        count += t[p] == level
    for p in range(start, stop):
        if t[p] == level:
            c[p] += value / count


# -- the worst mean over the documents preferred to one ------------------------------------------------------------


@njit(cache=True, nogil=True)
def max_average(t, preferred, tree, c):
    """max over k of the mean of [t_k − t_j]_+ over the documents j preferred to k."""
    k = _worst_of_pairs(t, preferred) if len(t) < SORTED_FROM else _worst_sorted(t, preferred, tree)
    if k < 0:
        return 0.0
    n_preferred, level = preferred[k], t[k]
    total, count = 0.0, 0
    for j in range(n_preferred):
        if level > t[j]:
            total += level - t[j]
            count += 1
            c[j] = -1.0 / n_preferred
    _share(t, level, n_preferred, _block_end(preferred, k), count / n_preferred, c)
    return total / n_preferred


@njit(cache=True, nogil=True, fastmath=LOOSE)
def _worst_of_pairs(t, preferred):
    worst, best = -1, 0.0
    for k in range(len(t)):
        mine, total = t[k], 0.0
        for j in range(preferred[k]):
            total += max(mine - t[j], 0.0)
        if total > best * preferred[k]:
            worst, best = k, total / preferred[k]
    return worst


@njit(cache=True, nogil=True)
def _worst_sorted(t, preferred, tree):
    counts, sums = tree[0], tree[1]
    counts[:] = 0.0
    sums[:] = 0.0
    worst, best = -1, 0.0
    by_level = np.argsort(t, kind="mergesort")
    origin = t[by_level[0]]
    for p in by_level:
        block, level = preferred[p], t[p] - origin
        total = _sum_before(counts, block) * level - _sum_before(sums, block)
        if total > best * block:
            worst, best = p, total / block
        _add_at(counts, block, 1.0)
        _add_at(sums, block, level)
    return worst
