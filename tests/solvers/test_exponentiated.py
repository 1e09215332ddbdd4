"""Exponentiated gradient on pairs: n numbers for n² variables, against the variables themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gainful.linear.dual_pairs import DualPairs
from gainful.losses.margins import GradedPairs
from gainful.solvers.exponentiated import ExponentiatedRule, largest_pair, minimize_exponentiated
from gainful.solvers.exponentiated_kernels import marginals


@st.composite
def distributions(draw):
    """z and the number of preferred documents of each place, for a few grades."""
    n = draw(st.integers(1, 10))
    grades = np.sort(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))[::-1]
    z = np.array(draw(st.lists(st.floats(-40, 40), min_size=n, max_size=n)))
    return z, np.array([(grades > g).sum() for g in grades], dtype=np.int32)


def explicit(z, preferred):
    """α[j, k] over allowed pairs and α_0, from all pairs at once."""
    allowed = np.arange(len(z))[:, None] < preferred[None, :]
    exponents = np.where(allowed, z[None, :] - z[:, None], -np.inf)
    top = max(0.0, exponents.max())
    weights = np.exp(exponents - top)
    total = weights.sum() + np.exp(-top)
    return weights / total, np.exp(-top) / total


@given(distributions())
def test_sums_by_document_are_those_of_all_pairs(problem):
    z, preferred = problem
    c = np.empty(len(z))
    rest = marginals(z, preferred, c)
    alpha, alpha_0 = explicit(z, preferred)
    assert np.allclose(c, alpha.sum(axis=1) - alpha.sum(axis=0), rtol=1e-9, atol=1e-12)
    assert rest == pytest.approx(alpha_0, rel=1e-9, abs=1e-300)
    assert 0 <= rest <= 1
    assert np.abs(c).max() <= 1 + 1e-12  # sums of a distribution
    assert c.sum() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("size", [1e3, 1e6, 1e12, 1e150])
def test_nothing_overflows(rng, size):
    """Far apart, the distribution is its largest pair."""
    z, preferred = size * rng.normal(size=50), np.repeat([0, 10, 30], [10, 20, 20]).astype(np.int32)
    c = np.empty(50)
    rest = marginals(z, preferred, c)
    gaps = {(j, k): z[k] - z[j] for k in range(50) for j in range(preferred[k])}
    j, k = max(gaps, key=gaps.get)
    assert sorted(gaps.values())[-2] < gaps[j, k] - 40, "no other pair comes near"
    expected = np.zeros(50)
    expected[j], expected[k] = 1.0, -1.0
    np.testing.assert_allclose(c, expected, atol=1e-12)
    assert rest == 0


def risk_of(seed=0, m=3, n=6, d=3):
    rng = np.random.default_rng(seed)
    pairs = GradedPairs(rng.integers(0, 3, m * n).astype(float), np.arange(0, m * n + 1, n))
    return DualPairs(pairs, rng.normal(size=(m * n, d)), np.array([0.2, 0.3, 0.5]), "maximum")


@pytest.mark.parametrize("rate", [0.01, 0.5, 5.0])
def test_steps_are_multiplications_of_all_pairs(rng, rate):
    """α_jk ← α_jk exp(−η ∇_jk)/Z with ∇_jk = (s_j − s_k) − (g_j − g_k) = t_j − t_k."""
    risk = risk_of()
    rule = ExponentiatedRule(risk, 4.0, rate)
    for q in range(3):
        preferred = risk.preferred_counts(q)
        alpha, alpha_0 = explicit(np.zeros(6), preferred)
        assert np.allclose(rule.start(q), 4.0 * risk.weights[q] * (alpha.sum(axis=1) - alpha.sum(axis=0)))
        for number in range(1, 6):
            t = rng.normal(size=6)
            alpha = alpha * np.exp(-rate * (t[:, None] - t[None, :]))
            total = alpha.sum() + alpha_0
            alpha, alpha_0 = alpha / total, alpha_0 / total
            assert alpha.sum() + alpha_0 == pytest.approx(1.0)
            c = rule.step(q, t, number)
            assert np.allclose(c, 4.0 * risk.weights[q] * (alpha.sum(axis=1) - alpha.sum(axis=0)), atol=1e-9)


def test_bounds_close_in_on_the_minimum():
    risk, seen = risk_of(2), []
    solution = minimize_exponentiated(risk, 1.0, n_steps=3000, tol=1e-4, on_round=lambda w, found: seen.append(found))
    duals = [found.dual for found in seen]
    assert duals == sorted(duals)
    assert max(duals) <= min(found.primal for found in seen)
    assert solution.certificate.relative_gap <= 1e-3


def test_widest_pair_is_a_bound():
    risk = risk_of(4)
    for q in range(3):
        lo, hi = risk.places(q)
        X = risk.X[lo:hi]
        assert risk.widest_pair(q) >= max(((a - b) ** 2).sum() for a in X for b in X)
    assert largest_pair(risk, 0) == max(risk.weights[q] * risk.widest_pair(q) for q in range(3))


def test_a_thousand_documents(rng):
    z, preferred = rng.normal(size=1000), np.repeat([0, 100, 300], [100, 200, 700]).astype(np.int32)
    c = np.empty(1000)
    marginals(z, preferred, c)
    alpha, _ = explicit(z, preferred)
    assert np.allclose(c, alpha.sum(axis=1) - alpha.sum(axis=0), rtol=1e-9, atol=1e-15)
