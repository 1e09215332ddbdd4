"""Rescaled slacks: a search, judged by how often it finds the best of all rankings."""

from __future__ import annotations

import numpy as np
from definitions import NdcgQuery, families

from gainful.losses.structured import RankingProblem, augmented_rankings, violations


def random_query(rng, n):
    while True:
        k = int(rng.integers(1, n + 2))
        A = families(k)[("linear", "sqrt", "discount")[rng.integers(3)]]
        grades, s = rng.integers(0, rng.integers(2, 6), n), rng.normal(size=n) * 10.0 ** rng.uniform(-2, 1)
        by_hand = NdcgQuery(grades, k, A)
        if by_hand.is_active:
            return by_hand, RankingProblem.ndcg(grades, [0, n], k, position_weights=A), s


def test_how_often_the_best_product_is_found():
    rng = np.random.default_rng(11)
    found, shortfall = [], []
    for n in (2, 3, 4, 5, 6, 7):
        for _ in range(60):
            by_hand, problem, s = random_query(rng, n)
            best, xi = by_hand.slack(s), violations(problem, s, "slack")[0][0]
            assert xi <= best + 1e-11 * (1.0 + best)
            found.append(xi >= best - 1e-9 * (1.0 + best))
            shortfall.append((best - xi) / best if best > 1e-9 else 0.0)
    assert np.mean(found) >= 0.97
    assert np.mean(shortfall) <= 1e-3


def test_value_and_coefficients_belong_together(rng):
    """With the ranking's loss Δ: ξ = Δ (1 + Ψ·s − Ψ(target)·s) and c = Δ (A(ỹ) − target), so ξ = Δ + c·s."""
    for n in (3, 5, 6):
        for _ in range(20):
            by_hand, problem, s = random_query(rng, n)
            xi, c = violations(problem, s, "slack")
            loss = xi[0] - c @ s
            assert -1e-9 <= loss <= 1.0 + 1e-9
            if xi[0] > 1e-6:
                weights = c / loss + by_hand.target()
                np.testing.assert_allclose(np.sort(weights), np.sort(by_hand.A), atol=1e-6)


def test_no_worse_than_the_ranking_of_the_other_loss(rng):
    counts = rng.integers(2, 80, 60)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    y = rng.integers(0, 5, offsets[-1])
    for k in (5, 100):
        problem = RankingProblem.ndcg(y, offsets, k, position_weights=families(k)["sqrt"])
        s = rng.normal(size=len(y))
        xi, c = violations(problem, s, "slack")
        assert np.all(xi >= 0.0)
        assert np.all(np.isfinite(c))
        convex, c_convex = violations(problem, s)
        margin = np.add.reduceat(c_convex * s, offsets[:-1])
        assert np.all(xi >= (convex - margin) * (1.0 + margin) - 1e-9)
        assert augmented_rankings(problem, s).max() <= problem.depth


def test_scores_that_are_not_finite():
    problem = RankingProblem.ndcg([1, 0, 2], [0, 3], 2, position_weights=[2.0, 1.0])
    xi, c = violations(problem, [0.0, np.inf, 1.0], "slack")
    assert np.isnan(xi[0])
    assert not c.any()
