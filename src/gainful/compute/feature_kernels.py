"""Compiled products with the features of a run of rows: X w, and X'c without the rows where c is 0.

Sums are float64 whatever X is stored in. Row ``i`` of X belongs to entry ``i − lo`` of the vector of rows.
"""
# mypy: ignore-errors

from __future__ import annotations

from numba import uint64

from gainful.compute.compiled import LOOSE, kernel


@kernel(fastmath=LOOSE)
def dense_scores(X, w, lo, hi, out):
    """out = X[lo:hi] w, row by row: reading several rows at once was three times slower from memory."""
    for i in range(lo, hi):
        total = 0.0
        for j in range(len(w)):
            total += X[i, j] * w[j]
        out[i - lo] = total


@kernel(fastmath=LOOSE)
def dense_gradient(X, c, lo, hi, gradient, rows):
    """gradient += X[lo:hi]' c, four rows at a time so that the gradient is read and written once for them.

    The rows where c is not 0 are listed first, in ``rows``: a search for the next one would delay the products.
    """
    n = 0
    for i in range(uint64(hi - lo)):
        rows[n] = i
        n += c[i] != 0.0
    fours = n - n % 4
    for k in range(0, fours, 4):
        i0, i1, i2, i3 = rows[k], rows[k + 1], rows[k + 2], rows[k + 3]
        c0, c1, c2, c3 = c[i0], c[i1], c[i2], c[i3]
        i0, i1, i2, i3 = lo + i0, lo + i1, lo + i2, lo + i3
        for j in range(len(gradient)):
            gradient[j] += (X[i0, j] * c0 + X[i1, j] * c1) + (X[i2, j] * c2 + X[i3, j] * c3)
    for k in range(fours, n):
        i0, c0 = lo + rows[k], c[rows[k]]
        for j in range(len(gradient)):
            gradient[j] += X[i0, j] * c0


@kernel
def sparse_scores(data, indices, indptr, w, lo, hi, out):
    for i in range(lo, hi):
        total = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            total += data[p] * w[indices[p]]
        out[i - lo] = total


@kernel
def sparse_gradient(data, indices, indptr, c, lo, hi, gradient, rows):
    for i in range(lo, hi):
        if c[i - lo] != 0.0:
            for p in range(indptr[i], indptr[i + 1]):
                gradient[indices[p]] += data[p] * c[i - lo]
