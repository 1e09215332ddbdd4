"""L-BFGS and the safeguarded momentum descent: what they reach, and when they end."""

from __future__ import annotations

import numpy as np
import pytest

import gainful
from gainful import DataError
from gainful.solvers.certificate import Certificate, ConvergenceWarning
from gainful.solvers.lbfgs import minimize_lbfgs
from gainful.solvers.momentum import minimize_momentum


@pytest.fixture
def least_squares(rng):
    """½‖w‖² + ½·C‖Aw − b‖², and its minimum in closed form."""
    A, b, C = rng.normal(size=(40, 6)), rng.normal(size=40), 30.0
    w = np.linalg.solve(np.eye(6) / C + A.T @ A, A.T @ b)

    def fun(v):
        away = A @ v - b
        return 0.5 * v @ v + 0.5 * C * away @ away, v + C * A.T @ away

    return fun, w


def test_lbfgs_reaches_the_minimum_and_its_certificate_is_true(least_squares):
    fun, w = least_squares
    lowest = fun(w)[0]
    for tol in (1e-2, 1e-5, 1e-10):
        solution = minimize_lbfgs(fun, np.zeros(6), tol=tol)
        assert solution.converged
        assert solution.certificate.relative_gap <= tol
        assert solution.certificate.dual <= lowest <= solution.certificate.primal * (1 + 1e-12)
        assert solution.certificate.primal == fun(solution.w)[0]
    np.testing.assert_allclose(solution.w, w, atol=1e-5)


def test_lbfgs_tells_every_iteration_and_can_be_stopped(least_squares):
    fun, _ = least_squares
    seen = []

    def visit(w, objective, gap):
        assert objective == fun(w)[0]
        seen.append((w, objective, gap))
        return len(seen) == 3

    solution = minimize_lbfgs(fun, np.zeros(6), tol=1e-12, visit=visit)
    assert solution.interrupted
    assert solution.n_iter == len(seen) == 3
    assert np.array_equal(solution.w, seen[-1][0])
    assert [objective for _, objective, _ in seen] == sorted((o for _, o, _ in seen), reverse=True)


def test_lbfgs_says_when_it_did_not_get_there(least_squares):
    with pytest.warns(ConvergenceWarning, match="stopped after 2 iterations at a relative gap"):
        minimize_lbfgs(least_squares[0], np.zeros(6), tol=1e-12, max_iter=2)


def test_lbfgs_from_the_minimum_ends_at_once():
    solution = minimize_lbfgs(lambda w: (0.5 * float(w @ w), w.copy()), np.zeros(3))
    assert solution.converged
    assert solution.n_iter == 1
    assert not solution.w.any()


def test_momentum_goes_down_valleys_and_hands_back_the_lowest_point():
    def rosenbrock(w):
        x, y = w
        return (1 - x) ** 2 + 10 * (y - x * x) ** 2, np.array(
            [-2 * (1 - x) - 40 * x * (y - x * x), 20 * (y - x * x)]
        )  # fmt: skip

    seen = []
    solution = minimize_momentum(
        rosenbrock, np.array([-1.0, 1.0]), max_iter=2000, tol=1e-9, visit=lambda w, f, gap: bool(seen.append(f))
    )
    assert solution.certificate.primal == min(seen) < 1e-4
    np.testing.assert_allclose(solution.w, [1.0, 1.0], atol=0.05)


def test_momentum_returns_when_the_steps_are_far_too_long():
    solution = minimize_momentum(lambda w: (float(w @ w), 2 * w), np.array([3.0, -2.0]), step=1e6, max_iter=2000)
    assert solution.certificate.primal <= 13.0
    assert np.isfinite(solution.w).all()


@pytest.mark.parametrize("solve", [minimize_lbfgs, minimize_momentum])
def test_an_objective_that_is_not_finite_is_refused(solve):
    with pytest.raises(DataError, match="not finite at the start of training"):
        solve(lambda w: (np.inf, w), np.zeros(2))


@pytest.mark.parametrize("name", ["ranknet", "listnet"])
def test_a_start_that_cannot_be_left_is_not_convergence(name):
    rng = np.random.default_rng(0)
    X, y, qid = rng.random((40, 3)) * 1e100, rng.integers(0, 3, 40), np.repeat(np.arange(4), 10)
    with pytest.warns(ConvergenceWarning, match="rounding allows no more progress"):
        gainful.ranker(name, scale=None).fit(X, y, qid=qid)


def test_features_beyond_all_scales_are_refused():
    rng = np.random.default_rng(0)
    X, y, qid = rng.random((40, 3)) * 1e300, rng.integers(0, 3, 40), np.repeat(np.arange(4), 10)
    with pytest.raises(gainful.DataError, match="not finite"):
        gainful.ranker("rankmm-1", scale=None).fit(X, y, qid=qid)


def test_a_gap_that_is_not_a_number_is_not_zero():
    assert np.isnan(Certificate(float("nan"), 0.0).gap)
