"""XGBoost's ranking objectives, its trees grown leaf by leaf like the others'."""

from __future__ import annotations

from typing import Any

import xgboost as xgb

import gainful
from peers.settings import BINS, LEAVES, RATE
from peers.snapshots import Budget, Clock, Snapshot, staged


def trees(train: gainful.RankingData, budget: Budget, *, objective: str) -> list[Snapshot]:
    clock = Clock(budget)

    class Watch(xgb.callback.TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            return clock.tick()

    # Second derivatives of the ranking objectives are far below 1: the default minimum leaf weight, 1, would end trees.
    params = {"objective": objective, "max_leaves": LEAVES, "max_depth": 0, "grow_policy": "lossguide",
              "tree_method": "hist", "max_bin": BINS, "eta": RATE, "min_child_weight": 0.0, "seed": 0,
              "nthread": budget.threads}  # fmt: skip
    data = xgb.QuantileDMatrix(train.X, label=train.y, group=train.counts, max_bin=BINS, nthread=budget.threads)
    booster = xgb.train(params, data, budget.iterations, callbacks=[Watch()])
    return staged(clock.times, lambda rows, n: booster.predict(xgb.DMatrix(rows.X), iteration_range=(0, n)))
