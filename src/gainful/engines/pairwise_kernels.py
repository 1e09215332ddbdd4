"""Compiled query losses over pairs of documents with different grades, from scores.

A query's documents stand best grade first. With *levels* t_i = s_i − g_i, the loss [(g_j − g_k) − (s_j − s_k)]_+ of a
pair g_j > g_k is [t_k − t_j]_+: a pair costs what its worse document rises above its better one. ``preferred[p]`` is
the number of documents with a higher grade than the one at place p, which are exactly those at the places before it.
``by_level`` are the places by rising level: NumPy sorts them, for long queries only.
"""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from numba import njit

HELPER = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # called by kernels only
LOOSE = {"reassoc", "contract", "arcp", "nsz"}  # sums may be reordered; NaN and infinity keep their meaning
SORTED_FROM = 2000  # documents from which sorting is quicker than all pairs, which are looped over many at a time


@njit(**HELPER)
def _longest(offsets, first, last):
    longest = 0
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest


@njit(**HELPER)
def _levels(scores, grades, order, lo, n, base, t, c):
    """The levels of a query's documents, best grade first, and a gradient of 0."""
    for p in range(n):
        i = lo + order[lo + p]
        t[p] = scores[i - base] - grades[i]
        c[p] = 0.0


@njit(**HELPER)
def _by_row(out, order, lo, n, base, c):
    for p in range(n):
        c[lo + order[lo + p] - base] = out[p]


# Each fills the loss of each query from ``first`` to ``last`` and its gradient by score. ``scores``, ``by_level`` and
# ``c`` begin at the rows of ``first``; ``by_level`` counts only where a query is long. One entry point for each loss:
# what is not used is not compiled.


@njit(cache=True, nogil=True, no_cfunc_wrapper=True)
def fill_average(scores, grades, offsets, order, preferred, by_level, first, last, losses, c):
    base, longest = offsets[first], _longest(offsets, first, last)
    t, out, tree = np.empty(longest), np.empty(longest), np.empty(longest + 1)
    for q in range(first, last):
        lo, n = offsets[q], offsets[q + 1] - offsets[q]
        before, at = preferred[lo : lo + n], lo - base
        _levels(scores, grades, order, lo, n, base, t, out)
        losses[q] = 0.0 if before[n - 1] == 0 else average(t[:n], before, by_level[at : at + n], tree[: n + 1], out[:n])
        _by_row(out, order, lo, n, base, c)


@njit(cache=True, nogil=True, no_cfunc_wrapper=True)
def fill_maximum(scores, grades, offsets, order, preferred, by_level, first, last, losses, c):
    base, longest = offsets[first], _longest(offsets, first, last)
    t, out = np.empty(longest), np.empty(longest)
    for q in range(first, last):
        lo, n = offsets[q], offsets[q + 1] - offsets[q]
        before = preferred[lo : lo + n]
        _levels(scores, grades, order, lo, n, base, t, out)
        losses[q] = 0.0 if before[n - 1] == 0 else maximum(t[:n], before, out[:n])
        _by_row(out, order, lo, n, base, c)


@njit(cache=True, nogil=True, no_cfunc_wrapper=True)
def fill_max_average(scores, grades, offsets, order, preferred, by_level, first, last, losses, c):
    base, longest = offsets[first], _longest(offsets, first, last)
    t, out, counts, sums = np.empty(longest), np.empty(longest), np.empty(longest + 1), np.empty(longest + 1)
    for q in range(first, last):
        lo, n = offsets[q], offsets[q + 1] - offsets[q]
        before, at = preferred[lo : lo + n], lo - base
        _levels(scores, grades, order, lo, n, base, t, out)
        losses[q] = 0.0
        if before[n - 1] > 0:
            losses[q] = max_average(t[:n], before, by_level[at : at + n], counts[: n + 1], sums[: n + 1], out[:n])
        _by_row(out, order, lo, n, base, c)


# -- the mean over all pairs -------------------------------------------------------------------------------------------


@njit(**HELPER)
def average(t, preferred, by_level, tree, c):
    """Σ over pairs [t_k − t_j]_+ / |R|."""
    n, pairs = len(t), 0.0
    for p in range(n):
        pairs += preferred[p]
    if n < SORTED_FROM:
        count_pairs(t, preferred, c)
    else:
        count_sorted(t, preferred, by_level, tree, c)
    value, origin = 0.0, t[0]
    for p in range(n):  # the counts sum to 0, so any origin will do; a near one keeps the digits
        value += c[p] * (t[p] - origin)
        c[p] /= pairs
    return max(0.0, value / pairs)


@njit(nogil=True, fastmath=LOOSE)
def count_pairs(t, preferred, c):
    """c_i += pairs in which i stands too high − pairs in which it stands too low, over all pairs."""
    for k in range(len(t)):
        mine, total = t[k], 0.0
        for j in range(preferred[k]):
            on = 1.0 if mine > t[j] else 0.0
            c[j] -= on
            total += on
        c[k] += total


@njit(nogil=True)
def count_sorted(t, preferred, by_level, tree, c):
    """The same by one walk up the levels, with a tree of counts over the places."""
    n = len(t)
    for p in range(n + 1):
        tree[p] = 0.0
    for seen in range(n):
        p = by_level[seen]
        block = preferred[p]
        above = _sum_before(tree, block)  # of better grade and lower level: each is a violated pair
        end = _block_end(preferred, p)
        lower_seen = seen - _sum_before(tree, end)
        c[p] = above - (n - end - lower_seen)
        _add_at(tree, block, 1.0)


@njit(**HELPER)
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


@njit(**HELPER)
def _sum_before(tree, place):
    """Σ over the places before ``place`` of a Fenwick tree."""
    total = 0.0
    while place > 0:
        total += tree[place]
        place &= place - 1
    return total


@njit(**HELPER)
def _add_at(tree, place, value):
    place += 1
    while place < len(tree):
        tree[place] += value
        place += place & -place


# -- the worst pair ----------------------------------------------------------------------------------------------------


@njit(**HELPER)
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


@njit(**HELPER)
def _share(t, level, start, stop, value, c):
    count = 0
    for p in range(start, stop):
        count += t[p] == level
    for p in range(start, stop):
        if t[p] == level:
            c[p] += value / count


# -- the worst mean over the documents preferred to one ------------------------------------------------------------


@njit(**HELPER)
def max_average(t, preferred, by_level, counts, sums, c):
    """max over k of the mean of [t_k − t_j]_+ over the documents j preferred to k."""
    k = worst_of_pairs(t, preferred) if len(t) < SORTED_FROM else worst_sorted(t, preferred, by_level, counts, sums)
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


@njit(nogil=True, fastmath=LOOSE)
def worst_of_pairs(t, preferred):
    worst, best = -1, 0.0
    for k in range(len(t)):
        mine, total = t[k], 0.0
        for j in range(preferred[k]):
            total += max(mine - t[j], 0.0)
        if total > best * preferred[k]:
            worst, best = k, total / preferred[k]
    return worst


@njit(nogil=True)
def worst_sorted(t, preferred, by_level, counts, sums):
    for p in range(len(t) + 1):
        counts[p] = 0.0
        sums[p] = 0.0
    worst, best = -1, 0.0
    origin = t[by_level[0]]
    for seen in range(len(t)):
        p = by_level[seen]
        block, level = preferred[p], t[p] - origin
        total = _sum_before(counts, block) * level - _sum_before(sums, block)
        if total > best * block:
            worst, best = p, total / block
        _add_at(counts, block, 1.0)
        _add_at(sums, block, level)
    return worst
