"""scikit-learn, which has no ranker: regression on the grades, and a linear SVM on explicit pairs."""

from __future__ import annotations

from itertools import islice

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.svm import LinearSVC

import gainful
from peers.settings import BINS, LEAST_DOCUMENTS, LEAVES, PAIR_VALUES, RATE, SVM_C
from peers.snapshots import Budget, Scores, Snapshot, checkpoints, refitted


def trees(train: gainful.RankingData, budget: Budget) -> list[Snapshot]:
    """Squared error on the grades. It does not report progress: one fit per size."""

    def fit(n: int) -> tuple[Scores, bool]:
        model = HistGradientBoostingRegressor(
            max_iter=n, learning_rate=RATE, max_leaf_nodes=LEAVES, min_samples_leaf=LEAST_DOCUMENTS, max_bins=BINS,
            early_stopping=False, random_state=0,
        )  # fmt: skip
        model.fit(train.X, train.y)
        return lambda rows: model.predict(rows.X), False

    return refitted(fit, checkpoints(budget.iterations, 1.7), budget)


def ridge(train: gainful.RankingData, budget: Budget) -> list[Snapshot]:
    def fit(_: int) -> tuple[Scores, bool]:
        model = Ridge(alpha=1.0).fit(train.X, train.y)
        return lambda rows: model.predict(rows.X), True

    return refitted(fit, [1], budget)


def pairs_svm(train: gainful.RankingData, budget: Budget) -> list[Snapshot]:
    """Squared hinge on the differences of pairs; all of them, or a sample if they would take too much memory."""

    def fit(n: int) -> tuple[Scores, bool]:
        differences, signs = pair_differences(train, most=PAIR_VALUES // train.n_features)
        svm = LinearSVC(C=SVM_C / len(signs), fit_intercept=False, max_iter=n, random_state=0, dual=False)
        weights = svm.fit(differences, signs).coef_[0]
        return lambda rows: rows.X @ weights, int(svm.n_iter_) < n

    return refitted(fit, islice(checkpoints(budget.iterations, 2.0), 1, None), budget)


def pair_differences(data: gainful.RankingData, most: int) -> tuple[np.ndarray, np.ndarray]:
    """x_i − x_j with its sign for pairs of different grade, each flipped at random so that both signs occur."""
    better, worse = [], []
    for start, stop in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        y = data.y[start:stop]
        i, j = np.nonzero(y[:, None] > y[None, :])
        better.append(i + start)
        worse.append(j + start)
    i, j = np.concatenate(better), np.concatenate(worse)
    rng = np.random.default_rng(0)
    if len(i) > most:
        kept = rng.choice(len(i), most, replace=False)
        i, j = i[kept], j[kept]
    signs = rng.choice((-1.0, 1.0), len(i))
    return (data.X[i] - data.X[j]) * signs[:, None], signs
