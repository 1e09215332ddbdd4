"""What Windows asks of gainful beyond the tests of all systems. Run with ``pytest --rules windows``, or on Windows."""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import stat
import subprocess
import sys

import numpy as np
import pytest

import gainful
from gainful.compute.memory import PeakGrowth
from gainful.errors import FormatError, ParameterError
from gainful.formats.convert import convert, iter_blocks
from gainful.serve import Settings
from gainful.serve.interleaving import ImpressionLog
from gainful.serve.run import _listen
from gainful.tuning.store import Store, file_name

DATA = gainful.make_artificial(40, n_docs=8, n_features=5, seed=2)
MERGE = {"merge": True}


def names(folder):
    return sorted(os.listdir(folder))


@pytest.fixture
def ungrouped(tmp_path):
    """A file whose queries are not adjacent: it is read by way of a binary one."""
    rows = np.arange(DATA.n_rows).reshape(40, 8).T.reshape(-1)
    lines = [
        f"{DATA.y[i]:g} qid:{DATA.qid[i]} " + " ".join(f"{j + 1}:{v:.9g}" for j, v in enumerate(DATA.X[i]))
        for i in rows
    ]
    path = tmp_path / "ungrouped.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_rules_are_those_of_windows(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"a")
    with open(path, "rb"):
        for forbidden in (os.unlink, lambda p: os.replace(p, tmp_path / "b"), lambda p: os.replace(tmp_path, "moved")):
            with pytest.raises(PermissionError):
                forbidden(path)
    assert (tmp_path / "A").exists()
    assert not any(hasattr(os, name) for name in ("fork", "geteuid", "sched_getaffinity"))
    assert not os.path.exists("/proc/self/status")
    with pytest.raises(TypeError):
        ctypes.CDLL(None)
    with pytest.raises(ImportError):
        importlib.import_module("fcntl")
    script = "import os, sys; print(sys.stdout.encoding, hasattr(os, 'fork'), 'HOME' in os.environ)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["cp1252", "False", "False"], "children are bound as well"


def test_growth_is_measured_or_unknown():
    with PeakGrowth() as growth:
        pass
    assert growth.bytes is None


# -- files that are open or mapped -------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", ["binary", "parquet", "letor"])
def test_shards_go_to_a_new_or_an_empty_folder(ungrouped, tmp_path, to):
    (tmp_path / "empty").mkdir()
    before = names(tmp_path)
    for target in (tmp_path / "new", tmp_path / "empty"):
        done = convert(ungrouped, target, to=to, shard_rows=100, read_options=MERGE)
        assert names(target) == [path.name for path in done.paths]
        assert len(done.paths) > 1
    assert names(tmp_path) == sorted([*before, "new"])


@pytest.mark.parametrize("target", ["a.parquet", "a.gnf", "a.txt", "a.csv"])
def test_a_conversion_leaves_nothing_but_its_target(ungrouped, tmp_path, target):
    before = names(tmp_path)
    convert(ungrouped, tmp_path / target, read_options=MERGE)
    assert names(tmp_path) == sorted([*before, target])


@pytest.mark.parametrize("rows", [100, 1_000_000])
def test_reading_in_blocks_leaves_nothing_behind(ungrouped, tmp_path, monkeypatch, rows):
    """Also while the blocks are in use."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    blocks = list(iter_blocks(ungrouped, rows=rows, **MERGE))
    assert sum(block.n_rows for block in blocks) == DATA.n_rows
    assert names(tmp_path / "temporary") == []


def test_a_file_that_data_was_read_from_is_not_replaced(tmp_path):
    path = tmp_path / "a.gnf"
    gainful.write(DATA, path)
    before, data = path.read_bytes(), gainful.read(path)
    with pytest.raises(FormatError, match=r"a\.gnf: cannot be replaced: .*write to another name"):
        gainful.write(data, path)
    assert names(tmp_path) == ["a.gnf"]
    assert path.read_bytes() == before


def test_a_read_only_file_is_refused_before_the_work(tmp_path):
    path = tmp_path / "m.gainful"
    path.write_bytes(b"old")
    path.chmod(stat.S_IREAD)
    with pytest.raises(FormatError, match=r"m\.gainful: is read-only"):
        gainful.save(gainful.RegressionRanker().fit(DATA), path)
    assert names(tmp_path) == ["m.gainful"]


# -- names, text, sockets ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [("Ridge", "ridge"), ("con", "CON"), ("nul", "lpt1"), ("a:b", "a?b"), ("é", "É")])
def test_every_label_has_a_store_of_its_own(tmp_path, labels):
    for label in labels:
        with Store(tmp_path / file_name(label, "fold-1"), {"ranker": label}) as store:
            store.append({"label": label})
    for label in labels:
        with Store(tmp_path / file_name(label, "fold-1"), {"ranker": label}) as store:
            assert [row["label"] for row in store.rows] == [label]


def test_impressions_have_the_same_bytes_everywhere(tmp_path):
    log = ImpressionLog(tmp_path / "log")
    assert log.append(["one\n", "two\n"])
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"


def test_two_servers_do_not_share_a_port():
    first = _listen(Settings(port=0))
    with first:
        first.listen()
        with pytest.raises(ParameterError, match="cannot listen on"):
            _listen(Settings(port=first.getsockname()[1])).close()


def test_signs_keep_their_meaning_in_a_pipe(tmp_path):
    gainful.write(DATA, tmp_path / "d.csv.gz")
    command = [sys.executable, "-m", "gainful", "compare", "d.csv.gz", "--rankers", "regression,feature:1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "?" not in done.stdout + done.stderr
    assert "<=" in done.stdout or ">=" in done.stdout or "-0" in done.stdout


def test_the_server_starts_and_answers(tmp_path):
    import urllib.request

    gainful.save(gainful.RegressionRanker().fit(DATA), tmp_path / "m.gainful")
    command = [sys.executable, "-m", "gainful", "serve", "m.gainful", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as server:
        try:
            events = iter(lambda: json.loads(server.stderr.readline()), None)
            url = next(event["url"] for event in events if event["event"] == "listening")
            body = json.dumps({"rows": DATA.X[:3].tolist()}).encode()
            request = urllib.request.Request(f"{url}score", body, {"content-type": "application/json"})
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert len(json.load(answer)["scores"]) == 3
        finally:
            server.terminate()
