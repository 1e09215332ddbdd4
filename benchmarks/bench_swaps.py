"""λ of other metrics: processor time per tree beside λ of NDCG@10, on lists of several lengths.

Trees of one shape take turns, so that a busy machine slows all of them alike, and each tree's cost is the median over
one training. A row with noise shows what averaging over draws adds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import cache

import numpy as np

import gainful
from harness import Row, main

YARDSTICK = "lambda(metric=ndcg@10)"
WANTED = {"lambda(metric=map)": 1.3, "lambda(metric=err@10)": 1.3, "lambda(metric=ndcg@10, noise=1, draws=4)": None}
SHAPES = {"300 × 120 documents, 136 features": (300, 120, 136), "100 × 150 documents, 45 features": (100, 150, 45)}
TREES, ROUNDS = 12, 2


@cache
def train(shape: str) -> gainful.RankingData:
    queries, documents, features = SHAPES[shape]
    data = gainful.make_artificial(queries, n_docs=documents, n_features=features, seed=0)
    return data.replace(X=data.X.astype(np.float32))


def tree_seconds(loss: str, shape: str) -> float:
    """Median processor time of a tree."""
    times: list[float] = []
    model = gainful.BoostedRanker(loss=loss, n_trees=TREES, n_jobs=1, early_stopping=None)
    model.fit(train(shape), progress=lambda _: times.append(time.process_time()))
    return float(np.median(np.diff(times)[2:]))


def rows() -> Iterator[Row]:
    for shape in SHAPES:
        times: dict[str, list[float]] = {loss: [] for loss in (YARDSTICK, *WANTED)}
        for own in times:
            tree_seconds(own, "100 × 150 documents, 45 features")  # kernels
        for _ in range(ROUNDS):
            for loss, own in times.items():
                own.append(tree_seconds(loss, shape))
        for loss, most in WANTED.items():
            yield Row(f"{loss}, {shape}", "a tree", 1e3 * min(times[loss]), YARDSTICK, 1e3 * min(times[YARDSTICK]),
                      "ms", wanted=None if most is None else 1.0 / most)  # fmt: skip


if __name__ == "__main__":
    main(rows)
