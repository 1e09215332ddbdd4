"""From an empty kernel cache to the first result: processor seconds of a fresh process, imports and compiling included.

One process per ranker (fit with validation data and early stopping, predict, NDCG@10), one for NDCG@10 alone, one
for ``gainful evaluate`` on LETOR text, each beside its limit. Machines differ, so each row also gives
its multiple of the yardstick: importing scikit-learn and numba and compiling one loop over an array.

Processor time grows when another process shares the core, so each figure is the least of ``--runs``. What is installed
counts too: LightGBM imports Dask where it is there, which takes about 2 s. Measure in an environment of ``pip install
gainful`` to know what a new user waits for.

``python benchmarks/bench_cold.py [--rankers NAME,NAME] [--only rankers|others] [--runs N]``; the table goes to stderr.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import gainful
from gainful.rankers.model_file import save
from harness import Row, main

RANKER_LIMIT, METRIC_LIMIT = 5.0, 2.0
YARDSTICK = """
import numpy as np, sklearn.base
from numba import njit

@njit
def total(x):
    s = 0.0
    for i in range(len(x)):
        s += x[i]
    return s

total(np.ones(3))
"""
DATA = """
import numpy as np, gainful, warnings
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X, qid = rng.normal(size=(600, 6)), np.repeat(np.arange(30), 20)
y = np.clip(np.round(X[:, 0] + 1 + 0.3 * rng.normal(size=600)), 0, 4)
"""
METRIC = DATA + 'gainful.metric("ndcg@10")(X[:, 0], y, qid=qid)\n'
FIT = """
model = gainful.ranker({name!r}).fit(X, y, qid=qid, eval_set=(X, y, qid))
gainful.metric("ndcg@10")(model.predict(X), y, qid=qid)
"""


def processor_seconds(*command: str) -> float:
    """User and system time of a fresh Python process and its children, from an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"{command} failed:\n{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def write_files(folder: str) -> tuple[str, str]:
    """A model and LETOR text to evaluate it on."""
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(600, 6)), np.repeat(np.arange(30), 20)
    y = np.clip(np.round(X[:, 0] + 1.0), 0, 4)
    model, text = Path(folder, "model.gainful"), Path(folder, "rows.txt")
    save(gainful.ranker("regression").fit(X, y, qid=qid), model)
    lines = (
        f"{grade:g} qid:{query} " + " ".join(f"{j}:{value:.4f}" for j, value in enumerate(row, 1))
        for grade, query, row in zip(y, qid, X, strict=True)
    )
    text.write_text("\n".join(lines) + "\n")
    return str(model), str(text)


def rows() -> Iterator[Row]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rankers", help="comma-separated names; default: all")
    parser.add_argument("--only", choices=("rankers", "others"), help="measure only this part")
    parser.add_argument("--runs", type=int, default=1, help="processes per row; the least time counts")
    chosen = parser.parse_args()
    names = (
        chosen.rankers.split(",")
        if chosen.rankers
        else [name for name, entry in gainful.RANKERS.items() if entry.installed and entry.kind != "blend"]
    )

    def least(*command: str, runs: int = chosen.runs) -> float:
        return min(processor_seconds(*command) for _ in range(runs))

    yardstick = least("-c", YARDSTICK, runs=max(2, chosen.runs))

    def row(subject: str, seconds: float, limit: float) -> Row:
        times = seconds / yardstick
        verdict = "pass" if seconds <= limit else "fail"
        print(f"{subject:40s} {seconds:6.2f} s {times:5.1f} × {limit:3g} s {verdict}", file=sys.stderr, flush=True)
        notes: dict[str, float | str] = {"yardsticks": round(times, 2), "yardstick": round(yardstick, 2)}
        return Row(subject, "processor time", seconds, f"limit, {limit:g} s", limit, "s", wanted=1, notes=notes)

    print(f"{'yardstick':40s} {yardstick:6.2f} s", file=sys.stderr, flush=True)
    if chosen.only != "rankers":
        yield row("first NDCG@10, empty cache", least("-c", METRIC), METRIC_LIMIT)
        with tempfile.TemporaryDirectory() as folder:
            seconds = least("-m", "gainful", "evaluate", *write_files(folder))
        yield row("gainful evaluate, empty cache", seconds, RANKER_LIMIT)
    for name in names if chosen.only != "others" else ():
        yield row(f"first {name}, empty cache", least("-c", DATA + FIT.format(name=name)), RANKER_LIMIT)


if __name__ == "__main__":
    main(rows)
