"""What every file format must keep: damaged and special files give one clear error, never a crash or another exception.

The samples are short and the same in every run; ``benchmarks/fuzz_files.py`` tries many more.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import numpy as np
import pytest

from gainful.data.dataset import RankingData
from gainful.errors import FormatError, GainfulError
from gainful.formats import FORMATS, known_suffixes, read, write
from gainful.formats.convert import open_source

pytestmark = pytest.mark.filterwarnings("ignore::gainful.DataWarning")  # damage may make a column look like ids
N_FLIPS = 60
PACKED = [suffix for suffix in known_suffixes() if suffix.endswith((".gz", ".zst"))]
CASES = [(name, chosen.suffixes[0]) for name, chosen in FORMATS.items()]
CASES += [(f"{name}, packed", s) for name, f in FORMATS.items() for s in PACKED if s.startswith(f.suffixes[0] + ".")]


def small_data() -> RankingData:
    rng = np.random.default_rng(5)
    return RankingData.from_rows(
        rng.normal(size=(12, 3)),
        rng.integers(0, 3, 12),
        [f"query {i // 4}".replace(" ", "-") for i in range(12)],
        doc_ids=[f"d{i}" for i in range(12)],
        feature_names=["bm25", "clicks", "age"],
    )


def read_or_refuse(path: Path) -> bool:
    """Whether the file was read; otherwise it was refused in one line that names it."""
    refused, data = "", None
    try:
        data = read(path, max_bytes="100MB")
    except GainfulError as error:
        refused = str(error)
    if data is None:
        assert str(path) in refused
        assert "\n" not in refused
        return False
    assert np.isfinite(data.y).all()
    assert not np.isinf(data.X @ np.zeros(data.n_features)).any()
    assert len(set(data.query_ids.tolist())) == data.n_queries
    return True


@pytest.fixture
def whole(tmp_path: Path, suffix: str) -> bytes:
    write(small_data(), tmp_path / f"a{suffix}")
    return (tmp_path / f"a{suffix}").read_bytes()


@pytest.mark.parametrize(("name", "suffix"), CASES)
def test_cut_files(tmp_path: Path, name: str, suffix: str, whole: bytes) -> None:
    path = tmp_path / f"b{suffix}"
    text = any(suffix in FORMATS[plain].suffixes for plain in ("letor", "csv", "tsv", "jsonl"))
    for size in np.linspace(1, len(whole) - 1, 40).astype(int).tolist():
        path.write_bytes(whole[:size])
        assert not read_or_refuse(path) or text, "only plain text may be cut and still be a file"


@pytest.mark.parametrize(("name", "suffix"), CASES)
def test_flipped_bits(tmp_path: Path, name: str, suffix: str, whole: bytes) -> None:
    path = tmp_path / f"b{suffix}"
    rng = np.random.default_rng(7)
    for at, bit in zip(
        rng.integers(0, len(whole), N_FLIPS).tolist(), rng.integers(0, 8, N_FLIPS).tolist(), strict=True
    ):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << bit
        path.write_bytes(damaged)
        read_or_refuse(path)


@pytest.mark.parametrize(("name", "suffix"), CASES)
def test_other_content(tmp_path: Path, name: str, suffix: str) -> None:
    path = tmp_path / f"b{suffix}"
    for content in (b"\0" * 1000, b"\xff\xfe" * 500, bytes(range(256)) * 8, b"{}" * 99, b"PAR1" * 99, b"\n"):
        path.write_bytes(content)
        assert not read_or_refuse(path)


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder", "link to a pipe"])
@pytest.mark.parametrize(("name", "suffix"), CASES)
def test_special_files(tmp_path: Path, name: str, suffix: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    path = Path(f"s{suffix}")
    server = socket.socket(socket.AF_UNIX)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        server.bind(str(path))
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo("pipe")
        path.symlink_to("pipe")
    with server:
        with pytest.raises(FormatError, match=r"is a folder; give a file|is not a regular file; pipes and devices"):
            read(path)
        with pytest.raises(FormatError):
            open_source(path)
