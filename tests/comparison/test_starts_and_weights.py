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


def test_queries_of_weight_0_count_nowhere(rows):
    """A comparison on them is that on the others, but for how many there are."""
    X, y, qid = rows
    weights = np.where(qid % 3 == 0, 0.0, 1.0 + qid % 2)
    data = RankingData.from_rows(X, y, qid, sample_weight=weights)
    train, test = data[:5], data[5:]
    how = {"metrics": "ndcg@5,map", "all_pairs": True, "delta": 0.1}
    found = gainful.compare(["regression", "feature:1", "feature:2"], train, test=test, **how)
    alone = gainful.compare(["regression", "feature:1", "feature:2"], train, test=test[test.query_weights > 0], **how)
    assert len(found.query_ids) == (test.query_weights > 0).sum()
    assert found.paired_tests == alone.paired_tests
    assert found.all_pairs() == alone.all_pairs()
    assert found.equalities(0.1) == alone.equalities(0.1)
    with pytest.raises(DataError, match="every test query has weight 0"):
        gainful.compare(["regression", "feature:1"], data[7:], test=data[[0, 3, 6]])


def test_differences_are_those_of_the_weighted_means(rows):
    """Everywhere a difference is shown, and a mark never points the other way."""
    X, y, qid = rows
    data = RankingData.from_rows(X, y, qid, sample_weight=np.r_[np.full(10, 25.0), np.arange(50.0) // 5 + 1.0])
    found = gainful.compare(
        ["feature:1", "feature:2", "feature:3"],
        data[8:],
        test=data[:8],
        metrics="ndcg@5,map",
        all_pairs=True,
        delta=0.1,
    )
    means = {label: found.mean(label, "ndcg@5") for label in found.labels}
    for label in found.labels[1:]:
        t = found.paired_tests[label, "ndcg@5"]
        assert t.difference == pytest.approx(means[label] - means["feature:1"])
        assert t.interval[0] < t.difference < t.interval[1]
    for pair in found.all_pairs():
        assert pair.difference == pytest.approx(means[pair.first] - means[pair.second])
    for one in found.equalities(0.1):
        assert one.difference == pytest.approx(means[one.ranker] - means["feature:1"])
    best = found.to_dict()["best_two"]
    assert best["difference"] == pytest.approx(means[best["first"]] - means[best["second"]])


def test_equal_weights_change_no_test(rows):
    X, y, qid = rows
    plain, weighted = (RankingData.from_rows(X, y, qid, sample_weight=w) for w in (None, np.full(60, 3.0)))
    found, expected = (
        gainful.compare(["feature:1", "feature:2"], data[6:], test=data[:6], metrics="ndcg@5").paired_tests
        for data in (weighted, plain)
    )
    for key, test in expected.items():
        assert found[key].difference == pytest.approx(test.difference)
        assert found[key].interval == pytest.approx(test.interval)
        assert found[key].p == pytest.approx(test.p)
