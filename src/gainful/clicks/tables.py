"""Tables of click logs: opened by format, their columns given roles, and read in parts of bounded size."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gainful.clicks.columns import NAMES, Named, Roles, find_roles
from gainful.clicks.page_text import TEXT_FORMS, text_form
from gainful.errors import FormatError, option, shorten
from gainful.formats.files import COMPRESSIONS, PathLike, check_readable, reason, text_chunks

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
FORMATS = ("csv", "tsv", "parquet", "jsonl", *TEXT_FORMS)
PART_ROWS = 1 << 17
PART_BYTES = 16 << 20
HEAD_LINES = 200  # of JSON Lines, all fields of which are known; further down only those with a role are looked for


def format_of(path: PathLike, format: str | None) -> str:
    """The format of a click log, by name, by suffix, or by the first line of a text."""
    if format is not None:
        return format
    check_readable(path)
    name = Path(path).name.lower()
    packed = next((suffix for suffix in COMPRESSIONS if name.endswith(suffix)), "")
    found = SUFFIXES.get(Path(name.removesuffix(packed)).suffix)
    if found == "parquet" and packed:
        raise FormatError("a Parquet file is compressed inside; unpack it first", path=path)
    return text_form(path) if found is None else found


@dataclass(frozen=True)
class ClickTable:
    """A table of a log that is read in parts: the names of its columns, their roles, and the parts."""

    names: list[str]
    roles: Roles
    parts: Any  # a function that returns an iterator over Arrow tables with the columns of the roles

    @classmethod
    def open(
        cls, source: Any, format: str | None, given: Mapping[str, Named], features: tuple[str, ...], sep: str | None
    ) -> ClickTable:
        if not isinstance(source, (str, os.PathLike)):
            return _open_frame(source, given, features)
        check_readable(source)
        kind = format_of(source, format)
        if kind in TEXT_FORMS:
            raise FormatError("is text of pages; events are a table or JSON Lines", path=source)
        opener = {"parquet": _open_parquet, "jsonl": _open_json}.get(kind, partial(_open_csv, kind=kind, sep=sep))
        found: ClickTable = opener(source, given, features)
        return found


def _open_frame(frame: Any, given: Mapping[str, Named], features: tuple[str, ...]) -> ClickTable:
    from gainful.formats.table.reader import as_table

    table = as_table(frame)
    roles = find_roles(table.schema.names, given, features)

    def parts() -> Iterator[Any]:
        wanted = table.select(roles.all_columns)
        for start in range(0, wanted.num_rows, PART_ROWS):
            yield wanted.slice(start, PART_ROWS)

    return ClickTable(table.schema.names, roles, parts)


def _open_parquet(path: PathLike, given: Mapping[str, Named], features: tuple[str, ...]) -> ClickTable:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from gainful.formats.table.values import check_table

    try:
        with pq.ParquetFile(path) as file:
            names = _leaves(file.schema_arrow)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"is not a Parquet file: {reason(error)[:200]}", path=path) from None
    roles = find_roles(names, given, features)

    def parts() -> Iterator[Any]:
        try:
            with pq.ParquetFile(path, pre_buffer=False) as file:
                for batch in file.iter_batches(batch_size=PART_ROWS, columns=roles.all_columns):
                    check_table(batch)
                    yield _flatten(pa.Table.from_batches([batch]))
        except (pa.ArrowException, OSError) as error:
            raise FormatError(f"the Parquet file is damaged: {reason(error)[:200]}", path=path) from None

    return ClickTable(names, roles, parts)


def _open_csv(
    path: PathLike, given: Mapping[str, Named], features: tuple[str, ...], *, kind: str, sep: str | None
) -> ClickTable:
    import pyarrow as pa
    from pyarrow import csv

    from gainful.formats.table.columns import MISSING
    from gainful.formats.table.csv_text import csv_source

    between = {"tab": "\t", None: "\t" if kind == "tsv" else ","}.get(sep, sep)
    parse = csv.ParseOptions(delimiter=between, newlines_in_values=True)

    def reader(convert: Any, **how: Any) -> Any:
        try:
            return csv.open_csv(
                csv_source(path), read_options=csv.ReadOptions(**how), parse_options=parse, convert_options=convert
            )
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise FormatError(f"cannot be read as {kind.upper()}: {reason(error)[:200]}", path=path) from None

    with reader(None, use_threads=False, block_size=1 << 20) as head:
        try:
            names = head.schema.names
        except UnicodeDecodeError:
            raise FormatError("the column names are not UTF-8 text; save the file as UTF-8", path=path) from None
    if len(names) == 1:
        other = max(";\t|,", key=names[0].count)
        if other in names[0]:
            raise FormatError(f"has one column only, {shorten(names[0])}; pass {option('sep', other)}", path=path)
    roles = find_roles(names, given, features)
    types = dict.fromkeys(roles.columns.values(), pa.string()) | dict.fromkeys(features, pa.float64())
    convert = csv.ConvertOptions(
        column_types=types, include_columns=roles.all_columns, null_values=MISSING, strings_can_be_null=False
    )

    def parts() -> Iterator[Any]:
        try:
            with reader(convert, block_size=PART_BYTES) as batches:
                for batch in batches:
                    yield pa.Table.from_batches([batch])
        except pa.ArrowException as error:
            raise FormatError(f"cannot be read as {kind.upper()}: {reason(error)[:200]}", path=path) from None

    return ClickTable(names, roles, parts)


def _open_json(path: PathLike, given: Mapping[str, Named], features: tuple[str, ...]) -> ClickTable:
    import pyarrow as pa

    from gainful.formats.json_lines.reader import check_lines, error_in, read_objects

    kinds = _json_kinds(path, [*(one for one in given.values() if isinstance(one, str)), *features])
    roles = find_roles(list(kinds), given, features)
    schema = _nested_schema({name: kinds[name] for name in roles.all_columns})

    def parts() -> Iterator[Any]:
        for line, text in _texts(path):
            n_rows = check_lines(path, text, line)
            try:
                table = read_objects(text, schema, unexpected_field_behavior="ignore")
            except (pa.ArrowException, MemoryError) as error:
                raise error_in(path, text, line, error) from None
            if table.num_rows != n_rows:
                raise error_in(path, text, line, ValueError("a line holds several values"))
            yield _flatten(table)

    return ClickTable(list(kinds), roles, parts)


def _texts(path: PathLike) -> Iterator[tuple[int, bytes]]:
    """Parts of a text, each of whole lines, and the number of lines before it."""
    line = 0
    for chunk in text_chunks(path, PART_BYTES):
        text = chunk.buf[chunk.start : chunk.stop].tobytes()
        chunk.release()
        yield line, text
        line += text.count(b"\n")


def _json_kinds(path: PathLike, named: Sequence[str]) -> dict[str, Any]:
    """The fields of the first lines, those of nested objects with dots, and the Arrow type of each.

    Fields that may have a role, by a well-known name or because the caller named them, are found in any line: events
    of different kinds have different fields.
    """
    from gainful.formats.json_lines.reader import error_in

    found: dict[str, Any] = {}
    for line, text in _texts(path):
        try:
            if not line:
                for one in [one for one in text.split(b"\n", 2 * HEAD_LINES) if one.strip()][:HEAD_LINES]:
                    _add_kinds(found, one)
                known = {name.rpartition(".")[2] for name in found}
                wanted = {one.rpartition(".")[2] for names in NAMES.values() for one in names} - known
                wanted |= {one.rpartition(".")[2] for one in named if one not in found}
            for one in _lines_with(text, wanted):
                _add_kinds(found, one)
        except (ValueError, RecursionError) as error:
            raise error_in(path, text, line, error) from None
        if not wanted:
            break
    return found


def _lines_with(text: bytes, wanted: set[str]) -> Iterator[bytes]:
    """The first line with each wanted field that has a value. What is found is no longer wanted."""
    at = 0
    while wanted:
        names = b"|".join(re.escape(json.dumps(one).encode()) for one in sorted(wanted))
        hit = re.compile(rb"(" + names + rb")\s*:(?!\s*(?:null|\{))").search(text, at)
        if hit is None:
            return
        wanted.discard(json.loads(hit[1]))
        start, stop = text.rfind(b"\n", 0, hit.start()) + 1, text.find(b"\n", hit.end())
        yield text[start : stop if stop >= 0 else len(text)]
        at = start  # other fields of this line may be wanted


def _add_kinds(found: dict[str, Any], line: bytes) -> None:
    """Add the fields of a line, unless they are known; a float or text takes the place of a whole number."""
    import pyarrow as pa

    row = json.loads(line.decode("utf-8"))
    if not isinstance(row, dict):
        raise ValueError("expected an object")
    for name, value in _fields(row):
        kind = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}.get(type(value))
        if isinstance(value, list):
            kind = pa.list_(pa.string() if not value or isinstance(value[0], str) else pa.int64())
        if kind is not None and found.get(name) in (None, pa.int64()):
            found[name] = kind


def _fields(row: Mapping[str, Any], prefix: str = "", depth: int = 4) -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, dict) and depth:
            yield from _fields(value, f"{prefix}{name}.", depth - 1)
        else:
            yield prefix + name, value


def _nested_schema(kinds: Mapping[str, Any]) -> Any:
    """The schema of fields whose names have dots for nested objects."""
    import pyarrow as pa

    tree: dict[str, Any] = {}
    for name, kind in kinds.items():
        *outer, last = name.split(".")
        inside = tree
        for one in outer:
            inside = inside.setdefault(one, {})
        inside[last] = kind

    def made(inside: dict[str, Any]) -> list[Any]:
        return [pa.field(n, pa.struct(made(one)) if isinstance(one, dict) else one) for n, one in inside.items()]

    return pa.schema(made(tree))


def _leaves(schema: Any) -> list[str]:
    import pyarrow as pa

    def of(name: str, kind: Any) -> Iterator[str]:
        if pa.types.is_struct(kind):
            for field in kind:
                yield from of(f"{name}.{field.name}", field.type)
        else:
            yield name

    return [leaf for field in schema for leaf in of(field.name, field.type)]


def _flatten(table: Any) -> Any:
    import pyarrow as pa

    while any(pa.types.is_struct(kind) for kind in table.schema.types):
        table = table.flatten()
    return table
