"""The scripts of benchmarks/ stay runnable: at a size that says nothing about speed.

``make test`` imports all of them and runs the quick ones; ``make test-slow`` runs the others, too.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from slow_scripts import SLOW, slow

HOME = Path(__file__).parents[2] / "benchmarks"
FILES = sorted(path.stem for path in HOME.glob("*_*.py"))
QUICK = {"bench_linear", "bench_metrics", "bench_rsrank", "bench_tuning"}
# Imported, never run: they keep all cores busy, start servers or clusters, or need the size of their data.
IMPORTED = {
    *("bench_busy", "bench_cluster", "bench_cluster_trees", "bench_serve"),
    *("bench_binning", "bench_list_net", "bench_nets", "bench_out_of_core", "bench_reading", "bench_trees"),
    *(name for name in FILES if not name.startswith("bench_")),  # experiments, parts of benchmarks
}
if not SLOW:
    IMPORTED |= {*FILES} - QUICK

# All in one process, for the sake of what they import. Data are small, and everything is measured once.
CHILD = """
import importlib, json, sys, time, warnings
sys.path.insert(0, sys.argv[1])
import gainful, harness

def small(n_queries, *more, n_docs=20, make=gainful.make_artificial, **settings):
    return make(min(n_queries, 40), *more, n_docs=min(n_docs, 12), **settings)

def once(call, repeat=1):
    began = time.perf_counter()
    call()
    return time.perf_counter() - began

gainful.make_artificial, harness.best_time, harness.peak_memory = small, once, lambda setup, body: 1.0
warnings.simplefilter("ignore")
files, imported = sys.argv[2].split(), sys.argv[3].split()
sys.argv[1:] = []
for name in files:
    try:
        module = importlib.import_module(name)
        rows = module.rows if name.startswith("bench_") else None
        found = "" if name in imported else next(iter(rows())).to_dict()
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    print(json.dumps([name, found]), flush=True)
"""


@pytest.fixture(scope="module")
def first_rows():
    command = [sys.executable, "-c", CHILD, str(HOME), " ".join(FILES), " ".join(IMPORTED)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", FILES)
def test_every_benchmark_measures(name, first_rows):
    found = first_rows[name]
    if name in IMPORTED:
        assert found == ""
        return
    assert isinstance(found, dict), found
    assert found["subject"]
    assert math.isfinite(found["ours"])
    assert math.isfinite(found["theirs"])


@slow
def test_the_margin_experiment_runs():
    script = HOME / "experiment_margins.py"
    done = subprocess.run([sys.executable, script, "--queries", "15"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "structured-svm-tight" in done.stdout


@slow
def test_the_experiment_on_statistics_runs(tmp_path):
    """Exact intervals hold in every population of 0/1 values; Wilcoxon's test errs where differences are skewed."""
    command = [sys.executable, str(HOME / "experiment_statistics.py"), "--samples", "300", "--queries", "5,50"]
    done = subprocess.run([*command, "--json", str(tmp_path / "found.json")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "| mean of | interval | n = 5 | n = 50 |" in done.stdout
    found = json.loads((tmp_path / "found.json").read_text())
    for name, rows in found["means"].items():
        held = {(row["interval"], row["queries"]): row["held"] for row in rows}
        assert held["printed", 5] >= held["widened percentile", 5] - 0.01
        if name.startswith("0/1"):
            assert min(held["printed", 5], held["printed", 50]) >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / 300)
    alarms = {(row["test"], row["queries"]): row["alarms"] for row in found["tests"]["NDCG-like, skewed"]}
    assert alarms["wilcoxon", 50] > 0.1 > alarms["randomization", 50]
