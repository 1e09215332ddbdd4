"""Paths through the kernels that short queries do not take, against the plain formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from loss_formulas import frozen_pairs, lambda_weights, softplus, softrank, weighted

import gainful
from gainful.losses.tile_kernels import TILE

TILED = ("lambda", "lambda(k=3)", "lambda(metric=map)", "lambdaloss", "weighted-huber", "ranknet")
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


def results_of(name, scores, grades, offsets):
    """The value of each query, gradient, and gradient and curvature of a Newton step."""
    loss, g, h = gainful.loss(name), np.empty(len(scores)), np.empty(len(scores))
    values, gradient = loss.of_queries(scores, grades, offsets)
    loss.bind_newton(grades, offsets)(scores, 0, len(offsets) - 1, g, h)
    return values, gradient, g, h


@pytest.mark.parametrize("name", TILED)
@pytest.mark.parametrize("beside", [0.0, 1e300, np.inf, np.nan])
@pytest.mark.parametrize("checked", [0, 1])
def test_a_query_does_not_depend_on_those_beside_it(name, beside, checked):
    """Every other query is checked, and the others are spoilt."""
    lengths = [*range(1, 41), TILE - 1, TILE, TILE + 1, 30]
    offsets = np.concatenate([[0], np.cumsum(np.array(lengths))])
    drawn = [query_of(n) for n in lengths]
    scores, grades = (np.concatenate(part) for part in zip(*drawn, strict=True))
    for q in range(1 - checked, len(lengths), 2):
        scores[offsets[q] : offsets[q + 1] : 3] = beside
    found = results_of(name, scores, grades, offsets)
    for q in range(checked, len(lengths), 2):
        mine = slice(offsets[q], offsets[q + 1])
        alone = results_of(name, scores[mine], grades[mine], np.array([0, lengths[q]]))
        assert found[0][q] == alone[0][0]
        assert np.isfinite(found[0][q])
        for one, other in zip(found[1:], alone[1:], strict=True):
            assert np.array_equal(one[mine], other)


def weights_of_pairs(name, scores, grades):
    """By a matrix, for scores that all differ."""
    n = len(scores)
    rank = np.empty(n)
    rank[np.argsort(-scores)] = np.arange(1.0, n + 1.0)
    gains = 2.0**grades - 1.0
    k = int(name[9:-1]) if name.startswith("lambda(k=") else n
    best = (np.sort(gains)[::-1] / np.log2(np.arange(2.0, n + 2.0)))[:k].sum()
    better = grades[:, None] > grades
    if name == "ranknet":
        return better / better.sum()
    discounts = np.where(rank <= k, 1.0 / np.log2(1.0 + rank), 0.0)
    change = np.abs(discounts[:, None] - discounts)
    if name == "lambdaloss":
        d = np.abs(rank[:, None] - rank) + np.eye(n)
        change = (change + 10.0 * (1.0 / np.log2(1.0 + d) - 1.0 / np.log2(2.0 + d))) / np.log(2.0)
    return better * (gains[:, None] - gains) / best * change


@pytest.mark.parametrize("name", ["lambda", "lambda(k=30)", "lambda(k=400)", "lambdaloss", "ranknet"])
@pytest.mark.parametrize("n", [TILE - 1, TILE, TILE + 1, TILE + 9, 2 * TILE + 5])
def test_queries_longer_than_a_tile_are_their_formulas(name, n):
    rng = np.random.default_rng(n)
    scores, grades = rng.normal(size=n), rng.integers(0, 4, n).astype(float)
    weights, away = weights_of_pairs(name, scores, grades), scores[:, None] - scores
    q = 1.0 / (1.0 + np.exp(away))
    pulls, bows = weights * q, weights * q * (1.0 - q)
    values, gradient, g, h = results_of(name, scores, grades, np.array([0, n]))
    assert values[0] == pytest.approx((weights * np.logaddexp(0.0, -away)).sum(), rel=1e-12)
    for found in (gradient, g):
        np.testing.assert_allclose(found, pulls.sum(axis=0) - pulls.sum(axis=1), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(h, bows.sum(axis=0) + bows.sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("run", [430, 500, TILE - 15, TILE])
def test_products_of_most_pairs_in_the_wrong_order_do_not_underflow(run):
    """Each pair multiplies by about ½; a product just above the least that is kept meets as many more."""
    scores, grades = np.linspace(0.0, 1e-3, 2 * run), np.repeat([1.0, 0.0], run)
    value, gradient = gainful.loss("ranknet")(scores, grades)
    assert value == pytest.approx(np.logaddexp(0.0, scores[run:] - scores[:run, None]).mean(), rel=1e-12)
    assert np.isfinite(gradient).all()


def test_what_fills_up_a_vector_adds_no_nan():
    """The costs of pairs with it would be infinite, and they count 0 times."""
    huber = gainful.loss("weighted-huber")
    grades = np.array([1.0, 0.0, 0.0])
    for scores in ([-np.inf, 0.0, 1.0], [-1e308, 1.0, 2.0]):
        assert huber(np.array(scores), grades)[0] == np.inf
    same = huber(np.zeros(3), grades)[0]
    assert huber(np.full(3, -5e307), grades)[0] == pytest.approx(same)
    steep = gainful.loss("lambda(sigma=100000)")
    assert steep(np.full(3, -1e304), grades)[0] == pytest.approx(steep(np.zeros(3), grades)[0])
