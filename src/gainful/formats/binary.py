"""gainful's own binary: the arrays of a RankingData as they are in memory, in one file that can be mapped.

Layout, little-endian::

    8 bytes   magic            4 bytes  version         4 bytes  length of the header
    4 bytes   CRC-32 of the header                      4 bytes  zero
    header    JSON: the shape of the data and, for each array, where it starts
    arrays    each at a multiple of 64 bytes

Nothing in it is executed. Every length is checked against the file before anything is mapped or allocated.
"""

from __future__ import annotations

import itertools
import json
import mmap
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from gainful.data import RankingData
from gainful.errors import DataError, FormatError, ParameterError
from gainful.formats.files import PathLike, atomic_write, check_readable
from gainful.formats.ids import encoded, plain_ids, string_array
from gainful.rows import refuse_infinite

Array = npt.NDArray[Any]
MAGIC = b"\x89GNF\r\n\x1a\n"
VERSION = 1
PREFIX = struct.Struct("<8sIIII")
ALIGNMENT = 64
PIECE_VALUES = 1 << 20


@dataclass(frozen=True)
class _Shape:
    """The counts that settle the size of every array."""

    n_rows: int
    n_features: int
    n_queries: int
    n_values: int | None  # stored values of a CSR matrix, None for a dense one
    dtype: str

    def expected(self, name: str, size: int) -> tuple[str, int] | None:
        """Element type and length that array ``name`` must have; ``size`` is that of text, which is free."""
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


# -- writing -----------------------------------------------------------------------------------------------------------


def write(data: RankingData, path: PathLike) -> None:
    """Write the binary: everything but the row history comes back as it is."""
    arrays = _arrays(data, path)
    header: dict[str, Any] = {
        "n_rows": data.n_rows,
        "n_features": data.n_features,
        "n_queries": data.n_queries,
        "n_values": int(data.X.nnz) if data.is_sparse else None,
        "dtype": str(data.X.dtype),
        "feature_names": None if data.feature_names is None else list(data.feature_names),
    }
    text = _placed_header(header, arrays)
    with atomic_write(path) as file:
        file.write(PREFIX.pack(MAGIC, VERSION, len(text), zlib.crc32(text), 0))
        file.write(text)
        for array in arrays.values():
            _write_array(file, array)


def _arrays(data: RankingData, path: PathLike) -> dict[str, Array]:
    arrays: dict[str, Array] = {"y": data.y, "offsets": data.offsets}
    arrays |= _id_arrays("query_id", plain_ids(data.query_ids, "query id", path), path)
    if data.doc_ids is not None:
        arrays |= _id_arrays("doc_id", plain_ids(data.doc_ids, "document id", path), path)
    if data.query_weights is not None:
        arrays["query_weights"] = data.query_weights
    if data.is_sparse:
        narrow = data.X.indices.dtype == np.int32
        arrays |= {"indptr": data.X.indptr.astype("<i8"), "indices32" if narrow else "indices": data.X.indices}
        arrays["data"] = data.X.data
    else:
        arrays["X"] = data.X.reshape(-1)
    return arrays


def _id_arrays(name: str, ids: Array, path: PathLike) -> dict[str, Array]:
    if ids.dtype.kind == "i":
        return {f"{name}s": ids}
    texts = [encoded(text, name.replace("_", " "), path) for text in ids.tolist()]
    ends = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype("<i8")
    return {f"{name}_ends": ends, f"{name}_text": np.frombuffer(b"".join(texts), dtype=np.uint8)}


def _placed_header(header: dict[str, Any], arrays: dict[str, Array]) -> bytes:
    """The header as JSON, padded so that the first array is aligned. Places count from the end of the header."""
    at = 0
    places = {}
    for name, array in arrays.items():
        places[name] = {"at": at, "size": int(array.size)}
        at += array.nbytes + -array.nbytes % ALIGNMENT
    text = json.dumps(header | {"arrays": places, "bytes": at}).encode("ascii")
    return text + b" " * (-(PREFIX.size + len(text)) % ALIGNMENT)


def _write_array(file: BinaryIO, array: Array) -> None:
    little = array.dtype.newbyteorder("<")
    for start in range(0, array.size, PIECE_VALUES):
        piece = np.ascontiguousarray(array[start : start + PIECE_VALUES], dtype=little)
        file.write(piece.data)
    file.write(b"\0" * (-array.nbytes % ALIGNMENT))


# -- reading -----------------------------------------------------------------------------------------------------------


def read(path: PathLike, *, mmap: bool = True) -> RankingData:
    """Read the binary. With ``mmap`` (the default) the values stay in the file until they are used.

    Grades, offsets, ids, weights and the columns of a CSR matrix are checked. The values of the matrix are looked at
    only with ``mmap=False``.
    """
    if not isinstance(mmap, bool):
        raise ParameterError.of("read", "mmap", "True or False", mmap)
    size = check_readable(path)
    header, start = _read_header(path, size)
    try:
        data = _Reader(path, header, start, size, mapped=mmap).data()
        if not mmap:
            refuse_infinite(data.X)
        return data
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


class _Reader:
    """Arrays of one file by name, each checked against the header and the size of the file."""

    def __init__(self, path: PathLike, header: dict[str, Any], start: int, size: int, *, mapped: bool):
        self.path, self.header, self.start, self.size, self.mapped = path, header, start, size, mapped
        self.shape = self._shape()
        places = header.get("arrays")
        if not isinstance(places, dict):
            raise self._damaged("the list of arrays is missing")
        self.places: dict[str, Any] = places
        if start + _count(header.get("bytes")) > size:
            raise FormatError("the file is cut short", path=path)

    def _damaged(self, what: str) -> FormatError:
        return FormatError(f"the file is damaged: {what}", path=self.path)

    def _shape(self) -> _Shape:
        header = self.header
        n_values = header.get("n_values")
        counts = [_count(header.get(name)) for name in ("n_rows", "n_features", "n_queries")]
        if min(counts) < 0 or counts[0] == 0 or (n_values is not None and _count(n_values) < 0):
            raise self._damaged("a count in the header is wrong")
        if header.get("dtype") not in ("float32", "float64"):
            raise self._damaged("the type of the values is unknown")
        return _Shape(counts[0], counts[1], counts[2], n_values, header["dtype"])

    def data(self) -> RankingData:
        shape = self.shape
        offsets = self._small("offsets")
        y = self._small("y")
        if not (np.isfinite(y).all() and (y >= 0).all()):
            raise self._damaged("a grade is negative or not finite")
        if offsets[0] != 0 or offsets[-1] != shape.n_rows or (np.diff(offsets) <= 0).any():
            raise self._damaged("the offsets of the queries do not increase to the number of rows")
        query_ids = self._ids("query_id")
        if query_ids is None:
            raise self._damaged("the query ids are missing")
        return RankingData.trusted(
            X=self._matrix(),
            y=y,
            offsets=offsets,
            query_ids=query_ids,
            doc_ids=self._ids("doc_id"),
            feature_names=self._names(),
            query_weights=self._weights(),
        )

    def _place(self, name: str) -> tuple[str, int, int]:
        """Type, length and position in the file of an array that must be there."""
        place = self.places.get(name)
        if not isinstance(place, dict):
            raise self._damaged(f"the array {name} is missing")
        at, size = _count(place.get("at")), _count(place.get("size"))
        expected = self.shape.expected(name, size)
        if expected is None or at < 0 or size != expected[1] or at % ALIGNMENT:
            raise self._damaged(f"the place or size of the array {name} is wrong")
        kind = expected[0]
        if self.start + at + size * np.dtype(kind).itemsize > self.size:
            raise FormatError("the file is cut short", path=self.path)
        return kind, size, self.start + at

    def _small(self, name: str) -> Array:
        """An array read into memory."""
        kind, size, at = self._place(name)
        array = np.fromfile(self.path, dtype=kind, count=size, offset=at)
        if len(array) != size:
            raise FormatError("the file is cut short", path=self.path)
        return _native(array)

    def _values(self, name: str) -> Array:
        """An array mapped from the file, or read where mapping was declined."""
        kind, size, at = self._place(name)
        if not self.mapped or size == 0:
            return self._small(name)
        with open(self.path, "rb") as file:
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return _native(np.frombuffer(pages, dtype=kind, count=size, offset=at))

    def _matrix(self) -> Any:
        shape = self.shape
        if shape.n_values is None:
            return self._values("X").reshape(shape.n_rows, shape.n_features)
        from scipy import sparse

        indptr = self._small("indptr")
        if indptr[0] != 0 or indptr[-1] != shape.n_values or (np.diff(indptr) < 0).any():
            raise self._damaged("the rows of the sparse matrix are out of order")
        indices = self._values("indices32" if "indices32" in self.places else "indices")
        self._check_columns(indices, indptr)
        X: Any = sparse.csr_matrix((shape.n_rows, shape.n_features), dtype=shape.dtype)
        X.data, X.indices, X.indptr = self._values("data"), indices, indptr.astype(indices.dtype)
        return X

    def _check_columns(self, indices: Array, indptr: Array) -> None:
        """Refuse columns that a product with the matrix would look up outside of it, or that are out of order."""
        for start in range(0, len(indices), PIECE_VALUES):
            piece = indices[start : start + PIECE_VALUES + 1]
            if piece.min() < 0 or piece.max() >= self.shape.n_features:
                raise self._damaged("a column of the sparse matrix does not exist")
            falls = np.flatnonzero(piece[1:] <= piece[:-1]) + start + 1
            at = np.searchsorted(indptr, falls)
            if (indptr[at] != falls).any():
                raise self._damaged("the columns of the sparse matrix are out of order")

    def _ids(self, name: str) -> Array | None:
        if f"{name}s" in self.places:
            return self._small(f"{name}s")
        if f"{name}_ends" not in self.places:
            return None
        ends, text = self._small(f"{name}_ends"), self._small(f"{name}_text").tobytes()
        if ends[0] != 0 or ends[-1] != len(text) or (np.diff(ends) < 0).any():
            raise self._damaged(f"the texts of the {name}s are out of order")
        try:
            return string_array([text[a:b].decode("utf-8") for a, b in _spans(ends)])
        except UnicodeDecodeError:
            raise self._damaged(f"a {name} is not UTF-8 text") from None

    def _names(self) -> tuple[str, ...] | None:
        names = self.header.get("feature_names")
        if names is None:
            return None
        is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
        if not is_list or len(names) != self.shape.n_features or len(set(names)) != len(names):
            raise self._damaged("the feature names are wrong")
        return tuple(names)

    def _weights(self) -> Array | None:
        if "query_weights" not in self.places:
            return None
        weights = self._small("query_weights")
        if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
            raise self._damaged("a query weight is negative or not finite")
        return weights


def _count(value: Any) -> int:
    """A count from a header, -1 where it is none; bounded so that products of two do not grow without end."""
    return value if type(value) is int and 0 <= value < 2**62 else -1


def _native(array: Array) -> Array:
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _spans(ends: Array) -> Iterator[tuple[int, int]]:
    edges = ends.tolist()
    return itertools.pairwise(edges)
