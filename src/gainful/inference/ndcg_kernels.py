"""Compiled loss-augmented ranking for NDCG. Loaded on the first inference, because it imports the compiler.

One query, m = min(depth, n) slots. All slots are filled, so the ranking sought maximises

    Σ_r A(r) s(document at r) − D(r) γ(document at r),    γ = φ(g) / N_q.

Inside one grade γ is constant and A does not increase: the documents placed are the best-scored of their grade, in
score order. So a ranking is a sequence of grades, ``slot_block``, and only the first min(m, size) documents of each
grade, the *candidates*, can be placed. Three exact ways to find the sequence, chosen per query by :func:`_rank`:

- :func:`_count_programme`: dynamic programme over how many of each grade are placed; for two or three grades.
- :func:`_paths`: shortest augmenting paths, one slot after the other. The documents placed so far are the first ones of
  each grade and only these have a price, so a search looks at them and at the next document of each grade, no more.
- :func:`_square`: all n documents are placed. Shortest augmenting paths, one document after the other, from any prices
  of the slots: those of the last call, or of the ranking by score. Not for m < n: a price may then only belong to a
  slot or document that is taken.

Conventions
-----------
The arrays of :class:`gainful.inference.problem.RankingProblem`, read-only. ``scores`` and ``c`` begin at the row
``base`` = offsets[first]; ``xi`` has all queries. Scores are centred per query before anything is summed, which changes
no ranking and keeps digits. A query with a score that is not finite gets ξ = NaN and coefficients 0.

The compiler's cache looks at this file only, so every helper of an entry point lives here.
"""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from numba import njit

HELPER = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # called by kernels only
INSERTION_DEPTH = 32  # up to this many candidates, insertion into a short list beats sorting the grade
LOOSE = {"reassoc", "contract", "arcp", "nsz"}  # sums may be reordered; NaN and infinity keep their meaning
LARGEST = 1e300  # scores beyond it would overflow

# -- candidates --------------------------------------------------------------------------------------------------------


@njit(**HELPER, fastmath=LOOSE)
def _mean(scores, lo, hi):
    total = 0.0
    for i in range(lo, hi):
        total += scores[i]
    return total / (hi - lo)


@njit(**HELPER)
def _top_of_block(s, order, a, b, keep, rows, top):
    """The ``keep`` best-scored of order[a:b] into ``rows``, their scores into ``top``; ties in row order."""
    for p in range(a, a + keep):
        i = order[p]
        x = s[i]
        j = p - a
        while j > 0 and x > top[j - 1]:
            top[j] = top[j - 1]
            rows[j] = rows[j - 1]
            j -= 1
        top[j] = x
        rows[j] = i
    last = top[keep - 1]
    for p in range(a + keep, b):
        i = order[p]
        x = s[i]
        if x > last:
            j = keep - 1
            while j > 0 and x > top[j - 1]:
                top[j] = top[j - 1]
                rows[j] = rows[j - 1]
                j -= 1
            top[j] = x
            rows[j] = i
            last = top[keep - 1]


@njit(**HELPER)
def _sort_block(s, order, a, b, keep, rows, top, work, spare):
    """As :func:`_top_of_block`, by a stable merge sort of the whole block."""
    n = b - a
    run = 16
    for start in range(0, n, run):
        for k in range(start, min(start + run, n)):
            j = k
            i = order[a + j]
            x = s[i]
            while j > start and x > s[work[j - 1]]:
                work[j] = work[j - 1]
                j -= 1
            work[j] = i
    while run < n:
        for start in range(0, n, 2 * run):
            middle, stop = min(start + run, n), min(start + 2 * run, n)
            for k in range(start, middle):
                spare[k] = work[k]
            left, right, to = start, middle, start
            while left < middle and right < stop:
                if s[work[right]] > s[spare[left]]:
                    work[to] = work[right]
                    right += 1
                else:
                    work[to] = spare[left]
                    left += 1
                to += 1
            while left < middle:
                work[to] = spare[left]
                left += 1
                to += 1
        run *= 2
    for j in range(keep):
        rows[j] = work[j]
        top[j] = s[work[j]]


@njit(**HELPER)
def _candidates(s, order, starts, b0, b1, m, rows, top, ends, work, spare):
    """The best min(m, size) rows of each grade, one grade after the other; grade g ends at ``ends[g]``."""
    to = 0
    for b in range(b0, b1):
        size = starts[b + 1] - starts[b]
        keep = min(m, size)
        if keep <= INSERTION_DEPTH:
            _top_of_block(s, order, starts[b], starts[b + 1], keep, rows[to:], top[to:])
        else:
            _sort_block(s, order, starts[b], starts[b + 1], keep, rows[to:], top[to:], work, spare)
        to += keep
        ends[b - b0] = to


# -- the sequence of grades --------------------------------------------------------------------------------------------


@njit(**HELPER)
def _paths(top, ends, gains, G, A, D, m, slot_block, reals, ints):
    """Shortest augmenting paths of m slots against the candidates, cold."""
    u, v, dist, placed_s, placed_g = reals[0], reals[1], reals[2], reals[3], reals[4]
    slot_of, placed_at, before, open_, placed_b = ints[0], ints[1], ints[2], ints[3], ints[4]
    head, live = ints[5], ints[6]  # next candidate of each grade, grades with one left
    n_live = G
    for g in range(G):
        head[g] = 0 if g == 0 else ends[g - 1]
        live[g] = g
    for t in range(m):
        r = t
        u[t] = 0.0
        n_open = t
        for j in range(t):
            dist[j] = np.inf
            open_[j] = j
        reach, end_h, end_r = np.inf, 0, 0
        low = 0.0
        while True:
            a, d, shift = A[r], D[r], low - u[r]
            for h in range(n_live):
                g = live[h]
                x = d * gains[g] - a * top[head[g]] + shift
                if x < reach:
                    reach, end_h, end_r = x, h, r
            nearest, where = np.inf, -1
            for k in range(n_open):
                j = open_[k]
                x = d * placed_g[j] - a * placed_s[j] + shift - v[j]
                if x < dist[j]:
                    dist[j] = x
                    before[j] = r
                if dist[j] < nearest:
                    nearest, where = dist[j], k
            if reach <= nearest:
                break
            low = nearest
            j = open_[where]
            n_open -= 1
            open_[where] = open_[n_open]
            open_[n_open] = j
            r = slot_of[j]
        u[t] += reach
        for k in range(n_open, t):
            j = open_[k]
            u[slot_of[j]] += reach - dist[j]
            v[j] -= reach - dist[j]
        g = live[end_h]
        placed_s[t], placed_g[t], placed_b[t], v[t] = top[head[g]], gains[g], g, 0.0
        head[g] += 1
        if head[g] == ends[g]:
            n_live -= 1
            live[end_h] = live[n_live]
        j, r = t, end_r
        while True:
            slot_of[j] = r
            other = placed_at[r]
            placed_at[r] = j
            if r == t:
                break
            j = other
            r = before[j]
    for r in range(m):
        slot_block[r] = placed_b[placed_at[r]]


@njit(**HELPER)
def _count_programme(top, ends, gains, G, A, D, m, slot_block, V, ints):
    """V[c_1, …, c_G] = the best value of the first Σ c slots holding c_g documents of grade g."""
    count, stride = ints[0], ints[1]
    stride[G - 1] = 1
    for g in range(G - 1, 0, -1):
        stride[g - 1] = stride[g] * (ends[g] - ends[g - 1] + 1)
    last = ends[G - 1] - ends[G - 2]
    at_last = ends[G - 2]
    for g in range(G):
        count[g] = 0
    best, best_state = -np.inf, 0
    placed, state = 0, 0
    while True:
        stop = min(last, m - placed) + 1
        for c in range(stop):
            V[state + c] = -np.inf
        if placed == 0:
            V[0] = 0.0
        for g in range(G - 1):
            if count[g] == 0:
                continue
            x, gain, back = top[(ends[g - 1] if g > 0 else 0) + count[g] - 1], gains[g], state - stride[g]
            for c in range(stop):
                r = placed + c - 1
                V[state + c] = max(V[state + c], V[back + c] + (A[r] * x - D[r] * gain))
        gain, value = gains[G - 1], V[state]
        for c in range(1, stop):
            r = placed + c - 1
            value = max(V[state + c], value + (A[r] * top[at_last + c - 1] - D[r] * gain))
            V[state + c] = value
        if placed + stop - 1 == m and V[state + stop - 1] > best:
            best, best_state = V[state + stop - 1], state + stop - 1
        g = G - 2  # the next counts of all grades but the last, those with more than m in sum left out
        while g >= 0:
            size = ends[g] - (ends[g - 1] if g > 0 else 0)
            if count[g] < size and placed < m:
                count[g] += 1
                placed += 1
                state += stride[g]
                break
            placed -= count[g]
            state -= count[g] * stride[g]
            count[g] = 0
            g -= 1
        if g < 0:
            break
    state = best_state
    for g in range(G):
        count[g] = state // stride[g]
        state -= count[g] * stride[g]
    state = best_state
    for r in range(m - 1, -1, -1):
        best, chosen = -np.inf, 0
        for g in range(G):
            if count[g] > 0:
                x = top[(ends[g - 1] if g > 0 else 0) + count[g] - 1]
                value = V[state - stride[g]] + A[r] * x - D[r] * gains[g]
                if value > best:
                    best, chosen = value, g
        slot_block[r] = chosen
        count[chosen] -= 1
        state -= stride[chosen]


@njit(**HELPER)
def _merge(rows, top, ends, G, m, at, head):
    """The ranking by score: positions of the candidates at the first m ranks into ``at``; ties in row order."""
    for g in range(G):
        head[g] = 0 if g == 0 else ends[g - 1]
    for r in range(m):
        best = -1
        for g in range(G):
            h = head[g]
            if h == ends[g]:
                continue
            if best < 0:
                best = g
                continue
            b = head[best]
            if top[h] > top[b] or (top[h] == top[b] and rows[h] < rows[b]):
                best = g
        at[r] = head[best]
        head[best] += 1


@njit(**HELPER)
def _greedy_prices(top, ends, gains, G, A, D, n, p, head):
    """Prices that hold a greedy ranking in place: whoever loses most by moving down one slot goes first."""
    for g in range(G):
        head[g] = 0 if g == 0 else ends[g - 1]
    a, d, s, gain = 0.0, 0.0, 0.0, 0.0
    for r in range(n):
        next_a = A[r] - A[r + 1] if r + 1 < n else A[r]
        next_d = D[r] - D[r + 1] if r + 1 < n else D[r]
        best, chosen = -np.inf, 0
        for g in range(G):
            if head[g] < ends[g]:
                x = next_a * top[head[g]] - next_d * gains[g]
                if x > best:
                    best, chosen = x, g
        next_s, next_gain = top[head[chosen]], gains[chosen]
        head[chosen] += 1
        p[r] = 0.0 if r == 0 else p[r - 1] + 0.5 * (a * (s + next_s) - d * (gain + next_gain))
        a, d, s, gain = next_a, next_d, next_s, next_gain


@njit(**HELPER)
def _cheapest_slots(top, a, b, gain, A, D, n, p, cheapest):
    """The cheapest slot at prices ``p`` of each document a…b − 1 of one grade.

    A lower score never asks for a higher slot, so documents in the middle bound those between them.
    """
    size = b - a
    step = 1
    while 2 * step <= size:
        step *= 2
    while step > 0:
        for i in range(step - 1, size, 2 * step):
            first = cheapest[a + i - step] if i >= step else 0
            last = cheapest[a + i + step] if i + step < size else n - 1
            x, low = top[a + i], np.inf
            for r in range(first, last + 1):
                value = D[r] * gain - A[r] * x - p[r]
                if value < low:
                    low = value
                    cheapest[a + i] = r
        step //= 2


@njit(**HELPER)
def _square(top, ends, gains, G, A, D, n, p, slot_block, reals, ints):
    """Shortest augmenting paths of n documents against n slots, from the slot prices ``p``, which are updated."""
    dist, doc_gain = reals[0], reals[1]
    doc_of, slot_of, before, done, cheapest, waiting = ints[0], ints[1], ints[2], ints[3], ints[4], ints[5]
    for g in range(G):
        a = 0 if g == 0 else ends[g - 1]
        _cheapest_slots(top, a, ends[g], gains[g], A, D, n, p, cheapest)
        for i in range(a, ends[g]):
            doc_gain[i] = gains[g]
            doc_of[i] = -1
    n_waiting = 0
    for i in range(n):
        r = cheapest[i]
        if doc_of[r] < 0:
            doc_of[r] = i
            slot_of[i] = r
        else:
            waiting[n_waiting] = i
            n_waiting += 1
    for w in range(n_waiting):
        source = waiting[w]
        for r in range(n):
            dist[r] = np.inf
            done[r] = 0
        i, shift = source, 0.0
        while True:
            x, gain = top[i], doc_gain[i]
            low, where = np.inf, 0
            for r in range(n):
                if done[r] != 0:
                    continue
                value = D[r] * gain - A[r] * x - p[r] + shift
                if value < dist[r]:
                    dist[r] = value
                    before[r] = i
                if dist[r] < low:
                    low, where = dist[r], r
            i = doc_of[where]
            if i < 0:
                break
            done[where] = 1
            shift = low - (D[where] * doc_gain[i] - A[where] * top[i] - p[where])
        for r in range(n):
            if done[r] != 0:
                p[r] += dist[r] - low
        r = where
        while True:
            i = before[r]
            doc_of[r] = i
            left = slot_of[i]
            slot_of[i] = r
            if i == source:
                break
            r = left
    for g in range(G):
        for i in range(0 if g == 0 else ends[g - 1], ends[g]):
            slot_block[slot_of[i]] = g


# -- one query ---------------------------------------------------------------------------------------------------------

AUTOMATIC, PATHS, COUNTS, SQUARE = 0, 1, 2, 3
METHODS = {"automatic": AUTOMATIC, "paths": PATHS, "counts": COUNTS, "square": SQUARE}
MOST_STATES = 1 << 20  # of the count programme; beyond, paths


@njit(**HELPER)
def _n_states(starts, b0, b1, m):
    """States of the count programme, Π (candidates of the grade + 1); more than MOST_STATES where there are."""
    n = 1
    for b in range(b0, b1):
        n *= min(m, starts[b + 1] - starts[b]) + 1
        if n > MOST_STATES:
            break
    return n


@njit(**HELPER)
def _method(starts, b0, b1, m, n, wanted):
    """How to rank a query: the count programme for two grades, the square problem for whole lists, otherwise paths."""
    by_counts = wanted == COUNTS or (wanted == AUTOMATIC and b1 - b0 == 2)
    if by_counts and _n_states(starts, b0, b1, m) <= MOST_STATES:
        return COUNTS
    return SQUARE if m == n and wanted in (AUTOMATIC, SQUARE) else PATHS


@njit(**HELPER)
def _workspace(offsets, blocks, starts, first, last, depth, wanted):
    longest, most, states = 1, 1, 1
    for q in range(first, last):
        n = offsets[q + 1] - offsets[q]
        longest, most = max(longest, n), max(most, blocks[q + 1] - blocks[q])
        m = min(depth, n)
        if _method(starts, blocks[q], blocks[q + 1], m, n, wanted) == COUNTS:
            states = max(states, _n_states(starts, blocks[q], blocks[q + 1], m))
    slots = min(depth, longest)
    rows, work, spare = np.empty(longest, np.int32), np.empty(longest, np.int32), np.empty(longest, np.int32)
    top, ends = np.empty(longest), np.empty(most, np.int64)
    at, slot_block, own = np.empty(slots, np.int64), np.empty(slots, np.int64), np.empty(slots)
    reals, ints = np.empty((5, slots)), np.empty((7, max(slots, most)), np.int64)
    return rows, work, spare, top, ends, at, slot_block, own, reals, ints, np.empty(states)


@njit(**HELPER)
def _centre(s, order, starts, b0, b1, A, m, rows, top, ends, work, spare):
    """Fill the candidates, with centred scores; the centre, or NaN where a score is not finite or far too large."""
    centre = _mean(s, 0, len(s))
    if not np.isfinite(centre):
        return np.nan
    _candidates(s, order, starts, b0, b1, m, rows, top, ends, work, spare)
    size = 0.0
    for j in range(ends[b1 - b0 - 1]):
        top[j] -= centre
        size += abs(top[j])
    return centre if size * A[0] < LARGEST else np.nan


@njit(**HELPER)
def _place(ends, G, m, slot_block, at, head):
    """The candidates of a sequence of grades: the documents of each grade in score order."""
    for g in range(G):
        head[g] = 0 if g == 0 else ends[g - 1]
    for r in range(m):
        g = slot_block[r]
        at[r] = head[g]
        head[g] += 1


@njit(**HELPER)
def _rank(top, ends, gains, A, D, m, method, p, is_warm, at, slot_block, reals, ints, V):
    """The loss-augmented ranking: grades and candidates at the slots 0…m − 1."""
    G = len(gains)
    if method == COUNTS:
        _count_programme(top, ends, gains, G, A, D, m, slot_block, V, ints)
    elif method == SQUARE:
        if not is_warm:
            _greedy_prices(top, ends, gains, G, A, D, m, p, ints[0])
        _square(top, ends, gains, G, A, D, m, p, slot_block, reals, ints)
    else:
        _paths(top, ends, gains, G, A, D, m, slot_block, reals, ints)
    _place(ends, G, m, slot_block, at, ints[0])


@njit(**HELPER)
def _is_warm(prices, lo, hi, method):
    """Whether there are prices of an earlier call; a literal in place of this would compile :func:`_rank` twice."""
    if len(prices) > 0 and method == SQUARE:
        for i in range(lo, hi):
            if prices[i] != 0.0:
                return True
    return False


@njit(**HELPER, fastmath=LOOSE)
def _dot_centred(target, s, centre):
    total = 0.0
    for i in range(len(s)):
        total += target[i] * (s[i] - centre)
    return total


# -- entry points ------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, no_cfunc_wrapper=True)
def violations(
    scores, first, last, offsets, order, blocks, starts, gains, target, active, A, D, tight, wanted, prices, xi, c
):
    """ξ_q = max_y [Δ(y) + Ψ(y)·s] − (Ψ(target)·s, or max_y Ψ(y)·s for the tight loss) and its gradient by score."""
    rows, work, spare, top, ends, at, slot_block, own, reals, ints, V = _workspace(
        offsets, blocks, starts, first, last, len(A), wanted
    )
    base = offsets[first]
    for q in range(first, last):
        lo, hi, b0, b1 = offsets[q], offsets[q + 1], blocks[q], blocks[q + 1]
        n, m = hi - lo, min(len(A), hi - lo)
        s, c_q, target_q, gains_q = scores[lo - base : hi - base], c[lo - base : hi - base], target[lo:hi], gains[b0:b1]
        xi[q] = 0.0
        for i in range(n):
            c_q[i] = 0.0
        if not active[q]:
            continue
        centre = _centre(s, order, starts, b0, b1, A, m, rows, top, ends, work, spare)
        if np.isnan(centre):
            xi[q] = np.nan
            continue
        method = _method(starts, b0, b1, m, n, wanted)
        warm = _is_warm(prices, lo, hi, method)
        p = prices[lo:hi] if len(prices) > 0 and method == SQUARE else own
        _rank(top, ends, gains_q, A, D, m, method, p, warm, at, slot_block, reals, ints, V)
        value = 1.0
        for r in range(m):
            value += A[r] * top[at[r]] - D[r] * gains_q[slot_block[r]]
        if not tight:
            value -= _dot_centred(target_q, s, centre)
            for i in range(n):
                c_q[i] = -target_q[i]
        for r in range(m):
            c_q[rows[at[r]]] += A[r]
        if tight:
            _merge(rows, top, ends, b1 - b0, m, at, ints[0])
            for r in range(m):
                value -= A[r] * top[at[r]]
                c_q[rows[at[r]]] -= A[r]
        xi[q] = max(0.0, value)


@njit(cache=True, nogil=True, no_cfunc_wrapper=True)
def rankings(scores, first, last, offsets, order, blocks, starts, gains, target, active, A, D, ranks):
    """The rank of each row in the loss-augmented ranking, 0 below the last slot."""
    rows, work, spare, top, ends, at, slot_block, own, reals, ints, V = _workspace(
        offsets, blocks, starts, first, last, len(A), AUTOMATIC
    )
    base = offsets[first]
    for q in range(first, last):
        lo, hi, b0, b1 = offsets[q], offsets[q + 1], blocks[q], blocks[q + 1]
        m = min(len(A), hi - lo)
        ranks[lo - base : hi - base] = 0
        if not active[q]:
            continue
        s = scores[lo - base : hi - base]
        if np.isnan(_centre(s, order, starts, b0, b1, A, m, rows, top, ends, work, spare)):
            continue
        method = _method(starts, b0, b1, m, hi - lo, AUTOMATIC)
        _rank(top, ends, gains[b0:b1], A, D, m, method, own, False, at, slot_block, reals, ints, V)
        for r in range(m):
            ranks[lo - base + rows[at[r]]] = r + 1


# -- rescaled slacks ---------------------------------------------------------------------------------------------------

MOST_CHORDS = 40
MOST_MOVES = 200


@njit(**HELPER)
def _loss_and_margin(top, gains, A, D, m, at, slot_block, of_target):
    """Δ(y) and 1 + Ψ(y)·s − Ψ(target)·s."""
    loss, margin = 1.0, 1.0 - of_target
    for r in range(m):
        loss -= D[r] * gains[slot_block[r]]
        margin += A[r] * top[at[r]]
    return max(0.0, loss), margin


@njit(**HELPER)
def _best_move(top, ends, gains, A, D, m, at, slot_block, head, loss, margin):
    """The swap of two slots, or of a slot with the next document of another grade, with the largest product."""
    G = len(gains)
    best, first, second = loss * margin, -1, -1
    for r in range(m):
        g = slot_block[r]
        for r2 in range(r + 1, m):
            h = slot_block[r2]
            if h == g:
                continue
            x = loss - (D[r] - D[r2]) * (gains[h] - gains[g])
            product = x * (margin + (A[r] - A[r2]) * (top[at[r2]] - top[at[r]]))
            if x > 0.0 and product > best:
                best, first, second = product, r, r2
        for h in range(G):
            if h == g or head[h] == ends[h]:
                continue
            x = loss - D[r] * (gains[h] - gains[g])
            product = x * (margin + A[r] * (top[head[h]] - top[at[r]]))
            if x > 0.0 and product > best:
                best, first, second = product, r, m + h
    return best, first, second


@njit(**HELPER)
def _climb(top, ends, gains, A, D, m, at, slot_block, head, of_target):
    """Moves until none improves the product; after each, the documents of a grade are put in score order again."""
    _place(ends, len(gains), m, slot_block, at, head)
    loss, margin = _loss_and_margin(top, gains, A, D, m, at, slot_block, of_target)
    for _ in range(MOST_MOVES):
        best, r, r2 = _best_move(top, ends, gains, A, D, m, at, slot_block, head, loss, margin)
        if r < 0 or best <= loss * margin + 1e-12 * abs(best):
            break
        if r2 < m:
            slot_block[r], slot_block[r2] = slot_block[r2], slot_block[r]
        else:
            slot_block[r] = r2 - m
        _place(ends, len(gains), m, slot_block, at, head)
        loss, margin = _loss_and_margin(top, gains, A, D, m, at, slot_block, of_target)
    return loss * margin


N_STARTS = 3


@njit(**HELPER)
def _start_from(which, rows, top, ends, G, m, at, head, slot_block):
    """The grades of a ranking to climb from: perfect (0), lowest grades first (1), by score (2).

    A corner of the hull can be a local maximum: where w satisfies most constraints, the largest product lies one move
    from a perfect ranking.
    """
    if which == 2:
        _merge(rows, top, ends, G, m, at, head)
        for r in range(m):
            g = 0
            while at[r] >= ends[g]:
                g += 1
            slot_block[r] = g
        return
    r = 0
    for step in range(G):
        g = step if which == 0 else G - 1 - step
        left = ends[g] - (0 if g == 0 else ends[g - 1])
        while left > 0 and r < m:
            slot_block[r] = g
            left -= 1
            r += 1


@njit(**HELPER)
def _weighted(top, ends, gains, A, D, m, method, on_loss, on_margin, own, at, slot_block, reals, ints, V, top2, gains2):
    """The ranking that maximises on_loss·Δ + on_margin·Ψ·s: one assignment with scaled gains and scores."""
    for j in range(ends[len(gains) - 1]):
        top2[j] = on_margin * top[j]
    for g in range(len(gains)):
        gains2[g] = on_loss * gains[g]
    _rank(top2, ends, gains2[: len(gains)], A, D, m, method, own, False, at, slot_block, reals, ints, V)


@njit(**HELPER)
def _chords(
    top, ends, gains, A, D, m, method, of_target, own, at, slot_block, reals, ints, V, top2, gains2, best_block
):
    """The ranking with the largest product among the corners of the hull of all (Δ, margin); grades in ``best_block``.

    The product is largest near where a line of slope −margin/Δ touches the hull. Two corners enclose it, at first the
    rankings with the largest margin and the largest loss; the corner farthest above their chord replaces one of them.
    """
    best = -np.inf
    low_loss, low_margin, high_loss, high_margin = 0.0, 0.0, 0.0, 0.0
    size = 1e-300
    for j in range(ends[len(gains) - 1]):
        size = max(size, abs(top[j]))
    on_loss = 0.0
    for step in range(MOST_CHORDS):
        on_margin = 1.0
        if step == 1:
            on_loss, on_margin = 1.0, 1e-9 / size
        elif step > 1:
            if not (high_loss > low_loss and low_margin > high_margin):
                break
            on_loss, on_margin = low_margin - high_margin, high_loss - low_loss
        _weighted(
            top, ends, gains, A, D, m, method, on_loss, on_margin, own, at, slot_block, reals, ints, V, top2, gains2
        )
        loss, margin = _loss_and_margin(top, gains, A, D, m, at, slot_block, of_target)
        if loss * margin > best:
            best = loss * margin
            best_block[:m] = slot_block[:m]
        if step == 0:
            low_loss, low_margin = loss, margin
        elif step == 1:
            high_loss, high_margin = loss, margin
        else:
            above = on_loss * (loss - low_loss) + on_margin * (margin - low_margin)
            if above <= 1e-12 * (on_loss + on_margin * abs(margin)):
                break
            if margin * on_margin > loss * on_loss:
                low_loss, low_margin = loss, margin
            else:
                high_loss, high_margin = loss, margin


@njit(cache=True, nogil=True, no_cfunc_wrapper=True)
def slack_violations(scores, first, last, offsets, order, blocks, starts, gains, target, active, A, D, xi, c):
    """ξ_q = the largest Δ(y)·(1 + Ψ(y)·s − Ψ(target)·s) found, at least 0, and Δ(ỹ)·(A(ỹ_i) − target_i)."""
    rows, work, spare, top, ends, at, slot_block, own, reals, ints, V = _workspace(
        offsets, blocks, starts, first, last, len(A), AUTOMATIC
    )
    top2, gains2, best_block = np.empty(len(top)), np.empty(len(ends)), np.empty(len(at), np.int64)
    base = offsets[first]
    for q in range(first, last):
        lo, hi, b0, b1 = offsets[q], offsets[q + 1], blocks[q], blocks[q + 1]
        n, m = hi - lo, min(len(A), hi - lo)
        s, c_q, target_q, gains_q = scores[lo - base : hi - base], c[lo - base : hi - base], target[lo:hi], gains[b0:b1]
        xi[q] = 0.0
        for i in range(n):
            c_q[i] = 0.0
        if not active[q]:
            continue
        centre = _centre(s, order, starts, b0, b1, A, m, rows, top, ends, work, spare)
        if np.isnan(centre):
            xi[q] = np.nan
            continue
        of_target = _dot_centred(target_q, s, centre)
        method = _method(starts, b0, b1, m, n, AUTOMATIC)
        _chords(
            top,
            ends,
            gains_q,
            A,
            D,
            m,
            method,
            of_target,
            own,
            at,
            slot_block,
            reals,
            ints,
            V,
            top2,
            gains2,
            best_block,
        )
        product = _climb(top, ends, gains_q, A, D, m, at, best_block, ints[0], of_target)
        for start in range(N_STARTS):
            _start_from(start, rows, top, ends, len(gains_q), m, at, ints[0], slot_block)
            other = _climb(top, ends, gains_q, A, D, m, at, slot_block, ints[0], of_target)
            if other > product:
                product = other
                best_block[:m] = slot_block[:m]
        if product <= 0.0:
            continue
        _place(ends, len(gains_q), m, best_block, at, ints[0])
        loss, margin = _loss_and_margin(top, gains_q, A, D, m, at, best_block, of_target)
        xi[q] = loss * margin
        for i in range(n):
            c_q[i] = -loss * target_q[i]
        for r in range(m):
            c_q[rows[at[r]]] += loss * A[r]
