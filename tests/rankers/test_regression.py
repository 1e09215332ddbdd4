"""Ridge regression against scikit-learn's, and on hard data."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge

import gainful.solvers.ridge
from gainful import RankingData, RegressionRanker
from gainful.data.spread import feature_spread


def solve_ridge(X, t, *, alpha, weights=None):
    """(w, b, objective) of data in one block, features in their own units."""
    omega = np.ones(len(t)) if weights is None else weights

    def each(task, *arguments):
        return [task(X, t, omega, *arguments)]

    spread = feature_spread(X, weights)
    v, b, value = gainful.solvers.ridge.solve_ridge(each, spread, None, alpha)
    return v / spread.scales(None), b, value


def objective(X, t, w, b, alpha, omega):
    return float(omega @ (t - X @ w - b) ** 2 + alpha * w @ w)


@pytest.mark.parametrize("alpha", [1e-6, 1.0, 1e4])
@pytest.mark.parametrize("storage", ["dense", "csr", "float32", "many features"])
def test_equals_scikit_learns_ridge(alpha, storage, rng, monkeypatch):
    X = rng.random((200, 12)) * 10.0 ** rng.integers(-2, 3, 12) + rng.integers(-5, 6, 12)
    if storage == "float32":
        X = X.astype(np.float32)
    if storage == "many features":
        monkeypatch.setattr(gainful.solvers.ridge, "MOST_FEATURES_FOR_NORMAL_MATRIX", 3)
    t, omega = rng.random(200), rng.random(200)
    expected = Ridge(alpha=alpha, solver="cholesky").fit(X.astype(np.float64), t, sample_weight=omega)
    given = sparse.csr_array(X) if storage in ("csr", "many features") else X
    w, b, value = solve_ridge(given, t, alpha=alpha, weights=omega)
    ours, theirs = (objective(X.astype(np.float64), t, *at, alpha, omega) for at in
                    ((w, b), (expected.coef_, expected.intercept_)))  # fmt: skip
    assert ours <= theirs * (1 + 1e-9)
    assert value == pytest.approx(ours, rel=1e-8)
    assert np.allclose(X @ w + b, X @ expected.coef_ + expected.intercept_, rtol=1e-5, atol=1e-6)


def test_blocks_do_not_matter(rng, monkeypatch):
    X, t = rng.random((50, 4)), rng.random(50)
    whole = solve_ridge(X, t, alpha=0.1)
    monkeypatch.setattr("gainful.data.rows.CHUNK_VALUES", 12)
    assert np.allclose(solve_ridge(X, t, alpha=0.1)[0], whole[0], rtol=1e-12)


def test_without_penalty_the_shortest_minimiser_is_taken(rng):
    x = rng.random(60)
    X = np.stack([x, x, np.full(60, 7.0)], axis=1)
    w, b, value = solve_ridge(X, 3 * x + 1, alpha=0.0)
    assert np.allclose(w, [1.5, 1.5, 0.0], atol=1e-8)
    assert b == pytest.approx(1.0)
    assert value == pytest.approx(0.0, abs=1e-12)


def test_large_offsets_and_units_cost_no_accuracy(rng):
    X = rng.random((100, 3))
    t = X @ [1.0, -2.0, 0.5]
    shifted = X * [1e6, 1e-6, 1.0] + [1e9, 0.0, -1e4]
    w, b, _ = solve_ridge(shifted, t, alpha=0.0)
    assert np.allclose(shifted @ w + b, t, atol=1e-4)


def test_target_gain_regresses_on_the_gain(rng):
    X, y = rng.random((40, 2)), rng.integers(0, 4, 40)
    data = RankingData.from_rows(X, y, np.repeat(np.arange(4), 10))
    model = RegressionRanker(target="gain", alpha=0.5, scale=None).fit(data)
    expected = Ridge(alpha=0.5).fit(X, 2.0**y - 1)
    assert np.allclose(model.coef_, expected.coef_)
    assert model.intercept_ == pytest.approx(expected.intercept_)
    assert np.allclose(RegressionRanker(alpha=0.5, scale=None).fit(data).coef_, Ridge(alpha=0.5).fit(X, y).coef_)


def test_history_reports_objective_and_validation(parts):
    train, valid, _ = parts
    model = RegressionRanker(alpha=2.0, scale=None, eval_metric="map").fit(train, eval_set=valid)
    (row,) = model.history_
    residual = train.y - model.predict(train)
    assert row["objective"] == pytest.approx(residual @ residual + 2.0 * model.coef_ @ model.coef_)
    assert row["validation"] == gainful.metric("map")(model.predict(valid), valid)


@pytest.mark.filterwarnings("ignore:the highest grade is:gainful.DataWarning")
def test_gains_too_large_to_regress_on_are_refused(rng):
    with pytest.raises(gainful.DataError, match="grade 2000 is too large"):
        RegressionRanker(target="gain").fit(rng.random((4, 2)), [0, 1, 2000, 3], qid=[1, 1, 1, 1])


def test_float32_scores_are_summed_in_float64():
    X = (1e6 + np.arange(200.0)[:, None] * 0.5).astype(np.float32)
    model = RegressionRanker()
    model.coef_, model.intercept_, model.n_features_in_ = np.array([0.1]), 0.0, 1
    assert len(np.unique(model.predict(X))) == len(np.unique(X))
