"""What macOS asks of gainful beyond the tests of all systems. Run with ``pytest --rules macos``, or on macOS."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import gainful
from gainful.cli import run
from gainful.compute.memory import PeakGrowth, available_memory
from gainful.compute.threads import allowed_cores

DATA = gainful.make_artificial(300, n_docs=2, n_features=3, seed=2)


def test_the_rules_are_those_of_macos():
    assert not hasattr(os, "sched_getaffinity")
    assert not os.path.exists("/proc/self/status")
    script = (
        "import os, resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], hasattr(os, 'sched_getaffinity'))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["256", "False"], "children are bound as well"


def test_memory_and_cores_are_what_the_system_tells():
    with PeakGrowth() as growth:
        pass
    assert growth.bytes is None
    assert available_memory() is None
    assert allowed_cores() == os.cpu_count()


def test_more_shards_than_files_may_be_open(tmp_path, capsys):
    gainful.write(DATA, tmp_path / "d.gnf")
    assert run(["data", "convert", str(tmp_path / "d.gnf"), str(tmp_path / "shards"), "--shard-rows", "2"]) == 0
    assert len(os.listdir(tmp_path / "shards")) == 300
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 256
    assert run(["train", "regression", str(tmp_path / "shards"), "-o", str(tmp_path / "m.gainful")]) == 0
    assert gainful.load(tmp_path / "m.gainful").n_features_in_ == 3
