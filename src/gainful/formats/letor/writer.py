"""Write LETOR/SVMlight text, with the shortest decimals that read back as the same numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np

from gainful.data.dataset import RankingData
from gainful.data.rows import Array, row_chunks
from gainful.errors import FormatError, ParameterError, shorten
from gainful.formats.files import FileWriter, PathLike, open_compressed, refuse_columns
from gainful.formats.ids import encode, plain_ids

TEXT_VALUES = 1 << 18  # values formatted at once
SPARSE_BYTES = 64 << 20
IN_NO_QUERY = re.compile(r"[ \t\r\n\0#]")
IN_NO_DOCUMENT = re.compile(r"[\r\n\0]|\A[ \t]|[ \t]\Z")
Rows = tuple[int, int, tuple[Array, Array, Array]]  # start, stop, (values per row, columns, values)
LOOKS_NAMED = re.compile(r"docid[ \t]*=[ \t]*[^ \t]", re.IGNORECASE)


def open_writer(path: PathLike, data: RankingData, *, zeros: bool = False) -> Writer:
    """A writer of LETOR/SVMlight text that reads back as the same data.

    ``zeros=True`` writes the zeros of a dense matrix too. Otherwise they are left out, except one in the first row if
    the last feature is zero everywhere, which preserves the number of features. A CSR matrix is written as it is
    stored. Names, weights and types go into comments at the top if the rows do not imply them.
    """
    if not isinstance(zeros, bool):
        raise ParameterError.of("write", "zeros", "True or False", zeros)
    return Writer(path, data, zeros)


class Writer(FileWriter):
    """Text of some rows at a time, under a header that describes all of them: ``whole``."""

    def __init__(self, path: PathLike, whole: RankingData, zeros: bool):
        super().__init__(path)
        refuse_columns(whole, path)
        self.header, self.zeros = _header(whole, path), zeros
        self.marks_width = not whole.is_sparse and whole.n_features > 0 and not whole.X[:, -1].any()

    def _open(self, stack: ExitStack) -> None:
        self._file = stack.enter_context(open_compressed(self.path))
        self._file.write(self.header)

    def append(self, data: RankingData) -> None:
        queries = _query_texts(data, self.path)
        documents = None if data.doc_ids is None else plain_ids(data.doc_ids, "document id", self.path)
        chunks = _sparse_chunks(data) if data.is_sparse else _dense_chunks(data, self.zeros, self.marks_width)
        for start, stop, cells in chunks:
            suffixes = _suffixes(None if documents is None else documents[start:stop], stop - start, self.path)
            self._file.write(_lines(data, queries, suffixes, start, stop, cells))
        self.marks_width = False


# -- header ------------------------------------------------------------------------------------------------------------


def _header(data: RankingData, path: PathLike) -> bytes:
    queries = plain_ids(data.query_ids, "query id", path)
    documents = None if data.doc_ids is None else plain_ids(data.doc_ids, "document id", path)
    entries: dict[str, Any] = {}
    if data.feature_names is not None:
        entries["feature_names"] = list(data.feature_names)
    if data.is_sparse and data.n_features and (not data.X.nnz or data.X.indices.max() < data.n_features - 1):
        entries["n_features"] = data.n_features
    if data.X.dtype == np.float32:
        entries["dtype"] = "float32"
    if data.is_sparse or data.X.nbytes > SPARSE_BYTES:
        entries["sparse"] = data.is_sparse
    if queries.dtype.kind != "i" and all(_reads_as_integer(text) for text in queries.tolist()):
        entries["query_ids"] = "str"
    if documents is not None and documents.dtype.kind == "i":
        entries["doc_ids"] = "int"
    elif documents is not None and not (documents != "").any():
        entries["doc_ids"] = "str"
    if data.has_document_weights:
        assert data.row_weights is not None
        entries["document_weights"] = data.row_weights.tolist()
    elif data.query_weights is not None:
        entries["query_weights"] = data.query_weights.tolist()
    lines = (f"# gainful {key} = {json.dumps(value)}\n" for key, value in entries.items())
    return "".join(lines).encode("ascii")


def _reads_as_integer(text: str) -> bool:
    return bool(re.fullmatch(r"0|-?[1-9][0-9]{0,18}", text)) and -(2**63) <= int(text) < 2**63


# -- ids ---------------------------------------------------------------------------------------------------------------


def _query_texts(data: RankingData, path: PathLike) -> list[bytes]:
    texts = []
    for query in plain_ids(data.query_ids, "query id", path).tolist():
        text = str(query)
        if not text or IN_NO_QUERY.search(text):
            raise FormatError(
                f"the query id {shorten(query)} cannot be written as text: it must not be empty or contain white "
                "space or '#'; write .parquet or .gnf, or rename it",
                path=path,
            )
        texts.append(encode(text, "query id", path))
    return texts


def _suffixes(documents: Array | None, n_rows: int, path: PathLike) -> list[bytes]:
    """The text after the features of each row."""
    if documents is None:
        return [b"\n"] * n_rows
    return [_suffix(str(document), path) for document in documents.tolist()]


def _suffix(document: str, path: PathLike) -> bytes:
    if not document:
        return b"\n"
    named = " " not in document and "\t" not in document
    if IN_NO_DOCUMENT.search(document) or (not named and LOOKS_NAMED.match(document)):
        raise FormatError(
            f"the document id {shorten(document)} cannot be written in a comment: it must not contain line breaks, "
            "start or end with white space, or look like 'docid = …'; write .parquet or .gnf, or rename it",
            path=path,
        )
    text = encode(document, "document id", path)
    return (b" #docid = " if named else b" # ") + text + b"\n"


# -- rows --------------------------------------------------------------------------------------------------------------


def _sparse_chunks(data: RankingData) -> Iterator[Rows]:
    indptr, start = data.X.indptr, 0
    while start < data.n_rows:
        stop = int(np.searchsorted(indptr, indptr[start] + TEXT_VALUES, side="right")) - 1
        stop = min(max(stop, start + 1), data.n_rows, start + TEXT_VALUES)
        cells = slice(indptr[start], indptr[stop])
        yield start, stop, (np.diff(indptr[start : stop + 1]), data.X.indices[cells], data.X.data[cells])
        start = stop


def _dense_chunks(data: RankingData, zeros: bool, marks_width: bool) -> Iterator[Rows]:
    n_rows, d = data.X.shape
    bits = np.uint32 if data.X.dtype == np.float32 else np.uint64
    for rows in row_chunks(n_rows, d, TEXT_VALUES):
        chunk = data.X[rows]
        kept = np.ones(chunk.shape, dtype=bool) if zeros else chunk.view(bits) != 0  # by bits: -0.0 is kept
        if rows.start == 0 and marks_width:
            kept[0, -1] = True
        yield rows.start, rows.stop, (kept.sum(axis=1), np.nonzero(kept)[1], chunk[kept])


def _lines(
    data: RankingData, queries: list[bytes], suffixes: list[bytes], start: int, stop: int, cells: tuple[Any, ...]
) -> Any:
    """The text of the rows ``start:stop`` as a buffer."""
    import pyarrow as pa
    import pyarrow.compute as pc

    counts, columns, values = cells
    names = pc.cast(pc.cast(pa.array(columns.astype(np.int64) + 1), pa.string()), pa.binary())
    features = pc.binary_join_element_wise(names, decimals(values), b":")
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    features = pc.binary_join(pa.ListArray.from_arrays(pa.array(ends, pa.int32()), features), b" ")
    of_query = np.searchsorted(data.offsets, np.arange(start, stop), side="right") - 1
    query = pa.array([queries[q] for q in of_query.tolist()], pa.binary())
    gaps = pa.array([b" " if n else b"" for n in counts.tolist()], pa.binary())
    ends_of_lines = pa.array(suffixes, pa.binary())
    grades = decimals(data.y[start:stop])
    lines = pc.binary_join_element_wise(grades, b" qid:", query, gaps, features, ends_of_lines, b"")
    offsets = np.frombuffer(lines.buffers()[1], dtype=np.int32)[lines.offset : lines.offset + len(lines) + 1]
    return lines.buffers()[2][int(offsets[0]) : int(offsets[-1])]


def decimals(values: Array) -> Any:
    """The shortest decimal text of each value that reads back as the same value, NULL for NaN; an Arrow array."""
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = pa.array(values)
    texts = pc.cast(numbers, pa.string())
    if values.dtype == np.float32:
        texts = _exact_singles(values, texts)
    if np.isnan(values).any():
        texts = pc.if_else(pc.is_nan(numbers), "NULL", texts)
    return pc.cast(texts, pa.binary())


def _exact_singles(values: Array, texts: Any) -> Any:
    """Longer texts for the few float32 values whose shortest text, read as float64 and rounded, gives another value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    back = pc.cast(texts, pa.float64()).to_numpy(zero_copy_only=False).astype(np.float32)
    missed = (back != values) & ~np.isnan(values)
    if not missed.any():
        return texts
    exact = pc.cast(pa.array(values.astype(np.float64)), pa.string())
    return pc.if_else(pa.array(missed), exact, texts)
