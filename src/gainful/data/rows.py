"""Rows: grouping them by query, and the checks that ranking data must pass."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from gainful.data.frames import column_to_numpy
from gainful.data.numbers import LARGEST_FEATURE, native_floats, refuse_masked
from gainful.errors import DataError

Array = npt.NDArray[Any]
CHUNK_VALUES = 1 << 20  # values of X processed at once, so that no temporary is as large as X
ONE_THREAD_VALUES, FEW_VALUES = 1 << 13, 1 << 17  # OpenBLAS multiplies up to 10,000 values on the calling thread
DEEPEST = 1_000_000  # a larger position is a mistake, such as a time; what is learned of positions takes their room
LARGEST_SCORE = 1e15  # beyond it doubles are further apart than what a tree adds

# -- grouping ----------------------------------------------------------------------------------------------------------


def query_of_rows(qid: Any, group: Any, n_rows: int) -> Any:
    """The query id of each row: ``qid`` itself, or 0, 1, … by the sizes in ``group``, rows of a query adjacent."""
    if group is None:
        if qid is None:
            raise DataError(
                "qid is missing; ranking needs the query id of every row, qid=[...], or the size of every query, "
                "group=[...]"
            )
        return qid
    if qid is not None:
        raise DataError("give qid (the query of each row) or group (the number of rows of each query), not both")
    sizes = number_column(group, "group sizes", "group size")
    if sizes.ndim != 1:
        raise DataError(f"group must have one dimension, had {sizes.ndim}")
    wrong = np.flatnonzero(~((sizes >= 1) & (sizes == np.floor(sizes))))
    if len(wrong):
        raise DataError(
            f"entry {wrong[0]} of group must be the size of a query, a whole number from 1, was {sizes[wrong[0]]:g}"
        )
    if sizes.sum() != n_rows:
        hint = "; query ids are given as qid" if len(sizes) == n_rows else ""
        raise DataError(f"the group sizes add up to {sizes.sum():,.0f}, but there are {n_rows:,} rows{hint}")
    return np.repeat(np.arange(len(sizes)), sizes.astype(np.int64))


def group_rows(qid: Any, n_rows: int) -> tuple[Array | None, Array, Array]:
    """Stable grouping of rows by query: (order, offsets, query_ids).

    ``order[i]`` is the input row that becomes row i, or ``order`` is None if the rows are already grouped.
    """
    if qid is None:
        raise DataError("qid is missing; ranking needs the query id of every row, qid=[...]")
    ids = as_id_array(qid, "qid")
    if len(ids) != n_rows:
        raise DataError(f"qid has {len(ids)} entries for {n_rows} rows")
    starts = np.concatenate([[0], np.flatnonzero(ids[1:] != ids[:-1]) + 1]).astype(np.int64)
    heads = ids[starts]
    if _all_differ(heads):
        return None, np.append(starts, n_rows), heads
    codes, query_ids = codes_by_first_appearance(ids)
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes, minlength=len(query_ids))
    return order, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), query_ids


def _all_differ(ids: Array) -> bool:
    try:
        return len(set(ids.tolist())) == len(ids)
    except TypeError as error:
        raise DataError(f"query ids must be hashable: {error}") from error


def as_id_array(ids: Any, what: str) -> Array:
    """Ids (any hashables) as a one-dimensional array without missing entries."""
    refuse_masked(ids, what)
    if isinstance(ids, (list, tuple)) and any(isinstance(i, (tuple, list)) for i in ids):
        array = np.empty(len(ids), dtype=object)
        array[:] = [tuple(i) if isinstance(i, list) else i for i in ids]
    elif isinstance(ids, (list, tuple)) and len({type(i) for i in ids}) > 1:
        array = np.empty(len(ids), dtype=object)  # NumPy would turn [1, "1"] into two equal strings
        array[:] = ids
    else:
        if isinstance(ids, (list, tuple)):
            _refuse_final_nul(ids, what)
        array = column_to_numpy(ids)
    if array.ndim != 1:
        raise DataError(f"{what} must have one dimension, had {array.ndim}")
    if array.dtype == object:
        missing = [i for i, value in enumerate(array) if _is_missing(value)]
        if missing:
            raise DataError(f"{what} of row {missing[0]} is missing")
        types = {type(value) for value in array}
        if types == {str}:
            _refuse_final_nul(array.tolist(), what)
            return array.astype(str)
        if types == {int}:
            return np.array(array.tolist())
    elif array.dtype.kind in "fmM" and np.isnan(array).any():
        raise DataError(f"{what} of row {int(np.flatnonzero(np.isnan(array))[0])} is missing")
    return array


def _refuse_final_nul(ids: Sequence[Any], what: str) -> None:
    """Raise for a text that ends in NUL, which NumPy drops: "a" and "a\\0" would become one id."""
    row = next((i for i, value in enumerate(ids) if isinstance(value, str) and value.endswith("\0")), None)
    if row is not None:
        raise DataError(f"{what} of row {row} ends in a NUL character, {ids[row]!r}; remove it")


def _is_missing(value: Any) -> bool:
    """Whether it is None, NaN, or a frame library's own marker (which, compared with itself, gives no truth value)."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def codes_by_first_appearance(ids: Array) -> tuple[Array, Array]:
    """A number for each id, and the distinct ids in the order in which they first appear."""
    if ids.dtype == object:
        known: dict[Any, int] = {}
        codes = np.fromiter((known.setdefault(value, len(known)) for value in ids), dtype=np.int64, count=len(ids))
        query_ids = np.empty(len(known), dtype=object)
        query_ids[:] = list(known)
        return codes, query_ids
    values, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    by_appearance = np.argsort(first)
    rank = np.empty_like(by_appearance)
    rank[by_appearance] = np.arange(len(by_appearance))
    return rank[inverse], values[by_appearance]


def rows_of_queries(offsets: Array, queries: Array) -> Array:
    """Row numbers of the given queries, one query after another."""
    starts, counts = offsets[queries], offsets[queries + 1] - offsets[queries]
    shift = np.repeat(starts - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    rows: Array = shift + np.arange(int(counts.sum()))
    return rows


def chunks(offsets: Array, first: int, last: int, step: int) -> list[int]:
    """Queries at which to cut, so that each chunk has about ``step`` rows and at least one query."""
    cuts, ends = [first], offsets[: last + 1]
    while cuts[-1] < last:
        here = cuts[-1]
        there = int(ends.searchsorted(ends[here] + step, "right")) - 1
        cuts.append(max(here + 1, there))
    return cuts


def is_rising(values: Array) -> bool:
    """Whether each value is greater than the one before; their differences might overflow."""
    return bool((values[1:] > values[:-1]).all())


def first_duplicate(ids: Array) -> Any:
    """The first id that appeared before, or None."""
    values = ids.tolist()
    if len(set(values)) == len(values):
        return None
    seen: set[Any] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


def join_optional(arrays: Sequence[Array | None], lengths: Sequence[int], fill: Any) -> Array | None:
    """All arrays as one, with ``fill`` in place of None; None if all are None."""
    if all(array is None for array in arrays):
        return None
    return np.concatenate(
        [np.full(n, fill) if array is None else array for array, n in zip(arrays, lengths, strict=True)]
    )


def stack_matrices(matrices: Sequence[Any], dtype: Any = None) -> Any:
    """The rows of all matrices as one matrix: dense or CSR, as the first is."""
    if isinstance(matrices[0], np.ndarray):
        return np.concatenate([m if isinstance(m, np.ndarray) else m.toarray() for m in matrices], dtype=dtype)
    from scipy import sparse  # slow to import, and rarely needed

    stored = [sparse.csr_array(m) if isinstance(m, np.ndarray) else m for m in matrices]
    return sparse.vstack(stored, format="csr", dtype=dtype)


# -- checks ------------------------------------------------------------------------------------------------------------


def number_column(values: Any, what: str, one: str) -> Array:
    """Numbers as contiguous float64. ``what`` names them in errors, and ``one`` a single one."""
    refuse_masked(values, one)
    try:
        column = column_to_numpy(values)
    except ValueError as error:  # a list of lists of different lengths
        raise DataError(f"{what} must be numbers: {error}") from error
    return native_floats(column, np.float64, f"{what} must be numbers")


def check_grades(y: Any, n_rows: int | None = None, first_row: int = 0) -> Array:
    """Grades as finite, non-negative float64. ``first_row`` is the number of the first one, for the message."""
    grades = number_column(y, "grades", "grade")
    if grades.ndim != 1:
        text = f"grades must have one dimension, had {grades.ndim}"
        if grades.ndim == 2 and grades.shape[1] in (2, 3):
            text += "; preferences are given as pairs, and for eval_set as RankingData.from_rows(X, qid=…, pairs=…)"
        raise DataError(text)
    if n_rows is not None and len(grades) != n_rows:
        raise DataError(f"y has {len(grades)} grades for {n_rows} rows")
    bad = np.flatnonzero(~np.isfinite(grades) | (grades < 0))
    if len(bad):
        raise DataError(f"grade of row {first_row + bad[0]} must be finite and not negative, was {grades[bad[0]]:g}")
    return grades


def refuse_empty(X: Any) -> None:
    """Raise if there is nothing to rank."""
    if X.shape[0] == 0:
        raise DataError("there are no rows; ranking data needs at least one query with one document")


@dataclass(frozen=True)
class FeatureFacts:
    """What one pass over finite features finds."""

    has_missing: bool = False  # whether any is NaN
    too_large: tuple[int, int, float] | None = None  # (row, column, value) of one beyond ±LARGEST_FEATURE
    squares: float = np.inf  # their sum; NaN with missing values, ∞ if it overflows or was not computed

    @property
    def is_ordinary(self) -> bool:
        """Whether nothing was found, so that nothing is to be found in any part either."""
        return not self.has_missing and self.too_large is None


def scan_features(X: Any, first_row: int = 0, order: Array | None = None) -> FeatureFacts:
    """Look at every feature value once; an infinite one is an error.

    Rows are numbered from ``first_row``, or by ``order``, the input position of each.
    """
    total, too_large, start = 0.0, None, 0
    for chunk in () if X.dtype.kind == "u" else value_chunks(X):
        values = chunk.reshape(-1)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = _sum_of_squares(values)  # the cheapest pass: NaN if any value is, large if any value is
        total += squares
        if not squares <= min(LARGEST_FEATURE**2, float(np.finfo(values.dtype).max)):
            far = _first_beyond(values)
            if far is not None:
                row, column = _place_of(X, start + far)
                row = first_row + row if order is None else int(order[row])
                if np.isinf(values[far]):
                    raise DataError(
                        f"feature {column + 1} of row {row} is infinite; features must be finite, or NaN where missing"
                    )
                too_large = too_large or (row, column, float(values[far]))
        start += chunk.size
    return FeatureFacts(total != total, too_large, total)


def _sum_of_squares(values: Array) -> float:
    """Few values in short pieces: waking BLAS's threads on a busy machine takes longer than adding them up."""
    step = ONE_THREAD_VALUES if len(values) <= FEW_VALUES else max(1, len(values))
    return sum(float(np.dot(part, part)) for part in (values[i : i + step] for i in range(0, len(values), step)))


def _first_beyond(values: Array) -> int | None:
    """Where the first infinite value is, else the first beyond ±LARGEST_FEATURE, else None."""
    largest = max(float(np.fmax.reduce(values)), -float(np.fmin.reduce(values)))  # both ignore NaN
    if not largest > LARGEST_FEATURE:
        return None
    return int(np.argmax(np.isinf(values) if np.isinf(largest) else np.abs(values) > LARGEST_FEATURE))


def refuse_infinite(X: Any, first_row: int = 0) -> None:
    """Raise at the first infinite feature value. NaN passes: it means missing. ``first_row`` as for grades."""
    scan_features(X, first_row)


def row_chunks(n_rows: int, width: float, values: int | None = None) -> Iterator[slice]:
    """Runs of rows with about ``values`` values each, by default CHUNK_VALUES; a row has ``width`` values."""
    step = max(1, int((CHUNK_VALUES if values is None else values) / max(width, 1.0)))
    return (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))


def value_chunks(X: Any) -> Iterator[Array]:
    if isinstance(X, np.ndarray):
        return (X[rows] for rows in row_chunks(*X.shape))
    if hasattr(X, "chunks"):  # several arrays, one below the other
        return chain.from_iterable(map(value_chunks, X.chunks))
    return (X.data[i : i + CHUNK_VALUES] for i in range(0, X.nnz, CHUNK_VALUES))


def read_only(array: Array) -> Array:
    """A plain read-only view: to the compiler, writable and read-only arrays are different types."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def is_mapped(X: Any) -> bool:
    """Whether the values are mapped from a file, so that only those in use take memory."""
    values = X if isinstance(X, np.ndarray) else getattr(X, "data", None)
    while isinstance(values, np.ndarray):
        values = values.base
    return isinstance(values.obj if isinstance(values, memoryview) else values, mmap.mmap)


def _place_of(X: Any, flat: int) -> tuple[int, int]:
    if not hasattr(X, "indptr"):
        return flat // X.shape[1], flat % X.shape[1]
    return int(np.searchsorted(X.indptr, flat, side="right") - 1), int(X.indices[flat])


def linear_scores(X: Any, w: Array) -> Array:
    """X·w in float64 whatever the type of X, without a float64 copy of X; scores that overflow are infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        if X.dtype == np.float64:
            return np.asarray(X @ w)
        scores = np.empty(X.shape[0])
        for rows in row_chunks(*X.shape):
            scores[rows] = X[rows].astype(np.float64) @ w
        return scores


class Columns:
    """The features of X one at a time, in float64. A CSR matrix is copied to CSC; a dense one is not copied."""

    def __init__(self, X: Any):
        self._dense = isinstance(X, np.ndarray)
        self._X = X if self._dense else X.tocsc()
        self.n_features = int(X.shape[1])

    def __getitem__(self, j: int) -> Array:
        if self._dense:
            return np.ascontiguousarray(self._X[:, j], dtype=np.float64)
        column = np.zeros(self._X.shape[0])
        inside = slice(int(self._X.indptr[j]), int(self._X.indptr[j + 1]))
        np.add.at(column, self._X.indices[inside], self._X.data[inside])
        return column


def check_column(values: Any, n: int, what: str) -> Array:
    array = number_column(values, what, what)
    if array.shape != (n,):
        raise DataError(f"{what} must have {n} entries, had shape {array.shape}")
    return array


def check_query_weights(weights: Any, n_queries: int, *, all_zero: bool = False) -> Array | None:
    """Weights as float64. ``all_zero``: they may all be 0, as in one shard of many."""
    if weights is None:
        return None
    array = check_column(weights, n_queries, "query_weights")
    if not np.isfinite(array).all() or (array < 0).any():
        raise DataError("query weights must be finite and not negative")
    if not all_zero and not array.any():
        raise DataError("all query weights are 0")
    return array


def check_row_weights(weights: Any, n_rows: int, first_row: int = 0, what: str = "sample_weight") -> Array:
    """One weight per row as float64. ``first_row`` is the number of the first row, for the message."""
    array = check_column(weights, n_rows, what)
    bad = np.flatnonzero(~np.isfinite(array) | (array < 0))
    if len(bad):
        raise DataError(f"{what} of row {first_row + bad[0]} must be finite and not negative, was {array[bad[0]]:g}")
    return array


def check_init_scores(scores: Any, n_rows: int, what: str = "init_score", first_row: int = 0) -> Array | None:
    """One score per row as float64 within LARGEST_SCORE, or None. ``first_row`` as for grades."""
    if scores is None:
        return None
    array = check_column(scores, n_rows, what)
    bad = np.flatnonzero(~(np.abs(array) <= LARGEST_SCORE))
    if len(bad):
        raise DataError(
            f"{what} of row {first_row + bad[0]} must be a number from -1e15 to 1e15, was {array[bad[0]]:g}; beside "
            "larger ones what training adds is lost"
        )
    return array


def check_positions(positions: Any, n_rows: int, clicks: Array, what: str = "position", first_row: int = 0) -> Any:
    """One position per row as int64, or None: from 1, and 0 for what was not shown. ``first_row`` as for grades."""
    if positions is None:
        return None
    array = check_column(positions, n_rows, what)
    bad = np.flatnonzero(~((array >= 0) & (array == np.floor(array)) & (array <= DEEPEST)))
    if len(bad):
        raise DataError(
            f"{what} of row {first_row + bad[0]} must be a whole number from 1 to {DEEPEST:,}, or 0 if the document "
            f"was not shown; was {array[bad[0]]:.10g}"
        )
    odd = np.flatnonzero((array == 0) & (clicks > 0))
    if len(odd):
        raise DataError(
            f"{what} of row {first_row + odd[0]} is 0, which means not shown, but the row has a click; positions "
            "count from 1"
        )
    return array.astype(np.int64)


def check_propensities(values: Any, n_rows: int, what: str = "propensity", first_row: int = 0) -> Array | None:
    """One probability above 0 per row as float64, or None. ``first_row`` as for grades."""
    if values is None:
        return None
    array = check_column(values, n_rows, what)
    bad = np.flatnonzero(~((array > 0) & (array <= 1)))
    if len(bad):
        raise DataError(
            f"{what} of row {first_row + bad[0]} must be a probability above 0 and at most 1, was {array[bad[0]]:g}"
        )
    return array


def split_weights(weights: Array, offsets: Array) -> tuple[Array, Array | None]:
    """The weight of each query, which is the mean weight of its rows; and the weights, None if equal within queries."""
    starts, counts = offsets[:-1], np.diff(offsets)
    low, high = np.minimum.reduceat(weights, starts), np.maximum.reduceat(weights, starts)
    if np.array_equal(low, high):
        return low, None
    unit = np.where(high > 0.0, high, 1.0)  # so that no sum overflows
    means = unit * (np.add.reduceat(weights / np.repeat(unit, counts), starts) / counts)
    return np.where(low == high, low, means), weights


def weight_fields(by_row: Array | None, offsets: Array) -> dict[str, Array | None]:
    """The fields of a RankingData for these weights of its rows, which are checked already."""
    if by_row is None:
        return {}
    means, documents = split_weights(by_row, offsets)
    return {"query_weights": means, "document_weights": documents}


def relative_weights(weights: Array, offsets: Array) -> Array:
    """Weights of rows over the mean of their query; 1 in a query whose rows all have weight 0."""
    means, _ = split_weights(weights, offsets)
    repeated = np.repeat(means, np.diff(offsets))
    return np.asarray(np.divide(weights, repeated, out=np.ones(len(weights)), where=repeated > 0.0))


def check_doc_ids(doc_ids: Any, n_rows: int) -> Array | None:
    if doc_ids is None:
        return None
    array = as_id_array(doc_ids, "doc_ids")
    if len(array) != n_rows:
        raise DataError(f"doc_ids has {len(array)} entries for {n_rows} rows")
    return array


def check_names(names: Sequence[str] | None, n_features: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    if isinstance(names, str):
        raise DataError(f"feature_names must be a list of names, was {names!r}")
    names = tuple(str(name) for name in names)
    if len(names) != n_features:
        raise DataError(f"there are {len(names)} feature names for {n_features} features")
    odd = next((name for name in names if not is_unicode(name)), None)
    if odd is not None:
        raise DataError(f"feature name {odd!r} is not valid Unicode text")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"feature name {twice!r} is given twice")
    return names


def is_unicode(text: str) -> bool:
    """Whether the text can be encoded, that is, has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
