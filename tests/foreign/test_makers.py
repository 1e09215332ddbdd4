"""Models that the makers trained: gainful scores, explains and saves them as the makers do."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from small_models import catboost_model, lightgbm_model, xgboost_model

import gainful

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import foreign_models

pytest.importorskip("xgboost")
pytest.importorskip("catboost")


@pytest.mark.parametrize("maker", list(foreign_models.MAKERS))
def test_random_models_score_as_their_makers_do(maker):
    counts, faults = foreign_models.run(maker, 12, seed=7)
    assert not faults
    assert counts["equal"] >= 10


def test_the_comparison_notices_a_wrong_leaf(tmp_path):
    made = foreign_models.MAKERS["xgboost"](np.random.default_rng(1), tmp_path)
    assert foreign_models.fault_of(made, tmp_path) is None
    made.expected[3] += 1e-4 * made.size
    assert foreign_models.fault_of(made, tmp_path).startswith("scores differ by")


def test_contributions_are_those_of_xgboost(tmp_path):
    import xgboost as xgb

    booster, data, X = xgboost_model(tmp_path / "m.ubj", categories=2, max_cat_to_onehot=1)
    model = gainful.load(tmp_path / "m.ubj")
    found = model.contributions(X)
    np.testing.assert_allclose(found, booster.predict(data, pred_contribs=True), atol=2e-6)
    assert isinstance(xgb.Booster(model_file=tmp_path / "m.ubj"), xgb.Booster)


def test_contributions_are_those_of_lightgbm(tmp_path):
    booster, X = lightgbm_model(tmp_path / "m.txt")
    np.testing.assert_allclose(gainful.load(tmp_path / "m.txt").contributions(X), booster.predict(X, pred_contrib=True))


def test_linear_leaves_of_lightgbm_score_and_have_no_contributions(tmp_path):
    booster, X = lightgbm_model(tmp_path / "m.txt", linear_tree=True)
    model = gainful.load(tmp_path / "m.txt")
    np.testing.assert_array_equal(model.predict(X), booster.predict(X))
    with pytest.raises(gainful.GainfulError, match="have no contributions"):
        model.contributions(X)


def test_contributions_of_a_random_forest_of_lightgbm_add_up(tmp_path):
    _, X = lightgbm_model(tmp_path / "m.txt", boosting="rf", bagging_freq=1, bagging_fraction=0.6)
    model = gainful.load(tmp_path / "m.txt")
    np.testing.assert_allclose(model.contributions(X).sum(axis=1), model.predict(X), atol=1e-12)


def test_a_random_forest_of_lightgbm_is_exported(tmp_path):
    _, X = lightgbm_model(tmp_path / "m.txt", boosting="rf", bagging_freq=1, bagging_fraction=0.6)
    done = gainful.export(gainful.load(tmp_path / "m.txt"), tmp_path / "m.json", to="json", check_on=X)
    assert done.largest_difference < 1e-12


def test_contributions_are_those_of_catboost(tmp_path):
    import catboost

    model, X = catboost_model(tmp_path / "m.json", loss_function="RMSE")
    expected = model.get_feature_importance(catboost.Pool(X), type="ShapValues")
    np.testing.assert_allclose(gainful.load(tmp_path / "m.json").contributions(X), expected, atol=1e-6)


@pytest.mark.parametrize("to", ["elasticsearch", "solr", "onnx", "json", "lightgbm", "xgboost"])
@pytest.mark.parametrize("maker", ["lightgbm", "xgboost", "catboost"])
def test_models_go_on_to_every_engine(maker, to, tmp_path):
    """Trained elsewhere, exported from here: every file is checked row by row before it is written."""
    path = tmp_path / ("m.txt" if maker == "lightgbm" else "m.json")
    X = {"lightgbm": lightgbm_model, "xgboost": xgboost_model, "catboost": catboost_model}[maker](path)[-1]
    done = gainful.export(gainful.load(path), tmp_path / "out.json", to=to, check_on=X)
    assert done.checks["data"].n_rows == len(X)


def test_categories_with_missing_values_go_to_onnx_and_xgboost_but_not_to_lightgbm(tmp_path):
    import xgboost as xgb

    booster, data, X = xgboost_model(tmp_path / "m.json", categories=2, max_cat_to_onehot=1, seed=3)
    model = gainful.load(tmp_path / "m.json")
    splits = [(tree, split) for tree in model.ensemble_.trees for split in tree.categories]
    assert any(tree.nan_left[split] for tree, split in splits)  # otherwise this test says nothing
    gainful.export(model, tmp_path / "m.onnx", to="onnx", check_on=X)
    gainful.export(model, tmp_path / "again.ubj", to="xgboost", check_on=X)
    again = xgb.Booster(model_file=tmp_path / "again.ubj")
    assert again.feature_types == booster.feature_types
    np.testing.assert_allclose(again.predict(data), booster.predict(data), atol=1e-5)
    with pytest.raises(gainful.GainfulError, match=r'to lightgbm: a missing value.*use to="xgboost"'):
        gainful.export(model, tmp_path / "m.txt", to="lightgbm")


def test_a_classifier_scores_by_its_expected_class(tmp_path):
    import lightgbm as lgb

    X = np.random.default_rng(0).normal(size=(200, 3))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    params = {"objective": "multiclass", "num_class": 3, "verbosity": -1, "num_threads": 1}
    booster = lgb.train(params, lgb.Dataset(X, y), 4)
    booster.save_model(tmp_path / "m.txt")
    model = gainful.load(tmp_path / "m.txt")
    np.testing.assert_allclose(model.predict(X), booster.predict(X) @ [0, 1, 2])
    assert "expected classes" in model.training_["notes"][0]
    with pytest.raises(gainful.GainfulError, match="expectation over grades"):
        gainful.export(model, tmp_path / "m.json", to="xgboost")


def test_an_interrupted_xgboost_fit_counts_all_trees_and_says_so(tmp_path):
    import xgboost as xgb

    booster, data, X = xgboost_model(tmp_path / "m.json")
    booster.set_attr(best_iteration="1")
    booster.save_model(tmp_path / "m.json")
    model = gainful.load(tmp_path / "m.json")
    np.testing.assert_allclose(model.predict(X), xgb.Booster(model_file=tmp_path / "m.json").predict(data), atol=1e-6)
    assert "best iteration" in model.training_["notes"][0]


def shop(seed, shops=("c", "a", "dyn"), sizes=(30, 10, 20)):
    import pandas as pd

    rng = np.random.default_rng(seed)
    shop = pd.Categorical(rng.choice(shops, 300))
    frame = pd.DataFrame({"price": rng.normal(size=300), "shop": shop, "size": pd.Categorical(rng.choice(sizes, 300))})
    frame.loc[::9, "shop"] = None
    return frame, 1.0 * (frame["shop"] == "a") + (frame["size"].astype(int) == 20) + 0.2 * frame["price"]


def of_lightgbm(frame, y, path):
    import lightgbm as lgb

    params = {"verbosity": -1, "num_threads": 1, "min_data_per_group": 1, "cat_smooth": 1.0}
    booster = lgb.train(params, lgb.Dataset(frame, y), 5)
    booster.save_model(path)
    return booster.predict


def of_xgboost(frame, y, path):
    xgb = pytest.importorskip("xgboost")
    booster = xgb.train(
        {"nthread": 1, "max_depth": 3}, xgb.DMatrix(frame, y, enable_categorical=True, nthread=1), num_boost_round=5
    )
    booster.save_model(path)
    return lambda rows: booster.predict(xgb.DMatrix(rows, enable_categorical=True, nthread=1))


@pytest.mark.parametrize(("train", "suffix"), [(of_lightgbm, "txt"), (of_xgboost, "json"), (of_xgboost, "ubj")])
def test_words_of_a_frame_are_those_of_training(train, suffix, tmp_path):
    """The maker's predictions on frames with words: in another order of words and columns, missing and unseen."""
    frame, y = shop(0)
    predict = train(frame, y, tmp_path / f"m.{suffix}")
    model = gainful.load(tmp_path / f"m.{suffix}")
    assert model.categories_ == (None, ("a", "c", "dyn"), ("10", "20", "30"))
    texts = frame.assign(size=frame["size"].astype(str))
    np.testing.assert_allclose(model.predict(texts), predict(frame), atol=1e-6)
    few = frame[frame["shop"].isin(["c", "dyn"]) & (frame["size"] != 10)].reset_index(drop=True)
    words = few.assign(shop=few["shop"].astype(str), size=few["size"].astype(str), title="x")[
        ["title", "size", "shop", "price"]
    ]
    np.testing.assert_allclose(model.predict(words), predict(few), atol=1e-6)
    with pytest.warns(gainful.DataWarning, match="column 'size' holds numbers written as text"):
        data = gainful.from_frame(words.assign(qid=1, grade=0).drop(columns=["title"]))  # with codes of its own
    np.testing.assert_allclose(model.predict(data), predict(few), atol=1e-6)
    unseen, missing = words.head(3).assign(shop="new"), words.head(3).assign(shop=None)
    assert model.predict(unseen).tolist() == model.predict(missing).tolist()
    data = gainful.from_frame(frame.assign(qid=1, grade=0))
    for numbers in (frame, frame.assign(size=frame["size"].astype(float)), data):
        np.testing.assert_allclose(model.predict(numbers), predict(frame), atol=1e-6)  # "10" is 10
    unseen, missing = few.head(3).assign(size=40), few.head(3).assign(size=np.nan)
    assert model.predict(unseen).tolist() == model.predict(missing).tolist()
    with pytest.raises(gainful.DataError, match="feature 'shop' of X holds numbers, but held text in training"):
        model.predict(frame.assign(shop=1.0))
    with pytest.raises(gainful.DataError, match="feature 'price' of X holds text, but held numbers in training"):
        model.predict(frame.assign(price="cheap"))
    gainful.save(model, tmp_path / "m.gainful")
    assert gainful.load(tmp_path / "m.gainful").predict(texts).tolist() == model.predict(texts).tolist()


def test_words_beyond_ascii(tmp_path):
    """XGBoost counts their letters, not their bytes, and so cuts the last one short."""
    frame, y = shop(0, shops=("a", "über"))
    predict = of_lightgbm(frame, y, tmp_path / "m.txt")
    texts = frame.assign(size=frame["size"].astype(str))
    np.testing.assert_allclose(gainful.load(tmp_path / "m.txt").predict(texts), predict(frame), atol=1e-6)
    of_xgboost(frame, y, tmp_path / "m.json")
    with pytest.raises(gainful.FormatError, match="letters beyond ASCII, which XGBoost cuts short"):
        gainful.load(tmp_path / "m.json")


def test_lightgbm_frames_whose_categories_have_one_value(tmp_path):
    """LightGBM says which features are categories only where they have several values."""
    frame, y = shop(0)
    predict = of_lightgbm(one := frame.assign(shop=pd_category(["a"] * 300)), y, tmp_path / "m.txt")
    model = gainful.load(tmp_path / "m.txt")
    assert model.categories_ == (None, ("a",), ("10", "20", "30"))
    np.testing.assert_allclose(model.predict(one.assign(size=one["size"].astype(str))), predict(one), atol=1e-6)
    of_lightgbm(one.assign(price=1.0), y, tmp_path / "m.txt")
    with pytest.raises(gainful.FormatError, match="does not say which features they are"):
        gainful.load(tmp_path / "m.txt")


def pd_category(values):
    import pandas as pd

    return pd.Categorical(values)


def test_lightgbm_codes_of_a_frame_are_named_in_a_note(tmp_path):
    import lightgbm as lgb
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"shop": pd.Categorical(rng.choice(["a", "b", "c"], 200)), "price": rng.normal(size=200)})
    y = (frame["shop"].cat.codes + frame["price"] > 1).astype(float)
    params = {"objective": "binary", "verbosity": -1, "num_threads": 1, "min_data_per_group": 1}
    booster = lgb.train(params, lgb.Dataset(frame, y), 5)
    booster.save_model(tmp_path / "m.txt")
    model = gainful.load(tmp_path / "m.txt")
    codes = np.column_stack([frame["shop"].cat.codes, frame["price"]]).astype(float)
    np.testing.assert_allclose(model.predict(codes), booster.predict(frame, raw_score=True))
    assert list(model.feature_names_in_) == ["shop", "price"]
    assert len(model.training_["notes"]) == 2
