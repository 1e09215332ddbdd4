"""Compiled loops over the pairs of one query at a time: importance weights, modified Huber loss, drawing of pairs.

The rows of query q, best grade first, are ``offsets[q] + order[offsets[q]:offsets[q + 1]]``. ``below[p]`` says at which
position of that order the next lower grade begins (counted from the query's first), so the documents that position p
beats are the positions from ``below[p]`` on. ``gains`` are (2^g − 1)/N_q by row, ``D`` discounts at the present ranks.
"""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from gainful.compiled import LOOSE, helper, kernel


@kernel
def rank_discounts(scores, first, last, offsets, order, below, discounts, D):
    """D[i] = discounts[rank of i − 1], ranks by falling score within the query, whatever the order of the rows.

    Of equal scores the lower grade goes first; documents equal in score and grade share the mean of their discounts.
    """
    longest = _longest(offsets, first, last)
    own, ranked, spare = np.empty(longest), np.empty(longest, np.int64), np.empty(longest, np.int64)
    for q in range(first, last):
        lo, n = offsets[q], offsets[q + 1] - offsets[q]
        _gather(scores, lo, order, n, own)
        for p in range(n):  # the worst grade first, so that a stable sort leaves it there
            ranked[p] = n - 1 - p
        _sort_falling(own, ranked, spare, n)
        begin = 0
        while begin < n:
            end, total = begin, 0.0
            head = ranked[begin]
            while end < n and own[ranked[end]] == own[head] and below[lo + ranked[end]] == below[lo + head]:
                total += discounts[end]
                end += 1
            if end == begin:  # NaN equals nothing
                total, end = discounts[begin], begin + 1
            for r in range(begin, end):
                D[lo + order[lo + ranked[r]]] = total / (end - begin)
            begin = end


@helper
def _sort_falling(values, order, spare, n):
    """Sort ``order[:n]`` by falling value, stably: insertion in runs of 16, then merging."""
    run = 16
    for start in range(0, n, run):
        for place in range(start, start + run if start + run < n else n):
            row, to = order[place], place
            while to > start and values[row] > values[order[to - 1]]:
                order[to] = order[to - 1]
                to -= 1
            order[to] = row
    while run < n:
        for start in range(0, n - run, 2 * run):
            middle, stop = start + run, start + 2 * run if start + 2 * run < n else n
            for a in range(start, middle):
                spare[a] = order[a]
            a, b, to = start, middle, start
            while a < middle and b < stop:
                if values[order[b]] > values[spare[a]]:
                    order[to] = order[b]
                    b += 1
                else:
                    order[to] = spare[a]
                    a += 1
                to += 1
            while a < middle:
                order[to] = spare[a]
                a += 1
                to += 1
        run *= 2


@helper
def _longest(offsets, first, last):
    longest = 1
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest


@helper
def _gather(values, lo, order, n, out):
    for p in range(n):
        out[p] = values[lo + order[lo + p]]


@helper(fastmath=LOOSE)
def _row_loss(a, d, s, A, D, S, start, n):
    """Σ_j (a − A_j)|d − D_j| φ(s − S_j): with u = 1 − v and t = u cut to [0, 2], φ(v) = t(2u − t)."""
    total = 0.0
    for j in range(start, n):
        u = 1.0 - (s - S[j])
        t = u if u > 0.0 else 0.0
        t = t if t < 2.0 else 2.0
        total += (a - A[j]) * abs(d - D[j]) * t * (2.0 * u - t)
    return total


@helper(fastmath=LOOSE)
def _row_gradient(a, d, s, A, D, S, start, n, C):
    """The same, and φ'(v) = −2t: what row i gets is returned, what each row j gets is added to C."""
    total = 0.0
    pull = 0.0
    for j in range(start, n):
        u = 1.0 - (s - S[j])
        t = u if u > 0.0 else 0.0
        t = t if t < 2.0 else 2.0
        w = (a - A[j]) * abs(d - D[j])
        total += w * t * (2.0 * u - t)
        g = 2.0 * w * t
        C[j] += g
        pull += g
    return total, pull


@kernel
def losses(scores, D, first, last, offsets, order, below, gains, out):
    """out[q] = Σ over pairs of w_ij φ(s_i − s_j), the weights at the discounts given."""
    longest = _longest(offsets, first, last)
    A, E, S = np.empty(longest), np.empty(longest), np.empty(longest)
    for q in range(first, last):
        lo, n = offsets[q], offsets[q + 1] - offsets[q]
        out[q] = 0.0
        if below[lo] >= n:
            continue
        _gather(gains, lo, order, n, A)
        _gather(D, lo, order, n, E)
        _gather(scores, lo, order, n, S)
        total = 0.0
        for p in range(n):
            if below[lo + p] >= n:
                break
            total += _row_loss(A[p], E[p], S[p], A, E, S, below[lo + p], n)
        out[q] = total


@kernel
def gradients(scores, D, first, last, offsets, order, below, gains, shares, out, c):
    """As ``losses``; c[i] = ω_q · derivative of the query's loss by score i, with frozen weights."""
    longest = _longest(offsets, first, last)
    A, E, S, C = np.empty(longest), np.empty(longest), np.empty(longest), np.empty(longest)
    for q in range(first, last):
        lo, n = offsets[q], offsets[q + 1] - offsets[q]
        out[q] = 0.0
        for i in range(lo, lo + n):
            c[i] = 0.0
        if below[lo] >= n:
            continue
        _gather(gains, lo, order, n, A)
        _gather(D, lo, order, n, E)
        _gather(scores, lo, order, n, S)
        for p in range(n):
            C[p] = 0.0
        total = 0.0
        for p in range(n):
            if below[lo + p] >= n:
                break
            value, pull = _row_gradient(A[p], E[p], S[p], A, E, S, below[lo + p], n, C)
            total += value
            C[p] -= pull
        out[q] = total
        for p in range(n):
            c[lo + order[lo + p]] = shares[q] * C[p]


@kernel
def total_weights(D, first, last, offsets, order, below, gains, out):
    """out[q] = Σ over pairs of w_ij."""
    for q in range(first, last):
        lo, n = offsets[q], offsets[q + 1] - offsets[q]
        total = 0.0
        for p in range(n):
            i = lo + order[lo + p]
            for r in range(below[lo + p], n):
                j = lo + order[lo + r]
                total += (gains[i] - gains[j]) * abs(D[i] - D[j])
        out[q] = total


@kernel
def inverted_weights(D, first, last, offsets, order, below, gains, out):
    """out[q] = Σ of w_ij over the pairs ranked in the wrong order: the better one has the lesser discount."""
    for q in range(first, last):
        lo, n = offsets[q], offsets[q + 1] - offsets[q]
        total = 0.0
        for p in range(n):
            i = lo + order[lo + p]
            for r in range(below[lo + p], n):
                j = lo + order[lo + r]
                if D[i] < D[j]:
                    total += (gains[i] - gains[j]) * (D[j] - D[i])
        out[q] = total


@kernel
def every_pair(D, queries, offsets, order, below, gains, shares, better, worse, weight):
    """All pairs of a positive weight with ω_q w_ij, query by query in the order given; returns how many."""
    count = 0
    for q in queries:
        lo, n = offsets[q], offsets[q + 1] - offsets[q]
        for p in range(n):
            i = lo + order[lo + p]
            for r in range(below[lo + p], n):
                j = lo + order[lo + r]
                w = shares[q] * (gains[i] - gains[j]) * abs(D[i] - D[j])
                if w > 0.0:
                    better[count], worse[count], weight[count] = i, j, w
                    count += 1
    return count


@kernel
def drawn_pairs(D, queries, offsets, order, below, gains, shares, spacing, offset, better, worse, weight):
    """Systematic sampling: marks at offset, offset + spacing, … on the line of all weights; returns how many pairs.

    A pair is drawn once for each mark in its stretch, and its weight is that number: its expectation is ω_q w_ij over
    the spacing.
    """
    count, reached, mark = 0, 0.0, offset
    for q in queries:
        if shares[q] <= 0.0:
            continue
        lo, n = offsets[q], offsets[q + 1] - offsets[q]
        for p in range(n):
            i = lo + order[lo + p]
            for r in range(below[lo + p], n):
                j = lo + order[lo + r]
                reached += shares[q] * (gains[i] - gains[j]) * abs(D[i] - D[j])
                times = 0
                while mark < reached:
                    times += 1
                    mark += spacing
                if times > 0 and count < len(better):
                    better[count], worse[count], weight[count] = i, j, times
                    count += 1
    return count


@kernel
def dense_spread(X, first, last, offsets, shares, out):
    """out[j] += Σ_q ω_q · mean over the query of (x_ij − its mean)²; 0 where that is rounding."""
    d = X.shape[1]
    mean, square = np.empty(d), np.empty(d)
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        for j in range(d):
            mean[j] = square[j] = 0.0
        for i in range(lo, hi):
            for j in range(d):
                mean[j] += X[i, j]
        for j in range(d):
            mean[j] /= hi - lo
        for i in range(lo, hi):
            for j in range(d):
                away = X[i, j] - mean[j]
                square[j] += away * away
        for j in range(d):
            if square[j] > (hi - lo) * (8.0 * 2.3e-16 * mean[j]) ** 2:
                out[j] += shares[q] * square[j] / (hi - lo)


@kernel
def sparse_spread(data, indices, indptr, first, last, offsets, shares, out):
    """The same for CSR; only the columns that a query touches are visited."""
    d = len(out)
    mean, square, stored = np.zeros(d), np.zeros(d), np.zeros(d)
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        n = hi - lo
        for e in range(indptr[lo], indptr[hi]):
            mean[indices[e]] += data[e] / n
            stored[indices[e]] += 1.0
        for e in range(indptr[lo], indptr[hi]):
            away = data[e] - mean[indices[e]]
            square[indices[e]] += away * away
        for e in range(indptr[lo], indptr[hi]):
            j = indices[e]
            if stored[j] > 0.0:
                full = square[j] + (n - stored[j]) * mean[j] ** 2
                if full > n * (8.0 * 2.3e-16 * mean[j]) ** 2:
                    out[j] += shares[q] * full / n
                mean[j] = square[j] = stored[j] = 0.0
