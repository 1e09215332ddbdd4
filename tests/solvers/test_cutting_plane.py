"""Cutting planes with one slack per query: the same minimum as the bundle solver's, whatever tricks are on."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from finite_risks import FiniteRisk, random_risk, ranking_risk
from hypothesis import given, settings
from hypothesis import strategies as st

from gainful.errors import ParameterError
from gainful.metrics import metric
from gainful.solvers.bundle import minimize_bundle
from gainful.solvers.certificate import ConvergenceWarning
from gainful.solvers.cutting_plane import minimize_cutting_plane
from gainful.training.monitor import Monitor

SCHEDULES = ["pass", "query", 3]


@pytest.fixture(scope="module")
def hard():
    return ranking_risk()


def check(risk, C, solution, tol):
    certificate = solution.certificate
    assert certificate.primal == pytest.approx(risk.objective(solution.w, C), rel=1e-9, abs=1e-300)
    assert certificate.dual <= certificate.primal
    assert certificate.relative_gap <= tol
    assert solution.converged


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("C", [0.01, 1.0, 30.0])
def test_the_minimum(rng, schedule, C):
    risk = random_risk(rng)
    solution = minimize_cutting_plane(risk, C, tol=1e-6, schedule=schedule)
    check(risk, C, solution, 1e-6)
    exact = risk.minimum(C)
    assert solution.certificate.dual <= exact * (1 + 1e-8)
    assert exact * (1 - 1e-8) <= solution.certificate.primal


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("tricks", list(itertools.product([True, False], repeat=3)))
def test_every_combination_of_tricks(schedule, tricks):
    risk = random_risk(np.random.default_rng(2), m=20, k=10, d=6)
    drop, single, active = tricks
    solution = minimize_cutting_plane(
        risk,
        10.0,
        schedule=schedule,
        drop_inactive=drop,
        drop_after=2,
        single_variable_update=single,
        active_set=active,
    )
    check(risk, 10.0, solution, 1e-4)


@settings(max_examples=40)
@given(st.integers(1, 8), st.integers(2, 6), st.integers(1, 6), st.floats(-3, 2), st.integers(0, 2**32 - 1))
def test_agrees_with_the_bundle(m, k, d, log_c, seed):
    rng = np.random.default_rng(seed)
    omega = rng.dirichlet(np.ones(m)) * (rng.random(m) < 0.9)
    risk = FiniteRisk(rng.normal(size=(m, k, d)).round(1), rng.random((m, k)).round(1), omega)
    C = 10.0**log_c
    one, other = minimize_cutting_plane(risk, C, tol=1e-5), minimize_bundle(risk, C, tol=1e-5)
    check(risk, C, one, 1e-5)
    assert one.certificate.primal == pytest.approx(other.certificate.primal, rel=2.1e-5, abs=1e-300)
    assert one.certificate.dual <= other.certificate.primal * (1 + 1e-9)
    assert other.certificate.dual <= one.certificate.primal * (1 + 1e-9)


@pytest.mark.parametrize("C", [1e-8, 1e-4, 1.0, 1e2, 1e5])
@pytest.mark.parametrize("scale", [1e-6, 1.0])
def test_any_C(C, scale):
    risk = random_risk(np.random.default_rng(5), m=30, k=8, d=10, scale=scale)
    check(risk, C, minimize_cutting_plane(risk, C), 1e-4)


@pytest.mark.parametrize("C", [1e-8, 1.0, 1e4, 1e8])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_separable(C, scale):
    risk = random_risk(np.random.default_rng(5), m=30, k=8, d=20, scale=scale, shift=1.0)
    check(risk, C, minimize_cutting_plane(risk, C), 1e-4)


@pytest.mark.parametrize(("C", "most"), [(0.1, 10), (1.0, 15), (100.0, 30), (1e4, 50)])
def test_few_passes_on_a_hard_problem(hard, C, most):
    solution = minimize_cutting_plane(hard, C)
    check(hard, C, solution, 1e-4)
    assert solution.n_iter <= most


def test_columns_without_weight_go(hard):
    lean = minimize_cutting_plane(hard, 10.0, drop_after=2)
    full = minimize_cutting_plane(hard, 10.0, drop_inactive=False)
    assert lean.n_columns < full.n_columns
    assert lean.certificate.primal == pytest.approx(full.certificate.primal, rel=2e-4)


def test_nothing_to_learn(rng):
    risk = FiniteRisk(rng.normal(size=(3, 4, 5)), -np.ones((3, 4)))
    solution = minimize_cutting_plane(risk, 1e3)
    assert not solution.w.any()
    assert solution.certificate.gap == 0
    assert solution.n_iter == 1


def test_huge_units_end_without_nonsense():
    risk = random_risk(np.random.default_rng(5), m=10, k=4, d=5, scale=1e6)
    with pytest.warns(ConvergenceWarning):
        solution = minimize_cutting_plane(risk, 1e8, max_iter=5)
    assert np.isfinite(solution.w).all()
    assert 0 <= solution.certificate.dual <= solution.certificate.primal


def test_too_few_passes_warn(hard):
    with pytest.warns(ConvergenceWarning, match="minimize_cutting_plane stopped after 2 passes at a relative gap of"):
        assert not minimize_cutting_plane(hard, 1.0, max_iter=2).converged


def test_a_callback_stops_with_the_best_point(hard):
    monitor = Monitor(metric("ndcg@10"), callback=lambda progress: progress.iteration == 4)
    solution = minimize_cutting_plane(hard, 100.0, monitor=monitor)
    assert solution.interrupted
    assert solution.n_iter == len(monitor.history) == 4
    assert solution.certificate.primal == pytest.approx(hard.objective(solution.w, 100.0))


class Interrupting(FiniteRisk):
    """Raises KeyboardInterrupt at the n-th question."""

    def __init__(self, risk, n):
        super().__init__(risk.V, risk.b)
        self.left = n

    def columns(self, w, queries):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return super().columns(w, queries)


def test_ctrl_c_keeps_the_best_point(hard):
    monitor = Monitor(metric("ndcg@10"))
    solution = minimize_cutting_plane(Interrupting(hard, 33), 10.0, schedule=20, monitor=monitor)
    assert monitor.interrupted
    assert solution.interrupted
    assert solution.certificate.primal == pytest.approx(hard.objective(solution.w, 10.0))
    with pytest.raises(KeyboardInterrupt):
        minimize_cutting_plane(Interrupting(hard, 1), 10.0, monitor=Monitor(metric("ndcg@10")))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"schedule": "often"}, "schedule of minimize_cutting_plane"),
        ({"schedule": 0}, "schedule of minimize_cutting_plane"),
        ({"inner_tol": 0.0}, "inner_tol of minimize_cutting_plane"),
        ({"drop_after": 0}, "drop_after of minimize_cutting_plane"),
        ({"C": -1.0}, "C of minimize_cutting_plane"),
    ],
)
def test_wrong_settings(hard, wrong, message):
    with pytest.raises(ParameterError, match=message):
        minimize_cutting_plane(hard, **({"C": 1.0} | wrong))
