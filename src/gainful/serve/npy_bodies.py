"""Requests that are a matrix of features, as ``numpy.save`` writes it."""

from __future__ import annotations

import re

import numpy as np

from gainful.data.rows import Array
from gainful.errors import DataError
from gainful.serve.schema import NotReadableError

MAGIC = re.compile(rb"\x93NUMPY(?:\x01\x00(..)|[\x02\x03]\x00(....))", re.DOTALL)  # and the length of the header
# As NumPy writes it. NumPy itself reads any literal of Python here, which is more than a client needs.
HEADER = re.compile(
    rb"\{'descr': '([<>|][fiu][1248])', 'fortran_order': (True|False), 'shape': \((\d{1,10}), (\d{1,10})\), \} *\n"
)


def read_matrix(body: bytes, n_features: int, ranker: str) -> Array:
    """The rows in a body, as float64; their number is not checked."""
    magic = MAGIC.match(body)
    if magic is None:
        raise NotReadableError("the body is not a .npy file; write it with numpy.save")
    start = magic.end() + int.from_bytes(magic[1] or magic[2], "little")
    header = HEADER.fullmatch(body, magic.end(), start)
    if header is None:
        raise DataError("the .npy file must have a matrix of numbers, with a row per document")
    dtype, n_rows, n_columns = np.dtype(header[1].decode()), int(header[3]), int(header[4])
    if n_columns != n_features:
        raise DataError(f"the matrix has {n_columns} columns, but {ranker} was trained with {n_features} features")
    expected = start + n_rows * n_columns * dtype.itemsize
    if len(body) != expected:
        raise NotReadableError(f"the .npy file has {len(body):,} bytes, but its header says {expected:,}")
    matrix = np.frombuffer(body, dtype, offset=start).reshape(
        (n_rows, n_columns), order="F" if header[2] == b"True" else "C"
    )
    return np.ascontiguousarray(matrix, dtype=np.float64)
