"""One pass over the features gives what scores, inference and a product give one after the other."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

import gainful
from gainful.losses.structured import (
    RankingProblem,
    apply_gradient,
    risk,
    risk_along,
    risk_from_scores,
    slack_violations,
    tight_violations,
    violations,
)

INFERENCE = {"convex": violations, "tight": tight_violations, "slack": slack_violations}


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
@pytest.mark.parametrize("loss", ["convex", "tight"])
def test_fused_is_unfused(training, kind, threads, loss, monkeypatch):
    monkeypatch.setattr("gainful.compute.query_loop.CHUNK_BYTES", 20_000)
    problem, X, w, weights = training
    X = kinds(X)[kind]
    plain = X.astype(np.float64)
    s = plain @ w
    xi, c = INFERENCE[loss](problem, s)
    c = c * np.repeat(weights, np.diff(problem.offsets))
    value, gradient, scores = risk(problem, X, w, weights, want_scores=True, loss=loss, threads=threads)
    np.testing.assert_allclose(scores, s, atol=1e-12)
    assert value == pytest.approx(weights @ xi, rel=1e-10)
    np.testing.assert_allclose(gradient, plain.T @ c, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(apply_gradient(X, c, threads=threads), plain.T @ c, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("loss", INFERENCE)
def test_from_scores(training, loss):
    problem, X, w, weights = training
    xi, c = INFERENCE[loss](problem, X @ w)
    value, coefficients = risk_from_scores(problem, X @ w, weights, loss=loss)
    assert value == pytest.approx(weights @ xi)
    np.testing.assert_allclose(coefficients, c * np.repeat(weights, np.diff(problem.offsets)), atol=1e-14)
    value, gradient, none = risk(problem, X, w, loss=loss)
    assert none is None
    assert value == pytest.approx(xi.sum())
    np.testing.assert_allclose(gradient, X.T @ c, atol=1e-9)


def test_the_subgradient_inequality_in_the_weights(training, rng):
    problem, X, w, weights = training
    value, gradient, _ = risk(problem, X, w, weights)
    for _ in range(10):
        other = w + rng.normal(size=len(w)) * 10.0 ** rng.uniform(-3, 1)
        assert risk(problem, X, other, weights)[0] >= value + gradient @ (other - w) - 1e-9


def test_same_threads_same_bits(training):
    problem, X, w, weights = training
    runs = [risk(problem, X, w, weights, threads=2) for _ in range(3)]
    assert len({run[0] for run in runs}) == 1
    for run in runs:
        np.testing.assert_array_equal(run[1], runs[0][1])


def test_read_only_and_memory_mapped(training, tmp_path):
    problem, X, w, weights = training
    stored = np.lib.format.open_memmap(tmp_path / "X.npy", mode="w+", dtype=np.float32, shape=X.shape)
    stored[:] = X
    stored.flush()
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    expected = risk(problem, X.astype(np.float32), w, weights, threads=2)
    found = risk(problem, mapped, w, weights, threads=2)
    assert found[0] == expected[0]
    np.testing.assert_array_equal(found[1], expected[1])
    data = gainful.RankingData(X=X, y=np.zeros(len(X)), offsets=problem.offsets, query_ids=np.arange(300))
    assert risk(problem, data.X, w, weights)[0] == pytest.approx(expected[0], rel=1e-5)


def test_other_layouts_are_refused(training):
    problem, X, w, weights = training
    for other in (np.asfortranarray(X), X.astype(np.int64), X[:, ::2]):
        with pytest.raises(gainful.ParameterError, match="X of risk must be C-contiguous float32 or float64, or CSR"):
            risk(problem, other, w[: other.shape[1]], weights)
    with pytest.raises(gainful.ParameterError, match="query_weights of risk"):
        risk(problem, X, w, weights[1:])
    with pytest.raises(gainful.ParameterError, match="scores of violations must be"):
        violations(problem, X[:, 0][1:])
    with pytest.raises(gainful.ParameterError, match="prices of violations"):
        violations(problem, X[:, 0], prices=np.zeros(3))
    with pytest.raises(gainful.ParameterError, match="loss of risk"):
        risk(problem, X, w, loss="hinge")


def test_importing_loads_no_compiler():
    code = "import gainful.losses.structured, sys; raise SystemExit('numba' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("loss", ["convex", "tight", "slack"])
@pytest.mark.parametrize("threads", [1, 2])
def test_along_a_line_equals_the_risk_from_scores(loss, threads, monkeypatch):
    rng = np.random.default_rng(3)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 9, 30))])
    n = int(offsets[-1])
    problem = RankingProblem.ndcg(rng.integers(0, 4, n), offsets, 5, position_weights=np.arange(5.0, 0.0, -1.0))
    scores, direction, weights = rng.normal(size=n), rng.normal(size=n), rng.random(30)
    monkeypatch.setattr("gainful.compute.query_loop.CHUNK_ROWS", 11)
    for t in (-0.7, 0.0, 0.4, 3.0):
        value, c = risk_from_scores(problem, scores + t * direction, weights, loss=loss)
        found = risk_along(problem, scores, direction, t, weights, loss=loss, threads=threads)
        assert found == pytest.approx((value, float(c @ direction)), rel=1e-10, abs=1e-12)
