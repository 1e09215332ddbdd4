# mypy: ignore-errors
"""Compiled part of :mod:`gainful.trees.binning`."""

from __future__ import annotations

import numpy as np

from gainful.compute.compiled import helper, kernel


@helper
def _end(values, first, length):
    """The first place after ``first`` whose value is more than ``length`` above values[first]."""
    low, step = first, 1  # values[low] is within; gallop, then bisect
    while low + step < len(values) and values[low + step] - values[first] <= length:
        low += step
        step *= 2
    high = min(low + step, len(values))
    while high - low > 1:
        middle = (low + high) // 2
        if values[middle] - values[first] <= length:
            low = middle
        else:
            high = middle
    return high


@helper
def _fits(values, length, most):
    """Whether bins of this length cover the ascending values with at most ``most`` bins."""
    at, bins = 0, 0
    while at < len(values):
        bins += 1
        if bins > most:
            return False
        at = _end(values, at, length)
    return True


@kernel
def smallest_length(values, most, start):
    """The smallest bin length ≥ ``start`` with which at most ``most`` bins cover the ascending values.

    Larger lengths never need more bins, so the length is bracketed by powers of two and then found by bisection, down
    to neighbouring floating-point numbers.
    """
    if len(values) <= 1 or _fits(values, start, most):
        return start
    high = min(values[-1] - values[0], 1.7e308)
    if not _fits(values, high, most):  # the range itself overflows
        return np.inf
    low = high / 2
    while low > start and _fits(values, low, most):
        high, low = low, low / 2
    low = max(low, start)
    while True:
        middle = low + (high - low) / 2
        if middle <= low or middle >= high:
            return high
        if _fits(values, middle, most):
            high = middle
        else:
            low = middle


@kernel
def cover(values, length):
    """Thresholds half-way between the bins of this length; a value on one belongs to the bin below."""
    edges = np.empty(max(len(values) - 1, 0))
    at, bins = 0, 0
    while at < len(values):
        at = _end(values, at, length)
        if at < len(values):
            below, above = values[at - 1], values[at]
            middle = below / 2 + above / 2
            edges[bins] = middle if below <= middle < above else below
            bins += 1
    return edges[:bins].copy()


@helper
def _code(value, edges, low, high):
    """How many of edges[low:high] lie below the value."""
    first = low
    while low < high:
        middle = (low + high) // 2
        if edges[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low - first


@helper
def _code_or_missing(value, edges, low, high, has_missing):
    """The code of a value; a missing one has the code after the last bin, or that of 0 if training had none."""
    if value == value:
        return _code(value, edges, low, high)
    return high - low + 1 if has_missing else _code(0.0, edges, low, high)


@kernel
def codes_of_rows(X, edges, starts, has_missing, codes):
    """Fill ``codes`` from a dense X."""
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            codes[i, j] = _code_or_missing(np.float64(X[i, j]), edges, starts[j], starts[j + 1], has_missing[j])


@kernel
def codes_of_stored(data, indices, indptr, edges, starts, has_missing, codes):
    """The same for the stored entries of a CSR matrix; ``codes`` holds those of zero already."""
    for i in range(len(indptr) - 1):
        for at in range(indptr[i], indptr[i + 1]):
            j = indices[at]
            codes[i, j] = _code_or_missing(np.float64(data[at]), edges, starts[j], starts[j + 1], has_missing[j])
