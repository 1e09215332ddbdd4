"""Weights of members, against their definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gainful.blending.weights import RULES, best_member, choose_weights, errors_below, mean_and_error


def test_mean_and_error_are_those_of_scipy(rng):
    values = rng.random(40)
    mean, error = mean_and_error(values)
    assert mean == pytest.approx(values.mean())
    assert error == pytest.approx(stats.sem(values))
    values[::5] = np.nan
    assert mean_and_error(values)[1] == pytest.approx(stats.sem(values, nan_policy="omit"))


def test_equal_query_weights_change_nothing_and_zero_leaves_out(rng):
    values = rng.random(30)
    assert mean_and_error(values, np.full(30, 3.0)) == pytest.approx(mean_and_error(values))
    half = np.where(np.arange(30) < 15, 2.0, 0.0)
    assert mean_and_error(values, half) == pytest.approx(mean_and_error(values[:15]))
    assert best_member(np.stack([values, np.where(half > 0.0, values + 1.0, np.nan)]), half) == 1


def test_t_is_that_of_a_paired_test(rng):
    a, b = rng.random(25), rng.random(25)
    assert errors_below(a, b) == pytest.approx(stats.ttest_rel(b, a).statistic)


def test_the_best_has_the_highest_mean_among_the_complete(rng):
    values = np.full((3, 10), 0.5)
    values[1] = 0.6
    values[2, :2] = 0.9
    values[2, 2:] = np.nan
    assert best_member(values) == 1


def members(gaps, n=400, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    hard = rng.random(n) * 0.5
    return np.array([hard + 0.3 - gap + noise * rng.standard_normal(n) for gap in gaps])


def test_within_takes_those_near_the_best_and_no_others():
    values = members([0.0, 0.001, 0.1])
    assert choose_weights("within", values).tolist() == [0.5, 0.5, 0.0]


def test_shrunk_is_exp_of_minus_t():
    values = members([0.0, 0.005, 0.02])
    best = values[best_member(values)]
    t = [max(0.0, errors_below(row, best)) for row in values]
    assert choose_weights("shrunk", values) == pytest.approx(np.exp(-np.array(t)) / np.exp(-np.array(t)).sum())


@pytest.mark.parametrize("rule", ["within", "shrunk"])
def test_a_member_that_scored_fewer_queries_does_not_count(rule):
    values = members([0.0, 0.0, 0.0])
    values[2, 100:] = np.nan
    weights = choose_weights(rule, values)
    assert weights[2] == 0.0
    assert weights[:2] == pytest.approx(choose_weights(rule, values[:2]))
    values[:, 300:] = np.nan  # where nobody has scored all of them, those with the most count
    assert choose_weights(rule, values)[2] == 0.0


@pytest.mark.parametrize("rule", ["within", "shrunk"])
def test_a_member_that_is_clearly_better_on_fewer_queries_leads(rule):
    values = members([0.1, 0.0, 0.0])
    values[1, 200:] = np.nan
    values[2, 100:] = np.nan
    weights = choose_weights(rule, values)
    assert weights[1] > 0.99
    assert weights[2] == 0.0  # it scored fewer queries than the leader


@given(st.integers(1, 6), st.integers(1, 12), st.sampled_from(["within", "shrunk", "uniform"]), st.integers(0, 1000))
def test_weights_are_shares(n_members, n_queries, rule, seed):
    rng = np.random.default_rng(seed)
    values = np.where(rng.random((n_members, n_queries)) < 0.2, np.nan, rng.integers(0, 3, (n_members, n_queries)) / 2)
    weights = choose_weights(rule, values)
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("rule", RULES)
def test_queries_without_weight_say_nothing(rule, rng):
    values, weights = rng.random((4, 30)), np.repeat([0.0, 1.0, 2.0], 10)
    counted = choose_weights(rule, values[:, 10:], weights[10:])
    assert np.array_equal(choose_weights(rule, values, weights), counted)
    assert choose_weights(rule, values, np.zeros(30)) == pytest.approx(np.full(4, 0.25))
