"""Compiled passes along the rankings of a run of queries, for the effects of swaps; see ``swaps``.

``rank`` is twice the rank of each document: documents of equal score and grade share one, no others do, so a count by
this number sorts the documents. Each pass walks the groups from the top, adds up what a document would have at each of
the ranks of its group, and gives every document of the group the mean. ``sizes``, ``heads`` and ``sums`` are workspace;
``sizes`` is 0 at the start and at the end. A query of one grade has no pairs, and ranks of 0: it is one group.
"""
# mypy: ignore-errors

from __future__ import annotations

from gainful.compute.compiled import helper, kernel


@helper
def _count(rank, lo, hi, sizes, heads):
    """The documents of each group, and one of them."""
    for i in range(lo, hi):
        sizes[rank[i]] += 1
        heads[rank[i]] = i


@kernel
def precisions(rank, hits, offsets, first, last, depth, sizes, heads, sums, up, down):
    """For average precision, times the number of relevant documents: ``up`` and ``down`` of both documents add up.

    c counts the relevant documents down to a rank and S sums 1/rank over them. If j at rank b stands above i at a,
    the swap gains (c(b) + 1)/b − S(b) + S(a − 1) − c(a)/a; if it stands below, the swap loses
    c(a)/a − S(a) + S(b) − c(b)/b. Ranks below ``depth`` count 0.
    """
    base = offsets[first]
    for q in range(first, last):
        lo, hi = offsets[q] - base, offsets[q + 1] - base
        _count(rank, lo, hi, sizes, heads)
        place, seen, passed = 0, 0.0, 0.0
        for twice in range(2 * (hi - lo) + 1):
            n = sizes[twice]
            if n == 0:
                continue
            sizes[twice] = 0
            above = below = 0.0
            for r in range(place + 1, place + n + 1):
                inside = 1.0 / r if r <= depth else 0.0
                if hits[base + heads[twice]] > 0.0:
                    seen += 1.0
                    above += passed - seen * inside
                    passed += inside
                    below += seen * inside - passed
                else:
                    above += (seen + 1.0) * inside - passed
                    below += passed - seen * inside
            sums[0, twice], sums[1, twice] = above / n, below / n
            place += n
        for i in range(lo, hi):
            up[i], down[i] = sums[0, rank[i]], sums[1, rank[i]]


@kernel
def first_relevant(rank, hits, offsets, first, last, values, sizes, heads, sums, up, down, share):
    """For metrics by the rank of the first relevant document; ``values`` by that rank, from 0, falling.

    A document j above the first relevant one: its swap with any relevant document gains ``up``. A document j below it:
    its swap with the first relevant document loses ``down``, for then the next relevant one, or i in j's place, is the
    first. ``share`` is the chance of i to be the first.
    """
    base, end = offsets[first], len(values) - 1
    for q in range(first, last):
        lo, hi = offsets[q] - base, offsets[q + 1] - base
        _count(rank, lo, hi, sizes, heads)
        place, one, two, several = 0, end, end, 0  # ranks of the first two relevant documents, from 0
        for twice in range(2 * (hi - lo) + 1):
            n = sizes[twice]
            if n > 0 and hits[base + heads[twice]] > 0.0:
                if several == 0:
                    one, several = place, n
                    two = place + 1 if n > 1 else end
                elif two == end:
                    two = place
            place += n
        place = 0
        for twice in range(2 * (hi - lo) + 1):
            n = sizes[twice]
            if n == 0:
                continue
            sizes[twice] = 0
            above = below = 0.0
            for r in range(place, place + n):
                if r < one:
                    above += values[r] - values[one]
                elif r > one:
                    below += values[one] - values[r if r < two else two]
            sums[0, twice], sums[1, twice] = above / n, below / n
            place += n
        for i in range(lo, hi):
            relevant = hits[base + i] > 0.0
            up[i] = 0.0 if relevant else sums[0, rank[i]]
            down[i] = 0.0 if relevant else sums[1, rank[i]]
            share[i] = 1.0 / several if relevant and rank[i] == 2 * one + several + 1 else 0.0


@kernel
def stops(rank, chances, offsets, first, last, depth, sizes, heads, sums, before, at, rest):
    """For expected reciprocal rank: the swap of x with y below it adds (R_y − R_x)(at_x − before_y · rest_x).

    ``chances`` R of each document to stop the reader. P is the probability of reading a rank and T sums R·P/rank over
    the ranks. ``before`` = T of the ranks above + P/rank, ``rest`` = 1/(1 − R), ``at`` = P/rank + T·rest.
    """
    base = offsets[first]
    for q in range(first, last):
        lo, hi = offsets[q] - base, offsets[q + 1] - base
        _count(rank, lo, hi, sizes, heads)
        place, reading, total = 0, 1.0, 0.0
        for twice in range(2 * (hi - lo) + 1):
            n = sizes[twice]
            if n == 0:
                continue
            sizes[twice] = 0
            chance = chances[base + heads[twice]]
            above = here = 0.0
            for r in range(place + 1, place + n + 1):
                share = reading / r if r <= depth else 0.0
                above += total + share
                total += chance * share
                here += share + total / (1.0 - chance)
                reading *= 1.0 - chance
            sums[0, twice], sums[1, twice] = above / n, here / n
            place += n
        for i in range(lo, hi):
            before[i], at[i], rest[i] = sums[0, rank[i]], sums[1, rank[i]], 1.0 / (1.0 - chances[base + i])
