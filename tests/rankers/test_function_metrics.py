"""A function of scores and grades wherever a metric goes."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest

import gainful
from gainful.errors import ParameterError
from gainful.metrics import metric


def share_of_top_three(scores, grades):
    """The share of relevant documents among the first three."""
    return (grades[np.argsort(-scores, kind="stable")[:3]] >= 2).mean()


DATA = gainful.make_artificial(40, n_docs=12, n_features=6, seed=1)
VALID = gainful.make_artificial(20, n_docs=12, n_features=6, seed=2)
SCORES = DATA.X[:, 0].astype(float)


def test_it_is_called_once_per_query():
    m = gainful.metric(share_of_top_three)
    expected = [share_of_top_three(SCORES[a:b], DATA.y[a:b]) for a, b in pairwise(DATA.offsets)]
    np.testing.assert_allclose(m.per_query(SCORES, DATA), expected)
    assert m(SCORES, DATA) == pytest.approx(np.mean(expected))
    assert m.name == "share_of_top_three"
    assert str(m) == "function(share_of_top_three)"
    assert gainful.metric(share_of_top_three) == m
    assert metric(m, convention="trec") is m
    assert pickle.loads(pickle.dumps(m)) == m


def test_nan_leaves_a_query_out():
    m = gainful.metric(lambda scores, grades: np.nan if grades[0] < 2 else 1.0)
    values = m.per_query(SCORES, DATA)
    assert np.isnan(values).any()
    assert m(SCORES, DATA) == 1.0
    assert m.name == "<lambda>"


@pytest.mark.parametrize("value", ["high", None, np.inf, [1.0]])
def test_anything_but_a_number_is_refused(value):
    with pytest.raises(ParameterError, match="value for query number 1 of metric <lambda> must be a finite number"):
        gainful.metric(lambda scores, grades: value)(SCORES, DATA)


def test_what_a_function_has_not_is_refused():
    with pytest.raises(ParameterError, match="the metric share_of_top_three is a function and has no ties"):
        gainful.metric(share_of_top_three, ties="input")
    with pytest.raises(ParameterError, match="spec of metric must be like"):
        gainful.metric(dict)
    with pytest.raises(ParameterError, match="a run leaves documents out"):
        gainful.metric(share_of_top_three)({"q": {"d": 1.0}}, {"q": {"d": 1}})


@pytest.mark.parametrize(
    "model",
    [gainful.LambdaMART(n_trees=15, n_leaves=4), gainful.ranker("ranknet"), gainful.AdaRank(n_rounds=10)],
    ids=repr,
)
def test_early_stopping_goes_by_it(model):
    model.set_params(eval_metric=share_of_top_three)
    model.fit(DATA, eval_set=VALID)
    best = max(row["validation"] for row in model.history_ if row["validation"] is not None)
    scored = gainful.metric(share_of_top_three)(model.predict(VALID), VALID)
    assert best == pytest.approx(scored)


def test_coordinate_ascent_climbs_it():
    model = gainful.CoordinateAscent(metric=share_of_top_three, n_restarts=1, n_sweeps=3).fit(DATA)
    m = gainful.metric(share_of_top_three)
    assert m(model.predict(DATA), DATA) > max(m(DATA.X[:, j].astype(float), DATA) for j in range(6))


def test_tuning_chooses_by_it(tmp_path):
    found = gainful.tune("regression", DATA, valid=VALID, trials=3, metric=share_of_top_three)
    assert found.best_value == pytest.approx(gainful.metric(share_of_top_three)(found.model.predict(VALID), VALID))
    with pytest.raises(ParameterError, match="store cannot hold results of share_of_top_three, which is a"):
        gainful.tune("regression", DATA, valid=VALID, trials=3, metric=share_of_top_three, store=tmp_path)


def test_comparison_reports_it(tmp_path):
    rankers = {"one": gainful.RegressionRanker(), "other": gainful.RegressionRanker(alpha=1e6)}
    found = gainful.compare(rankers, DATA, metrics=[share_of_top_three, "map"])
    assert found.headings[found.metrics[0]] == "share_of_top_three"
    assert "share_of_top_three (a Python function)" in str(found)
    found.to_report(tmp_path)
    with pytest.raises(ParameterError, match="store cannot hold results of share_of_top_three"):
        gainful.compare(rankers, DATA, metrics=[share_of_top_three], store=tmp_path)


def test_a_blend_weighs_by_it(tmp_path):
    blend = gainful.Blend(["regression", "ranksvm"], folds=3, metric=share_of_top_three).fit(DATA)
    assert blend.leaderboard_.metric == "share_of_top_three"
    gainful.save(blend, tmp_path / "b.gainful")
    np.testing.assert_array_equal(gainful.load(tmp_path / "b.gainful").predict(VALID), blend.predict(VALID))


def test_auto_searches_by_it(tmp_path):
    auto = gainful.ranker("auto", trials=2, folds=3, metric=share_of_top_three).fit(DATA)
    assert auto.leaderboard_.metric == "share_of_top_three"
    gainful.save(auto, tmp_path / "a.gainful")
    np.testing.assert_array_equal(gainful.load(tmp_path / "a.gainful").predict(VALID), auto.predict(VALID))


def test_a_model_file_keeps_its_name(tmp_path):
    model = gainful.ranker("lambdamart", n_trees=5, eval_metric=share_of_top_three).fit(DATA, eval_set=VALID)
    gainful.save(model, tmp_path / "m.gainful")
    again = gainful.load(tmp_path / "m.gainful")
    np.testing.assert_array_equal(again.predict(VALID), model.predict(VALID))
    assert again.eval_metric == "function(share_of_top_three)"
    with pytest.raises(ParameterError, match="is a Python function, and only its name was stored"):
        again.fit(DATA, eval_set=VALID)
    again.set_params(eval_metric=share_of_top_three).fit(DATA, eval_set=VALID)
