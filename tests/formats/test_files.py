"""Files as such: which format, whether they can be read, and that writing is all or nothing."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gainful.data.dataset import RankingData
from gainful.errors import FormatError, UnknownNameError
from gainful.formats import FORMATS, read, write
from gainful.formats.files import atomic_write, refuse_unwritable

DATA = RankingData.from_rows(np.ones((2, 2)), [0, 1], [1, 1])


@pytest.mark.parametrize("suffix", [s for f in FORMATS.values() for s in f.suffixes] + [".TXT", ".svm.GZ", ".csv.zst"])
def test_every_suffix(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / ("data.v1" + suffix)
    write(DATA, path)
    assert np.array_equal(read(path).X, DATA.X)
    assert np.array_equal(read(str(path)).X, DATA.X)


@pytest.mark.parametrize("name", ["data", "data.xyz", "data.parquet.gz", "data.gz"])
def test_unknown_suffix(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("1 qid:1 1:2\n")
    with pytest.raises(FormatError, match=r"cannot infer the format: .*\.letor.*format=… with one of letor, parquet"):
        read(tmp_path / name)
    with pytest.raises(FormatError, match=r"cannot infer the format: the (suffix .* is unknown|file has no suffix)"):
        write(DATA, tmp_path / name)


def test_format_by_name(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("1 qid:1 1:2\n")
    assert read(tmp_path / "data", format="letor").X.tolist() == [[2.0]]
    with pytest.raises(UnknownNameError, match="no format 'leto'; did you mean 'letor'"):
        read(tmp_path / "data", format="leto")


def test_unknown_options(tmp_path: Path) -> None:
    write(DATA, tmp_path / "a.txt")
    with pytest.raises(UnknownNameError, match="'n_feature'; did you mean 'n_features'"):
        read(tmp_path / "a.txt", n_feature=3)
    with pytest.raises(UnknownNameError, match="'zero'; did you mean 'zeros'"):
        write(DATA, tmp_path / "b.txt", zero=True)
    with pytest.raises(UnknownNameError, match="kind"):
        read(tmp_path / "a.txt", format="csv", kind="parquet")
    with pytest.raises(TypeError, match="write needs a RankingData"):
        write(np.ones(3), tmp_path / "b.txt")  # type: ignore[arg-type]


def test_unreadable(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="there is no such file"):
        read(tmp_path / "none.txt")
    with pytest.raises(FormatError, match="is a folder"):
        read(tmp_path)
    with pytest.raises(FormatError, match="cannot be read"):
        read(tmp_path / "a\0.txt")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.txt")
        with pytest.raises(FormatError, match="is not a regular file"):
            read(tmp_path / "pipe.txt")
    for suffix in (".txt", ".parquet", ".csv", ".gnf", ".arrow", ".txt.gz"):
        (tmp_path / ("empty" + suffix)).touch()
        with pytest.raises(FormatError, match="the file is empty"):
            read(tmp_path / ("empty" + suffix))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write(DATA, path)
    path.chmod(0)
    with pytest.raises(FormatError, match="cannot be read: Permission denied"):
        read(path)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_nothing_is_left_of_a_failure(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail() -> None:
        with atomic_write(path) as file:
            file.write(b"new")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", [".txt", ".txt.gz", ".txt.zst", ".parquet", ".arrow", ".csv", ".csv.zst", ".gnf"])
def test_interrupted_writers_leave_nothing(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(DATA, tmp_path / ("a" + suffix))
    assert not list(tmp_path.iterdir())


def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FormatError, match="cannot be written: No space left on device"):
        write(DATA, tmp_path / "a.txt")
    assert not list(tmp_path.iterdir())


def test_where_files_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"the folder .*missing does not exist; create it first"):
        write(DATA, tmp_path / "missing" / "a.txt")
    (tmp_path / "folder.txt").mkdir()
    with pytest.raises(FormatError, match="is a folder"):
        write(DATA, tmp_path / "folder.txt")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.txt")
        with pytest.raises(FormatError, match="not a regular file"):
            write(DATA, tmp_path / "pipe.txt")


@pytest.mark.parametrize("refuse", [refuse_unwritable, lambda path: write(DATA, path)])
def test_a_file_in_a_working_folder_that_is_gone_is_named(tmp_path: Path, refuse, monkeypatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(FormatError, match=r"^scores\.txt: cannot be written, as the current folder is gone: "):
        refuse("scores.txt")


def test_permissions_and_links_are_kept(tmp_path: Path) -> None:
    path, link = tmp_path / "a.txt", tmp_path / "link.txt"
    path.touch()
    path.chmod(0o640)
    link.symlink_to(path)
    write(DATA, link)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert path.read_text().startswith("0 qid:1")


def test_importing_loads_neither_compiler_nor_arrow() -> None:
    code = "import sys, gainful.formats; sys.exit(any(m in sys.modules for m in ('numba', 'pyarrow')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
