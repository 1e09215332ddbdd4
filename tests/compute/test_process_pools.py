"""Child processes of every kind fit and predict after their parent did, and get the same scores."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("process_pools.py")
NAMES = ["trees", "classes", "linear"] + (["net"] if find_spec("torch") else [])
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
WAYS = [pytest.param(way, marks=forks) for way in ("os.fork", "fork", "forkserver")] + ["spawn", "joblib"]


@pytest.mark.parametrize("way", WAYS)
def test_children_fit_and_predict_like_their_parent(way):
    environ = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    names = (
        NAMES if way in ("os.fork", "spawn") else NAMES[:3]
    )  # PyTorch is slow to load, and once of each kind will do
    done = subprocess.run(
        [sys.executable, "-W", "ignore", SCRIPT, way, *names], capture_output=True, text=True, env=environ
    )
    assert done.returncode == 0, (done.returncode, done.stderr)  # -14: a process hung
    differences = dict(zip(names, map(float, done.stdout.split()), strict=True))
    assert differences.pop("net", 0.0) < 1e-3  # PyTorch rounds differently with another number of threads
    assert set(differences.values()) == {0.0}
