"""Arrow IPC files. Damage reaches the offsets of texts, which Arrow itself does not check when it maps a file."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from fuzz import data_files
from fuzz.cases import Input, Random, Target, Wholes
from fuzz.columns import table_of
from fuzz.damage import damage_bytes, pick, write_integer
from fuzz.rows import random_rows

SUFFIXES = [".arrow", ".feather", ".ipc"]


def file_of(rng: Random, table: Any, whole: bool) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=pick(rng, [None, None, None, "lz4", "zstd"]))
    opens = pa.ipc.new_file if whole or rng.random() < 0.95 else pa.ipc.new_stream
    with opens(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=pick(rng, [3, 1000]))
    return bytes(sink.getvalue().to_pybytes())


def make(rng: Random, _: Wholes, whole: bool) -> Input:
    rows = random_rows(rng, whole)
    raw = file_of(rng, table_of(rng, rows, whole), whole)
    if not whole and rng.random() < 0.85:
        draw = rng.random()
        if draw < 0.4:
            raw = damage_buffer(rng, raw)
        elif draw < 0.6:
            raw = damage_bytes(raw, rng, start=8, stop=min(len(raw), 1200))  # the schema
        elif draw < 0.75:
            raw = damage_bytes(raw, rng, start=max(8, len(raw) - 1200), stop=len(raw))  # the footer
        else:
            other = random_rows(rng, False)
            raw = damage_bytes(raw, rng, file_of(rng, table_of(rng, other, False), False))
    options = data_files.use_options(rng, whole, rows, **({} if rng.random() < 0.8 else {"merge": False}))
    return Input(raw, pick(rng, SUFFIXES), options)


def damage_buffer(rng: Random, raw: bytes) -> bytes:
    """One integer of one buffer of a column overwritten: most often an offset of a text."""
    held = pa.py_buffer(raw)
    try:
        batches = pa.ipc.open_file(pa.BufferReader(held))
        arrays = [array for i in range(batches.num_record_batches) for array in batches.get_batch(i).columns]
    except pa.ArrowException:
        return damage_bytes(raw, rng)
    arrays += [array.dictionary for array in arrays if isinstance(array, pa.DictionaryArray)]
    texts = [array for array in arrays if pa.types.is_string(array.type) or pa.types.is_large_string(array.type)]
    array = pick(rng, texts if texts and rng.random() < 0.8 else arrays)
    buffers = [one for one in array.buffers() if one is not None and one.size and _inside(one, held)]
    if not buffers:
        return damage_bytes(raw, rng)
    chosen = buffers[0] if pa.types.is_string(array.type) and rng.random() < 0.8 else pick(rng, buffers)
    size = pick(rng, [4, 4, 8])
    out = bytearray(raw)
    at = chosen.address - held.address + size * int(rng.integers(max(1, chosen.size // size)))
    write_integer(rng, out, at, size)
    return bytes(out)


def _inside(one: Any, held: Any) -> bool:
    """Whether a buffer is a part of the file, not something decompressed from it."""
    return bool(held.address <= one.address and one.address + one.size <= held.address + held.size)


def warm() -> None:
    import pyarrow.feather  # noqa: F401


TARGET = Target(make, data_files.use, warm=warm)
