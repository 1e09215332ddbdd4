"""Compiled products with the features of a run of rows: X w, and X'c without the rows where c is 0.

Sums are float64 whatever X is stored in. Row ``i`` of X belongs to entry ``i − lo`` of the vector of rows.
"""
# mypy: ignore-errors

from __future__ import annotations

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
def dense_gradient(X, c, lo, hi, gradient):
    """gradient += X[lo:hi]' c, four rows at a time so that the gradient is read and written once for them."""
    i = lo
    while i < hi:
        i0, i1, i2, i3 = i, i, i, i
        found = 0
        while i < hi and found < 4:
            if c[i - lo] != 0.0:
                i0, i1, i2, i3 = i1, i2, i3, i
                found += 1
            i += 1
        if found == 0:
            break
        i2 = i2 if found > 1 else i3  # the last few: rows named twice count once
        i1 = i1 if found > 2 else i3
        i0 = i0 if found > 3 else i3
        c0 = c[i0 - lo] if found > 3 else 0.0
        c1 = c[i1 - lo] if found > 2 else 0.0
        c2 = c[i2 - lo] if found > 1 else 0.0
        c3 = c[i3 - lo]
        for j in range(len(gradient)):
            gradient[j] += (X[i0, j] * c0 + X[i1, j] * c1) + (X[i2, j] * c2 + X[i3, j] * c3)


@kernel
def sparse_scores(data, indices, indptr, w, lo, hi, out):
    for i in range(lo, hi):
        total = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            total += data[p] * w[indices[p]]
        out[i - lo] = total


@kernel
def sparse_gradient(data, indices, indptr, c, lo, hi, gradient):
    for i in range(lo, hi):
        if c[i - lo] != 0.0:
            for p in range(indptr[i], indptr[i + 1]):
                gradient[indices[p]] += data[p] * c[i - lo]
