"""Feature matrices from whatever users have: arrays, sparse matrices, pandas, polars and Arrow tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gainful.errors import DataError

CODES = (np.uint8, np.uint16)


def as_features(X: Any, what: str = "X") -> tuple[Any, tuple[str, ...] | None]:
    """X as a C-contiguous float32/float64 array or a canonical CSR matrix, with the feature names of a frame.

    Dense uint8 and uint16 stay as they are: they are bin codes, which only tree rankers use directly. Nothing is copied
    if X already has the right form. Missing entries of frames become NaN.
    """
    refuse_dask(X, what)
    if hasattr(X, "collect") and hasattr(X, "lazy"):
        raise DataError(f"{what} is a lazy frame; collect() it first")
    if _is_frame(X):
        return _frame_to_matrix(X, what)
    if _is_sparse(X):
        return _canonical_csr(X), None
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise DataError(f"{what} is not a rectangle: every row must have the same number of features") from error
    if array.ndim != 2:
        raise DataError(f"{what} must have two dimensions (rows, features), had {array.ndim}")
    return np.ascontiguousarray(array, dtype=array.dtype if array.dtype in CODES else _float_dtype(array, what)), None


def refuse_dask(values: Any, what: str) -> None:
    """Raise if values are a Dask collection: only the user knows its size, and so whether to compute it."""
    if hasattr(values, "__dask_graph__"):
        raise DataError(
            f"{what} is a Dask {type(values).__name__}, which gainful does not compute by itself; call compute() on it "
            "if it fits in memory. fit, predict and score take X, y and qid together as Dask arrays, or as a Dask frame"
        )


def without_codes(X: Any) -> Any:
    """X with uint8 and uint16 as float32, which represents all of them exactly."""
    return X.astype(np.float32) if X.dtype in CODES else X


def column_to_numpy(column: Any) -> npt.NDArray[Any]:
    """A Series, Arrow array, list or array as a NumPy array; nulls become NaN (numbers) or None."""
    if not hasattr(column, "to_numpy"):
        return np.asarray(column)
    if type(column).__module__.startswith("pyarrow"):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    array = np.asarray(column.to_numpy())
    if array.dtype == object and _is_nullable_number(column):
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    return array


def _is_frame(X: Any) -> bool:
    return hasattr(X, "columns") and hasattr(X, "__getitem__") and not isinstance(X, np.ndarray)


def _is_sparse(X: Any) -> bool:
    return hasattr(X, "tocsr") and hasattr(X, "nnz")


def _is_nullable_number(column: Any) -> bool:
    """Whether this is a pandas column of numbers with a mask of missing entries."""
    return getattr(column.dtype, "kind", None) in ("i", "u", "f", "b")


def _frame_to_matrix(frame: Any, what: str) -> tuple[npt.NDArray[Any], tuple[str, ...]]:
    is_arrow = hasattr(frame, "column_names")
    if is_arrow and hasattr(frame, "validate"):
        try:
            frame.validate()  # lengths only: values that this process made are trusted
        except ValueError as error:
            raise DataError(f"{what} is not a valid Arrow table: {error}") from None
    names = list(frame.column_names if is_arrow else frame.columns)
    columns = [frame.column(name) if is_arrow else frame[name] for name in names]
    arrays = []
    for name, column in zip(names, columns, strict=True):
        array = column_to_numpy(column)
        if array.ndim != 1:
            raise DataError(f"{what} has two columns named {name!r}; names must differ")
        if array.dtype.kind not in "fiub":
            raise DataError(
                f"column {name!r} of {what} must be numeric, was {getattr(column, 'dtype', array.dtype)}; drop it or "
                "encode it as numbers"
            )
        arrays.append(array)
    n_rows = len(arrays[0]) if arrays else 0
    kinds = {array.dtype for array in arrays}
    kept = len(kinds) == 1 and kinds <= {np.dtype(kind) for kind in (np.float32, *CODES)}
    dtype = kinds.pop() if kept else np.float64
    matrix = np.empty((n_rows, len(arrays)), dtype=dtype)
    for j, array in enumerate(arrays):
        matrix[:, j] = array
    return matrix, tuple(str(name) for name in names)


def _canonical_csr(X: Any) -> Any:
    csr = X.tocsr()
    dtype = _float_dtype(csr.data, "X")
    if csr.dtype != dtype:
        csr = csr.astype(dtype)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr


def _float_dtype(array: npt.NDArray[Any], what: str) -> npt.DTypeLike:
    if array.dtype == np.float32 or array.dtype == np.float64:
        return array.dtype
    if array.dtype == np.float16:
        return np.float32
    if array.dtype.kind in "iub":
        return np.float64
    if array.dtype == object:
        try:
            array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"{what} must be numeric: {error}") from error
        return np.float64
    raise DataError(f"{what} must be numeric, was {array.dtype}")
