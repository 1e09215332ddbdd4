"""Write gainful's binary format, piece by piece in bounded memory; data in memory is one piece.

:mod:`gainful.formats.binary.reader` describes the layout of the file.
"""

from __future__ import annotations

import json
import mmap
import struct
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np

from gainful.data.dataset import RankingData
from gainful.data.frames import without_codes
from gainful.data.rows import Array, check_names, check_query_weights, first_duplicate, join_optional, rows_of_queries
from gainful.errors import DataError, FormatError, ParameterError
from gainful.formats.files import FileWriter, PathLike, atomic_write
from gainful.formats.ids import encode_all, integers_if_canonical, plain_ids

MAGIC = b"\x89GNF\r\n\x1a\n"
VERSION = 1
PREFIX = struct.Struct("<8sIIII")
ALIGNMENT = 64
CHUNK_VALUES = 1 << 20
CHUNK_ROWS = 1 << 16
CHECKED_BYTES = 1 << 20  # of the file per checksum
SPOOL_BYTES = 1 << 20  # of a side file, kept in memory, so that a small file needs no side files on disk
LARGEST_NARROW = 2**31 - 1
LARGEST_COUNT = 2**62
ALL_ARRAYS = (
    "X", "y", "offsets", "query_ids", "query_id_ends", "query_id_text", "doc_ids", "doc_id_ends", "doc_id_text",
    "query_weights", "document_weights", "init_scores", "positions", "propensities", "data", "indices",
    "indices32", "indptr", "checksums",
)  # fmt: skip


def open_writer(path: PathLike, data: RankingData) -> Writer:
    """A writer for one append of all of ``data``: everything but the input order reads back unchanged."""
    return Writer(
        path,
        data.n_features,
        dtype=str(data.X.dtype),
        feature_names=data.feature_names,
        sparse=data.is_sparse,
        distinct=True,
        whole=True,
    )


class Queries(NamedTuple):
    """All queries of a file, known before its rows are written, so that rows can arrive in any order."""

    offsets: Array
    ids: Array
    weights: Array | None
    mixed: bool = False  # whether rows of one query have different weights


class Writer(FileWriter):
    """A binary file written piece by piece: ``with Writer(path, 136) as writer: writer.append(data); …``.

    The values of a dense matrix go straight to their place. Values per row and per query, and a sparse matrix, wait in
    unnamed side files until the end. The file appears when the block succeeds; otherwise nothing is left.

    Parameters
    ----------
    n_features : None, for a sparse matrix only, means the width of the widest piece
    dtype : "float64" or "float32"
    feature_names : n_features strings or None
    sparse : the pieces are CSR
    queries : all queries, if known beforehand; then add rows with :meth:`place`, otherwise with :meth:`append`
    text_integers : which of "query_id" and "doc_id" become integers if all texts are plain integers
    distinct : the caller guarantees that no query id appears twice
    whole : one piece has all rows and stays in memory until the end, so no side files are needed
    """

    def __init__(
        self,
        path: PathLike,
        n_features: int | None,
        *,
        dtype: str = "float64",
        feature_names: Sequence[str] | None = None,
        sparse: bool = False,
        queries: Queries | None = None,
        text_integers: Collection[str] = (),
        distinct: bool = False,
        whole: bool = False,
    ):
        super().__init__(path)
        if np.dtype(dtype).name not in ("float32", "float64"):
            raise ParameterError.of("Writer", "dtype", "'float32' or 'float64'", dtype)
        if n_features is None and not sparse:
            raise ParameterError.of("Writer", "n_features", "a number where the matrix is dense", n_features)
        self.sparse, self.queries, self.distinct, self.whole = sparse, queries, distinct, whole
        self.dtype: np.dtype[Any] = np.dtype(dtype).newbyteorder("<")
        self.n_features, self._grows = n_features or 0, n_features is None
        self.feature_names = None if n_features is None else check_names(feature_names, n_features)
        self.n_rows = self.n_queries = self.n_values = 0
        self._text_integers = text_integers
        self._last_id: Any = None

    def _open(self, stack: ExitStack) -> None:
        self._file = stack.enter_context(atomic_write(self.path))
        self._start = self._reserve()
        self._file.write(b"\0" * self._start)
        self._side_files = stack
        narrow = self.n_features <= LARGEST_NARROW
        self._y, self._sizes = self._spool("<f8"), self._spool("<i8")
        self._query_ids, self._doc_ids = self._ids("query_id"), self._ids("doc_id")
        self._weights: list[Array | None] = []  # of each piece
        self._new_queries: list[int] = []  # of each piece
        self._row_weights = _RowColumn(self._spool("<f8"), 1.0)
        self._columns_of_rows = {
            "init_scores": _RowColumn(self._spool("<f8"), 0.0),
            "positions": _RowColumn(self._spool("<i8"), 0),
            "propensities": _RowColumn(self._spool("<f8"), 1.0),
        }
        self._mixed = self.queries is not None and self.queries.mixed
        self._last_weight = 1.0  # of the last query
        self._at, self._columns, self._data = self._spool("<i8", 2), self._spool("<i4" if narrow else "<i8"), None
        if self.sparse:
            self._data = self._spool(self.dtype.str)

    def _spool(self, dtype: str, width: int = 1) -> Spool:
        if self.whole:
            return MemorySpool(dtype, width)
        return self._side_files.enter_context(Spool(Path(self.path).resolve().parent, dtype, width))

    def _ids(self, name: str) -> _Ids:
        spools = (self._spool("<i8"), self._spool("<i8", 2), self._spool("|u1"))
        return _Ids(name, self.path, spools, name in self._text_integers)

    def _reserve(self) -> int:
        """Bytes for the prefix and the longest possible header, aligned."""
        places = {name: {"at": LARGEST_COUNT, "size": LARGEST_COUNT} for name in ALL_ARRAYS}
        places["checksums"]["crc"] = LARGEST_COUNT
        counts: dict[str, int | None] = dict.fromkeys(
            ("n_rows", "n_features", "n_queries", "n_values", "bytes"), LARGEST_COUNT
        )
        size = PREFIX.size + len(self._header(counts, places))
        return size + -size % ALIGNMENT

    def _header(self, counts: dict[str, int | None], places: dict[str, dict[str, int]]) -> bytes:
        names = None if self.feature_names is None else list(self.feature_names)
        rest = {"dtype": self.dtype.name, "feature_names": names, "arrays": places}
        return json.dumps(counts | rest).encode("ascii")

    # -- rows ----------------------------------------------------------------------------------------------------------

    def append(self, data: RankingData, *, continues: bool = False) -> None:
        """Add rows at the end. With ``continues`` the first query of ``data`` continues the last one added."""
        if self.queries is not None:
            raise RuntimeError("the queries are known: place rows instead of appending them")
        sizes = data.counts
        if continues:
            self._lengthen_last(data.query_ids[:1].tolist()[0], int(sizes[0]))
        weights = np.ones(len(sizes)) if data.query_weights is None else data.query_weights
        self._mixed |= data.has_document_weights or (continues and bool(weights[0] != self._last_weight))
        self._last_weight = float(weights[-1])
        new = slice(int(continues), None)
        self._sizes.append(sizes[new])
        self._query_ids.add(data.query_ids[new], len(sizes[new]))
        self._weights.append(None if data.query_weights is None else data.query_weights[new])
        self._new_queries.append(len(sizes[new]))
        self.n_queries += len(sizes[new])
        self._last_id = data.query_ids[-1:].tolist()[0]
        self._add(data, None)

    def place(self, data: RankingData, at: Array) -> None:
        """Write the rows of query ``i`` of ``data`` to the rows of the file from ``at[i]`` on."""
        if self.queries is None:
            raise RuntimeError("the queries are not known: append rows instead of placing them")
        self._add(data, at)

    def _lengthen_last(self, query: Any, more: int) -> None:
        if self.n_queries == 0:
            raise DataError("there is no query to continue")
        if query != self._last_id:
            raise DataError(f"query {query!r} cannot continue query {self._last_id!r}")
        last = self._sizes.read(self.n_queries - 1, self.n_queries)
        self._sizes.place(np.array([self.n_queries - 1]), np.array([1]), last + more)

    def _add(self, data: RankingData, at: Array | None) -> None:
        X = self._check_form(without_codes(data.X), data.feature_names)
        where = None if at is None else Places(at, data.counts)
        if self.sparse:
            self._add_sparse(X, where)
        elif where is None:
            _write_array(self._file, X.reshape(-1), self.dtype)
        else:
            for start, stop, target in where.runs():
                self._file.seek(self._start + target * self.n_features * self.dtype.itemsize)
                _write_array(self._file, X[start:stop].reshape(-1), self.dtype)
        self._y.add(data.y, where)
        self._doc_ids.add(data.doc_ids, data.n_rows, where)
        self._row_weights.add(data.row_weights, data.n_rows, self.n_rows, where)
        for name, column in self._columns_of_rows.items():
            column.add(getattr(data, name), data.n_rows, self.n_rows, where)
        self.n_rows += data.n_rows

    def _add_sparse(self, X: Any, where: Places | None) -> None:
        assert self._data is not None
        starts = np.stack([X.indptr[:-1] + np.int64(self.n_values), np.diff(X.indptr)], axis=1)
        self._at.add(starts, where)
        self._columns.append(X.indices)
        self._data.append(X.data)
        self.n_values += int(X.nnz)

    def _check_form(self, X: Any, names: tuple[str, ...] | None) -> Any:
        if isinstance(X, np.ndarray) == self.sparse:
            raise DataError("one piece of the data is sparse and another dense")
        if self._grows:
            self.n_features = max(self.n_features, X.shape[1])
        elif X.shape[1] != self.n_features:
            raise DataError(f"a piece of the data has {X.shape[1]} features, the file has {self.n_features}")
        if names != self.feature_names:
            raise DataError("a piece of the data has different feature names than the file")
        if X.dtype.itemsize > self.dtype.itemsize:
            raise DataError(f"a piece of the data is {X.dtype}, the file is {self.dtype.name}")
        return X

    # -- the end -------------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        if self.n_rows == 0:
            raise FormatError("there are no rows to write", path=self.path)
        self._places: dict[str, dict[str, int]] = {}
        self._position = 0
        if not self.sparse:
            size = self.n_rows * self.n_features
            self._file.seek(self._start + size * self.dtype.itemsize)
            self._note_place("X", size, size * self.dtype.itemsize)
        self._put("y", self.n_rows, 8, self._y.chunks(self.n_rows))
        self._put_queries()
        self._put_ids(self._doc_ids, self.n_rows)
        if self.sparse:
            self._put_sparse()
        counts: dict[str, int | None] = {
            "n_rows": self.n_rows,
            "n_features": self.n_features,
            "n_queries": self.n_queries,
            "n_values": self.n_values if self.sparse else None,
        }
        self._put_checksums()
        counts["bytes"] = self._position
        text = self._header(counts, self._places)
        text += b" " * (self._start - PREFIX.size - len(text))
        self._file.seek(0)
        self._file.write(PREFIX.pack(MAGIC, VERSION, len(text), zlib.crc32(text), 0) + text)

    def _put_checksums(self) -> None:
        """Add the CRC-32 of every stretch of the file after the header, read back: rows may arrive in any order."""
        self._file.flush()
        self._file.seek(self._start)
        sizes = (min(CHECKED_BYTES, self._position - at) for at in range(0, self._position, CHECKED_BYTES))
        found = np.array([zlib.crc32(self._file.read(size)) for size in sizes], dtype="<u4")
        self._put("checksums", len(found), 4, [found])
        self._places["checksums"]["crc"] = zlib.crc32(found.data)

    def _put_queries(self) -> None:
        if self.queries is not None:
            offsets, ids, weights, _ = self.queries
            self.n_queries = len(offsets) - 1
            self._put("offsets", len(offsets), 8, [offsets])
            self._query_ids.add(ids, len(ids))
        else:
            sizes = self._sizes.read(0, self.n_queries)
            offsets = np.concatenate([[0], np.cumsum(sizes)]).astype("<i8")
            self._put("offsets", len(offsets), 8, [offsets])
            weights = join_optional(self._weights, self._new_queries, 1.0)
        if not self.distinct:
            self._refuse_repeated()
        self._put_ids(self._query_ids, self.n_queries)
        for name, column in self._columns_of_rows.items():
            if column.used:
                self._put(name, self.n_rows, 8, column.spool.chunks(self.n_rows))
        if self._mixed:  # those of the queries are their means
            self._put("document_weights", self.n_rows, 8, self._row_weights.spool.chunks(self.n_rows))
        elif weights is not None:
            weights = check_query_weights(weights, self.n_queries, all_zero=True)
            self._put("query_weights", self.n_queries, 8, [np.asarray(weights, dtype="<f8")])

    def _refuse_repeated(self) -> None:
        twice = first_duplicate(self._query_ids.all(self.n_queries))
        if twice is not None:
            raise DataError(f"query {twice!r} is in two pieces of the data; the rows of a query must be adjacent")

    def _put_ids(self, ids: _Ids, n: int) -> None:
        if ids.kind == "integers":
            self._put(f"{ids.name}s", n, 8, ids.numbers.chunks(n))
        elif ids.kind == "texts":
            self._put(f"{ids.name}_ends", n + 1, 8, _ends(ids.spans.chunks(n)))
            size = sum(int(piece[:, 1].sum()) for piece in ids.spans.chunks(n))
            pieces = ids.text.chunks(size) if ids.ordered else _gather(ids.text, ids.spans.chunks(n))
            self._put(f"{ids.name}_text", size, 1, pieces)

    def _put_sparse(self) -> None:
        assert self._data is not None
        n, rows = self.n_values, self.n_rows
        self._put("indptr", rows + 1, 8, _ends(self._at.chunks(rows)))
        narrow = n <= LARGEST_NARROW and self.n_features <= LARGEST_NARROW
        kind = np.dtype("<i4" if narrow else "<i8")
        ordered = self.queries is None
        columns = self._columns.chunks(n) if ordered else _gather(self._columns, self._at.chunks(rows))
        cast = (chunk.astype(kind, copy=False) for chunk in columns)
        self._put("indices32" if narrow else "indices", n, kind.itemsize, cast)
        values = self._data.chunks(n) if ordered else _gather(self._data, self._at.chunks(rows))
        self._put("data", n, self.dtype.itemsize, values)

    def _put(self, name: str, size: int, itemsize: int, pieces: Iterable[Array]) -> None:
        for piece in pieces:
            self._file.write(np.ascontiguousarray(piece).data)
        self._note_place(name, size, size * itemsize)

    def _note_place(self, name: str, size: int, n_bytes: int) -> None:
        """Note the position of the array just written, and pad to the next multiple of 64 bytes."""
        self._places[name] = {"at": self._position, "size": size}
        self._file.write(b"\0" * (-n_bytes % ALIGNMENT))
        self._position += n_bytes + -n_bytes % ALIGNMENT


def _write_array(file: BinaryIO, array: Array, dtype: np.dtype[Any]) -> None:
    for start in range(0, array.size, CHUNK_VALUES):
        file.write(np.ascontiguousarray(array[start : start + CHUNK_VALUES], dtype=dtype).data)


def _ends(spans: Iterator[Array]) -> Iterator[Array]:
    """0 and the running sum of the sizes in (start, size) pairs."""
    end = 0
    yield np.zeros(1, dtype="<i8")
    for piece in spans:
        ends = end + np.cumsum(piece[:, 1]).astype("<i8")
        end = int(ends[-1])
        yield ends


def _gather(values: Spool, spans: Iterator[Array]) -> Iterator[Array]:
    """The values of each (start, size) pair, one pair after another."""
    source = values.view()
    for piece in spans:
        for some in np.array_split(piece, max(1, int(piece[:, 1].sum()) // CHUNK_VALUES)):
            edges = np.stack([some[:, 0], some[:, 0] + some[:, 1]], axis=1).reshape(-1)
            yield source[rows_of_queries(edges, np.arange(0, len(edges), 2))]


# -- side files --------------------------------------------------------------------------------------------------------


class Places(NamedTuple):
    """Where runs of rows go: the first target row and the number of rows of each."""

    first: Array
    sizes: Array

    def runs(self) -> Iterator[tuple[int, int, int]]:
        """(start, stop, target) of runs; runs that are adjacent in both source and target are joined."""
        starts = np.concatenate([[0], np.cumsum(self.sizes)])
        new = np.flatnonzero(np.append(True, self.first[1:] != self.first[:-1] + self.sizes[:-1]))
        bounds = np.append(starts[new], starts[-1])
        return zip(bounds[:-1].tolist(), bounds[1:].tolist(), self.first[new].tolist(), strict=True)


class Spool:
    """Rows of ``width`` numbers in an unnamed side file, in memory while they are few."""

    def __init__(self, folder: Path, dtype: str, width: int = 1):
        self.dtype, self.width = np.dtype(dtype), width
        self.row_bytes = self.dtype.itemsize * width
        self.file: Any = SpooledTemporaryFile(SPOOL_BYTES, dir=str(folder))  # noqa: SIM115 - closed by __exit__
        self.end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def add(self, rows: Array, where: Places | None) -> None:
        if where is None:
            self.append(rows)
        else:
            self.place(where.first, where.sizes, rows, where)

    def append(self, rows: Array) -> None:
        if len(rows):
            self._write(self.end, rows)

    def place(self, first: Array, sizes: Array, rows: Array, where: Places | None = None) -> None:
        for start, stop, target in (where or Places(first, sizes)).runs():
            self._write(target, rows[start:stop])

    def _write(self, at: int, rows: Array) -> None:
        self.file.seek(at * self.row_bytes)
        self.file.write(np.ascontiguousarray(rows, dtype=self.dtype).data)
        self.end = max(self.end, at + len(rows))

    def read(self, start: int, stop: int) -> Array:
        """Rows ``start:stop``; rows never written are 0."""
        self.file.seek(start * self.row_bytes)
        raw = self.file.read((stop - start) * self.row_bytes)
        raw += b"\0" * ((stop - start) * self.row_bytes - len(raw))
        rows = np.frombuffer(raw, dtype=self.dtype)
        return rows.reshape(-1, self.width) if self.width > 1 else rows

    def chunks(self, n: int) -> Iterator[Array]:
        """The first ``n`` rows, some at a time."""
        for start in range(0, n, CHUNK_ROWS):
            yield self.read(start, min(start + CHUNK_ROWS, n))

    def view(self) -> Array:
        """All values, mapped."""
        if self.end == 0:
            return np.empty(0, dtype=self.dtype)
        self.file.rollover()
        self.file.flush()
        pages = mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(pages, dtype=self.dtype)


class MemorySpool(Spool):
    """Rows added in order that stay in memory until the file is closed anyway, so they need no side file."""

    def __init__(self, dtype: str, width: int = 1):
        self.dtype, self.width = np.dtype(dtype), width
        self.rows: list[Array] = []
        self.end = 0

    def append(self, rows: Array) -> None:
        self.rows.append(rows)
        self.end += len(rows)

    def read(self, start: int, stop: int) -> Array:
        return np.concatenate(self.rows)[start:stop].astype(self.dtype, copy=False)

    def chunks(self, n: int) -> Iterator[Array]:
        for rows in self.rows:
            for start in range(0, len(rows), CHUNK_VALUES):
                yield np.asarray(rows[start : start + CHUNK_VALUES], dtype=self.dtype)


class _RowColumn:
    """One number per row that pieces may lack, ``fill`` if others have it."""

    def __init__(self, spool: Spool, fill: float):
        self.spool, self.fill, self.used = spool, fill, False

    def add(self, values: Array | None, n: int, before: int, where: Places | None) -> None:
        """Add ``n`` numbers; None if these rows have none. ``before``: rows so far."""
        if values is None and not self.used and where is None:
            return
        if values is not None and not self.used:
            self.used = True
            for start in range(0, before if where is None else 0, CHUNK_ROWS):
                self.spool.append(np.full(min(CHUNK_ROWS, before - start), self.fill))
        self.spool.add(np.full(n, self.fill) if values is None else values, where)


class _Ids:
    """Ids of queries or documents as they arrive: integers, or texts with the (start, size) of each."""

    def __init__(self, name: str, path: PathLike, spools: tuple[Spool, Spool, Spool], text_integers: bool):
        self.name, self.path, self.text_integers = name, path, text_integers
        self.numbers, self.spans, self.text = spools
        self.kind = "none"
        self.ordered = True
        self.rows = self.text_bytes = 0

    @property
    def what(self) -> str:
        return "query id" if self.name == "query_id" else "document id"

    def add(self, ids: Array | None, n: int, where: Places | None = None) -> None:
        """Add ``n`` ids; None means that these rows have none, stored as "" if others have one."""
        self.ordered = self.ordered and where is None
        if ids is None:
            if self.kind != "none":
                self._add_texts(np.full(n, ""), where)
        elif n:
            plain = plain_ids(ids, self.what, self.path)
            numbers = integers_if_canonical(plain) if self.text_integers and self.kind != "texts" else plain
            if numbers.dtype.kind == "i":
                self._add_numbers(numbers, where)
            else:
                self._add_texts(plain, where)
        self.rows += n

    def _add_numbers(self, numbers: Array, where: Places | None) -> None:
        if self.kind == "texts" or (self.kind == "none" and self.rows):
            raise self._mixed_ids_error()
        self.kind = "integers"
        self.numbers.add(numbers, where)

    def _add_texts(self, texts: Array, where: Places | None) -> None:
        if self.kind == "integers":
            if not self.text_integers:
                raise self._mixed_ids_error()
            self._turn_into_texts()
        elif self.kind == "none" and self.ordered:
            self.spans.append(np.zeros((self.rows, 2), dtype=np.int64))
        self.kind = "texts"
        self._store_texts(texts, where)

    def _turn_into_texts(self) -> None:
        """Store the integers so far as the texts they came from. Rows still to come overwrite theirs."""
        for numbers in self.numbers.chunks(self.numbers.end):
            self._store_texts(numbers.astype(str), None)

    def _store_texts(self, texts: Array, where: Places | None) -> None:
        encoded = encode_all(texts.tolist(), self.what, self.path)
        sizes = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
        starts = self.text_bytes + np.cumsum(sizes) - sizes
        self.spans.add(np.stack([starts, sizes], axis=1), where)
        self.text.append(np.frombuffer(b"".join(encoded), dtype=np.uint8))
        self.text_bytes += int(sizes.sum())

    def _mixed_ids_error(self) -> DataError:
        return DataError(f"some pieces of the data have integer {self.what}s, others texts or none")

    def all(self, n: int) -> Array:
        """All ids, in memory."""
        if self.kind == "integers":
            return self.numbers.read(0, n)
        text, spans = self.text.read(0, self.text.end).tobytes(), self.spans.read(0, n)
        found = np.empty(n, dtype=object)
        found[:] = [text[at : at + size].decode() for at, size in spans.tolist()]
        return found
