"""Columns of Arrow tables as NumPy arrays: numbers, ids, text; and the checks of what comes from a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gainful.data.rows import Array
from gainful.errors import DataError, GainfulError, wording
from gainful.formats.files import reason
from gainful.formats.ids import check_ids, string_array
from gainful.formats.limits import MemoryLimit


def cut(text: str, limit: int = 200) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def plain_type(schema: pa.Schema, name: str) -> pa.DataType:
    kind = schema.field(name).type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def check_table(table: pa.Table | pa.RecordBatch) -> None:
    """Check every offset, index and text of a table from a file: a wrong one would make Arrow read outside it."""
    for name, column in zip(table.schema.names, table.columns, strict=True):
        with errors_of_column(name):
            column.validate(full=True)


def check_structure(table: Any, what: str) -> None:
    """Check the lengths of a table's columns and buffers, not their values."""
    try:
        table.validate()
    except pa.ArrowException as error:
        raise DataError(f"{what} is not a valid Arrow table: {cut(reason(error))}") from None


@contextmanager
def errors_of_column(name: str) -> Iterator[None]:
    """Name the column in errors of Arrow and NumPy."""
    try:
        yield
    except GainfulError:
        raise
    except (pa.ArrowException, ValueError, TypeError, OverflowError, NotImplementedError) as error:
        if "UTF8" in str(error) or isinstance(error, UnicodeDecodeError):
            raise DataError(f"column {name!r} holds text that is not UTF-8") from None
        raise DataError(f"column {name!r} is damaged or of an unknown kind: {cut(reason(error))}") from None


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
    if is_text_type(plain_type(table.schema, name)):
        words, codes = words_and_codes(column, name, few=refuse_empty)
        check_ids(words, f"{what} in column {name!r}")
        if refuse_empty:
            is_missing = np.array([word is None or (is_text and word == "") for word in words])[codes]
            if is_missing.any():
                raise _missing_error(what, name, first_row + int(np.argmax(is_missing)))
        texts = string_array(["" if word is None else word for word in words])
        if limit is not None:
            limit.check(len(codes) * texts.dtype.itemsize, f"the {what}s")
        return texts[codes]
    column = decode(table, name)
    if column.null_count:
        raise _missing_error(what, name, first_row + _first_null(column))
    if pa.types.is_nested(column.type) or pa.types.is_null(column.type):
        raise DataError(f"column {name!r} cannot hold {what}s: it holds {in_words(column.type)}")
    with errors_of_column(name):
        ids = np.asarray(column.to_numpy())
    return ids.astype(np.int64) if ids.dtype.kind == "i" else ids


def words_and_codes(column: Any, name: str, few: bool) -> tuple[list[str | None], Array]:
    """Texts, the last of them None, and which of them each row holds; ``few`` if many rows hold the same."""
    with errors_of_column(name):
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
    column = decode(table, name)
    if column.null_count:
        raise _missing_error(what, name, first_row + _first_null(column))
    return numeric(column, name)


def decode(table: pa.Table, name: str) -> Any:
    column = table.column(name)
    with errors_of_column(name):
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
        other = "encode it" if not pa.types.is_temporal(kind) else f"read it as numbers with {_as_times(name)}"
        raise DataError(
            f"column {name!r} must be numeric, but holds {in_words(kind)}; drop it, {other}, or name the features"
        )
    with errors_of_column(name):
        if column.null_count and not pa.types.is_floating(column.type):
            column = column.cast(pa.float64(), safe=False)
        return np.asarray(column.to_numpy())


def _as_times(name: str) -> str:
    return wording(f"times=[{name!r}]", f"--read times={name}")


def times_of(column: Any, name: str) -> Array:
    """Dates and times as seconds since 1970, numbers as they are; nulls and empty texts as NaN."""
    with errors_of_column(name):
        if is_text_type(column.type):
            texts = column.cast(pa.large_string())
            column = _parsed_times(pc.if_else(pc.equal(texts, ""), None, texts), name)
        if pa.types.is_date(column.type):
            column = column.cast(pa.timestamp("us"))
        if not pa.types.is_timestamp(column.type):
            return numeric(column, name).astype(np.float64)
        micros = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
        return np.asarray(micros.cast(pa.float64(), safe=False).to_numpy()) / 1e6


def _parsed_times(texts: Any, name: str) -> Any:
    """Texts that are all numbers, or all dates or times as ISO 8601 writes them, with or without a zone."""
    for kind in (pa.float64(), pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            return texts.cast(kind)
        except pa.ArrowInvalid as error:
            found = error
    raise DataError(
        f"column {name!r} must hold numbers or dates such as 2024-12-31 or 2024-12-31T23:59:00: {cut(reason(found))}"
    )


def in_words(kind: pa.DataType) -> str:
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
