"""The scripts of benchmarks/ stay runnable: at a size that says nothing about speed.

``make test`` imports all of them and runs the quick ones; ``make test-slow`` runs the others, too.
"""

from __future__ import annotations

import importlib
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


def test_error_rates_are_counted_and_kept(tmp_path, capsys, monkeypatch):
    """A stopped run goes on where it was; skewed differences are wrong more often, and warned about."""
    monkeypatch.syspath_prepend(HOME)
    rates = importlib.import_module("error_rates")
    monkeypatch.setattr(rates, "SUSPECT", 1.0)
    results, page = tmp_path / "found.json", tmp_path / "page.md"
    how = ["--kinds", "t;interval of a 0/1 difference", "--sizes", "10", "--results", str(results), "--page", str(page)]
    for repetitions in (200, 400):
        monkeypatch.setattr(sys, "argv", ["error_rates.py", *how, "--repetitions", str(repetitions)])
        rates.main()
    found = json.loads(results.read_text())
    normal, skewed = found["t | normal | 10"], found["t | very skewed | 10"]
    assert normal["wrong"] < 0.09 < skewed["wrong"]
    assert skewed["warned"] == 1.0
    assert skewed["unwarned"] == 0.0
    assert abs(normal["power"] - 0.8) < 0.08
    assert "✗ /" not in page.read_text()
    assert "° ⚠ / 1.000" in page.read_text()
    kinds = {kind.name: kind for kind in rates.KINDS}
    assert rates.verdict(kinds["t"], skewed) == "warned"
    assert rates.verdict(kinds["t"], skewed | {"unwarned": skewed["wrong"]}) == "WRONG"
    monkeypatch.setattr(rates, "KINDS", ())  # nothing to measure
    known = dict(found)
    rates.main()
    assert json.loads(results.read_text()) == known
