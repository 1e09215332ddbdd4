"""Means and standard deviations of features: exact where they can be, and finite whatever the numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from gainful import DataError
from gainful.data import rows
from gainful.data.spread import feature_spread, feature_sums, first_row, spread_of_sums

FORMS = {"dense": np.asarray, "float32": lambda X: X.astype(np.float32), "csr": sparse.csr_array}


def features(rng, n=200):
    X = rng.normal(size=(n, 5)) * [1.0, 1e3, 1e-4, 1.0, 0.0] + [0.0, 5.0, 0.0, -3.0, 7.0]
    X[rng.random(n) < 0.7, 3] = 0.0
    return X


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_they_are_those_of_numpy(form, weighted, rng, monkeypatch):
    monkeypatch.setattr(rows, "CHUNK_VALUES", 60)  # several chunks
    X = FORMS[form](features(rng))
    dense = (X.toarray() if form == "csr" else X).astype(np.float64)
    omega = rng.integers(0, 4, len(dense)).astype(float) if weighted else np.ones(len(dense))
    found = feature_spread(X, omega if weighted else None)
    mean = np.average(dense, axis=0, weights=omega)
    deviation = np.sqrt(np.average((dense - mean) ** 2, axis=0, weights=omega))
    assert found.total == omega.sum()
    np.testing.assert_allclose(found.mean, mean, rtol=1e-12, atol=1e-18)
    np.testing.assert_allclose(found.deviation[:4], deviation[:4], rtol=1e-10)
    assert found.deviation[4] == 0.0
    assert found.scales("standard").tolist() == [*found.deviation[:4], np.inf]
    assert found.scales(None).tolist() == [1.0, 1.0, 1.0, 1.0, np.inf]
    assert found.mean_square("standard") == pytest.approx(omega.sum() * 4 / 5)
    assert found.mean_square(None) == pytest.approx(omega @ ((dense - mean) ** 2).mean(axis=1))


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_rows_of_weight_0_are_as_if_absent_and_weight_2_is_twice(form, rng):
    X, omega = features(rng), rng.integers(0, 3, 200).astype(float)
    omega[0] = 0.0  # the row that sums are taken about
    one = feature_spread(FORMS[form](X), omega)
    other = feature_spread(FORMS[form](np.repeat(X, omega.astype(int), axis=0)))
    np.testing.assert_allclose(one.deviation, other.deviation, rtol=1e-10)
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-12, atol=1e-16)
    X[0, 4] = 1e6  # varies in a row that does not count
    assert feature_spread(FORMS[form](X), omega).deviation[4] == 0.0


def test_parts_add_up(rng):
    X = features(rng)
    shift = first_row(X)
    parts = [feature_sums(X[rows], shift) for rows in (slice(0, 10), slice(10, 11), slice(11, 200))]
    found, whole = spread_of_sums(parts, shift), feature_spread(X)
    np.testing.assert_allclose(found.deviation, whole.deviation, rtol=1e-12)
    np.testing.assert_allclose(found.mean, whole.mean, rtol=1e-12, atol=1e-16)


@pytest.mark.parametrize("form", FORMS)
def test_powers_of_two_scale_exactly(form, rng):
    X, factors = features(rng), 2.0 ** np.array([-9, 13, 4, -1, 7])
    one, other = feature_spread(FORMS[form](X)), feature_spread(FORMS[form](X * factors))
    assert np.array_equal(other.deviation, one.deviation * factors)
    assert np.array_equal(other.mean, one.mean * factors)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize(
    ("factor", "offset"), [(1.0, 1e9), (1e-3, 1e9), (1e150, 0.0), (1e-150, 0.0), (1e150, 1e152), (1e-150, 1e-149)]
)
def test_offsets_and_extremes(form, factor, offset, rng):
    z = np.round(rng.normal(size=300) * 1024) / 1024
    X = (z * factor + offset)[:, None]
    found = feature_spread(FORMS[form](X))
    assert found.deviation[0] == pytest.approx(factor * z.std(), rel=1e-3 if factor == 1e-3 else 1e-6)


@pytest.mark.parametrize("values", [[3e9] * 5, [0.1 + 0.2, 0.3, 0.3, 0.3], [5e-324, 0.0, 1e-320], [0.0, 0.0]])
def test_what_is_constant_but_for_rounding_and_what_is_too_small_to_divide_by(values):
    assert feature_spread(np.array(values)[:, None]).deviation.tolist() == [0.0]


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_rows_without_weight_do_not_matter_wherever_they_stand(rng, form):
    X, weights = rng.normal(size=(60, 4)), np.ones(60)
    X[:6], weights[:6] = 1e8, 0.0
    found, expected = feature_spread(FORMS[form](X), weights), feature_spread(FORMS[form](X[6:]))
    np.testing.assert_allclose(found.deviation, expected.deviation, rtol=1e-12)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12)


def test_features_whose_differences_overflow_are_refused():
    X = np.array([[1.7e308], [-1.7e308], [0.0]])
    with pytest.raises(DataError, match="overflow"), np.errstate(all="ignore"):
        feature_spread(X)
