"""Temporary files: those of processes that were killed are removed, those of living ones stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

import gainful
from gainful.formats.files import atomic_write
from gainful.formats.temporary import new_folder

pytest.importorskip("fcntl")

KILLED = """
import os, pathlib, signal, sys
from gainful.formats.files import atomic_write
from gainful.formats.temporary import new_folder
with new_folder(pathlib.Path(".")) as folder, atomic_write(folder / "inside") as inside, atomic_write("a") as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_next_write_removes_what_a_killed_process_left(tmp_path):
    (tmp_path / ".gainful-mine.tmp").write_text("not one of ours")
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path)
    assert done.returncode == -signal.SIGKILL
    assert len(names(tmp_path)) == 3
    gainful.write(gainful.make_artificial(2, n_docs=3, n_features=2), tmp_path / "d.txt")
    assert names(tmp_path) == [".gainful-mine.tmp", "d.txt"]


def test_files_being_written_stay(tmp_path):
    with atomic_write(tmp_path / "a") as first, new_folder(tmp_path) as folder:
        first.write(b"a")
        with atomic_write(tmp_path / "b") as second:
            second.write(b"b")
        assert folder.is_dir()
        with new_folder(tmp_path) as other:
            os.replace(other, tmp_path / "c")
    assert names(tmp_path) == ["a", "b", "c"]
    assert (tmp_path / "a").read_bytes() == b"a"
