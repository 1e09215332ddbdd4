"""A stopped command says so, exits with the code of the signal, and leaves no files behind."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

import gainful
from gainful.cli import run

SCRIPT = """
import os, signal, sys
from gainful.cli import run
from gainful.formats.binary.reader import Writer
inner = Writer.append
def append(self, *given, **how):
    inner(self, *given, **how)
    os.kill(os.getpid(), int(sys.argv[1]))
Writer.append = append
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(run(sys.argv[2:]))
"""


@pytest.mark.parametrize("more", [["new.gnf"], ["shards", "--shard-rows", "20"], ["new.parquet"]])
@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_conversion(more, how, code, tmp_path):
    gainful.write(gainful.make_artificial(9, n_docs=5, n_features=3), tmp_path / "d.txt")
    words = [str(int(how)), "data", "convert", "d.txt", *more]
    done = subprocess.run([sys.executable, "-c", SCRIPT, *words], cwd=tmp_path, capture_output=True, timeout=100)
    assert done.returncode == code, done.stderr
    assert done.stderr.decode().splitlines()[-1] == "gainful: interrupted"
    assert [path.name for path in tmp_path.iterdir()] == ["d.txt"]


def test_handlers_are_left_as_they_were():
    assert run(["--version"]) == 0
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL

    def own(*_):
        pass

    signal.signal(signal.SIGTERM, own)
    try:
        assert run(["--version"]) == 0
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
