"""Boosted trees: milliseconds per tree and NDCG beside LightGBM's, XGBoost's and CatBoost's own ranking objectives.

Same trees, leaves, learning rate and threads on artificial data of three shapes: MSLR-WEB (6,000 queries of 120
documents, 136 features), OHSUMED (106 of 152, 45 features) and long lists (100 of 1,000). By default
XGBoost and CatBoost grow trees level by level; here both grow leaf by leaf. A tree's time is the median over the
trees of one training, so that binning the data does not count.
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
TREES = {"MSLR shape": 12, "OHSUMED shape": 120, "long lists": 40}
# most a tree may cost relative to LightGBM's own lambdarank: on large data no more, on small data 1.5 times
WANTED = {"MSLR shape": 1.0, "OHSUMED shape": 1.0 / 1.5, "long lists": None}
# Every objective starts from the same few regression trees; sdcg has no cut-off, so its gradient is never zero.
OURS: dict[str, dict[str, Any]] = {
    "lambdamart-plain": {"start_trees": 2},
    "structured-boost": {"start_trees": 2},
    "sdcg": {"start_trees": 2, "k": None},
    "shf-sdcg": {"start_trees": 2},
    "reg-shf-sdcg": {"start_trees": 2},
    "gbrank": {},
    "tree-regression": {},
    "mcrank": {},
    "mcrank-ordinal": {},
    **{f"boosted:{loss}": {"start_trees": 2} for loss in ("ranknet", "listnet", "xendcg", "lambdaloss")},
}
TREES_AN_ITERATION = {"mcrank": 5, "mcrank-ordinal": 4}  # five grades
SETTINGS: dict[str, Any] = {"n_leaves": LEAVES, "learning_rate": RATE, "n_jobs": THREADS, "early_stopping": None,
                            "min_docs_in_leaf": 20, "colsample": 1.0}  # fmt: skip


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


Grown = tuple[Callable[[gainful.RankingData], np.ndarray], list[float]]  # scores, and when each tree was finished


def ours(name: str, shape: str, n_trees: int) -> Grown:
    kind, _, loss = name.partition(":")
    given = OURS[name] | ({"loss": loss} if loss else {})
    model = gainful.ranker(kind, **given, n_trees=n_trees, **SETTINGS).fit(parts(shape).train)
    return model.predict, [row["seconds"] for row in model.history_]


def lightgbm(objective: str, shape: str, n_trees: int) -> Grown:
    import lightgbm as lgb

    train, times = parts(shape).train, []
    params = {"objective": objective, "num_leaves": LEAVES, "learning_rate": RATE, "num_threads": THREADS,
              "verbosity": -1, "force_row_wise": True}  # fmt: skip
    data = lgb.Dataset(train.X, label=train.y, group=train.counts)
    booster = lgb.train(params, data, n_trees, callbacks=[lambda _: times.append(time.perf_counter())])
    return lambda rows: np.asarray(booster.predict(rows.X)), times


def xgboost(objective: str, shape: str, n_trees: int) -> Grown:
    import xgboost as xgb

    train, times = parts(shape).train, []

    class Clock(xgb.callback.TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            times.append(time.perf_counter())
            return False

    params = {"objective": objective, "max_leaves": LEAVES, "max_depth": 0, "grow_policy": "lossguide",
              "tree_method": "hist", "eta": RATE, "nthread": THREADS, "min_child_weight": 0.0}  # fmt: skip
    data = xgb.QuantileDMatrix(train.X, label=train.y, group=train.counts)
    booster = xgb.train(params, data, n_trees, callbacks=[Clock()])
    return lambda rows: booster.predict(xgb.DMatrix(rows.X)), times


def catboost(objective: str, shape: str, n_trees: int) -> Grown:
    import catboost as cb

    train, times = parts(shape).train, []

    class Clock:
        def after_iteration(self, info: Any) -> bool:
            times.append(time.perf_counter())
            return True

    model = cb.CatBoost({"loss_function": objective, "iterations": n_trees, "learning_rate": RATE, "max_leaves": LEAVES,
                         "grow_policy": "Lossguide", "thread_count": THREADS, "verbose": False,
                         "allow_writing_files": False})  # fmt: skip
    query = np.repeat(np.arange(train.n_queries), train.counts)
    model.fit(cb.Pool(train.X, label=train.y, group_id=query), callbacks=[Clock()])
    return lambda rows: np.asarray(model.predict(rows.X)), times


PEERS: dict[str, tuple[Callable[[str, str, int], Grown], str]] = {
    "LightGBM lambdarank": (lightgbm, "lambdarank"),
    "LightGBM rank_xendcg": (lightgbm, "rank_xendcg"),
    "XGBoost rank:ndcg": (xgboost, "rank:ndcg"),
    "CatBoost YetiRank": (catboost, "YetiRank"),
}


def measured(grow: Callable[[str, str, int], Grown], what: str, shape: str) -> tuple[float, float]:
    """Milliseconds per tree, and NDCG@10 on the test queries."""
    grow(what, "OHSUMED shape", 4)  # kernels
    scores, times = grow(what, shape, TREES[shape])
    test = parts(shape).test
    tree = float(np.median(np.diff(times)[2:])) / TREES_AN_ITERATION.get(what, 1)
    return 1000.0 * tree, gainful.metric("ndcg@10")(scores(test), test)


def speed_rows(shape: str) -> Iterator[Row]:
    peers = {name: measured(grow, objective, shape) for name, (grow, objective) in PEERS.items()}
    yardstick = "LightGBM lambdarank"
    for name, (milliseconds, ndcg) in peers.items():
        if name != yardstick:
            yield Row(f"{name}, {shape}", "a tree", milliseconds, yardstick, peers[yardstick][0], "ms",
                      notes={"ndcg": ndcg})  # fmt: skip
            yield Row(f"{name}, {shape}, {TREES[shape]} trees", "NDCG@10", ndcg, yardstick, peers[yardstick][1], "",
                      larger_is_better=True)  # fmt: skip
    for name in OURS:
        milliseconds, ndcg = measured(ours, name, shape)
        yield Row(f"{name}, {shape}", "a tree", milliseconds, yardstick, peers[yardstick][0], "ms",
                  wanted=WANTED[shape])  # fmt: skip
        yield Row(f"{name}, {shape}, {TREES[shape]} trees", "NDCG@10", ndcg, yardstick, peers[yardstick][1], "",
                  larger_is_better=True)  # fmt: skip


def memory_rows() -> Iterator[Row]:
    """What training four trees adds to the memory of the features, 360,000 × 136 float32."""

    def peak(train: str) -> float:
        setup = f"""
            import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
            import gainful, lightgbm as lgb
            from bench_structured import large
            data = large(30)
            {train}
            data = large(3_000)
        """
        return peak_memory(setup, train)

    params = {"objective": "lambdarank", "num_leaves": LEAVES, "num_threads": THREADS, "verbosity": -1}
    theirs = peak(f"lgb.train({params!r}, lgb.Dataset(data.X, label=data.y, group=data.counts), 4)")
    for name in ("lambdamart-plain", "shf-sdcg", "structured-boost"):
        mebibytes = peak(f"gainful.ranker({name!r}, n_trees=4, n_jobs={THREADS}, start_trees=0).fit(data)")
        yield Row(f"{name}, 360,000 × 136", "peak memory", mebibytes, "LightGBM lambdarank", theirs, "MiB", wanted=0.7)


def rows() -> Iterator[Row]:
    for shape in SHAPES:
        yield from speed_rows(shape)
    yield from memory_rows()


if __name__ == "__main__":
    main(rows)
