"""Compiled stages of loss-augmented ranking for NDCG. Loaded on the first inference, because it imports the compiler.

One query, m = min(depth, n) slots. All slots are filled, so the optimal ranking maximises

    Σ_r A(r) s(document at r) − D(r) γ(document at r),    γ = φ(g) / N_q.

Inside one grade γ is constant and A does not increase: the documents placed are the best-scored of their grade, in
score order. So a ranking is a sequence of grades, ``slots``, and only the first min(m, size) documents of each grade,
the *candidates*, can be placed. There are three exact ways to find the sequence; each is a kernel, compiled when first
needed:

- :func:`rank_by_counts`: dynamic programming over the number of documents placed per grade; for two grades.
- :func:`rank_by_paths`: shortest augmenting paths, slot by slot. The documents placed so far are the first ones of each
  grade and only these have a price, so a search visits only them and the next document of each grade.
- :func:`rank_square`: all n documents are placed. Shortest augmenting paths, document by document, starting from any
  slot prices: those of the last call, or of a greedy ranking. Not valid for m < n, where only slots and documents
  that are taken may have a price.

Conventions
-----------
The arrays of :class:`gainful.losses.structured.problem.RankingProblem`, read-only. A call processes the queries
``first`` to ``last − 1``. Arrays over rows begin at the row ``base`` = offsets[first], those over grades at the block
blocks[first], those over queries at ``first``; only ``xi`` has all queries. In a query's part of ``rows`` and ``top``
its candidates are stored grade by grade; grade g ends at ``ends[g]``, counted from the query's first. Slot r of query q
is ``slots[q − first, r]``. ``way[q − first]`` says how to rank the query; 0 skips it. Scores are centred per query
before anything is summed, which preserves digits and changes no ranking.

The compiler's cache checks this file only, so every helper of an entry point lives here.
"""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from numba import uint64

from gainful.compute.compiled import LOOSE, helper, kernel
from gainful.compute.kernels import sort_falling
from gainful.losses.structured.problem import COUNTS, PATHS, SQUARE

INSERTION_DEPTH = 32  # up to this many candidates, insertion into a short list beats sorting the grade
LARGEST = 1e300  # larger scores would overflow

# -- candidates --------------------------------------------------------------------------------------------------------


@kernel
def top_candidates(scores, first, last, offsets, order, blocks, starts, A, way, centres, rows, top, ends, near):
    """The best min(m, size) rows of each grade, ties in row order, with centred scores; by insertion without branches.

    ``rows`` holds a guess, such as the candidates of the last call. No candidate scores below the lowest row of a
    correct guess, so few others are inserted; if fewer than needed score as high, the guess was wrong, and all are. The
    result does not depend on the guess. ``near`` is a workspace as long as the largest grade.

    If a score is not finite or far too large, the centre becomes NaN and later stages skip the query.
    """
    base, depth = offsets[first], len(A)
    for q in range(first, last):
        lo = offsets[q] - base
        n = offsets[q + 1] - offsets[q]
        m = depth if depth < n else n
        centre = _centre(scores, lo, n)
        to, size = lo, 0.0 * centre  # NaN where the centre is not finite
        for b in range(blocks[q], blocks[q + 1]):
            keep = starts[b + 1] - starts[b]
            keep = m if m < keep else keep
            lowest = np.inf
            for j in range(to, to + keep):
                x = scores[lo + rows[j]]
                lowest = x if x < lowest else lowest
                top[j] = -np.inf
            found = 0
            for p in range(uint64(starts[b]), uint64(starts[b + 1])):
                near[found] = order[p]
                found += scores[lo + order[p]] >= lowest
            if found < keep:
                found = 0
                for p in range(starts[b], starts[b + 1]):
                    near[found] = order[p]
                    found += 1
            for i in range(found):
                row = near[i]
                x = scores[lo + row]
                for j in range(uint64(to), uint64(to + (i + 1 if i < keep else keep))):
                    y, other = top[j], rows[j]
                    rises = x > y
                    top[j], rows[j] = x if rises else y, row if rises else other
                    x, row = y if rises else x, other if rises else row
            for j in range(to, to + keep):
                top[j] -= centre
                size += abs(top[j])
            to += keep
            ends[b - blocks[first]] = to - lo
        centres[q - first] = centre
        if not size * A[0] < LARGEST:
            way[q - first], centres[q - first] = 0, np.nan


@helper(fastmath=LOOSE)
def _centre(scores, lo, n):
    total = 0.0
    for i in range(uint64(lo), uint64(lo + n)):
        total += scores[i]
    return total / n


@kernel
def sorted_candidates(
    scores, first, last, offsets, order, blocks, starts, A, way, centres, rows, top, ends, work, spare
):
    """As :func:`top_candidates`, by a stable merge sort of each grade."""
    base, depth = offsets[first], len(A)
    for q in range(first, last):
        lo = offsets[q] - base
        n = offsets[q + 1] - offsets[q]
        m = depth if depth < n else n
        centre = _centre(scores, lo, n)
        to, size = lo, 0.0 * centre  # NaN where the centre is not finite
        for b in range(blocks[q], blocks[q + 1]):
            keep = starts[b + 1] - starts[b]
            for j in range(keep):
                work[j] = order[starts[b] + j]
            sort_falling(scores, lo, work, 0, keep, spare)
            keep = m if m < keep else keep
            for j in range(keep):
                rows[to + j] = work[j]
                top[to + j] = scores[lo + work[j]] - centre
                size += abs(top[to + j])
            to += keep
            ends[b - blocks[first]] = to - lo
        centres[q - first] = centre
        if not size * A[0] < LARGEST:
            way[q - first], centres[q - first] = 0, np.nan


# -- the sequence of grades --------------------------------------------------------------------------------------------


@kernel
def rank_by_paths(first, last, offsets, blocks, gains, A, D, way, top, ends, slots, reals, ints):
    """Shortest augmenting paths of m slots against the candidates, from scratch.

    reals: prices of slots (0) and of documents (1), distances (2), scores (3) and gains (4) of the documents placed.
    ints: their slots (0), the document at each slot (1), the predecessors (2), documents not yet reached (3), grades
    (4); next candidate of each grade (5), grades with one left (6).
    """
    depth = len(A)
    for q in range(first, last):
        if way[q - first] != PATHS:
            continue
        t0, b0 = offsets[q] - offsets[first], blocks[q]
        e0 = b0 - blocks[first]
        n_live = blocks[q + 1] - b0
        m = offsets[q + 1] - offsets[q]
        m = depth if depth < m else m
        for g in range(n_live):
            ints[5, g] = t0 if g == 0 else t0 + ends[e0 + g - 1]
            ints[6, g] = g
        for t in range(m):
            r = t
            reals[0, t] = 0.0
            n_open = t
            for j in range(t):
                reals[2, j] = np.inf
                ints[3, j] = j
            reach, end_h, end_r = np.inf, 0, 0
            low = 0.0
            while True:
                a, d, shift = A[r], D[r], low - reals[0, r]
                for h in range(n_live):
                    g = ints[6, h]
                    x = d * gains[e0 + g] - a * top[ints[5, g]] + shift
                    closer = x < reach
                    reach, end_h, end_r = x if closer else reach, h if closer else end_h, r if closer else end_r
                nearest, where = np.inf, -1
                for k in range(n_open):
                    j = ints[3, k]
                    x, y = d * reals[4, j] - a * reals[3, j] + shift - reals[1, j], reals[2, j]
                    falls = x < y
                    y = x if falls else y
                    reals[2, j], ints[2, j] = y, r if falls else ints[2, j]
                    closer = y < nearest
                    nearest, where = y if closer else nearest, k if closer else where
                if reach <= nearest:
                    break
                low = nearest
                j = ints[3, where]
                n_open -= 1
                ints[3, where] = ints[3, n_open]
                ints[3, n_open] = j
                r = ints[0, j]
            reals[0, t] += reach
            for k in range(n_open, t):
                j = ints[3, k]
                reals[0, ints[0, j]] += reach - reals[2, j]
                reals[1, j] -= reach - reals[2, j]
            g = ints[6, end_h]
            reals[3, t], reals[4, t], reals[1, t], ints[4, t] = top[ints[5, g]], gains[e0 + g], 0.0, g
            ints[5, g] += 1
            if ints[5, g] == t0 + ends[e0 + g]:
                n_live -= 1
                ints[6, end_h] = ints[6, n_live]
            j, r = t, end_r
            while True:
                ints[0, j] = r
                other = ints[1, r]
                ints[1, r] = j
                if r == t:
                    break
                j = other
                r = ints[2, j]
        for r in range(m):
            slots[q - first, r] = ints[4, ints[1, r]]


@kernel
def rank_by_counts(first, last, offsets, blocks, gains, A, D, way, top, ends, slots, best, above):
    """Two grades: best[i] is the best value of the slots so far, i of them of the higher grade.

    above[i, j], flat, says whether the last of the first i + j slots is of the higher grade where i of them are.
    """
    depth = len(A)
    for q in range(first, last):
        if way[q - first] != COUNTS:
            continue
        t0, e0, m = offsets[q] - offsets[first], blocks[q] - blocks[first], offsets[q + 1] - offsets[q]
        m = depth if depth < m else m
        high, high_gain, low_gain = ends[e0], gains[e0], gains[e0 + 1]
        t1, low = t0 + high, ends[e0 + 1] - high
        best[0] = 0.0
        for r in range(m):
            a, with_high, with_low = A[r], D[r] * high_gain, D[r] * low_gain
            for i in range(r + 1 if r < high else high, r - low if r >= low else -1, -1):
                x = best[i - 1] + a * top[t0 + i - 1] - with_high
                y = best[i] + a * top[t1 + r - i] - with_low
                take = i > r or (i > 0 and x >= y)
                best[i] = x if take else y
                above[i * low + r + 1] = take  # i·(low + 1) + j
        i = m - low if m > low else 0
        for j in range(i, (m if m < high else high) + 1):
            i = j if best[j] > best[i] else i
        for r in range(m - 1, -1, -1):
            take = above[i * low + r + 1]
            slots[q - first, r] = 0 if take else 1
            i -= take


@helper
def _greedy_prices(top, t0, ends, e0, gains, G, A, D, n, prices, p0, ints):
    """Prices that support a greedy ranking: the document that loses most by moving down one slot goes first."""
    for g in range(G):
        ints[0, g] = 0 if g == 0 else ends[e0 + g - 1]
    a, d, s, gain = 0.0, 0.0, 0.0, 0.0
    for r in range(n):
        next_a = A[r] - A[r + 1] if r + 1 < n else A[r]
        next_d = D[r] - D[r + 1] if r + 1 < n else D[r]
        best, chosen = -np.inf, 0
        for g in range(G):
            if ints[0, g] < ends[e0 + g]:
                x = next_a * top[t0 + ints[0, g]] - next_d * gains[e0 + g]
                if x > best:
                    best, chosen = x, g
        next_s, next_gain = top[t0 + ints[0, chosen]], gains[e0 + chosen]
        ints[0, chosen] += 1
        prices[p0 + r] = 0.0 if r == 0 else prices[p0 + r - 1] + 0.5 * (a * (s + next_s) - d * (gain + next_gain))
        a, d, s, gain = next_a, next_d, next_s, next_gain


@helper
def _cheapest_slots(top, t0, a, b, gain, A, D, n, prices, p0, ints):
    """The cheapest slot of each document a…b − 1 of one grade into ints[4].

    A lower score never prefers a higher slot, so the documents in the middle bound those between them.
    """
    size = b - a
    step = 1
    while 2 * step <= size:
        step *= 2
    while step > 0:
        for i in range(step - 1, size, 2 * step):
            lowest = ints[4, a + i - step] if i >= step else 0
            highest = ints[4, a + i + step] if i + step < size else n - 1
            x, low = top[t0 + a + i], np.inf
            for r in range(lowest, highest + 1):
                value = D[r] * gain - A[r] * x - prices[p0 + r]
                if value < low:
                    low = value
                    ints[4, a + i] = r
        step //= 2


@kernel
def rank_square(first, last, offsets, blocks, gains, A, D, way, top, ends, slots, prices, price_base, reals, ints):
    """Shortest augmenting paths of n documents against n slots, from ``prices`` of the slots, which are updated.

    If all prices are 0, start from a greedy ranking. reals: distances (0), gains of the documents (1). ints: the
    document at each slot (0), the slot of each (1), the predecessors (2), slots reached (3), cheapest slots (4),
    waiting documents (5).
    """
    for q in range(first, last):
        if way[q - first] != SQUARE:
            continue
        t0, b0, G, n = offsets[q] - offsets[first], blocks[q], blocks[q + 1] - blocks[q], offsets[q + 1] - offsets[q]
        e0, p0 = b0 - blocks[first], offsets[q] - price_base
        warm = False
        for r in range(n):
            warm = warm or prices[p0 + r] != 0.0
        if not warm:
            _greedy_prices(top, t0, ends, e0, gains, G, A, D, n, prices, p0, ints)
        for g in range(G):
            a = 0 if g == 0 else ends[e0 + g - 1]
            _cheapest_slots(top, t0, a, ends[e0 + g], gains[e0 + g], A, D, n, prices, p0, ints)
            for i in range(a, ends[e0 + g]):
                reals[1, i] = gains[e0 + g]
        for r in range(n):
            ints[0, r] = -1
        n_waiting = 0
        for i in range(n):
            r = ints[4, i]
            if ints[0, r] < 0:
                ints[0, r] = i
                ints[1, i] = r
            else:
                ints[5, n_waiting] = i
                n_waiting += 1
        for w in range(n_waiting):
            source = ints[5, w]
            for r in range(n):
                reals[0, r] = np.inf
                ints[3, r] = 0
            i, shift = source, 0.0
            while True:
                x, gain = top[t0 + i], reals[1, i]
                low, where = np.inf, 0
                for r in range(n):
                    if ints[3, r] != 0:
                        continue
                    value = D[r] * gain - A[r] * x - prices[p0 + r] + shift
                    if value < reals[0, r]:
                        reals[0, r] = value
                        ints[2, r] = i
                    if reals[0, r] < low:
                        low, where = reals[0, r], r
                i = ints[0, where]
                if i < 0:
                    break
                ints[3, where] = 1
                shift = low - (D[where] * reals[1, i] - A[where] * top[t0 + i] - prices[p0 + where])
            for r in range(n):
                if ints[3, r] != 0:
                    prices[p0 + r] += reals[0, r] - low
            r = where
            while True:
                i = ints[2, r]
                ints[0, r] = i
                left = ints[1, i]
                ints[1, i] = r
                if i == source:
                    break
                r = left
        for g in range(G):
            for i in range(0 if g == 0 else ends[e0 + g - 1], ends[e0 + g]):
                slots[q - first, ints[1, i]] = g


# -- values and gradients ----------------------------------------------------------------------------------------------


@kernel(fastmath=LOOSE)
def ranking_sums(
    first, last, offsets, blocks, gains, A, D, way, rows, top, ends, slots, head, scores, centres, target, losses,
    margins, c,
):  # fmt: skip
    """Δ(y) = 1 − Σ_r D(r) γ, Ψ(y)·s − target·s, and its gradient: A at the rows placed, minus the target.

    All are 0 if there is no ranking.
    """
    depth = len(A)
    for q in range(first, last):
        t0, e0, n = offsets[q] - offsets[first], blocks[q] - blocks[first], offsets[q + 1] - offsets[q]
        if way[q - first] == 0:
            for i in range(t0, t0 + n):
                c[i] = 0.0
            losses[q - first], margins[q - first] = 0.0, 0.0
            continue
        loss, margin, centre = 1.0, 0.0, centres[q - first]
        for i in range(uint64(t0), uint64(t0 + n)):
            c[i] = -target[i]
            margin -= target[i] * (scores[i] - centre)
        for g in range(blocks[q + 1] - blocks[q]):
            head[g] = t0 if g == 0 else t0 + ends[e0 + g - 1]
        for r in range(depth if depth < n else n):
            g = slots[q - first, r]
            at = head[g]
            head[g] += 1
            margin += A[r] * top[at]
            loss -= D[r] * gains[e0 + g]
            c[t0 + rows[at]] += A[r]
        losses[q - first], margins[q - first] = loss, margin


@kernel
def best_sums(first, last, offsets, blocks, A, way, rows, top, ends, head, sums, c):
    """max_y Ψ(y)·s, which the ranking by score attains, ties in row order; subtracts its A from ``c``."""
    depth = len(A)
    for q in range(first, last):
        if way[q - first] == 0:
            continue
        t0, e0, n = offsets[q] - offsets[first], blocks[q] - blocks[first], offsets[q + 1] - offsets[q]
        G = blocks[q + 1] - blocks[q]
        for g in range(G):
            head[g] = t0 if g == 0 else t0 + ends[e0 + g - 1]
        total = 0.0
        for r in range(depth if depth < n else n):
            at, best = -1, 0
            for g in range(G):
                h = head[g]
                if h == t0 + ends[e0 + g]:
                    continue
                if at < 0 or top[h] > top[at] or (top[h] == top[at] and rows[h] < rows[at]):
                    at, best = h, g
            head[best] += 1
            total += A[r] * top[at]
            c[t0 + rows[at]] -= A[r]
        sums[q - first] = total


# -- rescaled slacks ---------------------------------------------------------------------------------------------------

MOST_MOVES = 200


@kernel
def climb(first, last, offsets, blocks, gains, A, D, way, top, ends, slots, of_target, at, head, products):
    """Move until no move improves Δ(y)·(1 + Ψ(y)·s − Ψ(target)·s); fills ``slots`` and ``products``.

    A move swaps two slots, or a slot with the next document of another grade; each step takes the best move and then
    restores the score order within each grade.
    """
    depth = len(A)
    for q in range(first, last):
        if way[q - first] == 0:
            continue
        t0, e0, n = offsets[q] - offsets[first], blocks[q] - blocks[first], offsets[q + 1] - offsets[q]
        s0, G = q - first, blocks[q + 1] - blocks[q]
        m = depth if depth < n else n
        for move in range(MOST_MOVES + 1):
            for g in range(G):
                head[g] = t0 if g == 0 else t0 + ends[e0 + g - 1]
            loss, margin = 1.0, 1.0 - of_target[q - first]
            for r in range(m):
                g = slots[s0, r]
                at[r] = head[g]
                head[g] += 1
                loss -= D[r] * gains[e0 + g]
                margin += A[r] * top[at[r]]
            loss = loss if loss > 0.0 else 0.0
            products[q - first] = loss * margin
            best, one, other = loss * margin, -1, -1
            for r in range(m):
                g = slots[s0, r]
                for h in range(-m, G):  # if negative, the slot h + m
                    if h < 0:
                        r2 = h + m
                        if r2 <= r or slots[s0, r2] == g:
                            continue
                        x = loss - (D[r] - D[r2]) * (gains[e0 + slots[s0, r2]] - gains[e0 + g])
                        y = margin + (A[r] - A[r2]) * (top[at[r2]] - top[at[r]])
                    else:
                        if h == g or head[h] == t0 + ends[e0 + h]:
                            continue
                        x = loss - D[r] * (gains[e0 + h] - gains[e0 + g])
                        y = margin + A[r] * (top[head[h]] - top[at[r]])
                    if x > 0.0 and x * y > best:
                        best, one, other = x * y, r, h
            if move == MOST_MOVES or one < 0 or best <= loss * margin + 1e-12 * abs(best):
                break
            if other < 0:
                slots[s0, one], slots[s0, other + m] = slots[s0, other + m], slots[s0, one]
            else:
                slots[s0, one] = other
