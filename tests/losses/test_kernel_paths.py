"""Paths through the kernels that short queries do not take, against the plain formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from loss_formulas import frozen_pairs, lambda_weights, softplus, softrank, weighted

import gainful

LENGTHS = (1, 2, 17, 40)  # odd and even, shorter and longer than a batch of SoftRank's recursions


def query_of(n, spread=1.0):
    rng = np.random.default_rng(n)
    return np.round(spread * rng.normal(size=n), 1), rng.integers(0, 4, n).astype(float)  # with ties


def slopes(of, scores, step=1e-5):
    """Central differences, with an error of the order of step⁴."""
    found = []
    for unit in np.eye(len(scores)):
        at = [of(scores + times * step * unit) for times in (-2, -1, 1, 2)]
        found.append((at[0] - 8.0 * at[1] + 8.0 * at[2] - at[3]) / (12.0 * step))
    return np.array(found)


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("spread", [0.1, 1.0, 40.0])
def test_softrank_is_its_formula(n, spread):
    scores, grades = query_of(n, spread)
    value, gradient = gainful.loss("softrank(k=5)")(scores, grades)
    assert value == pytest.approx(softrank(scores, grades, 5), rel=1e-12, abs=1e-15)
    if n <= 17 and spread <= 1.0:
        expected = slopes(lambda s: softrank(s, grades, 5), scores, 1e-3)
        assert gradient == pytest.approx(expected, abs=1e-11)


def test_softrank_of_scores_far_apart_and_not_finite():
    value, gradient = gainful.loss("softrank")([1e6, 0.0, -1e6, 1e300], [0, 1, 2, 0])
    assert math.isfinite(value)
    assert not gradient.any()
    assert math.isnan(gainful.loss("softrank")([np.nan, 0.0, 1.0], [0, 1, 2])[0])


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("k", [1, 5, 30])
@pytest.mark.parametrize("weigh", [False, True])
def test_lambda_skips_only_pairs_without_weight(n, k, weigh):
    scores, grades = query_of(n)
    own = np.random.default_rng(9).uniform(0.5, 2.0, n) if weigh else np.ones(n)
    own /= own.mean()
    if len(set(grades)) == 1:
        weights = {}
    else:
        weights = {(i, j): w * own[i] * own[j] for (i, j), w in lambda_weights(scores, grades, k).items()}
    value, gradient = gainful.loss("lambda", k=k)(scores, grades, own if weigh else None)
    assert value == pytest.approx(weighted(scores, weights, lambda v: softplus(-v)), rel=1e-12)
    newton = gainful.loss("lambda", k=k).bind_newton(grades, np.array([0, n]), *([own] if weigh else []))
    g, h = np.empty(n), np.empty(n)
    newton(scores, 0, 1, g, h)
    pulls, bows = np.zeros(n), np.zeros(n)
    for (i, j), w in weights.items():
        q = 1.0 / (1.0 + math.exp(scores[i] - scores[j]))
        pulls[i] -= w * q
        pulls[j] += w * q
        bows[i] += w * q * (1.0 - q)
        bows[j] += w * q * (1.0 - q)
    for found in (gradient, g):
        assert found == pytest.approx(pulls, rel=1e-12, abs=1e-15)
    assert h == pytest.approx(bows, rel=1e-12, abs=1e-15)
    if n == 17 and not weigh:
        expected = slopes(frozen_pairs(weights, lambda v: softplus(-v)), scores, 1e-3)
        assert gradient == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("place", [5, 15])  # at 5 all its pairs have a weight of 0
def test_a_score_that_is_nan_is_seen_where_pairs_are_skipped(place):
    scores, grades = np.arange(20.0, 0.0, -1.0), np.repeat([1.0, 0.0], 10)
    scores[place] = np.nan
    value, gradient = gainful.loss("lambda(k=2)")(scores, grades)
    assert math.isnan(value)
    assert np.isnan(gradient).any()
