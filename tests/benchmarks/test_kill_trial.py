"""``benchmarks/kill_trial.py`` stays runnable, and notices what it looks for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from slow_scripts import slow

pytestmark = [slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")]

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kill_trial.py"
# A writer that writes straight to its file, as one must not: kills leave half files.
CARELESS = """
import contextlib, runpy, sys, time
import gainful.formats.binary.writer as writer
@contextlib.contextmanager
def open_at_once(path):
    with open(path, "w+b", buffering=0) as file:
        file.write(b"half")
        time.sleep(1.5)
        file.seek(0)
        yield file
writer.atomic_write = open_at_once
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def trial(*start: str) -> subprocess.CompletedProcess[str]:
    words = ["--kills", "2", "--only", "convert (file)"]
    return subprocess.run([sys.executable, *start, SCRIPT, *words], capture_output=True, text=True)


def test_two_kills():
    done = trial()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 failures" in done.stdout


def test_half_files_are_noticed():
    done = trial("-c", CARELESS)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "new.gnf is neither old nor new" in done.stdout
