"""``RankingData``: queries with their documents, the only dataset type in gainful.

Conventions
-----------
Rows of one query are adjacent. Query ``q`` owns the rows ``offsets[q]:offsets[q + 1]``.

======================  ============================  ==========================================================
``X``                   (n_rows, n_features)          C-contiguous float32/float64, or CSR; NaN means missing
``y``                   (n_rows,) float64             grades, finite and ≥ 0
``offsets``             (n_queries + 1,) int64        starts at 0, strictly increasing
``query_ids``           (n_queries,)                  distinct, in order of first appearance
``doc_ids``             (n_rows,) or None
``feature_names``       n_features strings or None
``query_weights``       (n_queries,) float64 or None  finite and ≥ 0, not all 0
``input_order``         (n_rows,) int64 or None       where each row stood in the input; None when nothing moved
======================  ============================  ==========================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from gainful.errors import DataError
from gainful.frames import as_features, column_to_numpy

Array = npt.NDArray[Any]
BLOCK_VALUES = 1 << 20  # values looked at together by checks, so that no temporary is as large as X


@dataclass(frozen=True, eq=False, repr=False)
class RankingData:
    """Query-document feature vectors with graded relevance, grouped by query and read-only.

    Build it with :meth:`from_rows` (one query id per row, any order) or :func:`gainful.read`. The constructor itself
    takes rows that are already grouped.
    """

    X: Any
    y: Array
    offsets: Array
    query_ids: Array
    doc_ids: Array | None = None
    feature_names: tuple[str, ...] | None = None
    query_weights: Array | None = None
    input_order: Array | None = field(default=None)

    def __post_init__(self) -> None:
        X, names = as_features(self.X)
        n_rows, n_features = X.shape
        if n_rows == 0:
            raise DataError("there are no rows; ranking data needs at least one query with one document")
        y = checked_grades(self.y, n_rows)
        offsets = np.ascontiguousarray(self.offsets, dtype=np.int64)
        if offsets.ndim != 1 or len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != n_rows:
            raise DataError(f"offsets must run from 0 to the number of rows ({n_rows})")
        if np.any(np.diff(offsets) <= 0):
            raise DataError("offsets must increase strictly; a query has at least one document")
        query_ids = as_id_array(self.query_ids, "query_ids")
        if len(query_ids) != len(offsets) - 1:
            raise DataError(f"there are {len(query_ids)} query ids for {len(offsets) - 1} queries")
        refuse_infinite(X)
        self._fill(
            X=X,
            y=y,
            offsets=offsets,
            query_ids=query_ids,
            doc_ids=_checked_doc_ids(self.doc_ids, n_rows),
            feature_names=_checked_names(self.feature_names if self.feature_names is not None else names, n_features),
            query_weights=_checked_weights(self.query_weights, len(query_ids)),
            input_order=self.input_order,
        )

    @classmethod
    def from_rows(
        cls,
        X: Any,
        y: Any,
        qid: Any,
        *,
        doc_ids: Any = None,
        feature_names: Sequence[str] | None = None,
        sample_weight: Any = None,
    ) -> RankingData:
        """Group rows by query. Rows of one query need not be adjacent; the order inside a query is kept.

        Queries stand in order of first appearance. ``sample_weight`` has one weight per row, equal within a query: it
        is the query that is weighted. :meth:`to_input_order` maps results back to the order of the rows given.
        """
        X, names = as_features(X)
        n_rows = X.shape[0]
        if n_rows == 0:
            raise DataError("there are no rows; ranking data needs at least one query with one document")
        grades = checked_grades(y, n_rows)
        order, offsets, query_ids = group_rows(qid, n_rows)
        ids = _checked_doc_ids(doc_ids, n_rows)
        weights = None if sample_weight is None else _checked_length(sample_weight, n_rows, "sample_weight")
        if order is not None:
            X, grades = X[order], grades[order]
            ids = None if ids is None else ids[order]
            weights = None if weights is None else weights[order]
        return cls(
            X=X,
            y=grades,
            offsets=offsets,
            query_ids=query_ids,
            doc_ids=ids,
            feature_names=tuple(feature_names) if feature_names is not None else names,
            query_weights=None if weights is None else _weights_of_queries(weights, offsets, query_ids),
            input_order=order,
        )

    @classmethod
    def trusted(cls, **fields: Any) -> RankingData:
        """Build without checks, from fields another RankingData has passed (slices, gainful's own files)."""
        data = object.__new__(cls)
        defaults = dict.fromkeys(("doc_ids", "feature_names", "query_weights", "input_order"))
        data._fill(**(defaults | fields))
        return data

    def _fill(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, _read_only(value))

    # -- shape ---------------------------------------------------------------------------------------------------------

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    @property
    def n_queries(self) -> int:
        return len(self.offsets) - 1

    def __len__(self) -> int:
        """The number of queries."""
        return self.n_queries

    @cached_property
    def counts(self) -> Array:
        """Documents of each query, (n_queries,) int64."""
        return np.diff(self.offsets)

    @cached_property
    def qid(self) -> Array:
        """The query id of each row, (n_rows,)."""
        return np.repeat(self.query_ids, self.counts)

    @property
    def is_sparse(self) -> bool:
        return not isinstance(self.X, np.ndarray)

    @cached_property
    def has_missing(self) -> bool:
        """Whether any feature value is NaN."""
        return any(bool(np.isnan(block).any()) for block in _value_blocks(self.X))

    # -- rows back in the order given ----------------------------------------------------------------------------------

    def to_input_order(self, values: Any) -> Array:
        """One value per row of this data, put back into the order in which the rows were given."""
        values = np.asarray(values)
        if len(values) != self.n_rows:
            raise DataError(f"there are {len(values)} values for {self.n_rows} rows")
        if self.input_order is None:
            return values
        restored = np.empty_like(values)
        restored[self.input_order] = values
        return restored

    # -- selection -----------------------------------------------------------------------------------------------------

    def __getitem__(self, queries: int | slice | Sequence[int] | Array) -> RankingData:
        """The data of some queries, by position: ``data[3]``, ``data[10:20]``, ``data[[4, 1]]``, ``data[mask]``.

        A slice with step 1 shares memory; anything else copies the rows it takes.
        """
        if isinstance(queries, slice) and queries.step in (None, 1):
            start, stop, _ = queries.indices(self.n_queries)
            rows: Any = slice(int(self.offsets[start]), int(self.offsets[max(start, stop)]))
            chosen = np.arange(start, max(start, stop))
        else:
            chosen = self._positions(queries)
            rows = rows_of_queries(self.offsets, chosen)
        if len(chosen) == 0:
            raise DataError("the selection holds no query")
        return RankingData.trusted(
            X=self.X[rows],
            y=self.y[rows],
            offsets=np.concatenate([[0], np.cumsum(self.counts[chosen])]).astype(np.int64),
            query_ids=self.query_ids[chosen],
            doc_ids=None if self.doc_ids is None else self.doc_ids[rows],
            feature_names=self.feature_names,
            query_weights=None if self.query_weights is None else self.query_weights[chosen],
        )

    def _positions(self, queries: Any) -> Array:
        if isinstance(queries, (int, np.integer)):
            queries = [queries]
        elif isinstance(queries, slice):
            queries = np.arange(self.n_queries)[queries]
        chosen = np.asarray(queries)
        if chosen.dtype == bool:
            if chosen.shape != (self.n_queries,):
                raise DataError(f"a mask over queries needs {self.n_queries} entries, had {chosen.shape}")
            return np.flatnonzero(chosen)
        if chosen.size and chosen.dtype.kind not in "iu":
            raise DataError("select queries by position (integers or a mask); by id use .select(ids)")
        chosen = chosen.astype(np.int64)
        if chosen.size and (chosen.min() < -self.n_queries or chosen.max() >= self.n_queries):
            raise IndexError(f"query position out of range for {self.n_queries} queries")
        chosen = np.where(chosen < 0, chosen + self.n_queries, chosen)
        if len(np.unique(chosen)) != len(chosen):
            raise DataError("a query was selected twice; query ids must stay distinct")
        return chosen

    def select(self, ids: Iterable[Any]) -> RankingData:
        """The data of the queries with these ids, in the order of ``ids``."""
        position = {query: i for i, query in enumerate(self.query_ids.tolist())}
        chosen = []
        for query in ids:
            key = query.item() if isinstance(query, np.generic) else query
            if key not in position:
                raise DataError(f"there is no query {key!r} in this data")
            chosen.append(position[key])
        return self[chosen]

    def __iter__(self) -> Iterator[RankingData]:
        """One RankingData per query."""
        return (self[q : q + 1] for q in range(self.n_queries))

    @staticmethod
    def concatenate(parts: Sequence[RankingData]) -> RankingData:
        """All queries of all parts, in order. The parts must agree on features and share no query id."""
        if not parts:
            raise DataError("there is nothing to concatenate")
        first = parts[0]
        for i, part in enumerate(parts):
            if part.n_features != first.n_features:
                raise DataError(f"part {i} has {part.n_features} features, part 0 has {first.n_features}")
            if part.feature_names != first.feature_names:
                raise DataError(f"part {i} has other feature names than part 0")
            if part.is_sparse != first.is_sparse:
                raise DataError(f"part {i} is {'sparse' if part.is_sparse else 'dense'} and part 0 is not")
        all_ids = [query for part in parts for query in part.query_ids.tolist()]
        query_ids = as_id_array(all_ids, "query_ids")
        if len(set(query_ids.tolist())) != len(query_ids):
            seen: set[Any] = set()
            twice = next(query for query in query_ids.tolist() if query in seen or seen.add(query))
            raise DataError(f"query {twice!r} is in two parts; give the queries of each part ids of their own")
        starts = np.cumsum([0] + [part.n_rows for part in parts])
        return RankingData.trusted(
            X=_stack(parts),
            y=np.concatenate([part.y for part in parts]),
            offsets=np.concatenate(
                [[0], *(part.offsets[1:] + s for part, s in zip(parts, starts, strict=False))]
            ).astype(np.int64),
            query_ids=query_ids,
            doc_ids=_join_optional([part.doc_ids for part in parts], [part.n_rows for part in parts], ""),
            feature_names=first.feature_names,
            query_weights=_join_optional([p.query_weights for p in parts], [p.n_queries for p in parts], 1.0),
        )

    def with_n_features(self, n_features: int) -> RankingData:
        """The same data with zero columns added at the end: in LETOR text a feature not written is 0."""
        extra = n_features - self.n_features
        if extra < 0:
            raise DataError(f"the data has {self.n_features} features, more than the {n_features} asked for")
        if extra == 0:
            return self
        if self.feature_names is not None:
            raise DataError(f"the data names its {self.n_features} features, so {n_features} cannot be meant")
        if self.is_sparse:
            wider = self.X.copy()
            wider.resize((self.n_rows, n_features))
        else:
            wider = np.zeros((self.n_rows, n_features), dtype=self.X.dtype)
            wider[:, : self.n_features] = self.X
        return self.replace(X=wider)

    def replace(self, **fields: Any) -> RankingData:
        """A copy with some fields replaced, unchecked; for code that keeps the conventions itself."""
        mine = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return RankingData.trusted(**(mine | fields))

    # -- looking at it -------------------------------------------------------------------------------------------------

    def equals(self, other: RankingData) -> bool:
        """The same arrays, ids, names and weights (missing values equal each other). Row history is not compared."""
        if self.is_sparse != other.is_sparse or self.X.shape != other.X.shape or self.X.dtype != other.X.dtype:
            return False
        return (
            _same_matrix(self.X, other.X)
            and np.array_equal(self.y, other.y)
            and np.array_equal(self.offsets, other.offsets)
            and _same_optional(self.query_ids, other.query_ids)
            and _same_optional(self.doc_ids, other.doc_ids)
            and _same_optional(self.query_weights, other.query_weights)
            and self.feature_names == other.feature_names
        )

    def describe(self) -> Description:
        """Counts and ranges that tell whether this is the data one meant."""
        return _describe(self)

    def __repr__(self) -> str:
        kind = "sparse" if self.is_sparse else "dense"
        return (
            f"RankingData({self.n_queries:,} queries, {self.n_rows:,} documents, {self.n_features:,} features, "
            f"{kind} {self.X.dtype})"
        )


@dataclass(frozen=True)
class Description:
    """What :meth:`RankingData.describe` found. ``str`` gives a readable text, :meth:`to_dict` the values."""

    queries: int
    documents: int
    features: int
    documents_per_query: dict[str, float]
    grades: dict[str, int] | None
    grade_range: tuple[float, float]
    queries_without_relevant: int
    queries_of_one_grade: int
    missing_values: int
    constant_features: int
    storage: str
    density: float
    bytes: int
    weighted: bool

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def rows(self) -> list[tuple[str, str]]:
        """Label and text of each fact, in reading order."""
        per = self.documents_per_query
        low, high = self.grade_range
        if self.grades is not None:
            grades = ", ".join(f"{grade}: {count:,}" for grade, count in self.grades.items())
        else:
            grades = f"real-valued, {low:g} to {high:g}"
        storage = f"{self.storage}, {self.bytes / 2**20:,.1f} MiB"
        if self.density < 1:
            storage += f", {self.density:.1%} of the values are not zero"
        rows = [
            ("queries", f"{self.queries:,}" + (" (weighted)" if self.weighted else "")),
            ("documents", f"{self.documents:,}"),
            (
                "documents a query",
                f"{per['min']:,.0f} to {per['max']:,.0f}, median {per['median']:,.0f}, mean {per['mean']:,.1f}",
            ),
            ("features", f"{self.features:,}" + (f" ({self.constant_features:,} constant)"
                                                  if self.constant_features else "")),
            ("grades", grades),
            ("missing values", f"{self.missing_values:,}"),
            ("storage", storage),
        ]
        if self.queries_without_relevant:
            rows.append(("queries without a relevant document", f"{self.queries_without_relevant:,}"))
        if self.queries_of_one_grade:
            rows.append(("queries whose grades are all equal", f"{self.queries_of_one_grade:,}"))
        return rows

    def __str__(self) -> str:
        rows = self.rows()
        width = max(len(label) for label, _ in rows)
        return "\n".join(f"{label:<{width}}  {text}" for label, text in rows)


# -- grouping ----------------------------------------------------------------------------------------------------------


def group_rows(qid: Any, n_rows: int) -> tuple[Array | None, Array, Array]:
    """Stable grouping of rows by query: (order, offsets, query_ids).

    ``order[i]`` is the input row that becomes row i, or ``order`` is None when the rows are grouped already.
    """
    if qid is None:
        raise DataError("qid is missing; ranking needs the query id of every row, qid=[...]")
    ids = as_id_array(qid, "qid")
    if len(ids) != n_rows:
        raise DataError(f"qid has {len(ids)} entries for {n_rows} rows")
    starts = np.concatenate([[0], np.flatnonzero(ids[1:] != ids[:-1]) + 1]).astype(np.int64)
    heads = ids[starts]
    if len(set(heads.tolist())) == len(heads):
        return None, np.append(starts, n_rows), heads
    codes, query_ids = _codes_by_first_appearance(ids)
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes, minlength=len(query_ids))
    return order, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), query_ids


def as_id_array(ids: Any, what: str) -> Array:
    """Ids (any hashables) as a one-dimensional array without missing entries."""
    if isinstance(ids, (list, tuple)) and any(isinstance(i, (tuple, list)) for i in ids):
        array = np.empty(len(ids), dtype=object)
        array[:] = [tuple(i) if isinstance(i, list) else i for i in ids]
    elif isinstance(ids, (list, tuple)) and len({type(i) for i in ids}) > 1:
        array = np.empty(len(ids), dtype=object)  # NumPy would turn [1, "1"] into two equal strings
        array[:] = ids
    else:
        array = column_to_numpy(ids)
    if array.ndim != 1:
        raise DataError(f"{what} must have one dimension, had {array.ndim}")
    if array.dtype == object:
        missing = [i for i, value in enumerate(array) if value is None or value != value]  # noqa: PLR0124
        if missing:
            raise DataError(f"{what} of row {missing[0]} is missing")
        types = {type(value) for value in array}
        if types == {str}:
            return array.astype(str)
        if types == {int}:
            return np.array(array.tolist())
    elif array.dtype.kind in "fmM" and np.isnan(array).any():
        raise DataError(f"{what} of row {int(np.flatnonzero(np.isnan(array))[0])} is missing")
    return array


def _codes_by_first_appearance(ids: Array) -> tuple[Array, Array]:
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
    """Row numbers of the given queries, one query after the other."""
    starts, counts = offsets[queries], offsets[queries + 1] - offsets[queries]
    shift = np.repeat(starts - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    rows: Array = shift + np.arange(int(counts.sum()))
    return rows


# -- checks ------------------------------------------------------------------------------------------------------------


def checked_grades(y: Any, n_rows: int | None = None) -> Array:
    """Grades as finite, non-negative float64."""
    try:
        grades = np.ascontiguousarray(column_to_numpy(y), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"grades must be numbers: {error}") from error
    if grades.ndim != 1:
        raise DataError(f"grades must have one dimension, had {grades.ndim}")
    if n_rows is not None and len(grades) != n_rows:
        raise DataError(f"y has {len(grades)} grades for {n_rows} rows")
    bad = np.flatnonzero(~np.isfinite(grades) | (grades < 0))
    if len(bad):
        raise DataError(f"grade of row {bad[0]} must be finite and not negative, was {grades[bad[0]]:g}")
    return grades


def refuse_infinite(X: Any) -> None:
    """Raise at the first infinite feature value. NaN passes: it means missing."""
    start = 0
    for block in _value_blocks(X):
        with np.errstate(over="ignore", invalid="ignore"):
            suspicious = not np.isfinite(block.sum())  # one cheap pass settles the ordinary case
        if suspicious and np.isinf(block).any():
            flat = start + int(np.flatnonzero(np.isinf(block).ravel())[0])
            row, column = _place_of(X, flat)
            raise DataError(
                f"feature {column + 1} of row {row} is infinite; features must be finite, or NaN where missing"
            )
        start += block.size


def _value_blocks(X: Any) -> Iterator[Array]:
    if isinstance(X, np.ndarray):
        step = max(1, BLOCK_VALUES // max(1, X.shape[1]))
        return (X[i : i + step] for i in range(0, X.shape[0], step))
    return (X.data[i : i + BLOCK_VALUES] for i in range(0, X.nnz, BLOCK_VALUES))


def _place_of(X: Any, flat: int) -> tuple[int, int]:
    if isinstance(X, np.ndarray):
        return flat // X.shape[1], flat % X.shape[1]
    return int(np.searchsorted(X.indptr, flat, side="right") - 1), int(X.indices[flat])


def _checked_length(values: Any, n: int, what: str) -> Array:
    try:
        array = np.ascontiguousarray(column_to_numpy(values), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} must be numbers: {error}") from error
    if array.shape != (n,):
        raise DataError(f"{what} must have {n} entries, had shape {array.shape}")
    return array


def _checked_weights(weights: Any, n_queries: int) -> Array | None:
    if weights is None:
        return None
    array = _checked_length(weights, n_queries, "query_weights")
    if not np.isfinite(array).all() or (array < 0).any():
        raise DataError("query weights must be finite and not negative")
    if not array.any():
        raise DataError("all query weights are 0")
    return array


def _weights_of_queries(weights: Array, offsets: Array, query_ids: Array) -> Array:
    low = np.minimum.reduceat(weights, offsets[:-1])
    differs = np.flatnonzero(low != np.maximum.reduceat(weights, offsets[:-1]))
    if len(differs):
        raise DataError(
            f"sample_weight differs between rows of query {query_ids[differs[0]]}; gainful weights whole queries, so "
            "give every row of a query the same weight"
        )
    return np.asarray(low)


def _checked_doc_ids(doc_ids: Any, n_rows: int) -> Array | None:
    if doc_ids is None:
        return None
    array = as_id_array(doc_ids, "doc_ids")
    if len(array) != n_rows:
        raise DataError(f"doc_ids has {len(array)} entries for {n_rows} rows")
    return array


def _checked_names(names: Sequence[str] | None, n_features: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    names = tuple(str(name) for name in names)
    if len(names) != n_features:
        raise DataError(f"there are {len(names)} feature names for {n_features} features")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"feature name {twice!r} is given twice")
    return names


def _read_only(value: Any) -> Any:
    """A view that refuses writes; the caller's own array stays as it was."""
    if isinstance(value, np.ndarray):
        view = value.view()
        view.flags.writeable = False
        return view
    if hasattr(value, "indptr"):
        parts = (_read_only(value.data), _read_only(value.indices), _read_only(value.indptr))
        frozen = type(value)(parts, shape=value.shape, copy=False)
        frozen.has_canonical_format = True
        return frozen
    return value


# -- small helpers -----------------------------------------------------------------------------------------------------


def _stack(parts: Sequence[RankingData]) -> Any:
    if parts[0].is_sparse:
        from scipy import sparse

        return sparse.vstack([part.X for part in parts], format="csr")
    return np.concatenate([part.X for part in parts])


def _join_optional(arrays: Sequence[Array | None], lengths: Sequence[int], fill: Any) -> Array | None:
    if all(array is None for array in arrays):
        return None
    return np.concatenate(
        [np.full(n, fill) if array is None else array for array, n in zip(arrays, lengths, strict=True)]
    )


def _same_matrix(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return np.array_equal(a, b, equal_nan=True)
    return (
        np.array_equal(a.data, b.data, equal_nan=True)
        and np.array_equal(a.indices, b.indices)
        and np.array_equal(a.indptr, b.indptr)
    )


def _same_optional(a: Array | None, b: Array | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.tolist() == b.tolist()


def _describe(data: RankingData) -> Description:
    values = np.unique(data.y)
    grades = None
    if len(values) <= 32:
        grades = {f"{value:g}": int((data.y == value).sum()) for value in values}
    low = np.minimum.reduceat(data.y, data.offsets[:-1])
    high = np.maximum.reduceat(data.y, data.offsets[:-1])
    size = data.X.nnz if data.is_sparse else data.n_rows * data.n_features
    n_bytes = data.X.data.nbytes + data.X.indices.nbytes + data.X.indptr.nbytes if data.is_sparse else data.X.nbytes
    return Description(
        queries=data.n_queries,
        documents=data.n_rows,
        features=data.n_features,
        documents_per_query={
            "min": float(data.counts.min()),
            "median": float(np.median(data.counts)),
            "mean": float(data.counts.mean()),
            "max": float(data.counts.max()),
        },
        grades=grades,
        grade_range=(float(values[0]), float(values[-1])),
        queries_without_relevant=int((high <= 0).sum()),
        queries_of_one_grade=int(((low == high) & (high > 0)).sum()),
        missing_values=sum(int(np.isnan(block).sum()) for block in _value_blocks(data.X)),
        constant_features=_count_constant(data.X),
        storage=f"{'sparse' if data.is_sparse else 'dense'} {data.X.dtype}",
        density=size / max(1, data.n_rows * data.n_features),
        bytes=int(n_bytes + data.y.nbytes),
        weighted=data.query_weights is not None,
    )


def _count_constant(X: Any) -> int:
    if not isinstance(X, np.ndarray):
        low, high = X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel()
        return int((low == high).sum())
    constant = np.ones(X.shape[1], dtype=bool)
    for block in _value_blocks(X):
        constant &= (block == X[0]).all(axis=0)
        if not constant.any():
            break
    return int(constant.sum())
