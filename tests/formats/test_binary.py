"""The binary format: mapped, checked, and never trusted further than its checks."""

from __future__ import annotations

import json
import mmap
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from gainful.data.dataset import RankingData
from gainful.errors import FormatError, ParameterError
from gainful.formats import read, write
from gainful.formats.binary.reader import MAGIC, PREFIX


def some_data(kind: str = "dense") -> RankingData:
    rng = np.random.default_rng(0)
    X = rng.random((40, 7)) * (rng.random((40, 7)) < 0.5)
    return RankingData.from_rows(
        sparse.csr_matrix(X) if kind == "sparse" else X,
        rng.integers(0, 3, 40),
        [f"q{i // 4}" for i in range(40)],
        doc_ids=[f"d{i}" for i in range(40)],
        feature_names=[f"x{j}" for j in range(7)],
        sample_weight=np.repeat(rng.random(10) + 1, 4),
    )


def root_of(array: Any) -> Any:
    """The object that owns the memory of an array."""
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return array.obj if isinstance(array, memoryview) else array


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_values_are_mapped(tmp_path: Path, kind: str) -> None:
    write(some_data(kind), tmp_path / "a.gnf")
    data = read(tmp_path / "a.gnf")
    values = data.X.data if kind == "sparse" else data.X
    assert isinstance(root_of(values), mmap.mmap)
    assert values.ctypes.data % 64 == 0
    assert not values.flags.writeable
    assert kind == "sparse" or np.shares_memory(values, data[2:4].X)
    in_memory = read(tmp_path / "a.gnf", mmap=False)
    assert not isinstance(root_of(in_memory.X.data if kind == "sparse" else in_memory.X), mmap.mmap)
    assert in_memory.equals(data)
    assert (data.X @ np.ones(7)).shape == (40,)


def test_option(tmp_path: Path) -> None:
    write(some_data(), tmp_path / "a.gnf")
    with pytest.raises(ParameterError, match="mmap of read must be True or False"):
        read(tmp_path / "a.gnf", mmap=1)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_every_cut_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.gnf"
    write(some_data(kind), path)
    whole = path.read_bytes()
    for size in [*range(1, 200), *range(200, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(FormatError, match=r"cut short|not a gainful binary"):
            read(path)


def test_every_flipped_bit_of_the_header_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.gnf"
    write(some_data(), path)
    whole = path.read_bytes()
    length = PREFIX.unpack(whole[: PREFIX.size])[2]
    for at in range(PREFIX.size + length):
        for bit in (0, 6):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << bit
            path.write_bytes(damaged)
            with pytest.raises(FormatError):
                read(path)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_flipped_bytes_anywhere_never_crash(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.gnf"
    write(some_data(kind), path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for at in rng.integers(0, len(whole), 400):
        damaged = bytearray(whole)
        damaged[at] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        try:
            data = read(path)
        except FormatError:
            continue
        assert (data.X @ np.ones(7)).shape == (40,)
        assert len(data.qid) == 40


def forged(path: Path, change: Any) -> None:
    """Rewrite the header, with a checksum that fits."""
    raw = path.read_bytes()
    length = PREFIX.unpack(raw[: PREFIX.size])[2]
    header = json.loads(raw[PREFIX.size : PREFIX.size + length])
    result = change(header)
    text = json.dumps(header if result is None else result).encode()
    text += b" " * (-(PREFIX.size + len(text)) % 64)
    path.write_bytes(PREFIX.pack(MAGIC, 1, len(text), zlib.crc32(text), 0) + text + raw[PREFIX.size + length :])


HOSTILE = [
    lambda h: h.update(n_rows=10**15),
    lambda h: h.update(n_rows=-1),
    lambda h: h.update(n_rows=0),
    lambda h: h.update(n_rows=1.5),
    lambda h: h.update(n_rows=True),
    lambda h: h.update(n_rows=2**70),
    lambda h: h.update(n_features=10**12),
    lambda h: h.update(n_queries=10**12),
    lambda h: h.update(n_values=10**12),
    lambda h: h.update(n_values="x"),
    lambda h: h.update(dtype="object"),
    lambda h: h.update(dtype=["f8"]),
    lambda h: h.update(arrays=[]),
    lambda h: h.update(bytes=10**15),
    lambda h: h.update(feature_names=["a"]),
    lambda h: h.update(feature_names=["a"] * 7),
    lambda h: h.update(feature_names=3),
    lambda h: h["arrays"].pop("y"),
    lambda h: h["arrays"].pop("query_id_ends") and None,
    lambda h: h["arrays"].pop("query_id_text") and None,
    lambda h: h["arrays"]["y"].update(at=1),
    lambda h: h["arrays"]["y"].update(at=-64),
    lambda h: h["arrays"]["y"].update(at=64 * 10**12),
    lambda h: h["arrays"]["y"].update(size=10**12),
    lambda h: h["arrays"]["query_id_text"].update(size=10**12),
    lambda h: h["arrays"].update(y=5),
    lambda h: h["arrays"].update(query_ids={"at": 0, "size": 3}),
    lambda h: [h],
    lambda h: "text",
]


@pytest.mark.parametrize("number", range(len(HOSTILE)))
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_hostile_headers(tmp_path: Path, number: int, kind: str) -> None:
    path = tmp_path / "a.gnf"
    write(some_data(kind), path)

    def change(header: Any) -> Any:
        result = HOSTILE[number](header)
        return result if isinstance(result, (list, str)) else None

    forged(path, change)
    with pytest.raises(FormatError) as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_other_files_and_versions(tmp_path: Path) -> None:
    path = tmp_path / "a.gnf"
    path.write_bytes(b"1 qid:1 1:2\n" * 10)
    with pytest.raises(FormatError, match="is not a gainful binary file"):
        read(path)
    path.write_bytes(struct.pack("<8sIIII", MAGIC, 2, 0, 0, 0) + b" " * 100)
    with pytest.raises(FormatError, match="has version 2 of the format; this gainful reads version 1"):
        read(path)


def test_infinite_values_are_found_when_read_into_memory(tmp_path: Path) -> None:
    data = some_data()
    X = data.X.copy()
    X[3, 4] = np.inf
    write(data.replace(X=X), tmp_path / "a.gnf")
    with pytest.raises(FormatError, match="the file is damaged: feature 5 of row 3 is infinite"):
        read(tmp_path / "a.gnf", mmap=False)


def test_no_features(tmp_path: Path) -> None:
    data = RankingData.from_rows(np.empty((2, 0)), [0, 1], [1, 1])
    write(data, tmp_path / "a.gnf")
    assert read(tmp_path / "a.gnf").X.shape == (2, 0)
