"""Compiled loss-augmented ranking for average precision. Loaded on the first inference: it imports the compiler.

One query, R relevant documents with scores s_1 ≥ … ≥ s_R, N others with t_1 ≥ … ≥ t_N. Both kinds stand in score order
in an optimal ranking, so a ranking is the number a_j of relevant documents before each other one, non-decreasing in j.
Moving the j-th other document before the i-th relevant one changes the objective by

    gain_j(i) = i / (R (i + j − 1)(i + j)) − 2 (s_i − t_j) / (R N),

whatever the rest does, as Σ_i i/(i + n_i) telescopes over the n_i others before the i-th relevant document. So a_j
maximises Σ_{i > a} gain_j(i) by itself; gain_j(i) falls with j, hence the a_j come out in order, and a middle j halves
the range of those before and after it: O((R + N) log N) after sorting.

The compiler's cache looks at this file only, so every helper of an entry point lives here.
"""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from numba import njit

HELPER = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # called by kernels only
LARGEST = 1e300  # scores beyond it would overflow


@njit(**HELPER)
def _sort_block(s, order, a, b, rows, spare):
    """The rows order[a:b] into ``rows``, best-scored first; stable."""
    n = b - a
    run = 16
    for start in range(0, n, run):
        for k in range(start, min(start + run, n)):
            j = k
            i = order[a + j]
            x = s[i]
            while j > start and x > s[rows[j - 1]]:
                rows[j] = rows[j - 1]
                j -= 1
            rows[j] = i
    while run < n:
        for start in range(0, n, 2 * run):
            middle, stop = min(start + run, n), min(start + 2 * run, n)
            for k in range(start, middle):
                spare[k] = rows[k]
            left, right, to = start, middle, start
            while left < middle and right < stop:
                if s[rows[right]] > s[spare[left]]:
                    rows[to] = rows[right]
                    right += 1
                else:
                    rows[to] = spare[left]
                    left += 1
                to += 1
            while left < middle:
                rows[to] = spare[left]
                left += 1
                to += 1
        run *= 2


@njit(**HELPER)
def _before(s, rows, R, N, before, stack):
    """before[j] = how many relevant documents stand before the j-th other one in the loss-augmented ranking."""
    depth = 1
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, N, 0, R
    while depth > 0:
        depth -= 1
        first, last, least, most = stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3]
        j = (first + last) // 2
        t = s[rows[R + j]]
        total, best, where = 0.0, 0.0, most
        for i in range(most, least, -1):
            total += i / ((i + j) * (i + j + 1.0)) - 2.0 * (s[rows[i - 1]] - t) / N
            if total > best:
                best, where = total, i - 1
        before[j] = where
        if j + 1 < last:
            stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = j + 1, last, where, most
            depth += 1
        if first < j:
            stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = first, j, least, where
            depth += 1


@njit(**HELPER)
def _is_finite(s):
    size = 0.0
    for i in range(len(s)):
        size += abs(s[i])
    return size < LARGEST


@njit(**HELPER)
def _prepare(s, order, starts, b0, rows, spare, before, stack):
    """Sort both kinds and find ``before``; R, or −1 where a score is not finite."""
    if not _is_finite(s):
        return -1
    R, n = starts[b0 + 1] - starts[b0], len(s)
    _sort_block(s, order, starts[b0], starts[b0 + 1], rows, spare)
    _sort_block(s, order, starts[b0 + 1], starts[b0 + 2], rows[R:], spare)
    _before(s, rows, R, n - R, before, stack)
    return R


@njit(**HELPER)
def _longest(offsets, first, last):
    longest = 1
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest


@njit(cache=True, nogil=True, no_cfunc_wrapper=True)
def violations(scores, first, last, offsets, order, blocks, starts, active, tight, xi, c):
    """ξ_q = max_y [Δ(y) + Ψ(y)·s] − (Ψ(target)·s, or max_y Ψ(y)·s for the tight loss) and its gradient by score."""
    longest = _longest(offsets, first, last)
    rows, spare = np.empty(longest, np.int32), np.empty(longest, np.int32)
    before, stack = np.empty(longest, np.int64), np.empty((2 * 64, 4), np.int64)
    base = offsets[first]
    for q in range(first, last):
        lo, hi = offsets[q] - base, offsets[q + 1] - base
        s, c_q = scores[lo:hi], c[lo:hi]
        xi[q] = 0.0
        for i in range(hi - lo):
            c_q[i] = 0.0
        if not active[q]:
            continue
        R = _prepare(s, order, starts, blocks[q], rows, spare, before, stack)
        if R < 0:
            xi[q] = np.nan
            continue
        N = hi - lo - R
        unit = 2.0 / (float(R) * N)
        loss, j = 0.0, 0
        for i in range(R):  # j = others before the relevant document i
            while j < N and before[j] <= i:
                j += 1
            loss += j / (i + 1.0 + j)
            c_q[rows[i]] = -unit * j
        for j in range(N):
            c_q[rows[R + j]] = unit * (R - before[j])
        if tight:
            _take_by_score(s, rows, R, N, unit, c_q)
        value = loss / R
        middle = s[rows[0]]  # the coefficients sum to 0
        for i in range(hi - lo):
            value += c_q[i] * (s[i] - middle)
        xi[q] = max(0.0, value)


@njit(**HELPER)
def _take_by_score(s, rows, R, N, unit, c):
    """Take the coefficients of the ranking by score, tied scores in row order, from ``c``."""
    i = 0
    for j in range(N):
        other = rows[R + j]
        while i < R and (s[rows[i]] > s[other] or (s[rows[i]] == s[other] and rows[i] < other)):
            c[rows[i]] += unit * j
            i += 1
        c[other] -= unit * (R - i)
    while i < R:
        c[rows[i]] += unit * N
        i += 1


@njit(cache=True, nogil=True, no_cfunc_wrapper=True)
def rankings(scores, first, last, offsets, order, blocks, starts, active, ranks):
    """The rank of each row in the loss-augmented ranking, from 1."""
    longest = _longest(offsets, first, last)
    rows, spare = np.empty(longest, np.int32), np.empty(longest, np.int32)
    before, stack = np.empty(longest, np.int64), np.empty((2 * 64, 4), np.int64)
    base = offsets[first]
    for q in range(first, last):
        lo, hi = offsets[q] - base, offsets[q + 1] - base
        ranks[lo:hi] = 0
        if not active[q]:
            continue
        R = _prepare(scores[lo:hi], order, starts, blocks[q], rows, spare, before, stack)
        if R < 0:
            continue
        i = 0
        for j in range(hi - lo - R):
            while i < before[j]:
                ranks[lo + rows[i]] = i + j + 1
                i += 1
            ranks[lo + rows[R + j]] = i + j + 1
        while i < R:
            ranks[lo + rows[i]] = hi - lo - R + i + 1
            i += 1
