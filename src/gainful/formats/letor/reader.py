"""LETOR/SVMlight text: ``GRADE qid:ID index:value … #docid = X``, plain, .gz or .zst.

A file is read twice: once to count rows and features, so that each array is allocated once, and once to fill the
arrays. Both passes go chunk by chunk; the spans of a chunk run in threads.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from gainful.compute.threads import allowed_cores
from gainful.data.dataset import RankingData
from gainful.data.rows import Array, group_rows, weight_fields
from gainful.errors import FormatError, ParameterError, brief, option, plural
from gainful.formats.files import Chunk, PathLike, compression_of, next_line, text_chunks
from gainful.formats.ids import integers_if_canonical
from gainful.formats.letor import kernels
from gainful.formats.letor.header import Header, end_of_header, read_header
from gainful.formats.letor.lines import (
    LARGEST_INDEX,
    Rules,
    count_lines,
    explain,
    find_document,
    is_data_line,
    is_text,
    names_query,
    read_number,
)
from gainful.formats.limits import LONGEST_ID, MemoryLimit
from gainful.formats.sidecars import Sidecars, check_query_id, find_sidecars

CHUNK_BYTES = 32 << 20
SPAN_BYTES = 1 << 20
SPARSE_DENSITY = 0.1
SPARSE_BYTES = 64 << 20
SMALL_FILE = 1 << 18  # bytes; up to this size Python counts, and reads unusual forms, faster than kernels compile
MOST_EXPANSION = 10_000  # bytes of a dense matrix per byte of text, unless the caller asks for more
FEW_TEXTS = 4096
TOKEN = re.compile(rb"[^\n\r\t #]*")


def read(
    path: PathLike,
    *,
    dtype: str | None = None,
    n_features: int | None = None,
    sparse: bool | str = "auto",
    zero_based: bool = False,
    merge: bool = False,
    n_threads: int | None = None,
    sidecars: bool = True,
    query_id: str | None = None,
    max_bytes: int | str | None = None,
) -> RankingData:
    """Read LETOR/SVMlight text.

    Parameters
    ----------
    dtype : "float64" (default) or "float32"
    n_features : the exact number of columns; a larger index is refused. By default the largest index found
    sparse : True for CSR, False for dense, "auto" for CSR if fewer than a tenth of the values are written and a dense
        matrix would take more than 64 MiB
    zero_based : the first feature is 0 rather than 1
    merge : bring rows of a query together if they are not adjacent, instead of refusing them
    n_threads : number of threads, by default as many as the process may use
    sidecars : use FILE.query, FILE.group and FILE.weight beside the file (:mod:`gainful.formats.sidecars`). With the
        sizes of the queries, rows need no ``qid:``
    query_id : all rows are of this one query, and need no ``qid:``
    max_bytes : refuse to take more memory than this, a number or text such as "4GB"; by default what is free
    """
    options = check_options(dtype, n_features, sparse, zero_based, merge, n_threads, sidecars, query_id, max_bytes)
    return read_with(path, options)


@dataclass(frozen=True)
class Options:
    """The options of :func:`read`, checked, and the sizes of chunks and spans."""

    dtype: str | None = None
    n_features: int | None = None
    sparse: bool | str = "auto"
    zero_based: bool = False
    merge: bool = False
    n_threads: int = 1
    sidecars: bool = True
    query_id: str | None = None
    chunk_bytes: int = CHUNK_BYTES
    span_bytes: int = SPAN_BYTES
    max_bytes: int | str | None = None

    def stores_sparse(self, header: Header, n_rows: int, n_values: int, n_features: int) -> bool:
        """Whether to store the matrix as CSR: by the option, the header, or the counts."""
        sparse = header.sparse if self.sparse == "auto" and header.sparse is not None else self.sparse
        if isinstance(sparse, bool):
            return sparse
        itemsize = 4 if (self.dtype or header.dtype) == "float32" else 8
        cells = n_rows * n_features
        return n_values < SPARSE_DENSITY * cells and cells * itemsize > SPARSE_BYTES


def check_options(
    dtype: Any = None,
    n_features: Any = None,
    sparse: Any = "auto",
    zero_based: Any = False,
    merge: Any = False,
    n_threads: Any = None,
    sidecars: Any = True,
    query_id: Any = None,
    max_bytes: Any = None,
) -> Options:
    if dtype is not None:
        try:
            name = np.dtype(dtype).name
        except TypeError:
            name = ""
        if name not in ("float32", "float64"):
            raise ParameterError.of("read", "dtype", "'float32' or 'float64'", dtype)
        dtype = name
    if n_features is not None and not (_is_integer(n_features) and 1 <= n_features <= LARGEST_INDEX):
        raise ParameterError.of("read", "n_features", "an integer from 1", n_features)
    if not (sparse == "auto" or isinstance(sparse, bool)):
        raise ParameterError.of("read", "sparse", "'auto', True or False", sparse)
    for name, value in (("zero_based", zero_based), ("merge", merge), ("sidecars", sidecars)):
        if not isinstance(value, bool):
            raise ParameterError.of("read", name, "True or False", value)
    if n_threads is None:
        n_threads = allowed_cores()
    elif not (_is_integer(n_threads) and n_threads >= 1):
        raise ParameterError.of("read", "n_threads", "an integer from 1", n_threads)
    n_features = None if n_features is None else int(n_features)
    query_id = None if query_id is None else check_query_id(query_id)
    return Options(
        dtype, n_features, sparse, zero_based, merge, int(n_threads), sidecars, query_id, max_bytes=max_bytes
    )


def _is_integer(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def read_with(path: PathLike, options: Options) -> RankingData:
    """:func:`read` with checked options."""
    n_columns = 0
    beside = find_sidecars(path, options.sidecars, options.query_id)
    while True:
        with ThreadPoolExecutor(options.n_threads) as pool:
            reading = Reading(path, options, pool, n_columns, beside)
            reading.count()
            reading.fill()
        if reading.widest <= reading.n_features or reading.is_sparse:
            return reading.result()
        n_columns = reading.widest  # a line out of order had an index larger than the last one of any line


# -- the two passes ----------------------------------------------------------------------------------------------------


@dataclass
class _Span:
    """Whole lines of a chunk and what the first pass counted in them."""

    start: int
    stop: int
    rows: int
    lines: int
    values: int  # at most this many, as query ids can contain colons too


@dataclass
class ScannedChunk:
    """A chunk with its spans and the counts of everything before it in the file."""

    chunk: Chunk
    spans: list[_Span]
    first_line: int
    first_row: int
    first_value: int

    @property
    def rows(self) -> int:
        return sum(span.rows for span in self.spans)


@dataclass
class FoundIds:
    """Ids collected chunk by chunk in the second pass."""

    head_rows: list[Array] = field(default_factory=list)
    head_ids: list[Array] = field(default_factory=list)
    documents: list[Array | None] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)


class Reading:
    """The state of reading one file: count, then fill, then build the ranking data."""

    def __init__(self, path: PathLike, options: Options, pool: ThreadPoolExecutor, n_columns: int, beside: Sidecars):
        self.path, self.options, self.pool, self.beside = path, options, pool, beside
        self.with_query = not beside.name_queries or first_row_names_query(path)
        if self.with_query and beside.query_id is not None:
            raise FormatError("its rows have query ids of their own; leave out query_id", path=path)
        self.widest = n_columns
        self.header = Header()
        self.parts: list[ScannedChunk] = []
        self.n_rows = self.n_values = self.n_lines = 0
        self.found = FoundIds()
        self.rooms: list[Array] = []
        self.limit = MemoryLimit(path, options.max_bytes)
        self.is_packed = compression_of(path) is not None
        self.text_bytes = 0 if self.is_packed else os.stat(path).st_size  # as far as it is known
        self.held_bytes = 0  # decompressed text between the two passes

    # first pass

    def count(self) -> None:
        for chunk in text_chunks(self.path, self.options.chunk_bytes, self.check_text):
            part = self.scan(chunk)
            if part.rows:
                self.parts.append(part)
                self.held_bytes += len(chunk.buf) if self.is_packed else 0
            chunk.release()
        if self.n_rows == 0:
            raise FormatError("there are no rows, only blank lines and comments", path=self.path)
        self.decide()

    def scan(self, chunk: Chunk) -> ScannedChunk:
        """Count the contents of a chunk, and read the comments before the first row."""
        self.text_bytes += chunk.stop - chunk.start if self.is_packed else 0
        starts_file = self.n_rows == 0
        bounds = span_bounds(chunk, self.options.span_bytes)
        counts = self.pool.map(lambda b: self._count(chunk.buf, *b), bounds)
        part = ScannedChunk(chunk, [], self.n_lines + 1, self.n_rows, self.n_values)
        header_end = chunk.stop
        for (start, stop), (rows, lines, values, last_index) in zip(bounds, counts, strict=True):
            values += 0 if self.with_query else rows  # counted by colons, of which one was taken for the query's
            part.spans.append(_Span(start, stop, rows, lines, values))
            if rows and starts_file and self.n_rows == part.first_row:
                header_end = end_of_header(chunk.buf, start, stop)
            self.n_rows += rows
            self.n_lines += lines
            self.n_values += values
            self.widest = max(self.widest, last_index + int(self.options.zero_based))
        if starts_file:
            read_header(self.path, chunk.buf[chunk.start : header_end].tobytes(), part.first_line - 1, self.header)
        return part

    def _count(self, buf: Array, start: int, stop: int) -> tuple[int, int, int, int]:
        """Rows, lines, values (at most) and the largest last index (-1 without features)."""
        if self._is_small:
            return count_lines(buf[start:stop].tobytes())
        rows, lines, values, widest = kernels.scan(buf, start, stop)
        return rows, lines, values, widest

    @property
    def _is_small(self) -> bool:
        return self.text_bytes <= SMALL_FILE

    def check_text(self, more: int) -> None:
        """Refuse decompressed text that takes too much memory; ``more`` is the size of the chunk at hand."""
        self.limit.check(self.held_bytes + more, "the first part of the text", so_far=True)

    def decide(self) -> None:
        """Decide number of features, type and storage from the options, the header and the counts, in this order."""
        options, header = self.options, self.header
        exact = header.columns(self.path)
        if options.n_features is not None and exact not in (None, options.n_features):
            raise FormatError(f"the file says that it has {exact} features, not {options.n_features}", path=self.path)
        exact = options.n_features if options.n_features is not None else exact
        single = (options.dtype or header.dtype or "float64") == "float32"
        self.rules = Rules(options.zero_based, exact, single, self.with_query)
        self.n_features = min(self.widest, LARGEST_INDEX) if exact is None else exact
        self.is_sparse = options.stores_sparse(header, self.n_rows, self.n_values, self.n_features)

    # second pass

    def fill(self) -> None:
        self._allocate()
        while self.parts:
            part = self.parts.pop(0)
            self._fill_part(part)
            part.chunk.release()

    def _allocate(self) -> None:
        dtype = np.dtype(np.float32 if self.rules.single else np.float64)
        n = self.n_values if self.is_sparse else self.n_rows * self.n_features
        needed = n * dtype.itemsize + (4 * n + 8 * self.n_rows if self.is_sparse else 0) + 8 * self.n_rows
        storage = "sparse" if self.is_sparse else "dense"
        what = f"a {storage} matrix of {plural(self.n_rows, 'row')} and {plural(self.n_features, 'feature')}"
        helps = not self.is_sparse and 2 * self.n_values < n
        instead = f"pass {option('sparse', True)}" if helps else ""
        self.limit.check(needed + self.held_bytes, what, instead=instead)
        unasked = not self.is_sparse and self.options.sparse == "auto"
        if unasked and needed > max(SPARSE_BYTES, MOST_EXPANSION * self.text_bytes):
            raise FormatError(
                f"{what} is far more than {self.text_bytes:,} bytes of text hold, though the line '# gainful sparse' "
                f"asks for it; pass {option('sparse', True)} or {option('sparse', False)}",
                path=self.path,
            )
        try:
            self.values = np.zeros(n, dtype=dtype)
        except (MemoryError, ValueError):
            raise self.limit.error(needed, what, instead=instead) from None
        self.columns = np.empty(self.n_values if self.is_sparse else 0, dtype=np.int32)
        self.row_sizes = np.empty(self.n_rows if self.is_sparse else 0, dtype=np.int64)
        self.y = np.empty(self.n_rows)
        self.used: list[tuple[int, int]] = []  # start and number of each span's values

    def _fill_part(self, part: ScannedChunk) -> None:
        n_rows = part.rows
        scratch = _Scratch(n_rows)
        row, value, line = 0, part.first_value, part.first_line
        calls = []
        for span in part.spans:
            calls.append((part, span, scratch, row, value, line))
            row, value, line = row + span.rows, value + span.values, line + span.lines
        for done in self.pool.map(lambda call: self._fill_span(*call), calls):
            n_values, first_value, widest = done
            self.used.append((first_value, n_values))
            self.widest = max(self.widest, widest)
        marks, buf = scratch.marks, part.chunk.buf
        heads = np.flatnonzero(marks[:, kernels.FLAGS] & kernels.NEW_QUERY)
        self.found.head_rows.append(heads + part.first_row)
        self.found.head_ids.append(texts(buf, marks[heads, kernels.QUERY], marks[heads, kernels.QUERY_SIZE]))
        has_documents = scratch.doc_size.any()
        self.found.documents.append(texts(buf, scratch.doc_at, scratch.doc_size) if has_documents else None)
        self.found.rows.append(n_rows)

    def _fill_span(
        self, part: ScannedChunk, span: _Span, scratch: _Scratch, row: int, value: int, line: int
    ) -> tuple[int, int, int]:
        """Parse one span into its slices: values stored, their start, columns needed."""
        buf, d = part.chunk.buf, self.n_features
        rows = slice(part.first_row + row, part.first_row + row + span.rows)
        cells = slice(value, value + span.values) if self.is_sparse else slice(rows.start * d, rows.stop * d)
        target = _Target(
            buf,
            self.y[rows],
            self.values[cells],
            self.columns[cells] if self.is_sparse else self.columns,
            *scratch.rows(row, span.rows),
        )
        later = self._room(span.rows + span.values)
        limit = LARGEST_INDEX if self.rules.n_features is None else self.rules.n_features
        stopped, n_rows, n_values, n_later, widest = kernels.parse(
            buf, span.start, span.stop, d, limit, 0 if self.rules.zero_based else 1, int(not self.is_sparse),
            int(self.with_query), target.y, target.values, target.columns, target.marks, later,
        )  # fmt: skip
        target = target.first(n_rows)
        wrong = (  # positions in malformed lines, -1 if there are none
            stopped,
            self._read_later(target, later[:n_later]),
            self._put_in_order(target),
            _first_odd_query(target),
            _first_long(target.marks[:, kernels.QUERY], target.marks[:, kernels.QUERY_SIZE]),
            self._find_documents(target),
            _first_long(target.doc_at, target.doc_size),
        )
        if max(wrong) >= 0:
            self._refuse(buf, span, min(at for at in wrong if at >= 0), line)
        self.rooms.append(later)
        if self.is_sparse:
            self.row_sizes[rows] = target.marks[:, kernels.VALUES]
        return n_values, value, widest

    def _room(self, n_numbers: int) -> Array:
        """Space for the numbers that the parser leaves. It is reused: new memory is slow at first touch."""
        try:
            room = self.rooms.pop()
        except IndexError:
            room = np.empty((0, 2), dtype=np.int64)
        return room if len(room) >= n_numbers else np.empty((n_numbers, 2), dtype=np.int64)

    def _refuse(self, buf: Array, span: _Span, at: int, line: int) -> None:
        """Raise for the line that contains ``at``; ``line`` is the number of the span's first line."""
        before = buf[span.start : at].tobytes()
        start = span.start + before.rfind(b"\n") + 1
        wrong = explain(buf[start : next_line(buf, start)].tobytes(), self.rules)
        raise FormatError(wrong.message, path=self.path, line=line + before.count(b"\n"), column=wrong.column)

    def _read_later(self, target: _Target, later: Array) -> int:
        """Store the numbers that the parser left. Returns the position of the first malformed one, or -1."""
        if not len(later):
            return -1
        malformed, n_hard = -1, len(later)
        if not self._is_small:
            malformed, n_hard = kernels.read_numbers(target.buf, later, target.y, target.values)
        for cell, at in later[:n_hard].tolist():
            number = self._python_number(target.buf, at, is_grade=cell < 0)
            if number is None:
                return int(at)  # comes before the one that the kernel found and stopped at
            if cell < 0:
                target.y[-1 - cell] = number
            elif cell < len(target.values):
                target.values[cell] = number
        return int(malformed)

    def _python_number(self, buf: Array, at: int, *, is_grade: bool) -> float | None:
        """The number at ``at`` by Python's own rules, None if the line is malformed."""
        number = read_number(_token(buf, at))
        if number is None or math.isinf(number) or (is_grade and not number >= 0):
            return None
        too_large = self.rules.single and not is_grade and math.isinf(_to_single(number))
        return None if too_large else number

    def _put_in_order(self, target: _Target) -> int:
        """Sort rows with features out of order, if sparse. Returns the first row that names one twice, or -1."""
        if not (target.marks[:, kernels.FLAGS] & kernels.OUT_OF_ORDER).any():
            return -1
        if self.is_sparse:
            row = kernels.sort_rows(target.columns, target.values, target.marks)
        else:
            stamps = np.full(self.n_features + 1, -1, dtype=np.int64)
            row = kernels.first_repeat(target.buf, target.marks, stamps)
        return -1 if row < 0 else int(target.marks[row, kernels.QUERY])

    def _find_documents(self, target: _Target) -> int:
        """Note the document ids of rows with a comment. Returns the position of the first that is not text, or -1."""
        comments = target.marks[:, kernels.COMMENT]
        if not comments.any():
            return -1
        if not self._is_small:
            if kernels.find_documents(target.buf, target.marks, target.doc_at, target.doc_size):
                return -1
        else:
            for row in np.flatnonzero(comments).tolist():
                at = int(comments[row])
                start, stop = find_document(target.buf[at : next_line(target.buf, at)].tobytes().removesuffix(b"\n"))
                target.doc_at[row], target.doc_size[row] = at + start, stop - start
        return _first_odd(target.buf, target.doc_at, target.doc_size)

    # assembly

    def result(self) -> RankingData:
        self.beside.check_rows(self.n_rows)
        starts, ids = self._runs()
        order = None
        offsets: Array = np.append(starts, self.n_rows).astype(np.int64)
        self.beside.check_queries(offsets)
        if len(set(ids.tolist())) < len(ids):
            if not self.options.merge:
                self._refuse_split_query(starts, ids)
            order, offsets, ids = group_rows(np.repeat(ids, np.diff(offsets)), self.n_rows)
        X, y, documents = self._matrix(), self.y, self._documents()
        del self.values, self.columns, self.row_sizes
        if order is not None:
            X, y = X[order], y[order]
            documents = None if documents is None else documents[order]
        return RankingData._build_unchecked(
            X=X,
            y=y,
            offsets=offsets,
            query_ids=integers_if_canonical(ids) if self.ids_are_text else ids,
            doc_ids=documents,
            feature_names=self.header.feature_names,
            input_order=order,
            init_scores=self.beside.init_by_row(self.n_rows, order),
            **self._weights(offsets, order),
        )

    def _weights(self, offsets: Array, order: Array | None) -> dict[str, Array | None]:
        """The weights beside the file, or those in its header."""
        by_row = self.beside.weights_by_row(offsets, order)
        if by_row is None:
            by_row = self.header.row_weights(self.path, self.n_rows)
            by_row = by_row if by_row is None or order is None else by_row[order]
        if by_row is None:
            return {"query_weights": self.header.weights(self.path, len(offsets) - 1)}
        return weight_fields(by_row, offsets)

    @property
    def ids_are_text(self) -> bool:
        """Whether query ids were read as text, though they may all be integers."""
        return self.with_query and self.header.query_ids != "str"

    def _runs(self, first_row: int = 0) -> tuple[Array, Array]:
        """First row and id of each run of rows with the same query; ``first_row`` of the file is row 0 here."""
        if not self.with_query:
            ids = self.beside.ids(first_row, self.n_rows)
            starts = np.append(0, np.flatnonzero(ids[1:] != ids[:-1]) + 1)
            return starts, ids[starts]
        rows, ids = np.concatenate(self.found.head_rows), np.concatenate(self.found.head_ids)
        new = np.append(True, ids[1:] != ids[:-1])  # so far, a span's first row counts as new
        return rows[new], ids[new]

    def _matrix(self) -> Any:
        if not self.is_sparse:
            return self.values.reshape(self.n_rows, self.n_features)
        from scipy import sparse

        n = 0
        for start, size in self.used:  # close the gaps left by colons in query ids
            if n < start:
                self.values[n : n + size] = self.values[start : start + size]
                self.columns[n : n + size] = self.columns[start : start + size]
            n += size
        values: Any = self.values[:n]
        columns = self.columns[:n]
        indptr: Any = np.concatenate([[0], np.cumsum(self.row_sizes)]).astype(np.int32 if n < 2**31 else np.int64)
        n_features = self.n_features if self.rules.n_features is not None else self.widest
        return sparse.csr_matrix((values, columns, indptr), shape=(self.n_rows, n_features), copy=False)

    def _documents(self) -> Array | None:
        parts, kind = self.found.documents, self.header.doc_ids
        if kind is None and all(ids is None for ids in parts):
            return None
        filled = [np.full(n, "") if ids is None else ids for ids, n in zip(parts, self.found.rows, strict=True)]
        ids = np.concatenate(filled)
        if kind != "int":
            return ids
        try:
            return ids.astype(np.int64)
        except (ValueError, OverflowError):
            message = "a document id is not an integer though the line '# gainful doc_ids' says so; remove that line"
            raise FormatError(message, path=self.path) from None

    def _refuse_split_query(self, starts: Array, ids: Array) -> None:
        """Raise for the first query that starts again."""
        latest: dict[Any, int] = {}
        for run, query in enumerate(ids.tolist()):
            if query in latest:
                rows = [int(starts[latest[query] + 1]) - 1, int(starts[run])]
                ends, again = lines_of_rows(self.path, rows)
                raise split_query_error(self.path, query, ends, again)
            latest[query] = run


class _Target(NamedTuple):
    """The text, and the slices of the arrays that one span fills."""

    buf: Array
    y: Array
    values: Array
    columns: Array
    marks: Array
    doc_at: Array
    doc_size: Array

    def first(self, n_rows: int) -> _Target:
        """The rows before the line at which the parser stopped."""
        return self._replace(marks=self.marks[:n_rows], doc_at=self.doc_at[:n_rows], doc_size=self.doc_size[:n_rows])


class _Scratch:
    """The parser's notes on a chunk's rows, and the places of the document ids in its text."""

    def __init__(self, n_rows: int):
        self.marks = np.empty((n_rows, kernels.N_MARKS), dtype=np.int64)
        self.doc_at, self.doc_size = np.zeros(n_rows, dtype=np.int64), np.zeros(n_rows, dtype=np.int64)

    def rows(self, start: int, n_rows: int) -> tuple[Array, Array, Array]:
        rows = slice(start, start + n_rows)
        return self.marks[rows], self.doc_at[rows], self.doc_size[rows]


# -- helpers -----------------------------------------------------------------------------------------------------------


def span_bounds(chunk: Chunk, span_bytes: int) -> list[tuple[int, int]]:
    bounds, start = [], chunk.start
    while start < chunk.stop:
        stop = min(next_line(chunk.buf, start + span_bytes - 1), chunk.stop)
        bounds.append((start, stop))
        start = stop
    return bounds


def texts(buf: Array, at: Array, size: Array) -> Array:
    """Tokens of a buffer, known to be UTF-8, as an array of strings.

    All strings of a NumPy array are as wide as the widest. If that would be mostly padding, they are objects.
    """
    width = int(size.max(initial=0))
    if width == 0:
        return np.full(len(at), "")
    padded = width * len(at) > 8 * int(size.sum()) + (1 << 20)
    if padded or len(at) <= FEW_TEXTS:
        strings = [buf[a : a + n].tobytes().decode("utf-8") for a, n in zip(at.tolist(), size.tolist(), strict=True)]
        return np.array(strings, dtype=object if padded else None)
    cells = np.zeros((len(at), width), dtype=np.uint8)
    is_ascii = kernels.gather(buf, at, size, cells)
    raw = cells.view(f"S{width}")[:, 0]
    if is_ascii:
        return raw.astype(f"U{width}")
    return np.array([text.decode("utf-8") for text in raw.tolist()])


def _first_odd_query(target: _Target) -> int:
    """The position of the first query id that is not text, or -1."""
    odd = kernels.NEW_QUERY | kernels.ODD_QUERY
    rows = np.flatnonzero(target.marks[:, kernels.FLAGS] & odd == odd)
    return _first_odd(target.buf, target.marks[rows, kernels.QUERY], target.marks[rows, kernels.QUERY_SIZE])


def _first_long(at: Array, size: Array) -> int:
    """The position of the first id that is too long, or -1."""
    return int(at[np.argmax(size > LONGEST_ID)]) if size.max(initial=0) > LONGEST_ID else -1


def _first_odd(buf: Array, at: Array, size: Array) -> int:
    for start, n in zip(at.tolist(), size.tolist(), strict=True):
        if not is_text(buf[start : start + n].tobytes()):
            return int(start)
    return -1


def _to_single(number: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def _token(buf: Array, at: int) -> bytes:
    size = 64
    while True:
        match = TOKEN.match(buf[at : at + size].tobytes())
        token = match.group() if match else b""
        if len(token) < size:
            return token
        size *= 8


def first_row_names_query(path: PathLike) -> bool:
    """Whether the first row of the file has a query id."""
    return names_query(next(filter(is_data_line, _lines(path)), b""))


def lines_of_rows(path: PathLike, rows: list[int]) -> list[int]:
    """The line numbers of rows, found by reading the file again: only error messages need them."""
    found: dict[int, int] = {}
    row = 0
    for number, line in enumerate(_lines(path), start=1):
        if is_data_line(line):
            if row in rows:
                found[row] = number
                if len(found) == len(set(rows)):
                    break
            row += 1
    return [found[row] for row in rows]


def split_query_error(path: PathLike, query: Any, ended: int, again: int) -> FormatError:
    """The error for a query that ends at one line and starts again at another."""
    return FormatError(
        f"query {brief(query)} ends at line {ended} and starts again at line {again}: usually two files glued "
        f"together; pass {option('merge', True)} if this is intended",
        path=path,
        line=again,
    )


def _lines(path: PathLike) -> Iterator[bytes]:
    for chunk in text_chunks(path, SPAN_BYTES):
        yield from chunk.buf[chunk.start : chunk.stop].tobytes().removesuffix(b"\n").split(b"\n")
        chunk.release()
