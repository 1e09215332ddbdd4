"""Compiled stages of loss-augmented ranking for average precision. Loaded on the first inference, with the compiler.

One query, R relevant documents with scores s_1 ≥ … ≥ s_R, N others with t_1 ≥ … ≥ t_N. In an optimal ranking both kinds
are in score order, so a ranking is the number a_j of relevant documents before each other one, non-decreasing in j.
Moving the j-th other document before the i-th relevant one changes the objective by

    gain_j(i) = i / (R (i + j − 1)(i + j)) − 2 (s_i − t_j) / (R N),

regardless of the rest, because Σ_i i/(i + n_i) telescopes over the n_i others before the i-th relevant document. So a_j
maximises Σ_{i > a} gain_j(i) independently; gain_j(i) decreases with j, hence the a_j come out in order, and a middle j
bounds the range of those before and after it: O((R + N) log N) after sorting.

Conventions
-----------
A call processes the queries ``first`` to ``last − 1`` that are ``active``. All arrays over rows begin at row
offsets[first], ``active`` and ``losses`` at query ``first``. ``rows`` are the sorted rows of each query, relevant ones
first, counted from offsets[first]; ``before`` has a_j at the position of the j-th other document in ``rows``.
"""
# mypy: ignore-errors

from __future__ import annotations

from gainful.compute.compiled import kernel


@kernel
def sort_rows(scores, first, last, offsets, order, blocks, starts, active, rows, spare):
    """The rows of each kind, best-scored first; a stable merge sort: insertion in runs of 16, then merging."""
    base = offsets[first]
    for q in range(first, last):
        lo = offsets[q] - base
        for b in range(blocks[q], blocks[q] + 2 if active[q - first] else blocks[q]):
            at, end, run = starts[b] - base, starts[b + 1] - base, 16
            for start in range(at, end, run):
                for k in range(start, start + run if start + run < end else end):
                    i, j = lo + order[base + k], k
                    x = scores[i]
                    while j > start and x > scores[rows[j - 1]]:
                        rows[j] = rows[j - 1]
                        j -= 1
                    rows[j] = i
            while run < end - at:
                for start in range(at, end - run, 2 * run):
                    middle = start + run
                    stop = middle + run if middle + run < end else end
                    for k in range(start, middle):
                        spare[k - start] = rows[k]
                    left, right, to = 0, middle, start
                    while left < run and right < stop:
                        if scores[rows[right]] > scores[spare[left]]:
                            rows[to] = rows[right]
                            right += 1
                        else:
                            rows[to] = spare[left]
                            left += 1
                        to += 1
                    while left < run:
                        rows[to] = spare[left]
                        left += 1
                        to += 1
                run *= 2


@kernel
def count_before(scores, first, last, offsets, blocks, starts, active, rows, before, stack):
    """How many relevant documents come before each other one in the loss-augmented ranking."""
    base = offsets[first]
    for q in range(first, last):
        if not active[q - first]:
            continue
        lo, at, N = offsets[q] - base, starts[blocks[q] + 1] - base, offsets[q + 1] - starts[blocks[q] + 1]
        depth = 1
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, N, 0, at - lo
        while depth > 0:
            depth -= 1
            begin, end, least, most = stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3]
            j = (begin + end) // 2
            t = scores[rows[at + j]]
            total, best, where = 0.0, 0.0, most
            for i in range(most, least, -1):
                total += i / ((i + j) * (i + j + 1.0)) - 2.0 * (scores[rows[lo + i - 1]] - t) / N
                if total > best:
                    best, where = total, i - 1
            before[at + j] = where
            if j + 1 < end:
                stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = j + 1, end, where, most
                depth += 1
            if begin < j:
                stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = begin, j, least, where
                depth += 1


@kernel
def fill_violations(scores, first, last, offsets, blocks, starts, active, rows, before, tight, losses, xi, c):
    """Δ(y), the coefficients of Ψ(y) − Ψ(target) by score, which start at 0, and ξ = Δ(y) + their product with s."""
    base = offsets[first]
    for q in range(first, last):
        if not active[q - first]:
            continue
        lo, at, end = offsets[q] - base, starts[blocks[q] + 1] - base, offsets[q + 1] - base
        R = at - lo
        unit, loss, j = 2.0 / (float(R) * (end - at)), 0.0, at
        for i in range(R):  # j − at = others before the relevant document i
            while j < end and before[j] <= i:
                j += 1
            loss += (j - at) / (i + 1.0 + (j - at))
            c[rows[lo + i]] = -unit * (j - at)
        for j in range(at, end):
            c[rows[j]] = unit * (R - before[j])
        losses[q - first] = loss / R
        if tight:  # ``take_by_score`` comes next and finishes the sum
            continue
        value, middle = loss / R, scores[rows[lo]]  # the coefficients sum to 0
        for i in range(lo, end):
            value += c[i] * (scores[i] - middle)
        xi[q] = value if value > 0.0 else 0.0


@kernel
def take_by_score(scores, first, last, offsets, blocks, starts, active, rows, losses, xi, c):
    """Subtract the coefficients of the ranking by score (ties in row order) from ``c``, and its product from ξ."""
    base = offsets[first]
    for q in range(first, last):
        if not active[q - first]:
            continue
        lo, at, end = offsets[q] - base, starts[blocks[q] + 1] - base, offsets[q + 1] - base
        unit, i = 2.0 / (float(at - lo) * (end - at)), lo
        for j in range(at, end):
            other, t = rows[j], scores[rows[j]]
            while i < at and (scores[rows[i]] > t or (scores[rows[i]] == t and rows[i] < other)):
                c[rows[i]] += unit * (j - at)
                i += 1
            c[other] -= unit * (at - i)
        while i < at:
            c[rows[i]] += unit * (end - at)
            i += 1
        value, middle = losses[q - first], scores[rows[lo]]  # the coefficients sum to 0
        for i in range(lo, end):
            value += c[i] * (scores[i] - middle)
        xi[q] = value if value > 0.0 else 0.0


@kernel
def rankings(first, last, offsets, blocks, starts, active, rows, before, ranks):
    """The rank of each row in the loss-augmented ranking, from 1."""
    base = offsets[first]
    for q in range(first, last):
        if not active[q - first]:
            continue
        lo, at, end = offsets[q] - base, starts[blocks[q] + 1] - base, offsets[q + 1] - base
        i, rank = 0, 1
        for j in range(at, end):
            while i < before[j]:
                ranks[rows[lo + i]] = rank
                i += 1
                rank += 1
            ranks[rows[j]] = rank
            rank += 1
        for k in range(lo + i, at):
            ranks[rows[k]] = rank
            rank += 1
