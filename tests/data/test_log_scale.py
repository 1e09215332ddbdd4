"""The logarithmic scale of features: its units are the features' own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from gainful.data import rows
from gainful.data.log_scale import log_scale, log_spread, log_units


@pytest.fixture
def X(rng):
    values = np.exp(rng.normal(size=(300, 4)) * [1, 3, 0.1, 5]) * rng.choice([-1, 1], size=(300, 4))
    values[rng.random((300, 4)) < 0.3] = 0.0
    values[:, 2] = 0.0
    return values


def test_units_are_geometric_means_of_what_is_not_zero(X):
    units = log_units(X)
    for j in (0, 1, 3):
        inside = X[:, j] != 0
        assert units[j] == pytest.approx(np.exp(np.log(np.abs(X[inside, j])).mean()), rel=1e-12)
    assert units[2] == 1.0


def test_a_power_of_two_changes_no_bit_and_any_factor_only_the_last_ones(X):
    seen = log_scale(X, log_units(X))
    for factor in (2.0**-40, 0.5, 2.0**33):
        assert np.array_equal(log_scale(X * factor, log_units(X * factor)), seen)
    np.testing.assert_allclose(log_scale(X * 1e-7, log_units(X * 1e-7)), seen, rtol=1e-12)


def test_signs_stay_and_zero_is_zero(X):
    seen = log_scale(X, log_units(X))
    assert np.array_equal(np.sign(seen), np.sign(X))
    np.testing.assert_allclose(seen, np.sign(X) * np.log1p(np.abs(X) / log_units(X)), rtol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, np.float32])
def test_units_and_spread_of_any_matrix_by_chunks(X, form, monkeypatch):
    weights = np.repeat([0.0, 1.0, 2.0], 100)
    units, seen = log_units(X, weights), log_scale(X, log_units(X, weights))
    np.testing.assert_allclose(units, log_units(X[100:]), rtol=1e-12)
    monkeypatch.setattr(rows, "CHUNK_VALUES", 64)
    np.testing.assert_allclose(log_units(form(X), weights), units, rtol=1e-6)
    spread = log_spread(form(X), units, weights)
    mean = np.average(seen, axis=0, weights=weights)
    np.testing.assert_allclose(spread.mean, mean, rtol=1e-6, atol=1e-9)
    deviation = np.sqrt(np.average((seen - mean) ** 2, axis=0, weights=weights))
    np.testing.assert_allclose(spread.deviation, deviation, rtol=1e-5, atol=1e-9)
