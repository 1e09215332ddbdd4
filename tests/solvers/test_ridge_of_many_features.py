"""Ridge regression by conjugate gradients: as exact as a decomposition, block by block, honest where it is not."""

from __future__ import annotations

import tracemalloc
import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from gainful.data import rows
from gainful.data.spread import feature_spread
from gainful.solvers import ridge


def problem(n, d, low, high, seed=0):
    rng = np.random.default_rng(seed)
    scales = np.geomspace(low, high, d)
    X = (rng.normal(size=(n, d)) + rng.normal(size=d)) * scales
    return X, rng.integers(0, 3, n).astype(np.float64), rng.integers(1, 4, n).astype(np.float64)


def exact(X, t, omega, alpha):
    """By the singular values of the centred rows."""
    away, target = X - omega @ X / omega.sum(), t - omega @ t / omega.sum()
    root = np.sqrt(omega)
    U, s, Vt = np.linalg.svd(away * root[:, None], full_matrices=False)
    kept = s > s[0] * 1e-12
    factors = s[kept] / (s[kept] ** 2 + alpha)
    return Vt[kept].T @ (factors * (U[:, kept].T @ (root * target)))


def solved(X, t, omega, alpha, cuts=(0.3, 0.7)):
    edges = [0, *(int(c * len(t)) for c in cuts), len(t)]

    def each(task, *arguments):
        return [task(X[a:b], t[a:b], omega[a:b], *arguments) for a, b in pairwise(edges)]

    spread = feature_spread(X, omega)
    v, b, value = ridge.solve_ridge(each, spread, None, alpha)
    return v / spread.scales(None), b, value


@pytest.mark.parametrize("alpha", [0.0, 1e-3, 1.0, 1e3])
def test_more_features_than_rows_in_very_different_units(alpha):
    X, t, omega = problem(120, 4200, 0.01, 100.0)
    w, b, value = solved(X, t, omega, alpha)
    expected = exact(X, t, omega, alpha)
    assert np.linalg.norm(w - expected) <= 1e-9 * np.linalg.norm(expected)
    residual = t - X @ w - b
    assert omega @ residual == pytest.approx(0.0, abs=1e-6)
    assert value == pytest.approx(omega @ residual**2 + alpha * w @ w, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("form", ["dense", "float32", "sparse"])
@pytest.mark.parametrize(("alpha", "low"), [(1e-3, 0.01), (10.0, 0.01), (0.0, 0.3)])
def test_more_rows_than_features(alpha, low, form, monkeypatch):
    monkeypatch.setattr(ridge, "MOST_FEATURES_FOR_NORMAL_MATRIX", 3)
    monkeypatch.setattr(rows, "CHUNK_VALUES", 700)
    X, t, omega = problem(300, 40, low, 1 / low)
    if form == "float32":
        X = X.astype(np.float32)
    w = solved(sparse.csr_matrix(X) if form == "sparse" else X, t, omega, alpha)[0]
    expected = exact(X.astype(np.float64), t, omega, alpha)
    assert np.linalg.norm(w - expected) <= 1e-8 * np.linalg.norm(expected)


@pytest.mark.parametrize("grade", [0.0, 1.0, 0.1])
def test_constant_grades_need_no_weights(grade, monkeypatch):
    monkeypatch.setattr(ridge, "MOST_FEATURES_FOR_NORMAL_MATRIX", 3)
    X, _, omega = problem(30, 8, 0.1, 10.0)
    w, b, value = solved(X, np.full(30, grade), omega, 0.0)
    assert not w.any()
    assert (b, value) == (pytest.approx(grade, abs=1e-15), pytest.approx(0.0, abs=1e-28))


def test_says_when_it_has_not_converged(monkeypatch):
    monkeypatch.setattr(ridge, "MOST_FEATURES_FOR_NORMAL_MATRIX", 3)
    X, t, omega = problem(60, 60, 1e-3, 1e3)
    with pytest.warns(ConvergenceWarning, match="ridge regression on 60 features stopped"):
        solved(X, t, omega, 1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solved(X, t, omega, 1e7)


def test_no_copy_of_a_block_in_float64():
    X = np.random.default_rng(0).random((3000, 4200), dtype=np.float32)  # 50 MB
    t = X[:, 0].astype(np.float64)
    tracemalloc.start()
    try:
        solved(X, t, np.ones(len(t)), 1e6, cuts=())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.75 * 2 * X.nbytes  # a chunk of CHUNK_VALUES values, in float64 and centred; not all of them
