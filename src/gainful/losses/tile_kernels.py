"""Tiles: up to TILE documents of a query, copied so that a loop over their pairs is nothing but whole vectors.

``room`` has the rows named below. Each row has WIDTH spare numbers before and after the documents, and a run of
documents whose length is not a multiple of WIDTH runs on into these. What stands there makes such pairs count 0, and
nobody reads what a loop adds to these places. So no query touches another's numbers, not even those that are NaN.

Rows are a constant distance apart. That way the compiler knows that they do not overlap; otherwise it would check it
before each run, and keep a slow loop in case they do. The distance is a multiple of several vectors, without which it
would not process several at a time, but no power of 2, so that rows do not compete for the same places in the cache.
"""
# mypy: ignore-errors

from __future__ import annotations

import math

from numpy import uint64

from gainful.compute.compiled import helper
from gainful.compute.kernels import WIDTH

TILE = 560  # documents: a tile of these fits in the fastest cache
ROW = TILE + 2 * WIDTH
SCORE, EXPONENTIAL, OWN, GAIN, DISCOUNT, EXTRA, SLOPE, BEND = (uint64(ROW * row) for row in range(8))
ROOM = 8 * ROW  # zeros at first: the spare numbers before the documents, scores apart, are never written


@helper
def enter(start, stop, base, t, E, gains, own, D, room):
    """Copy the documents from ``start`` to ``stop`` into ``room``, with documents around them that no pair notices.

    Those behind are worse by any distance, those before better: their pairs cost 0, where 0 · ∞ would be NaN.
    """
    lo, at, n, to = uint64(start), uint64(base + start), uint64(stop - start), uint64(WIDTH)
    for j in range(n):
        room[SCORE + to + j] = t[lo + j]
        room[OWN + to + j] = 1.0 if own is None else own[at + j]
        if E is not None:  # known at compile time, as below: what is not there is not compiled
            room[EXPONENTIAL + to + j] = E[lo + j]
        if gains is not None:
            room[GAIN + to + j] = gains[at + j]
        if D is not None:
            room[DISCOUNT + to + j] = D[lo + j]
        room[SLOPE + to + j] = 0.0
        room[BEND + to + j] = 0.0
    for j in range(to):
        room[SCORE + j] = math.inf
    for j in range(to + n, to + n + to):
        room[SCORE + j] = -math.inf
        room[OWN + j] = 0.0
        room[EXPONENTIAL + j] = 0.0
        room[GAIN + j] = 0.0
        room[DISCOUNT + j] = 0.0
        room[EXTRA + j] = 0.0


@helper
def leave(start, stop, row, room, sums):
    """Add a row of ``room`` to the sums of the documents."""
    lo, at = uint64(start), row + uint64(WIDTH)
    for j in range(uint64(stop - start)):
        sums[lo + j] += room[at + j]
