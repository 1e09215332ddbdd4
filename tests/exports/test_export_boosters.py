"""Exports to LightGBM and XGBoost: files that the makers themselves load, with the same scores and contributions."""

from __future__ import annotations

import json

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from export_examples import TREES, awkward

import gainful
from gainful.trees.booster_text import check_booster_text

CATEGORIES = {"categorical": [5], "engine_params": {"cat_smooth": 1, "min_data_per_group": 1}}


def trained(missing, categories):
    X, y, qid = awkward(missing)
    X = X.astype(np.float32).astype(np.float64)
    return gainful.LambdaMART(**TREES, **(CATEGORIES if categories else {})).fit(X, y, qid=qid), X


@pytest.mark.parametrize("categories", [False, True])
@pytest.mark.parametrize("missing", [False, True])
def test_lightgbm_loads_its_text(missing, categories, tmp_path):
    model, X = trained(missing, categories)
    path = tmp_path / "model.txt"
    gainful.export(model, path, to="lightgbm", check_on=X)
    booster = lgb.Booster(model_file=path)
    assert np.array_equal(booster.predict(X), model.predict(X))
    np.testing.assert_allclose(booster.predict(X, pred_contrib=True), model.contributions(X), atol=1e-12)
    assert check_booster_text(path.read_text(), X.shape[1]) == booster.num_trees() == TREES["n_trees"]
    assert booster.feature_name()[0] == "Column_0"
    again = gainful.load(path)
    assert np.array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("suffix", [".json", ".ubj"])
@pytest.mark.parametrize("categories", [False, True])
@pytest.mark.parametrize("missing", [False, True])
def test_xgboost_loads_its_model(missing, categories, suffix, tmp_path):
    xgb = pytest.importorskip("xgboost")
    model, X = trained(missing, categories)
    path = tmp_path / f"model{suffix}"
    gainful.export(model, path, to="xgboost", check_on=X)
    booster = xgb.Booster(model_file=path)
    rows = xgb.DMatrix(X, feature_types=booster.feature_types, enable_categorical=True)
    size = np.abs(model.contributions(X)).sum(axis=1).max()
    np.testing.assert_allclose(booster.predict(rows), model.predict(X), atol=1e-6 * size)
    np.testing.assert_allclose(booster.predict(rows, pred_contribs=True), model.contributions(X), atol=2e-6 * size)
    booster.save_model(tmp_path / "again.json")  # XGBoost found every part that it needs
    np.testing.assert_allclose(gainful.load(tmp_path / "again.json").predict(X), model.predict(X), atol=1e-6 * size)


def test_the_ranker_of_xgboost_takes_the_model(tmp_path):
    """As eland does for Elasticsearch: through XGBRanker, its objective and its table of trees."""
    xgb = pytest.importorskip("xgboost")
    X, y, qid = awkward(missing=True)
    names = ["bm25", "title match", "half steps", "price", "clicks", "shop"]
    model = gainful.LambdaMART(**TREES).fit(pd.DataFrame(X, columns=names), y, qid=qid)
    gainful.export(model, tmp_path / "m.json", to="xgboost")
    ranker = xgb.XGBRanker()
    ranker.load_model(tmp_path / "m.json")
    assert ranker.objective == "rank:ndcg"
    assert np.asarray(ranker.base_score).item() == 0
    table = ranker.get_booster().trees_to_dataframe()
    assert set(table["Feature"]) <= {*names, "Leaf"}
    total = sum(_walk(table[table["Tree"] == tree], dict(zip(names, X[3], strict=True))) for tree in range(25))
    assert total == pytest.approx(model.predict(X[3:4])[0], abs=1e-5)


def _walk(table, row):
    """One tree of XGBoost's table, as eland reads it."""
    nodes = {node["ID"]: node for node in table.to_dict("records")}
    node = table.iloc[0].to_dict()
    while node["Feature"] != "Leaf":
        x = np.float32(row[node["Feature"]])
        side = "Missing" if np.isnan(x) else "Yes" if x < np.float32(node["Split"]) else "No"
        node = nodes[node[side]]
    return node["Gain"]


def test_models_without_a_tree_or_a_split_are_loaded(tmp_path):
    xgb = pytest.importorskip("xgboost")
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.tile([0.0, 1.0], 20)
    for n_rounds, name in ((1, "rankboost"), (2, "frank")):
        model = gainful.ranker(name, n_rounds=n_rounds).fit(X, y, qid=np.repeat([1, 2], 20))
        gainful.export(model, tmp_path / "m.txt", to="lightgbm")
        gainful.export(model, tmp_path / "m.ubj", to="xgboost")
        np.testing.assert_allclose(lgb.Booster(model_file=tmp_path / "m.txt").predict(X), model.predict(X), atol=1e-12)
        found = xgb.Booster(model_file=tmp_path / "m.ubj").predict(xgb.DMatrix(X))
        rounded = model.predict(X.astype(np.float32).astype(np.float64))
        np.testing.assert_allclose(found, rounded, atol=1e-5)


def fitted(*names):
    X, y, qid = awkward(missing=False)
    frame = pd.DataFrame(X[:, : len(names)], columns=list(names))
    return gainful.LambdaMART(n_trees=3, n_leaves=4, n_jobs=1).fit(frame, y, qid=qid)


def test_names_that_lightgbm_does_not_take_are_changed_with_a_note(tmp_path):
    done = gainful.export(fitted("a b", "a_b", "c:d"), tmp_path / "m.txt", to="lightgbm")
    assert lgb.Booster(model_file=tmp_path / "m.txt").feature_name() == ["a_b", "a_b_2", "c_d"]
    assert done.notes == ("LightGBM has no name 'a b'; the feature is called 'a_b' there",)


def test_names_that_xgboost_does_not_take_are_refused(tmp_path):
    with pytest.raises(gainful.GainfulError, match=r"no feature names with \[, \] or <, as in 'a\[0\]'; rename it"):
        gainful.export(fitted("b", "a[0]"), tmp_path / "m.json", to="xgboost")


def test_features_without_names_get_none_and_names_that_eland_shifts_get_a_note(tmp_path):
    X, y, qid = awkward(missing=False)
    model = gainful.LambdaMART(n_trees=3, n_leaves=4, n_jobs=1).fit(X, y, qid=qid)
    assert gainful.export(model, tmp_path / "m.json", to="xgboost").notes == ()
    assert json.loads((tmp_path / "m.json").read_text())["learner"]["feature_names"] == []
    assert gainful.export(fitted("f0", "f1"), tmp_path / "m.json", to="xgboost").notes == ()
    (note,) = gainful.export(fitted("f1", "f2"), tmp_path / "m.json", to="xgboost").notes
    assert note.startswith("eland reads the name 'f1' as feature number 1, counted from 0")


def test_the_suffix_says_which_form_of_xgboost(tmp_path):
    with pytest.raises(gainful.ParameterError, match=r"a \.json or \.ubj file.*was '\.model'"):
        gainful.export(fitted("a", "b"), tmp_path / "m.model", to="xgboost")
