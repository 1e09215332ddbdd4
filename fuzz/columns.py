"""Random Arrow tables, which Arrow and Parquet files are filled with."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from fuzz.cases import Random
from fuzz.damage import damage_bytes, damage_json, pick
from fuzz.rows import Rows

NOTES = {"version": 1, "roles": {"qid": "qid", "grade": "grade"}, "feature_names": True, "dtype": "float64",
         "sparse": False}  # fmt: skip


def table_of(rng: Random, rows: Rows, whole: bool) -> Any:
    """The rows as an Arrow table, in one of the many types that hold them."""
    columns = [("qid", _ids(rng, rows.qid)), ("grade", pa.array(rows.y, pick(rng, [pa.float64(), pa.float32()])))]
    if rows.doc_ids is not None:
        columns.append(("doc_id", _ids(rng, rows.doc_ids)))
    if rows.weights is not None:
        columns.append(("weight", pa.array(rows.weights)))
    columns += [(name, _values(rng, rows.X[:, j])) for j, name in enumerate(rows.names)]
    if not whole and rng.random() < 0.4:
        _make_odd(rng, columns, len(rows.y))
    if rng.random() < 0.2:
        columns = [columns[i] for i in rng.permutation(len(columns))]
    table = pa.Table.from_arrays([column for _, column in columns], [name for name, _ in columns])
    if not whole and rng.random() < 0.3:
        table = table.replace_schema_metadata({b"gainful": _damage_notes(rng)})
    return table


def _ids(rng: Random, ids: list[Any]) -> Any:
    if isinstance(ids[0], int):
        return pa.array(ids, pick(rng, [pa.int64(), pa.int32()]))
    column = pa.array(ids, pick(rng, [pa.string(), pa.large_string()]))
    return column.dictionary_encode() if rng.random() < 0.25 else column


def _values(rng: Random, values: Any) -> Any:
    missing = np.isnan(values)
    kind = int(rng.integers(4))
    if kind == 0 and not missing.all() and np.abs(values[~missing]).max() < 1e30:
        with np.errstate(all="ignore"):
            return pa.array(np.where(missing, 0, values).astype(np.float32), mask=missing)
    if kind == 1:
        return pa.array(values, mask=missing)
    return pa.array(values)


def _make_odd(rng: Random, columns: list[tuple[str, Any]], n: int) -> None:
    """Replace a column by one of a type that no role expects."""
    number = [int(i) for i in rng.integers(0, 3, n)]
    odd: list[Any] = [
        pa.nulls(n),
        pa.array([[i] for i in number]),
        pa.array([{"a": i} for i in number]),
        pa.array([None if i == 0 else i for i in number]),
        pa.array([None if i == 0 else f"t{i}" for i in number]),
        pa.array([b"\xff\xfe" * i for i in number], pa.binary()),
        pa.array(number, pa.timestamp("s")),
        pa.array(number, pa.duration("ms")),
        pa.array(number, pa.date32()),
        pa.array(number, pa.uint64()),
        pa.array([bool(i) for i in number]),
        pa.array(np.array(number, dtype=np.float16)),
        pa.array([f"t{i}" for i in number], pa.string_view()),
        pa.array(number).cast(pa.decimal128(30, 3)),
        pa.array([2**64 - 1 - i for i in number], pa.uint64()),
        pa.array(["1"] * n).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array(number, pa.int8()), pa.array([None, "a", "a"])),
    ]
    place = int(rng.integers(len(columns)))
    columns[place] = (columns[place][0], pick(rng, odd))
    if rng.random() < 0.2:
        columns.append(columns[place])  # a name twice
    if rng.random() < 0.1:
        del columns[int(rng.integers(len(columns)))]


def _damage_notes(rng: Random) -> bytes:
    text = json.dumps(NOTES).encode()
    if rng.random() < 0.2:
        return damage_bytes(text, rng)
    return damage_json(text, rng)
