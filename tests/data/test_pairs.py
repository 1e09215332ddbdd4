"""Preferences as part of the data: what is accepted, and how they follow their rows."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gainful
from gainful import RankingData
from gainful.data.pairs import PreferredPairs
from gainful.data.query_weights import pair_counts
from gainful.errors import DataError, ParameterError
from graded_pairs import pairs_of_grades

X = np.arange(12.0).reshape(6, 2)
QID = ["a", "b", "a", "b", "a", "b"]  # rows of a: 0, 2, 4; of b: 1, 3, 5


def listed(data):
    """{(x of the better row, x of the worse row): weight}."""
    pairs = data.pairs
    x = data.X[:, 0]
    return dict(
        zip(zip(x[pairs.better].tolist(), x[pairs.worse].tolist(), strict=True), pairs.weight.tolist(), strict=True)
    )


def data_with(pairs, **more):
    return RankingData.from_rows(X, qid=QID, pairs=pairs, **more)


def test_rows_are_those_of_the_input_whatever_their_order():
    data = data_with([(4, 0), (1, 5), (0, 2)])
    assert listed(data) == {(8.0, 0.0): 1.0, (2.0, 10.0): 1.0, (0.0, 4.0): 1.0}
    assert data.pairs.counts.tolist() == [2, 1]
    assert not data.y.any()
    assert data.has_pairs
    assert not gainful.make_artificial(3).has_pairs


@pytest.mark.parametrize(
    "given",
    [
        [(4, 0, 2.0), (1, 5, 0.5)],
        np.array([[4.0, 0.0, 2.0], [1.0, 5.0, 0.5]]),
        pd.DataFrame({"weight": [2.0, 0.5], "worse": [0, 5], "better": [4, 1]}),
        {"better": [4, 1], "worse": [0, 5], "weight": [2.0, 0.5]},
    ],
)
def test_pairs_are_rows_of_an_array_or_columns_of_a_frame(given):
    assert listed(data_with(given)) == {(8.0, 0.0): 2.0, (2.0, 10.0): 0.5}


def test_weights_of_equal_pairs_add_up_and_contradictions_stay():
    data = data_with([(4, 0, 1.0), (0, 4, 0.25), (4, 0, 2.0), (2, 0, 0.0)])
    assert listed(data) == {(8.0, 0.0): 3.0, (0.0, 8.0): 0.25}
    assert pair_counts(data).tolist() == [3.25, 0.0]


def test_cycles_are_allowed_and_so_is_no_pair_at_all():
    assert len(data_with([(0, 2), (2, 4), (4, 0)]).pairs) == 3
    assert len(data_with([]).pairs) == 0


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([(4, 0), (2, 2)], "pair 1 prefers row 2 to itself; give two documents"),
        ([(4, 0), (2, 1)], "pair 1 compares row 2 of query a with row 1 of query b; both documents of a pair must"),
        ([(4, 6)], "pair 0 has row 6, but rows are numbered 0 to 5"),
        ([(-1, 0)], "pair 0 has row -1, but rows are numbered 0 to 5"),
        ([(1234567, 0)], "pair 0 has row 1234567, but rows are numbered 0 to 5"),
        ([(4, 0), (0, 1e300)], r"pair 1 has row 1e\+300, but rows are numbered 0 to 5"),
        ([(4, 0), (2, 0.5)], "pair 1 must have row numbers, but its worse row was 0.5"),
        ([(4, 0, -1.0)], "the weight of pair 0 is -1; weights must be 0, or from 1e-30 to 1e"),
        ([(4, 0, np.nan)], "the weight of pair 0 is nan"),
        ([(4, 0, 1.0), (2, 0, 1e200)], r"the weight of pair 1 is 1e\+200"),
    ],
)
def test_pairs_that_mean_nothing_are_refused_by_number(pairs, words):
    with pytest.raises(DataError, match=words):
        data_with(pairs)


@pytest.mark.parametrize(
    "pairs", [[1, 2, 3], [(0, 2), (2, 4, 1.0)], np.zeros((2, 4)), "a.csv", {"winner": [1], "loser": [2]}]
)
def test_other_shapes_are_refused_with_the_expected_one(pairs):
    with pytest.raises((ParameterError, DataError), match="pairs"):
        data_with(pairs)


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ("pairs.csv", r"was 'pairs\.csv'; read a file of preferences with its data: gainful\.read\(DATA, pairs=FILE\)"),
        (Path("pairs.csv"), r"was 'pairs\.csv'; read a file of preferences"),
        ((pair for pair in [(4, 0)]), r"generator.*; pass list\(pairs\)"),
        ({(4, 0)}, r"set.*; pass list\(pairs\)"),
    ],
)
def test_a_path_or_an_iterator_is_told_what_to_do(pairs, words):
    with pytest.raises(ParameterError, match=words):
        data_with(pairs)


def test_grades_and_preferences_exclude_each_other_and_one_is_needed():
    with pytest.raises(DataError, match=r"has grades \(y\) and preferences \(pairs\); give one"):
        RankingData.from_rows(X, [1, 0, 0, 0, 0, 0], QID, pairs=[(0, 2)])
    with pytest.raises(DataError, match=r"y is missing; .* or preferences \(pairs\)"):
        RankingData.from_rows(X, qid=QID)


# -- following the rows ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def graded():
    return gainful.make_artificial(12, n_docs=6, n_features=3, seed=3)


@pytest.fixture(scope="module")
def data(graded):
    return graded.with_pairs(pairs_of_grades(graded.y, graded.offsets))


def test_all_pairs_of_grades(graded, data):
    counts = [(grades[:, None] > grades).sum() for grades in np.split(graded.y, graded.offsets[1:-1])]
    assert data.pairs.counts.tolist() == counts
    assert (graded.y[data.pairs.better] > graded.y[data.pairs.worse]).all()
    assert (pair_counts(data) == pair_counts(graded)).all()


def test_pairs_follow_their_queries_into_any_selection(graded, data):
    for chosen in (slice(3, 7), [5, 0, 11], np.arange(12) % 2 == 0, 4):
        part = graded[chosen]
        assert data[chosen].pairs.equals(pairs_of_grades(part.y, part.offsets))
        assert not data[chosen].y.any()


def test_parts_put_together_again_are_the_same(data):
    assert RankingData.concatenate([data[:5], data[5:6], data[6:]]).equals(data)
    assert not data.equals(
        data.with_pairs(PreferredPairs.of_rows(np.array([1]), np.array([0]), np.ones(1), data.offsets))
    )
    train, valid, test = gainful.split(data, (0.5, 0.25, 0.25), seed=1)
    assert len(train.pairs) + len(valid.pairs) + len(test.pairs) == len(data.pairs)
    assert all(one.test.has_pairs for one in gainful.folds(data, 3))


def test_pairs_of_other_data_are_refused(data):
    small, offsets = data.X[:18], data.offsets[:4]
    with pytest.raises(DataError, match="pairs belong to 12 queries, but the data has 3; take them from data with the"):
        RankingData.from_rows(small, qid=np.repeat([0, 1, 2], 6), pairs=data.pairs)
    with pytest.raises(DataError, match="pairs belong to 12 queries, but the data has 3"):
        data.replace(X=small, y=np.zeros(18), offsets=offsets, query_ids=data.query_ids[:3])
    with pytest.raises(DataError, match="pairs belong to 1 queries, but the data has 12"):
        data.with_pairs(data[:1].pairs)
    with pytest.raises(DataError, match=r"pair \d+ has the rows \d+ and \d+, but its query has the rows 0 to 1; take"):
        RankingData.from_rows(data.X[:24], qid=np.repeat(np.arange(12), 2), pairs=data.pairs)
    pairs = data.pairs
    short = PreferredPairs(pairs.better, pairs.worse[:-1], pairs.weight, pairs.starts)
    with pytest.raises(DataError, match="the starts, rows and weights of pairs do not fit together"):
        data.with_pairs(short)
    assert RankingData.from_rows(data.X, qid=np.repeat(np.arange(12), 6), pairs=pairs).pairs.equals(pairs)


def test_preferences_and_grades_do_not_mix(graded, data):
    other = graded.replace(query_ids=np.arange(100, 112))
    with pytest.raises(DataError, match="some parts of the data have preferences and some have grades"):
        RankingData.concatenate([data, other])


def test_pairs_survive_pickling(data):
    assert pickle.loads(pickle.dumps(data)).equals(data)


def test_weights_of_documents_multiply_those_of_their_pairs():
    data = data_with([(4, 0, 3.0), (1, 5, 1.0)], sample_weight=[1.0, 1.0, 1.0, 1.0, 4.0, 1.0])
    assert pair_counts(data).tolist() == pytest.approx([3.0 * (4.0 / 2.0) * (1.0 / 2.0), 1.0])


def test_a_description_tells_of_preferences(data):
    text = str(data.describe())
    assert f"none; {len(data.pairs):,} preferences of weight {len(data.pairs)} in 12 queries" in text
    assert data.describe().to_dict()["preferences"]["pairs"] == len(data.pairs)
    assert "relevant" not in text


def test_checks_warn_where_no_query_has_a_pair(data):
    assert not gainful.check_data(data)
    empty = data.with_pairs(PreferredPairs.of_rows(*np.zeros((2, 0), np.int64), np.zeros(0), data.offsets))
    assert [finding.code for finding in gainful.check_data(empty)] == ["no-pairs"]
    weightless = data.replace(query_weights=(np.arange(12) == 3).astype(float))
    assert not gainful.check_data(weightless)
