"""Child processes of every kind fit and predict after their parent did, and get the same scores."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("process_pools.py")
NET = ["net"] if find_spec("torch") else []
TREES_AND_LINEAR = ["trees", "classes", "linear"]
# PyTorch is slow to load: once will do, in the child that has most of its parent
WAYS = {"spawn": TREES_AND_LINEAR, "joblib": TREES_AND_LINEAR}
if hasattr(os, "fork"):
    WAYS = {"os.fork": [*TREES_AND_LINEAR, *NET], "fork": TREES_AND_LINEAR, "forkserver": TREES_AND_LINEAR} | WAYS


@pytest.fixture(scope="module")
def lines() -> dict[str, list[float]]:
    """For each way the differences between the child's scores and its parent's; one parent for all."""
    environ = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    words = [f"{way}={','.join(names)}" for way, names in WAYS.items()]
    done = subprocess.run([sys.executable, "-W", "ignore", SCRIPT, *words], capture_output=True, text=True, env=environ)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)  # -14: a process hung
    return {way: [float(one) for one in found] for way, *found in map(str.split, done.stdout.splitlines())}


@pytest.mark.parametrize("way", WAYS)
def test_children_fit_and_predict_like_their_parent(way, lines):
    differences = dict(zip(WAYS[way], lines[way], strict=True))
    assert differences.pop("net", 0.0) < 1e-3  # PyTorch rounds differently with another number of threads
    assert set(differences.values()) == {0.0}
