"""Queries are divided, never torn apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gainful import DataError, ParameterError, folds, make_artificial, split

DATA = make_artificial(23, n_docs=3, n_features=2, seed=0)


@given(st.integers(0, 2**32 - 1))
def test_shares_of_one_leave_no_query_out_and_none_twice(seed):
    parts = split(DATA, (0.6, 0.2, 0.2), seed=seed)
    ids = [query for part in parts for query in part.query_ids.tolist()]
    assert sorted(ids) == sorted(DATA.query_ids.tolist())
    assert all(part.counts.tolist() == [3] * part.n_queries for part in parts)


def test_counts_and_partial_shares():
    assert [len(part) for part in split(DATA, (10, 5))] == [10, 5]
    assert [len(part) for part in split(DATA, (0.5, 0.25))] == [12, 5]


def test_seed_decides():
    ids = [split(DATA, seed=s)[0].query_ids.tolist() for s in (0, 0, 1)]
    assert ids[0] == ids[1] != ids[2]


@given(st.integers(3, 23), st.integers(0, 1000))
def test_every_query_is_tested_once_and_never_trained_on_in_that_fold(n_folds, seed):
    made = folds(DATA, n_folds, seed=seed)
    tested = [query for fold in made for query in fold.test.query_ids.tolist()]
    assert sorted(tested) == sorted(DATA.query_ids.tolist())
    for fold in made:
        groups = [set(part.query_ids.tolist()) for part in (fold.train, fold.valid, fold.test)]
        assert sum(len(group) for group in groups) == len(set.union(*groups)) == 23


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: split(DATA, (0.7, 0.7)), ParameterError, "at most 1"),
        (lambda: split(DATA, (0.5, -0.5)), ParameterError, "all > 0"),
        (lambda: split(DATA, (20, 20)), DataError, "23 queries cannot be divided"),
        (lambda: split(DATA, (0.99, 0.01)), DataError, "23 queries cannot be divided"),
        (lambda: folds(DATA, 2), ParameterError, "n_folds of folds must be an integer ≥ 3"),
        (lambda: folds(DATA, 24), DataError, "23 queries cannot make 24 folds"),
    ],
)
def test_bad_divisions_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    "call", [lambda: split(DATA, seed=-1), lambda: folds(DATA, 3, seed=1.5), lambda: split(DATA, "abc")]
)
def test_bad_seeds_and_sizes_are_refused(call):
    with pytest.raises(ParameterError):
        call()


def test_folds_take_their_queries_when_asked():
    fold = folds(DATA, 4)[1]
    assert fold.train is not fold.train  # made anew: no fold is kept in memory
    assert fold.train.equals(fold.train)
