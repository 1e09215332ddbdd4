"""Losses of linear models, one thread: time per pair beside one division, and per pass beside X @ w.

1,000 queries of MSLR-WEB's shape. All take turns, best of several, so that a busy machine slows them alike; times are
processor times. The limit of a pair is a division, of which every sigmoid needs one; losses on pairs without a sigmoid
can be faster. The peer of ``lambda`` is LightGBM's lambdarank: an update with one split, less one with squared error.

``python benchmarks/bench_kernels.py --table`` prints a table; with ``--before FILE``, the output of another run without
``--table``, also what that run measured.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import lightgbm as lgb
import numba
import numpy as np
from threadpoolctl import threadpool_limits

import gainful
from bench_structured import FEATURES, large
from gainful.data.query_weights import pair_shares
from gainful.linear.risk import LinearRisk
from gainful.losses import loss
from gainful.losses.base import ByGrade
from harness import Row, main

QUERIES, ROUNDS = 1_000, 9
LOSSES = (
    "squared", "listnet", "pairwise-hinge", "pairwise-squared-hinge", "ranknet", "weighted-huber", "lambda",
    "lambda(k=10)", "lambdaloss", "lambda(metric=map)", "sdcg", "shf-sdcg", "structured-ndcg(k=10)", "softrank",
)  # fmt: skip


@numba.njit(fastmath={"reassoc", "contract", "arcp", "nsz"}, error_model="numpy")
def _divide(E: np.ndarray, times: int) -> float:
    total = 0.0
    for k in range(times):
        for j in range(len(E)):
            total += E[j] / (k + E[j])
    return total


def in_turns(tasks: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The least processor time of this thread, of each task."""
    best = dict.fromkeys(tasks, np.inf)
    for task in tasks.values():
        task()  # kernels
    for _ in range(ROUNDS):
        for name, task in tasks.items():
            start = time.thread_time()
            task()
            best[name] = min(best[name], time.thread_time() - start)
    return best


def pass_over(name: str, data: gainful.RankingData, w: np.ndarray) -> Callable[[], object]:
    risk = LinearRisk.of(loss(name), data, pair_shares(data), threads=1)
    return lambda: risk.value_and_gradient(w)


def fill_over(name: str, data: gainful.RankingData, scores: np.ndarray) -> Callable[[], object]:
    """The loss alone, in the chunks that a pass over the features uses."""
    fill, ends = loss(name).bind_to(data), data.offsets
    values, gradient, step = np.empty(data.n_queries), np.empty(data.n_rows), 32

    def run() -> None:
        for a in range(0, data.n_queries, step):
            b = min(a + step, data.n_queries)
            rows = slice(int(ends[a]), int(ends[b]))
            fill(scores[rows], a, b, values, gradient[rows])

    return run


def update_of(objective: str, data: gainful.RankingData) -> Callable[[], object]:
    params = {"objective": objective, "num_leaves": 2, "verbosity": -1, "num_threads": 1, "max_bin": 3,
              "lambdarank_truncation_level": 10_000}  # fmt: skip
    first = (data.X[:, :1] > 0.5).astype(np.float32)
    booster = lgb.Booster(params, lgb.Dataset(first, label=data.y, group=data.counts, params=params))
    return booster.update


def rows() -> Iterator[Row]:
    data, w = large(QUERIES), 0.1 * np.random.default_rng(1).standard_normal(FEATURES)
    w32, scores = w.astype(np.float32), np.asarray(data.X @ w, dtype=np.float64)
    scores.flags.writeable = False
    n_pairs = float(ByGrade(data.y.astype(np.float64), data.offsets).pairs().sum())
    E = np.random.default_rng(0).random(512) + 0.1
    tasks: dict[str, Callable[[], object]] = {"X @ w": lambda: data.X @ w32, "divide": lambda: _divide(E, 5_000)}
    tasks |= {f"LightGBM {name}": update_of(name, data) for name in ("lambdarank", "regression")}
    tasks |= {f"pass {name}": pass_over(name, data, w) for name in LOSSES}
    tasks |= {f"fill {name}": fill_over(name, data, scores) for name in LOSSES}
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        seconds = in_turns(tasks)
    division = seconds["divide"] / (5_000 * len(E))
    peer = seconds["LightGBM lambdarank"] - seconds["LightGBM regression"]
    for name in LOSSES:
        own, whole = seconds[f"fill {name}"], seconds[f"pass {name}"]
        yield Row(
            name, "per pair", 1e9 * own / n_pairs, "one division", 1e9 * division, "ns",
            notes={"times X @ w": whole / seconds["X @ w"], "the loss alone, times X @ w": own / seconds["X @ w"]},
        )  # fmt: skip
    lambda_time = 1e9 * seconds["fill lambda"] / n_pairs
    yield Row("lambda, all pairs", "per pair", lambda_time, "LightGBM lambdarank", 1e9 * peer / n_pairs, "ns")


def print_table(before: str | None) -> None:
    known = {}
    if before is not None:
        known = {row["subject"]: row for row in map(json.loads, Path(before).read_text().splitlines())}
    print("| loss | ns per pair before | now | pass, times X @ w before | now | limit or peer, ns per pair |")
    print("| --- | ---: | ---: | ---: | ---: | --- |")
    for row in rows():
        old = known.get(row.subject)
        times = [f"{one['notes']['times X @ w']:.2f}" if one and one["notes"] else "" for one in (old, row.to_dict())]
        print(
            f"| {row.subject} | {old['ours']:.2f} |" if old else f"| {row.subject} | |",
            f"{row.ours:.2f} | {times[0]} | {times[1]} | {row.peer}, {row.theirs:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--before")
    chosen = parser.parse_args()
    if chosen.table:
        print_table(chosen.before)
    else:
        main(rows)
