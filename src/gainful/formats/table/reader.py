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
from gainful.errors import DataError, FormatError, GainfulError, ParameterError, UnknownNameError, brief, option, plural
from gainful.formats.files import PathLike, compression_of, decompress, reason
from gainful.formats.ids import check_ids, integers_if_canonical, string_array
from gainful.formats.limits import MemoryLimit
from gainful.formats.table.writer import METADATA, WELL_KNOWN

FILL_ROWS = 4096
NOT_A_NUMBER = re.compile(r"In CSV column #(\d+): .*conversion error to double")
ID_BYTES = 100  # of a text in Python
FIELD_BYTES = 16  # of a number in a table and in the matrix
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
    max_bytes: int | str | None = None,
) -> RankingData:
    """Read a table.

    Parameters
    ----------
    qid, grade, doc_id, weight : column names; by default well-known names, in upper or lower case.
        ``doc_id=False`` and ``weight=False`` mean that there is none, if a feature has such a name
    features : names of the feature columns; by default all others
    sep : for CSV and TSV: the separator of columns, such as ";" or "tab"
    merge : False refuses a query whose rows are not adjacent
    max_bytes : refuse to take more memory than this, a number or text such as "4GB"; by default what is free
    """
    wanted = check_columns(Columns(qid, grade, doc_id, weight, features, sep), merge, kind)
    limit = MemoryLimit(path, max_bytes)
    with errors_of_file(path, kind, wanted, lambda: _load_csv(path, kind, wanted, limit, threads=False)):
        load = {"parquet": _load_parquet, "arrow": _load_arrow}.get(kind, _load_csv)
        table, plan = load(path, kind, wanted, limit)
        return _to_data(table, plan, wanted, merge, ids_are_text=kind in SEPARATORS, limit=limit)


def columns(
    path: PathLike, *, kind: str, merge: bool = True, max_bytes: int | str | None = None, **wanted: Any
) -> dict[str, list[str]]:
    """The column names by role; options as in :func:`read`. Values are not read."""
    given = check_columns(Columns(**wanted), merge, kind)
    with errors_of_file(path, kind, given, lambda: read_schema(path, kind, given)):
        schema = read_schema(path, kind, given)
        plan = make_plan(schema, given)
    called = {"qid": "query", "grade": "grade", "doc_id": "document", "weight": "weight"}
    found = {called[role]: [name] for role, name in plan.roles.items() if name is not None}
    found["feature"] = plan.features
    unused = [name for name in schema.names if name not in plan.all_columns()]
    return found | ({"unused": unused} if unused else {})


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
    grade: str | None = None,
    doc_id: str | bool | None = None,
    weight: str | bool | None = None,
    features: Sequence[str] | None = None,
    merge: bool = True,
) -> RankingData:
    """Ranking data from a pandas, polars or Arrow frame. Parameters as in :func:`read`; an index is not a column.

    The structure of an Arrow table is checked, but not every value: what the process itself made is trusted.
    """
    wanted = check_columns(Columns(qid, grade, doc_id, weight, features), merge)
    table = _as_table(frame)
    check_structure(table, "the frame")
    return _to_data(table, make_plan(table.schema, wanted), wanted, merge, ids_are_text=False)


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


def _load_parquet(path: PathLike, kind: str, wanted: Columns, limit: MemoryLimit) -> tuple[pa.Table, Plan]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        plan = make_plan(file.schema_arrow, wanted)
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
    with pa.memory_map(os.fspath(path)) as source:
        reader = open_arrow(source)
        plan = make_plan(reader.schema, wanted)
        row_bytes = check_types(reader.schema, plan)
        batches, n_rows, n_bytes = [], 0, 0
        for batch in arrow_batches(reader):
            n_rows, n_bytes = n_rows + batch.num_rows, n_bytes + batch.get_total_buffer_size()
            check_rows(n_rows, row_bytes, limit)
            limit.check(n_bytes - os.path.getsize(path), "the decompressed table")
            batches.append(batch)
        table = pa.Table.from_batches(batches, schema=reader.schema).select(plan.all_columns())
    check_table(table)
    return table, plan


def arrow_batches(reader: Any) -> Iterator[Any]:
    """The record batches of a reader from :func:`open_arrow`."""
    if hasattr(reader, "num_record_batches"):
        return (reader.get_batch(i) for i in range(reader.num_record_batches))
    return iter(reader)


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


def _load_csv(
    path: PathLike, kind: str, wanted: Columns, limit: MemoryLimit, threads: bool = True
) -> tuple[pa.Table, Plan]:
    from pyarrow import csv

    plan = make_plan(read_schema(path, kind, wanted), wanted)
    reading = csv.ReadOptions(use_threads=threads)

    def load(types: dict[str, Any]) -> pa.Table:
        parse, convert = csv_options(wanted.between(kind), types, plan.all_columns())
        with csv_source(path, limit, wanted.between(kind)) as source:
            return csv.read_csv(source, read_options=reading, parse_options=parse, convert_options=convert)

    try:
        table = load(csv_decimals(plan))
    except pa.ArrowInvalid as error:
        if not NOT_A_NUMBER.search(str(error)):
            raise
        table = load(csv_types(load(csv_texts(plan.roles)).schema, plan))
    return table, plan


def csv_decimals(plan: Plan) -> dict[str, Any]:
    """The types of a CSV file's columns: ids are texts, everything else is assumed to be decimals."""
    return dict.fromkeys(plan.all_columns(), pa.float64()) | csv_texts(plan.roles)


def csv_types(inferred: pa.Schema, plan: Plan) -> dict[str, Any]:
    """The types of columns of which some are not decimals, or an error if one is not numeric.

    Arrow infers an integer from 0x1F; as decimals, such columns are refused.
    """
    check_types(inferred, plan)
    others = {name: inferred.field(name).type for name in plan.all_columns()}
    decimals = csv_decimals(plan)
    return {name: decimals[name] if pa.types.is_integer(kind) else kind for name, kind in others.items()}


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


def csv_source(path: PathLike, limit: MemoryLimit | None = None, delimiter: str = ",") -> Any:
    """The decompressed text; with a limit, refused once its fields would take too much memory."""
    kind = compression_of(path)
    file = pa.OSFile(os.fspath(path), "rb")
    source = file if kind is None else pa.CompressedInputStream(file, "gzip" if kind == "gz" else "zstd")
    return source if limit is None else pa.PythonFile(_CountedText(source, limit, delimiter), mode="r")


class _CountedText:
    """A stream of text that counts its lines and fields."""

    def __init__(self, source: Any, limit: MemoryLimit, delimiter: str):
        self.source, self.limit, self.delimiter = source, limit, delimiter.encode()
        self.lines = self.fields = self.bytes = 0

    @property
    def closed(self) -> bool:
        return bool(self.source.closed)

    def close(self) -> None:
        self.source.close()

    def read(self, size: int = -1) -> bytes:
        raw: bytes = self.source.read(size)
        lines = raw.count(b"\n")
        self.lines, self.bytes = self.lines + lines, self.bytes + len(raw)
        self.fields += lines + raw.count(self.delimiter)
        self.limit.check(
            max(self.bytes, ID_BYTES * self.lines + FIELD_BYTES * self.fields), f"the first {plural(self.lines, 'row')}"
        )
        return raw


def _readable_error(
    error: Exception, path: PathLike, kind: str, wanted: Columns, read_again: Callable[[], Any]
) -> FormatError:
    packing = compression_of(path)
    if isinstance(error, MemoryError):
        return FormatError(f"asks for more memory than there is: {_cut(reason(error))}", path=path)
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
    return FormatError(_csv_problem(text, path, kind, wanted), path=path, line=int(row[1]) if row else None)


def _csv_problem(text: str, path: PathLike, kind: str, wanted: Columns) -> str:
    """What Arrow says about a CSV file, in plain words where they are known."""
    place = re.match(r"In CSV column #(\d+): CSV conversion error to (\w+): (.*)", text)
    if place:
        name = csv_names(path, wanted.between(kind))[int(place[1])]
        if "UTF8" in place[3]:
            return f"column {name!r} holds text that is not UTF-8; save the file as UTF-8"
        found = place[3].removeprefix("invalid value ")
        return f"column {name!r} must be numeric, found {_cut(found, 60)}"
    if "straddl" in text:
        return "a row is longer than 1 MiB: a quote is not closed, or a value is too long"
    return f"is not {kind.upper()}: {_cut(text)}"


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


# -- checks ------------------------------------------------------------------------------------------------------------


def check_types(schema: pa.Schema, plan: Plan) -> int:
    """Refuse columns of the wrong type before any is read. Returns the bytes of a row in the table and the matrix."""
    for name in plan.features:
        numeric(pa.chunked_array([], type=_plain_type(schema, name)), name)
    for role in ("grade", "weight"):
        if plan.roles[role] is not None:
            numeric(pa.chunked_array([], type=_plain_type(schema, plan.roles[role])), plan.roles[role])
    n_ids = sum(plan.roles[role] is not None for role in ("qid", "doc_id"))
    return ID_BYTES * n_ids + sum(_field_bytes(_plain_type(schema, name)) for name in plan.features)


def _plain_type(schema: pa.Schema, name: str) -> pa.DataType:
    kind = schema.field(name).type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _field_bytes(kind: pa.DataType) -> int:
    return FIELD_BYTES // 2 if pa.types.is_float32(kind) else FIELD_BYTES


def check_rows(n_rows: int, row_bytes: int, limit: MemoryLimit) -> None:
    """Refuse more rows than memory holds, before they are read."""
    if n_rows < 0:
        raise DataError("the file is damaged: the number of rows is negative")
    limit.check(n_rows * row_bytes, f"a table of {plural(n_rows, 'row')}")


def text_columns(schema: pa.Schema, plan: Plan) -> list[str]:
    """The id columns that hold text."""
    names = [plan.roles[role] for role in ("qid", "doc_id") if plan.roles[role] is not None]
    return [name for name in names if is_text_type(schema.field(name).type)]


def check_table(table: pa.Table | pa.RecordBatch) -> None:
    """Check every offset, index and text of a table from a file: a wrong one would make Arrow read outside it."""
    for name, column in zip(table.schema.names, table.columns, strict=True):
        with _errors_of_column(name):
            column.validate(full=True)


def check_structure(table: Any, what: str) -> None:
    """Check the lengths of a table's columns and buffers, not their values."""
    try:
        table.validate()
    except pa.ArrowException as error:
        raise DataError(f"{what} is not a valid Arrow table: {_cut(reason(error))}") from None


@contextmanager
def _errors_of_column(name: str) -> Iterator[None]:
    """Name the column in errors of Arrow and NumPy."""
    try:
        yield
    except GainfulError:
        raise
    except (pa.ArrowException, ValueError, TypeError, OverflowError, NotImplementedError) as error:
        if "UTF8" in str(error) or isinstance(error, UnicodeDecodeError):
            raise DataError(f"column {name!r} holds text that is not UTF-8") from None
        raise DataError(f"column {name!r} is damaged or of an unknown kind: {_cut(reason(error))}") from None


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


def _to_data(
    table: pa.Table, plan: Plan, wanted: Columns, merge: bool, *, ids_are_text: bool, limit: MemoryLimit | None = None
) -> RankingData:
    if table.num_rows == 0:
        raise DataError("there are no rows, only column names")
    roles = plan.roles
    qid = ids_of(table, roles["qid"], "query id", ids_are_text, refuse_empty=True, limit=limit)
    if not merge:
        _refuse_split_query(qid)
    X = matrix_of(table, plan)
    doc_ids = None
    if roles["doc_id"] is not None:
        doc_ids = ids_of(table, roles["doc_id"], "document id", ids_are_text, limit=limit)
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
    table: pa.Table,
    name: str,
    what: str,
    is_text: bool,
    refuse_empty: bool = False,
    first_row: int = 0,
    limit: MemoryLimit | None = None,
) -> Array:
    """A column of ids; ``first_row`` is the number of the first one, for the messages."""
    column = table.column(name)
    if is_text_type(_plain_type(table.schema, name)):
        words, codes = _words(column, name, few=refuse_empty)
        check_ids(words, f"{what} in column {name!r}")
        if refuse_empty:
            is_missing = np.array([word is None or (is_text and word == "") for word in words])[codes]
            if is_missing.any():
                raise _missing_error(what, name, first_row + int(np.argmax(is_missing)))
        texts = string_array(["" if word is None else word for word in words])
        if limit is not None:
            limit.check(len(codes) * texts.dtype.itemsize, f"the {what}s")
        return texts[codes]
    column = _decode(table, name)
    if column.null_count:
        raise _missing_error(what, name, first_row + _first_null(column))
    if pa.types.is_nested(column.type) or pa.types.is_null(column.type):
        raise DataError(f"column {name!r} cannot hold {what}s: it holds {_in_words(column.type)}")
    with _errors_of_column(name):
        ids = np.asarray(column.to_numpy())
    return ids.astype(np.int64) if ids.dtype.kind == "i" else ids


def _words(column: Any, name: str, few: bool) -> tuple[list[str | None], Array]:
    """Texts, the last of them None, and which of them each row holds; ``few`` if many rows hold the same."""
    with _errors_of_column(name):
        if not pa.types.is_dictionary(column.type):
            if not few:
                return [*column.to_pylist(), None], np.arange(len(column))
            if _is_view(column.type):
                column = column.cast(pa.large_string())
            column = column.dictionary_encode(null_encoding="encode")
        chunks = column.unify_dictionaries().chunks  # all with the same dictionary
        words = chunks[0].dictionary.to_pylist() if chunks else []
        codes = [chunk.indices.cast(pa.int64()).fill_null(len(words)).to_numpy() for chunk in chunks]
        return [*words, None], np.concatenate(codes) if codes else np.empty(0, dtype=np.int64)


def is_text_type(kind: pa.DataType) -> bool:
    """Whether a column of this type holds text."""
    if pa.types.is_dictionary(kind):
        return is_text_type(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or _is_view(kind))


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
    with _errors_of_column(name):
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
    with _errors_of_column(name):
        if column.null_count and not pa.types.is_floating(column.type):
            column = column.cast(pa.float64(), safe=False)
        return np.asarray(column.to_numpy())


def _in_words(kind: pa.DataType) -> str:
    """What a column holds, for people who do not know Arrow's types."""
    is_a = pa.types
    if is_text_type(kind):
        return "text"
    if is_a.is_temporal(kind):
        return "dates or times"
    if is_a.is_binary(kind) or is_a.is_large_binary(kind):
        return "bytes, or text that is not UTF-8"
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
        f"query {brief(query)} ends at row {ended} and starts again at row {again} (from row 0); pass "
        f"{option('merge', True)} to bring its rows together"
    )
