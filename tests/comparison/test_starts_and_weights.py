"""Initial scores and weights of documents in comparisons."""

from __future__ import annotations

import numpy as np
import pytest

import gainful
from gainful import DataError, RankingData
from gainful.comparison.estimators import fit_arguments


@pytest.fixture
def rows(rng):
    return rng.random((60, 3)), rng.integers(0, 3, 60), np.repeat(np.arange(12), 5)


def test_rankers_add_to_initial_scores_and_baselines_do_not(rows, rng):
    X, y, qid = rows
    data = RankingData.from_rows(X, y, qid, init_score=rng.normal(size=60))
    train, test = data[:8], data[8:]
    found = gainful.compare(["regression", "feature:1"], train, test=test, metrics="ndcg@5")
    measure = gainful.metric("ndcg@5")
    model = gainful.ranker("regression").fit(train)
    of_sum = measure(test.init_scores + model.predict(test), test)
    assert found.mean("regression", "ndcg@5") == pytest.approx(of_sum)
    assert found.mean("feature:1", "ndcg@5") == pytest.approx(measure(test.X[:, 0], test))
    assert gainful.evaluate(model, test, metrics="ndcg@5")["ndcg@5"] == pytest.approx(of_sum)


class TakesGroups:
    """CatBoost's way in."""

    def fit(self, X, y, group_id=None, group_weight=None, sample_weight=None): ...


class TakesQueries:
    """XGBoost's."""

    def fit(self, X, y, qid=None, sample_weight=None, eval_qid=None): ...


def test_estimators_of_others_get_the_weights_they_take(rows):
    X, y, qid = rows
    mixed = RankingData.from_rows(X, y, qid, sample_weight=np.arange(60.0))
    equal = RankingData.from_rows(X, y, qid, sample_weight=qid + 1.0)
    assert fit_arguments(TakesGroups(), mixed, None)["sample_weight"].tolist() == list(range(60))
    assert fit_arguments(TakesGroups(), equal, None)["group_weight"].tolist() == (qid + 1.0).tolist()
    assert fit_arguments(TakesQueries(), equal, None)["sample_weight"].tolist() == list(range(1, 13))
    with pytest.raises(DataError, match="XGBoost weighs whole queries, but the weight differs between rows of query 0"):
        fit_arguments(TakesQueries(), mixed, None)
