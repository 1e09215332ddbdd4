"""Writing tables: Parquet, Arrow IPC, CSV and TSV, block of rows by block of rows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gainful.data.dataset import RankingData
from gainful.data.rows import row_blocks
from gainful.errors import FormatError
from gainful.formats.files import PathLike, atomic_write, compressed_write, reason
from gainful.formats.ids import plain_ids

Array = npt.NDArray[Any]
METADATA = b"gainful"
GROUP_VALUES = 1 << 21  # of a row group
LARGEST_SPARSE_WIDTH = 20_000
WELL_KNOWN = {
    "qid": ("qid", "query_id", "queryid", "query", "srch_id", "session_id", "search_id", "group_id"),
    "grade": ("grade", "label", "relevance", "rel", "y", "target", "rating"),
    "doc_id": ("doc_id", "docid", "document_id", "doc", "docno"),
    "weight": ("weight", "query_weight"),
}


def write(data: RankingData, path: PathLike, *, kind: str) -> None:
    """Write a table with columns qid, grade, doc_id and weight where there are any, and the features.

    Features without names become f1, f2, …. Parquet and Arrow note this, and whether the matrix is sparse, in their
    schema; CSV cannot.
    """
    writing = _Writing(data, path, kind)
    try:
        writing.run()
    except pa.ArrowException as error:
        raise FormatError(f"cannot be written: {reason(error)}", path=path) from None


class _Writing:
    """One table being written, block of rows by block of rows."""

    def __init__(self, data: RankingData, path: PathLike, kind: str):
        self.data, self.path, self.kind = data, path, kind
        if data.is_sparse and data.n_features > LARGEST_SPARSE_WIDTH:
            raise FormatError(
                f"a table would need a column for each of the {data.n_features:,} features of this sparse matrix; "
                "write .gnf or .txt",
                path=path,
            )
        self.query_ids = plain_ids(data.query_ids, "query id", path)
        self.doc_ids = None if data.doc_ids is None else plain_ids(data.doc_ids, "document id", path)
        self.names = list(data.feature_names or (f"f{j + 1}" for j in range(data.n_features)))
        self.roles = {"qid": "qid", "grade": "grade"}
        if data.doc_ids is not None:
            self.roles["doc_id"] = "doc_id"
        if data.query_weights is not None:
            self.roles["weight"] = "weight"
        self._refuse_collisions()

    def _refuse_collisions(self) -> None:
        reserved = set(self.roles)
        if self.kind in ("csv", "tsv"):  # nothing tells the reader of these, so its guesses must not go wrong
            reserved = {name for names in WELL_KNOWN.values() for name in names}
        for name in self.names:
            if (name if self.kind in ("parquet", "arrow") else name.lower()) in reserved:
                raise FormatError(
                    f"a feature is called {name!r}, which is the name of a query, grade, document or weight column; "
                    "rename it",
                    path=self.path,
                )

    def run(self) -> None:
        opened = atomic_write if self.kind in ("parquet", "arrow") else compressed_write
        with opened(self.path) as file, self._writer(file) as writer:
            for rows in row_blocks(self.data.n_rows, self.data.n_features, GROUP_VALUES):
                writer.write_table(self._block(rows.start, rows.stop))

    def _writer(self, file: Any) -> Any:
        if self.kind == "parquet":
            import pyarrow.parquet as pq

            return pq.ParquetWriter(file, self._schema())
        if self.kind == "arrow":
            return pa.ipc.new_file(file, self._schema())
        from pyarrow import csv

        options = csv.WriteOptions(delimiter="\t" if self.kind == "tsv" else ",", quoting_style="needed")
        return csv.CSVWriter(file, self._schema(), write_options=options)

    def _schema(self) -> pa.Schema:
        data = self.data
        notes = {
            "version": 1,
            "roles": self.roles,
            "feature_names": data.feature_names is not None,
            "dtype": str(data.X.dtype),
            "sparse": data.is_sparse,
        }
        types = {"qid": _id_type(self.query_ids), "grade": pa.float64()}
        if self.doc_ids is not None:
            types["doc_id"] = _id_type(self.doc_ids)
        if data.query_weights is not None:
            types["weight"] = pa.float64()
        value = pa.float32() if data.X.dtype == np.float32 else pa.float64()
        fields = [pa.field(name, kind) for name, kind in types.items()] + [pa.field(n, value) for n in self.names]
        return pa.schema(fields, metadata={METADATA: json.dumps(notes).encode()})

    def _block(self, start: int, stop: int) -> pa.Table:
        data = self.data
        rows = np.searchsorted(data.offsets, np.arange(start, stop), side="right") - 1
        columns: list[Any] = [self._id_array(self.query_ids[rows]), pa.array(data.y[start:stop])]
        if self.doc_ids is not None:
            columns.append(self._id_array(self.doc_ids[start:stop]))
        if data.query_weights is not None:
            columns.append(pa.array(data.query_weights[rows]))
        block = data.X[start:stop].toarray() if data.is_sparse else data.X[start:stop]
        columns.extend(pa.array(column) for column in np.ascontiguousarray(block.T))
        return pa.Table.from_arrays(columns, schema=self._schema())

    def _id_array(self, ids: Array) -> Any:
        try:
            return pa.array(ids.tolist(), _id_type(ids))
        except UnicodeEncodeError:
            raise FormatError("an id is not valid Unicode text", path=self.path) from None


def _id_type(ids: Array) -> pa.DataType:
    return pa.int64() if ids.dtype.kind == "i" else pa.string()
