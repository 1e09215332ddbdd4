"""pyltr's LambdaMART, in Python around scikit-learn's exact trees.

Its last version is from 2019 and uses names that NumPy and scikit-learn have since dropped. This file restores them, in
this process alone; it changes nothing that pyltr computes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyltr
import sklearn.tree

import gainful
from peers.settings import LEAST_DOCUMENTS, LEAVES, RATE
from peers.snapshots import Budget, Clock, Snapshot, staged

_REGRESSOR = sklearn.tree.DecisionTreeRegressor


def _without_presort(*, presort: bool, criterion: str, **params: Any) -> sklearn.tree.DecisionTreeRegressor:
    return _REGRESSOR(criterion="squared_error", **params)  # what "friedman_mse" has always been


setattr(np, "object", object)  # noqa: B010
sklearn.tree._tree.DTYPE = np.float32
sklearn.tree.DecisionTreeRegressor = _without_presort


def trees(train: gainful.RankingData, budget: Budget) -> list[Snapshot]:
    model = pyltr.models.LambdaMART(
        metric=pyltr.metrics.NDCG(k=10), n_estimators=budget.iterations, learning_rate=RATE, max_leaf_nodes=LEAVES,
        max_depth=None, min_samples_leaf=LEAST_DOCUMENTS, random_state=0,
    )  # fmt: skip
    clock = Clock(budget)
    model.fit(train.X, train.y.astype(np.int64), train.qid, monitor=lambda *_: clock.tick())

    def scores(rows: gainful.RankingData, n: int) -> np.ndarray:
        model.estimators_fitted_ = n
        return model.predict(rows.X)

    return staged(clock.times, scores)
