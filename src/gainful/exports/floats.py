"""Float32, in which every engine keeps features and thresholds: which one replaces a float64, and how to write it.

Our splits send a value left if x ≤ t, with t a float64. For float32 values, replacing t by the largest float32 that is
not above it sends the same rows left, and no other float32 does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gainful.data.rows import Array

LARGEST = np.finfo(np.float32).max
FARTHEST = float(np.finfo(np.float64).max)  # in place of infinity, which JSON lacks


def below(thresholds: Any) -> Array:
    """The largest float32 ≤ each threshold, finite."""
    wanted = np.asarray(thresholds, dtype=np.float64)
    with np.errstate(over="ignore"):
        rounded = wanted.astype(np.float32)
        lower = np.nextafter(rounded, np.float32(-np.inf))
    rounded = np.where(rounded.astype(np.float64) > wanted, lower, rounded)
    return np.asarray(np.clip(rounded, -LARGEST, LARGEST), dtype=np.float32)


def above(values: Any) -> Array:
    """The next float32 above each float32, finite: x < above(f) is x ≤ f."""
    with np.errstate(over="ignore"):
        upper = np.nextafter(np.asarray(values, dtype=np.float32), np.float32(np.inf))
    return np.asarray(np.minimum(upper, LARGEST) + np.float32(0.0), dtype=np.float32)  # −0 becomes 0


def single(value: Any) -> float:
    """A float32 as a number whose shortest text gives that float32 back, read as float32 or as float64 and rounded."""
    value = np.float32(value)
    short = float(str(value))
    return short if np.float32(short) == value else float(value)


def text(value: Any) -> str:
    """The same as text."""
    return repr(single(value))
