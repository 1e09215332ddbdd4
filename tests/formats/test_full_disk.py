"""A disk that is full: one line that names the file, nothing half-written, and the old file as it was."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from contextlib import contextmanager

import pytest

import gainful
from gainful.errors import GainfulError
from gainful.formats.convert import convert
from gainful.training.checkpoint import Checkpoint, CheckpointWarning
from gainful.tuning.store import Store

resource = pytest.importorskip("resource")

LIMIT = 2000  # bytes per file; less than any file here


@contextmanager
def full_disk():
    """Writing more than ``LIMIT`` bytes to a file fails, as on a full disk."""
    before, writes_none = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # up to 3.13.0, Python keeps the first bytes of bytecode that finds no room
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = writes_none


@pytest.fixture(scope="module")
def data():
    return gainful.make_artificial(40, n_docs=20, n_features=10, seed=5)


@pytest.fixture(scope="module")
def model(data):
    return gainful.LambdaMART(n_trees=20, n_leaves=8, n_jobs=1).fit(data)


def assert_refused(work, path):
    """``work`` fails with a line that names ``path``, and leaves the folder as it was."""
    path.write_bytes(b"old")
    before = {one: one.is_file() and one.read_bytes() for one in path.parent.rglob("*")}
    with full_disk(), pytest.raises(GainfulError) as caught:
        work(path)
    assert str(path) in str(caught.value)
    assert ".gainful-" not in str(caught.value)
    assert "cannot be written" in str(caught.value)
    assert {one: one.is_file() and one.read_bytes() for one in path.parent.rglob("*")} == before


@pytest.mark.parametrize("name", ["d.txt", "d.txt.gz", "d.txt.zst", "d.gnf", "d.csv", "d.parquet", "d.arrow"])
def test_data_files(data, tmp_path, name):
    assert_refused(lambda path: gainful.write(data, path), tmp_path / name)


@pytest.mark.parametrize("name", ["new.gnf", "new.parquet", "new.csv"])
def test_conversions(data, tmp_path, name):
    gainful.write(data, tmp_path / "d.txt")
    assert_refused(lambda path: convert(tmp_path / "d.txt", path), tmp_path / name)


@pytest.mark.parametrize("to", ["binary", "parquet"])
def test_shards(data, tmp_path, to):
    gainful.write(data, tmp_path / "d.txt")
    with full_disk(), pytest.raises(GainfulError, match="cannot be written") as caught:
        convert(tmp_path / "d.txt", tmp_path / "shards", to=to, shard_rows=300)
    assert str(tmp_path / "shards") in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["d.txt"]


def test_models(model, tmp_path):
    assert_refused(lambda path: gainful.save(model, path), tmp_path / "m.gainful")


@pytest.mark.parametrize("to", ["elasticsearch", "solr", "json"])
def test_exports(model, tmp_path, to):
    assert_refused(lambda path: gainful.export(model, path, to=to), tmp_path / "new")


def test_checkpoints(tmp_path):
    path = tmp_path / "c.ckpt"
    checkpoint = Checkpoint(path)
    checkpoint.open({"class": "A"})
    checkpoint.save({"n": 1})
    old = path.read_bytes()
    with full_disk(), pytest.warns(CheckpointWarning, match=r"c\.ckpt: cannot be written"):
        checkpoint.save({"text": "".join(map(str, range(5000)))})
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


def test_stores(tmp_path):
    path = tmp_path / "a.jsonl"
    with Store(path, {"seed": 0}) as store:
        store.append({"trial": 0})
        with full_disk(), pytest.raises(GainfulError, match=r"a\.jsonl: cannot be written"):
            store.append({"trial": 1, "text": "x" * LIMIT})
        assert path.read_bytes().endswith(b"}\n")
        store.append({"trial": 2})
    with Store(path, {"seed": 0}) as store:
        assert store.rows == [{"trial": 0}, {"trial": 2}]


def test_reports(data, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = gainful.compare("regression", data)
    with full_disk(), pytest.raises(GainfulError, match="cannot be written") as caught:
        found.to_report(tmp_path / "report")
    assert str(tmp_path / "report") in str(caught.value)
    assert not any((tmp_path / "report").iterdir())


def test_kernels_are_used_though_they_cannot_be_kept(tmp_path):
    code = (
        f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({LIMIT}, {LIMIT}))\n"
        "import gainful; print(gainful.metric('ndcg@10')([3, 2, 1], [1, 0, 0], qid=[1, 1, 1]))"
    )
    environ = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True, env=environ)
    assert (done.returncode, done.stdout) == (0, "1.0\n"), done.stderr
