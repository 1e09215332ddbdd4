"""From what users give to float64: one conversion for features, grades, weights and scores.

Integers, floating point numbers of any width and byte order, booleans and objects that Python's ``float`` takes are
numbers. Text is not, not even digits: a column of text is more often a mistake than a number. Nor are dates and complex
numbers. Masked features are missing (NaN); masked grades, weights, scores and ids are refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gainful.errors import DataError, shorten

Array = npt.NDArray[Any]
NUMBERS = "biuf"  # kinds of NumPy types

# What rankers compute with. Files and RankingData hold any finite number; fit and predict refuse what is beyond.
LARGEST_FEATURE = 1e150  # its square is far from overflow, even summed over 100 million rows
LEAST_SQUARES = 1e-280  # of all features together, where none is scaled: the inverse of a smaller sum overflows
LARGEST_GRADE = LARGEST_WEIGHT = 1e30  # trees store both in single precision, from 1e-38 to 3e38; smallest: 1e-30, or 0


def native_floats(array: Array, dtype: npt.DTypeLike, expected: str) -> Array:
    """A contiguous array of numbers as ``dtype``, in the byte order of this machine.

    What a wider type holds beyond the range of ``dtype`` becomes infinite. ``expected`` starts the message of an error:
    "X must be numeric".
    """
    if array.dtype == object:
        array = _from_objects(array, expected)
    elif array.dtype.kind not in NUMBERS:
        raise DataError(f"{expected}, was {array.dtype}; convert it to numbers first")
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, dtype=dtype)


def _from_objects(array: Array, expected: str) -> Array:
    text = next((value for value in array.ravel() if isinstance(value, (str, bytes))), None)
    if text is not None:
        raise DataError(f"{expected}, but holds the text {shorten(text)}; convert it to numbers first")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{expected}: {error}") from error


def refuse_masked(values: Any, what: str) -> None:
    """Raise at the first masked entry of a masked array."""
    mask = np.ma.getmask(values) if isinstance(values, np.ma.MaskedArray) else np.ma.nomask
    if np.any(mask):
        row = int(np.flatnonzero(np.any(np.atleast_2d(np.transpose(mask)), axis=0))[0])
        raise DataError(f"{what} of row {row} is masked; every row needs one, so leave out the rows without")


def fill_masked(array: Any) -> Array:
    """A masked array as a plain one, with NaN where entries are masked."""
    if not np.any(np.ma.getmask(array)):
        return np.asarray(array.data)
    if array.dtype.kind not in NUMBERS:
        return np.asarray(array.astype(object).filled(np.nan))
    # float32 holds NaN and every uint8, uint16 and float16
    narrow = array.dtype.itemsize <= 2 or array.dtype == np.float32
    return np.asarray(array.astype(np.float32 if narrow else np.float64).filled(np.nan))
