"""gainful's own binary format: the arrays of a RankingData as they are in memory, in one file that can be mapped.

Layout, little-endian::

    8 bytes   magic            4 bytes  version         4 bytes  length of the header
    4 bytes   CRC-32 of the header                      4 bytes  zero
    header    JSON: the shape of the data and the start of each array
    arrays    each at a multiple of 64 bytes

Reading executes nothing from the file. Every length is checked against the file before anything is mapped or allocated.
"""

from __future__ import annotations

import itertools
import json
import mmap
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from gainful.data.dataset import RankingData
from gainful.data.rows import Array, refuse_infinite
from gainful.errors import DataError, FormatError, ParameterError
from gainful.formats.binary.writer import ALIGNMENT, CHUNK_VALUES, MAGIC, PREFIX, VERSION
from gainful.formats.binary.writer import Writer as Writer
from gainful.formats.files import PathLike, check_readable, forget_pages
from gainful.formats.ids import string_array


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
        }
        value = "<f4" if self.dtype == "float32" else "<f8"
        if self.n_values is None:
            known["X"] = (value, n * self.n_features)
        else:
            known |= {"data": (value, self.n_values), "indices": ("<i8", self.n_values), "indptr": ("<i8", n + 1)}
            known["indices32"] = ("<i4", self.n_values)
        return known.get(name)


# -- reading -----------------------------------------------------------------------------------------------------------


def read(path: PathLike, *, mmap: bool = True) -> RankingData:
    """Read a binary file. With ``mmap`` (the default) the values stay in the file until they are used.

    So do the grades, and document ids that are integers. Grades, offsets, ids, weights and the columns of a CSR matrix
    are checked. The values of the matrix are checked only with ``mmap=False``.
    """
    check_mmap(mmap)
    opened = BinaryFile(path, mapped=mmap)
    data = opened.part(0, opened.n_queries)
    if not mmap:
        with _damage(path):
            refuse_infinite(data.X)
    return data


def check_mmap(mmap: Any) -> None:
    if not isinstance(mmap, bool):
        raise ParameterError.of("read", "mmap", "True or False", mmap)


@contextmanager
def _damage(path: PathLike) -> Iterator[None]:
    """Report data that is invalid in itself as a damaged file."""
    try:
        yield
    except FormatError:
        raise
    except DataError as error:
        raise FormatError(f"the file is damaged: {error}", path=path) from None


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
    """An open file whose header, offsets and weights have been read and checked; queries are read on demand."""

    def __init__(self, path: PathLike, *, mapped: bool = True):
        self.path, self.mapped = path, mapped
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
        self.offsets = self._small("offsets")
        if self.offsets[0] != 0 or self.offsets[-1] != self.shape.n_rows or (np.diff(self.offsets) <= 0).any():
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
        return RankingData._build_unchecked(
            X=self._matrix(rows),
            y=self._grades(rows),
            offsets=self.offsets[first : last + 1] - self.offsets[first],
            query_ids=query_ids,
            doc_ids=self._ids("doc_id", rows),
            feature_names=self.feature_names,
            query_weights=None if self.query_weights is None else self.query_weights[first:last],
        )

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

    def _small(self, name: str, start: int = 0, stop: int | None = None) -> Array:
        """An array, or part of it, read into memory."""
        kind, size, at = self._place(name)
        count = (size if stop is None else stop) - start
        array = np.fromfile(self.path, dtype=kind, count=count, offset=at + start * np.dtype(kind).itemsize)
        if len(array) != count:
            raise FormatError("the file is cut short", path=self.path)
        return _native(array)

    def _values(self, name: str) -> Array:
        """An array mapped from the file, or read if mapping was declined."""
        kind, size, at = self._place(name)
        if not self.mapped or size == 0:
            return self._small(name)
        return _native(np.frombuffer(self.pages, dtype=kind, count=size, offset=at))

    def _chunks_of(self, array: Array) -> Iterator[tuple[int, Array]]:
        """(start, chunk) of an array that is checked from end to end, each with the first value of the next.

        Mapped pages are dropped once they are checked.
        """
        for start in range(0, len(array), CHUNK_VALUES):
            yield start, array[start : start + CHUNK_VALUES + 1]
            if self.mapped:
                self.release()

    def _grades(self, rows: slice) -> Array:
        y = self._values("y")[rows]
        for _, chunk in self._chunks_of(y):
            if not (np.isfinite(chunk).all() and (chunk >= 0).all()):
                raise self._damage_error("a grade is negative or not finite")
        return y

    def _matrix(self, rows: slice) -> Any:
        shape = self.shape
        if shape.n_values is None:
            return self._values("X").reshape(shape.n_rows, shape.n_features)[rows]
        from scipy import sparse

        indptr = self._small("indptr", rows.start, rows.stop + 1)
        starts_well = indptr[0] == 0 if rows.start == 0 else indptr[0] >= 0
        ends_well = indptr[-1] == shape.n_values if rows.stop == shape.n_rows else indptr[-1] <= shape.n_values
        if not (starts_well and ends_well) or (np.diff(indptr) < 0).any():
            raise self._damage_error("the rows of the sparse matrix are out of order")
        cells = slice(int(indptr[0]), int(indptr[-1]))
        indices = self._values("indices32" if "indices32" in self.places else "indices")[cells]
        indptr -= cells.start
        self._check_columns(indices, indptr)
        X: Any = sparse.csr_matrix((len(indptr) - 1, shape.n_features), dtype=shape.dtype)
        X.data, X.indices, X.indptr = self._values("data")[cells], indices, indptr.astype(indices.dtype)
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
            numbers = self._values(f"{name}s")[which]
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
            return string_array([text[a:b].decode("utf-8") for a, b in _spans(ends - ends[0])])
        except UnicodeDecodeError:
            raise self._damage_error(f"a {name} is not UTF-8 text") from None

    def _size(self, name: str) -> int:
        return self.shape.n_queries if name == "query_id" else self.shape.n_rows

    def _names(self) -> tuple[str, ...] | None:
        names = self.header.get("feature_names")
        if names is None:
            return None
        is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
        if not is_list or len(names) != self.shape.n_features or len(set(names)) != len(names):
            raise self._damage_error("the feature names are wrong")
        return tuple(names)

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
