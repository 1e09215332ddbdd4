"""Sources: files of one format as pieces of rows, in the order of the files and in bounded memory.

A piece is a RankingData of *runs*: adjacent rows with the same query id. A query may continue from one piece to the
next and, if rows are merged, reappear later. Only a whole pass can tell how wide text is, or that rows of a query are
not adjacent. So a source reads optimistically and starts over if an assumption fails.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gainful.data.dataset import RankingData
from gainful.data.rows import Array
from gainful.errors import DataError, FormatError
from gainful.formats.binary.writer import Queries
from gainful.formats.ids import integers_if_canonical, string_array

PIECE_BYTES = 8 << 20  # of values, in a piece of rows


class StartOver(Exception):
    """The pass over the input made a wrong assumption. The source has corrected it; read its pieces again."""


@dataclass(frozen=True)
class Layout:
    """What a writer must know before the first row."""

    n_features: int | None  # None for a sparse matrix: the width of the widest piece
    dtype: str
    sparse: bool
    feature_names: tuple[str, ...] | None
    text_integers: tuple[str, ...] = ()  # ids that are texts here and become integers if all are plain integers


@dataclass(frozen=True)
class InputFacts:
    """What a whole pass has found out about ids read as text, and about values that may be missing."""

    query_integers: bool
    doc_integers: bool
    has_documents: bool
    has_weights: bool


class Piece(NamedTuple):
    """Runs of rows; ``at`` has the target row of each if rows of a query are not adjacent."""

    data: RankingData
    continues: bool
    at: Array | None


class Source(ABC):
    """Files of one format. ``paths`` are read one after another, like one file."""

    def __init__(self, paths: Sequence[Path], *, merge: bool):
        self.paths, self.merge = list(paths), merge
        self.queries: Queries | None = None  # set once a pass has found a query whose rows are not adjacent
        self.settled: InputFacts | None = None

    @abstractmethod
    def layout(self) -> Layout:
        """The form of the values, as far as it is known; valid for the next pass."""

    @abstractmethod
    def rows(self, *, values: bool = True) -> Iterator[RankingData]:
        """All rows as runs. With ``values=False`` the features may be left out if that is faster."""

    def reappearance_error(self, query: Any, ended: int, again: int) -> Exception:
        """The error for a query that ended before row ``ended`` and starts again at row ``again``."""
        return AssertionError("a source that merges rows does not refuse a query that reappears")

    def pieces(self, *, values: bool = True) -> Iterator[Piece]:
        """One pass over the input; raises :class:`StartOver` if it must be repeated."""
        seen = _SeenQueries(self.queries)
        reading = self.rows(values=values)
        for data in reading:
            data = self._finalise(data)
            continues = seen.continues(data)
            codes, broken = self._note(seen, data)
            if broken is not None:
                if not self.merge:
                    raise self.reappearance_error(*broken)
                if self.queries is None:
                    self._learn_queries(seen, reading)
            yield Piece(data, continues, None if self.queries is None else seen.places(codes, data.counts))

    def _note(self, seen: _SeenQueries, data: RankingData) -> tuple[Array, tuple[Any, int, int] | None]:
        try:
            noted = seen.add(data)
            if seen.mixed is not None:
                self.refuse_mixed_weights(*seen.mixed)
            return noted
        except DataError as error:
            raise FormatError(str(error), path=self.place) from None

    def refuse_mixed_weights(self, query: Any) -> None:
        """Raise if the weights of ``query``, which differ, may not be meant as weights."""
        return

    @property
    def place(self) -> Path:
        """The file, or the folder of several."""
        return self.paths[0] if len(self.paths) == 1 else self.paths[0].parent

    def _learn_queries(self, seen: _SeenQueries, reading: Iterator[RankingData]) -> None:
        """Read the rest only for the sizes of the queries; then every row has a place."""
        for data in reading:
            self._note(seen, self._finalise(data))
        self.queries = seen.queries("query_id" in self.layout().text_integers)
        raise StartOver

    def _finalise(self, data: RankingData) -> RankingData:
        """The data with ids and weights in the form of the whole input, once that is known."""
        if self.settled is None:
            return data
        documents, weights = data.doc_ids, data.query_weights
        if documents is None and self.settled.has_documents:
            documents = np.full(data.n_rows, "")
        elif documents is not None and self.settled.doc_integers:
            documents = documents.astype(np.int64)
        if weights is None and self.settled.has_weights:
            weights = np.ones(data.n_queries)
        ids = data.query_ids.astype(np.int64) if self.settled.query_integers else data.query_ids
        return data.replace(query_ids=ids, doc_ids=documents, query_weights=weights)

    def settle(self) -> None:
        """Read the whole input, repeatedly if needed, until everything about it is known."""
        while self.settled is None:
            texts = self.layout().text_integers
            queries, documents = "query_id" in texts, "doc_id" in texts
            has_documents = has_weights = False
            try:
                for data, _, _ in self.pieces(values=False):
                    has_documents |= data.doc_ids is not None
                    has_weights |= data.query_weights is not None
                    queries = queries and _are_integers(data.query_ids)
                    documents = documents and data.doc_ids is not None and _are_integers(data.doc_ids)
            except StartOver:
                continue
            self.settled = InputFacts(queries, documents, has_documents, has_weights)


def _are_integers(ids: Array) -> bool:
    return bool(integers_if_canonical(ids).dtype.kind == "i")


class _SeenQueries:
    """The queries of a pass so far: rows, end and weight of each, in order of first appearance."""

    def __init__(self, known: Queries | None):
        self.codes: dict[Any, int] = {}
        self.n_rows = 0
        self.sizes, self.ends, self.weights = array("q"), array("q"), array("d")
        self.weighted = False
        self.mixed: tuple[Any] | None = None  # the first query whose rows have different weights
        self.last = -1
        self.next_row = None if known is None else known.offsets[:-1].copy()

    def continues(self, data: RankingData) -> bool:
        """Whether the first run of a piece continues the last run seen."""
        return self.last >= 0 and self.codes.get(data.query_ids[:1].tolist()[0]) == self.last

    def add(self, data: RankingData) -> tuple[Array, tuple[Any, int, int] | None]:
        """The number of each run's query, and the first query that reappears: (id, row it ended before, row)."""
        broken = None
        codes = []
        weights = [1.0] * data.n_queries if data.query_weights is None else data.query_weights.tolist()
        self.weighted |= data.query_weights is not None
        if data.has_document_weights and self.mixed is None:
            self.mixed = (data.first_mixed_query(),)
        for query, size, weight in zip(data.query_ids.tolist(), data.counts.tolist(), weights, strict=True):
            code = self.codes.setdefault(query, len(self.codes))
            if code == len(self.sizes):
                self.sizes.append(0)
                self.ends.append(0)
                self.weights.append(weight)
            elif code != self.last and broken is None:
                broken = (query, self.ends[code], self.n_rows)
            if self.weights[code] != weight and self.mixed is None:
                self.mixed = (query,)
            self.n_rows += size
            self.sizes[code] += size
            self.ends[code] = self.n_rows
            self.last = code
            codes.append(code)
        return np.array(codes), broken

    def places(self, codes: Array, sizes: Array) -> Array:
        """The target row of each run, after earlier rows of the same query."""
        assert self.next_row is not None
        at = np.empty(len(codes), dtype=np.int64)
        for run, (code, size) in enumerate(zip(codes.tolist(), sizes.tolist(), strict=True)):
            at[run] = self.next_row[code]
            self.next_row[code] += size
        return at

    def queries(self, text_integers: bool) -> Queries:
        ids = list(self.codes)
        column = string_array(ids) if isinstance(ids[0], str) else np.array(ids)
        offsets = np.concatenate([[0], np.cumsum(np.frombuffer(self.sizes, dtype=np.int64))]).astype(np.int64)
        weights = np.array(self.weights) if self.weighted else None
        ids_or_numbers = integers_if_canonical(column) if text_integers else column
        return Queries(offsets, ids_or_numbers, weights, self.mixed is not None)


def rows_in_piece(n_features: int, itemsize: int = 8) -> int:
    """Rows whose values take about :data:`PIECE_BYTES`."""
    return max(1, PIECE_BYTES // max(1, n_features * itemsize))


class WholeSource(Source):
    """Files of a format that cannot be read in parts; ``read`` returns the data of one."""

    def __init__(self, paths: Sequence[Path], read: Callable[[Path], RankingData]):
        super().__init__(paths, merge=True)
        self.parts = [read(path) for path in paths]
        layouts = [Layout(one.n_features, str(one.X.dtype), one.is_sparse, one.feature_names) for one in self.parts]
        self._layout = common_layout(list(zip(self.paths, layouts, strict=True)))

    def layout(self) -> Layout:
        return self._layout

    def rows(self, *, values: bool = True) -> Iterator[RankingData]:
        return iter(self.parts)


def common_layout(layouts: list[tuple[Path, Layout]]) -> Layout:
    """One layout for all files, which must agree; float64 if one file has it."""
    (_, first), *rest = layouts
    for path, layout in rest:
        if layout.n_features != first.n_features:
            raise FormatError(f"has {layout.n_features} features, {layouts[0][0]} has {first.n_features}", path=path)
        if layout.feature_names != first.feature_names:
            raise FormatError(f"has different feature names than {layouts[0][0]}", path=path)
        if layout.sparse != first.sparse:
            kinds = ("sparse", "dense") if layout.sparse else ("dense", "sparse")
            raise FormatError(f"is {kinds[0]} and {layouts[0][0]} is {kinds[1]}", path=path)
    single = all(layout.dtype == "float32" for _, layout in layouts)
    return replace(first, dtype="float32" if single else "float64")
