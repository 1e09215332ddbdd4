"""Parquet files. Damage reaches the footer, the page headers and the pages."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fuzz import data_files
from fuzz.cases import Input, Random, Target, Wholes
from fuzz.columns import table_of
from fuzz.damage import damage_bytes, nudge_bytes, pick, write_integer
from fuzz.rows import random_rows


def file_of(rng: Random, table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    settings = {
        "compression": pick(rng, ["none", "snappy", "gzip", "zstd"]),
        "use_dictionary": bool(rng.integers(2)),
        "row_group_size": pick(rng, [2, 1000]),
        "data_page_version": pick(rng, ["1.0", "2.0"]),
        "write_statistics": bool(rng.integers(2)),
        "write_page_checksum": bool(rng.integers(2)),
        "store_schema": bool(rng.integers(2)),
    }
    pq.write_table(table, sink, **settings)
    return bytes(sink.getvalue().to_pybytes())


def make(rng: Random, _: Wholes, whole: bool) -> Input:
    rows = random_rows(rng, whole)
    raw = _try_file(rng, table_of(rng, rows, whole))
    if raw is None:  # Parquet has no such type
        raw = file_of(rng, table_of(rng, rows, True))
    if not whole and rng.random() < 0.85:
        raw = _damage(rng, raw)
    options = data_files.use_options(rng, whole, rows, **({} if rng.random() < 0.8 else {"merge": False}))
    return Input(raw, ".parquet", options)


def _try_file(rng: Random, table: Any) -> bytes | None:
    try:
        return file_of(rng, table)
    except pa.ArrowException:
        return None


def _damage(rng: Random, raw: bytes) -> bytes:
    start = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    draw = rng.random()
    if draw < 0.5:
        footer = (nudge_bytes if draw < 0.35 else damage_bytes)(raw[start:-8], rng)
        return raw[:start] + footer + len(footer).to_bytes(4, "little") + raw[-4:]
    if draw < 0.65:
        return raw[:4] + nudge_bytes(raw[4:start], rng) + raw[start:]
    if draw < 0.75:
        out = bytearray(raw)
        write_integer(rng, out, len(raw) - 8, 4, pick(rng, [len(raw), len(raw) - 12, 1, 0, 2**31 - 1, 2**32 - 1]))
        return bytes(out)
    return damage_bytes(raw, rng, raw[::-1])


def warm() -> None:
    import pyarrow.dataset  # noqa: F401


TARGET = Target(make, data_files.use, warm=warm)
