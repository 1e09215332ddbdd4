"""Descent with a line search: exact where the objective is smooth, near the minimum where it has kinks."""

from __future__ import annotations

import numpy as np
import pytest
from finite_risks import random_risk, ranking_risk
from scipy.optimize import rosen, rosen_der

from gainful.errors import DataError, ParameterError
from gainful.metrics import metric
from gainful.solvers.bundle import minimize_bundle
from gainful.solvers.certificate import Certificate, ConvergenceWarning
from gainful.solvers.subgradient import METHODS, minimize_subgradient
from gainful.training.monitor import Monitor


def objective(risk, C):
    def fun(w):
        value, gradient, _ = risk.value_and_gradient(w)
        return 0.5 * w @ w + C * value, w + C * gradient

    return fun


@pytest.mark.parametrize("method", METHODS)
def test_a_parabola(rng, method):
    A = rng.normal(size=(8, 8))
    H, b = A @ A.T + np.eye(8), rng.normal(size=8)
    x = np.linalg.solve(H, b)
    lowest = -0.5 * b @ x
    solution = minimize_subgradient(
        lambda w: (0.5 * w @ H @ w - b @ w, H @ w - b),
        np.zeros(8),
        method=method,
        tol=1e-12,
        max_iter=5000,
        lower_bound=lowest,
    )
    assert solution.certificate.primal == pytest.approx(lowest, rel=1e-9)


def test_a_curved_valley():
    start = np.array([-1.2, 1.0])
    solution = minimize_subgradient(lambda w: (rosen(w), rosen_der(w)), start, tol=1e-12, max_iter=2000)
    assert solution.w == pytest.approx([1, 1], abs=1e-2)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("C", [1e-8, 0.1, 1.0, 100.0])
def test_near_the_minimum_of_a_risk(method, C):
    risk = ranking_risk(m=60, k=20, d=10)
    exact = minimize_bundle(risk, C, tol=1e-6).certificate
    solution = minimize_subgradient(objective(risk, C), np.zeros(10), method=method, lower_bound=exact.dual)
    assert solution.certificate.primal == pytest.approx(risk.objective(solution.w, C))
    assert exact.dual <= solution.certificate.primal <= 1.02 * exact.primal
    assert solution.certificate.dual == exact.dual


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_any_unit(rng, scale):
    risk = random_risk(rng, m=20, k=5, d=5, scale=scale)
    solution = minimize_subgradient(objective(risk, 1.0), np.zeros(5))
    assert np.isfinite(solution.w).all()
    assert solution.certificate.primal <= risk.value(np.zeros(5))


def test_it_ends_on_a_kink():
    # |x| + 2|y| at 0: every subgradient found there leads up
    solution = minimize_subgradient(lambda w: (abs(w[0]) + 2 * abs(w[1]), np.sign(w) * [1, 2] + (w == 0)), np.zeros(2))
    assert solution.converged
    assert solution.n_iter == 1
    assert not solution.w.any()


def test_it_only_goes_down():
    monitor = Monitor(metric("ndcg@10"))
    risk = ranking_risk(m=30, k=10, d=10)
    solution = minimize_subgradient(objective(risk, 10.0), np.zeros(10), monitor=monitor)
    objectives = [row["objective"] for row in monitor.history]
    assert objectives == sorted(objectives, reverse=True)
    assert len(objectives) == solution.n_iter


def test_ends_before_its_time():
    risk = ranking_risk(m=30, k=10, d=10)
    with pytest.warns(ConvergenceWarning, match="after 3 iterations"):
        assert not minimize_subgradient(objective(risk, 10.0), np.zeros(10), max_iter=3).converged
    monitor = Monitor(metric("ndcg@10"), callback=lambda progress: progress.iteration == 3)
    solution = minimize_subgradient(objective(risk, 10.0), np.zeros(10), monitor=monitor)
    assert solution.interrupted
    assert solution.certificate.primal == pytest.approx(risk.objective(solution.w, 10.0))


def test_ctrl_c_keeps_the_best_point():
    risk, monitor = ranking_risk(m=30, k=10, d=10), Monitor(metric("ndcg@10"))
    fun, calls = objective(risk, 10.0), []

    def interrupting(w):
        calls.append(w)
        if len(calls) == 10:
            raise KeyboardInterrupt
        return fun(w)

    solution = minimize_subgradient(interrupting, np.zeros(10), monitor=monitor)
    assert monitor.interrupted
    assert solution.interrupted
    assert solution.certificate.primal == pytest.approx(risk.objective(solution.w, 10.0))


def test_a_wall_is_stepped_back_from():
    # not finite for x > 1, the minimum at 0.9
    solution = minimize_subgradient(
        lambda w: ((w[0] - 0.9) ** 2 if w[0] <= 1 else np.nan, 2 * (w - 0.9)), np.array([-5.0]), tol=1e-10
    )
    assert solution.w == pytest.approx([0.9], abs=1e-3)


def test_wrong_settings():
    with pytest.raises(ParameterError, match="method of minimize_subgradient must be 'steepest' or 'conjugate'"):
        minimize_subgradient(lambda w: (0.0, w), np.zeros(1), method="newton")
    with pytest.raises(DataError, match="not finite"):
        minimize_subgradient(lambda w: (np.nan, w), np.zeros(1))


def test_a_certificate():
    assert Certificate(2.0, 1.5).gap == 0.5
    assert Certificate(2.0, 1.5).relative_gap == 0.25
    assert Certificate(0.0, 0.0).relative_gap == 0
    assert Certificate(1.0, 1.0 + 1e-16).gap == 0
    assert Certificate(-2.0, -3.0).relative_gap == 0.5
