"""The rows of each query in descending order of grade."""

from __future__ import annotations

import numpy as np

from gainful.data.rows import Array


def by_grade(grades: Array, offsets: Array) -> tuple[Array, Array, Array]:
    """(order, blocks, starts): the rows of each query by descending grade, cut where the grade changes."""
    counts = np.diff(offsets)
    query = np.repeat(np.arange(len(counts)), counts)
    rows = np.lexsort((-grades, query))
    new = np.ones(len(rows), dtype=bool)
    new[1:] = (np.diff(grades[rows]) != 0.0) | (np.diff(query) != 0)
    starts = np.append(np.flatnonzero(new), len(rows)).astype(np.int64)
    blocks = np.searchsorted(starts, offsets).astype(np.int64)
    return (rows - offsets[query]).astype(np.int32), blocks, starts


def count_pairs(offsets: Array, blocks: Array, starts: Array, weights: Array | None = None) -> Array:
    """|R_q|, the number of pairs of different grade in each query: (n_queries,) float64; see :func:`by_grade`.

    With ``weights`` of the documents, in that order, a pair counts by the product of its two weights.
    """
    if weights is not None:
        return _sum_products(weights, offsets, blocks, starts)
    sizes, counts = np.diff(starts).astype(np.float64), np.diff(offsets).astype(np.float64)
    return np.asarray(0.5 * (counts**2 - np.add.reduceat(sizes**2, blocks[:-1])))


def _sum_products(weights: Array, offsets: Array, blocks: Array, starts: Array) -> Array:
    """Σ over the blocks of their weight times that of the blocks below: sums of numbers ≥ 0, so nothing cancels."""
    sums = np.add.reduceat(weights, starts[:-1])
    total, below = np.zeros(len(offsets) - 1), np.zeros(len(offsets) - 1)
    for step in range(1, int(np.diff(blocks).max()) + 1):  # a block of each query at a time, from the lowest grade up
        place = blocks[1:] - step
        own = np.where(place >= blocks[:-1], sums[np.maximum(place, 0)], 0.0)
        total += own * below
        below += own
    return total
