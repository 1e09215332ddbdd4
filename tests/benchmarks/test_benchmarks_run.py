"""The scripts of benchmarks/ stay runnable: at a size that says nothing about speed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize("path", sorted(HOME.glob("bench_*.py")), ids=lambda p: p.stem)
def test_every_benchmark_can_be_imported_and_has_rows(path):
    code = f"import sys; sys.path.insert(0, {str(HOME)!r}); import {path.stem} as b; assert callable(b.rows)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_margin_experiment_runs():
    script = HOME / "experiment_margins.py"
    done = subprocess.run([sys.executable, script, "--queries", "40"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "structured-svm-tight" in done.stdout
