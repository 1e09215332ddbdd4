"""CatBoost's ranking losses, on its own symmetric trees or grown leaf by leaf."""

from __future__ import annotations

from typing import Any

import catboost as cb
import numpy as np

import gainful
from peers.settings import BINS, LEAST_DOCUMENTS, LEAVES, RATE
from peers.snapshots import Budget, Clock, Snapshot, staged

SHAPES: dict[str, dict[str, Any]] = {
    "symmetric": {"depth": (LEAVES + 1).bit_length() - 1},  # 2^depth leaves
    "by leaf": {"grow_policy": "Lossguide", "max_leaves": LEAVES, "min_data_in_leaf": LEAST_DOCUMENTS},
}


def trees(train: gainful.RankingData, budget: Budget, *, loss: str, shape: str) -> list[Snapshot]:
    clock = Clock(budget)

    class Watch:
        def after_iteration(self, info: Any) -> bool:
            return not clock.tick()  # True continues

    model = cb.CatBoost({"loss_function": loss, "iterations": budget.iterations, "learning_rate": RATE,
                         "border_count": BINS - 1, "random_seed": 0, "thread_count": budget.threads,
                         "verbose": False, "allow_writing_files": False, **SHAPES[shape]})  # fmt: skip
    query = np.repeat(np.arange(train.n_queries), train.counts)
    model.fit(cb.Pool(train.X, label=train.y, group_id=query), callbacks=[Watch()])
    return staged(clock.times, lambda rows, n: np.asarray(model.predict(rows.X, ntree_end=n)))
