"""Features on a logarithmic scale: sign(x)·log(1 + |x|/unit), with a unit of each feature's own.

The unit is the geometric mean of the feature's values other than 0. So it changes with the unit of measurement, and the
result does not: milliseconds and seconds give the same numbers. A factor of a power of two gives them bit by bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gainful.data.rows import Array, row_chunks
from gainful.data.spread import Spread, feature_sums, spread_of_sums


def log_scale(X: Array, unit: Array) -> Array:
    """sign(x)·log(1 + |x|/unit) in float64, of a dense X."""
    return np.asarray(np.copysign(np.log1p(np.abs(X) / unit), X))


def log_units(X: Any, weights: Array | None = None) -> Array:
    """The unit of each feature, (d,); rows of weight 0 do not count, and a feature that is always 0 has the unit 1."""
    n, exponents, logs = (np.zeros(X.shape[1], dtype=np.int64 if place < 2 else np.float64) for place in range(3))
    for chunk in _counting_chunks(X, weights):
        inside = chunk != 0.0
        mantissa, exponent = np.frexp(np.where(inside, np.abs(chunk), 1.0))
        n += inside.sum(axis=0)
        exponents += np.where(inside, exponent, 0).sum(axis=0, dtype=np.int64)
        logs += np.log2(np.where(inside, mantissa, 1.0)).sum(axis=0)
    found = np.maximum(n, 1)
    whole, rest = np.divmod(exponents, found)  # in whole numbers: a power of two changes `whole` alone
    return np.where(n > 0, np.ldexp(np.exp2(rest / found + logs / found), whole), 1.0)


def log_spread(X: Any, unit: Array, weights: Array | None = None) -> Spread:
    """Mean and deviation of each feature on its logarithmic scale, without copying X."""
    first = np.zeros(X.shape[1])
    parts = []
    for rows in row_chunks(X.shape[0], X.shape[1]):
        own = None if weights is None else weights[rows]
        parts.append(feature_sums(log_scale(_dense(X[rows]), unit), first, own))
    return spread_of_sums(parts, first)


def _counting_chunks(X: Any, weights: Array | None) -> Any:
    for rows in row_chunks(X.shape[0], X.shape[1]):
        chunk = _dense(X[rows])
        yield chunk if weights is None else chunk[weights[rows] > 0.0]


def _dense(chunk: Any) -> Array:
    return np.asarray(chunk if isinstance(chunk, np.ndarray) else chunk.toarray(), dtype=np.float64)
