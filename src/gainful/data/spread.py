"""Mean and standard deviation of each feature, in one pass over the rows, wherever they are.

Rows count by the weight of their query: a query of weight 2 counts as if it were there twice, and one of weight 0 as if
it were absent.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from gainful.data.rows import Array, row_chunks
from gainful.errors import DataError

NOISE = 1e-12  # fraction of the sum of squares that may be rounding error
ROUNDING = 8 * float(np.finfo(np.float64).eps)  # fraction of the mean by which a constant feature may seem to vary
SMALLEST = 1e-290  # the reciprocal of a smaller deviation is too large to multiply with weights
SMALLEST_UNSCALED = 1e-150  # the square of a weight that makes up for a smaller deviation overflows
LEAST_EXPONENT = -1000


@dataclass(frozen=True)
class Spread:
    """``total`` is Σ ω over the rows. ``mean`` and ``deviation`` are (d,); a constant feature deviates by exactly 0."""

    total: float
    mean: Array
    deviation: Array

    def scales(self, scale: str | None) -> Array:
        """The divisor of each feature, (d,): its standard deviation ("standard") or 1 (None); ∞ if it is constant.

        A feature divided by ∞ is 0, and its weight v/∞ is exactly 0.
        """
        if scale is None:
            return np.where(self.deviation > SMALLEST_UNSCALED, 1.0, np.inf)
        return np.where(self.deviation > 0.0, self.deviation, np.inf)

    def mean_square(self, scale: str | None) -> float:
        """Σ_i ω_i ((x_ij − mean_j)/scale_j)², averaged over the features: a penalty in this unit suits any data."""
        return self.total * float(np.mean(np.square(self.deviation / self.scales(scale))))


@dataclass(frozen=True)
class Sums:
    """Σ ω of some rows, and for each feature Σ ω z and Σ ω z² with z = (x − shift)/unit.

    Units are powers of 2 near the largest |x − shift|, so squares neither overflow nor vanish, and nothing is rounded.
    """

    total: float
    unit: Array
    first: Array
    second: Array

    def __add__(self, other: Sums) -> Sums:
        unit = np.maximum(self.unit, other.unit)
        a, b = self.unit / unit, other.unit / unit
        first, second = a * self.first + b * other.first, a * a * self.second + b * b * other.second
        return Sums(self.total + other.total, unit, first, second)


def feature_spread(X: Any, weights: Array | None = None) -> Spread:
    """The spread of the rows of X, dense or CSR, without copying X."""
    shift = first_row(X, weights)
    return spread_of_sums([feature_sums(X, shift, weights)], shift)


def first_row(X: Any, weights: Array | None = None) -> Array:
    """The first row that counts: a point among the values, about which sums of squares lose few digits."""
    first = 0 if weights is None else int((weights > 0.0).argmax())
    row = X[first : first + 1]
    return np.asarray(row if isinstance(X, np.ndarray) else row.toarray(), dtype=np.float64).ravel()


def feature_sums(X: Any, shift: Array, weights: Array | None = None) -> Sums:
    """The sums about ``shift``."""
    omega = np.ones(X.shape[0]) if weights is None else weights
    sums = _dense_sums if isinstance(X, np.ndarray) else _sparse_sums
    nothing = Sums(0.0, np.full(X.shape[1], SMALLEST), np.zeros(X.shape[1]), np.zeros(X.shape[1]))
    width = X.shape[1] if isinstance(X, np.ndarray) else X.nnz / X.shape[0]
    counting = (_rows_that_count(X[rows], omega[rows]) for rows in row_chunks(X.shape[0], width))
    return functools.reduce(Sums.__add__, (sums(chunk, shift, own) for chunk, own in counting if len(own)), nothing)


def _rows_that_count(chunk: Any, omega: Array) -> tuple[Any, Array]:
    """The chunk and weights without rows of weight 0, whose values must not matter."""
    counts = omega > 0.0
    return (chunk, omega) if counts.all() else (chunk[counts], omega[counts])


def spread_of_sums(parts: list[Sums], shift: Array) -> Spread:
    """The spread of all rows, from the sums of their blocks about one point."""
    sums = functools.reduce(Sums.__add__, parts)
    mean, square = sums.first / sums.total, sums.second / sums.total
    variance = square - mean * mean
    if not np.isfinite(variance).all():
        raise DataError("the features are too far apart to be scaled: their differences overflow; rescale them first")
    deviation = sums.unit * np.sqrt(np.where(variance > NOISE * square, variance, 0.0))
    mean = shift + sums.unit * mean
    constant = deviation <= np.maximum(ROUNDING * np.abs(mean), SMALLEST)
    return Spread(sums.total, mean, np.where(constant, 0.0, deviation))


def _dense_sums(chunk: Array, shift: Array, omega: Array) -> Sums:
    z = chunk.astype(np.float64)
    z -= shift
    unit = _power_of_two(np.maximum(z.max(axis=0), -z.min(axis=0)))
    z /= unit
    first = omega @ z
    return Sums(float(omega.sum()), unit, first, omega @ np.square(z, out=z))


def _sparse_sums(chunk: Any, shift: Array, omega: Array) -> Sums:
    """Values not stored are 0 and count as such."""
    (n, d), at = chunk.shape, chunk.indices
    weight = np.repeat(omega, np.diff(chunk.indptr))
    all_stored = np.bincount(at, minlength=d) == n
    total = float(omega.sum())
    absent = np.where(all_stored, 0.0, np.maximum(total - np.bincount(at, weights=weight, minlength=d), 0.0))
    z = chunk.data.astype(np.float64) - shift[at]
    peak = np.where(all_stored, 0.0, np.abs(shift))
    np.maximum.at(peak, at, np.abs(z))
    unit = _power_of_two(peak)
    z /= unit[at]
    zero = -shift / unit
    first = np.bincount(at, weights=weight * z, minlength=d) + absent * zero
    second = np.bincount(at, weights=weight * z * z, minlength=d) + absent * zero * zero
    return Sums(total, unit, first, second)


def _power_of_two(peak: Array) -> Array:
    """The power of 2 just above each peak."""
    return np.ldexp(1.0, np.maximum(np.frexp(peak)[1], LEAST_EXPONENT))
