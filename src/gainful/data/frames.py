"""Feature matrices from whatever users have: arrays, sparse matrices, pandas, polars and Arrow tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gainful.data.categories import Categories, Ordered, encode_words, recode, unordered, word_of
from gainful.data.numbers import fill_masked, native_floats
from gainful.errors import DataError

NAMED = 5  # absent columns in a message
CODES = (np.uint8, np.uint16)


def as_features(X: Any, what: str = "X") -> tuple[Any, tuple[str, ...] | None]:
    """X as a C-contiguous float32/float64 array or a canonical CSR matrix, with the feature names of a frame.

    A frame with columns of text is refused; :func:`features_of` encodes them.

    Dense uint8 and uint16 stay as they are: they are bin codes, which only tree rankers use directly. Nothing is copied
    if X already has the right form. Missing entries of frames and masked entries of arrays become NaN.
    """
    matrix, names, categories = features_of(X, what)
    for j in unordered(categories):
        assert names is not None
        raise DataError(
            f"column {names[j]!r} of {what} must be numeric, but holds text; drop it or encode it as numbers"
        )
    return matrix, names


def features_of(X: Any, what: str = "X") -> tuple[Any, tuple[str, ...] | None, Categories | None]:
    """What :func:`as_features` returns, and the categories of columns that hold text."""
    refuse_dask(X, what)
    if hasattr(X, "collect") and hasattr(X, "lazy"):
        raise DataError(f"{what} is a lazy frame; collect() it first")
    if is_frame(X):
        return _frame_to_matrix(X, what)
    if _is_sparse(X):
        return _canonical_csr(X, what), None, None
    try:
        array = fill_masked(X) if isinstance(X, np.ma.MaskedArray) else np.asarray(X)
    except ValueError as error:
        raise DataError(f"{what} is not a rectangle: every row must have the same number of features") from error
    if array.ndim != 2:
        raise DataError(f"{what} must have two dimensions (rows, features), had {array.ndim}")
    return native_floats(array, _stored_dtype(array.dtype, CODES), f"{what} must be numeric"), None, None


def column_names(frame: Any) -> list[Any]:
    """The names of the columns of a pandas, polars or Arrow frame."""
    return list(frame.column_names if hasattr(frame, "column_names") else frame.columns)  # Arrow's columns are arrays


def select_columns(X: Any, names: Sequence[str] | None, what: str, use: str) -> Any:
    """The columns of a frame with these names, in this order; anything but a frame unchanged.

    ``use`` says who needs them, for the message.
    """
    if names is None or not is_frame(X):
        return X
    place = {str(name): name for name in column_names(X)}
    absent = [repr(name) for name in names if name not in place]
    if absent:
        more = "" if len(absent) <= NAMED else f" and {len(absent) - NAMED} more"
        features = "feature" if len(absent) == 1 else "features"
        raise DataError(f"{what} has no {features} {', '.join(absent[:NAMED])}{more}, which {use}")
    chosen = [place[name] for name in names]
    return X.select(chosen) if hasattr(X, "column_names") else X[chosen]


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


def is_frame(X: Any) -> bool:
    """Whether this is a pandas, polars or Arrow frame."""
    return hasattr(X, "columns") and hasattr(X, "__getitem__") and not isinstance(X, np.ndarray)


def _is_sparse(X: Any) -> bool:
    return hasattr(X, "tocsr") and hasattr(X, "nnz")


def _is_nullable_number(column: Any) -> bool:
    """Whether this is a pandas column of numbers with a mask of missing entries."""
    return getattr(column.dtype, "kind", None) in ("i", "u", "f", "b")


def _frame_to_matrix(frame: Any, what: str) -> tuple[npt.NDArray[Any], tuple[str, ...], Categories | None]:
    is_arrow = hasattr(frame, "column_names")
    if is_arrow and hasattr(frame, "validate"):
        try:
            frame.validate()  # lengths only: values that this process made are trusted
        except ValueError as error:
            raise DataError(f"{what} is not a valid Arrow table: {error}") from None
    names = column_names(frame)
    columns = [frame.column(name) if is_arrow else frame[name] for name in names]
    arrays = []
    categories: list[tuple[str, ...] | None] = []
    for name, column in zip(names, columns, strict=True):
        words, array = words_of_categorical(column), column_to_numpy(column)
        if array.ndim != 1:
            raise DataError(f"{what} has two columns named {name!r}; names must differ")
        if words is not None:
            array = column.cat.codes.to_numpy().astype(np.float64)
            array[array < 0] = np.nan
            used = in_order(words, {words[int(code)] for code in np.unique(array[~np.isnan(array)])})
            if used != words:
                array = recode(array[:, None], (words,), (used,), what, None)[:, 0]
            words = used or None
        elif array.dtype.kind in "OUT" and len(array):
            words, array = _encode_text(array)
        categories.append(words)
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
    held = None if all(words is None for words in categories) else tuple(categories)
    return matrix, tuple(str(name) for name in names), held


def words_of_categorical(column: Any) -> tuple[str, ...] | None:
    """The categories of a pandas column in their order, as words; None for any other column."""
    if not type(column).__module__.startswith("pandas") or not hasattr(getattr(column, "dtype", None), "ordered"):
        return None
    words = (Ordered if column.dtype.ordered else tuple)(word_of(value) for value in column.dtype.categories.tolist())
    if len(set(words)) < len(words):
        raise DataError(f"two categories of column {column.name!r} read alike; rename one")
    return words


def categoricals(frame: Any, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The words of those columns of a pandas frame that are categories."""
    found = {} if hasattr(frame, "column_names") else {name: words_of_categorical(frame[name]) for name in names}
    return {name: words for name, words in found.items() if words is not None}


def in_order(words: tuple[str, ...], used: Collection[str] | None) -> tuple[str, ...]:
    """The words in use; of an ordered category all, since each one's place counts."""
    return words if isinstance(words, Ordered) else tuple(word for word in words if word in (used or ()))


def _encode_text(column: npt.NDArray[Any]) -> tuple[tuple[str, ...] | None, npt.NDArray[Any]]:
    """The words of a column and their numbers; the column itself if it holds anything but text."""
    values = column.tolist()
    place: dict[Any, int] = {}
    rows = np.empty(len(values), dtype=np.int64)
    for row, value in enumerate(values):
        if isinstance(value, str):
            rows[row] = place.setdefault(value, len(place))
        elif value is None or value != value or type(value).__name__ == "NAType":
            rows[row] = -1
        else:
            return None, column
    return encode_words(place, rows) if place else (None, np.full(len(values), np.nan))


def _canonical_csr(X: Any, what: str) -> Any:
    _refuse_damaged(X, what)
    csr = X.tocsr()
    if csr is not X:
        _refuse_damaged(csr, what)
    dtype = _stored_dtype(csr.dtype)
    if csr.dtype != dtype or not csr.data.dtype.isnative:
        csr = type(csr)(
            (native_floats(csr.data, dtype, f"{what} must be numeric"), csr.indices, csr.indptr), shape=csr.shape
        )
    if not csr.has_canonical_format:
        csr = csr.copy()
        with np.errstate(over="ignore"):
            csr.sum_duplicates()
    return csr


def _refuse_damaged(X: Any, what: str) -> None:
    """Raise for positions outside a sparse matrix, at which compiled code would read and write out of bounds."""
    if not _positions_are_inside(X):
        raise DataError(
            f"{what} is a damaged sparse matrix: some of its values lie outside its shape {X.shape}; build it anew"
        )


def _positions_are_inside(X: Any) -> bool:
    if hasattr(X, "indptr"):
        rows, columns = X.shape[::-1] if X.format == "csc" else X.shape
        if X.format == "bsr":
            rows, columns = rows // X.blocksize[0], columns // X.blocksize[1]
        if len(X.indptr) != rows + 1 or X.indptr[0] != 0 or (X.indptr[1:] < X.indptr[:-1]).any():
            return False
        stored = int(X.indptr[-1])
        return stored <= min(len(X.indices), len(X.data)) and _within(X.indices[:stored], columns)
    if getattr(X, "format", None) == "coo":
        return all(len(at) == len(X.data) and _within(at, n) for at, n in zip((X.row, X.col), X.shape, strict=True))
    return True  # other kinds have no arrays of positions; the CSR matrix made from them is checked


def _within(positions: npt.NDArray[Any], n: int) -> bool:
    return len(positions) == 0 or bool(positions.min() >= 0 and positions.max() < n)


def _stored_dtype(given: np.dtype[Any], kept: tuple[Any, ...] = ()) -> npt.DTypeLike:
    """float32 for what it represents exactly in fewer bits, else float64; types in ``kept`` stay."""
    if given in kept:
        return given
    return np.float32 if given.newbyteorder("=") in (np.float32, np.float16) else np.float64
