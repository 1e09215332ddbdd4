"""LambdaMART is LightGBM's lambdarank under our names, without its limits on grades."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pytest

import gainful
from gainful import DataError, GainfulError, LambdaMART, ParameterError, RankingData

QUICK = {"n_trees": 15, "n_leaves": 6, "n_jobs": 1}


def reference(data, **params):
    """The same model straight from LightGBM."""
    settings = {"objective": "lambdarank", "num_leaves": 6, "num_threads": 1, "verbosity": -1, "seed": 0,
                "deterministic": True, "force_row_wise": True, **params}  # fmt: skip
    return lgb.train(settings, lgb.Dataset(data.X, label=data.y, group=data.counts, params=settings), 15)


def test_equals_lightgbm_itself(parts):
    train, _, test = parts
    model = LambdaMART(**QUICK).fit(train)
    assert np.array_equal(model.predict(test), reference(train).predict(test.X))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"learning_rate": 0.3}, {"learning_rate": 0.3}),
        ({"min_docs_in_leaf": 60}, {"min_data_in_leaf": 60}),
        ({"l2": 5.0}, {"lambda_l2": 5.0}),
        ({"bins": 15}, {"max_bin": 15}),
        ({"colsample": 0.5}, {"feature_fraction": 0.5}),
        ({"truncation": 3}, {"lambdarank_truncation_level": 3}),
        ({"sigmoid": 3.0}, {"sigmoid": 3.0}),
        ({"normalize": False}, {"lambdarank_norm": False}),
        ({"gain": "linear"}, {"label_gain": [0, 1, 2, 3, 4]}),
        ({"random_state": 5, "colsample": 0.5}, {"seed": 5, "feature_fraction": 0.5}),
        ({"engine_params": {"max_depth": 2}}, {"max_depth": 2}),
    ],
    ids=lambda value: ",".join(value),
)
def test_every_parameter_reaches_the_engine(parts, ours, theirs):
    train, _, test = parts
    scores = LambdaMART(**QUICK | ours).fit(train).predict(test)
    assert np.array_equal(scores, reference(train, **theirs).predict(test.X))
    assert not np.array_equal(scores, reference(train).predict(test.X))


@pytest.mark.filterwarnings("ignore:the grades have:gainful.DataWarning")
@pytest.mark.filterwarnings("ignore:the highest grade is:gainful.DataWarning")
def test_grades_may_be_many_large_and_real(parts):
    train, _, test = parts
    plain = LambdaMART(**QUICK).fit(train).predict(test)
    # Linear gains of the gains 2^g − 1 are the exponential gains of the grades.
    real = LambdaMART(**QUICK, gain="linear").fit(train.X, 2.0**train.y - 1.0, qid=train.qid)
    assert np.array_equal(real.predict(test), plain)
    many = LambdaMART(**QUICK, gain="linear").fit(train.X, np.arange(train.n_rows) * 0.5, qid=train.qid)
    assert np.isfinite(many.predict(test)).all()


def test_early_stopping_keeps_the_best_iteration(parts):
    train, valid, _ = parts
    model = LambdaMART(n_trees=400, n_leaves=31, learning_rate=0.5, early_stopping=7, n_jobs=1, eval_metric="ndcg@3")
    model.fit(train, eval_set=valid)
    values = [row["validation"] for row in model.history_]
    assert model.n_iter_ < 400
    assert model.best_iteration_ == int(np.argmax(values)) + 1 == model.n_iter_ - 7
    assert gainful.metric("ndcg@3")(model.predict(valid), valid) == pytest.approx(max(values))


def test_patience_for_all_trees_grows_them_all_and_keeps_the_best(parts):
    train, valid, _ = parts
    model = LambdaMART(n_trees=40, learning_rate=0.5, early_stopping=40, n_jobs=1).fit(train, eval_set=valid)
    assert model.n_iter_ == 40
    assert model.best_iteration_ == int(np.argmax([row["validation"] for row in model.history_])) + 1 < 40


def test_importances_find_the_feature_that_matters(rng):
    X = rng.random((600, 4))
    y = (X[:, 2] > 0.6).astype(int) + (X[:, 2] > 0.8)
    model = LambdaMART(**QUICK).fit(X, y, qid=np.repeat(np.arange(30), 20))
    assert int(np.argmax(model.feature_importances_)) == 2


def test_engine_params_cannot_contradict_ours(parts):
    for name, instead in (("num_leaves", "n_leaves"), ("eta", "learning_rate"), ("label_gain", "gain")):
        with pytest.raises(ParameterError, match=f"must not set '{name}'; use {instead}= instead"):
            LambdaMART(engine_params={name: 3}).fit(parts[0])


def test_what_the_engine_refuses_is_one_error(parts):
    with pytest.raises(GainfulError, match="LightGBM: "):
        LambdaMART(engine_params={"tree_learner": "what"}).fit(parts[0])


@pytest.mark.filterwarnings("ignore::gainful.RedundantFeaturesWarning")
def test_long_queries_are_refused_in_words():
    n = 10_001
    data = RankingData.from_rows(np.zeros((n, 1)), np.arange(n) % 2, np.full(n, 77))
    with pytest.raises(DataError, match="query 77 has 10,001 documents"):
        LambdaMART().fit(data)


def test_engine_params_that_would_be_ignored_are_refused(parts):
    for params, message in (
        ({"objective": "rank_xendcg"}, "must not set 'objective'; use another ranker"),
        ({"extra_treees": True}, "did you mean 'extra_tree"),
        ({"boosting": "dart"}, "best iteration could not be kept"),
    ):
        with pytest.raises(ParameterError, match=message):
            LambdaMART(engine_params=params).fit(parts[0])


@pytest.mark.filterwarnings("ignore:the highest grade is:gainful.DataWarning")
def test_huge_grades_keep_their_order(parts):
    train, _, test = parts
    model = LambdaMART(**QUICK).fit(train.X, train.y * 500, qid=train.qid)
    assert model.score(test) > 0.6
