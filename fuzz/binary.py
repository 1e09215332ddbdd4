"""gainful's binary format. Damage to the header comes with a correct checksum."""

from __future__ import annotations

import json
import struct
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import gainful
from fuzz import data_files
from fuzz.cases import Input, Random, Target, Wholes
from fuzz.damage import below, damage_bytes, damage_json, pick, write_integer
from fuzz.rows import Rows, random_rows
from gainful.formats.binary.writer import PREFIX

SIZES = {"X": 8, "data": 8, "indices32": 4, "query_id_text": 1, "doc_id_text": 1}


def file_of(rng: Random, rows: Rows) -> bytes:
    X: Any = rows.X.astype(np.float32) if rng.random() < 0.3 else rows.X
    X = sparse.csr_matrix(X) if rng.random() < 0.4 else X
    data = gainful.RankingData.from_rows(X, rows.y, rows.qid, doc_ids=rows.doc_ids, feature_names=rows.names)
    if rng.random() < 0.3:
        data = data.replace(query_weights=np.arange(1.0, data.n_queries + 1))
    with tempfile.TemporaryDirectory() as folder:
        gainful.write(data, Path(folder) / "whole.gnf")
        return (Path(folder) / "whole.gnf").read_bytes()


def make(rng: Random, _: Wholes, whole: bool) -> Input:
    rows = random_rows(rng, True)
    raw = file_of(rng, rows)
    if not whole:
        draw = rng.random()
        if draw < 0.35:
            raw = damage_header(rng, raw)
        elif draw < 0.75:
            raw = damage_array(rng, raw)
        else:
            raw = damage_bytes(raw, rng, file_of(rng, random_rows(rng, True)))
    options = data_files.use_options(rng, whole, rows, mmap=bool(rng.integers(2)))
    return Input(raw, ".gnf", options)


def damage_header(rng: Random, raw: bytes) -> bytes:
    text = header_of(raw)
    return with_header(raw, damage_json(text, rng) if rng.random() < 0.9 else damage_bytes(text, rng))


def header_of(raw: bytes) -> bytes:
    length = PREFIX.unpack(raw[: PREFIX.size])[2]
    return raw[PREFIX.size : PREFIX.size + length]


def with_header(raw: bytes, text: bytes) -> bytes:
    """The file with another header and its checksum; the arrays stay where they were, unless the header has grown."""
    magic, version, length, _, rest = PREFIX.unpack(raw[: PREFIX.size])
    text = text.ljust(length)
    head: bytes = PREFIX.pack(magic, version, len(text), zlib.crc32(text), rest)
    return head + text + raw[PREFIX.size + length :]


def without_checksums(raw: bytes) -> bytes:
    """The file as it was written before arrays had checksums."""
    header = json.loads(header_of(raw))
    if header["arrays"].pop("checksums", None) is None:
        return raw
    return with_header(raw, json.dumps(header).encode())


def damage_array(rng: Random, raw: bytes) -> bytes:
    """Overwrite some values of one array, or copy one of its values over another."""
    raw = without_checksums(raw)
    text = header_of(raw)
    header = json.loads(text)
    name = pick(rng, sorted(header["arrays"]))
    place = header["arrays"][name]
    size = SIZES.get(name, 8) // (2 if name in ("X", "data") and header["dtype"] == "float32" else 1)
    out, start = bytearray(raw), PREFIX.size + len(text) + place["at"]
    for _ in range(int(rng.integers(1, 3))):
        at = start + size * below(rng, place["size"])
        kind = int(rng.integers(4))
        if kind == 0:
            other = start + size * below(rng, place["size"])
            out[at : at + size] = out[other : other + size]
        elif kind == 1 and size == 8:
            out[at : at + 8] = struct.pack("<d", pick(rng, [np.nan, np.inf, -np.inf, -1.0, 1e308, 5e-324]))
        elif kind == 2:
            write_integer(rng, out, at, size, int(rng.integers(-3, 30)))
        else:
            write_integer(rng, out, at, size)
    return bytes(out)


TARGET = Target(make, data_files.use)
