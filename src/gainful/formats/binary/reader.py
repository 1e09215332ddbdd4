"""gainful's own binary format: the arrays of a RankingData as they are in memory, in one file that can be mapped.

Layout, little-endian::

    8 bytes   magic            4 bytes  version         4 bytes  length of the header
    4 bytes   CRC-32 of the header                      4 bytes  zero
    header    JSON: the shape of the data and the start of each array
    arrays    each at a multiple of 64 bytes; the last holds the CRC-32 of every MiB of the others

Reading executes nothing from the file. Every length is checked against the file before anything is mapped or allocated.
Files written before there were checksums are read without them.
"""

from __future__ import annotations

import itertools
import json
import mmap
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gainful.data.dataset import RankingData
from gainful.data.rows import (
    Array,
    first_duplicate,
    is_rising,
    is_unicode,
    refuse_infinite,
    row_chunks,
    weight_fields,
)
from gainful.errors import FormatError, ParameterError
from gainful.formats.binary.writer import ALIGNMENT, CHECKED_BYTES, CHUNK_VALUES, MAGIC, PREFIX, VERSION
from gainful.formats.binary.writer import Writer as Writer
from gainful.formats.files import PathLike, check_readable, errors_of, forget_pages
from gainful.formats.ids import check_ids, string_array
from gainful.formats.limits import MemoryLimit

DAMAGED = "the file is damaged: "  # what goes before errors about its data


@dataclass(frozen=True)
class _Shape:
    """The counts that determine the size of every array."""

    n_rows: int
    n_features: int
    n_queries: int
    n_values: int | None  # stored values of a CSR matrix, None for a dense one
    dtype: str

    def array_type(self, name: str, size: int) -> tuple[str, int] | None:
        """Element type and length that array ``name`` must have; ``size`` is the length of text, which is free."""
        n, q = self.n_rows, self.n_queries
        known = {
            "y": ("<f8", n),
            "offsets": ("<i8", q + 1),
            "query_ids": ("<i8", q),
            "query_id_ends": ("<i8", q + 1),
            "query_id_text": ("|u1", size),
            "doc_ids": ("<i8", n),
            "doc_id_ends": ("<i8", n + 1),
            "doc_id_text": ("|u1", size),
            "query_weights": ("<f8", q),
            "document_weights": ("<f8", n),
            "init_scores": ("<f8", n),
            "positions": ("<i8", n),
            "propensities": ("<f8", n),
            "checksums": ("<u4", size),
        }
        value = "<f4" if self.dtype == "float32" else "<f8"
        if self.n_values is None:
            known["X"] = (value, n * self.n_features)
        else:
            known |= {"data": (value, self.n_values), "indices": ("<i8", self.n_values), "indptr": ("<i8", n + 1)}
            known["indices32"] = ("<i4", self.n_values)
        return known.get(name)


# -- reading -----------------------------------------------------------------------------------------------------------


def read(path: PathLike, *, mmap: bool = True, verify: bool = True, max_bytes: int | str | None = None) -> RankingData:
    """Read a binary file. With ``mmap`` (the default) the values stay in the file until they are used.

    So do the grades, and document ids that are integers. Everything is checked: checksums, grades, offsets, ids,
    weights, the columns of a CSR matrix, and that values are finite or NaN. ``verify=False`` skips the values of the
    matrix, so that opening a file does not read them. ``max_bytes`` limits the memory for what is not mapped, a number
    or text such as "4GB"; by default it is what is free.
    """
    check_options(mmap, verify)
    opened = BinaryFile(path, mapped=mmap, verify=verify)
    opened.check_memory(MemoryLimit(path, max_bytes))
    opened.refuse_repeated_query()
    return opened.part(0, opened.n_queries)


def check_options(mmap: Any, verify: Any) -> None:
    for name, value in (("mmap", mmap), ("verify", verify)):
        if not isinstance(value, bool):
            raise ParameterError.of("read", name, "True or False", value)


def _read_header(path: PathLike, size: int) -> tuple[dict[str, Any], int]:
    """The header and where the arrays start."""
    with open(path, "rb") as file:
        prefix = file.read(PREFIX.size)
        if prefix[: len(MAGIC)] != MAGIC[: len(prefix)]:
            raise FormatError("is not a gainful binary file", path=path)
        if len(prefix) < PREFIX.size:
            raise FormatError("the file is cut short", path=path)
        _, version, length, checksum, rest = PREFIX.unpack(prefix)
        if version != VERSION or rest != 0:
            raise FormatError(f"has version {version} of the format; this gainful reads version {VERSION}", path=path)
        if PREFIX.size + length > size:
            raise FormatError("the file is cut short", path=path)
        text = file.read(length)
    if zlib.crc32(text) != checksum:
        raise FormatError("the file is damaged: the header does not match its checksum", path=path)
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise FormatError("the file is damaged: the header is not JSON", path=path)
    return header, PREFIX.size + length


class BinaryFile:
    """An open file whose header, offsets and weights have been read and checked; queries are read on demand.

    Without ``verify``, the values of the matrix are not checked.
    """

    def __init__(self, path: PathLike, *, mapped: bool = True, verify: bool = True):
        self.path, self.mapped, self.verify = path, mapped, verify
        self.size = check_readable(path)
        self.header, self.start = _read_header(path, self.size)
        self.shape = self._shape()
        places = self.header.get("arrays")
        if not isinstance(places, dict):
            raise self._damage_error("the list of arrays is missing")
        self.places: dict[str, Any] = places
        if self.start + _count(self.header.get("bytes")) > self.size:
            raise FormatError("the file is cut short", path=path)
        with open(path, "rb") as file:
            self.pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.checksums = self._read_checksums()
        self.is_checked = np.zeros(len(self.checksums), dtype=bool)
        self.offsets = self._small("offsets")
        if self.offsets[0] != 0 or self.offsets[-1] != self.shape.n_rows or not is_rising(self.offsets):
            raise self._damage_error("the offsets of the queries do not increase to the number of rows")
        self.feature_names = self._names()
        self.query_weights = self._weights()

    @property
    def n_queries(self) -> int:
        return self.shape.n_queries

    @property
    def is_sparse(self) -> bool:
        return self.shape.n_values is not None

    def part(self, first: int, last: int) -> RankingData:
        """The data of the queries ``first:last``."""
        rows = slice(int(self.offsets[first]), int(self.offsets[last]))
        query_ids = self._ids("query_id", slice(first, last))
        if query_ids is None:
            raise self._damage_error("the query ids are missing")
        offsets = self.offsets[first : last + 1] - self.offsets[first]
        weights = {"query_weights": None if self.query_weights is None else self.query_weights[first:last]}
        by_row = self._row_column("document_weights", rows)
        return RankingData._build_unchecked(
            X=self._matrix(rows),
            y=self._grades(rows),
            offsets=offsets,
            query_ids=query_ids,
            doc_ids=self._ids("doc_id", rows),
            feature_names=self.feature_names,
            **{name: self._row_column(name, rows) for name in ("init_scores", "positions", "propensities")},
            **(weights if by_row is None else weight_fields(by_row, offsets)),
        )

    def check_memory(self, limit: MemoryLimit) -> None:
        """Refuse a file whose arrays, except those that are mapped, take too much memory."""
        texts = ("query_id_text", "doc_id_text", "query_id_ends", "doc_id_ends")
        held = texts if self.mapped else [name for name in self.places if name != "checksums"]
        sizes = [self._place(name) for name in held if name in self.places]
        limit.check(sum(size * np.dtype(kind).itemsize for kind, size, _ in sizes), "the data")

    def refuse_repeated_query(self) -> None:
        """Raise if two queries have the same id."""
        ids = self._ids("query_id", slice(0, self.n_queries))
        twice = None if ids is None else first_duplicate(ids)
        if twice is not None:
            raise self._damage_error(f"query {twice!r} is there twice")

    def release(self) -> None:
        """Drop the pages read so far; they are read again when they are used."""
        forget_pages(self.pages, 0, self.size)

    def _damage_error(self, what: str) -> FormatError:
        return FormatError(f"the file is damaged: {what}", path=self.path)

    def _shape(self) -> _Shape:
        header = self.header
        n_values = header.get("n_values")
        counts = [_count(header.get(name)) for name in ("n_rows", "n_features", "n_queries")]
        if min(counts) < 0 or counts[0] == 0 or (n_values is not None and _count(n_values) < 0):
            raise self._damage_error("a count in the header is wrong")
        if header.get("dtype") not in ("float32", "float64"):
            raise self._damage_error("the type of the values is unknown")
        return _Shape(counts[0], counts[1], counts[2], n_values, header["dtype"])

    def _place(self, name: str) -> tuple[str, int, int]:
        """Type, length and position in the file of a required array."""
        place = self.places.get(name)
        if not isinstance(place, dict):
            raise self._damage_error(f"the array {name} is missing")
        at, size = _count(place.get("at")), _count(place.get("size"))
        expected = self.shape.array_type(name, size)
        if expected is None or at < 0 or size != expected[1] or at % ALIGNMENT:
            raise self._damage_error(f"the place or size of the array {name} is wrong")
        kind = expected[0]
        if self.start + at + size * np.dtype(kind).itemsize > self.size:
            raise FormatError("the file is cut short", path=self.path)
        return kind, size, self.start + at

    def _read_checksums(self) -> Array:
        """The CRC-32 of each stretch of the arrays; none in files that were written before there were any."""
        if "checksums" not in self.places:
            return np.empty(0, dtype=np.uint32)
        kind, size, at = self._place("checksums")
        raw = self.pages[at : at + size * np.dtype(kind).itemsize]
        if zlib.crc32(raw) != self.places["checksums"].get("crc") or size != -(-(at - self.start) // CHECKED_BYTES):
            raise self._damage_error("the checksums do not match theirs")
        return _native(np.frombuffer(raw, dtype=kind))

    def _check_bytes(self, at: int, size: int) -> None:
        """Refuse bytes of the file that do not match their checksums; each stretch is checked once."""
        if not len(self.checksums):
            return
        end = self._place("checksums")[2]
        first, last = (at - self.start) // CHECKED_BYTES, -(-(at + size - self.start) // CHECKED_BYTES)
        for i in (np.flatnonzero(~self.is_checked[first:last]) + first).tolist():
            start = self.start + i * CHECKED_BYTES
            stop = min(start + CHECKED_BYTES, end)
            if zlib.crc32(memoryview(self.pages)[start:stop]) != self.checksums[i]:
                raise self._damage_error(f"bytes {start:,} to {stop:,} do not match their checksum")
            self.is_checked[i] = True
            forget_pages(self.pages, start, stop)

    def _small(self, name: str, start: int = 0, stop: int | None = None) -> Array:
        """An array, or part of it, read into memory."""
        kind, size, at = self._place(name)
        count = (size if stop is None else stop) - start
        self._check_bytes(at + start * np.dtype(kind).itemsize, count * np.dtype(kind).itemsize)
        array = np.fromfile(self.path, dtype=kind, count=count, offset=at + start * np.dtype(kind).itemsize)
        if len(array) != count:
            raise FormatError("the file is cut short", path=self.path)
        return _native(array)

    def _values(self, name: str, which: slice, *, verify: bool = True) -> Array:
        """Part of an array mapped from the file, or read if mapping was declined."""
        kind, size, at = self._place(name)
        if not self.mapped or size == 0:
            return self._small(name, which.start, which.stop)
        itemsize = np.dtype(kind).itemsize
        if verify:
            self._check_bytes(at + which.start * itemsize, (which.stop - which.start) * itemsize)
        return _native(np.frombuffer(self.pages, dtype=kind, count=size, offset=at)[which])

    def _chunks_of(self, array: Array) -> Iterator[tuple[int, Array]]:
        """(start, chunk) of an array that is checked from end to end, each with the first value of the next.

        Mapped pages are dropped once they are checked.
        """
        for start in range(0, len(array), CHUNK_VALUES):
            yield start, array[start : start + CHUNK_VALUES + 1]
            if self.mapped:
                self.release()

    def _grades(self, rows: slice) -> Array:
        y = self._values("y", rows)
        for _, chunk in self._chunks_of(y):
            if not (np.isfinite(chunk).all() and (chunk >= 0).all()):
                raise self._damage_error("a grade is negative or not finite")
        return y

    def _matrix(self, rows: slice) -> Any:
        shape = self.shape
        if shape.n_values is None:
            cells = slice(rows.start * shape.n_features, rows.stop * shape.n_features)
            values = self._values("X", cells, verify=self.verify)
            return self._check_finite(values.reshape(rows.stop - rows.start, shape.n_features), rows.start)
        from scipy import sparse

        indptr = self._small("indptr", rows.start, rows.stop + 1)
        starts_well = indptr[0] == 0 if rows.start == 0 else indptr[0] >= 0
        ends_well = indptr[-1] == shape.n_values if rows.stop == shape.n_rows else indptr[-1] <= shape.n_values
        if not (starts_well and ends_well) or (indptr[1:] < indptr[:-1]).any():
            raise self._damage_error("the rows of the sparse matrix are out of order")
        cells = slice(int(indptr[0]), int(indptr[-1]))
        indices = self._values("indices32" if "indices32" in self.places else "indices", cells)
        indptr -= cells.start
        self._check_columns(indices, indptr)
        X: Any = sparse.csr_matrix((len(indptr) - 1, shape.n_features), dtype=shape.dtype)
        X.data = self._values("data", cells, verify=self.verify)
        X.indices, X.indptr = indices, indptr.astype(indices.dtype)
        return self._check_finite(X, rows.start)

    def _check_finite(self, X: Any, first_row: int) -> Any:
        """The matrix; infinite values are refused unless checking was declined. Mapped pages are dropped on the way."""
        if not self.verify:
            return X
        width = X.shape[1] if isinstance(X, np.ndarray) else X.nnz / X.shape[0]
        for rows in row_chunks(X.shape[0], width):
            with errors_of(self.path, DAMAGED):
                refuse_infinite(X[rows], first_row + rows.start)
            if self.mapped:
                self.release()
        return X

    def _check_columns(self, indices: Array, indptr: Array) -> None:
        """Refuse columns outside the matrix, which a product would read out of bounds, and columns out of order."""
        for start, chunk in self._chunks_of(indices):
            if chunk.min() < 0 or chunk.max() >= self.shape.n_features:
                raise self._damage_error("a column of the sparse matrix does not exist")
            falls = np.flatnonzero(chunk[1:] <= chunk[:-1]) + start + 1
            at = np.searchsorted(indptr, falls)
            if (indptr[at] != falls).any():
                raise self._damage_error("the columns of the sparse matrix are out of order")

    def _ids(self, name: str, which: slice) -> Array | None:
        """Ids of queries or rows; texts are decoded, integer ids of rows stay in the file."""
        if f"{name}s" in self.places:
            numbers = self._values(f"{name}s", which)
            return numbers if name == "doc_id" else np.array(numbers)
        if f"{name}_ends" not in self.places:
            return None
        ends = self._small(f"{name}_ends", which.start, which.stop + 1)
        n_bytes = self._place(f"{name}_text")[1]
        is_whole = (which.start > 0 or ends[0] == 0) and (which.stop < self._size(name) or ends[-1] == n_bytes)
        if not is_whole or ends[0] < 0 or ends[-1] > n_bytes or (np.diff(ends) < 0).any():
            raise self._damage_error(f"the texts of the {name}s are out of order")
        text = self._small(f"{name}_text", int(ends[0]), int(ends[-1])).tobytes()
        try:
            texts = [text[a:b].decode("utf-8") for a, b in _spans(ends - ends[0])]
        except UnicodeDecodeError:
            raise self._damage_error(f"a {name} is not UTF-8 text") from None
        with errors_of(self.path, DAMAGED):
            check_ids(texts, "query id" if name == "query_id" else "document id")
        return string_array(texts)

    def _size(self, name: str) -> int:
        return self.shape.n_queries if name == "query_id" else self.shape.n_rows

    def _names(self) -> tuple[str, ...] | None:
        names = self.header.get("feature_names")
        if names is None:
            return None
        is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
        is_list = is_list and all(map(is_unicode, names))
        if not is_list or len(names) != self.shape.n_features or len(set(names)) != len(names):
            raise self._damage_error("the feature names are wrong")
        return tuple(names)

    def _row_column(self, name: str, rows: slice) -> Array | None:
        """The weights or another optional column of these rows."""
        if name not in self.places:
            return None
        values = self._small(name, rows.start, rows.stop)
        low = -np.inf if name == "init_scores" else 0
        if not np.isfinite(values).all() or (values < low).any() or (name == "propensities" and (values > 1).any()):
            raise self._damage_error(f"the {name.replace('_', ' ')} have a number that is out of range")
        return values

    def _weights(self) -> Array | None:
        if "query_weights" not in self.places:
            return None
        weights = self._small("query_weights")
        if not np.isfinite(weights).all() or (weights < 0).any():  # in a shard, all may be 0
            raise self._damage_error("a query weight is negative or not finite")
        return weights


def _count(value: Any) -> int:
    """A count from a header, -1 if it is not a count; bounded, so that products of two counts stay small."""
    return value if type(value) is int and 0 <= value < 2**62 else -1


def _native(array: Array) -> Array:
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _spans(ends: Array) -> Iterator[tuple[int, int]]:
    edges = ends.tolist()
    return itertools.pairwise(edges)
