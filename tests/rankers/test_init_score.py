"""Training that starts from given scores."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pytest

import gainful
from gainful import DataError, LambdaMART, LinearRanker, ParameterError, RankingData, RegressionRanker

SETTINGS = {"objective": "lambdarank", "num_leaves": 6, "num_threads": 1, "verbosity": -1, "seed": 0,
            "deterministic": True, "force_row_wise": True}  # fmt: skip


def test_regression_without_penalty_finds_what_is_left(parts):
    train, _, test = parts
    w0 = np.random.default_rng(0).normal(size=train.n_features)
    plain = RegressionRanker(alpha=0.0).fit(train)
    rest = RegressionRanker(alpha=0.0).fit(train, init_score=train.X @ w0)
    assert rest.coef_ + w0 == pytest.approx(plain.coef_, abs=1e-8)
    assert rest.predict(test) + test.X @ w0 == pytest.approx(plain.predict(test), abs=1e-8)


@pytest.mark.parametrize("name", ["ranknet", "listnet", "pairwise-squared-hinge"])
def test_linear_rankers_solve_the_shifted_problem(name, parts):
    """The gradient of ½‖w‖² + C·R(X(w0 + w)) by w vanishes at the weights found."""
    train = parts[0]
    w0 = np.random.default_rng(0).normal(size=train.n_features)
    model = LinearRanker(loss=name, C=5.0, scale=None, tol=1e-10).fit(train, init_score=train.X @ w0)
    _, slopes = gainful.loss(name).of_queries(train.X @ (w0 + model.coef_), train.y, train.offsets)
    gradient = model.coef_ + 5.0 / train.n_queries * (train.X.T @ slopes)
    assert np.abs(gradient).max() < 1e-3 * np.abs(model.coef_).max()
    assert np.abs(model.coef_ - LinearRanker(loss=name, C=5.0, scale=None).fit(train).coef_).max() > 0.01


def test_lambdamart_starts_as_lightgbm_does(parts):
    train, _, test = parts
    init = np.random.default_rng(1).normal(size=train.n_rows)
    model = LambdaMART(n_trees=15, n_leaves=6, n_jobs=1).fit(train, init_score=init)
    own = lgb.train(SETTINGS, lgb.Dataset(train.X, train.y, group=train.counts, init_score=init, params=SETTINGS), 15)
    assert np.array_equal(model.predict(test), own.predict(test.X))


def test_our_objectives_see_the_initial_scores(parts):
    """Trees that start from the scores of earlier ones are the trees that a warm start would add."""
    train, _, test = parts
    params = {"n_leaves": 6, "n_jobs": 1, "loss": "ranknet", "gradient_scale": 2.0}
    first = gainful.ranker("boosted", n_trees=5, **params).fit(train)
    more = gainful.ranker("boosted", n_trees=5, **params).fit(train, init_score=first.predict(train))
    whole = gainful.ranker("boosted", n_trees=10, **params).fit(train)
    assert first.predict(test) + more.predict(test) == pytest.approx(whole.predict(test), abs=1e-6)


def test_early_stopping_measures_the_sum(parts):
    train, valid, _ = parts
    rng = np.random.default_rng(1)
    init, its = rng.normal(size=train.n_rows), rng.normal(size=valid.n_rows)
    metric = gainful.metric("ndcg@10")
    for model in (LambdaMART(n_trees=8, n_jobs=1), LinearRanker(early_stopping=5)):
        model.fit(train, init_score=init, eval_set=valid, eval_init_score=its)
        best = max(row["validation"] for row in model.history_)
        assert metric(its + model.predict(valid), valid) == pytest.approx(best, abs=1e-9)
        assert metric(model.predict(valid), valid) != pytest.approx(best, abs=1e-6)


def test_named_sets_have_scores_of_their_own(parts):
    train, valid, test = parts
    sets, starts = {"one": valid, "two": test}, {"one": np.zeros(valid.n_rows), "two": np.arange(test.n_rows) * 1.0}
    model = LambdaMART(n_trees=3, n_jobs=1)
    model.fit(train, init_score=np.zeros(train.n_rows), eval_set=sets, eval_init_score=starts)
    last = gainful.metric("ndcg@10")(starts["two"] + model.predict(test), test)
    assert model.history_[model.best_iteration_ - 1]["validation two"] == pytest.approx(last)


def test_scores_of_data_that_has_initial_scores(parts):
    train, _, test = parts
    model = gainful.ranker("regression").fit(train)
    init = np.random.default_rng(1).normal(size=test.n_rows)
    started = test.replace(init_scores=init)
    assert np.array_equal(model.predict(started), model.predict(test))
    assert model.score(started) == gainful.metric("ndcg@10")(init + model.predict(test), test)


def test_rows_in_any_order(rng):
    X, y, qid, init = rng.random((40, 2)), rng.integers(0, 3, 40), np.tile([1, 2], 20), rng.normal(size=40)
    shuffled = RegressionRanker().fit(X, y, qid=qid, init_score=init)
    order = np.argsort(qid, kind="stable")
    grouped = RegressionRanker().fit(X[order], y[order], qid=qid[order], init_score=init[order])
    assert shuffled.coef_ == pytest.approx(grouped.coef_, abs=1e-12)
    data = RankingData.from_rows(X, y, qid)
    assert RegressionRanker().fit(data, init_score=init).coef_ == pytest.approx(grouped.coef_, abs=1e-12)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"init_score": [1.0]}, "init_score must have 3000 entries, had shape"),
        ({"eval_init_score": [1.0]}, "eval_init_score belongs to eval_set, which is missing"),
    ],
)
def test_what_does_not_fit_is_refused(given, message, parts):
    train = parts[0]
    with pytest.raises((DataError, ParameterError), match=message.replace("3000", str(train.n_rows))):
        LambdaMART().fit(train, **given)


def test_training_and_validation_data_need_both(parts):
    train, valid, _ = parts
    started = train.replace(init_scores=np.zeros(train.n_rows))
    with pytest.raises(DataError, match=r"the training data has initial scores and eval_set does not; .* or neither"):
        LambdaMART().fit(started, eval_set=valid)
    with pytest.raises(DataError, match="eval_set has initial scores and the training data does not"):
        LambdaMART().fit(train, eval_set=valid, eval_init_score=np.zeros(valid.n_rows))
    with pytest.raises(ParameterError, match="X brings its own initial scores; leave out init_score"):
        LambdaMART().fit(started, init_score=np.zeros(train.n_rows))
    with pytest.raises(ParameterError, match="eval_init_score of fit must be a mapping with the names of eval_set"):
        LambdaMART().fit(started, eval_set={"one": valid}, eval_init_score=np.zeros(valid.n_rows))


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (gainful.ranker("mcrank"), "McRank with mode='classification'"),
        (gainful.ranker("gbrank", update="average"), "GBRank with update='average'"),
        (gainful.ranker("structured-svm"), "StructuredSVM"),
        (gainful.ranker("rankmm-1", solver="stochastic"), "RankMM with solver='stochastic'"),
    ],
)
def test_the_refusal_names_what_decides(model, name, parts):
    with pytest.raises(DataError, match=f"{name} cannot start from initial scores; leave out init_score"):
        model.fit(parts[0], init_score=np.zeros(parts[0].n_rows))
