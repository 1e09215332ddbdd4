"""One pass over the features gives what scores, inference and a product give one after the other."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

import gainful
from gainful.compute.features import Features
from gainful.compute.query_loop import apply_gradient
from gainful.linear.risk import LinearRisk
from gainful.losses.structured import RankingProblem, fill_bound, violations
from gainful.losses.structured.violations import BOUNDS


def risk_of(problem, X, weights, bound="convex", **threads):
    return LinearRisk(fill_bound(problem, bound), X, problem.offsets, weights, **threads)


@pytest.fixture(scope="module")
def training():
    rng = np.random.default_rng(2)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 40, 300))])
    X = rng.normal(size=(offsets[-1], 11)) * (rng.random((offsets[-1], 11)) < 0.6)
    y = rng.integers(0, 5, offsets[-1])
    problem = RankingProblem.ndcg(y, offsets, 10, position_weights=np.arange(10, 0, -1.0))
    return problem, X, rng.normal(size=11), rng.random(problem.n_queries)


def kinds(X):
    return {
        "float32": X.astype(np.float32),
        "float64": X,
        "csr": sparse.csr_array(X),
        "csr32": sparse.csr_matrix(X.astype(np.float32)),
    }


@pytest.mark.parametrize("kind", ["float32", "float64", "csr", "csr32"])
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("bound", ["convex", "tight"])
def test_fused_is_unfused(training, kind, threads, bound, monkeypatch):
    monkeypatch.setattr("gainful.compute.query_loop.CHUNK_BYTES", 20_000)
    problem, X, w, weights = training
    X = kinds(X)[kind]
    plain = X.astype(np.float64)
    s = plain @ w
    xi, c = violations(problem, s, bound)
    c = c * np.repeat(weights, np.diff(problem.offsets))
    value, gradient, scores = risk_of(problem, X, weights, bound, threads=threads).value_and_gradient(w)
    np.testing.assert_allclose(scores, s, atol=1e-12)
    assert value == pytest.approx(weights @ xi, rel=1e-10)
    np.testing.assert_allclose(gradient, plain.T @ c, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(apply_gradient(Features(X), c, threads=threads), plain.T @ c, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("bound", BOUNDS)
def test_without_weights_queries_count_alike(training, bound):
    problem, X, w, _ = training
    xi, c = violations(problem, X @ w, bound)
    value, gradient, _ = risk_of(problem, X, np.ones(problem.n_queries), bound).value_and_gradient(w)
    assert value == pytest.approx(xi.sum())
    np.testing.assert_allclose(gradient, X.T @ c, atol=1e-9)


def test_the_subgradient_inequality_in_the_weights(training, rng):
    problem, X, w, weights = training
    risk = risk_of(problem, X, weights)
    value, gradient, _ = risk.value_and_gradient(w)
    for _ in range(10):
        other = w + rng.normal(size=len(w)) * 10.0 ** rng.uniform(-3, 1)
        assert risk.value_and_gradient(other)[0] >= value + gradient @ (other - w) - 1e-9


def test_same_threads_same_bits(training):
    problem, X, w, weights = training
    runs = [risk_of(problem, X, weights, threads=2).value_and_gradient(w) for _ in range(3)]
    assert len({run[0] for run in runs}) == 1
    for run in runs:
        np.testing.assert_array_equal(run[1], runs[0][1])


def test_read_only_and_memory_mapped(training, tmp_path):
    problem, X, w, weights = training
    stored = np.lib.format.open_memmap(tmp_path / "X.npy", mode="w+", dtype=np.float32, shape=X.shape)
    stored[:] = X
    stored.flush()
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    expected = risk_of(problem, X.astype(np.float32), weights, threads=2).value_and_gradient(w)
    found = risk_of(problem, mapped, weights, threads=2).value_and_gradient(w)
    assert found[0] == expected[0]
    np.testing.assert_array_equal(found[1], expected[1])
    data = gainful.RankingData(X=X, y=np.zeros(len(X)), offsets=problem.offsets, query_ids=np.arange(300))
    assert risk_of(problem, data.X, weights).value_and_gradient(w)[0] == pytest.approx(expected[0], rel=1e-5)


def test_other_layouts_are_refused(training):
    problem, X, _, weights = training
    for other in (np.asfortranarray(X), X.astype(np.int64), X[:, ::2]):
        with pytest.raises(gainful.ParameterError, match="X of risk must be C-contiguous float32 or float64, or CSR"):
            risk_of(problem, other, weights)
    with pytest.raises(gainful.ParameterError, match="scores of violations must be"):
        violations(problem, X[:, 0][1:])
    with pytest.raises(gainful.ParameterError, match="prices of violations"):
        violations(problem, X[:, 0], prices=np.zeros(3))
    with pytest.raises(gainful.ParameterError, match="bound of violations must be"):
        violations(problem, X[:, 0], "hinge")


def test_importing_loads_no_compiler():
    code = "import gainful.losses.structured, sys; raise SystemExit('numba' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("threads", [1, 2])
def test_along_a_line_equals_the_risk_from_scores(bound, threads, monkeypatch):
    rng = np.random.default_rng(3)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 9, 30))])
    n = int(offsets[-1])
    problem = RankingProblem.ndcg(rng.integers(0, 4, n), offsets, 5, position_weights=np.arange(5.0, 0.0, -1.0))
    scores, direction, weights = rng.normal(size=n), rng.normal(size=n), rng.random(30)
    risk = risk_of(problem, np.zeros((n, 1)), weights, bound, threads=threads)
    monkeypatch.setattr("gainful.compute.query_loop.CHUNK_ROWS", 11)
    for t in (-0.7, 0.0, 0.4, 3.0):
        xi, c = violations(problem, scores + t * direction, bound)
        c *= np.repeat(weights, np.diff(offsets))
        found = risk.along(scores, direction, t)
        assert found == pytest.approx((weights @ xi, float(c @ direction)), rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("share", [1.0, 0.003])
def test_equal_weights_equal_weights_that_almost_are(training, share):
    """Weights that agree are multiplied in at the end; the slightest difference goes the other way."""
    problem, X, w, weights = training
    equal = np.full(len(weights), share)
    nearly = equal.copy()
    nearly[0] *= 1.0 + 1e-12
    found, other = (risk_of(problem, X, one).value_and_gradient(w) for one in (equal, nearly))
    assert found[0] == pytest.approx(other[0], rel=1e-11)
    np.testing.assert_allclose(found[1], other[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n_used", [0, 1, 2, 3, 4, 5, 8, 11, 40])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_with_few_rows_in_use(rng, n_used, dtype):
    X, c, sums = rng.normal(size=(40, 7)).astype(dtype), np.zeros(30), rng.normal(size=7)
    used = rng.permutation(30)[:n_used]
    c[used] = rng.normal(size=len(used))
    found = sums.copy()
    Features(X).add_gradient(c, 6, 36, found)
    np.testing.assert_allclose(found, sums + c @ X[6:36].astype(float), rtol=1e-12, atol=1e-12)
