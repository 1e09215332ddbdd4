"""The small quadratic programme of the bundle solver, against its optimality condition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gainful.solvers.bundle_qp import lowest_on_line, solve_simplex_qp


def solve(g, b, C, start=None, tol=1e-11):
    """Weights of the planes, of which the zero plane, added here, is not one."""
    g, b = np.vstack([g, np.zeros(g.shape[1])]), np.append(b, 0.0)
    alpha = np.zeros(len(b))
    alpha[:-1] = 0.0 if start is None else start
    gap, changes, _ = solve_simplex_qp(
        g @ g.T, b, C, alpha, tol * np.abs(b).max(initial=1e-300), 20 * len(b) + 1000, 200
    )
    assert np.isfinite(alpha).all()
    assert (alpha >= 0).all()
    assert alpha.sum() == pytest.approx(1.0, abs=1e-12)
    return alpha[:-1], gap, changes


def excess(g, b, C, alpha):
    """How much higher than the mean of the planes in use the highest plane is, at w = −C Σ α g."""
    heights = b + g @ (-C * (alpha @ g))
    return max(0.0, heights.max()) - alpha @ heights


@settings(max_examples=60)
@given(
    st.integers(1, 40),
    st.integers(1, 25),
    st.integers(0, 2**32 - 1),
    st.floats(-8, 8),
    st.sampled_from(["", "copies", "zero"]),
)
def test_optimal_for_any_shape(n, d, seed, log_c, trouble):
    rng = np.random.default_rng(seed)
    g, b = rng.normal(size=(n, d)) * 10 ** rng.uniform(-1, 1, size=(n, 1)), rng.normal(size=n)
    if trouble == "copies":
        rows = rng.integers(0, n, n // 2 + 1)
        g[rng.permutation(n)[: len(rows)]] = g[rows]
    elif trouble == "zero":
        g[rng.integers(0, n)] = 0.0
    start = rng.dirichlet(np.ones(n)) * rng.choice([0.0, 0.5, 1.0])
    C = 10.0**log_c
    alpha, _, _ = solve(g, b, C, start)
    noise = 1e-14 * C * (g**2).sum(axis=1).max()  # rounding of the heights
    assert excess(g, b, C, alpha) <= 1e-9 * np.abs(b).max() + 10 * noise


@pytest.mark.parametrize("C", [1e-8, 1e-3, 1.0, 1e3, 1e8])
def test_one_plane_by_hand(C):
    g, b = np.array([[3.0, 4.0]]), np.array([2.0])
    alpha, _, _ = solve(g, b, C)
    assert alpha[0] == pytest.approx(min(1.0, 2.0 / (C * 25.0)))


def test_opposite_planes_balance():
    # max(1 + x, 1 − x) is lowest at 0 with weight one half each, whatever C is
    alpha, gap, _ = solve(np.array([[1.0], [-1.0]]), np.ones(2), 1e3)
    assert alpha == pytest.approx([0.5, 0.5])
    assert gap <= 1e-11


def test_planes_below_zero_get_no_weight():
    alpha, _, _ = solve(np.array([[1.0], [-2.0]]), np.array([-1.0, -0.5]), 1e-3)
    assert not alpha.any()


def test_a_warm_start_is_quick(rng):
    g, b = rng.normal(size=(200, 60)), rng.random(200)
    cold, _, changes = solve(g, b, 100.0)
    g, b = np.vstack([g, rng.normal(size=60)]), np.append(b, 0.5)
    warm, _, few = solve(g, b, 100.0, np.append(cold, 0.0))
    again, _, _ = solve(g, b, 100.0)
    assert few < changes / 3
    assert warm @ g == pytest.approx(again @ g, abs=1e-7)


def test_far_start_and_nonsense_are_mended(rng):
    g, b = rng.normal(size=(10, 4)), rng.random(10)
    alpha, _, _ = solve(g, b, 1.0, np.array([np.nan, -1.0, 7.0] + [1.0] * 7))
    assert excess(g, b, 1.0, alpha) <= 1e-9


@given(st.integers(1, 12), st.integers(0, 2**32 - 1), st.floats(-3, 3))
def test_lowest_on_a_line(n, seed, log_c):
    rng = np.random.default_rng(seed)
    heights, slopes, C = rng.normal(size=n), rng.normal(size=n), 10.0**log_c
    linear, square = rng.normal(), rng.random()

    def value(t):
        return linear * t + square * t * t / 2 + C * max(0.0, float((heights + slopes * t).max()))

    t, lowest = lowest_on_line(heights, slopes, C, linear, square, 3.0)
    assert 0 <= t <= 3
    assert lowest == pytest.approx(value(t))
    assert lowest <= min(value(u) for u in np.linspace(0, 3, 301)) + 1e-9 * (1 + C)
