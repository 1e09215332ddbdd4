"""Compiled products with the features of a run of rows: X w, and X'c without the rows where c is 0.

Sums are float64 whatever X is stored in. Row ``i`` of X belongs to entry ``i − lo`` of the vector of rows.
"""
# mypy: ignore-errors

from __future__ import annotations

from numba import njit

LOOSE = {"reassoc", "contract", "arcp", "nsz"}  # sums may be reordered; NaN and infinity keep their meaning


@njit(cache=True, nogil=True, fastmath=LOOSE)
def dense_scores(X, w, lo, hi, out):
    """out = X[lo:hi] w, row by row: reading several rows at once was three times slower from memory."""
    d = len(w)
    for i in range(lo, hi):
        x, total = X[i], 0.0
        for j in range(d):
            total += x[j] * w[j]
        out[i - lo] = total


@njit(cache=True, nogil=True, fastmath=LOOSE)
def dense_gradient(X, c, lo, hi, gradient):
    """gradient += X[lo:hi]' c, four rows at a time so that the gradient is read and written once for them."""
    d = len(gradient)
    i0 = i1 = i2 = lo
    waiting = 0
    for i in range(lo, hi):
        if c[i - lo] == 0.0:
            continue
        if waiting < 3:
            if waiting == 0:
                i0 = i
            elif waiting == 1:
                i1 = i
            else:
                i2 = i
            waiting += 1
            continue
        x0, x1, x2, x3 = X[i0], X[i1], X[i2], X[i]
        c0, c1, c2, c3 = c[i0 - lo], c[i1 - lo], c[i2 - lo], c[i - lo]
        for j in range(d):
            gradient[j] += (x0[j] * c0 + x1[j] * c1) + (x2[j] * c2 + x3[j] * c3)
        waiting = 0
    for k in range(waiting):
        i = i0 if k == 0 else (i1 if k == 1 else i2)
        x0, c0 = X[i], c[i - lo]
        for j in range(d):
            gradient[j] += x0[j] * c0


@njit(cache=True, nogil=True)
def sparse_scores(data, indices, indptr, w, lo, hi, out):
    for i in range(lo, hi):
        total = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            total += data[p] * w[indices[p]]
        out[i - lo] = total


@njit(cache=True, nogil=True)
def sparse_gradient(data, indices, indptr, c, lo, hi, gradient):
    for i in range(lo, hi):
        if c[i - lo] != 0.0:
            for p in range(indptr[i], indptr[i + 1]):
                gradient[indices[p]] += data[p] * c[i - lo]
