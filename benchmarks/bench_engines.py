"""Trees grown by XGBoost on our objectives: milliseconds per tree and NDCG, beside LightGBM and XGBoost's rank:ndcg.

``python benchmarks/bench_engines.py --device cuda`` grows ours and XGBoost's own on the GPU, at 720,000 × 136; without
a device everything runs on two threads of the CPU, at a tenth of the queries. A tree's time is the median over the
trees of one training, so that binning does not count. ``--seeds 7`` compares quality instead: NDCG@10 on held-out
queries with XGBoost less that with LightGBM, on as many data sets of 60,000 rows, with its standard error.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

import gainful
from harness import Row, main

LEAVES, RATE, TREES, THREADS = 31, 0.1, 60, 2
OURS: dict[str, dict[str, Any]] = {
    "lambdamart": {},
    "lambdamart-plain": {},
    "boosted:listnet": {"loss": "listnet"},
}
Grown = tuple[float, float]  # milliseconds per tree, NDCG@10 on the held-out queries


def ours(name: str, train: gainful.RankingData, test: gainful.RankingData, **engine: Any) -> Grown:
    given = {"n_trees": TREES, "n_leaves": LEAVES, "learning_rate": RATE, "early_stopping": None} | OURS[name]
    model = gainful.ranker(name.partition(":")[0], **given, **engine).fit(train)
    return _per_tree([row["seconds"] for row in model.history_]), model.score(test)


def rank_ndcg(train: gainful.RankingData, test: gainful.RankingData, device: str) -> Grown:
    import xgboost as xgb

    times: list[float] = []

    class Clock(xgb.callback.TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            times.append(time.perf_counter())
            return False

    params = {"objective": "rank:ndcg", "max_leaves": LEAVES, "max_depth": 0, "grow_policy": "lossguide",
              "tree_method": "hist", "eta": RATE, "nthread": THREADS, "min_child_weight": 0.0, "device": device,
              "lambdarank_pair_method": "topk", "lambdarank_num_pair_per_sample": 30}  # fmt: skip
    data = xgb.QuantileDMatrix(train.X, label=train.y, group=train.counts)
    booster = xgb.train(params, data, TREES, callbacks=[Clock()])
    return _per_tree(times), gainful.metric("ndcg@10")(booster.predict(xgb.DMatrix(test.X)), test)


def _per_tree(times: list[float]) -> float:
    return 1e3 * float(np.median(np.diff(times)))


def rows(device: str = "cpu") -> Iterator[Row]:
    if find_spec("xgboost") is None or find_spec("torch") is None:
        raise SystemExit("bench_engines.py needs the extra xgboost")
    data = gainful.make_artificial(7_000 if device != "cpu" else 700, n_docs=120, n_features=136, seed=0)
    data = data.replace(X=data.X.astype(np.float32))
    cut = data.n_queries * 6 // 7
    train, test = data[:cut], data[cut:]
    subject = f"{train.n_rows:,} × 136, {{}}, XGBoost on {device}"
    peers: dict[str, Callable[[str], Grown]] = {
        f"LightGBM, {THREADS} threads": lambda name: ours(name, train, test, n_jobs=THREADS),
        "XGBoost rank:ndcg": lambda name: rank_ndcg(train, test, device),
    }
    for name in OURS:
        engine = {"engine": "xgboost", "device": device} | ({"n_jobs": THREADS} if device == "cpu" else {})
        mine = ours(name, train, test, **engine)
        for peer, grow in peers.items():
            theirs = grow(name)
            yield Row(subject.format(name), "time per tree", mine[0], peer, theirs[0], "ms")
            yield Row(subject.format(name), "NDCG@10", mine[1], peer, theirs[1], "", larger_is_better=True)


def quality(device: str, seeds: int) -> Iterator[Row]:
    """Paired by data set; the difference and its error are in the notes."""
    queries = 500
    engine = {"engine": "xgboost", "device": device}
    for name in OURS:
        pairs = []
        for seed in range(seeds):
            data = gainful.make_artificial(2 * queries, n_docs=120, n_features=136, seed=seed)
            train, test = data[:queries], data[queries:]
            both = (engine, {"n_jobs": THREADS})
            pairs.append([ours(name, train, test, random_state=seed, **settings)[1] for settings in both])
        mine, theirs = np.array(pairs).T
        difference = mine - theirs
        notes = {"difference": difference.mean(), "standard error": difference.std(ddof=1) / np.sqrt(seeds)}
        subject = f"{name}, XGBoost on {device}, {seeds} seeds"
        yield Row(subject, "NDCG@10", mine.mean(), "LightGBM", theirs.mean(), "", larger_is_better=True, notes=notes)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=0)
    given = parser.parse_args()
    main(lambda: quality(given.device, given.seeds) if given.seeds else rows(given.device))
