"""Why CatBoost's QueryRMSE and XGBoost's rank:pairwise lead on two shapes: one change at a time, in ours and in theirs.

``python benchmarks/experiment_gaps.py`` trains each variant once for the same number of trees on the data of
``bench-peers`` and prints the best NDCG@10 over validation queries with that iteration's NDCG@10 over test queries.
The peers' rows need ``.venv-peers`` (``make bench-peers`` makes it).
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import gainful

sys.path.insert(0, str(Path(__file__).parent))

from peers.datasets import Parts, data_set

RATE, LEAVES = 0.1, 31
Scores = Callable[[gainful.RankingData, int], Any]  # of the first n trees


def ours(parts: Parts, trees: int, loss: str, **settings: Any) -> Scores:
    usual = {"n_trees": trees, "n_leaves": LEAVES, "learning_rate": RATE, "early_stopping": None, "n_jobs": 1}
    model = gainful.ranker("boosted", loss=loss, **(usual | settings)).fit(parts.train)
    return lambda data, n: model.booster_.predict(data.X, num_iteration=n)


def xgboost(parts: Parts, trees: int, **settings: Any) -> Scores:
    import xgboost as xgb

    params = {
        "objective": "rank:pairwise", "max_leaves": LEAVES, "max_depth": 0, "grow_policy": "lossguide", "seed": 0,
        "tree_method": "hist", "max_bin": 255, "eta": RATE, "min_child_weight": 0.0, "nthread": 1,
    }  # fmt: skip
    rows = xgb.QuantileDMatrix(parts.train.X, label=parts.train.y, group=parts.train.counts, max_bin=255, nthread=1)
    booster = xgb.train(params | settings, rows, trees)
    return lambda data, n: booster.predict(xgb.DMatrix(data.X), iteration_range=(0, n))


def catboost(parts: Parts, trees: int, **settings: Any) -> Scores:
    import catboost as cb

    params = {"loss_function": "QueryRMSE", "iterations": trees, "learning_rate": RATE, "border_count": 254, "depth": 5,
              "random_seed": 0, "thread_count": 1, "verbose": False, "allow_writing_files": False}  # fmt: skip
    query = np.repeat(np.arange(parts.train.n_queries), parts.train.counts)
    model = cb.CatBoost(params | settings).fit(cb.Pool(parts.train.X, label=parts.train.y, group_id=query))
    return lambda data, n: model.predict(data.X, ntree_end=n)


LEAF_WISE = {"grow_policy": "Lossguide", "max_leaves": LEAVES, "depth": 16}
PAIRS: dict[str, Callable[[Parts, int], Scores]] = {
    "ours, ranknet": lambda p, n: ours(p, n, "ranknet"),
    "… leaves of one document": lambda p, n: ours(p, n, "ranknet", min_docs_in_leaf=1),
    "… gradient steps": lambda p, n: ours(p, n, "ranknet", step="gradient"),
    "… l2 = 1": lambda p, n: ours(p, n, "ranknet", l2=1.0),
    "… l2 = 10": lambda p, n: ours(p, n, "ranknet", l2=10.0),
    "… rate 0.2": lambda p, n: ours(p, n, "ranknet", learning_rate=0.2),
    "… 63 leaves": lambda p, n: ours(p, n, "ranknet", n_leaves=63),
    "ours, gbrank's loss, l2 = 1": lambda p, n: ours(p, n, "pairwise-squared-hinge", l2=1.0),
    "XGBoost rank:pairwise": lambda p, n: xgboost(p, n),
    "… without its l2 of 1": lambda p, n: xgboost(p, n, reg_lambda=0.0),
    "… not normalised": lambda p, n: xgboost(p, n, lambdarank_normalization=False),
    "… top 32 of all pairs": lambda p, n: xgboost(
        p, n, lambdarank_pair_method="topk", lambdarank_num_pair_per_sample=32
    ),
}
SQUARES: dict[str, Callable[[Parts, int], Scores]] = {
    "ours, centred-squared": lambda p, n: ours(p, n, "centred-squared"),
    "… depth at most 5": lambda p, n: ours(p, n, "centred-squared", engine_params={"max_depth": 5}),
    "… random thresholds": lambda p, n: ours(p, n, "centred-squared", engine_params={"extra_trees": True}),
    "… 100 documents per leaf": lambda p, n: ours(p, n, "centred-squared", min_docs_in_leaf=100),
    "… 300 documents per leaf": lambda p, n: ours(p, n, "centred-squared", min_docs_in_leaf=300),
    "… smoothed along the path": lambda p, n: ours(p, n, "centred-squared", engine_params={"path_smooth": 100.0}),
    "… half of the features per split": lambda p, n: ours(
        p, n, "centred-squared", engine_params={"feature_fraction_bynode": 0.5}
    ),
    "… half of the queries per tree": lambda p, n: ours(p, n, "centred-squared", subsample=0.5),
    "CatBoost QueryRMSE": lambda p, n: catboost(p, n),
    "… leaf by leaf, not symmetric": lambda p, n: catboost(p, n, **LEAF_WISE),
    "… no random strength": lambda p, n: catboost(p, n, random_strength=0.0),
    "… no bootstrap": lambda p, n: catboost(p, n, bootstrap_type="No"),
    "… neither": lambda p, n: catboost(p, n, bootstrap_type="No", random_strength=0.0),
}  # fmt: skip
SHAPES = {"artificial": (PAIRS, 400), "mslr": (SQUARES, 150)}


def rows(shape: str) -> Iterator[tuple[str, float, float, int, float]]:
    """Name, NDCG@10 on validation and test queries, trees, seconds of processor time."""
    variants, trees = SHAPES[shape]
    parts, ndcg, stride = data_set("usual", shape).parts(), gainful.metric("ndcg@10"), 10
    for name, fit in variants.items():
        maker = {"XGBoost": "xgboost", "CatBoost": "catboost"}.get(name.split()[0], maker if name[0] == "…" else None)  # noqa: F821
        if maker and not find_spec(maker):
            continue
        began = time.process_time()
        scores = fit(parts, trees)
        seconds = time.process_time() - began
        valid = {n: ndcg(scores(parts.valid, n), parts.valid) for n in range(stride, trees + 1, stride)}
        best = max(valid, key=valid.__getitem__)
        yield name, valid[best], ndcg(scores(parts.test, best), parts.test), best, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=SHAPES, action="append")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for shape in given.data or SHAPES:
        print(f"\n| {shape} | validation | test | trees | seconds |\n| --- | ---: | ---: | ---: | ---: |")
        for name, valid, test, trees, seconds in rows(shape):
            print(f"| {name} | {valid:.4f} | {test:.4f} | {trees} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
