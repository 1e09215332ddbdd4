"""Loss-augmented ranking for average precision, against all rankings."""

from __future__ import annotations

import numpy as np
import pytest
from definitions import PrecisionQuery
from hypothesis import given, settings
from hypothesis import strategies as st

import gainful
from gainful.linear.risk import LinearRisk
from gainful.losses.structured import RankingProblem, augmented_rankings, fill_bound, violations


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.one_of(st.integers(-2, 2).map(float), st.floats(-50, 50))),
        min_size=1,
        max_size=6,
    )
)
@settings(max_examples=100)
def test_the_best_of_all_rankings(documents):
    grades, s = np.array([g for g, _ in documents]), np.array([x for _, x in documents])
    by_hand = PrecisionQuery(grades)
    problem = RankingProblem.average_precision(grades, [0, len(grades)])
    assert problem.active[0] == by_hand.is_active
    convex, tight = (by_hand.convex(s), by_hand.tight(s)) if by_hand.is_active else (0.0, 0.0)
    assert violations(problem, s)[0][0] == pytest.approx(convex, abs=1e-11)
    assert violations(problem, s, "tight")[0][0] == pytest.approx(tight, abs=1e-11)


def test_seven_documents(rng):
    for scale in (0.01, 0.3, 3.0):
        for _ in range(12):
            grades, s = rng.integers(0, 3, 7), scale * np.round(rng.normal(size=7))
            by_hand = PrecisionQuery(grades, 2.0)
            if by_hand.is_active:
                xi, _ = violations(RankingProblem.average_precision(grades, [0, 7], relevant=2.0), s)
                assert xi[0] == pytest.approx(by_hand.convex(s), abs=1e-12)


@pytest.fixture
def many(rng):
    counts = rng.integers(1, 60, 80)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    y = (rng.random(offsets[-1]) < 0.3).astype(float)
    return RankingProblem.average_precision(y, offsets), y, offsets


def test_value_ranking_and_coefficients_belong_together(many, rng):
    problem, y, offsets = many
    s = np.round(0.3 * rng.normal(size=len(y)), 1)
    xi, c = violations(problem, s)
    ranks = augmented_rankings(problem, s)
    # Average precision of scores that put the documents into the order ỹ.
    loss = 1.0 - gainful.metric("map", empty=1).evaluate(-ranks.astype(float), y, offsets)
    loss[~problem.active] = 0.0
    np.testing.assert_allclose(xi, loss + np.add.reduceat(c * s, offsets[:-1]), atol=1e-12)
    for lo, hi, active in zip(offsets, offsets[1:], problem.active, strict=False):
        np.testing.assert_array_equal(np.sort(ranks[lo:hi]), np.arange(1, hi - lo + 1) if active else 0)


def test_bounds_and_convexity(many, rng):
    problem, y, offsets = many
    for scale in (1e-3, 0.1, 10.0):
        a, b = scale * rng.normal(size=(2, len(y)))
        loss = 1.0 - gainful.metric("map", empty=1).evaluate(a, y, offsets)
        (convex, c), tight = violations(problem, a), violations(problem, a, "tight")[0]
        assert np.all(convex >= tight - 1e-12)
        assert np.all(tight[problem.active] >= loss[problem.active] - 1e-12)
        assert np.all(violations(problem, b)[0] >= convex + np.add.reduceat(c * (b - a), offsets[:-1]) - 1e-12)


def test_risk_is_the_sum(many, rng):
    problem, y, _ = many
    X, w, weights = rng.normal(size=(len(y), 5)), rng.normal(size=5), rng.random(problem.n_queries)
    for bound in ("convex", "tight"):
        xi, c = violations(problem, X @ w, bound)
        risk = LinearRisk(fill_bound(problem, bound), X, problem.offsets, weights, threads=2)
        value, gradient, _ = risk.value_and_gradient(w)
        assert value == pytest.approx(weights @ xi, rel=1e-12)
        rows = np.repeat(weights, np.diff(problem.offsets))
        np.testing.assert_allclose(gradient, X.T @ (rows * c), atol=1e-10)


def test_not_finite_and_not_offered(many):
    problem, y, _ = many
    xi, c = violations(problem, np.full(len(y), np.nan))
    assert np.all(np.isnan(xi[problem.active]))
    assert not c.any()
    with pytest.raises(gainful.ParameterError, match="'convex' or 'tight' for average precision"):
        violations(problem, y, "slack")
    with pytest.raises(gainful.ParameterError, match="relevant of RankingProblem"):
        RankingProblem.average_precision(y, problem.offsets, relevant=np.nan)
