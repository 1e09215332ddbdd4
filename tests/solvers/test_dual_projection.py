"""Gradient projection on pairs: the l1,∞ projection against a general solver, and steps against explicit pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from gainful import ParameterError
from gainful.linear.dual_pairs import DualPairs
from gainful.losses.margins import GradedPairs
from gainful.solvers.certificate import ConvergenceWarning
from gainful.solvers.dual_projection import ProjectionRule, minimize_dual_projection, project_nonnegative_l1_inf
from gainful.solvers.stochastic_dual import best_multiple, largest_curvature

number = st.floats(-5, 5, width=32)
groups_of_numbers = st.lists(st.lists(number, min_size=1, max_size=8), min_size=1, max_size=6)
radii = st.floats(0.015625, 20, width=32)


def small_risk(seed=0, loss="average", m=4, n=6, d=3, omega=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m * n, d))
    y = rng.integers(0, 3, m * n).astype(float)
    pairs = GradedPairs(y, np.arange(0, m * n + 1, n))
    return DualPairs(pairs, X, np.full(m, 1 / m) if omega is None else np.asarray(omega), loss)


# -- projection --------------------------------------------------------------------------------------------------------


@given(groups_of_numbers, radii)
def test_projection_meets_its_optimality_conditions(groups, radius):
    found = project_nonnegative_l1_inf(groups, radius)
    given_ = [np.maximum(0.0, np.array(group)) for group in groups]
    tops = np.array([v.max() for v in found])
    assert all((v >= 0).all() for v in found)
    assert tops.sum() <= radius
    if sum(z.max() for z in given_) <= radius:
        assert all(np.array_equal(v, z) for v, z in zip(found, given_, strict=True))
        return
    assert tops.sum() == pytest.approx(radius, rel=1e-9)
    lost = np.array([(z - v).sum() for v, z in zip(found, given_, strict=True)])
    theta = lost[tops > 0].max()
    for v, z, top, less in zip(found, given_, tops, lost, strict=True):
        assert np.allclose(v, np.minimum(z, top), atol=1e-9)  # cut at one level
        if top > 1e-9:
            assert less == pytest.approx(theta, abs=1e-8)  # every group pays the same
        else:
            assert less <= theta + 1e-8  # or all it has


@given(groups_of_numbers, radii, st.integers(0, 2**31))
def test_no_feasible_point_is_nearer(groups, radius, seed):
    """⟨z − v, u − v⟩ ≤ 0 for every u of the set: what makes v the projection of z onto a convex set."""
    rng = np.random.default_rng(seed)
    z, v = np.concatenate([np.array(g) for g in groups]), np.concatenate(project_nonnegative_l1_inf(groups, radius))
    for _ in range(5):
        share = rng.dirichlet(np.ones(len(groups))) * radius * rng.random()
        u = np.concatenate([top * rng.random(len(g)) for top, g in zip(share, groups, strict=True)])
        assert (z - v) @ (u - v) <= 1e-7 * max(1.0, np.abs(z).sum())


@pytest.mark.parametrize("seed", range(12))
def test_projection_is_that_of_a_general_solver(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, 4)
    z, ends = 2 * rng.normal(size=sizes.sum()) + 0.5, np.cumsum(sizes)
    radius = 0.3 + 2 * rng.random()
    n, k = len(z), len(sizes)
    owner = np.repeat(np.arange(k), sizes)
    result = minimize(
        lambda x: 0.5 * np.square(x[:n] - z).sum(),
        np.zeros(n + k),
        jac=lambda x: np.concatenate([x[:n] - z, np.zeros(k)]),
        bounds=[(0, None)] * (n + k),
        constraints=[
            {"type": "ineq", "fun": lambda x: x[n + owner] - x[:n]},
            {"type": "ineq", "fun": lambda x: radius - x[n:].sum()},
        ],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    ours = np.concatenate(project_nonnegative_l1_inf(np.split(z, ends[:-1]), radius))
    assert np.allclose(ours, result.x[:n], atol=1e-5)
    assert np.square(ours - z).sum() <= np.square(result.x[:n] - z).sum() + 1e-6


def test_clipping_first_is_the_projection_and_clipping_last_is_not():
    z, radius = [[1.0], [-1.0]], 1.0
    clip_last = [[0.5], [0.0]]  # on the ball both lose a half: (½, −½), then clipped
    assert [v.tolist() for v in project_nonnegative_l1_inf(z, radius)] == [[1.0], [0.0]]

    def distance(v):
        return sum(np.square(np.subtract(a, b)).sum() for a, b in zip(z, v, strict=True))

    assert distance(project_nonnegative_l1_inf(z, radius)) < distance(clip_last)


def test_projection_of_many_and_of_equal_numbers(rng):
    groups = [rng.random(n) for n in range(1, 1000)]
    v = project_nonnegative_l1_inf(groups, 3.0)
    assert sum(x.max() for x in v) == pytest.approx(3.0, rel=1e-12)
    lost = np.array([(z - x).sum() for x, z in zip(v, groups, strict=True)])
    kept = np.array([x.max() for x in v]) > 0
    assert np.allclose(lost[kept], lost[kept][0], rtol=1e-8)
    assert [x.tolist() for x in project_nonnegative_l1_inf([[1.0, 1.0], [1.0, 1.0]], 1.0)] == [[0.5, 0.5], [0.5, 0.5]]
    assert [x.tolist() for x in project_nonnegative_l1_inf([[1.0], [2.0, 0.0]], 0.0)] == [[0.0], [0.0, 0.0]]


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_projection_scales(rng, scale):
    groups = [rng.normal(size=5) for _ in range(4)]
    one = project_nonnegative_l1_inf(groups, 1.0)
    other = project_nonnegative_l1_inf([scale * g for g in groups], scale)
    assert np.allclose(np.concatenate(other) / scale, np.concatenate(one), rtol=1e-9, atol=1e-12)


def test_bad_radius_is_refused():
    with pytest.raises(ParameterError, match="radius of project_nonnegative_l1_inf must be a number ≥ 0, was -1"):
        project_nonnegative_l1_inf([[1.0]], -1.0)


# -- steps -------------------------------------------------------------------------------------------------------------


def plain_steps(preferred, levels, rates, limit, ball):
    """The steps as arrays α[j, k]; c and α at the end."""
    n = len(preferred)
    allowed = np.arange(n)[:, None] < preferred[None, :]
    scale = 1.0 / np.maximum(preferred, 1) if ball else np.ones(n)
    alpha = np.zeros((n, n))
    for t, rate in zip(levels, rates, strict=True):
        alpha += rate * (t[None, :] - t[:, None]) * scale * allowed
        if ball:
            columns = [k for k in range(n) if preferred[k]]
            parts = project_nonnegative_l1_inf([alpha[: preferred[k], k] for k in columns], limit)
            for k, part in zip(columns, parts, strict=True):
                alpha[: preferred[k], k] = part
        else:
            alpha = np.clip(alpha, 0, limit)
    weighted = alpha * scale * allowed
    return weighted.sum(axis=1) - weighted.sum(axis=0), np.concatenate([alpha[: preferred[k], k] for k in range(n)])


@pytest.mark.parametrize("constraint", ["box", "ball"])
@pytest.mark.parametrize("n_steps", [1, 2, 9])
def test_steps_are_those_on_explicit_pairs(rng, constraint, n_steps):
    risk = small_risk(1, n=7)
    rule = ProjectionRule(risk, 3.0, constraint, 0.5)
    for q in range(risk.n_queries):
        levels = rng.normal(size=(n_steps, 7))
        for i, t in enumerate(levels):
            c = rule.step(q, t, i + 1)
        rates = 0.5 / np.sqrt(np.arange(1, n_steps + 1))
        limit = 3.0 / 4 / (1 if constraint == "ball" else risk.n_pairs[q])
        expected, alpha = plain_steps(risk.preferred_counts(q), levels, rates, limit, constraint == "ball")
        assert np.allclose(c, expected, atol=1e-10)
        assert np.allclose(rule.variables(q), alpha, atol=1e-10)
        assert rule.variables(q) is not None
        assert sum(len(t) for t in rule.levels[q]) <= risk.n_pairs[q]  # never more than the pairs themselves


@given(st.integers(0, 2**31), st.floats(0.01, 100), st.floats(1e-3, 1e3))
def test_constraints_hold_after_any_steps(seed, C, rate):
    rng = np.random.default_rng(seed)
    omega = np.array([0.1, 0.2, 0.3, 0.4])
    risk = small_risk(seed, omega=omega)
    for constraint in ("box", "ball"):
        rule = ProjectionRule(risk, C, constraint, rate)
        for number in range(1, 12):
            q = int(rng.integers(4))
            if risk.n_pairs[q]:
                rule.step(q, 3 * rng.normal(size=6), number)
        for q in range(4):
            alpha = rule.variables(q)
            assert (alpha >= 0).all()
            if constraint == "box":
                assert (alpha <= C * omega[q] / max(1, risk.n_pairs[q])).all()
                continue
            ends = np.cumsum(risk.preferred_counts(q))
            tops = [a.max() for a in np.split(alpha, ends[:-1]) if len(a)]
            assert sum(tops) <= C * omega[q] * (1 + 1e-12)


@pytest.mark.parametrize("constraint", ["box", "ball"])
def test_bounds_close_in_on_the_minimum(constraint):
    risk = small_risk(2, "average" if constraint == "box" else "max-average")
    seen = []
    solution = minimize_dual_projection(
        risk, 1.0, constraint=constraint, n_steps=4000, tol=1e-4, on_round=lambda w, found: seen.append((w, found))
    )
    best = min(found.primal for _, found in seen)
    duals = [found.dual for _, found in seen]
    assert duals == sorted(duals)
    assert max(duals) <= best
    assert np.array_equal(seen[-1][0], solution.w)
    assert seen[-1][1] == solution.certificate
    assert solution.certificate.relative_gap <= (1e-4 if constraint == "box" else 0.02)


def test_curvature_is_the_largest_eigenvalue():
    for by_preferred in (False, True):
        risk = small_risk(5, n=9)
        found = largest_curvature(risk, by_preferred=by_preferred, seed=0)
        largest = 0.0
        for q in range(risk.n_queries):
            lo, hi = risk.places(q)
            X, preferred = risk.X[lo:hi][risk.pairs.order[lo:hi]], risk.preferred_counts(q)
            D = [
                (X[j] - X[k]) / (preferred[k] if by_preferred else 1)
                for k in range(len(X))
                for j in range(preferred[k])
            ]
            largest = max(largest, np.linalg.norm(D, 2) ** 2)
        assert 0.9 * largest <= found <= largest * (1 + 1e-9)


def test_best_multiple():
    for linear, square in ((1.0, 4.0), (4.0, 1.0), (-1.0, 1.0), (0.0, 0.0)):
        values = [t * linear - 0.5 * t * t * square for t in np.linspace(0, 1, 1001)]
        assert best_multiple(linear, square) == pytest.approx(max(values), abs=1e-6)


def test_settings_are_checked():
    risk = small_risk()
    with pytest.raises(
        ParameterError, match="constraint of minimize_dual_projection must be 'box' or 'ball', was 'cone'"
    ):
        minimize_dual_projection(risk, 1.0, constraint="cone")
    with pytest.raises(ParameterError, match="C of minimize_dual_projection must be a number > 0"):
        minimize_dual_projection(risk, 0.0, constraint="box")
    with pytest.warns(ConvergenceWarning, match="stopped after 80 steps at a relative gap"):
        minimize_dual_projection(risk, 1.0, constraint="box", learning_rate=1e-9)


def test_nothing_to_learn_ends_at_zero():
    pairs = GradedPairs(np.ones(6), [0, 3, 6])
    risk = DualPairs(pairs, np.random.default_rng(0).random((6, 2)), np.full(2, 0.5), "average")
    solution = minimize_dual_projection(risk, 1.0, constraint="box")
    assert not solution.w.any()
    assert solution.converged
    assert solution.certificate.gap == 0
