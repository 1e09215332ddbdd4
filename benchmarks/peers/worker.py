"""One contestant on one data set, in its own process: prints its curve and its memory as one line of JSON.

``python -m peers.worker SIZE DATA CONTESTANT --threads 2 --repeats 3``, from the folder ``benchmarks``.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import numpy as np

from peers.contestants import BY_KEY, REFERENCE, Contestant
from peers.curves import Curve, Point, mean_of_folds, median_of_repeats
from peers.datasets import DataSet, Parts, data_set, folds, measure
from peers.snapshots import Budget, Snapshot

SHORT = 4.0  # seconds; trainings of one data set are repeated until they add up to this
WARM_QUERIES = 30
LINEAR_ITERATIONS = 1_000
MEBIBYTE = 1024  # kibibytes


def resident(kind: str) -> int:
    """Memory of this process in KiB: "VmRSS" now, "VmHWM" at its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(kind)).split()[1])


def forget_peak() -> None:
    """Reset the peak to the memory now in use, after returning freed memory to the system."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def pace(threads: int) -> float:
    """Seconds for a fixed piece of work on as many threads as the training has; it takes longer on a busy machine."""
    values = [np.random.default_rng(i).random(1_500_000) for i in range(threads)]
    time.sleep(0.1)  # threads of BLAS spin for a while after the products that scored the models
    start = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(8):
            list(pool.map(np.sort, values))
    return time.perf_counter() - start


def budget_of(contestant: Contestant, data: DataSet, threads: int) -> Budget:
    most = LINEAR_ITERATIONS if contestant.group == "linear" else 2 * data.iterations
    return Budget(most, data.seconds, threads)


def fit(contestant: Contestant, parts: Parts, budget: Budget) -> list[Snapshot]:
    function = getattr(import_module(f"peers.adapters.{contestant.maker}"), contestant.function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about convergence: iterations and time are limited here
        return function(parts.train, budget, **contestant.settings)


def curve_of(snapshots: list[Snapshot], parts: Parts, data: DataSet) -> Curve:
    """Both qualities of every snapshot; not timed."""
    ndcg = measure(data)
    points = [
        Point(s.iterations, s.seconds, ndcg(s.scores(parts.valid), parts.valid), ndcg(s.scores(parts.test), parts.test))
        for s in snapshots
    ]
    return Curve(tuple(points), final=bool(snapshots) and snapshots[-1].final)


def measured(contestant: Contestant, data: DataSet, threads: int, repeats: int) -> dict[str, object]:
    budget = budget_of(contestant, data, threads)
    curves, added, peak, paces = [], 0, 0, [pace(threads)]
    for fold, parts in enumerate(folds(data)):
        if fold == 0:  # imports, compiled kernels, thread pools
            small = Parts(parts.train[:WARM_QUERIES], parts.valid, parts.test)
            fit(contestant, small, Budget(min(3, budget.iterations), 5.0, threads))
        of_fold, started = [], time.perf_counter()
        while not of_fold or (len(of_fold) < repeats and _has_time(contestant, started)):
            forget_peak()
            before = resident("VmRSS")
            snapshots = fit(contestant, parts, budget)
            peak, added = max(peak, resident("VmHWM")), max(added, resident("VmHWM") - before)
            of_fold.append(curve_of(snapshots, parts, data))
        curves.append(median_of_repeats(of_fold))
        paces.append(pace(threads))
    return {
        "name": contestant.name,
        "group": contestant.group,
        "ours": contestant.maker == "ours",
        "curve": mean_of_folds(curves).to_dict(),
        "repeats": len(of_fold),
        "pace": max(paces),
        "added_mib": round(added / MEBIBYTE, 1),
        "peak_mib": round(peak / MEBIBYTE, 1),
    }


def _has_time(contestant: Contestant, started: float) -> bool:
    """Whether to repeat; the reference always is, because everything is divided by it."""
    return contestant.name in REFERENCE.values() or time.perf_counter() - started < SHORT


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("size")
    parser.add_argument("data")
    parser.add_argument("contestant", choices=sorted(BY_KEY))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    found = measured(BY_KEY[given.contestant], data_set(given.size, given.data), given.threads, given.repeats)
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
