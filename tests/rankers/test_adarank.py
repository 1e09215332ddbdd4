"""AdaRank: its α and P by the plain formulas, the stall, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gainful
from gainful import ParameterError
from gainful.rankers.adarank import next_distribution, performances, weight_of


def plain_adarank(data, name, rounds, both):
    """The paper's loop, written over queries: weights after each round, α and P."""
    measure = gainful.metric(name)
    P = [1.0 / data.n_queries] * data.n_queries
    w = np.zeros(data.n_features)
    found = []
    queries = [data[q] for q in range(data.n_queries)]
    candidates = [(j, sign) for sign in ([1.0, -1.0] if both else [1.0]) for j in range(data.n_features)]
    for _ in range(rounds):
        best = None
        for j, sign in candidates:
            E = [measure(sign * query.X[:, j], query) for query in queries]
            value = sum(p * e for p, e in zip(P, E, strict=True))
            if best is None or value > best[0] + 1e-14:
                best = (value, j, sign, E)
        _, j, sign, E = best
        up = sum(p * (1 + e) for p, e in zip(P, E, strict=True))
        down = sum(p * (1 - e) for p, e in zip(P, E, strict=True))
        alpha = 0.5 * math.log(up / down)
        w = w + alpha * sign * np.eye(data.n_features)[j]
        reached = [measure(query.X @ w, query) for query in queries]
        total = sum(math.exp(-e) for e in reached)
        P = [math.exp(-e) / total for e in reached]
        found.append((j, sign * alpha, w, P))
    return found


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("name", ["map", "ndcg@10", "err(max_grade=4)"])
def test_alpha_and_weights_follow_the_formulas(parts, name, both):
    data = parts[0][:15]
    expected = plain_adarank(data, name, 4, both)
    model = gainful.AdaRank(name, 4, directions="both" if both else "up", stall="repeat", scale=None).fit(data)
    for row, (feature, alpha, _, _) in zip(model.history_, expected, strict=True):
        assert row["feature"] == feature
        assert row["alpha"] == pytest.approx(alpha, rel=1e-12)
    assert model.coef_ == pytest.approx(expected[-1][2], rel=1e-12)
    assert model.history_[-1]["objective"] == pytest.approx(gainful.metric(name)(data.X @ model.coef_, data))


def test_the_distribution_is_the_plain_one(rng):
    E, omega = rng.random(9), rng.random(9)
    P = next_distribution(omega, E)
    assert np.allclose(P, omega * np.exp(-E) / sum(omega * np.exp(-E)))
    assert weight_of(P, E) == pytest.approx(0.5 * math.log(sum(P * (1 + E)) / sum(P * (1 - E))))


def test_a_perfect_feature_has_a_finite_weight():
    X = np.array([[3.0, 0.0], [2.0, 1.0], [1.0, 0.0]] * 2)
    model = gainful.AdaRank(n_rounds=3).fit(X, [2, 1, 0] * 2, qid=[1, 1, 1, 2, 2, 2])
    assert np.isfinite(model.coef_).all()
    assert model.coef_[0] > 0


def test_performances_are_the_metric_of_each_feature(parts):
    data, measure = parts[1], gainful.metric("ndcg@5")
    E = performances(data, measure, both=True)
    for j in range(data.n_features):
        assert E[j] == pytest.approx(measure.per_query(data.X[:, j], data))
        assert E[data.n_features + j] == pytest.approx(measure.per_query(-data.X[:, j], data))


def test_rounds_that_raise_nothing_are_undone(parts):
    model = gainful.AdaRank("ndcg@10").fit(parts[0])
    values = [row["objective"] for row in model.history_]
    assert (np.diff(values) > 0).all()
    assert model.n_iter_ < 300  # no feature raises it any more


def test_tol_is_the_least_rise(parts):
    values = [row["objective"] for row in gainful.AdaRank(tol=0.004).fit(parts[0]).history_]
    assert (np.diff(values) > 0.004).all()


def test_a_feature_that_raises_nothing_waits_for_another_one(parts):
    history = gainful.AdaRank(stall="keep", n_rounds=60).fit(parts[0]).history_
    highest, aside = -np.inf, set()
    for row in history:
        choice = row["feature"], row["alpha"] > 0
        assert choice not in aside
        aside = set() if row["objective"] > highest + 1e-12 else aside | {choice}
        highest = max(highest, row["objective"])


def test_without_a_remedy_few_features_are_chosen_for_ever(parts):
    stalled = gainful.AdaRank(n_rounds=30, stall="repeat").fit(parts[0])
    free = gainful.AdaRank(n_rounds=30, stall="keep").fit(parts[0])
    assert stalled.n_iter_ == 30
    assert np.count_nonzero(free.coef_) >= np.count_nonzero(stalled.coef_)
    assert gainful.AdaRank().fit(parts[0]).history_[-1]["objective"] >= stalled.history_[0]["objective"]


def test_directions(parts):
    train = parts[0]
    assert (gainful.AdaRank(directions="up").fit(train).coef_ >= 0).all()
    turned = gainful.AdaRank(directions="both").fit(-train.X, train.y, qid=train.qid)
    assert turned.coef_ == pytest.approx(-gainful.AdaRank(directions="both").fit(train).coef_)


def test_a_query_counts_by_its_weight(parts):
    data = parts[0][:6]
    weights = np.array([1.0, 2.0, 1.0, 3.0, 1.0, 1.0])
    repeated = np.repeat(np.arange(6), weights.astype(int))
    X = np.concatenate([data[int(q)].X for q in repeated])
    y = np.concatenate([data[int(q)].y for q in repeated])
    qid = np.repeat(np.arange(len(repeated)), data.counts[repeated])
    weighted = gainful.AdaRank(n_rounds=5).fit(
        data.X, data.y, qid=data.qid, sample_weight=np.repeat(weights, data.counts)
    )
    assert weighted.coef_ == pytest.approx(gainful.AdaRank(n_rounds=5).fit(X, y, qid=qid).coef_)


def test_a_measure_beyond_one_is_refused(parts):
    with pytest.raises(ParameterError, match="metric of AdaRank must be a measure between 0 and 1"):
        gainful.AdaRank("dcg@10").fit(parts[0])


def test_queries_that_the_metric_skips_do_not_count(parts):
    data = parts[0][:8]
    X = np.concatenate([data.X, data[0].X])
    y, qid = np.concatenate([data.y, np.zeros(data.counts[0])]), np.concatenate([data.qid, np.full(data.counts[0], -1)])
    with_empty = gainful.AdaRank("map(empty=skip)", n_rounds=4, scale=None).fit(X, y, qid=qid)
    assert with_empty.coef_ == pytest.approx(gainful.AdaRank("map", n_rounds=4, scale=None).fit(data).coef_)
