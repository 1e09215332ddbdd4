"""JSON Lines, plain and compressed."""

from __future__ import annotations

import gzip
import json
import math
from typing import Any

from fuzz import data_files
from fuzz.cases import Input, Random, Target, Wholes
from fuzz.damage import damage_bytes, damage_text, pick
from fuzz.rows import Rows, random_rows

PIECES = [b"{", b"}", b"[", b"]", b'"', b":", b",", b"\n", b"\r\n", b"\n\n", b"null", b"true", b"NaN", b"Infinity",
          b"1e999", b"-0", b"0x1", b'{"qid": 1, "grade": 1}\n', b'"qid"', b'{"a": {"b": {"c": 1}}}\n', b"\xff\xfe",
          b"\0", b"\xed\xa0\x80", b'"\\ud800"', b"9" * 400, b"[" * 3000, b'"2020-01-01"', b"\xef\xbb\xbf",
          b'"a": "' + b"a" * 70000 + b'"', b'"qid": 1, "qid": 2', b"18446744073709551616", b"1.5",
          b"text"]  # fmt: skip


def text_of(rng: Random, rows: Rows) -> bytes:
    names = [pick(rng, ["qid", "query_id"]), pick(rng, ["grade", "label"])]
    nested = rng.random() < 0.3
    lines = []
    for i, values in enumerate(rows.X):
        row: dict[str, Any] = {names[0]: str(rows.qid[i]), names[1]: float(rows.y[i])}
        row |= {} if rows.doc_ids is None else {"doc_id": str(rows.doc_ids[i])}
        row |= {} if rows.weights is None else {"weight": float(rows.weights[i])}
        given = {name: None if math.isnan(v) else float(v) for name, v in zip(rows.names, values, strict=True)}
        row |= {"features": given} if nested else given
        lines.append(json.dumps(row, ensure_ascii=bool(rng.random() < 0.5)))
        lines += [""] if rng.random() < 0.05 else []
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def make(rng: Random, _: Wholes, whole: bool) -> Input:
    rows = random_rows(rng, whole)
    text = text_of(rng, rows)
    if not whole and rng.random() < 0.85:
        text = damage_text(text, rng, text_of(rng, random_rows(rng, False)), PIECES)
    kind = ".jsonl"
    if rng.random() < 0.15:
        text, kind = gzip.compress(text, 1, mtime=0), ".jsonl.gz"
        text = text if whole or rng.random() < 0.5 else damage_bytes(text, rng)
    return Input(text, kind, data_files.use_options(rng, whole, rows))


def warm() -> None:
    import pyarrow.json  # noqa: F401


TARGET = Target(make, data_files.use, warm=warm)
