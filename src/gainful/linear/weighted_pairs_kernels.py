"""Compiled loops over the pairs of one query at a time: importance weights, drawing of pairs.

The rows of query q, best grade first, are ``offsets[q] + order[offsets[q]:offsets[q + 1]]``. ``below[p]`` says at which
position of that order the next lower grade begins (counted from the query's first), so the documents that position p
beats are the positions from ``below[p]`` on. ``gains`` are (2^g − 1)/N_q by row, ``D`` discounts at the current ranks.
"""
# mypy: ignore-errors

from __future__ import annotations

from gainful.compute.compiled import kernel
from gainful.compute.kernels import sort_falling


@kernel
def rank_discounts(scores, first, last, offsets, order, below, discounts, own, ranks, spare, D):
    """D[i] = discounts[rank of i − 1], ranks by decreasing score within the query, regardless of row order.

    Among equal scores the lower grade comes first; documents equal in score and grade share the mean of their
    discounts. Workspaces as long as the longest query: ``own`` scores by place, ``ranks`` the places by rank,
    ``spare``.
    """
    for q in range(first, last):
        lo = offsets[q]
        n = offsets[q + 1] - lo
        for p in range(n):
            own[p] = scores[lo + order[lo + p]]
            ranks[p] = n - 1 - p  # the worst grade first, so that a stable sort keeps it there
        sort_falling(own, 0, ranks, 0, n, spare)
        begin, total = 0, 0.0
        for r in range(n):
            total += discounts[r]
            p, after = ranks[r], r + 1
            if after == n or own[ranks[after]] != own[p] or below[lo + ranks[after]] != below[lo + p]:
                total /= after - begin
                while begin < after:
                    D[lo + order[lo + ranks[begin]]] = total
                    begin += 1
                total = 0.0


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
    """out[q] = Σ of w_ij over the pairs ranked in the wrong order: the better one has the smaller discount."""
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
    """All pairs of positive weight with ω_q w_ij, query by query in the order given; returns how many."""
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

    A pair is drawn once for each mark in its interval, and its weight is that count: the expectation is ω_q w_ij over
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
def sparse_varies(data, indices, indptr, first, last, offsets, shares, rounding, work, out):
    """out[j] = 1 where feature j of a CSR matrix varies within one of the queries that count.

    ``work`` has a row of zeros for the number of values stored in the current query, then one for the smallest and one
    for the largest of them. Only the columns stored in a query are visited.
    """
    for q in range(first, last):
        if shares[q] == 0.0:
            continue
        n = offsets[q + 1] - offsets[q]
        for e in range(indptr[offsets[q]], indptr[offsets[q + 1]]):
            j, x = indices[e], data[e]
            if work[0, j] == 0.0 or x < work[1, j]:
                work[1, j] = x
            if work[0, j] == 0.0 or x > work[2, j]:
                work[2, j] = x
            work[0, j] += 1.0
        for e in range(indptr[offsets[q]], indptr[offsets[q + 1]]):
            j = indices[e]
            if work[0, j] > 0.0:
                low, high = work[1, j], work[2, j]
                if work[0, j] < n:  # values not stored are 0
                    low, high = low if low < 0.0 else 0.0, high if high > 0.0 else 0.0
                size = high if high > -low else -low
                if high - low > rounding * size:
                    out[j] = 1
                work[0, j] = 0.0
