"""Compiled SoftRank: expected NDCG when every score is drawn from a normal distribution around it.

Document i stands before j with probability π_ij = Φ((s_i − s_j)/(√2σ)). Taking these as independent, the rank of j
begins at 1 and moves down by one with probability π_ij for each i in turn; ranks past k do not count and are dropped.
Documents i come in twos: with p, p' the probabilities of two and q, q' the rest, the rank stays with probability qq',
moves by one with pq' + qp' and by two with pp', which costs less than two steps.

Conventions as in ``pairwise_kernels``, so the documents with a gain come first. BATCH of these, j, take each step
together: a step waits for the one before, and the processor works on the others meanwhile.

Workspaces, one row for each of the batch: ``before`` and ``bells`` for π and its slope, with one entry more than
documents; ``steps`` for the distribution of the rank after each two documents, rows that begin with two zeros for what
moves in from above; ``back`` for what moving down by one gains from there on, by rank, with two zeros at the end.
"""
# mypy: ignore-errors

from __future__ import annotations

import math

from numpy import uint64

from gainful.compute.compiled import LOOSE, helper, kernel
from gainful.compute.kernels import exp_below_one, half_tail

BATCH = 8
ONE, TWO = uint64(1), uint64(2)


@kernel(fastmath=LOOSE, error_model="numpy")
def run(t, offsets, blocks, starts, gains, sigma, discounts, before, bells, steps, back, first, last, values, g):
    """1 − E[NDCG] of the queries first … last − 1; ``discounts`` end at the cut-off."""
    base = offsets[first]
    for q in range(first, last):
        values[q] = 0.0
        if blocks[q + 1] - blocks[q] <= 1:
            continue
        lo, n, value, known = offsets[q] - base, offsets[q + 1] - offsets[q], 1.0, 0
        while known < n and gains[offsets[q] + known] > 0.0:
            known += 1
        depth = n if n < len(discounts) else len(discounts)
        for begin in range(0, known, BATCH):
            size = known - begin if known - begin < BATCH else BATCH
            for b in range(size):
                _compare(t, lo, n, begin + b, 2.0 * sigma, b, before, bells)
            _follow(n, depth, size, before, steps)
            for b in range(size):
                gain, end = gains[offsets[q] + begin + b], ((n + 1) // 2 * BATCH + b) * (depth + 2) + 2
                for r in range(depth):
                    value -= gain * discounts[r] * steps[end + r]
                    back[b * (depth + 2) + r] = gain * ((discounts[r + 1] if r + 1 < depth else 0.0) - discounts[r])
                back[b * (depth + 2) + depth] = back[b * (depth + 2) + depth + 1] = 0.0
            _follow_back(lo, n, begin, depth, size, before, bells, steps, back, g)
        values[q] = value


@helper(fastmath=LOOSE, error_model="numpy")
def _compare(t, lo, n, j, wide, b, before, bells):
    """π of all documents i and its slope by their scores; one more, which never moves j, makes their number even."""
    own, scale, base, at = t[lo + j], 1.0 / (math.sqrt(math.pi) * wide), uint64(lo), uint64(b * (n + 1))
    for i in range(uint64(n)):
        away = (own - t[base + i]) / wide
        size = abs(away)
        bell = exp_below_one(-size * size)
        tail = half_tail(size, bell)
        before[at + i] = tail if away >= 0.0 else 1.0 - tail
        bells[at + i] = bell * scale
    for i in (j, n):
        before[b * (n + 1) + i] = bells[b * (n + 1) + i] = 0.0


@helper(fastmath=LOOSE)
def _follow(n, depth, size, before, steps):
    """Fills ``steps``."""
    row = uint64(depth + 2)
    for r in range(BATCH * (depth + 2)):
        steps[r] = 0.0
    for b in range(size):
        steps[b * (depth + 2) + 2] = 1.0
    for i in range(0, n, 2):
        for b in range(size):
            p, other = before[b * (n + 1) + i], before[b * (n + 1) + i + 1]
            stay, by_one, by_two = (1.0 - p) * (1.0 - other), p * (1.0 - other) + (1.0 - p) * other, p * other
            now = uint64(i // 2 * BATCH + b) * row
            then = now + uint64(BATCH) * row
            steps[then] = steps[then + ONE] = 0.0
            for r in range(TWO, row):
                moved = by_one * steps[now + r - ONE] + by_two * steps[now + r - TWO]
                steps[then + r] = stay * steps[now + r] + moved


@helper(fastmath=LOOSE)
def _follow_back(lo, n, begin, depth, size, before, bells, steps, back, g):
    """Adds to ``g``. ``near`` and ``far`` are the means of ``back`` by the rank, and by the next rank.

    ``back`` has one sign, so no digits cancel.
    """
    row = uint64(depth + 2)
    for i in range(2 * ((n - 1) // 2), -1, -2):
        for b in range(size):
            at = b * (n + 1) + i
            p, other = before[at], before[at + 1]
            stay, by_one, by_two = (1.0 - p) * (1.0 - other), p * (1.0 - other) + (1.0 - p) * other, p * other
            now, own = uint64(i // 2 * BATCH + b) * row + TWO, uint64(b) * row
            near = far = 0.0
            for r in range(uint64(depth)):
                x, y = back[own + r], back[own + r + ONE]
                near += steps[now + r] * x
                far += steps[now + r] * y
                back[own + r] = stay * x + (by_one * y + by_two * back[own + r + TWO])
            pull = ((1.0 - other) * near + other * far) * bells[at]
            second = ((1.0 - p) * near + p * far) * bells[at + 1]
            g[lo + i] -= pull
            if i + 1 < n:
                g[lo + i + 1] -= second
            g[lo + begin + b] += pull + second
