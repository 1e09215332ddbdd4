"""A measure along a line through the scores, for many steps at once. Loaded on use, because it imports the compiler.

The steps are taken in ascending order, so that the ranking at one is nearly that at the next. Ties follow the measure's
convention: blocks of equal scores are averaged, or documents stand by row, or the worse one first.

One kernel for each kind of measure, compiled when it is first needed. Each does the queries ``first:last``, leaves out
those whose scale is 0, and adds Σ_q scales[q]·measure of query q at the scores s + steps[t]·x to out[t]. Steps ascend.
``reals`` and ``ints`` are workspaces of rows as long as the longest query plus 1. The documents of the query at hand
count from ``lo``, its first row.
"""

# mypy: ignore-errors

from __future__ import annotations

from gainful.compute.compiled import helper, kernel
from gainful.metrics.kernels import AVERAGE, WORST, block_precisions

COUNTED = 200  # up to this many relevant documents, only they are sorted
SELECTED = 64  # up to this depth the first ranks are picked out of the query before they are sorted

# -- rankings ----------------------------------------------------------------------------------------------------------
# reals: scores at the step (0), the best of them (1), scores (2) and slopes (3) of the query.
# ints: documents in order (0), spare (1), those at the first ranks (2).


@helper
def _before(a, b, reals, gains, lo, ties):
    """Whether document a stands before b: a total order, so every way of sorting ends the same."""
    if reals[0, a] != reals[0, b]:
        return reals[0, a] > reals[0, b]
    if ties == WORST and gains[lo + a] != gains[lo + b]:
        return gains[lo + a] < gains[lo + b]
    return a < b


@helper
def _sort(n, reals, gains, lo, ties, ints):
    """Insertion while the order is nearly sorted, merging where it is not."""
    budget = 8 * n + 64
    for p in range(1, n):
        a, to = ints[0, p], p
        while to > 0 and _before(a, ints[0, to - 1], reals, gains, lo, ties):
            ints[0, to] = ints[0, to - 1]
            to -= 1
        ints[0, to] = a
        budget -= p - to
        if budget < 0:
            break
    run = 1 if budget < 0 else n
    while run < n:
        for start in range(0, n - run, 2 * run):
            middle = start + run
            stop = middle + run if middle + run < n else n
            for p in range(start, middle):
                ints[1, p] = ints[0, p]
            a, b, to = start, middle, start
            while a < middle:
                if b < stop and _before(ints[0, b], ints[1, a], reals, gains, lo, ties):
                    ints[0, to] = ints[0, b]
                    b += 1
                else:
                    ints[0, to] = ints[1, a]
                    a += 1
                to += 1
        run *= 2


@helper
def _first_top(n, depth, reals, ints):
    """The documents with the ``depth`` largest scores, in any order of ties."""
    for i in range(n):
        value = reals[0, i]
        if i >= depth and value <= reals[1, depth - 1]:
            continue
        to = i if i < depth else depth - 1
        while to > 0 and value > reals[1, to - 1]:
            reals[1, to], ints[2, to] = reals[1, to - 1], ints[2, to - 1]
            to -= 1
        reals[1, to], ints[2, to] = value, i


@helper
def _contenders(n, depth, reals, ints):
    """All documents whose score reaches the least of those in ints[2] into ints[0]; how many.

    ints[2] names ``depth`` documents, so the first ``depth`` ranks and all that tie with them are among these.
    """
    bound = reals[0, ints[2, 0]]
    for p in range(1, depth):
        value = reals[0, ints[2, p]]
        bound = value if value < bound else bound
    count = 0
    for i in range(n):
        ints[0, count] = i
        count += 1 if reals[0, i] >= bound else 0
    return count


@helper
def _rank(scores, x, lo, n, step, depth, fresh, gains, ties, reals, ints):
    """Scores at a step, and the documents in order, at least down to ``depth`` and what ties there; how many.

    ``fresh``: the ranking before it was of another query.
    """
    if fresh:
        for c in range(n):
            ints[0, c] = c
            reals[2, c], reals[3, c] = scores[lo + c], x[lo + c]
    for c in range(n):
        reals[0, c] = reals[2, c] + step * reals[3, c]
    select = 3 * depth < n and depth <= SELECTED
    count = n
    if select:
        if fresh:
            _first_top(n, depth, reals, ints)
        count = _contenders(n, depth, reals, ints)
    _sort(count, reals, gains, lo, ties, ints)
    if select:
        for r in range(depth):
            ints[2, r] = ints[0, r]
    return count


@kernel
def gains_along(scores, x, gains, offsets, scales, steps, first, last, ties, discounts, reals, ints, out):
    """Σ discount·gain. ``discounts`` is as long as the measure looks down."""
    for q in range(first, last):
        if scales[q] == 0.0:
            continue
        lo, n = offsets[q], offsets[q + 1] - offsets[q]
        depth = len(discounts) if len(discounts) < n else n
        for t in range(len(steps)):
            count = _rank(scores, x, lo, n, steps[t], depth, t == 0, gains, ties, reals, ints)
            total, a = 0.0, 0
            while a < depth:
                gain, b = gains[lo + ints[0, a]], a + 1
                if ties == AVERAGE:
                    while b < count and reals[0, ints[0, b]] == reals[0, ints[0, a]]:
                        gain += gains[lo + ints[0, b]]
                        b += 1
                if b == a + 1:
                    total += gain * discounts[a]
                else:
                    weight = 0.0
                    for r in range(a, b if b < depth else depth):
                        weight += discounts[r]
                    total += gain / (b - a) * weight
                a = b
            out[t] += scales[q] * total


# -- precisions at the relevant documents ------------------------------------------------------------------------------


@kernel
def precisions_along(scores, x, gains, offsets, scales, steps, first, last, ties, most, reals, ints, out):
    """Σ precision at the relevant documents, down to rank ``most``; every document is sorted."""
    for q in range(first, last):
        if scales[q] == 0.0:
            continue
        lo, n = offsets[q], offsets[q + 1] - offsets[q]
        depth = most if most < n else n
        for t in range(len(steps)):
            count = _rank(scores, x, lo, n, steps[t], depth, t == 0, gains, ties, reals, ints)
            total, before, a = 0.0, 0.0, 0
            while a < depth:
                hits, b = gains[lo + ints[0, a]], a + 1
                if ties == AVERAGE:
                    while b < count and reals[0, ints[0, b]] == reals[0, ints[0, a]]:
                        hits += gains[lo + ints[0, b]]
                        b += 1
                if hits > 0.0:
                    total += block_precisions(a, b - a, (b if b < depth else depth) - a, hits, before)
                    before += hits
                a = b
            out[t] += scales[q] * total


# Where few documents are relevant only these are sorted. ``rows`` are the rows of each query, the relevant ones first;
# ``n_hits[q]`` are relevant.
# reals: scores at the step (0), those of the relevant ones in order (1), scores (2) and slopes (3).
# ints: the relevant documents in order (0), documents between two of them (1) and tied with them (2).


@kernel
def few_precisions_along(scores, x, rows, n_hits, offsets, scales, steps, first, last, ties, most, reals, ints, out):
    """As :func:`precisions_along`, where ties are averaged or go by row.

    Every document that is not relevant is counted in the gap between two relevant ones that it falls into, or as tied
    with a block of equal ones.
    """
    for q in range(first, last):
        if scales[q] == 0.0:
            continue
        lo, n, relevant = offsets[q], offsets[q + 1] - offsets[q], n_hits[q]
        depth = most if most < n else n
        for c in range(n):
            ints[0, c] = c
            reals[2, c], reals[3, c] = scores[rows[lo + c]], x[rows[lo + c]]
        for t in range(len(steps)):
            for c in range(n):
                reals[0, c] = reals[2, c] + steps[t] * reals[3, c]
            if _count_between(n, relevant, ties, reals, ints):
                total = _precisions_by_bins(relevant, depth, reals, ints)
            else:
                total = _precisions_by_counting(rows, lo, n, relevant, depth, reals)
            out[t] += scales[q] * total


@helper
def _count_between(n, relevant, ties, reals, ints):
    """Sort the relevant documents and count the others; False where documents tie and ties are not averaged."""
    for p in range(1, relevant):
        a, to = ints[0, p], p
        while to > 0 and reals[0, a] > reals[0, ints[0, to - 1]]:
            ints[0, to] = ints[0, to - 1]
            to -= 1
        ints[0, to] = a
    for p in range(relevant):
        reals[1, p] = reals[0, ints[0, p]]
        ints[1, p], ints[2, p] = 0, 0
        if ties != AVERAGE and p > 0 and reals[1, p] == reals[1, p - 1]:
            return False
    ints[1, relevant] = 0
    for j in range(relevant, n):
        value, base, length = reals[0, j], 0, relevant
        while length > 1:
            half = length // 2
            base += half if reals[1, base + half - 1] > value else 0
            length -= half
        base += 1 if reals[1, base] > value else 0
        if base < relevant and reals[1, base] == value:
            if ties != AVERAGE:
                return False
            ints[2, base] += 1
        else:
            ints[1, base] += 1
    return True


@helper
def _precisions_by_bins(relevant, depth, reals, ints):
    total, above, p = 0.0, 0, 0
    while p < relevant:
        above += ints[1, p]
        a = p + above  # ranks before the block, p of them relevant
        if a >= depth:
            break
        hits = 1
        while p + hits < relevant and reals[1, p + hits] == reals[1, p]:
            hits += 1
        t = hits + ints[2, p]
        if t == 1:
            total += (p + 1.0) / (a + 1.0)
        else:
            total += block_precisions(a, t, t if a + t < depth else depth - a, float(hits), float(p))
        above += ints[2, p]
        p += hits
    return total


@helper
def _precisions_by_counting(rows, lo, n, relevant, depth, reals):
    """The same sum where documents stand by row: each relevant one counts who stands above it."""
    total = 0.0
    for i in range(relevant):
        value, row, before, a = reals[0, i], rows[lo + i], 0, 0
        for j in range(n):
            if reals[0, j] > value or (reals[0, j] == value and rows[lo + j] < row):
                a += 1
                before += 1 if j < relevant else 0
        if a < depth:
            total += (before + 1.0) / (a + 1.0)
    return total
