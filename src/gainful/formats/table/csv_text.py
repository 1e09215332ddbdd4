"""CSV and TSV: how Arrow reads them, and what their first rows say."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from gainful.errors import DataError, option, plural
from gainful.formats.files import PathLike, compression_of
from gainful.formats.limits import MemoryLimit
from gainful.formats.table.columns import FIELD_BYTES, HEAD_ROWS, ID_BYTES, MISSING, Columns, Plan, check_types
from gainful.formats.table.values import cut

HEADER_BYTES = 1 << 16
NOT_A_NUMBER = re.compile(r"In CSV column #(\d+): .*conversion error to double")


def csv_decimals(plan: Plan) -> dict[str, Any]:
    """The types of a CSV file's columns: ids and features of text are texts, everything else is taken for decimals."""
    return dict.fromkeys(plan.all_columns(), pa.float64()) | csv_texts(plan)


def csv_types(inferred: pa.Schema, plan: Plan) -> dict[str, Any]:
    """The types of columns of which some are not decimals, or an error if one is not numeric.

    Arrow infers an integer from 0x1F; as decimals, such columns are refused.
    """
    check_types(inferred, plan)
    others = {name: inferred.field(name).type for name in plan.all_columns()}
    decimals = csv_decimals(plan)
    return {name: decimals[name] if pa.types.is_integer(kind) else kind for name, kind in others.items()}


def csv_head(path: PathLike, kind: str, wanted: Columns) -> pa.Table:
    """The first rows with the types that Arrow infers; without a header, columns are named by their numbers."""
    from pyarrow import csv

    parse, convert = csv_options(kind, wanted, {})
    reading = csv.ReadOptions(use_threads=False, autogenerate_column_names=not wanted.header)
    with (
        _other_separator_named(path, wanted.between(kind)),
        csv_source(path) as source,
        csv.open_csv(source, read_options=reading, parse_options=parse, convert_options=convert) as reader,
    ):
        first = next(iter(reader), None)
        head = pa.Table.from_batches([] if first is None else [first.slice(0, HEAD_ROWS)], schema=reader.schema)
    names = head.schema.names
    if len(names) == 1:
        _refuse_other_separator(names[0], wanted.between(kind))
    return head if wanted.header else head.rename_columns([str(j) for j in range(len(names))])


def csv_reading(names: list[str], wanted: Columns, **options: Any) -> Any:
    """How to read the lines of a file with these columns."""
    from pyarrow import csv

    return csv.ReadOptions(column_names=None if wanted.header else names, **options)


@contextmanager
def _other_separator_named(path: PathLike, delimiter: str) -> Iterator[None]:
    """Name the separator in use if the first line of the file is one column, and others are several."""
    try:
        yield
    except pa.ArrowInvalid as error:
        if "Expected 1 columns" in str(error):
            with csv_source(path) as source:
                first = source.read(HEADER_BYTES).split(b"\n")[0].decode("utf-8", "replace")
            _refuse_other_separator(first.strip(), delimiter)
        raise


def _refuse_other_separator(header: str, delimiter: str) -> None:
    """Raise if what looks like one column is several with another separator."""
    found = max(";\t|,", key=header.count)
    if found in header:
        given, other = ("tab" if one == "\t" else one for one in (delimiter, found))
        raise DataError(
            f"the first line has no {given!r} between columns, but {other!r}: {cut(header, 60)!r}; pass "
            f"{option('sep', other)}"
        )


def csv_texts(plan: Plan) -> dict[str, Any]:
    """The columns that are text whatever they look like: "007" is not 7."""
    ids = [plan.roles[role] for role in ("qid", "doc_id") if plan.roles[role] is not None]
    return dict.fromkeys([*ids, *plan.texts, *plan.times], pa.string())


def csv_options(kind: str, wanted: Columns, types: dict[str, Any], only: list[str] | None = None) -> tuple[Any, Any]:
    """How to split lines, and how to convert fields; types that are not given are inferred."""
    from pyarrow import csv

    parse = csv.ParseOptions(delimiter=wanted.between(kind), newlines_in_values=True)
    convert = csv.ConvertOptions(
        column_types=types,
        null_values=MISSING,
        strings_can_be_null=False,
        include_columns=only or [],
        decimal_point=wanted.decimal,
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
            max(self.bytes, ID_BYTES * self.lines + FIELD_BYTES * self.fields),
            f"the first {plural(self.lines, 'row')}",
            so_far=True,
        )
        return raw
