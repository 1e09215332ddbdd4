"""A measure along a line through the scores, for many steps at once. Loaded on use, because it imports the compiler.

The steps are taken in ascending order, so that the ranking at one is nearly that at the next. Ties follow the measure's
convention: blocks of equal scores are averaged, or documents stand by row, or the worse one first.
"""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from gainful.compiled import helper, kernel

AVERAGE, INPUT, WORST = 0, 1, 2
COUNTED = 200  # up to so many relevant documents, only they are sorted
SELECTED = 64  # up to this depth the first ranks are picked out of the query before they are sorted
GAINS, PRECISIONS = 0, 1  # Σ discount·gain, or Σ precision at the relevant documents


@helper
def _before(a, b, values, gains, ties):
    """Whether document a stands before b: a total order, so every way of sorting ends the same."""
    if values[a] != values[b]:
        return values[a] > values[b]
    if ties == WORST and gains[a] != gains[b]:
        return gains[a] < gains[b]
    return a < b


@helper
def _sort(order, n, values, gains, ties, spare):
    """Insertion while ``order`` is nearly sorted, merging where it is not."""
    budget = 8 * n + 64
    for p in range(1, n):
        a, to = order[p], p
        while to > 0 and _before(a, order[to - 1], values, gains, ties):
            order[to] = order[to - 1]
            to -= 1
        order[to] = a
        budget -= p - to
        if budget < 0:
            _merge_sort(order, n, values, gains, ties, spare)
            return


@helper
def _merge_sort(order, n, values, gains, ties, spare):
    run = 1
    while run < n:
        for start in range(0, n - run, 2 * run):
            middle, stop = start + run, min(start + 2 * run, n)
            if not _before(order[middle], order[middle - 1], values, gains, ties):
                continue
            for p in range(start, middle):
                spare[p] = order[p]
            a, b, to = start, middle, start
            while a < middle and b < stop:
                if _before(order[b], spare[a], values, gains, ties):
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
def _first_top(values, n, depth, top, best):
    """The positions of the ``depth`` largest values, in any order of ties, into ``top``."""
    for i in range(n):
        value = values[i]
        if i >= depth and value <= best[depth - 1]:
            continue
        to = min(i, depth - 1)
        while to > 0 and value > best[to - 1]:
            best[to], top[to] = best[to - 1], top[to - 1]
            to -= 1
        best[to], top[to] = value, i


@helper
def _contenders(values, n, depth, top, order):
    """Positions of all values that reach the least of those in ``top``, into ``order``; how many.

    ``top`` names ``depth`` documents, so the first ``depth`` ranks and all that tie with them are among these.
    """
    bound = values[top[0]]
    for p in range(1, depth):
        bound = min(bound, values[top[p]])
    count = 0
    for i in range(n):
        order[count] = i
        count += values[i] >= bound
    return count


@helper
def _discounted_gain(order, count, depth, values, gains, discounts, ties):
    total, a = 0.0, 0
    while a < depth:
        gain, b = gains[order[a]], a + 1
        if ties == AVERAGE:
            while b < count and values[order[b]] == values[order[a]]:
                gain += gains[order[b]]
                b += 1
        if b == a + 1:
            total += gain * discounts[a]
        else:
            weight = 0.0
            for r in range(a, min(b, depth)):
                weight += discounts[r]
            total += gain / (b - a) * weight
        a = b
    return total


@helper
def _block(a, t, upto, hits, before):
    """Expected Σ of precisions at the ``hits`` relevant ones of ``t`` tied documents that follow ``a`` ranks."""
    spread = (hits - 1.0) / (t - 1.0) if t > 1 else 0.0
    part = 0.0
    for j in range(1, upto + 1):
        part += (before + 1.0 + (j - 1) * spread) / (a + j)
    return part * hits / t


@helper
def _precisions(order, count, depth, values, gains, ties):
    total, before, a = 0.0, 0.0, 0
    while a < depth:
        hits, b = gains[order[a]], a + 1
        if ties == AVERAGE:
            while b < count and values[order[b]] == values[order[a]]:
                hits += gains[order[b]]
                b += 1
        if hits > 0.0:
            total += _block(a, b - a, min(b, depth) - a, hits, before)
            before += hits
        a = b
    return total


@helper
def _above(values, rows, first, last, value, row):
    """How many of the documents ``first:last`` stand above one with this value, ties in the order of rows."""
    above = 0
    for j in range(first, last):
        above += (values[j] > value) | ((values[j] == value) & (rows[j] < row))
    return above


@helper
def _precisions_by_counting(values, rows, n, relevant, depth):
    """The sum without sorting: the ``relevant`` documents come first, and each counts who stands above it."""
    total = 0.0
    for i in range(relevant):
        before = _above(values, rows, 0, relevant, values[i], rows[i])
        if before < depth:
            a = before + _above(values, rows, relevant, n, values[i], rows[i])
            if a < depth:
                total += (before + 1.0) / (a + 1.0)
    return total


@helper
def _precisions_by_bins(values, n, relevant, depth, ties, order, sorted_values, bins, tied):
    """The same sum, or −1 where documents tie and ties are not averaged.

    The relevant documents are sorted (``order`` is nearly their order already); every other one is counted in the gap
    between two of them that it falls into, or as tied with a block of equal ones.
    """
    for p in range(1, relevant):
        a, to = order[p], p
        while to > 0 and values[a] > values[order[to - 1]]:
            order[to] = order[to - 1]
            to -= 1
        order[to] = a
    for p in range(relevant):
        sorted_values[p] = values[order[p]]
        bins[p], tied[p] = 0, 0
        if ties != AVERAGE and p > 0 and sorted_values[p] == sorted_values[p - 1]:
            return -1.0
    bins[relevant] = 0
    for j in range(relevant, n):
        value, base, length = values[j], 0, relevant
        while length > 1:
            half = length // 2
            base += half if sorted_values[base + half - 1] > value else 0
            length -= half
        base += sorted_values[base] > value
        if base < relevant and sorted_values[base] == value:
            if ties != AVERAGE:
                return -1.0
            tied[base] += 1
        else:
            bins[base] += 1
    total, above, p = 0.0, 0, 0
    while p < relevant:
        above += bins[p]
        a = p + above  # ranks before the block, p of them relevant
        if a >= depth:
            break
        hits = 1
        while p + hits < relevant and sorted_values[p + hits] == sorted_values[p]:
            hits += 1
        t = hits + tied[p]
        if t == 1:
            total += (p + 1.0) / (a + 1.0)
        else:
            total += _block(a, t, min(a + t, depth) - a, hits, p)
        above += tied[p]
        p += hits
    return total


@helper
def _fill(scores, x, gains, lo, hi, s, slopes, mine, rows, relevant_first):
    """Copy a query, the documents with a gain first where that is asked for; how many have one."""
    count = 0
    for wanted in range(2 if relevant_first else 1):
        for i in range(lo, hi):
            if not relevant_first or (gains[i] > 0.0) == (wanted == 0):
                s[count], slopes[count], mine[count], rows[count] = scores[i], x[i], gains[i], i
                count += 1
    relevant = 0
    for c in range(count):
        relevant += mine[c] > 0.0
    return relevant


@kernel
def along(scores, x, gains, offsets, scales, steps, first, last, kind, ties, discounts, out):
    """out[t] = Σ_q scales[q]·measure of query q at the scores s + steps[t]·x, for the queries ``first:last``.

    Steps ascend. A query whose scale is 0 is left out. ``discounts`` is as long as the measure looks down.
    """
    for t in range(len(out)):
        out[t] = 0.0
    longest = 1
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    order, spare, top = np.empty(longest, np.int64), np.empty(longest + 1, np.int64), np.empty(longest, np.int64)
    values, mine, best = np.empty(longest), np.empty(longest), np.empty(longest)
    s, slopes, rows = np.empty(longest), np.empty(longest), np.empty(longest, np.int64)
    for q in range(first, last):
        if scales[q] == 0.0:
            continue
        lo, n = offsets[q], offsets[q + 1] - offsets[q]
        depth = min(len(discounts), n)
        few = kind == PRECISIONS and ties != WORST
        relevant = _fill(scores, x, gains, lo, lo + n, s, slopes, mine, rows, few)
        if few and relevant > COUNTED:
            few = False
            _fill(scores, x, gains, lo, lo + n, s, slopes, mine, rows, False)
        select = not few and 3 * depth < n and depth <= SELECTED
        for c in range(n):
            order[c] = c
        for t in range(len(steps)):
            for c in range(n):
                values[c] = s[c] + steps[t] * slopes[c]
            if few:
                value = _precisions_by_bins(values, n, relevant, depth, ties, order, best, spare, top)
                if value < 0.0:
                    value = _precisions_by_counting(values, rows, n, relevant, depth)
                out[t] += scales[q] * value
                continue
            count = n
            if select:
                if t == 0:
                    _first_top(values, n, depth, top, best)
                count = _contenders(values, n, depth, top, order)
            _sort(order, count, values, mine, ties, spare)
            if select:
                for r in range(depth):
                    top[r] = order[r]
            if kind == GAINS:
                value = _discounted_gain(order, count, depth, values, mine, discounts, ties)
            else:
                value = _precisions(order, count, depth, values, mine, ties)
            out[t] += scales[q] * value
