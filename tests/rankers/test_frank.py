"""FRank: its loss and weights by explicit pairs, and a loss that falls every round."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gainful
from gainful import RankingData
from gainful.data.query_weights import query_shares
from gainful.rankers.frank import FidelityLoss
from gainful.rankers.thresholds import CriticalPairs


def plain_pairs(data):
    """(better, worse, share): each query's pairs share the query's weight, all of them sum to 1."""
    found, shares = [], query_shares(data)
    for q in range(data.n_queries):
        rows = range(data.offsets[q], data.offsets[q + 1])
        mine = [(i, j) for i in rows for j in rows if data.y[i] > data.y[j]]
        found += [(i, j, shares[q] / len(mine)) for i, j in mine]
    total = sum(share for *_, share in found)
    return [(i, j, share / total) for i, j, share in found]


def plain_loss(data, s, target):
    total = 0.0
    for i, j, share in plain_pairs(data):
        P = 1 / (1 + math.exp(s[j] - s[i]))
        total += share * (1 - math.sqrt(target * P) - math.sqrt((1 - target) * (1 - P)))
    return total


@pytest.fixture(scope="module")
def small():
    data = gainful.make_artificial(5, n_docs=8, n_features=3, seed=4)
    weights = np.repeat([1.0, 2.0, 1.0, 0.5, 1.0], data.counts)
    y = np.where(data.qid == data.query_ids[2], 1.0, data.y)  # a query without pairs
    return RankingData.from_rows(data.X, y, data.qid, sample_weight=weights)


def loss_of(data, target):
    return FidelityLoss(CriticalPairs.of(data, query_shares(data), per_query=True), target)


@pytest.mark.parametrize("target", [1.0, 0.8])
def test_the_loss_is_that_of_the_pairs_and_its_slope_the_difference_quotient(small, rng, target):
    loss, s = loss_of(small, target), rng.normal(size=small.n_rows)
    value, potentials = loss.at(s)
    assert value == pytest.approx(plain_loss(small, s, target))
    for i in range(0, small.n_rows, 5):
        step = 1e-5 * np.eye(small.n_rows)[i]
        slope = (plain_loss(small, s + step, target) - plain_loss(small, s - step, target)) / 2e-5
        assert potentials[i] == pytest.approx(-2 * slope, abs=1e-8)


@pytest.mark.parametrize("target", [1.0, 0.8])
def test_both_sides_are_those_of_the_pairs(small, rng, target):
    s, h = rng.normal(size=small.n_rows), rng.random(small.n_rows) < 0.5
    more = less = 0.0
    for i, j, share in plain_pairs(small):
        P = 1 / (1 + math.exp(s[j] - s[i]))
        right = share * math.sqrt(target) * math.sqrt(P) * (1 - P)
        wrong = share * math.sqrt(1 - target) * math.sqrt(1 - P) * P
        if h[i] and not h[j]:
            more, less = more + right, less + wrong
        elif h[j] and not h[i]:
            more, less = more + wrong, less + right
    loss = loss_of(small, target)
    assert loss.sides(s, h) == pytest.approx((more, less))
    assert more - less == pytest.approx(loss.at(s)[1][h].sum())


@pytest.mark.parametrize("settings", [{}, {"certainty": 0.7}, {"directions": "up"}, {"n_candidates": 1}])
def test_every_round_lowers_the_fidelity_loss(parts, settings):
    train = parts[0]
    model = gainful.FRank(n_rounds=80, **settings).fit(train)
    losses = [row["objective"] for row in model.history_]
    assert (np.diff(losses) < 0).all()
    loss = loss_of(train, settings.get("certainty", 1.0))
    assert losses[0] < loss.at(np.zeros(train.n_rows))[0]
    assert loss.at(model.predict(train))[0] == pytest.approx(losses[-1])


def test_the_first_weight_is_the_closed_form(parts):
    train = parts[0]
    model = gainful.FRank(n_rounds=1, n_candidates=3).fit(train)
    h = train.X[:, model.features_[0]] >= model.thresholds_[0]
    more, less = loss_of(train, 1.0).sides(np.zeros(train.n_rows), h)
    assert model.weights_[0] == pytest.approx(0.5 * math.log(more / less))


def test_scores_far_apart_stay_finite(small):
    value, potentials = loss_of(small, 1.0).at(np.where(np.arange(small.n_rows) % 2, 1e6, -1e6))
    assert np.isfinite(value)
    assert np.isfinite(potentials).all()


def test_up_only_has_no_negative_weight(parts):
    assert (gainful.FRank(n_rounds=40, directions="up").fit(parts[0]).weights_ > 0).all()


def test_early_stopping_keeps_the_best_round(parts):
    train, valid, _ = parts
    model = gainful.FRank(n_rounds=300, early_stopping=5).fit(train, eval_set=valid)
    validations = [row["validation"] for row in model.history_]
    assert model.n_iter_ < 300
    assert len(model.weights_) == int(np.argmax(validations)) + 1
