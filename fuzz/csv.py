"""CSV and TSV, plain and compressed."""

from __future__ import annotations

import gzip
import math
from typing import Any

from fuzz import data_files
from fuzz.cases import Input, Random, Target, Wholes
from fuzz.damage import damage_bytes, damage_text, pick
from fuzz.rows import Rows, random_rows

PIECES = [b",", b";", b"\t", b'"', b'""', b'","', b"\n", b"\r", b"\r\n", b"\n\n", b"\xf6\xdf", b"\xff\xfe", b"\0",
          b"NULL", b"NaN", b"1e999", b"inf", b"-inf", b"0x1", b"true", b"1_000", b"2020-01-01", b"\xef\xbb\xbf",
          b"9" * 400,
          b"qid,grade", b"qid", b",,,,,", b'"a\nb"', "١".encode(), b"1e-400", b" 1", b"12:30", b"\xed\xa0\x80",
          b"a" * 70000]  # fmt: skip


def text_of(rng: Random, rows: Rows, separator: str) -> bytes:
    head = [pick(rng, ["qid", "query_id", "Query"]), pick(rng, ["grade", "label", "y"])]
    head += ["doc_id"] if rows.doc_ids is not None else []
    head += ["weight"] if rows.weights is not None else []
    lines = [[*head, *rows.names]]
    for i, values in enumerate(rows.X):
        cells = [rows.qid[i], repr(rows.y[i])]
        cells += [] if rows.doc_ids is None else [rows.doc_ids[i]]
        cells += [] if rows.weights is None else [repr(rows.weights[i])]
        lines.append([*cells, *(_number(rng, float(value)) for value in values)])
    newline = pick(rng, ["\n", "\r\n"])
    quote = bool(rng.random() < 0.2)
    text = newline.join(separator.join(_cell(str(cell), separator, quote) for cell in line) for line in lines)
    return (text + newline).encode()


def _number(rng: Random, value: float) -> str:
    if math.isnan(value):
        return pick(rng, ["", "NULL", "NaN", "NA"])
    return str(int(value)) if value == int(min(max(value, -1e9), 1e9)) else repr(value)


def _cell(text: str, separator: str, quote: bool) -> str:
    if quote or any(mark in text for mark in (separator, '"', "\n", "\r")) or text == "":
        return '"' + text.replace('"', '""') + '"'
    return text


def make(rng: Random, _: Wholes, whole: bool) -> Input:
    rows = random_rows(rng, whole)
    kind = pick(rng, [".csv", ".csv", ".csv", ".tsv"])
    separator = "\t" if kind == ".tsv" else ","
    read: dict[str, Any] = {}
    if rng.random() < 0.15:
        separator = pick(rng, [";", "|", "\t"])
        read["sep"] = "tab" if separator == "\t" else separator
    text = text_of(rng, rows, separator)
    if not whole:
        read |= _read_options(rng)
        if rng.random() < 0.85:
            text = damage_text(text, rng, text_of(rng, random_rows(rng, False), ","), PIECES)
    if rng.random() < 0.15:
        text, kind = gzip.compress(text, 1, mtime=0), f"{kind}.gz"
        text = text if whole or rng.random() < 0.5 else damage_bytes(text, rng)
    return Input(text, kind, data_files.use_options(rng, whole, rows, **read))


def _read_options(rng: Random) -> dict[str, Any]:
    if rng.random() < 0.7:
        return {}
    return pick(rng, [{"merge": False}, {"qid": "f1"}, {"grade": "nobody"}, {"features": ["f1"]}, {"doc_id": False},
                      {"weight": "f1"}, {"features": []}, {"qid": "grade", "grade": "qid"}])  # fmt: skip


def warm() -> None:
    import pyarrow.csv  # noqa: F401


TARGET = Target(make, data_files.use, warm=warm)
