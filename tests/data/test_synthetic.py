"""The artificial data is what the paper describes."""

from __future__ import annotations

import numpy as np
import pytest

from gainful import ParameterError, make_artificial


def test_shape_range_and_equal_grades():
    data = make_artificial(40, n_docs=25, n_features=7, n_grades=4, seed=5)
    assert data.X.shape == (1000, 7)
    assert np.abs(data.X).max() <= 1
    assert data.counts.tolist() == [25] * 40
    assert np.bincount(data.y.astype(int)).tolist() == [250] * 4


def test_grades_cut_the_papers_target():
    data = make_artificial(30, n_docs=20, n_features=6, seed=11)
    rng = np.random.default_rng(11)
    v, P, Q = rng.standard_normal(6), rng.permutation(6), rng.permutation(6)
    X = data.X
    terms = [X @ v, (X * X[:, P]).sum(1), (X * X[:, P] * X[:, Q]).sum(1)]
    target = sum((t - t.mean()) / t.std() for t in terms) / 3
    order = np.argsort(target)
    assert (np.diff(data.y[order]) >= 0).all()


def test_grade_shares_are_respected():
    data = make_artificial(100, n_docs=10, n_grades=3, grade_shares=[0.7, 0.2, 0.1], seed=0)
    assert np.bincount(data.y.astype(int)).tolist() == [700, 200, 100]


def test_same_seed_same_data_other_seed_other_data():
    assert make_artificial(5, seed=1).equals(make_artificial(5, seed=1))
    assert not make_artificial(5, seed=1).equals(make_artificial(5, seed=2))


def test_a_later_block_continues_the_first(monkeypatch):
    whole = make_artificial(10, n_docs=10, n_features=5, seed=4)
    monkeypatch.setattr("gainful.data.synthetic.BLOCK_ROWS", 7)
    assert make_artificial(10, n_docs=10, n_features=5, seed=4).equals(whole)


def test_one_feature_and_one_document():
    assert make_artificial(1, n_docs=1, n_features=1, n_grades=1).y.tolist() == [0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_queries": 0}, "n_queries of make_artificial must be an integer ≥ 1, was 0"),
        ({"n_queries": 2.5}, "n_queries"),
        ({"n_queries": 2, "n_docs": 0}, "n_docs"),
        ({"n_queries": 2, "grade_shares": [0.5, 0.5]}, "5 numbers"),
        ({"n_queries": 2, "n_grades": 2, "grade_shares": [0.5, 0.6]}, "sum is 1"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ParameterError, match=message):
        make_artificial(**settings)
