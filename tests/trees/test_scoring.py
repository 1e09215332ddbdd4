"""The compiled walk beside LightGBM's own scores, to the last bit."""

import gc

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import gainful
from gainful.rankers.scorers import Sum, Trees, prepare
from gainful.trees import scoring
from gainful.trees.scoring import CompiledTrees, compiled_trees
from gainful.trees.tree_text import ZERO_BAND

N_FEATURES = 5


def features(seed, kind):
    X = np.round(np.random.default_rng(seed).normal(size=(400, N_FEATURES)), 1)
    X[:, 1] *= 1e-34  # around the band that LightGBM reads as 0
    if kind != "none":
        X[np.random.default_rng(seed + 1).random(X.shape) < 0.2] = np.nan
    return X


def boosted(kind, **params):
    X = features(3, kind)
    y = np.nan_to_num(X[:, 0]) + np.sign(np.nan_to_num(X[:, 1])) + np.isnan(X[:, 2]) + (X[:, 3] == 0)
    params = {"objective": "regression", "num_leaves": 8, "min_data_in_leaf": 3, "verbosity": -1, "num_threads": 1,
              "zero_as_missing": kind == "zero"} | params  # fmt: skip
    return lgb.train(params, lgb.Dataset(X, y, params={"verbosity": -1}), 20)


@pytest.fixture(scope="module")
def boosters():
    return {kind: boosted(kind) for kind in ("none", "nan", "zero")}


VALUES = st.one_of(
    st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0, ZERO_BAND, -ZERO_BAND, 2 * ZERO_BAND, -2 * ZERO_BAND, 1e308]),
    st.floats(-3, 3).map(lambda x: round(x, 1)),
    st.floats(-3, 3).map(lambda x: x * 1e-34),
    st.floats(),
)


@pytest.mark.parametrize("kind", ["none", "nan", "zero"])
@settings(deadline=None, max_examples=60)
@given(X=st.integers(1, 40).flatmap(lambda n: arrays(np.float64, (n, N_FEATURES), elements=VALUES)))
def test_scores_are_lightgbms_to_the_last_bit(boosters, kind, X):
    booster = boosters[kind]
    ours = CompiledTrees.of(booster, -1).scores(X)
    assert ours.tobytes() == booster.predict(X, num_threads=1).tobytes()


@pytest.mark.parametrize("n", [1, 7, 8, 15, 16, 17, 400])
def test_rows_on_thresholds(boosters, n):
    for kind, booster in boosters.items():
        X = features(3, kind)[:n]
        thresholds = booster.trees_to_dataframe()[["split_feature", "threshold"]].dropna()
        for i, (name, threshold) in enumerate(thresholds.to_numpy()):
            beside = [threshold, np.nextafter(threshold, 9), np.nextafter(threshold, -9)]
            X[i % n, int(name.removeprefix("Column_"))] = beside[i % 3]
        for iterations in (1, 7, -1):
            ours = CompiledTrees.of(booster, iterations)
            assert ours.scores(X).tobytes() == booster.predict(X, num_iteration=iterations).tobytes()
        single = np.asfortranarray(np.clip(X, -1e38, 1e38).astype(np.float32))
        assert CompiledTrees.of(booster, -1).scores(single, n_jobs=2).tobytes() == booster.predict(single).tobytes()


def test_several_sums_and_trees_without_splits():
    X = features(3, "nan")
    params = {"objective": "none", "num_class": 3, "verbosity": -1, "num_threads": 1}
    booster = lgb.Booster(params, lgb.Dataset(X, np.zeros(len(X)), params={"verbosity": -1}))
    for _ in range(4):
        booster.update(fobj=lambda scores, _: (scores - np.nan_to_num(X[:, :3]) * [1, 0, 1], np.ones((len(X), 3))))
    assert CompiledTrees.of(booster, -1).scores(X).tobytes() == booster.predict(X).tobytes()
    flat = boosted("none", min_data_in_leaf=300)
    assert (CompiledTrees.of(flat, -1).scores(X) == flat.predict(X)).all()


def test_kinds_that_are_left_to_lightgbm():
    assert CompiledTrees.of(boosted("none", linear_tree=True), -1) is None
    assert CompiledTrees.of(boosted("none", boosting="rf", bagging_freq=1, bagging_fraction=0.5), -1) is None
    X = np.random.default_rng(0).integers(0, 5, (300, 2)).astype(float)
    params = {"verbosity": -1, "min_data_per_group": 1, "num_threads": 1}
    by_category = lgb.train(params, lgb.Dataset(X, X[:, 0] % 2, categorical_feature=[0], params={"verbosity": -1}), 5)
    assert CompiledTrees.of(by_category, -1) is None
    poisson = lgb.train(params | {"objective": "poisson"}, lgb.Dataset(X, X[:, 0], params={"verbosity": -1}), 5)
    assert CompiledTrees.of(poisson, -1) is None
    assert CompiledTrees.of(lgb.Booster(params, lgb.Dataset(X, X[:, 0], params={"verbosity": -1})), -1) is None


def test_a_model_changes_over_once_it_pays(monkeypatch):
    data = gainful.make_artificial(10, n_docs=20, n_features=4, seed=0)
    model = gainful.LambdaMART(n_trees=10, n_leaves=4, n_jobs=1).fit(data)
    monkeypatch.setattr(scoring, "STEPS_BEFORE", 3 * 10 * 200)
    expected = model.booster_.predict(data.X)
    used = []
    plain = CompiledTrees.scores
    monkeypatch.setattr(CompiledTrees, "scores", lambda *given: used.append(1) or plain(*given))
    for _ in range(4):
        assert (model.predict(data) == expected).all()
    assert len(used) == 2
    half = Trees(model.booster_, 5)
    prepare(Sum((half,), (2.0,)))
    assert (half.scores(data.X) == model.booster_.predict(data.X, num_iteration=5)).all()
    assert len(used) == 3


def test_a_booster_is_not_kept_alive():
    before, booster = len(scoring._uses), boosted("none")
    assert compiled_trees(booster, -1, 1, at_once=True) is not None
    assert len(scoring._uses) == before + 1
    del booster
    gc.collect()
    assert len(scoring._uses) <= before
