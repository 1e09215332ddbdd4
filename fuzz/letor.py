"""LETOR text, plain and compressed."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from typing import Any

import numpy as np

from fuzz import data_files
from fuzz.cases import Input, Random, Target, Wholes
from fuzz.damage import below, damage_bytes, damage_lines, damage_numbers, insert_pieces, pick
from fuzz.rows import Rows, random_rows

PIECES = [b"0", b"-1", b" ", b"\t", b"\n", b"\r\n", b"\r", b"#", b"qid:", b"qid:1", b":", b"1:2", b"2147483647:1",
          b"2147483648:1", b"99999999999:1", b"NULL", b"nan", b"1e999", b"inf", b"docid = ", b"\0", b"\xff", b"e",
          b"\xef\xbb\xbf", b"7e-324", b"9" * 400, b"1 qid:5 1:1\n", b"# gainful ", b"0." + b"0" * 400 + b"1",
          b"features=", b"=", b"\n" * 2000, b"# gainful sparse = false\n", b"# gainful sparse = true\n",
          b"# gainful n_features = 2000000000\n", b'# gainful feature_names = ["a", "a"]\n',
          b"# gainful query_weights = [1.0]\n", b'# gainful dtype = "float16"\n', b"# gainful doc_ids = 7\n",
          b"# gainful query_weights = [" + b"[" * 3000 + b"\n", b"1 qid:1 400000000:1\n", b"\xc2\x85", b"\x0b",
          "٣".encode(), b"1 qid:\xf6 1:1\n"]  # fmt: skip
SUFFIXES = [".txt", ".letor", ".svm", ".dat"]


def text_of(rng: Random, rows: Rows) -> bytes:
    """The rows as text, in one of the many ways that are allowed."""
    newline = pick(rng, ["\n", "\n", "\r\n"])
    blank = pick(rng, [" ", " ", "\t", "  "])
    lines = ["\ufeff# a note"] if rng.random() < 0.2 else []
    if rng.random() < 0.3:
        lines.append(f"# gainful n_features = {rows.X.shape[1]}")
    for i, values in enumerate(rows.X):
        columns = rng.permutation(len(values)) if rng.random() < 0.3 else np.arange(len(values))
        features = [f"{j + 1}:{_number(rng, float(values[j]))}" for j in columns if values[j] != 0]
        note = "" if rows.doc_ids is None else f"{blank}#docid = {rows.doc_ids[i]}"
        lines.append(blank.join([_number(rng, rows.y[i]), f"qid:{rows.qid[i]}", *features]) + note)
        if rng.random() < 0.1:
            lines.append(pick(rng, ["", "# a comment", "   "]))
    end = newline if rng.random() < 0.8 else ""
    return (newline.join(lines) + end).encode("utf-8", "surrogatepass")


def _number(rng: Random, value: float) -> str:
    if math.isnan(value):
        return pick(rng, ["NULL", "nan", "NaN"])
    return f"{value:.17e}" if rng.random() < 0.1 else repr(value)


def read_options(rng: Random, whole: bool) -> dict[str, Any]:
    options: dict[str, Any] = {"merge": bool(rng.integers(2)), "n_threads": pick(rng, [1, 1, 2])}
    if rng.random() < 0.3:
        options["dtype"] = pick(rng, ["float64", "float32"])
    if rng.random() < 0.3:
        options["sparse"] = pick(rng, [True, False, "auto"])
    if not whole and rng.random() < 0.2:
        options |= pick(rng, [{"zero_based": True}, {"n_features": 3}, {"n_features": 10**9}])
    return options


def damage_text(rng: Random, text: bytes, other: bytes) -> bytes:
    draw = rng.random()
    if draw < 0.3:
        return damage_bytes(text, rng, other)
    if draw < 0.6:
        return insert_pieces(text, rng, PIECES)
    if draw < 0.75:
        return damage_numbers(text, rng)
    if draw < 0.85:
        return damage_lines(text, rng)
    return b"".join(pick(rng, PIECES) for _ in range(int(rng.integers(1, 25))))


def make_text(rng: Random, whole: bool) -> tuple[bytes, Rows]:
    rows = random_rows(rng, whole)
    text = text_of(rng, rows)
    if whole or rng.random() < 0.15:  # odd rows are damage enough
        return text, rows
    return damage_text(rng, text, text_of(rng, random_rows(rng, False))), rows


def make(rng: Random, _: Wholes, whole: bool) -> Input:
    text, rows = make_text(rng, whole)
    options = data_files.use_options(rng, whole, rows, **read_options(rng, whole))
    return Input(text, pick(rng, SUFFIXES), options)


def make_compressed(rng: Random, _: Wholes, whole: bool) -> Input:
    text, rows = make_text(rng, whole or rng.random() < 0.5)
    packed = compress(rng, text, whole)
    options = data_files.use_options(rng, whole, rows, **read_options(rng, whole))
    suffix = ".gz" if whole or rng.random() < 0.9 else ".zst"
    return Input(packed, pick(rng, SUFFIXES) + suffix, options)


def compress(rng: Random, text: bytes, whole: bool) -> bytes:
    """Gzip: one part or several, whole or damaged, with what may follow, or a small file of a very long text."""
    at = below(rng, len(text))
    parts = [text[:at], text[at:]] if rng.random() < 0.3 else [text]
    packed = b"".join(gzip.compress(part, int(rng.integers(0, 10)), mtime=0) for part in parts)
    if whole:
        return packed
    draw = rng.random()
    if draw < 0.6:
        return damage_bytes(packed, rng, gzip.compress(text[::-1], 1, mtime=0))
    if draw < 0.7:
        return packed + pick(rng, [b"\0" * 100, b"garbage", b"\x1f\x8b", b"\x1f\x8b\x08\x00"])
    if draw < 0.8:
        long = 10**6 if draw < 0.79 else 3 * 10**7
        return gzip.compress(pick(rng, [b"\n", b" ", b"#", b"\n#"]) * long + text, 9, mtime=0)
    if draw < 0.85:
        return zlib.compress(text)
    if draw < 0.9:
        return gzip.compress(json.dumps([0] * 1000).encode() + text, 1, mtime=0)
    return packed


PLAIN = Target(make, data_files.use)
COMPRESSED = Target(make_compressed, data_files.use)
