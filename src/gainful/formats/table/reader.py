"""Tables: Parquet, Arrow IPC, CSV and TSV files and data frames, with one row per document.

One column holds the query, one the grade; optionally one the document id and one the query's weight. All others are
features. Rows of a table are in any order, so rows of one query are brought together unless ``merge=False``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gainful.data.dataset import RankingData
from gainful.data.rows import Array, group_rows
from gainful.errors import DataError, FormatError, ParameterError, UnknownNameError, option
from gainful.formats.files import PathLike, compression_of, decompress, reason
from gainful.formats.ids import integers_if_canonical, string_array
from gainful.formats.table.writer import METADATA, WELL_KNOWN

FILL_ROWS = 4096
MISSING = ["", "NULL", "null", "Null", "NaN", "nan", "NAN", "NA", "N/A", "None", "-nan"]
OPTIONAL = ("doc_id", "weight")
SEPARATORS = {"csv": ",", "tsv": "\t"}
WORDS = {"tab": "\t", "\\t": "\t"}  # what a shell can pass


@dataclass(frozen=True)
class Columns:
    """The column of each role; None to guess, False (document id, weight) for none.

    ``sep`` separates the columns of text files: by default a comma in CSV, a tab in TSV.
    """

    qid: str | None = None
    grade: str | None = None
    doc_id: str | bool | None = None
    weight: str | bool | None = None
    features: Sequence[str] | None = None
    sep: str | None = None

    def between(self, kind: str) -> str:
        """The character that separates the columns of a text file."""
        return SEPARATORS[kind] if self.sep is None else WORDS.get(self.sep, self.sep)


def read(
    path: PathLike,
    *,
    kind: str,
    qid: str | None = None,
    grade: str | None = None,
    doc_id: str | bool | None = None,
    weight: str | bool | None = None,
    features: Sequence[str] | None = None,
    sep: str | None = None,
    merge: bool = True,
) -> RankingData:
    """Read a table.

    Parameters
    ----------
    qid, grade, doc_id, weight : column names; by default well-known names, in upper or lower case.
        ``doc_id=False`` and ``weight=False`` mean that there is none, if a feature has such a name
    features : names of the feature columns; by default all others
    sep : for CSV and TSV: the separator of columns, such as ";" or "tab"
    merge : False refuses a query whose rows are not adjacent
    """
    wanted = check_columns(Columns(qid, grade, doc_id, weight, features, sep), merge, kind)
    with errors_of_file(path, kind, lambda: _load(path, kind, wanted, threads=False)):
        return _to_data(_load(path, kind, wanted), wanted, merge, ids_are_text=kind in ("csv", "tsv"))


def columns(path: PathLike, *, kind: str, merge: bool = True, **wanted: Any) -> dict[str, list[str]]:
    """The column names by role; options as in :func:`read`. Values are not read."""
    given = check_columns(Columns(**wanted), merge, kind)
    with errors_of_file(path, kind, lambda: read_schema(path, kind, given)):
        schema = read_schema(path, kind, given)
        plan = make_plan(schema, given)
    called = {"qid": "query", "grade": "grade", "doc_id": "document", "weight": "weight"}
    found = {called[role]: [name] for role, name in plan.roles.items() if name is not None}
    found["feature"] = plan.features
    unused = [name for name in schema.names if name not in plan.all_columns()]
    return found | ({"unused": unused} if unused else {})


@contextmanager
def errors_of_file(path: PathLike, kind: str, read_again: Callable[[], Any]) -> Iterator[None]:
    """Turn errors of the block into errors of the file. ``read_again`` reads text on one thread, to find the line."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise _readable_error(error, path, kind, read_again) from None
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
    grade: str | None = None,
    doc_id: str | bool | None = None,
    weight: str | bool | None = None,
    features: Sequence[str] | None = None,
    merge: bool = True,
) -> RankingData:
    """Ranking data from a pandas, polars or Arrow frame. Parameters as in :func:`read`; an index is not a column."""
    wanted = check_columns(Columns(qid, grade, doc_id, weight, features), merge)
    return _to_data(_as_table(frame), wanted, merge, ids_are_text=False)


def check_columns(wanted: Columns, merge: Any, kind: str = "frame") -> Columns:
    for role in WELL_KNOWN:
        value = getattr(wanted, role)
        may_be_false = role in OPTIONAL and value is False
        if not (value is None or isinstance(value, str) or may_be_false):
            raise ParameterError.of("a table", role, "the name of a column", value)
    if wanted.features is not None and (
        isinstance(wanted.features, str) or not all(isinstance(name, str) for name in wanted.features)
    ):
        raise ParameterError.of("a table", "features", "a list of column names", wanted.features)
    if not isinstance(merge, bool):
        raise ParameterError.of("a table", "merge", "True or False", merge)
    if wanted.sep is not None:
        _check_separator(wanted, kind)
    return wanted


def _check_separator(wanted: Columns, kind: str) -> None:
    if kind not in SEPARATORS:
        raise ParameterError(f"sep is for CSV and TSV, not for {kind}; leave it out")
    between = wanted.between(kind) if isinstance(wanted.sep, str) else ""
    if len(between) != 1 or not between.isascii() or between.isalnum() or between in '"\r\n.-':
        raise ParameterError.of("a table", "sep", "one character such as ';' or 'tab'", wanted.sep)


# -- loading -----------------------------------------------------------------------------------------------------------


def _load(path: PathLike, kind: str, wanted: Columns, *, threads: bool = True) -> pa.Table:
    name = os.fspath(path)
    if kind == "parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(name) as file:
            return file.read()
    if kind == "arrow":
        with pa.memory_map(name) as source:
            return open_arrow(source).read_all()
    return _load_csv(path, wanted.between(kind), wanted, threads)


def read_schema(path: PathLike, kind: str, wanted: Columns) -> pa.Schema:
    """Names and types of the columns; CSV has no types, so all are decimals."""
    name = os.fspath(path)
    if kind == "parquet":
        import pyarrow.parquet as pq

        return pq.read_schema(name)
    if kind == "arrow":
        with pa.memory_map(name) as source:
            return open_arrow(source).schema
    return pa.schema([(column, pa.float64()) for column in csv_names(path, wanted.between(kind))])


def open_arrow(source: Any) -> Any:
    """A reader of Arrow's file format or, failing that, of its stream format."""
    try:
        return pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        return pa.ipc.open_stream(source)


def _load_csv(path: PathLike, delimiter: str, wanted: Columns, threads: bool) -> pa.Table:
    from pyarrow import csv

    roles = _roles(csv_names(path, delimiter), wanted, {})
    with csv_source(path) as source:
        options = csv.ReadOptions(use_threads=threads)
        parse, convert = csv_options(delimiter, csv_texts(roles))
        return csv.read_csv(source, read_options=options, parse_options=parse, convert_options=convert)


def csv_names(path: PathLike, delimiter: str) -> list[str]:
    """The names of the columns, from the first line."""
    from pyarrow import csv

    parse, _ = csv_options(delimiter, {})
    one = csv.ReadOptions(use_threads=False)
    with csv_source(path) as source, csv.open_csv(source, read_options=one, parse_options=parse) as head:
        names: list[str] = head.schema.names
    if len(names) == 1:
        _refuse_other_separator(names[0], delimiter)
    return names


def _refuse_other_separator(header: str, delimiter: str) -> None:
    """Raise if what looks like one column is several with another separator."""
    found = max(";\t|,", key=header.count)
    if found in header:
        given, other = ("tab" if one == "\t" else one for one in (delimiter, found))
        raise DataError(
            f"the first line has no {given!r} between columns, but {other!r}: {_cut(header, 60)!r}; pass "
            f"{option('sep', other)}"
        )


def csv_texts(roles: dict[str, Any]) -> dict[str, Any]:
    """The columns that are text whatever they look like: "007" is not 7."""
    return {roles[role]: pa.string() for role in ("qid", "doc_id") if roles[role] is not None}


def csv_options(delimiter: str, types: dict[str, Any], only: list[str] | None = None) -> tuple[Any, Any]:
    """How to split lines, and how to convert fields; types that are not given are inferred."""
    from pyarrow import csv

    parse = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    convert = csv.ConvertOptions(
        column_types=types, null_values=MISSING, strings_can_be_null=False, include_columns=only or []
    )
    return parse, convert


def csv_source(path: PathLike) -> Any:
    kind = compression_of(path)
    file = pa.OSFile(os.fspath(path), "rb")
    return file if kind is None else pa.CompressedInputStream(file, "gzip" if kind == "gz" else "zstd")


def _readable_error(error: Exception, path: PathLike, kind: str, read_again: Callable[[], Any]) -> FormatError:
    packing = compression_of(path)
    if kind in ("parquet", "arrow"):
        return FormatError(f"is not {kind.capitalize()}: {_cut(reason(error))}", path=path)
    if packing is not None and _is_damaged(path):
        return FormatError(f"the {packing} file is damaged or cut short: {_cut(reason(error))}", path=path)
    try:
        read_again()  # Arrow reports the row only when it reads on one thread
    except (pa.ArrowException, OSError) as again:
        error = again
    row = re.search(r"Row #(\d+): ?", reason(error))
    text = reason(error).replace(row[0], "") if row else reason(error)
    return FormatError(f"is not {kind.upper()}: {_cut(text)}", path=path, line=int(row[1]) if row else None)


def _cut(text: str, limit: int = 200) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _is_damaged(path: PathLike) -> bool:
    try:
        for _ in decompress(path):
            pass
    except FormatError:
        return True
    return False


def _as_table(frame: Any) -> pa.Table:
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
        raise DataError(f"the frame cannot be read as a table: {_cut(reason(error))}") from None
    hint = "; call .collect() first" if hasattr(frame, "collect") else ""
    raise DataError(f"a pandas, polars or Arrow frame is needed, was {type(frame).__name__}{hint}")


# -- table to ranking data ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """The roles of a table's columns, by their names and the writer's notes."""

    roles: dict[str, Any]
    features: list[str]
    feature_names: list[str] | None
    sparse: bool
    noted_dtype: str | None

    def all_columns(self) -> list[str]:
        """All columns that are read."""
        return [name for name in self.roles.values() if name is not None] + self.features


def make_plan(schema: pa.Schema, wanted: Columns) -> Plan:
    names = schema.names
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"there are two columns named {twice!r}; names must differ")
    notes = _notes(schema)
    roles = _roles(names, wanted, notes.get("roles", {}))
    features = _feature_names(names, wanted, roles)
    unnamed = notes.get("feature_names") is False and features == [f"f{j + 1}" for j in range(len(features))]
    return Plan(roles, features, None if unnamed else features, notes.get("sparse") is True, notes.get("dtype"))


def _to_data(table: pa.Table, wanted: Columns, merge: bool, *, ids_are_text: bool) -> RankingData:
    if table.num_rows == 0 and len(set(table.column_names)) == len(table.column_names):
        raise DataError("there are no rows, only column names")
    plan = make_plan(table.schema, wanted)
    roles = plan.roles
    qid = ids_of(table, roles["qid"], "query id", ids_are_text, refuse_empty=True)
    if not merge:
        _refuse_split_query(qid)
    X = matrix_of(table, plan)
    doc_ids = None if roles["doc_id"] is None else ids_of(table, roles["doc_id"], "document id", ids_are_text)
    weight = None if roles["weight"] is None else numbers_of(table, roles["weight"], "weight")
    if ids_are_text:
        qid = integers_if_canonical(qid)
        doc_ids = None if doc_ids is None else integers_if_canonical(doc_ids)
    try:
        weighted = weight is None or weight.any()
        data = RankingData.from_rows(
            X,
            numbers_of(table, roles["grade"], "grade"),
            qid,
            doc_ids=doc_ids,
            feature_names=plan.feature_names,
            sample_weight=weight if weighted else None,
        )
        return data if weighted else data.replace(query_weights=np.zeros(data.n_queries))  # a shard may have this
    except DataError as error:
        raise with_weight_hint(error, roles, wanted) from None


def with_weight_hint(error: DataError, roles: dict[str, Any], wanted: Columns) -> DataError:
    """The error, with advice if a feature was mistaken for weights."""
    if "sample_weight differs" in str(error) and wanted.weight is None:
        return DataError(
            f"column {roles['weight']!r} was taken for query weights: {error}; pass {option('weight', False)} if it is "
            "a feature"
        )
    return error


def _notes(schema: pa.Schema) -> dict[str, Any]:
    """The writer's notes in the schema; empty if they are not ours or damaged."""
    try:
        notes = json.loads((schema.metadata or {}).get(METADATA, b"{}"))
    except (ValueError, RecursionError):
        return {}
    if not isinstance(notes, dict) or not isinstance(notes.get("roles", {}), dict):
        return {}
    return notes


def _roles(names: list[str], wanted: Columns, noted: dict[str, Any]) -> dict[str, Any]:
    """The column of each role: as requested, as noted by the writer, or by a well-known name."""
    roles: dict[str, Any] = {}
    for role, known in WELL_KNOWN.items():
        given = getattr(wanted, role)
        if given is False:
            roles[role] = None
        elif given is not None:
            if given not in names:
                raise UnknownNameError.among(f"column ({role})", given, names)
            roles[role] = given
        elif noted.get("qid") in names and noted.get("grade") in names:
            roles[role] = noted[role] if noted.get(role) in names else None
        else:
            roles[role] = _guess(role, known, names, wanted)
    taken = [name for name in roles.values() if name is not None]
    twice = next((name for name in taken if taken.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"column {twice!r} has two roles; query, grade, document and weight need columns of their own")
    return roles


def _guess(role: str, known: tuple[str, ...], names: list[str], wanted: Columns) -> str | None:
    claimed = {getattr(wanted, other) for other in WELL_KNOWN} | set(wanted.features or ())
    found = [name for name in names if name.lower() in known and name not in claimed]
    if len(found) == 1:
        return found[0]
    if not found and role in OPTIONAL:
        return None
    columns = _cut(", ".join(names))
    if found:
        hint = f" or {option(role, False)}" if role in OPTIONAL else ""
        raise DataError(f"columns {', '.join(found)} could each be the {role}; pass {option(role, '…')}{hint}")
    raise DataError(f"cannot tell which column is the {role}; pass {option(role, '…')} with one of {columns}")


def _feature_names(names: list[str], wanted: Columns, roles: dict[str, Any]) -> list[str]:
    taken = set(roles.values())
    if wanted.features is None:
        return [name for name in names if name not in taken]
    for name in wanted.features:
        if name not in names:
            raise UnknownNameError.among("column (features)", name, names)
        if name in taken:
            raise DataError(f"column {name!r} cannot be a feature: it is the query, grade, document or weight")
    return list(wanted.features)


def ids_of(
    table: pa.Table, name: str, what: str, is_text: bool, refuse_empty: bool = False, first_row: int = 0
) -> Array:
    """A column of ids; ``first_row`` is the number of the first one, for the messages."""
    column = _decode(table, name)
    if pa.types.is_large_string(column.type) or pa.types.is_string(column.type) or _is_view(column.type):
        if column.null_count and refuse_empty:
            raise _missing_error(what, name, first_row + _first_null(column))
        texts = ["" if text is None else text for text in column.to_pylist()]
        if refuse_empty and is_text and "" in texts:
            raise _missing_error(what, name, first_row + texts.index(""))
        return string_array(texts)
    if column.null_count:
        raise _missing_error(what, name, first_row + _first_null(column))
    if pa.types.is_nested(column.type) or pa.types.is_null(column.type):
        raise DataError(f"column {name!r} cannot hold {what}s: it holds {_in_words(column.type)}")
    ids = np.asarray(column.to_numpy())
    return ids.astype(np.int64) if ids.dtype.kind == "i" else ids


def _missing_error(what: str, name: str, row: int) -> DataError:
    return DataError(f"the {what} of row {row} is missing (column {name!r}, from row 0)")


def _is_view(kind: pa.DataType) -> bool:
    return hasattr(pa.types, "is_string_view") and bool(pa.types.is_string_view(kind))


def _first_null(column: Any) -> int:
    return int(pc.index(pc.is_null(column), True).as_py())


def numbers_of(table: pa.Table, name: str, what: str, first_row: int = 0) -> Array:
    """A column of numbers, none of them missing."""
    column = _decode(table, name)
    if column.null_count:
        raise _missing_error(what, name, first_row + _first_null(column))
    return numeric(column, name)


def _decode(table: pa.Table, name: str) -> Any:
    column = table.column(name)
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def numeric(column: Any, name: str) -> Array:
    """A column as a NumPy array of numbers, with nulls as NaN."""
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise DataError(
            f"column {name!r} must be numeric, but holds {_in_words(kind)}; drop it, encode it, or name the features"
        )
    if column.null_count and not pa.types.is_floating(column.type):
        column = column.cast(pa.float64(), safe=False)
    return np.asarray(column.to_numpy())


def _in_words(kind: pa.DataType) -> str:
    """What a column holds, for people who do not know Arrow's types."""
    is_a = pa.types
    if is_a.is_string(kind) or is_a.is_large_string(kind) or _is_view(kind):
        return "text"
    if is_a.is_temporal(kind):
        return "dates or times"
    if is_a.is_binary(kind) or is_a.is_large_binary(kind):
        return "bytes"
    if is_a.is_nested(kind):
        return "lists or records"
    return "nothing" if is_a.is_null(kind) else str(kind)


def matrix_of(table: pa.Table, plan: Plan, dtype: Any = None) -> Any:
    """The features, (n_rows, n_features); float32 if all columns are, unless a type is given."""
    n_rows = table.num_rows
    columns = [numeric(_decode(table, name), name) for name in plan.features]
    if dtype is None:
        single = all(column.dtype == np.float32 for column in columns) if columns else plan.noted_dtype == "float32"
        dtype = np.float32 if single else np.float64
    X = np.empty((n_rows, len(columns)), dtype=dtype)
    for start in range(0, n_rows, FILL_ROWS):  # in bands of rows, so that a band stays in cache for all columns
        stop = min(start + FILL_ROWS, n_rows)
        for j, column in enumerate(columns):
            X[start:stop, j] = column[start:stop]
    if plan.sparse:
        from scipy import sparse

        return sparse.csr_matrix(X)
    return X


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
        f"query {query} ends at row {ended} and starts again at row {again} (from row 0); pass "
        f"{option('merge', True)} to bring its rows together"
    )
