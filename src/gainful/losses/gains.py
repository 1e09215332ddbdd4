"""Gains of grades, scaled so that they neither overflow nor vanish, and the DCG of perfect rankings."""

from __future__ import annotations

import numpy as np

from gainful.data.rows import Array

LN2 = float(np.log(2.0))


def linear_gain(grades: Array, offsets: Array) -> Array:
    """g divided by the largest grade of the query: only ratios matter, and sums cannot overflow."""
    top = np.maximum(np.maximum.reduceat(grades, offsets[:-1]), np.finfo(np.float64).tiny)
    return np.asarray(grades / np.repeat(top, np.diff(offsets)))


def exponential_gain(grades: Array, offsets: Array) -> Array:
    """(2^g − 1) / 2^(the largest grade of the query), accurate for tiny grades and finite for huge ones."""
    top = np.repeat(np.maximum.reduceat(grades, offsets[:-1]), np.diff(offsets))
    small = np.minimum(grades, 64.0)
    low = np.where(small < 1.0, np.expm1(small * LN2), np.exp2(small) - 1.0) * np.exp2(-np.floor(top))
    high = np.exp2(grades - np.floor(top)) - np.exp2(-np.floor(top))
    return np.asarray(np.where(grades < 64.0, low, high))


def perfect_sums(values: Array, order: Array, offsets: Array, weights: Array) -> Array:
    """Σ_r weights[r] · (value at rank r of the ranking by grade), one per query."""
    counts = np.diff(offsets)
    first = np.repeat(offsets[:-1], counts)
    rank = np.arange(len(order)) - first
    padded = np.append(weights, 0.0)
    return np.asarray(np.add.reduceat(values[first + order] * padded[np.minimum(rank, len(weights))], offsets[:-1]))
