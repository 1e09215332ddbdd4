"""Tables: Parquet, Arrow IPC, CSV and TSV files and data frames, with one row per document.

One column holds the query, one the grade; optionally one the document id, one the weight and one the initial
score. All others are features. Rows of a table are in any order, so rows of one query are brought together unless
``merge=False``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from gainful.data.categories import Categories, encode_words
from gainful.data.dataset import RankingData
from gainful.data.frames import categoricals, in_order
from gainful.data.rows import Array, check_row_weights, group_rows, query_of_rows, weight_fields
from gainful.errors import DataError, FormatError, UnknownNameError, brief, option, plural
from gainful.formats.files import PathLike, compression_of, decompress, reason
from gainful.formats.ids import check_ids, integers_if_canonical
from gainful.formats.limits import MemoryLimit
from gainful.formats.sidecars import Sidecars, find_sidecars
from gainful.formats.table.columns import (
    HEAD_ROWS,
    SEPARATORS,
    Column,
    Columns,
    Plan,
    check_columns,
    check_types,
    columns_of_plan,
    leave_out_identifiers,
    make_plan,
    refuse_guessed_weights,
    text_columns,
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
    csv_types,
)
from gainful.formats.table.values import (
    check_structure,
    check_table,
    cut,
    decode,
    ids_of,
    is_text_type,
    numbers_of,
    numeric,
    times_of,
    words_and_codes,
)

FILL_ROWS = 4096


def read(
    path: PathLike,
    *,
    kind: str,
    qid: str | None = None,
    grade: str | bool | None = None,
    doc_id: str | bool | None = None,
    weight: str | bool | None = None,
    init_score: str | bool | None = None,
    position: str | bool | None = None,
    propensity: str | bool | None = None,
    features: Sequence[str] | None = None,
    keep: Sequence[str] = (),
    times: Sequence[str] = (),
    sep: str | None = None,
    header: bool = True,
    decimal: str = ".",
    merge: bool = True,
    sidecars: bool = True,
    query_id: str | None = None,
    max_bytes: int | str | None = None,
) -> RankingData:
    """Read a table.

    Parameters
    ----------
    qid, grade, doc_id, weight, init_score : column names; by default well-known names, in upper or lower case.
        ``doc_id=False``, ``weight=False`` and ``init_score=False`` mean that there is none, if a feature has such a
        name; so does ``grade=False``, for data with preferences. ``init_score`` is the score of each row that training
        starts from
    position, propensity : if the grades are clicks, the columns with the position in which a document was shown, and
        with the probability that it was examined there; by default ``click_position`` and ``click_propensity``
    features : names of the feature columns; by default all others, except those that look like identifiers
    keep : names of columns that are features although they look like identifiers
    times : names of feature columns that hold dates or times, which become seconds since 1970; numbers stay as they are
    sep : for CSV and TSV: the separator of columns, such as ";" or "tab"
    header : for CSV and TSV: False if the first line is a row; columns then have the numbers 0, 1, …, and the grade is
        in the first unless ``grade`` says otherwise
    decimal : for CSV and TSV: "," if numbers are written as 0,5
    merge : False refuses a query whose rows are not adjacent
    sidecars : for CSV and TSV: use FILE.query, FILE.group and FILE.weight (:mod:`gainful.formats.sidecars`). With the
        sizes of the queries, the table needs no query column
    query_id : all rows are of this one query, and the table needs no query column
    max_bytes : refuse to take more memory than this, a number or text such as "4GB"; by default what is free
    """
    beside = find_sidecars(path, sidecars and kind in SEPARATORS, query_id)
    needs_qid = not beside.name_queries
    columns = Columns(
        qid, grade, doc_id, weight, features, sep, header, decimal, needs_qid, times, keep, init_score, position,
        propensity,
    )  # fmt: skip
    wanted = check_columns(columns, merge, kind)
    limit = MemoryLimit(path, max_bytes)
    with errors_of_file(path, kind, wanted, lambda: _load_csv(path, kind, wanted, limit, threads=False)):
        table, plan = _load(path, kind, wanted, limit)
        return to_data(table, plan, wanted, merge, ids_are_text=kind in SEPARATORS, limit=limit, beside=beside)


def columns(
    path: PathLike,
    *,
    kind: str,
    merge: bool = True,
    sidecars: bool = True,
    query_id: str | None = None,
    max_bytes: int | str | None = None,
    all_rows: bool = False,
    **wanted: Any,
) -> list[Column]:
    """The columns with their roles; options as in :func:`read`. Only the first rows are read, unless ``all_rows``."""
    beside = find_sidecars(path, sidecars and kind in SEPARATORS, query_id)
    given = check_columns(Columns(**wanted, needs_qid=not beside.name_queries), merge, kind)
    with errors_of_file(path, kind, given, lambda: read_schema(path, kind, given)):
        schema, head = read_schema(path, kind, given)
        plan = _load(path, kind, given, MemoryLimit(path, max_bytes))[1] if all_rows else make_plan(schema, given, head)
        return columns_of_plan(schema, plan, given)


def columns_of_frame(frame: Any, *, group: Any = None, merge: bool = True, **wanted: Any) -> list[Column]:
    """The columns of a frame with their roles; options as in :func:`from_frame`."""
    given = check_columns(Columns(**wanted, needs_qid=group is None), merge)
    table = as_table(frame)
    return columns_of_plan(table.schema, plan_table(table, given), given)


@contextmanager
def errors_of_file(path: PathLike, kind: str, wanted: Columns, read_again: Callable[[], Any]) -> Iterator[None]:
    """Turn errors of the block into errors of the file. ``read_again`` reads text on one thread, to find the line."""
    try:
        yield
    except UnicodeDecodeError:
        raise FormatError("the column names are not UTF-8 text; save the file as UTF-8", path=path) from None
    except (pa.ArrowException, OSError, MemoryError, OverflowError) as error:
        raise _readable_error(error, path, kind, wanted, read_again) from None
    except UnknownNameError as error:
        raise UnknownNameError(f"{path}: {error}") from None
    except FormatError:
        raise
    except DataError as error:
        raise FormatError(str(error), path=path) from None


def from_frame(
    frame: Any,
    *,
    qid: str | None = None,
    group: Any = None,
    grade: str | bool | None = None,
    doc_id: str | bool | None = None,
    weight: str | bool | None = None,
    init_score: str | bool | None = None,
    position: str | bool | None = None,
    propensity: str | bool | None = None,
    features: Sequence[str] | None = None,
    keep: Sequence[str] = (),
    times: Sequence[str] = (),
    merge: bool = True,
) -> RankingData:
    """Ranking data from a pandas, polars or Arrow frame. Parameters as in :func:`read`; an index is not a column.

    ``group`` has the number of rows of each query, if rows of a query are adjacent; then ``qid`` is not needed.

    The structure of an Arrow table is checked, but not every value: what the process itself made is trusted.
    """
    columns = Columns(
        qid, grade, doc_id, weight, features, needs_qid=group is None, times=times, keep=keep, init_score=init_score,
        position=position, propensity=propensity,
    )  # fmt: skip
    wanted = check_columns(columns, merge)
    table = as_table(frame)
    check_structure(table, "the frame")
    plan = plan_table(table, wanted)
    own = categoricals(frame, plan.features)
    if own:  # as text, so that numbers are categories too
        table = as_table(frame.assign(**{n: frame[n].cat.rename_categories(list(words)) for n, words in own.items()}))
        plan = plan_table(table, wanted)
    if group is not None and plan.roles["qid"] is not None:
        raise DataError(
            f"give qid (here column {plan.roles['qid']!r}) or group (the number of rows of each query), not both"
        )
    data = to_data(table, plan, wanted, merge, ids_are_text=False, group=group)
    found = zip(plan.features, data.categories or (), strict=False)
    return data.with_categories(tuple(in_order(own[name], words) if name in own else words for name, words in found))


# -- loading -----------------------------------------------------------------------------------------------------------


def plan_table(table: pa.Table, wanted: Columns) -> Plan:
    """The roles of the columns of a table in memory."""
    return leave_out_identifiers(table, make_plan(table.schema, wanted, table.slice(0, HEAD_ROWS)))


def _load(path: PathLike, kind: str, wanted: Columns, limit: MemoryLimit) -> tuple[pa.Table, Plan]:
    load = {"parquet": _load_parquet, "arrow": _load_arrow}.get(kind, _load_csv)
    table, plan = load(path, kind, wanted, limit)
    return table, leave_out_identifiers(table, plan)


def _load_parquet(path: PathLike, kind: str, wanted: Columns, limit: MemoryLimit) -> tuple[pa.Table, Plan]:
    import pyarrow.parquet as pq

    schema, head = read_schema(path, kind, wanted)
    plan = make_plan(schema, wanted, head)
    with pq.ParquetFile(path) as file:
        row_bytes = check_types(file.schema_arrow, plan)
        groups = (file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups))
        n_rows = max(file.metadata.num_rows, sum(groups))  # two declarations, of which a damaged file may change one
        check_rows(n_rows, row_bytes, limit)
        texts = text_columns(file.schema_arrow, plan)
    with pq.ParquetFile(path, read_dictionary=texts) as file:  # repeated ids are not expanded
        table = file.read(columns=plan.all_columns()).select(plan.all_columns())
    check_table(table)
    return table, plan


def _load_arrow(path: PathLike, kind: str, wanted: Columns, limit: MemoryLimit) -> tuple[pa.Table, Plan]:
    schema, head = read_schema(path, kind, wanted)
    plan = make_plan(schema, wanted, head)
    with pa.memory_map(os.fspath(path)) as source:
        reader = open_arrow(source)
        row_bytes = check_types(reader.schema, plan)
        batches, n_rows, n_bytes = [], 0, 0
        for batch in arrow_batches(reader):
            n_rows, n_bytes = n_rows + batch.num_rows, n_bytes + batch.get_total_buffer_size()
            check_rows(n_rows, row_bytes, limit)
            limit.check(n_bytes - os.path.getsize(path), f"the first {plural(n_rows, 'row')}", so_far=True)
            batches.append(batch)
        table = pa.Table.from_batches(batches, schema=reader.schema).select(plan.all_columns())
    check_table(table)
    return table, plan


def arrow_batches(reader: Any) -> Iterator[Any]:
    """The record batches of a reader from :func:`open_arrow`."""
    if hasattr(reader, "num_record_batches"):
        return (reader.get_batch(i) for i in range(reader.num_record_batches))
    return iter(reader)


def read_schema(path: PathLike, kind: str, wanted: Columns) -> tuple[pa.Schema, pa.Table]:
    """Names and types of the columns, and the first rows; CSV has no types, so all are decimals."""
    name = os.fspath(path)
    if kind == "parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(name) as file:
            schema = file.schema_arrow
            first = next(file.iter_batches(HEAD_ROWS), None)
    elif kind == "arrow":
        with pa.memory_map(name) as source:
            reader = open_arrow(source)
            schema = reader.schema
            first = next(arrow_batches(reader), None)
    else:
        head = csv_head(path, kind, wanted)
        return pa.schema([(column, pa.float64()) for column in head.schema.names]), head
    head = pa.Table.from_batches([] if first is None else [first.slice(0, HEAD_ROWS)], schema=schema)
    check_table(head)
    return schema, head


def open_arrow(source: Any) -> Any:
    """A reader of Arrow's file format or, failing that, of its stream format."""
    try:
        return pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        return pa.ipc.open_stream(source)


def _load_csv(
    path: PathLike, kind: str, wanted: Columns, limit: MemoryLimit, threads: bool = True
) -> tuple[pa.Table, Plan]:
    from pyarrow import csv

    schema, head = read_schema(path, kind, wanted)
    plan = make_plan(schema, wanted, head)
    reading = csv_reading(schema.names, wanted, use_threads=threads)

    def load(types: dict[str, Any]) -> pa.Table:
        parse, convert = csv_options(kind, wanted, types, plan.all_columns())
        with csv_source(path, limit, wanted.between(kind)) as source:
            return csv.read_csv(source, read_options=reading, parse_options=parse, convert_options=convert)

    try:
        table = load(csv_decimals(plan))
    except pa.ArrowInvalid as error:
        if not NOT_A_NUMBER.search(str(error)):
            raise
        texts = csv_texts(plan)
        inferred = load(texts).schema
        numbers = set(plan.all_columns()) - texts.keys()
        if any(is_text_type(inferred.field(name).type) for name in numbers):
            raise  # most of it is numbers, so this names the line that is not
        table = load(csv_types(inferred, plan))
    return table, plan


# -- errors ------------------------------------------------------------------------------------------------------------


def _readable_error(
    error: Exception, path: PathLike, kind: str, wanted: Columns, read_again: Callable[[], Any]
) -> FormatError:
    packing = compression_of(path)
    if isinstance(error, MemoryError):
        return FormatError(f"asks for more memory than there is: {cut(reason(error))}", path=path)
    if kind in ("parquet", "arrow"):
        return FormatError(f"is not {kind.capitalize()}: {cut(reason(error))}", path=path)
    if packing is not None and _is_damaged(path):
        return FormatError(f"the {packing} file is damaged or cut short: {cut(reason(error))}", path=path)
    try:
        read_again()  # Arrow reports the row only when it reads on one thread
    except (pa.ArrowException, OSError) as again:
        error = again
    row = re.search(r"Row #(\d+): ?", reason(error))
    text = reason(error).replace(row[0], "") if row else reason(error)
    return FormatError(_csv_problem(text, path, kind, wanted), path=path, line=int(row[1]) if row else None)


def _csv_problem(text: str, path: PathLike, kind: str, wanted: Columns) -> str:
    """What Arrow says about a CSV file, in plain words where they are known."""
    place = re.match(r"In CSV column #(\d+): CSV conversion error to (\w+): (.*)", text)
    if place:
        name = csv_head(path, kind, wanted).schema.names[int(place[1])]
        if "UTF8" in place[3]:
            return f"column {name!r} holds text that is not UTF-8; save the file as UTF-8"
        found = place[3].removeprefix("invalid value ")
        is_comma = wanted.decimal == "." and re.fullmatch(r"'[+-]?\d*,\d+'", found)
        hint = f"; pass {option('decimal', ',')} if the comma is a decimal sign" if is_comma else ""
        return f"column {name!r} must be numeric, found {cut(found, 60)}{hint}"
    if "straddl" in text:
        return "a row is longer than 1 MiB: a quote is not closed, or a value is too long"
    return f"is not {kind.upper()}: {cut(text)}"


def _is_damaged(path: PathLike) -> bool:
    try:
        for _ in decompress(path):
            pass
    except FormatError:
        return True
    return False


def as_table(frame: Any) -> pa.Table:
    """A pandas, polars or Arrow frame as an Arrow table."""
    try:
        if isinstance(frame, pa.Table):
            return frame
        if isinstance(frame, pa.RecordBatch):
            return pa.Table.from_batches([frame])
        if type(frame).__module__.startswith("pandas"):
            return pa.Table.from_pandas(frame, preserve_index=False)
        if hasattr(frame, "to_arrow"):
            table: pa.Table = frame.to_arrow()
            return table
        if hasattr(frame, "__arrow_c_stream__"):
            return pa.table(frame)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise DataError(f"the frame cannot be read as a table: {cut(reason(error))}") from None
    hint = "; call .collect() first" if hasattr(frame, "collect") else ""
    raise DataError(f"a pandas, polars or Arrow frame is needed, was {type(frame).__name__}{hint}")


def check_rows(n_rows: int, row_bytes: int, limit: MemoryLimit) -> None:
    """Refuse more rows than memory holds, before they are read."""
    if n_rows < 0:
        raise DataError("the file is damaged: the number of rows is negative")
    limit.check(n_rows * row_bytes, f"a table of {plural(n_rows, 'row')}")


# -- table to ranking data ---------------------------------------------------------------------------------------------


def to_data(
    table: pa.Table,
    plan: Plan,
    wanted: Columns,
    merge: bool,
    *,
    ids_are_text: bool,
    limit: MemoryLimit | None = None,
    beside: Sidecars | None = None,
    group: Any = None,
) -> RankingData:
    """The ranking data of a table. ``beside`` or ``group`` say which rows belong together if no column does."""
    if table.num_rows == 0:
        raise DataError("there are no rows, only column names")
    roles = plan.roles
    if beside is not None:
        beside.check_rows(table.num_rows)
    if roles["qid"] is not None:
        qid = ids_of(table, roles["qid"], "query id", ids_are_text, refuse_empty=True, limit=limit)
        qid = integers_if_canonical(qid) if ids_are_text else qid
    elif beside is not None and beside.name_queries:
        qid = beside.ids(0, table.num_rows)
    else:
        qid = query_of_rows(None, group, table.num_rows)
    if not merge:
        _refuse_split_query(qid)
    warn_of_columns(plan)
    X, categories = matrix_of(table, plan)
    doc_ids = None
    if roles["doc_id"] is not None:
        doc_ids = ids_of(table, roles["doc_id"], "document id", ids_are_text, limit=limit)
    weight = None
    if roles["weight"] is not None:
        weight = check_row_weights(numbers_of(table, roles["weight"], "weight"), table.num_rows, what="the weight")
    init = None
    if roles["init_score"] is not None:
        init = numbers_of(table, roles["init_score"], "initial score")
    clicks = {
        role: numbers_of(table, roles[role], role) for role in ("position", "propensity") if roles[role] is not None
    }
    if ids_are_text and doc_ids is not None:
        doc_ids = integers_if_canonical(doc_ids)
    weighted = weight is None or weight.any()
    data = RankingData.from_rows(
        X,
        np.zeros(table.num_rows) if roles["grade"] is None else numbers_of(table, roles["grade"], "grade"),
        qid,
        doc_ids=doc_ids,
        feature_names=plan.feature_names,
        sample_weight=weight if weighted else None,
        init_score=init,
        **clicks,
    )
    if categories is not None:
        data = data.replace(categories=categories)
    if not weighted:
        data = data.replace(query_weights=np.zeros(data.n_queries))  # a shard may have this
    if data.has_document_weights:
        refuse_guessed_weights(plan, data.first_mixed_query())
    return data if beside is None else _with_sidecars(data, beside, roles)


def _with_sidecars(data: RankingData, beside: Sidecars, roles: dict[str, Any]) -> RankingData:
    """The data with the weights and scores beside its file; sizes that contradict its query column are refused."""
    if roles["qid"] is not None:
        beside.check_queries(data.offsets)
    init = beside.init_by_row(data.n_rows, data.input_order)
    if init is not None:
        refuse_two_starts(beside, roles)
        data = data.replace(init_scores=init)
    weights = beside.weights_by_row(data.offsets, data.input_order)
    if weights is None:
        return data
    if roles["weight"] is not None:
        raise FormatError(
            f"gives weights, and so does column {roles['weight']!r} of {beside.path}; pass {option('weight', False)} "
            f"or {option('sidecars', False)}",
            path=beside.weights_path,
        )
    return data.replace(**weight_fields(weights, data.offsets))


def refuse_two_starts(beside: Sidecars, roles: dict[str, Any]) -> None:
    """Raise if both a column and a file beside the table give initial scores."""
    if beside.init is not None and roles["init_score"] is not None:
        raise FormatError(
            f"gives initial scores, and so does column {roles['init_score']!r} of {beside.path}; pass "
            f"{option('init_score', False)} or {option('sidecars', False)}",
            path=beside.init_path,
        )


def matrix_of(table: pa.Table, plan: Plan, dtype: Any = None) -> tuple[Any, Categories | None]:
    """The features, (n_rows, n_features), and their categories; float32 if all are, unless a type is given."""
    n_rows = table.num_rows
    columns: list[Array] = []
    categories: list[tuple[str, ...] | None] = []
    for name in plan.features:
        words, values = _values_of(table, plan, name)
        categories.append(words)
        columns.append(values)
    if dtype is None:
        single = all(column.dtype == np.float32 for column in columns) if columns else plan.noted_dtype == "float32"
        dtype = np.float32 if single else np.float64
    X: Any = np.empty((n_rows, len(columns)), dtype=dtype)
    for start in range(0, n_rows, FILL_ROWS):  # in bands of rows, so that a band stays in cache for all columns
        stop = min(start + FILL_ROWS, n_rows)
        for j, column in enumerate(columns):
            X[start:stop, j] = column[start:stop]
    if plan.sparse and not plan.texts:
        from scipy import sparse

        X = sparse.csr_matrix(X)
    return X, tuple(categories) if plan.texts else None


def _values_of(table: pa.Table, plan: Plan, name: str) -> tuple[tuple[str, ...] | None, Array]:
    """The words of a feature that holds text, else None, and its numbers."""
    if name in plan.texts:
        return _words_of(table, name)
    read = times_of if name in plan.times else numeric
    return None, read(decode(table, name), name)


def _words_of(table: pa.Table, name: str) -> tuple[tuple[str, ...], Array]:
    """The words of a column of text, and their numbers; an empty text is missing."""
    words, codes = words_and_codes(table.column(name), name, few=True)
    check_ids(words, f"text in column {name!r}")
    return encode_words([word or None for word in words], codes)


def _refuse_split_query(qid: Array) -> None:
    order, _, _ = group_rows(qid, len(qid))
    if order is None:
        return
    seen: dict[Any, int] = {}
    for row, query in enumerate(qid.tolist()):
        if query in seen and seen[query] < row - 1:
            raise DataError(split_query_message(query, str(seen[query]), row))
        seen[query] = row


def split_query_message(query: Any, ended: str, again: int) -> str:
    """The message for a query whose rows are not adjacent."""
    return (
        f"query {brief(query)} ends at row {ended} and starts again at row {again} (from row 0); pass "
        f"{option('merge', True)} to bring its rows together"
    )
