"""LightGBM's own ranking objectives."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np

import gainful
from peers.settings import BINS, LEAST_DOCUMENTS, LEAVES, RATE
from peers.snapshots import Budget, Clock, Snapshot, staged


def trees(train: gainful.RankingData, budget: Budget, *, objective: str) -> list[Snapshot]:
    params = {"objective": objective, "num_leaves": LEAVES, "learning_rate": RATE, "max_bin": BINS,
              "min_data_in_leaf": LEAST_DOCUMENTS, "num_threads": budget.threads, "force_row_wise": True,
              "seed": 0, "metric": "none", "verbosity": -1}  # fmt: skip
    clock = Clock(budget)

    def watch(_: Any) -> None:
        if clock.tick():
            raise lgb.callback.EarlyStopException(len(clock.times) - 1, [])

    data = lgb.Dataset(train.X, label=train.y, group=train.counts)
    booster = lgb.train(params, data, budget.iterations, callbacks=[watch])
    return staged(clock.times, lambda rows, n: np.asarray(booster.predict(rows.X, num_iteration=n)))
