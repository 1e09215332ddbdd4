"""The bundle solver against general solvers, against itself without its tricks, and in rough weather."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from finite_risks import FiniteRisk, PairRisk, random_risk, ranking_risk
from hypothesis import given, settings
from hypothesis import strategies as st

from gainful.errors import DataError, ParameterError
from gainful.metrics import metric
from gainful.solvers.bundle import Bundle, minimize_bundle
from gainful.solvers.certificate import ConvergenceWarning
from gainful.training.monitor import Monitor

EVERY_C = [1e-8, 1e-4, 1e-2, 1.0, 1e2, 1e4, 1e8]


@pytest.fixture(scope="module")
def hard():
    return ranking_risk()


def check(risk, C, solution, tol):
    certificate = solution.certificate
    assert np.isfinite(solution.w).all()
    assert certificate.primal == pytest.approx(risk.objective(solution.w, C), rel=1e-9, abs=1e-300)
    assert certificate.dual <= certificate.primal
    assert certificate.relative_gap <= tol
    assert solution.converged


@pytest.mark.parametrize("C", [0.01, 1.0, 30.0, 1e3])
@pytest.mark.parametrize("tol", [1e-4, 1e-7])
@pytest.mark.parametrize("line_search", [True, False])
def test_the_minimum(rng, C, tol, line_search):
    risk = random_risk(rng)
    solution = minimize_bundle(risk, C, tol=tol, line_search=line_search)
    check(risk, C, solution, tol)
    exact = risk.minimum(C)
    assert solution.certificate.dual <= exact * (1 + 1e-8)
    assert exact * (1 - 1e-8) <= solution.certificate.primal


@settings(max_examples=30)
@given(st.integers(1, 8), st.integers(2, 6), st.integers(1, 6), st.floats(-3, 3), st.integers(0, 2**32 - 1))
def test_any_small_problem(m, k, d, log_c, seed):
    rng = np.random.default_rng(seed)
    C = 10.0**log_c
    risk = FiniteRisk(rng.normal(size=(m, k, d)).round(1), rng.random((m, k)).round(1), rng.dirichlet(np.ones(m)))
    solution = minimize_bundle(risk, C, tol=1e-6)
    if solution.certificate.primal > 0:
        check(risk, C, solution, 1e-6)
    # no other point lies below the lower bound
    for w in [np.zeros(d), *rng.normal(size=(20, d)), *(solution.w + 0.01 * rng.normal(size=(20, d)))]:
        assert solution.certificate.dual <= risk.objective(w, C) * (1 + 1e-9)


@pytest.mark.parametrize("C", EVERY_C)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("tol", [1e-4, 1e-6])
def test_any_C_and_any_unit(C, scale, tol):
    risk = random_risk(np.random.default_rng(5), m=30, k=8, d=10, scale=scale)
    check(risk, C, minimize_bundle(risk, C, tol=tol), tol)


@pytest.mark.parametrize("C", EVERY_C)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_separable(C, scale):
    risk = random_risk(np.random.default_rng(5), m=30, k=8, d=20, scale=scale, shift=1.0)
    # C·scale² is the C of features of size 1: rounding the margins costs up to 1e-16 times that
    tol = 1e-4 if C * scale**2 < 1e16 else 1e-2
    check(risk, C, minimize_bundle(risk, C, tol=tol), tol)


def test_the_unit_does_not_matter():
    # ½‖w‖² + C·R(Xw) with X in other units: C·s² takes the place of C
    one, other = (random_risk(np.random.default_rng(5), m=30, k=8, d=10, scale=s) for s in (1.0, 1024.0))
    a, b = minimize_bundle(one, 1024.0**2), minimize_bundle(other, 1.0)
    assert a.n_iter == b.n_iter
    assert a.certificate.primal == pytest.approx(1024.0**2 * b.certificate.primal)


@pytest.mark.parametrize("C", [0.1, 10.0, 1e5])
def test_copies_and_zero_columns_change_nothing(rng, C):
    risk = random_risk(rng, m=10, k=5, d=6)
    padded = FiniteRisk(
        np.concatenate([np.tile(risk.V, (1, 2, 1)), np.zeros((10, 2, 6))], axis=1),
        np.concatenate([np.tile(risk.b, 2), np.zeros((10, 2))], axis=1),
    )
    a, b = minimize_bundle(risk, C, tol=1e-6), minimize_bundle(padded, C, tol=1e-6)
    check(padded, C, b, 1e-6)
    assert a.certificate.primal == pytest.approx(b.certificate.primal, rel=2e-6)


def test_nothing_to_learn(rng):
    risk = FiniteRisk(rng.normal(size=(3, 4, 5)), -np.ones((3, 4)))
    solution = minimize_bundle(risk, 1e3)
    assert not solution.w.any()
    assert solution.certificate.gap == 0
    assert risk.passes == 1


def test_no_feature_helps(rng):
    risk = FiniteRisk(np.zeros((3, 4, 5)), rng.random((3, 4)))
    solution = minimize_bundle(risk, 1e3)
    assert not solution.w.any()
    assert solution.certificate.primal == pytest.approx(1e3 * risk.value(np.zeros(5)))
    assert solution.certificate.gap == 0


def test_a_tiny_C_still_gives_a_direction(rng):
    for scale in (1e-6, 1.0):
        risk = random_risk(rng, scale=scale)
        solution = minimize_bundle(risk, 1e-8)
        assert solution.n_iter <= 3
        assert solution.w.any()


# -- passes over the data ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("C", "most"), [(0.1, 20), (1.0, 45), (100.0, 115), (1e4, 140), (1e5, 140)])
def test_few_passes_on_a_hard_problem(hard, C, most):
    hard.passes, hard.alongs = 0, 0
    solution = minimize_bundle(hard, C)
    check(hard, C, solution, 1e-4)
    assert hard.passes == solution.n_iter <= most
    assert hard.alongs <= 3 * hard.passes


@pytest.mark.parametrize("C", [100.0, 1e5])
def test_the_plain_method_needs_many_more(hard, C):
    quick = minimize_bundle(hard, C, tol=1e-3)
    with pytest.warns(ConvergenceWarning, match="after"):
        minimize_bundle(hard, C, tol=1e-3, line_search=False, max_iter=2 * quick.n_iter)


@pytest.mark.parametrize(("C", "most"), [(1.0, 15), (1e4, 130)])
def test_pairs(rng, C, most):
    X = rng.normal(size=(400, 15))
    y = X @ rng.normal(size=15) + 3 * rng.normal(size=400)
    pairs = rng.integers(0, 400, size=(3000, 2))
    better = y[pairs[:, 0]] > y[pairs[:, 1]]
    pairs[~better] = pairs[~better][:, ::-1]
    risk = PairRisk(X, pairs)
    solution = minimize_bundle(risk, C)
    assert solution.certificate.relative_gap <= 1e-4
    assert risk.passes <= most


# -- warm starts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("Cs", [[0.1, 1.0, 10.0, 100.0], [100.0, 10.0, 1.0], [1.0, 1.0]])
def test_a_path_is_separate_solves(hard, Cs):
    bundle = Bundle(hard.n_features)
    path = [minimize_bundle(hard, C, bundle=bundle) for C in Cs]
    alone = [minimize_bundle(hard, C) for C in Cs]
    for C, one, other in zip(Cs, path, alone, strict=True):
        check(hard, C, one, 1e-4)
        assert one.certificate.primal == pytest.approx(other.certificate.primal, rel=2e-4)
    assert sum(s.n_iter for s in path) < sum(s.n_iter for s in alone)


def test_a_warm_start_needs_fewer_passes(hard):
    first = minimize_bundle(hard, 100.0)
    next_one = minimize_bundle(hard, 110.0, bundle=first.bundle)
    check(hard, 110.0, next_one, 1e-4)
    assert next_one.n_iter < first.n_iter / 2
    assert minimize_bundle(hard, 110.0, bundle=next_one.bundle).n_iter <= 1


def test_a_given_start(hard):
    good = minimize_bundle(hard, 10.0).w
    solution = minimize_bundle(hard, 10.0, w0=good)
    check(hard, 10.0, solution, 1e-4)
    assert solution.certificate.primal <= hard.objective(good, 10.0) * (1 + 1e-12)


@pytest.mark.parametrize("max_planes", [4, 10, 60])
def test_few_planes_still_converge(hard, max_planes):
    solution = minimize_bundle(hard, 1.0, tol=1e-3, max_planes=max_planes)
    check(hard, 1.0, solution, 1e-3)
    assert solution.bundle.n_planes <= max_planes


def test_merging_planes_keeps_the_bound(rng):
    bundle = Bundle(30, max_planes=16)
    for _ in range(16):
        bundle.add(rng.normal(size=30), 1.0)
    _, before = bundle.minimise(1e-3, 1e-12)
    assert (bundle.alpha[:16] > 0).sum() > 8
    bundle._shrink()
    n = bundle.n_planes
    assert n <= 8
    assert bundle.bound(1e-3, bundle.alpha[:n]) == pytest.approx(before, rel=1e-12)
    assert bundle.gram[:n, :n] == pytest.approx(bundle.gradients[:n] @ bundle.gradients[:n].T)


# -- ends --------------------------------------------------------------------------------------------------------------


def test_too_few_iterations_warn(hard):
    with pytest.warns(
        ConvergenceWarning, match=r"stopped after 5 iterations at a relative gap of 0\.\d+, tol is 0.0001"
    ):
        solution = minimize_bundle(hard, 100.0, max_iter=5)
    assert not solution.converged
    assert solution.n_iter == 5
    assert solution.certificate.primal == pytest.approx(hard.objective(solution.w, 100.0))


def test_a_tolerance_out_of_reach_ends(rng):
    risk = random_risk(rng, m=20, k=5, d=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solution = minimize_bundle(risk, 100.0, tol=0.0, max_iter=2000)
    assert solution.n_iter < 500
    assert solution.certificate.relative_gap < 1e-9


def test_the_monitor_sees_every_iteration(hard):
    monitor = Monitor(metric("ndcg@10"))
    solution = minimize_bundle(hard, 10.0, monitor=monitor)
    assert len(monitor.history) == solution.n_iter
    objectives = [row["objective"] for row in monitor.history]
    assert objectives == pytest.approx(sorted(objectives, reverse=True), rel=1e-12)
    assert monitor.history[-1]["gap"] == solution.certificate.relative_gap <= 1e-4


def test_a_callback_stops_with_the_best_point(hard):
    monitor = Monitor(metric("ndcg@10"), callback=lambda progress: progress.iteration == 12)
    solution = minimize_bundle(hard, 100.0, monitor=monitor)
    assert solution.interrupted
    assert solution.n_iter == 12
    assert not solution.converged
    best = minimize_bundle(hard, 100.0).certificate
    assert solution.certificate.dual <= best.primal
    assert best.dual <= solution.certificate.primal == pytest.approx(hard.objective(solution.w, 100.0))


class Interrupting(FiniteRisk):
    """Raises KeyboardInterrupt at the n-th call of a method."""

    def __init__(self, risk, method, n):
        super().__init__(risk.V, risk.b)
        self.method, self.left = method, n

    def _count(self, method):
        if method == self.method:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt

    def value_and_gradient(self, w):
        self._count("value_and_gradient")
        return super().value_and_gradient(w)

    def along(self, scores, direction, t):
        self._count("along")
        return super().along(scores, direction, t)


@pytest.mark.parametrize(
    ("method", "n"), [("value_and_gradient", 2), ("value_and_gradient", 9), ("along", 1), ("along", 9)]
)
def test_ctrl_c_keeps_the_best_point(hard, method, n):
    risk = Interrupting(hard, method, n)
    monitor = Monitor(metric("ndcg@10"))
    solution = minimize_bundle(risk, 100.0, monitor=monitor)
    assert monitor.interrupted
    assert solution.interrupted
    assert solution.certificate.primal == pytest.approx(hard.objective(solution.w, 100.0))
    assert 0 <= solution.certificate.dual <= solution.certificate.primal
    # the planes are complete: training continues from there
    check(hard, 100.0, minimize_bundle(hard, 100.0, bundle=solution.bundle), 1e-4)


def test_ctrl_c_at_once_is_not_hidden(hard):
    with pytest.raises(KeyboardInterrupt):
        minimize_bundle(Interrupting(hard, "value_and_gradient", 1), 1.0, monitor=Monitor(metric("ndcg@10")))
    with pytest.raises(KeyboardInterrupt):
        minimize_bundle(Interrupting(hard, "value_and_gradient", 5), 1.0)


class Overflowing(FiniteRisk):
    """Not finite far from zero, as float32 features would be."""

    def value_and_gradient(self, w):
        value, gradient, scores = super().value_and_gradient(w)
        return (value, gradient, scores) if np.linalg.norm(w) < 0.3 else (np.inf, gradient * np.nan, scores)


def test_points_without_a_finite_risk_are_passed_over(rng):
    risk = random_risk(rng, m=20, k=5, d=5)
    overflowing = Overflowing(risk.V, risk.b)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solution = minimize_bundle(overflowing, 1e3, max_iter=60)
    assert np.isfinite(solution.w).all()
    assert solution.certificate.primal < 1e3 * risk.value(np.zeros(5))
    with pytest.raises(DataError, match="not finite"):
        minimize_bundle(overflowing, 1.0, w0=np.ones(5))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"C": 0.0}, "C of minimize_bundle must be a number > 0, was 0.0"),
        ({"C": np.nan}, "C of minimize_bundle"),
        ({"tol": -1.0}, "tol of minimize_bundle must be a number ≥ 0"),
        ({"max_iter": 0}, "max_iter of minimize_bundle"),
        ({"max_planes": 2}, "max_planes of the bundle"),
        ({"bundle": Bundle(7)}, "bundle of minimize_bundle must be of 40 features, was 7"),
    ],
)
def test_wrong_settings(hard, wrong, message):
    with pytest.raises(ParameterError, match=message):
        minimize_bundle(hard, **({"C": 1.0} | wrong))
