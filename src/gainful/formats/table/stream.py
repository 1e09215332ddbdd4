"""Tables as pieces of rows: Parquet and Arrow batch by batch, CSV and TSV chunk by chunk.

Parquet and Arrow have column types in their schema. CSV has none: all features are assumed to be decimals, and a column
that holds anything else is read once more, chunk by chunk, as truth values.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gainful.data.dataset import RankingData
from gainful.data.rows import (
    Array,
    as_id_array,
    check_grades,
    check_init_scores,
    check_positions,
    check_propensities,
    check_row_weights,
    refuse_infinite,
    weight_fields,
)
from gainful.errors import DataError, FormatError, option
from gainful.formats.files import forget_pages
from gainful.formats.limits import MemoryLimit
from gainful.formats.sidecars import Sidecars, find_sidecars
from gainful.formats.sources import Layout, Source, StartOver, common_layout, rows_in_piece
from gainful.formats.table.columns import (
    SEPARATORS,
    Columns,
    Plan,
    check_columns,
    check_types,
    make_plan,
    refuse_guessed_weights,
    warn_of_columns,
)
from gainful.formats.table.csv_text import (
    NOT_A_NUMBER,
    csv_decimals,
    csv_head,
    csv_options,
    csv_reading,
    csv_source,
    csv_texts,
)
from gainful.formats.table.reader import (
    arrow_batches,
    errors_of_file,
    matrix_of,
    open_arrow,
    read_schema,
    refuse_two_starts,
    split_query_message,
)
from gainful.formats.table.values import check_table, ids_of, is_text_type, numbers_of

CSV_CHUNK_BYTES = 1 << 20
BUFFER_BYTES = 1 << 16  # read ahead per Parquet column


def open_source(
    paths: Sequence[Path],
    *,
    kind: str,
    merge: bool = True,
    sidecars: bool = True,
    query_id: str | None = None,
    max_bytes: int | str | None = None,
    **wanted: Any,
) -> Source:
    """The files as a source of rows; options as in :func:`~gainful.formats.table.reader.read`."""
    beside = {path: find_sidecars(path, sidecars and kind in SEPARATORS, query_id) for path in paths}
    needs_qid = not all(one.name_queries for one in beside.values())
    columns = check_columns(Columns(**wanted, needs_qid=needs_qid), merge, kind)
    return TableSource(paths, kind, columns, merge=merge, max_bytes=max_bytes, beside=beside)


class TableSource(Source):
    """Tables of one kind. All files have the same features."""

    def __init__(
        self,
        paths: Sequence[Path],
        kind: str,
        wanted: Columns,
        *,
        merge: bool,
        piece_rows: int | None = None,
        chunk_bytes: int = CSV_CHUNK_BYTES,
        max_bytes: int | str | None = None,
        beside: dict[Path, Sidecars] | None = None,
    ):
        super().__init__(paths, merge=merge)
        self.beside = {path: Sidecars(path) for path in self.paths} | (beside or {})
        self.limits = {path: MemoryLimit(path, max_bytes) for path in self.paths}
        self.kind, self.wanted, self.piece_rows, self.chunk_bytes = kind, wanted, piece_rows, chunk_bytes
        self.is_text = kind in SEPARATORS
        self.types: dict[Path, dict[str, Any]] = {}  # of CSV files with columns of truth values
        self.plans: list[tuple[Plan, Layout]] = []
        for path in self.paths:
            self.plans.append(self._plan(path))
        warn_of_columns(self.plans[0][0])
        layouts = [layout for _, layout in self.plans]
        self._layout = common_layout(list(zip(self.paths, layouts, strict=True)))
        self.first_rows: list[int] = []

    def layout(self) -> Layout:
        return self._layout

    def _plan(self, path: Path) -> tuple[Plan, Layout]:
        with errors_of_file(path, self.kind, self.wanted, lambda: None):
            schema, head = read_schema(path, self.kind, self.wanted)
            plan = make_plan(schema, self.wanted, head, self.plans[0][0].left_out if self.plans else None)
            check_types(schema, plan)
            _refuse_text(plan)
            named = plan.roles["qid"] is not None
            return plan, Layout(
                n_features=len(plan.features),
                dtype="float32" if _is_single(schema, plan) else "float64",
                sparse=plan.sparse,
                feature_names=None if plan.feature_names is None else tuple(plan.feature_names),
                text_integers=(("query_id",) if named else ()) + ("doc_id",) if self.is_text else (),
            )

    # -- a pass --------------------------------------------------------------------------------------------------------

    def rows(self, *, values: bool = True) -> Iterator[RankingData]:
        self.first_rows = [0]
        for path, (plan, _) in zip(self.paths, self.plans, strict=True):
            row = 0
            again = lambda path=path, plan=plan: self._read_again(path, plan)  # noqa: E731
            with errors_of_file(path, self.kind, self.wanted, again):
                for table in self._tables(path, plan, values):
                    if not self.is_text:
                        check_table(table)
                    yield self._runs(path, table, plan, row, values)
                    row += table.num_rows
                self.beside[path].check_rows(row)
            self.first_rows.append(self.first_rows[-1] + row)
        if self.first_rows[-1] == 0:
            raise FormatError("there are no rows, only column names", path=self.paths[0])

    def _tables(self, path: Path, plan: Plan, values: bool) -> Iterator[pa.Table]:
        """The columns needed, some rows at a time."""
        everything = values or self.is_text  # a text file needs every column checked for numbers
        columns = plan.all_columns() if everything else [name for name in plan.roles.values() if name is not None]
        rows = self.piece_rows or rows_in_piece(len(plan.features))
        if self.is_text:
            batches = self._csv_batches(path, plan, columns)
        elif self.kind == "parquet":
            batches = _parquet_batches(path, columns, rows)
        else:
            batches = _arrow_batches(path, rows, self.limits[path])
        for batch in batches:
            for start in range(0, batch.num_rows, rows):
                yield pa.Table.from_batches([batch.slice(start, rows)]).select(columns)

    def _runs(self, path: Path, table: pa.Table, plan: Plan, row: int, values: bool) -> RankingData:
        roles, n = plan.roles, table.num_rows
        limit, beside = self.limits[path], self.beside[path]
        if roles["qid"] is None:
            qid = beside.ids(row, n)
        else:
            qid = as_id_array(ids_of(table, roles["qid"], "query id", self.is_text, True, row, limit), "qid")
        starts = np.concatenate([[0], np.flatnonzero(qid[1:] != qid[:-1]) + 1]).astype(np.int64)
        offsets, ids = np.append(starts, n), qid[starts]
        X: Any = np.empty((n, 0))
        if values:
            X, _ = matrix_of(table, plan, self._layout.dtype)
            refuse_infinite(X, row)
        documents = weights = None  # of the rows
        if roles["doc_id"] is not None:
            found = ids_of(table, roles["doc_id"], "document id", self.is_text, first_row=row, limit=limit)
            documents = as_id_array(found, "doc_ids")
        if roles["weight"] is not None:
            weights = check_row_weights(numbers_of(table, roles["weight"], "weight", row), n, row, "the weight")
        elif beside.weights is not None:
            weights = beside.row_weights(row, n)
        init = beside.init_of_part(row, n)
        if roles["init_score"] is not None:
            refuse_two_starts(beside, roles)
            found = numbers_of(table, roles["init_score"], "initial score", row)
            init = check_init_scores(found, n, "the initial score", row)
        y = np.zeros(n) if roles["grade"] is None else self._grades(table, roles["grade"], row)
        position, propensity = (
            None if roles[role] is None else numbers_of(table, roles[role], role, row)
            for role in ("position", "propensity")
        )
        return RankingData._build_unchecked(
            X=X,
            y=y,
            offsets=offsets,
            query_ids=ids,
            doc_ids=documents,
            feature_names=self._layout.feature_names,
            init_scores=init,
            positions=check_positions(position, n, y, "the position", row),
            propensities=check_propensities(propensity, n, "the propensity", row),
            **weight_fields(weights, offsets),
        )

    @staticmethod
    def _grades(table: pa.Table, name: str, row: int) -> Array:
        return check_grades(numbers_of(table, name, "grade", row), table.num_rows, row)

    # -- CSV -----------------------------------------------------------------------------------------------------------

    def _csv_batches(self, path: Path, plan: Plan, columns: list[str], threads: bool = True) -> Iterator[Any]:
        types = self.types.get(path) or csv_decimals(plan)
        try:
            with self._open_csv(path, types, columns, threads) as reader:
                yield from reader
        except pa.ArrowInvalid as error:
            found = NOT_A_NUMBER.search(str(error))
            if found is None:
                raise
            self._infer_types(path, plan, csv_head(path, self.kind, self.wanted).schema.names[int(found[1])], error)

    @contextmanager
    def _open_csv(self, path: Path, types: dict[str, Any], columns: list[str], threads: bool = True) -> Iterator[Any]:
        from pyarrow import csv

        parse, convert = csv_options(self.kind, self.wanted, types, columns)
        names = [] if self.wanted.header else csv_head(path, self.kind, self.wanted).schema.names
        options = csv_reading(names, self.wanted, use_threads=threads, block_size=self.chunk_bytes)
        with (
            csv_source(path) as source,
            csv.open_csv(source, read_options=options, parse_options=parse, convert_options=convert) as reader,
        ):
            yield reader

    def _infer_types(self, path: Path, plan: Plan, name: str, error: pa.ArrowInvalid) -> None:
        """Take the column, which is not decimal, for truth values and start over; raise if it is not numeric.

        Columns of truth values in the first chunk are taken along, so that a file rarely starts over twice.
        """
        with self._open_csv(path, csv_texts(plan), plan.all_columns()) as reader:
            first = reader.schema
        truths = [
            other for other in plan.all_columns() if other == name or pa.types.is_boolean(first.field(other).type)
        ]
        types = dict.fromkeys(truths, pa.bool_())
        try:
            with self._open_csv(path, types, truths) as reader:
                for _ in reader:
                    pass
        except pa.ArrowInvalid:
            if not any(is_text_type(first.field(one).type) for one in plan.features if one not in plan.times):
                check_types(first, plan)
            raise error from None
        self.types[path] = (self.types.get(path) or csv_decimals(plan)) | types
        raise StartOver

    def _read_again(self, path: Path, plan: Plan) -> None:
        for _ in self._csv_batches(path, plan, plan.all_columns(), threads=False):
            pass

    # -- errors --------------------------------------------------------------------------------------------------------

    def refuse_mixed_weights(self, query: Any) -> None:
        refuse_guessed_weights(self.plans[0][0], query)

    def reappearance_error(self, query: Any, ended: int, again: int) -> Exception:
        files = [max(i for i, first in enumerate(self.first_rows) if first <= row) for row in (ended - 1, again)]
        rows = [row - self.first_rows[file] for row, file in zip((ended - 1, again), files, strict=True)]
        where = "" if files[0] == files[1] else f" of {self.paths[files[0]]}"
        return FormatError(split_query_message(query, f"{rows[0]}{where}", rows[1]), path=self.paths[files[1]])


def _refuse_text(plan: Plan) -> None:
    """Raise for features of text: their words are known only once the whole file is read."""
    if plan.texts:
        name = next(name for name in plan.features if name in plan.texts)
        raise DataError(
            f"column {name!r} holds text, which cannot be converted or read in blocks; name the other features with "
            f"{option('features')}, or encode it as numbers"
        )


def _is_single(schema: pa.Schema, plan: Plan) -> bool:
    kinds = [pa.float64() if name in plan.times else schema.field(name).type for name in plan.features]
    kinds = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in kinds]
    return all(pa.types.is_float32(kind) for kind in kinds) if kinds else plan.noted_dtype == "float32"


def _parquet_batches(path: Path, columns: list[str], rows: int) -> Iterator[Any]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, buffer_size=BUFFER_BYTES, pre_buffer=False) as file:
        yield from file.iter_batches(batch_size=rows, columns=columns)


def _arrow_batches(path: Path, rows: int, limit: MemoryLimit) -> Iterator[Any]:
    """Slices of the batches, mapped; pages are dropped after use."""
    with open(path, "rb") as file:
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    for batch in arrow_batches(open_arrow(pa.BufferReader(pa.py_buffer(pages)))):
        limit.check(batch.get_total_buffer_size() - len(pages), "a decompressed batch of the table")
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)
            forget_pages(pages, 0, len(pages))
