"""Read JSON Lines: one object per line, one line per document, parsed by Arrow.

The fields of an object are columns, with the roles that the columns of a table have. A field that holds an object
itself is opened, one level deep: ``{"qid": 7, "grade": 1, "features": {"bm25": 2.5}}`` has the columns ``qid``,
``grade`` and ``features.bm25``. A field that is absent or null is missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from gainful.data.dataset import RankingData
from gainful.data.rows import Array
from gainful.errors import DataError, FormatError, plural, shorten
from gainful.formats.files import Chunk, PathLike, errors_of, reason, text_chunks
from gainful.formats.limits import MemoryLimit
from gainful.formats.sidecars import find_sidecars
from gainful.formats.table.columns import Column, Columns, check_columns, columns_of_plan
from gainful.formats.table.reader import plan_table, to_data
from gainful.formats.table.values import check_table

CHUNK_BYTES = 32 << 20
BLOCK_BYTES = 1 << 20  # parsed by one thread
MOST_FIELDS = 100_000  # a damaged file may name a new field in every line
MOST_BRACKETS = 1000  # in a line: a bound on how deeply it is nested


def read(
    path: PathLike,
    *,
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
    merge: bool = True,
    sidecars: bool = True,
    query_id: str | None = None,
    max_bytes: int | str | None = None,
) -> RankingData:
    """Read JSON Lines. Parameters as in :func:`gainful.formats.table.reader.read`."""
    beside = find_sidecars(path, sidecars, query_id)
    needs_qid = not beside.name_queries
    columns = Columns(
        qid, grade, doc_id, weight, features, needs_qid=needs_qid, times=times, keep=keep, init_score=init_score,
        position=position, propensity=propensity,
    )  # fmt: skip
    wanted = check_columns(columns, merge, "JSON Lines")
    limit = MemoryLimit(path, max_bytes)
    with errors_of(path):
        table = load(path, limit)
        return to_data(table, plan_table(table, wanted), wanted, merge, ids_are_text=False, limit=limit, beside=beside)


def columns(
    path: PathLike,
    *,
    merge: bool = True,
    sidecars: bool = True,
    query_id: str | None = None,
    max_bytes: int | str | None = None,
    all_rows: bool = True,
    **wanted: Any,
) -> list[Column]:
    """The columns with their roles; options as in :func:`read`."""
    beside = find_sidecars(path, sidecars, query_id)
    given = check_columns(Columns(**wanted, needs_qid=not beside.name_queries), merge, "JSON Lines")
    with errors_of(path):
        table = load(path, MemoryLimit(path, max_bytes))
        return columns_of_plan(table.schema, plan_table(table, given), given)


def load(path: PathLike, limit: MemoryLimit) -> pa.Table:
    """The rows as a table, nested objects opened."""
    tables: list[pa.Table] = []
    line = n_bytes = 0
    for chunk in text_chunks(
        path, CHUNK_BYTES, lambda size: limit.check(size, "the first part of the text", so_far=True)
    ):
        table = _parse(path, chunk, line)
        check_table(table)
        n_bytes += table.nbytes
        limit.check(3 * n_bytes, f"the first {plural(line + table.num_rows, 'row')}", so_far=True)
        tables.append(table)
        line += int(np.count_nonzero(chunk.buf[chunk.start : chunk.stop] == ord("\n")))
        chunk.release()
    try:
        table = pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        field = re.search(r"Field (.*) has incompatible types: (\w+) vs (\w+)", reason(error))
        kinds = {"int64": "whole numbers", "double": "numbers", "string": "text", "bool": "true or false"}
        found = field and (field[1], *(kinds.get(kind, kind) for kind in field.groups()[1:]))
        what = f"field {found[0]!r} holds {found[1]} and later {found[2]}" if found else reason(error)[:200]
        raise FormatError(f"{what}; a field must hold values of one kind", path=path) from None
    if table.num_rows == 0:
        raise FormatError("there are no rows, only blank lines", path=path)
    return table


def _parse(path: PathLike, chunk: Chunk, first_line: int) -> pa.Table:
    """The rows of one chunk."""
    text = chunk.buf[chunk.start : chunk.stop].tobytes()
    n_rows = check_lines(path, text, first_line)
    try:
        table = read_objects(text)
        dated = [field for field in table.schema if _holds_time(field.type)]
        if dated:  # Arrow takes texts that look like dates for dates
            table = read_objects(text, pa.schema([pa.field(field.name, _as_text(field.type)) for field in dated]))
    except (pa.ArrowException, MemoryError) as error:
        raise error_in(path, text, first_line, error) from None
    if table.num_rows != n_rows:  # several values in a line
        raise error_in(path, text, first_line, ValueError("a line holds several values"))
    if table.num_columns > MOST_FIELDS:
        raise FormatError(f"has more than {MOST_FIELDS:,} different fields", path=path)
    return _open_objects(table)


def check_lines(path: PathLike, text: bytes, first_line: int) -> int:
    """The number of rows; refuses what Arrow's parser cannot take: a line without an object, deep nesting, not UTF-8.

    It would crash on some of them.
    """
    raw = np.frombuffer(text, dtype=np.uint8)
    starts = np.append(0, np.flatnonzero(raw[:-1] == ord("\n")) + 1) if len(raw) else np.empty(0, dtype=np.int64)
    other = starts[raw[starts] != ord("{")]
    first = [_first_byte(text, int(at)) for at in other.tolist()]
    n_rows = len(starts) - first.count(b"")
    if any(byte not in (b"", b"{") for byte in first) or not _is_utf8(text) or _is_deep(text, raw, starts):
        raise error_in(path, text, first_line, ValueError("objects are nested too deeply"))
    return n_rows


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _is_deep(text: bytes, raw: Array, starts: Array) -> bool:
    """Whether a line has enough brackets to be nested deeply."""
    if text.count(b"{") + text.count(b"[") - len(starts) <= MOST_BRACKETS:
        return False
    return bool(np.add.reduceat((raw == ord("{")) | (raw == ord("[")), starts, dtype=np.int64).max() > MOST_BRACKETS)


def _first_byte(text: bytes, at: int) -> bytes:
    """The first byte of a line that is not blank; nothing if all are."""
    end = text.find(b"\n", at)
    return text[at : len(text) if end < 0 else end].strip(b" \t\r")[:1]


def read_objects(text: bytes, schema: pa.Schema | None = None, **parse: Any) -> pa.Table:
    """One object per line as the rows of a table; ``parse`` are further options of Arrow's parser."""
    from pyarrow import json as arrow_json

    return arrow_json.read_json(
        pa.BufferReader(pa.py_buffer(text)),
        read_options=arrow_json.ReadOptions(block_size=BLOCK_BYTES),
        parse_options=arrow_json.ParseOptions(explicit_schema=schema, newlines_in_values=False, **parse),
    )


def _open_objects(table: pa.Table) -> pa.Table:
    """Each field of a nested object as a column ``outer.inner``."""
    if not any(pa.types.is_struct(kind) for kind in table.schema.types):
        return table
    flat = table.flatten()
    names = flat.schema.names
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"the field {twice!r} is given twice, once as a nested object")
    return flat


def _holds_time(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_holds_time(field.type) for field in kind)
    return bool(pa.types.is_temporal(kind))


def _as_text(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _as_text(field.type)) for field in kind])
    return pa.string() if pa.types.is_temporal(kind) else kind


# -- errors ------------------------------------------------------------------------------------------------------------


def error_in(path: PathLike, text: bytes, first_line: int, error: Exception) -> FormatError:
    """The error of the line that Arrow could not read, found by reading line by line."""
    kinds: dict[str, tuple[str, int]] = {}
    for number, raw in enumerate(text.split(b"\n"), start=first_line + 1):
        if not raw.strip():
            continue
        message = _problem_of(raw)
        if message is not None:
            return FormatError(message, path=path, line=number)
        if len(raw) > BLOCK_BYTES:
            return FormatError("the line is longer than 1 MiB", path=path, line=number)
        if raw.count(b"{") + raw.count(b"[") > MOST_BRACKETS:
            return FormatError(f"the line has more than {MOST_BRACKETS:,} brackets", path=path, line=number)
        changed = _changed_kind(json.loads(raw), kinds, number)
        if changed is not None:
            return FormatError(changed, path=path, line=number)
    return FormatError(f"is not JSON Lines: {reason(error)[:200]}", path=path)


def _problem_of(line: bytes) -> str | None:
    """What is wrong with a line by itself; None if it is an object."""
    try:
        value = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        return "the line is not UTF-8 text; save the file as UTF-8"
    except RecursionError:
        return "the line is nested too deeply"
    except ValueError as error:
        return f"the line is not JSON: {reason(error)[:100]}"
    return None if isinstance(value, dict) else f"expected an object, {{…}}, found {shorten(value, 40)}"


def _changed_kind(row: dict[str, Any], kinds: dict[str, tuple[str, int]], line: int) -> str | None:
    """What to say of a field that holds another kind of value than on an earlier line."""
    words = {str: "text", bool: "true or false", int: "a number", float: "a number", dict: "an object", list: "a list"}
    for name, value in row.items():
        if value is None:
            continue
        kind = words[type(value)]
        before, where = kinds.setdefault(name, (kind, line))
        if before != kind:
            return f"field {name!r} holds {kind}, but {before} on line {where}; a field must hold values of one kind"
    return None
