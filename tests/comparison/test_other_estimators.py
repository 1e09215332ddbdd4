"""Estimators of other libraries in a comparison: the same as training them by hand on the same folds."""

from __future__ import annotations

import sys
from types import ModuleType

import lightgbm
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import gainful
from gainful import DataError, ParameterError, RegressionRanker

NDCG = gainful.metric("ndcg@10")
QUIET = {"verbose": -1, "n_jobs": 1, "num_leaves": 4, "min_child_samples": 1}


@pytest.fixture(scope="module")
def data():
    return gainful.make_artificial(30, n_docs=8, n_features=5, seed=1)


def assert_equals_training_by_hand(estimator, data, by_hand, **how):
    """``by_hand(train, valid, test)`` gives the scores of one fold."""
    found = gainful.compare({"it": estimator}, data, folds=3, seed=4, metrics="ndcg@10", **how)
    values = [NDCG.per_query(by_hand(*fold), fold[2]) for fold in folds_of(data)]
    assert np.array_equal(found.per_query("it", "ndcg@10"), np.concatenate(values))
    assert found.was_trained("it")
    return found


def folds_of(data):
    return [(one.train, one.valid, one.test) for one in gainful.folds(data, 3, seed=4)]


# -- LightGBM and scikit-learn -----------------------------------------------------------------------------------------


def test_lightgbm_gets_the_sizes_of_the_queries(data):
    def by_hand(train, valid, test):
        return lightgbm.LGBMRanker(n_estimators=5, **QUIET).fit(train.X, train.y, group=train.counts).predict(test.X)

    found = assert_equals_training_by_hand(lightgbm.LGBMRanker(n_estimators=5, **QUIET), data, by_hand)
    assert found.runs["it"][0].params["n_estimators"] == 5
    assert "Not trained here" not in found.table()


def test_lightgbm_stops_early_on_the_validation_part(data):
    made = lightgbm.LGBMRanker(n_estimators=200, early_stopping_rounds=3, **QUIET)
    lengths = []

    def by_hand(train, valid, test):
        model = lightgbm.LGBMRanker(n_estimators=200, early_stopping_rounds=3, **QUIET)
        newer = {"eval_X": valid.X, "eval_y": valid.y}
        names = model.fit.__code__.co_varnames
        given = newer if "eval_X" in names else {"eval_set": [(valid.X, valid.y)]}
        model.fit(train.X, train.y, group=train.counts, eval_group=[valid.counts], **given)
        lengths.append(model.best_iteration_)
        return model.predict(test.X)

    assert_equals_training_by_hand(made, data, by_hand)
    assert max(lengths) < 200
    assert not hasattr(made, "fitted_") or not made.fitted_  # the user's own object is not trained


def test_who_stops_early_beside_whom_is_said(data):
    """A ranker that chooses its iterations on the validation queries is not the equal of one that trains to the end."""
    whole, stopped = (
        lightgbm.LGBMRanker(n_estimators=5, **more, **QUIET) for more in ({}, {"early_stopping_rounds": 3})
    )
    ours = gainful.LambdaMART(n_trees=5, n_jobs=1, early_stopping=3)
    found = gainful.compare({"ours": ours, "theirs": whole}, data)
    sentence = "ours chose the number of iterations on them, theirs trained to the end of what was set."
    assert sentence in " ".join(found.table().split())
    assert any(sentence in line for line in found.to_dict()["remarks"])
    assert sentence in found.to_html()
    for rankers in ({"ours": ours, "theirs": stopped}, {"ours": gainful.RegressionRanker(), "theirs": whole}):
        assert not any("trained to the end" in line for line in gainful.compare(rankers, data).remarks)


def test_weights_of_queries_reach_lightgbm(data):
    weighted = data.replace(query_weights=np.linspace(0.1, 3.0, data.n_queries))

    def by_hand(train, valid, test):
        model = lightgbm.LGBMRanker(n_estimators=5, **QUIET)
        model.fit(train.X, train.y, group=train.counts, sample_weight=train.row_weights)
        return model.predict(test.X)

    assert_equals_training_by_hand(lightgbm.LGBMRanker(n_estimators=5, **QUIET), weighted, by_hand)


def test_a_pipeline_passes_the_queries_to_its_last_step(data):
    made = make_pipeline(StandardScaler(), lightgbm.LGBMRanker(n_estimators=5, **QUIET))

    def by_hand(train, valid, test):
        scaler = StandardScaler().fit(train.X)
        model = lightgbm.LGBMRanker(n_estimators=5, **QUIET)
        model.fit(scaler.transform(train.X), train.y, group=train.counts)
        return model.predict(scaler.transform(test.X))

    assert_equals_training_by_hand(made, data, by_hand)


def test_a_pipeline_may_end_with_one_of_gainfuls_rankers(data):
    made = make_pipeline(StandardScaler(), gainful.ranker("ranksvm"))

    def by_hand(train, valid, test):
        scaler = StandardScaler().fit(train.X)
        model = gainful.ranker("ranksvm").fit(scaler.transform(train.X), train.y, qid=train.qid)
        return model.predict(scaler.transform(test.X))

    assert_equals_training_by_hand(made, data, by_hand)


def test_a_regressor_of_scikit_learn(data):
    def by_hand(train, valid, test):
        return LinearRegression().fit(train.X, train.y).predict(test.X)

    assert_equals_training_by_hand(LinearRegression(), data, by_hand)


def test_a_classifier_of_several_grades_gives_the_expected_grade(data):
    def by_hand(train, valid, test):
        model = LogisticRegression(max_iter=1000).fit(train.X, train.y)
        return model.predict_proba(test.X) @ model.classes_

    assert_equals_training_by_hand(LogisticRegression(max_iter=1000), data, by_hand)


def test_a_classifier_of_two_grades_gives_its_decision(data):
    binary = data.replace(y=(data.y > 2).astype(float))

    def by_hand(train, valid, test):
        return LinearSVC().fit(train.X, train.y).decision_function(test.X)

    assert_equals_training_by_hand(LinearSVC(), binary, by_hand)
    found = gainful.compare(["regression", LinearSVC()], data)
    assert "LinearSVC separates several grades without probabilities" in found.failures["LinearSVC"]


def test_tuned_comparisons_leave_them_as_they_are_and_say_so(data):
    def by_hand(train, valid, test):
        both = gainful.RankingData.concatenate([train, valid])
        return LinearRegression().fit(both.X, both.y).predict(test.X)

    how = {"tune": 2, "refit": "all"}
    found = assert_equals_training_by_hand(LinearRegression(), data, by_hand, **how)
    assert "Not tuned, used with the parameters given: it." in found.table()
    row = next(line for line in found.table().splitlines() if line.strip().startswith("it "))
    assert row.count("–") == 0  # there is no column of tuning where nothing is tuned
    both = gainful.compare(["regression", LinearRegression()], data, **how)
    row = next(line for line in both.table().splitlines() if line.strip().startswith("LinearRegression"))
    assert row.split()[-3:-1] != ["–", "–"]
    assert "–" in row


def test_labels_are_class_names_with_numbers(data):
    found = gainful.compare([LinearRegression(), LinearRegression(fit_intercept=False), RegressionRanker()], data)
    assert found.labels == ("LinearRegression", "LinearRegression 2", "RegressionRanker()")
    assert gainful.compare(LinearRegression(), data).labels == ("LinearRegression",)


def test_a_failure_of_one_does_not_stop_the_others(data):
    class Broken:
        def fit(self, X, y):
            raise RuntimeError("no licence")

        def predict(self, X):
            raise AssertionError

    found = gainful.compare(["regression", Broken()], data)
    assert found.labels == ("regression",)
    assert found.failures["Broken"] == "RuntimeError: no licence"


def test_text_is_not_passed_on_as_numbers(data):
    frame = pd.DataFrame({"qid": data.qid, "grade": data.y, "x": data.X[:, 0], "c": ["a", "b"] * (data.n_rows // 2)})
    found = gainful.compare(["lambdamart:n_trees=2:n_jobs=1", LinearRegression()], frame)
    assert (
        "feature 'c' holds text, which compare does not pass to LinearRegression" in found.failures["LinearRegression"]
    )


def test_a_fitted_estimator_is_evaluated_as_it_is(data):
    model = LinearRegression().fit(data.X, data.y)
    assert gainful.evaluate(model, data, metrics="ndcg@10") == {"ndcg@10": NDCG(model.predict(data.X), data)}


def test_something_that_only_predicts_is_taken_as_it_is(data):
    booster = lightgbm.LGBMRanker(n_estimators=5, **QUIET).fit(data.X, data.y, group=data.counts).booster_
    found = gainful.compare([booster], data, metrics="ndcg@10")
    assert found.labels == ("Booster",)
    assert not found.was_trained("Booster")


def test_xgboost_itself(data):
    xgboost = pytest.importorskip("xgboost")
    how = {"n_estimators": 50, "early_stopping_rounds": 3, "n_jobs": 1, "max_depth": 2}

    def by_hand(train, valid, test):
        qid, other = (np.repeat(np.arange(part.n_queries), part.counts) for part in (train, valid))
        model = xgboost.XGBRanker(**how)
        model.fit(train.X, train.y, qid=qid, eval_set=[(valid.X, valid.y)], eval_qid=[other], verbose=False)
        return model.predict(test.X)

    assert_equals_training_by_hand(xgboost.XGBRanker(**how), data, by_hand)


def test_catboost_itself(data):
    catboost = pytest.importorskip("catboost")
    how = {"iterations": 50, "early_stopping_rounds": 3, "thread_count": 1, "depth": 2}
    how |= {"verbose": False, "allow_writing_files": False, "random_seed": 5}

    def by_hand(train, valid, test):
        qid, other = (np.repeat(np.arange(part.n_queries), part.counts) for part in (train, valid))
        model = catboost.CatBoostRanker(**how)
        model.fit(train.X, train.y, group_id=qid, eval_set=catboost.Pool(valid.X, valid.y, group_id=other))
        return model.predict(test.X)

    assert_equals_training_by_hand(catboost.CatBoostRanker(**how), data, by_hand)


# -- stand-ins for what need not be installed --------------------------------------------------------------------------


class Recorder:
    """Records what ``fit`` gets, as a class of another library would."""

    def __init__(self, early_stopping_rounds=None):
        self.early_stopping_rounds = early_stopping_rounds

    def get_params(self, deep=True):
        return {"early_stopping_rounds": self.early_stopping_rounds}

    def set_params(self, **params):
        return self

    def record(self, X, **given):
        calls.append({"rows": len(X), **given})
        return self

    def predict(self, X):
        return X[:, 0]


class LikeXGBoost(Recorder):
    def fit(self, X, y, *, group=None, qid=None, sample_weight=None, eval_set=None, eval_group=None, eval_qid=None,
            sample_weight_eval_set=None):  # fmt: skip
        return self.record(X, **{name: value for name, value in locals().items() if name not in ("self", "X", "y")})


class LikeCatBoost(Recorder):
    def fit(self, X, y=None, group_id=None, cat_features=None, sample_weight=None, group_weight=None, eval_set=None):
        return self.record(X, group_id=group_id, group_weight=group_weight, eval_set=eval_set)


calls: list[dict] = []


@pytest.fixture(autouse=True)
def _forget():
    calls.clear()


@pytest.mark.parametrize("weighted", [False, True])
def test_xgboost_gets_a_query_number_per_row_and_a_weight_per_query(weighted, data):
    weights = np.linspace(0.5, 2.0, data.n_queries) if weighted else None
    gainful.compare({"it": LikeXGBoost(early_stopping_rounds=5)}, data.replace(query_weights=weights), folds=3, seed=4)
    for call, (train, valid, _) in zip(calls, folds_of(data.replace(query_weights=weights)), strict=True):
        assert call["qid"].tolist() == np.repeat(np.arange(train.n_queries), train.counts).tolist()
        assert call["group"] is None
        assert np.array_equal(call["eval_set"][0][0], valid.X)
        assert call["eval_qid"][0].tolist() == np.repeat(np.arange(valid.n_queries), valid.counts).tolist()
        if weighted:
            assert np.array_equal(call["sample_weight"], train.query_weights)
            assert np.array_equal(call["sample_weight_eval_set"][0], valid.query_weights)
        else:
            assert call["sample_weight"] is None
            assert call["sample_weight_eval_set"] is None


def test_without_early_stopping_there_is_no_eval_set(data):
    gainful.compare({"a": LikeXGBoost(), "b": LikeCatBoost()}, data)
    assert [call["eval_set"] for call in calls] == [None, None]


def test_catboost_gets_group_ids_and_a_pool(data, monkeypatch):
    catboost = ModuleType("catboost")
    catboost.Pool = lambda X, y, group_id, group_weight: (X, y, group_id, group_weight)
    monkeypatch.setitem(sys.modules, "catboost", catboost)
    gainful.compare({"it": LikeCatBoost(early_stopping_rounds=5)}, data, folds=3, seed=4)
    for call, (train, valid, _) in zip(calls, folds_of(data), strict=True):
        assert call["group_id"].tolist() == np.repeat(np.arange(train.n_queries), train.counts).tolist()
        X, y, group_id, group_weight = call["eval_set"]
        assert np.array_equal(X, valid.X)
        assert np.array_equal(y, valid.y)
        assert group_id.tolist() == np.repeat(np.arange(valid.n_queries), valid.counts).tolist()
        assert group_weight is None


def test_weights_of_documents_and_catboosts_pairwise_losses(data):
    """CatBoost leaves them out of such a loss."""
    weighted = data.replace(document_weights=np.linspace(0.1, 2.0, data.n_rows), query_weights=np.ones(data.n_queries))
    catboost = pytest.importorskip("catboost")
    how = {"iterations": 3, "verbose": False, "allow_writing_files": False, "thread_count": 1}
    pairwise = {
        "it": catboost.CatBoostRanker(**how),
        "lists": catboost.CatBoostRanker(loss_function="QueryRMSE", **how),
    }
    found = gainful.compare(pairwise, weighted)
    assert list(found.runs) == ["lists"]
    assert found.failures["it"].startswith("CatBoost's YetiRank weighs whole queries, but the weight differs between")


def test_boosters_in_memory_are_used_as_they_are(data):
    X, y, how = data.X, data.y, {"min_data_in_leaf": 2, "verbosity": -1, "num_threads": 1}
    booster = lightgbm.train(how, lightgbm.Dataset(X, y), num_boost_round=4)
    xgboost = pytest.importorskip("xgboost")
    other = xgboost.train({"nthread": 1}, xgboost.DMatrix(X, y), num_boost_round=4)
    scores = {"it": booster.predict(X), "xgb": other.predict(xgboost.DMatrix(X))}
    for name, model in (("it", booster), ("xgb", other)):
        found = gainful.evaluate(model, data, metrics=["ndcg@10"])
        assert found == pytest.approx(gainful.evaluate(scores[name], data, metrics=["ndcg@10"]), abs=1e-12)
    compared = gainful.compare({"it": booster, "xgb": other}, data, metrics=["ndcg@10"])
    assert not compared.failures
    assert any("Not trained here: it, xgb" in note for note in compared.remarks)
    targets = xgboost.train({"nthread": 1}, xgboost.DMatrix(X, np.column_stack([y, y])), num_boost_round=2)
    with pytest.raises(ParameterError, match=r"this xgboost.Booster cannot be used: it predicts several targets"):
        gainful.compare([targets], data)


def test_an_estimator_that_cannot_be_cloned_is_copied(data):
    class Plain:
        fitted = 0

        def fit(self, X, y):
            self.fitted += 1

        def predict(self, X):
            assert self.fitted == 1  # a fresh one for each fold
            return X[:, 0]

    made = Plain()
    found = gainful.compare([made], data, folds=3)
    assert found.labels == ("Plain",)
    assert made.fitted == 0


def test_initial_scores_are_not_passed_on(artificial):
    data = artificial.replace(init_scores=np.ones(artificial.n_rows))
    found = gainful.compare([LinearRegression(), "regression"], data)
    assert "initial scores, which compare does not pass to LinearRegression" in found.table()


# -- features of text --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shop(data):
    rng = np.random.default_rng(3)
    brand = rng.choice(["acme", "bolt", "cog", "dyn"], data.n_rows)
    grade = np.clip(np.round(1.5 * (brand == "bolt") + 0.5 * data.X[:, 0]), 0, 3)
    frame = pd.DataFrame({"qid": data.qid, "grade": grade, "x": data.X[:, 0], "brand": brand})
    frame.loc[::11, "brand"] = None
    return frame


def as_frame(part, shop):
    """The rows of a part as a frame with a column of pandas' categories."""
    words = sorted(shop["brand"].dropna().unique())
    codes = np.where(np.isnan(part.X[:, 1]), -1, part.X[:, 1]).astype(int)
    return pd.DataFrame({"x": part.X[:, 0], "brand": pd.Categorical.from_codes(codes, categories=words)})


def test_lightgbm_gets_categories_as_from_a_frame(shop):
    how = {"n_estimators": 5, "min_data_per_group": 1, "cat_smooth": 1.0, **QUIET}

    def by_hand(train, valid, test):
        model = lightgbm.LGBMRanker(**how).fit(as_frame(train, shop), train.y, group=train.counts)
        return model.predict(as_frame(test, shop))

    assert_equals_training_by_hand(lightgbm.LGBMRanker(**how), gainful.from_frame(shop), by_hand)


def test_xgboost_gets_categories_as_from_a_frame(shop):
    xgboost = pytest.importorskip("xgboost")
    how = {"n_estimators": 5, "max_depth": 2, "n_jobs": 1}

    def by_hand(train, valid, test):
        model = xgboost.XGBRanker(enable_categorical=True, **how)
        qid = np.repeat(np.arange(train.n_queries), train.counts)
        return model.fit(as_frame(train, shop), train.y, qid=qid).predict(as_frame(test, shop))

    assert_equals_training_by_hand(xgboost.XGBRanker(**how), gainful.from_frame(shop), by_hand)


@pytest.mark.parametrize("more", [{}, {"early_stopping_rounds": 2}])
def test_catboost_gets_words(shop, more):
    catboost = pytest.importorskip("catboost")
    how = {"iterations": 8, "depth": 2, "verbose": False, "allow_writing_files": False, "thread_count": 1} | more

    def words(part):
        frame = as_frame(part, shop)
        return frame.assign(brand=frame["brand"].astype(object).fillna("").astype(str))

    def by_hand(train, valid, test):
        qid, other = (np.repeat(np.arange(part.n_queries), part.counts) for part in (train, valid))
        pool = catboost.Pool(words(valid), valid.y, group_id=other, cat_features=["brand"])
        held = {"eval_set": pool} if more else {}
        model = catboost.CatBoostRanker(**how)
        model.fit(words(train), train.y, group_id=qid, cat_features=["brand"], **held)
        return model.predict(words(test))

    assert_equals_training_by_hand(catboost.CatBoostRanker(**how), gainful.from_frame(shop), by_hand)


def test_test_data_may_have_other_words(shop):
    """Its codes are those of the training data; a new word is missing."""
    rows = shop["qid"] < 20
    other = shop[~rows].assign(brand=lambda f: f["brand"].replace({"acme": "zeta", "bolt": "bolt"}))
    model = lightgbm.LGBMRanker(n_estimators=5, min_data_per_group=1, cat_smooth=1.0, **QUIET)
    found = gainful.compare({"it": model}, shop[rows], test=other, metrics=["ndcg@10"])
    missing = other.assign(brand=other["brand"].replace({"zeta": None}))
    same = gainful.compare({"it": model}, shop[rows], test=missing, metrics=["ndcg@10"])
    assert found.per_query("it", "ndcg@10").tolist() == same.per_query("it", "ndcg@10").tolist()


def test_a_model_that_was_fitted_elsewhere_sees_no_codes(shop):
    model = LinearRegression().fit(np.zeros((3, 2)), [0, 1, 2])
    with pytest.raises(DataError, match="feature 'brand' holds text, of which a function or model of X would see only"):
        gainful.evaluate(model, shop)
