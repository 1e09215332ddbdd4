"""RankingData: grouping, selection, checks."""

from __future__ import annotations

import dataclasses
import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import gainful
from gainful import DataError, RankingData
from gainful.data.dataset import join_pieces

ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), min_size=1, max_size=40)


def small() -> RankingData:
    return RankingData.from_rows(
        np.arange(12.0).reshape(6, 2), [0, 1, 2, 0, 1, 2], ["b", "a", "b", "c", "a", "b"], doc_ids=list("uvwxyz")
    )


@given(ROWS)
def test_grouping_is_stable_and_undone_by_to_input_order(rows):
    qid = np.array([q for q, _ in rows])
    X = np.arange(len(rows), dtype=float)[:, None]
    data = RankingData.from_rows(X, [g for _, g in rows], qid)
    assert data.query_ids.tolist() == list(dict.fromkeys(qid.tolist()))
    for q, query in enumerate(data.query_ids):
        inside = data.X[data.offsets[q] : data.offsets[q + 1], 0]
        assert inside.tolist() == np.flatnonzero(qid == query).tolist()
    assert data.to_input_order(data.X[:, 0]).tolist() == X[:, 0].tolist()
    assert data.to_input_order(data.qid).tolist() == qid.tolist()


@pytest.mark.parametrize(
    "qid",
    [
        [1, 1, 2, 2],
        ["x", "x", "y", "y"],
        [("u", 1), ("u", 1), ("u", 2), ("u", 2)],
        [1, 1, "1", "1"],
        np.array([1.0, 1.0, 2.0, 2.0]),
        pd.Series(["p", "p", "q", "q"], dtype="category"),
        pd.Series([1, 1, 2, 2], dtype="Int64"),
        pl.Series(["p", "p", "q", "q"]),
        pa.array([1, 1, 2, 2]),
        pa.chunked_array([["a", "a"], ["b", "b"]]),
    ],
    ids=["int", "str", "tuple", "mixed", "float", "category", "nullable", "polars", "arrow", "chunked"],
)
def test_any_hashable_is_a_query_id(qid):
    data = RankingData.from_rows(np.zeros((4, 1)), [0, 1, 0, 1], qid)
    assert data.offsets.tolist() == [0, 2, 4]
    assert data.n_queries == 2


def test_grouped_rows_are_not_copied():
    X = np.random.default_rng(0).random((6, 3))
    data = RankingData.from_rows(X, np.zeros(6), [1, 1, 2, 2, 2, 3])
    assert np.shares_memory(data.X, X)
    assert np.shares_memory(data[1:].X, X)
    assert data.input_order is None


def test_it_is_frozen_and_leaves_the_callers_array_alone():
    X = np.zeros((2, 1))
    data = RankingData.from_rows(X, [0, 1], [1, 1])
    with pytest.raises(ValueError, match="read-only"):
        data.X[0, 0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.y = np.zeros(2)
    X[0, 0] = 5  # the caller's array stays writable


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_storage_keeps_float32_and_float64(dtype):
    assert RankingData.from_rows(np.zeros((2, 1), dtype=dtype), [0, 1], [1, 1]).X.dtype == dtype


def test_integers_fortran_order_and_half_precision_are_converted():
    fortran = np.asfortranarray(np.arange(6).reshape(2, 3))
    data = RankingData.from_rows(fortran, [0, 1], [1, 1])
    assert data.X.dtype == np.float64
    assert data.X.flags.c_contiguous
    assert RankingData.from_rows(fortran.astype(np.float16), [0, 1], [1, 1]).X.dtype == np.float32


def test_sparse_is_kept_as_canonical_csr():
    coo = sparse.coo_array(([1.0, 2.0, 4.0], ([0, 0, 2], [1, 1, 0])), shape=(3, 2))
    data = RankingData.from_rows(coo, [0, 1, 0], [1, 2, 1])
    assert data.is_sparse
    assert data.X.toarray().tolist() == [[0, 3], [4, 0], [0, 0]]
    assert data[1].X.toarray().tolist() == [[0, 0]]
    assert data.describe().density == pytest.approx(2 / 6)


# -- selection ---------------------------------------------------------------------------------------------------------


def test_selection_by_position_mask_slice_and_id():
    data = small()
    assert data.query_ids.tolist() == ["b", "a", "c"]
    assert data[0].doc_ids.tolist() == ["u", "w", "z"]
    assert data[-1].doc_ids.tolist() == ["x"]
    assert data[[2, 0]].doc_ids.tolist() == ["x", "u", "w", "z"]
    assert data[np.array([False, True, True])].doc_ids.tolist() == ["v", "y", "x"]
    assert data[::2].query_ids.tolist() == ["b", "c"]
    assert data.select(["c", "a"]).doc_ids.tolist() == ["x", "v", "y"]
    assert [part.n_rows for part in data] == [3, 2, 1]


@pytest.mark.parametrize(
    ("pick", "message"),
    [
        (lambda d: d[[0, 0]], "selected twice"),
        (lambda d: d[["a"]], "by id use .select"),
        (lambda d: d[3:], "has no queries"),
        (lambda d: d[np.array([True])], "needs 3 entries"),
        (lambda d: d.select(["zz"]), "no query 'zz'"),
    ],
)
def test_bad_selections_are_refused(pick, message):
    with pytest.raises(DataError, match=message):
        pick(small())


def test_position_out_of_range():
    with pytest.raises(IndexError, match="3 queries"):
        small()[3]


def test_concatenation_undoes_slicing():
    data = small()
    assert RankingData.concatenate([data[:1], data[1:]]).equals(data[:])
    weighted = RankingData.from_rows(np.zeros((2, 2)), [0, 1], ["new", "new"], sample_weight=[2, 2])
    both = RankingData.concatenate([data, weighted])
    assert both.query_weights.tolist() == [1, 1, 1, 2]
    assert both.doc_ids.tolist()[-2:] == ["", ""]


def test_concatenation_refuses_what_does_not_fit():
    data = small()
    with pytest.raises(DataError, match="query 'b' is in two parts"):
        RankingData.concatenate([data, data])
    with pytest.raises(DataError, match="part 1 has 3 features"):
        RankingData.concatenate([data, RankingData.from_rows(np.zeros((1, 3)), [0], [9])])
    with pytest.raises(DataError, match="nothing to concatenate"):
        RankingData.concatenate([])


def test_widening_adds_zero_columns():
    wide = small().with_n_features(4)
    assert wide.X[:, 2:].tolist() == [[0, 0]] * 6
    assert wide.X[:, :2].tolist() == small().X.tolist()
    with pytest.raises(DataError, match="more than the 1"):
        small().with_n_features(1)


# -- checks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "y", "qid", "message"),
    [
        (np.zeros((0, 2)), [], [], "no rows"),
        (np.zeros((2, 2)), [0], [1, 1], "1 grades for 2 rows"),
        (np.zeros((2, 2)), [0, 1], [1], "1 entries for 2 rows"),
        (np.zeros((2, 2)), [0, np.nan], [1, 1], "grade of row 1"),
        (np.zeros((2, 2)), [0, np.inf], [1, 1], "grade of row 1"),
        (np.zeros((2, 2)), [-1, 0], [1, 1], "not negative, was -1"),
        (np.zeros((2, 2)), ["a", "b"], [1, 1], "grades must be numbers"),
        (np.array([[0.0, 1.0], [0.0, np.inf]]), [0, 1], [1, 1], "feature 2 of row 1 is infinite"),
        (sparse.csr_array([[0.0, 0.0], [-np.inf, 0.0]]), [0, 1], [1, 1], "feature 1 of row 1 is infinite"),
        (np.zeros(2), [0, 1], [1, 1], "two dimensions"),
        (np.array([["a"], ["b"]]), [0, 1], [1, 1], "must be numeric"),
        (np.zeros((2, 2)), [0, 1], None, "qid is missing"),
        (np.zeros((2, 2)), [0, 1], [1, None], "row 1 is missing"),
        (np.zeros((2, 2)), [0, 1], [1.0, np.nan], "row 1 is missing"),
        ([[1.0], [1.0, 2.0]], [0, 1], [1, 1], "not a rectangle"),
    ],
)
def test_bad_rows_are_refused(X, y, qid, message):
    with pytest.raises(DataError, match=message):
        RankingData.from_rows(X, y, qid)


def test_missing_values_are_allowed_and_known():
    data = RankingData.from_rows([[np.nan, 1.0], [2.0, 3.0]], [0, 1], [1, 1])
    assert data.has_missing
    assert data.describe().missing_values == 1
    assert not small().has_missing


def test_large_finite_values_are_not_taken_for_infinite():
    huge = np.full((4, 2), np.finfo(np.float64).max)
    assert RankingData.from_rows(huge, np.zeros(4), [1, 1, 2, 2]).n_rows == 4


def test_weights_that_are_equal_within_queries_belong_to_queries():
    data = RankingData.from_rows(np.zeros((3, 1)), [0, 1, 1], [1, 2, 1], sample_weight=[3, 5, 3])
    assert data.query_weights.tolist() == [3, 5]
    assert data.document_weights is None
    assert data.row_weights.tolist() == [3, 3, 5]


def test_the_weight_of_a_query_is_the_mean_of_its_rows():
    data = RankingData.from_rows(
        np.zeros((5, 1)), [0, 1, 1, 0, 2], [1, 2, 1, 3, 3], sample_weight=[3, 5, 1, 0, 0], init_score=[1, 2, 3, 4, 5]
    )
    assert data.query_weights.tolist() == [2, 5, 0]
    assert data.row_weights.tolist() == [3, 1, 5, 0, 0]
    assert data.relative_weights.tolist() == [1.5, 0.5, 1, 1, 1]  # in a query without weight all count the same
    assert data.init_scores.tolist() == [1, 3, 2, 4, 5]
    assert data.first_mixed_query() == 1
    assert data.describe().weighted_documents


def test_huge_weights_have_a_mean():
    data = RankingData.from_rows(np.zeros((2, 1)), [0, 1], [1, 1], sample_weight=[1.7e308, 1.5e308])
    assert data.query_weights[0] == pytest.approx(1.6e308)


def test_parts_and_joins_keep_weights_of_documents_and_initial_scores():
    rng = np.random.default_rng(0)
    qid, weights, init = np.repeat(np.arange(4), 3), rng.random(12), rng.normal(size=12)
    data = RankingData.from_rows(
        rng.random((12, 2)), np.tile([0, 1, 2], 4), qid, sample_weight=weights, init_score=init
    )
    assert data[[2, 0]].document_weights.tolist() == [*weights[6:9], *weights[:3]]
    assert data[1:3].init_scores.tolist() == init[3:9].tolist()
    assert RankingData.concatenate([data[:1], data[1:]]).equals(data)
    plain = RankingData.from_rows(rng.random((3, 2)), [0, 1, 2], [9, 9, 9])
    joined = RankingData.concatenate([data, plain])
    assert joined.row_weights.tolist() == [*weights, 1, 1, 1]
    assert joined.init_scores.tolist() == [*init, 0, 0, 0]
    assert not data.equals(data.replace(init_scores=None))
    assert not data.equals(data.replace(document_weights=None))


def test_a_query_in_two_pieces_gets_the_weights_of_both():
    first, second = (
        RankingData.from_rows(np.zeros((2, 1)), [0, 1], ["a", "a"], sample_weight=[w, w]) for w in (1.0, 3.0)
    )
    joined = join_pieces([first, second], [False, True])
    assert joined.query_weights.tolist() == [2]
    assert joined.row_weights.tolist() == [1, 1, 3, 3]


def test_weights_and_initial_scores_are_checked():
    for far in (np.inf, np.nan, 1e100):  # beside which nothing that training adds counts
        with pytest.raises(DataError, match="init_score of row 1 must be a number from -1e15 to 1e15, was"):
            RankingData.from_rows(np.zeros((2, 1)), [0, 1], [1, 2], init_score=[0, far])
    with pytest.raises(DataError, match="init_score must have 2 entries, had shape"):
        RankingData.from_rows(np.zeros((2, 1)), [0, 1], [1, 2], init_score=[0])
    with pytest.raises(DataError, match="sample_weight of row 1 must be finite and not negative, was nan"):
        RankingData.from_rows(np.zeros((2, 1)), [0, 1], [1, 1], sample_weight=[0, np.nan])
    with pytest.raises(DataError, match="not negative"):
        RankingData.from_rows(np.zeros((2, 1)), [0, 1], [1, 2], sample_weight=[-1, 1])
    with pytest.raises(DataError, match="all query weights are 0"):
        RankingData.from_rows(np.zeros((2, 1)), [0, 1], [1, 2], sample_weight=[0, 0])


def test_the_constructor_checks_grouped_arrays():
    with pytest.raises(DataError, match="offsets must run from 0"):
        RankingData(np.zeros((2, 1)), [0, 1], [0, 1], [1])
    with pytest.raises(DataError, match="increase strictly"):
        RankingData(np.zeros((2, 1)), [0, 1], [0, 2, 2], [1, 2])
    with pytest.raises(DataError, match="2 query ids for 1 queries"):
        RankingData(np.zeros((2, 1)), [0, 1], [0, 2], [1, 2])
    with pytest.raises(DataError, match="query id 1 is given twice"):
        RankingData(np.zeros((2, 1)), [0, 1], [0, 1, 2], [1, 1])
    with pytest.raises(DataError, match="'a' is given twice"):
        RankingData(np.zeros((2, 2)), [0, 1], [0, 2], [1], feature_names=("a", "a"))
    with pytest.raises(DataError, match="1 feature names for 2 features"):
        RankingData(np.zeros((2, 2)), [0, 1], [0, 2], [1], feature_names=("a",))


# -- frames ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_frames_bring_names_and_missing_values(kind):
    frame = kind({"bm25": [1.5, None, 2.0], "clicks": [1, 2, 3]})
    data = RankingData.from_rows(frame, [0, 1, 2], [1, 1, 2])
    assert data.feature_names == ("bm25", "clicks")
    assert np.array_equal(data.X, [[1.5, 1], [np.nan, 2], [2, 3]], equal_nan=True)


def test_nullable_pandas_integers_become_missing():
    frame = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": pd.array([True, None], dtype="boolean")})
    data = RankingData.from_rows(frame, [0, 1], [1, 1])
    assert np.array_equal(data.X, [[1, 1], [np.nan, np.nan]], equal_nan=True)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_a_column_of_dates_is_refused_by_name(kind):
    dates = [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)]
    with pytest.raises(DataError, match="column 'day' of X must be numeric"):
        RankingData.from_rows(kind({"day": dates, "x": [1, 2]}), [0, 1], [1, 1])


def test_float32_frames_stay_float32():
    frame = pd.DataFrame({"a": np.zeros(2, np.float32), "b": np.ones(2, np.float32)})
    assert RankingData.from_rows(frame, [0, 1], [1, 1]).X.dtype == np.float32


# -- description -------------------------------------------------------------------------------------------------------


def test_description_counts_what_is_there():
    X = np.array([[1.0, 0.0], [1.0, 2.0], [1.0, np.nan], [1.0, 1.0], [1.0, 5.0]])
    found = RankingData.from_rows(X, [0, 0, 2, 2, 1], [1, 1, 2, 2, 3]).describe()
    assert (found.queries, found.documents, found.features) == (3, 5, 2)
    assert found.documents_per_query == {"min": 1, "median": 2, "mean": pytest.approx(5 / 3), "max": 2}
    assert found.grades == {"0": 2, "1": 1, "2": 2}
    assert found.queries_without_relevant == 1
    assert found.queries_of_one_grade == 2
    assert found.missing_values == 1
    assert found.constant_features == 1
    assert "0: 2, 1: 1, 2: 2" in str(found)


def test_real_valued_grades_are_described_by_their_range():
    y = np.linspace(0.1, 3.7, 50)
    found = RankingData.from_rows(np.zeros((50, 1)), y, np.zeros(50)).describe()
    assert found.grades is None
    assert "0.1 to 3.7" in str(found)


def test_large_grades_and_wide_sparse_data_are_described():
    found = RankingData.from_rows(np.zeros((3, 1)), [1000001, 1000002, 1000003], [1, 1, 1]).describe()
    assert found.grades == {"1000001": 1, "1000002": 1, "1000003": 1}
    wide = sparse.csr_array(([1.0, 5.0, 5.0], ([0, 0, 1], [1_999_999_999, 3, 3])), shape=(2, 2_000_000_000))
    assert RankingData.from_rows(wide, [0, 1], [1, 1]).describe().constant_features == 1_999_999_999


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RankingData.from_rows(np.zeros((2, 1)), [0, 1], [{}, {}]), "hashable"),
        (lambda: RankingData.from_rows(np.zeros((2, 1)), [0j, 1j], [1, 1]), "complex"),
        (lambda: RankingData.from_rows(np.zeros((2, 2)), [0, 1], [1, 1], feature_names="ab"), "list of names"),
        (lambda: RankingData.from_rows(np.zeros((2, 1)), [0, 1], [1, 2], sample_weight=[1, np.nan]), "row 1 must be"),
        (lambda: RankingData.from_rows(pl.LazyFrame({"a": [1.0]}), [0], [1]), "collect"),
        (lambda: small().to_input_order(5), "one entry per row"),
        (lambda: small().select("b"), "list of query ids"),
    ],
)
def test_odd_arguments_are_refused_in_words(call, message):
    with pytest.raises(DataError, match=message):
        call()


# -- group sizes -------------------------------------------------------------------------------------------------------


def test_group_sizes_stand_for_query_ids():
    X, y = np.arange(10.0).reshape(5, 2), [0, 1, 2, 0, 1]
    data = RankingData.from_rows(X, y, group=[2, 3])
    assert data.equals(RankingData.from_rows(X, y, [0, 0, 1, 1, 1]))
    assert RankingData.from_rows(X, y, group=pd.Series([2.0, 3.0])).equals(data)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "label": y})
    assert gainful.from_frame(frame, group=[2, 3]).equals(data.replace(feature_names=("a", "b")))


@pytest.mark.parametrize(
    ("group", "told"),
    [
        ([2, 2], "the group sizes add up to 4, but there are 5 rows$"),
        ([0, 0, 1, 1, 1], "entry 0 of group must be the size of a query, a whole number from 1, was 0"),
        ([1, 1, 2, 2, 2], "the group sizes add up to 8, but there are 5 rows; query ids are given as qid"),
        ([2.5, 2.5], "entry 0 of group must be the size of a query, a whole number from 1, was 2.5"),
        ([np.nan, 5], "entry 0 of group must be the size of a query"),
        ([[2, 3]], "group must have one dimension, had 2"),
        (["two", "three"], "group sizes must be numbers"),
    ],
)
def test_group_sizes_that_cannot_be(group, told):
    X, y = np.zeros((5, 1)), np.zeros(5)
    with pytest.raises(DataError, match=told):
        RankingData.from_rows(X, y, group=group)


def test_group_and_qid_together_are_refused():
    X, y = np.zeros((5, 1)), np.zeros(5)
    with pytest.raises(DataError, match=r"^give qid \(.*\) or group \(.*\), not both$"):
        RankingData.from_rows(X, y, [1] * 5, group=[5])
    with pytest.raises(DataError, match=r"^qid is missing; .* or the size of every query"):
        RankingData.from_rows(X, y)
    frame = pd.DataFrame({"qid": [1] * 5, "a": y, "label": y})
    with pytest.raises(DataError, match=r"give qid .* or group .*, not both"):
        gainful.from_frame(frame, qid="qid", group=[5])


def test_rankers_take_group_sizes(parts):
    train, valid, _ = parts
    X, y, group, qid = train.X, train.y, train.counts, train.qid
    by_group = gainful.ranker("lambdamart", n_trees=5, n_jobs=1)
    by_group.fit(X, y, group=group, eval_set=(valid.X, valid.y, valid.counts))
    by_id = gainful.ranker("lambdamart", n_trees=5, n_jobs=1).fit(X, y, qid=qid, eval_set=(valid.X, valid.y, valid.qid))
    assert [row["validation"] for row in by_group.history_] == [row["validation"] for row in by_id.history_]
    assert by_group.predict(X).tolist() == by_id.predict(X).tolist()
    assert by_group.rank(X, group=group).tolist() == by_group.rank(X, qid=qid).tolist()
    assert by_group.score(X, y, group=group) == by_group.score(X, y, qid=qid)
    with pytest.raises(gainful.ParameterError, match="X is a RankingData, which brings its own"):
        by_group.score(train, group=group)
    with pytest.raises(gainful.ParameterError, match=r"eval_set of fit must be \(X, y, group\)"):
        by_group.fit(X, y, group=group, eval_set=(X, y))
