"""Boosted trees: milliseconds a tree and NDCG beside LightGBM's, XGBoost's and CatBoost's own ranking objectives.

Same trees, leaves, learning rate and threads on artificial data of three shapes: MSLR-WEB (6,000 queries of 120
documents, 136 features), OHSUMED (106 of 152, 45 features) and long lists (100 of 1,000). XGBoost and CatBoost grow
trees level by level unless told otherwise; both are set to grow by leaf here. A tree's time is the difference of a long
and a short training, so that binning the data does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import gainful
from harness import Row, main, peak_memory

LEAVES, RATE, THREADS = 31, 0.1, 2
SHAPES = {"MSLR shape": (6_000, 120, 136), "OHSUMED shape": (106, 152, 45), "long lists": (100, 1_000, 45)}
TREES = {"MSLR shape": (2, 12), "OHSUMED shape": (20, 120), "long lists": (5, 35)}
# what a tree may cost beside LightGBM's own lambdarank: on large data no more, on small data half as much again
WANTED = {"MSLR shape": 1.0, "OHSUMED shape": 1.0 / 1.5, "long lists": None}
OURS = ("lambdamart-plain", "structured-boost", "sdcg", "shf-sdcg", "reg-shf-sdcg", "gbrank", "boosted:ranknet",
        "boosted:listnet", "boosted:xendcg", "boosted:lambdaloss")  # fmt: skip
SETTINGS: dict[str, Any] = {"n_leaves": LEAVES, "learning_rate": RATE, "n_jobs": THREADS, "early_stopping": None}


@dataclass(frozen=True)
class Parts:
    train: gainful.RankingData
    test: gainful.RankingData


@cache
def parts(shape: str) -> Parts:
    """Training and test data of a shape; test queries are a sixth of the training queries, at least 50."""
    queries, documents, features = SHAPES[shape]
    held = max(50, queries // 6)
    data = gainful.make_artificial(queries + held, n_docs=documents, n_features=features, seed=0)
    data = data.replace(X=data.X.astype(np.float32))
    return Parts(data[:queries], data[queries:])


def ours(name: str, shape: str, n_trees: int) -> Any:
    name, _, loss = name.partition(":")
    given = {"loss": loss} if loss else {}
    return gainful.ranker(name, **given, n_trees=n_trees, **SETTINGS).fit(parts(shape).train).predict


def lightgbm(objective: str, shape: str, n_trees: int) -> Any:
    import lightgbm as lgb

    train = parts(shape).train
    params = {"objective": objective, "num_leaves": LEAVES, "learning_rate": RATE, "num_threads": THREADS,
              "verbosity": -1, "force_row_wise": True}  # fmt: skip
    booster = lgb.train(params, lgb.Dataset(train.X, label=train.y, group=train.counts), n_trees)
    return lambda data: booster.predict(data.X)


def xgboost(objective: str, shape: str, n_trees: int) -> Any:
    import xgboost as xgb

    train = parts(shape).train
    params = {"objective": objective, "max_leaves": LEAVES, "max_depth": 0, "grow_policy": "lossguide",
              "tree_method": "hist", "eta": RATE, "nthread": THREADS, "min_child_weight": 0.0}  # fmt: skip
    booster = xgb.train(params, xgb.QuantileDMatrix(train.X, label=train.y, group=train.counts), n_trees)
    return lambda data: booster.predict(xgb.DMatrix(data.X))


def catboost(objective: str, shape: str, n_trees: int) -> Any:
    import catboost as cb

    train = parts(shape).train
    model = cb.CatBoost({"loss_function": objective, "iterations": n_trees, "learning_rate": RATE, "max_leaves": LEAVES,
                         "grow_policy": "Lossguide", "thread_count": THREADS, "verbose": False,
                         "allow_writing_files": False})  # fmt: skip
    model.fit(cb.Pool(train.X, label=train.y, group_id=np.repeat(np.arange(train.n_queries), train.counts)))
    return lambda data: model.predict(data.X)


PEERS: dict[str, tuple[Callable[[str, str, int], Any], str]] = {
    "LightGBM lambdarank": (lightgbm, "lambdarank"),
    "LightGBM rank_xendcg": (lightgbm, "rank_xendcg"),
    "XGBoost rank:ndcg": (xgboost, "rank:ndcg"),
    "CatBoost YetiRank": (catboost, "YetiRank"),
}


def measured(grow: Callable[[str, str, int], Any], what: str, shape: str) -> tuple[float, float]:
    """Milliseconds a tree (the better of two), and NDCG@10 on the test queries after the longer training."""
    few, many = TREES[shape]
    grow(what, shape, 2)  # kernels and caches
    times, score = [], None
    for _ in range(2):
        start = time.perf_counter()
        grow(what, shape, few)
        middle = time.perf_counter()
        score = grow(what, shape, many)
        times.append(((time.perf_counter() - middle) - (middle - start)) / (many - few))
    assert score is not None
    test = parts(shape).test
    return 1000.0 * min(times), gainful.metric("ndcg@10")(score(test), test)


def speed_rows(shape: str) -> Iterator[Row]:
    peers = {name: measured(grow, objective, shape) for name, (grow, objective) in PEERS.items()}
    yardstick = "LightGBM lambdarank"
    for name, (milliseconds, ndcg) in peers.items():
        if name != yardstick:
            yield Row(f"{name}, {shape}", "a tree", milliseconds, yardstick, peers[yardstick][0], "ms",
                      notes={"ndcg": ndcg})  # fmt: skip
            yield Row(f"{name}, {shape}, {TREES[shape][1]} trees", "NDCG@10", ndcg, yardstick, peers[yardstick][1], "",
                      larger_is_better=True)  # fmt: skip
    for name in OURS:
        milliseconds, ndcg = measured(ours, name, shape)
        yield Row(f"{name}, {shape}", "a tree", milliseconds, yardstick, peers[yardstick][0], "ms",
                  wanted=WANTED[shape])  # fmt: skip
        yield Row(f"{name}, {shape}, {TREES[shape][1]} trees", "NDCG@10", ndcg, yardstick, peers[yardstick][1], "",
                  larger_is_better=True)  # fmt: skip


def memory_rows() -> Iterator[Row]:
    """Peak memory of a training at MSLR shape, the features not counted."""

    def peak(call: str) -> float:
        setup = f"""
            import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
            import bench_trees as b
            {call.replace("MSLR shape", "OHSUMED shape")}
            b.parts("MSLR shape")
        """
        return peak_memory(setup, call)

    theirs = peak('b.lightgbm("lambdarank", "MSLR shape", 3)')
    for name in ("lambdamart-plain", "shf-sdcg", "structured-boost"):
        mebibytes = peak(f'b.ours({name!r}, "MSLR shape", 3)')
        yield Row(f"{name}, MSLR shape", "peak memory", mebibytes, "LightGBM lambdarank", theirs, "MiB", wanted=0.7)


def rows() -> Iterator[Row]:
    for shape in SHAPES:
        yield from speed_rows(shape)
    yield from memory_rows()


if __name__ == "__main__":
    main(rows)
