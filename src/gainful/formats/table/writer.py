"""Write tables: Parquet, Arrow IPC, CSV and TSV."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from gainful.data.categories import words_of_codes
from gainful.data.dataset import RankingData
from gainful.data.rows import Array, row_chunks
from gainful.errors import FormatError, shorten
from gainful.formats.files import FileWriter, PathLike, atomic_write, open_compressed, reason
from gainful.formats.ids import plain_ids

METADATA = b"gainful"
GROUP_VALUES = 1 << 21  # per row group
LARGEST_SPARSE_WIDTH = 20_000
WELL_KNOWN = {
    "qid": ("qid", "query_id", "queryid", "query", "srch_id", "session_id", "search_id", "group_id"),
    "grade": ("grade", "label", "relevance", "rel", "y", "target", "rating"),
    "doc_id": ("doc_id", "docid", "document_id", "doc", "docno"),
    "weight": ("weight", "query_weight", "sample_weight"),
    "init_score": ("init_score", "base_margin"),
    "position": ("click_position",),
    "propensity": ("click_propensity",),
}


def open_writer(path: PathLike, data: RankingData, *, kind: str) -> Writer:
    """A writer of a table with columns qid, grade, those of the rows that there are, and the features.

    Features without names become f1, f2, …. The schema of Parquet and Arrow records this, and whether the matrix is
    sparse; CSV cannot.
    """
    return Writer(path, data, kind)


def refuse_wide(data: RankingData, path: PathLike) -> None:
    """Raise for a sparse matrix whose zeros would make most of a file that names every feature in full."""
    if data.is_sparse and data.n_features > LARGEST_SPARSE_WIDTH:
        raise FormatError(
            f"the file would need a column for each of the {data.n_features:,} features of this sparse matrix; "
            "write .gnf or .txt",
            path=path,
        )


def weight_column(data: RankingData) -> str:
    """Where weights differ within a query, a name that no feature has."""
    return "sample_weight" if data.has_document_weights else "weight"


def number_columns(data: RankingData) -> dict[str, tuple[str, Array]]:
    """The optional columns of numbers that the data has: role → name and values."""
    columns = {
        "weight": (weight_column(data), data.row_weights if data.query_weights is not None else None),
        "init_score": ("init_score", data.init_scores),
        "position": ("click_position", data.positions),
        "propensity": ("click_propensity", data.propensities),
    }
    return {role: (name, values) for role, (name, values) in columns.items() if values is not None}


class Writer(FileWriter):
    """Writes a table with the columns of ``data``, some rows at a time."""

    def __init__(self, path: PathLike, data: RankingData, kind: str):
        super().__init__(path)
        self.kind = kind
        refuse_wide(data, path)
        self.names = list(data.feature_names or (f"f{j + 1}" for j in range(data.n_features)))
        self.roles = {"qid": "qid", "grade": "grade"}
        if data.doc_ids is not None:
            self.roles["doc_id"] = "doc_id"
        self.roles |= {role: name for role, (name, _) in number_columns(data).items()}
        self._refuse_collisions()
        self.schema = self._schema(data)

    def _refuse_collisions(self) -> None:
        reserved = set(self.roles.values())
        if self.kind in ("csv", "tsv"):  # these have no schema notes, so the reader must guess right
            reserved = {name for names in WELL_KNOWN.values() for name in names}
        for name in self.names:
            if (name if self.kind in ("parquet", "arrow") else name.lower()) in reserved:
                raise FormatError(
                    f"a feature is called {name!r}, which is the name of a query, grade, document, weight or initial "
                    "score column, or of one for clicks; rename it",
                    path=self.path,
                )

    def _open(self, stack: ExitStack) -> None:
        stack.enter_context(_errors_of(self.path))
        opens = atomic_write if self.kind in ("parquet", "arrow") else open_compressed
        self._table = stack.enter_context(self._table_writer(stack.enter_context(opens(self.path))))

    def _table_writer(self, file: Any) -> Any:
        if self.kind == "parquet":
            import pyarrow.parquet as pq

            return pq.ParquetWriter(file, self.schema)
        if self.kind == "arrow":
            return pa.ipc.new_file(file, self.schema)
        from pyarrow import csv

        options = csv.WriteOptions(delimiter="\t" if self.kind == "tsv" else ",", quoting_style="needed")
        return csv.CSVWriter(file, self.schema, write_options=options)

    def _schema(self, data: RankingData) -> pa.Schema:
        notes = {
            "version": 1,
            "roles": self.roles,
            "feature_names": data.feature_names is not None,
            "dtype": str(data.X.dtype),
            "sparse": data.is_sparse,
        }
        types = {"qid": _id_type(plain_ids(data.query_ids, "query id", self.path)), "grade": pa.float64()}
        if data.doc_ids is not None:
            types["doc_id"] = _id_type(plain_ids(data.doc_ids, "document id", self.path))
        types |= {name: pa.from_numpy_dtype(values.dtype) for name, values in number_columns(data).values()}
        value = pa.float32() if data.X.dtype == np.float32 else pa.float64()
        words = data.categories or (None,) * data.n_features
        if self.kind in ("csv", "tsv"):
            self._refuse_numbers(words)
        kinds = [value if texts is None else pa.string() for texts in words]
        fields = [pa.field(name, kind) for name, kind in types.items()]
        fields += [pa.field(name, kind) for name, kind in zip(self.names, kinds, strict=True)]
        return pa.schema(fields, metadata={METADATA: json.dumps(notes).encode()})

    def _refuse_numbers(self, words: Sequence[tuple[str, ...] | None]) -> None:
        """Raise if the words of a feature would be read again as numbers."""
        for name, texts in zip(self.names, words, strict=True):
            if texts and all(map(_is_number, texts)):
                raise FormatError(
                    f"feature {name!r} holds texts that are all numbers, such as {shorten(texts[0])}, which CSV would "
                    "give back as numbers; write .parquet, .arrow or .jsonl",
                    path=self.path,
                )

    def append(self, data: RankingData) -> None:
        query_ids = plain_ids(data.query_ids, "query id", self.path)
        doc_ids = None if data.doc_ids is None else plain_ids(data.doc_ids, "document id", self.path)
        numbers = [values for _, values in number_columns(data).values()]
        for rows in row_chunks(data.n_rows, data.n_features, GROUP_VALUES):
            of_query = np.searchsorted(data.offsets, np.arange(rows.start, rows.stop), side="right") - 1
            columns: list[Any] = [self._id_array(query_ids[of_query]), pa.array(data.y[rows])]
            if doc_ids is not None:
                columns.append(self._id_array(doc_ids[rows]))
            columns += [pa.array(values[rows]) for values in numbers]
            X = data.X[rows].toarray() if data.is_sparse else data.X[rows]
            words = data.categories or (None,) * data.n_features
            columns.extend(
                pa.array(column) if texts is None else pa.array(words_of_codes(column, texts), pa.string())
                for column, texts in zip(np.ascontiguousarray(X.T), words, strict=True)
            )
            self._table.write_table(pa.Table.from_arrays(columns, schema=self.schema))

    def _id_array(self, ids: Array) -> Any:
        try:
            return pa.array(ids.tolist(), _id_type(ids))
        except UnicodeEncodeError:
            raise FormatError("an id is not valid Unicode text", path=self.path) from None


@contextmanager
def _errors_of(path: PathLike) -> Iterator[None]:
    """Turn errors of Arrow into errors of the file."""
    try:
        yield
    except pa.ArrowException as error:
        raise FormatError(f"cannot be written: {reason(error)}", path=path) from None


def _id_type(ids: Array) -> pa.DataType:
    return pa.int64() if ids.dtype.kind == "i" else pa.string()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
