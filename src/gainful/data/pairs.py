"""Preferences: pairs of documents of one query, of which the first should rank above the second."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from gainful.data.frames import column_names, column_to_numpy, is_frame, refuse_dask
from gainful.data.numbers import LARGEST_WEIGHT
from gainful.data.rows import Array, number_column, read_only, rows_of_queries
from gainful.errors import DataError, ParameterError, brief

COLUMNS = ("better", "worse", "weight")
EXPECTED = "(better, worse) or (better, worse, weight) for each pair, or a frame with these columns"


@dataclass(frozen=True, eq=False)
class PreferredPairs:
    """Row ``better[p]`` should rank above row ``worse[p]``, which counts ``weight[p]``.

    Both rows belong to one query; query q has the pairs ``starts[q]:starts[q + 1]``. They are sorted by better, then by
    worse row. A pair occurs once, with a weight above 0; its opposite may occur too, since judgments are noisy.
    """

    better: Array  # (n_pairs,) int64
    worse: Array  # (n_pairs,) int64
    weight: Array  # (n_pairs,) float64
    starts: Array  # (n_queries + 1,) int64

    def __post_init__(self) -> None:
        for name in (*COLUMNS, "starts"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    def __len__(self) -> int:
        return len(self.better)

    @classmethod
    def of_rows(cls, better: Array, worse: Array, weight: Array, offsets: Array) -> PreferredPairs:
        """Valid pairs in any order; the weights of equal pairs are added, pairs of weight 0 left out."""
        kept = weight > 0.0
        order = np.lexsort((worse[kept], better[kept]))
        better, worse, weight = better[kept][order], worse[kept][order], weight[kept][order]
        if len(better):
            new = np.ones(len(better), dtype=bool)
            new[1:] = (np.diff(better) != 0) | (np.diff(worse) != 0)
            weight = np.add.reduceat(weight, np.flatnonzero(new))
            better, worse = better[new], worse[new]
        return cls(better, worse, weight, np.searchsorted(better, offsets).astype(np.int64))

    @property
    def counts(self) -> Array:
        """The number of pairs of each query."""
        return np.diff(self.starts)

    @property
    def query(self) -> Array:
        """The query of each pair, by position."""
        return np.repeat(np.arange(len(self.starts) - 1), self.counts)

    def sums(self, values: Array) -> Array:
        """Σ of one value per pair, over the pairs of each query."""
        return np.bincount(self.query, weights=values, minlength=len(self.starts) - 1).astype(np.float64)

    def take(self, queries: Array, offsets: Array) -> PreferredPairs:
        """The pairs of some queries, whose rows follow each other in this order; ``offsets`` are those of all."""
        pairs, sizes = rows_of_queries(self.starts, queries), np.diff(offsets)[queries]
        shift = np.repeat(np.cumsum(sizes) - sizes - offsets[queries], self.counts[queries])
        starts = np.concatenate([[0], np.cumsum(self.counts[queries])]).astype(np.int64)
        return PreferredPairs(self.better[pairs] + shift, self.worse[pairs] + shift, self.weight[pairs], starts)

    def equals(self, other: PreferredPairs) -> bool:
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in (*COLUMNS, "starts"))


def join_pairs(parts: Sequence[PreferredPairs | None], rows: Sequence[int]) -> PreferredPairs | None:
    """The pairs of parts whose ``rows`` follow each other; None if no part has any.

    A part with grades among parts with preferences is an error: the two cannot be learned from together.
    """
    found = [part for part in parts if part is not None]
    if not found:
        return None
    if len(found) < len(parts):
        raise DataError("some parts of the data have preferences and some have grades; give all of them the same")
    before = np.cumsum([0, *rows[:-1]])
    pairs = np.cumsum([0, *(len(part) for part in found)])
    return PreferredPairs(
        np.concatenate([part.better + n for part, n in zip(found, before, strict=True)]),
        np.concatenate([part.worse + n for part, n in zip(found, before, strict=True)]),
        np.concatenate([part.weight for part in found]),
        np.concatenate([part.starts[:-1] + n for part, n in zip(found, pairs[:-1], strict=True)] + [pairs[-1:]]),
    )


def check_pairs(pairs: Any, offsets: Array, query_ids: Array, order: Array | None = None) -> PreferredPairs | None:
    """Pairs of input rows as pairs of grouped rows; ``order[i]`` is the input row of row i, if rows moved."""
    if pairs is None:
        return None
    if isinstance(pairs, PreferredPairs):
        refuse_pairs_of_others(pairs, offsets)
        return pairs
    n_rows = int(offsets[-1])
    better, worse, weight = _columns(pairs, n_rows)
    if order is not None:
        place = np.empty(n_rows, dtype=np.int64)
        place[order] = np.arange(n_rows)
        better, worse = place[better], place[worse]
    given = np.arange(n_rows) if order is None else order
    refuse_bad_pairs(better, worse, weight, offsets, query_ids, lambda p: f"pair {p}", lambda row: f"row {given[row]}")
    return PreferredPairs.of_rows(better, worse, weight, offsets)


def refuse_pairs_of_others(pairs: PreferredPairs, offsets: Array) -> None:
    """Raise if the pairs are not those of queries with these offsets; kernels would read beyond the data."""
    what_to_do = "take them from data with the same rows, or give pairs of row numbers"
    if len(pairs.starts) != len(offsets):
        raise DataError(
            f"pairs belong to {len(pairs.starts) - 1:,} queries, but the data has {len(offsets) - 1:,}; {what_to_do}"
        )
    n_pairs = len(pairs)
    rising = pairs.starts[0] == 0 and pairs.starts[-1] == n_pairs and (pairs.counts >= 0).all()
    if not (rising and len(pairs.worse) == len(pairs.weight) == n_pairs):
        raise DataError(f"the starts, rows and weights of pairs do not fit together; {what_to_do}")
    low, high = (np.repeat(bounds, pairs.counts) for bounds in (offsets[:-1], offsets[1:]))
    first, last = np.minimum(pairs.better, pairs.worse), np.maximum(pairs.better, pairs.worse)
    outside = np.flatnonzero((first < low) | (last >= high))
    if len(outside):
        p = int(outside[0])
        raise DataError(
            f"pair {p} has the rows {pairs.better[p]} and {pairs.worse[p]}, but its query has the rows {low[p]} to "
            f"{high[p] - 1}; {what_to_do}"
        )


def refuse_bad_pairs(
    better: Array,
    worse: Array,
    weight: Array,
    offsets: Array,
    query_ids: Array,
    name_pair: Callable[[int], str],
    name_row: Callable[[int], str],
) -> None:
    """Raise for a pair of a document with itself or with one of another query, and for a bad weight."""
    bad = np.flatnonzero(~((weight == 0.0) | ((weight >= 1.0 / LARGEST_WEIGHT) & (weight <= LARGEST_WEIGHT))))
    if len(bad):
        raise DataError(
            f"the weight of {name_pair(bad[0])} is {weight[bad[0]]:g}; weights must be 0, or from "
            f"{1.0 / LARGEST_WEIGHT:g} to {LARGEST_WEIGHT:g}"
        )
    same = np.flatnonzero(better == worse)
    if len(same):
        raise DataError(f"{name_pair(same[0])} prefers {name_row(better[same[0]])} to itself; give two documents")
    queries = [np.searchsorted(offsets, rows, side="right") - 1 for rows in (better, worse)]
    apart = np.flatnonzero(queries[0] != queries[1])
    if len(apart):
        p = int(apart[0])
        one, other = (brief(query_ids[of[p]]) for of in queries)
        raise DataError(
            f"{name_pair(p)} compares {name_row(better[p])} of query {one} with {name_row(worse[p])} of query {other}; "
            "both documents of a pair must belong to one query"
        )


def _columns(pairs: Any, n_rows: int) -> tuple[Array, Array, Array]:
    """Better row, worse row and weight of each pair."""
    refuse_dask(pairs, "pairs")
    if isinstance(pairs, (str, os.PathLike)):
        hint = "read a file of preferences with its data: gainful.read(DATA, pairs=FILE)"
        raise ParameterError.of("fit", "pairs", EXPECTED, os.fspath(pairs), hint)
    if isinstance(pairs, (Iterator, Set)):
        raise ParameterError.of("fit", "pairs", EXPECTED, type(pairs).__name__, "pass list(pairs)")
    columns: list[Any]
    if is_frame(pairs) or isinstance(pairs, Mapping):
        names = [str(name) for name in (pairs if isinstance(pairs, Mapping) else column_names(pairs))]
        if not {"better", "worse"} <= set(names):
            raise ParameterError.of("fit", "pairs", EXPECTED, names)
        columns = [pairs[name] for name in COLUMNS if name in names]
    else:
        try:
            table = np.asarray(column_to_numpy(pairs))
        except ValueError:  # pairs of different lengths
            raise ParameterError.of("fit", "pairs", EXPECTED, pairs) from None
        if table.shape == (0,):
            table = np.empty((0, 2))
        if table.ndim != 2 or table.shape[1] not in (2, 3):
            raise ParameterError(f"pairs of fit must be {EXPECTED}, was of shape {table.shape}")
        columns = list(table.T)
    rows = [_row_numbers(column, name, n_rows) for column, name in zip(columns, COLUMNS[:2], strict=False)]
    weight = number_column(columns[2], "weights of pairs", "weight") if len(columns) > 2 else np.ones(len(rows[0]))
    if not len(rows[0]) == len(rows[1]) == len(weight):
        raise DataError("the columns of pairs must have the same length")
    return rows[0], rows[1], weight


def _row_numbers(column: Any, name: str, n_rows: int) -> Array:
    numbers = number_column(column, f"{name} rows of pairs", "row")
    bad = np.flatnonzero(~np.isfinite(numbers) | (numbers != np.floor(numbers)))
    if len(bad):
        raise DataError(f"pair {bad[0]} must have row numbers, but its {name} row was {numbers[bad[0]]:g}")
    bad = np.flatnonzero((numbers < 0) | (numbers >= n_rows))  # before the cast, which 1e300 would not survive
    if len(bad):
        raise DataError(f"pair {bad[0]} has row {numbers[bad[0]]:.15g}, but rows are numbered 0 to {n_rows - 1}")
    return numbers.astype(np.int64)
