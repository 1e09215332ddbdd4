"""Fits of fixed work: their time and memory, measured in a separate process.

``bench_cost.py`` starts ``python cost_fits.py``, sends rankers and shapes as JSON lines and reads a JSON line for each.
The variables of :func:`environment` set the threads of every library before any is loaded.

A fit runs a few iterations with convergence switched off, so that we compare the cost of an iteration (of a tree, a
round, a sweep, an epoch), not the luck of stopping. A callback reads the clock after each iteration, which splits the
time of one fit into a one-off cost and a cost per iteration.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import gainful
from gainful.compute.memory import PeakGrowth

LINEAR = {"max_iter": 8, "tol": 1e-300}
TREES = {"n_trees": 4, "early_stopping": None}
NET = {"epochs": 2, "early_stopping": None, "device": "cpu"}
ROUNDS = {"n_rounds": 4, "early_stopping": None}

LOOSE = {**LINEAR, "C": 100.0}
STARTED = {**TREES, "start_trees": 2}
POINTWISE = {**TREES, "n_trees": 3}

# The parameters of each ranker's fit; the others keep the ranker's defaults.
WORK: dict[str, dict[str, Any]] = {
    "regression": {},
    **dict.fromkeys(("linear", "ranknet", "listnet", "ranksvm", "rankmm-1"), LINEAR),
    **dict.fromkeys(("rankmm-2", "rankmm-3"), LOOSE),
    **dict.fromkeys(("structured-svm", "structured-svm-slack", "svmmap"), LINEAR),
    "structured-svm-tight": {"max_iter": 8, "tol": 1e-12},
    "structured-svm-kernel": {**LINEAR, "n_landmarks": 100},
    "lambdarank": {"max_iter": 5, "tol": 1e-300},
    # at zero weights, long lists have no gradient
    "softrank": {"max_iter": 2, "tol": 1e-300, "init": "regression"},
    "rsrank": {"max_iter": 5, "tol": 0.0, "early_stopping": None},
    "rsrank-sparse": {"l1": [0.0, 1e-3], "max_iter": 3, "tol": 0.0, "early_stopping": None},
    "ndcg-reduction": {"n_rounds": 3},
    **dict.fromkeys(("adarank-map", "adarank-ndcg", "rankboost", "frank"), ROUNDS),
    "coordinate-ascent": {"n_restarts": 1, "n_sweeps": 2, "tol": 0.0, "early_stopping": None},
    **dict.fromkeys(("boosted", "lambdamart-plain", "lambdamart", "gbrank"), TREES),
    **dict.fromkeys(("mcrank", "mcrank-ordinal", "mcrank-regression", "tree-regression"), POINTWISE),
    **dict.fromkeys(("sdcg", "shf-sdcg", "reg-shf-sdcg", "structured-boost"), STARTED),
    **dict.fromkeys(("neural", "lambdarank-net", "ranknet-net", "structured-net"), NET),
}
STOPS_BY_ITSELF = tuple(
    name for name, work in WORK.items()
    if "max_iter" in work or name in ("coordinate-ascent", "adarank-map", "adarank-ndcg")
)  # fmt: skip
REPEATED = 0.2  # a fit shorter than this many seconds is repeated; the least time counts
MOST_REPEATS = 4


@dataclass(frozen=True)
class Shape:
    """The data of one measurement: rows × features, with ``docs`` documents per query."""

    rows: int
    features: int = 50
    docs: int = 100
    threads: int = 1


def environment(threads: int) -> dict[str, str]:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    return dict.fromkeys(names, str(threads))


def generated(shape: Shape) -> gainful.RankingData:
    """Normal float32 features; five equally frequent grades of a linear target with little noise.

    With more noise, zero weights would be best for losses of the worst pair on long lists.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((shape.rows, shape.features), dtype=np.float32)
    target = X @ rng.standard_normal(shape.features, dtype=np.float32) / np.sqrt(shape.features)
    target += 0.1 * rng.standard_normal(shape.rows, dtype=np.float32)
    y = np.searchsorted(np.quantile(target, [0.2, 0.4, 0.6, 0.8]), target).astype(np.float64)
    offsets = np.append(np.arange(0, shape.rows, shape.docs), shape.rows)
    return gainful.RankingData(X=X, y=y, offsets=offsets, query_ids=np.arange(len(offsets) - 1))


def fitted(name: str, data: gainful.RankingData, clock: Callable[[], float]) -> dict[str, float]:
    """The seconds of one fit: in total, and per iteration after the first."""
    ends: list[float] = []
    start = clock()
    gainful.ranker(name, **settings(name)).fit(data, progress=lambda _: ends.append(clock()))
    seconds = clock() - start
    each = (ends[-1] - ends[0]) / (len(ends) - 1) if len(ends) > 1 else 0.0
    return {"seconds": seconds, "each": each, "iterations": len(ends)}


def settings(name: str) -> dict[str, Any]:
    return WORK[name] | ({"n_jobs": None} if "n_jobs" in gainful.RANKERS[name].cls.parameters else {})


def measured(name: str, shape: Shape) -> dict[str, Any]:
    """The least times of a few fits (of one if it is long), and the peak growth of the first."""
    data = generated(shape)
    # On one thread, processor time is wall-clock time minus the effect of other processes.
    clock = time.process_time if shape.threads == 1 else time.perf_counter
    with PeakGrowth() as growth:
        found = [fitted(name, data, clock)]
    while sum(fit["seconds"] for fit in found) < REPEATED and len(found) < MOST_REPEATS:
        found.append(fitted(name, data, clock))
    least = {key: min(fit[key] for fit in found) for key in ("seconds", "each")}
    extra = {"iterations": found[0]["iterations"], "bytes": growth.bytes}
    return {"ranker": name, "work": "fixed", **asdict(shape), **least, **extra}


def by_default(name: str, shape: Shape) -> dict[str, Any]:
    """How many iterations the ranker takes on artificial data when it stops by itself."""
    queries = shape.rows // shape.docs
    data = gainful.make_artificial(queries, n_docs=shape.docs, n_features=shape.features, seed=0)
    start = time.process_time()
    model = gainful.ranker(name).fit(data)
    extra = {"seconds": time.process_time() - start, "iterations": model.n_iter_}
    return {"ranker": name, "work": "default", **asdict(shape), **extra}


def answers(lines: Iterator[str]) -> None:
    warnings.simplefilter("ignore")
    warm = set()
    for line in lines:
        asked = json.loads(line)
        name = asked.pop("ranker")
        if name not in warm:  # kernels, libraries
            warm.add(name)
            for few in (Shape(600, 8, 20), Shape(1000, 8, 500)):
                fitted(name, generated(few), time.process_time)
        measure = by_default if asked.pop("work") == "default" else measured
        print(json.dumps(measure(name, Shape(**asked))), flush=True)


if __name__ == "__main__":
    answers(sys.stdin)
