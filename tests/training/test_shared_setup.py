"""Trainings that share their set-up give the same models, to the last bit, and make it once."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from scipy import sparse

import gainful
from gainful.compute.estimators import clone
from gainful.rankers.spaces import TREE_SPACE
from gainful.training.shared_setup import SharedSetup, is_shared, share
from gainful.trees import data_sets

TRAIN = gainful.make_artificial(40, n_docs=40, n_features=8, seed=1)
VALID = gainful.make_artificial(15, n_docs=20, n_features=8, seed=2)
TREES = {"n_trees": 6, "n_leaves": 8, "n_jobs": 1}
RANKERS = {
    "lambdamart": gainful.LambdaMART(**TREES),
    "sampled": gainful.LambdaMART(**TREES, subsample=0.6, colsample=0.5),
    "exact": gainful.LambdaMART(**TREES, bins="exact"),
    "categorical": gainful.LambdaMART(**TREES, categorical=[7]),
    "plain": gainful.ranker("lambdamart-plain", **TREES),
    "mcrank": gainful.ranker("mcrank", **TREES, subsample=0.7),
    "regression": gainful.ranker("regression"),
    "ranksvm": gainful.ranker("ranksvm"),
}


def with_rare_features(data):
    """A constant feature, a rare one, categories, and missing values."""
    X = np.array(data.X)
    X[:, 3], X[:, 5] = 7.0, 0.0
    X[:25, 5] = 1.0 + np.arange(25) % 3
    X[:, 7] = np.round(np.abs(X[:, 7]) * 3) % 5
    return data.replace(X=X)


def with_zeros(data):
    X = np.array(data.X)
    X[np.quantile(X, 0.6) > X] = 0.0
    return data.replace(X=sparse.csr_array(X))


DATA = {
    "dense": (TRAIN, VALID),
    "rare": (with_rare_features(TRAIN), with_rare_features(VALID)),
    "sparse": (with_zeros(TRAIN), with_zeros(VALID)),
    "weighted": (TRAIN.replace(query_weights=np.linspace(0.5, 2.0, TRAIN.n_queries)), VALID),
}


def facts(model, valid):
    text = model.booster_.model_to_string() if hasattr(model, "booster_") else ""
    return text, model.predict(valid).tobytes(), [row["validation"] for row in model.history_]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", DATA)
def test_models_are_the_same_bit_by_bit(kind):
    setup, (train, valid) = SharedSetup(), DATA[kind]
    for name, model in RANKERS.items():
        if kind in ("dense", "weighted", "sparse") and name == "categorical":
            continue  # no feature holds categories
        sizes = (5, 30, 200) if "min_docs_in_leaf" in model.get_params() else (None,)
        for size in sizes:
            model = model if size is None else clone(model).set_params(min_docs_in_leaf=size)
            alone = clone(model).fit(train, eval_set=valid)
            with setup.use():
                for _ in range(2):
                    assert facts(clone(model).fit(train, eval_set=valid), valid) == facts(alone, valid), (name, size)


def test_a_search_bins_once_and_finds_the_same(monkeypatch):
    made = []
    original = data_sets._without_labels
    monkeypatch.setattr(data_sets, "_without_labels", lambda *given: made.append(1) or original(*given))

    def values(n_jobs):
        found = gainful.tune("lambdamart:n_trees=4", TRAIN, valid=VALID, trials=6, refit=False, n_jobs=n_jobs)
        return [(row["params"], row["value"]) for row in found.trials]

    one = values(1)
    assert len(made) == 2  # training and validation data
    assert values(2) == one
    assert len(made) == 4
    monkeypatch.setattr("gainful.trees.data_sets.is_shared", lambda: False)
    assert values(1) == one


def test_large_leaves_cover_what_rankers_search():
    assert TREE_SPACE["min_docs_in_leaf"].high <= data_sets.LARGE_LEAF


def test_nothing_is_kept_longer_than_its_owner_or_beyond_the_room():
    setup, data, made = SharedSetup(), gainful.make_artificial(3), []

    def make():
        made.append(1)
        return np.zeros(100)

    assert not is_shared()
    share(data, "a", make)
    with setup.use():
        assert share(data, "a", make) is share(data, "a", make)
        assert len(made) == 2
        share(data, "large", make, lambda _: setup._room + 1)
        share(data, "large", make, lambda _: setup._room + 1)
        assert len(made) == 4
        del data
        gc.collect()
        share(VALID, "a", make)
    assert len(setup._entries) == 1
    setup.clear()
    assert not setup._entries


def test_fewer_trees_are_the_first_of_more_and_never_better():
    few, more = (clone(RANKERS["sampled"]).set_params(n_trees=n).fit(TRAIN, eval_set=VALID) for n in (3, 6))
    curves = [[row["validation"] for row in model.history_] for model in (few, more)]
    assert curves[0] == curves[1][:3]
    assert max(curves[0]) <= max(curves[1])
