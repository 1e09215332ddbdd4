"""Adaptive bins against the definition, codes as features, and trees that keep the bins."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import gainful
from gainful import AdaptiveBinner, DataError, LambdaMART, McRank, ParameterError, RankingData
from gainful.trees.codes import NOT_BY_FREQUENCY, Blocks, bins_of_codes
from gainful.trees.data_sets import bins_of_values

VALUES = hnp.arrays(
    float, st.integers(1, 40), elements=st.one_of(st.floats(-100, 100), st.integers(-5, 5).map(float), st.just(1e300))
)


def plain_bins(values, length):
    """The definition: a bin opens at the first value without one and takes all within the length above it."""
    bins = []
    for value in sorted(set(values)):
        if not bins or value - bins[-1][0] > length:
            bins.append([])
        bins[-1].append(value)
    return bins


def plain_length(values, most, start=0.0):
    """The smallest length ≥ start that fits; only start and distances between values come into question."""
    distances = {start} | {b - a for a in values for b in values if b - a > start}
    return next(length for length in sorted(distances) if len(plain_bins(values, length)) <= most)


@given(VALUES, st.integers(2, 12), st.sampled_from([0.0, 1e-10, 0.5]))
def test_bins_are_those_of_the_definition(values, most, start):
    binner = AdaptiveBinner(most, start_length=start).fit(values[:, None])
    length = plain_length(values, most, start)
    assert binner.lengths_.tolist() == [length]
    bins = plain_bins(values, length)
    assert binner.n_bins_.tolist() == [len(bins)]
    codes = binner.transform(values[:, None])[:, 0]
    assert [sorted(set(values[codes == b])) for b in range(len(bins))] == bins


@given(VALUES, st.integers(2, 12), st.lists(st.floats(-200, 200), min_size=1, max_size=20))
def test_new_values_go_to_the_nearest_bin_in_order(values, most, new):
    binner = AdaptiveBinner(most).fit(values[:, None])
    bins = plain_bins(values, binner.lengths_[0])
    new = np.sort(new)
    codes = binner.transform(new[:, None])[:, 0].astype(int)
    assert (np.diff(codes) >= 0).all()
    for value, code in zip(new, codes, strict=True):
        distance = [max(b[0] - value, value - b[-1], 0.0) for b in bins]
        assert distance[code] == pytest.approx(min(distance), rel=1e-9)
    assert all(b[-1] - b[0] <= binner.lengths_[0] for b in bins)


def test_gaps_get_no_bins():
    values = np.concatenate([np.linspace(0, 1, 500), np.linspace(1e6, 1e6 + 1, 500)])
    binner = AdaptiveBinner(64).fit(values[:, None])
    assert binner.lengths_[0] < 0.05
    assert 60 <= binner.n_bins_[0] <= 64
    assert np.bincount(binner.transform(values[:, None])[:, 0]).max() < 25


def test_few_distinct_values_are_kept_apart(rng):
    X = rng.integers(0, 256, (3000, 2)) * np.array([1e-30, 1e30])
    codes = AdaptiveBinner().fit_transform(X)
    for j in range(2):
        assert np.array_equal(codes[:, j], np.unique(X[:, j], return_inverse=True)[1])
    assert len(np.unique(AdaptiveBinner(start_length=1e-10).fit_transform(X)[:, 0])) == 1


@pytest.mark.parametrize(("n_bins", "dtype"), [(2, np.uint8), (256, np.uint8), (257, np.uint16), (65536, np.uint16)])
def test_codes_are_one_or_two_bytes(rng, n_bins, dtype):
    X = rng.normal(size=(70_000 if n_bins == 65536 else 2000, 1))
    codes = AdaptiveBinner(n_bins).fit_transform(X)
    assert codes.dtype == dtype
    assert codes.min() == 0
    assert 0.8 * n_bins - 1 < codes.max() < n_bins or n_bins > 2000 > codes.max()


def test_numbers_of_any_size():
    X = np.array([[-1.7e308], [-1.0], [0.0], [5e-324], [1.7e308]])
    assert AdaptiveBinner(8).fit_transform(X)[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert np.diff(AdaptiveBinner(2).fit_transform(X)[:, 0].astype(int)).min() >= 0


# -- missing values, sparse matrices, frames ---------------------------------------------------------------------------


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array, sparse.csc_matrix])
def test_missing_values_have_the_code_after_the_last_bin(rng, store):
    X = rng.normal(size=(600, 3))
    X[::5, 1] = np.nan
    X[:, 2] = np.nan
    binner = AdaptiveBinner(16).fit(store(X))
    codes = binner.transform(store(X))
    assert binner.has_missing_.tolist() == [False, True, True]
    assert binner.n_bins_[1] <= 15
    assert set(codes[::5, 1]) == {binner.n_bins_[1]}
    assert codes[np.isfinite(X[:, 1]), 1].max() == binner.n_bins_[1] - 1
    assert codes.max() < 16


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array])
def test_a_missing_value_is_zero_where_training_had_none(rng, store):
    """As in trees trained without missing values."""
    X = rng.normal(size=(600, 2))
    X[::5, 1] = np.nan
    binner = AdaptiveBinner(16).fit(store(X))
    codes = binner.transform(store(np.array([[np.nan, np.nan], [0.0, np.nan]])))
    assert codes[0].tolist() == codes[1].tolist()
    assert 0 < codes[0, 0] < binner.n_bins_[0] - 1


def test_sparse_is_binned_as_dense(rng):
    X = rng.normal(size=(400, 6)) * (rng.random((400, 6)) < 0.3)
    X[:, 5] = np.abs(X[:, 5]) + 1.0  # no zeros
    dense = AdaptiveBinner(12).fit(X)
    thin = AdaptiveBinner(12).fit(sparse.csr_array(X))
    assert np.array_equal(dense.lengths_, thin.lengths_)
    codes = thin.transform(sparse.csr_matrix(X))
    assert isinstance(codes, np.ndarray)
    assert np.array_equal(codes, dense.transform(X))


def test_float32_is_binned_by_its_own_values(rng):
    X = rng.normal(size=(500, 2)).astype(np.float32)
    assert np.array_equal(AdaptiveBinner(16).fit_transform(X), AdaptiveBinner(16).fit_transform(X.astype(np.float64)))


def test_frames_keep_their_names(rng):
    frame = pd.DataFrame(rng.normal(size=(50, 2)), columns=["title", "body"], index=np.arange(50) + 7)
    binner = AdaptiveBinner(8).set_output(transform="pandas").fit(frame)
    codes = binner.transform(frame)
    assert codes.columns.tolist() == ["title", "body"] == binner.get_feature_names_out().tolist()
    assert codes.index.equals(frame.index)
    assert (codes.dtypes == np.uint8).all()
    with pytest.raises(DataError, match="feature names should match"):
        binner.transform(frame[["body", "title"]])
    with pytest.raises(DataError, match="X has 1 features, but AdaptiveBinner is expecting 2"):
        binner.transform(frame[["body"]])


def test_mistakes_are_reported():
    with pytest.raises(ParameterError, match="n_bins of AdaptiveBinner must be"):
        AdaptiveBinner(1).fit([[1.0]])
    with pytest.raises(NotFittedError, match="call fit first"):
        AdaptiveBinner().transform([[1.0]])
    with pytest.raises(DataError, match="infinite"):
        AdaptiveBinner().fit([[np.inf]])
    with pytest.raises(DataError, match="no features"):
        AdaptiveBinner().fit(np.empty((3, 0)))


OWN_WORDS = {  # refused as it should be, in gainful's words instead of scikit-learn's
    "check_complex_data", "check_dtype_object", "check_estimators_empty_data_messages", "check_fit2d_predict1d",
}  # fmt: skip


def test_scikit_learns_checks():
    found = check_estimator(AdaptiveBinner(), on_fail=None, on_skip=None)
    assert {check["check_name"] for check in found if check["status"] == "failed"} <= OWN_WORDS


# -- codes as features -------------------------------------------------------------------------------------------------


@given(st.integers(3, 300), st.sampled_from([4, 64, 256, 1000]))
@settings(max_examples=15)
def test_lightgbm_keeps_one_bin_for_each_code(n, n_bins):
    X = np.random.default_rng(n).normal(size=(n * 10, 3)) ** 3
    codes = AdaptiveBinner(n_bins).fit_transform(X)
    kept = [len(np.unique(codes[:, j])) for j in range(3)]
    params = {"verbosity": -1, **bins_of_values(codes), **NOT_BY_FREQUENCY}
    small = bins_of_codes(codes, params)
    large = lgb.Dataset(Blocks(codes), label=np.zeros(len(codes)), params=params, reference=small).construct()
    plain = lgb.Dataset(codes, params=params).construct()
    assert [large.feature_num_bin(j) for j in range(3)] == kept == [plain.feature_num_bin(j) for j in range(3)]


@pytest.mark.parametrize("name", ["lambdamart", "mcrank", "mcrank-ordinal", "tree-regression"])
def test_codes_in_blocks_grow_the_trees_of_floats(parts, name):
    binner = AdaptiveBinner(64).fit(parts[0])
    train, valid, test = (binner.transform(part) for part in parts)
    make = lambda: gainful.ranker(name, n_trees=8, n_leaves=6, bins="exact", n_jobs=1)  # noqa: E731
    floats = [part.replace(X=part.X.astype(np.float64)) for part in (train, valid, test)]
    model, same = make().fit(train, eval_set=valid), make().fit(floats[0], eval_set=floats[1])
    assert np.array_equal(model.predict(test), same.predict(floats[2]))
    assert [r["validation"] for r in model.history_] == [r["validation"] for r in same.history_]
    model.set_params(warm_start=True, n_trees=10).fit(train, eval_set=valid)
    assert model.n_iter_ == 10
    categorical = make().set_params(categorical=[1]).fit(train)
    assert np.isfinite(categorical.predict(test)).all()


def test_all_65_536_codes_can_be_kept():
    X = np.arange(65536, dtype=np.float64)[:, None] ** 2
    codes = AdaptiveBinner(65536).fit_transform(X)
    assert np.array_equal(codes[:, 0], np.arange(65536))
    params = {"verbosity": -1, **bins_of_values(codes), **NOT_BY_FREQUENCY}
    assert bins_of_codes(codes, params).construct().feature_num_bin(0) == 65536


@pytest.mark.filterwarnings("ignore:the grades have:gainful.DataWarning")
def test_a_tree_can_cut_between_any_two_codes():
    """With as many leaves as codes and a target that differs from code to code, a single tree tells all 256 apart."""
    codes = AdaptiveBinner(256).fit_transform(np.random.default_rng(0).normal(size=(8000, 1)))
    n = len(np.unique(codes))
    target = np.random.default_rng(1).permutation(n)[np.unique(codes[:, 0], return_inverse=True)[1]].astype(float)
    model = McRank("regression", n_trees=1, n_leaves=n, learning_rate=1.0, min_docs_in_leaf=1, bins="exact", n_jobs=1)
    model.fit(codes, target, qid=np.arange(8000) // 40)
    assert np.allclose(model.predict(codes), target)


@pytest.mark.parametrize("n_bins", [16, 256, 1000])
def test_a_pipeline_ranks_by_the_codes(parts, n_bins):
    train, _, test = parts
    pipeline = make_pipeline(AdaptiveBinner(n_bins), LambdaMART(n_trees=10, n_leaves=6, bins="exact", n_jobs=1))
    pipeline.fit(train.X, train.y, lambdamart__qid=train.qid)
    binner = AdaptiveBinner(n_bins).fit(train)
    codes, new = binner.transform(train), binner.transform(test)
    assert isinstance(codes, RankingData)
    assert codes.X.dtype == (np.uint8 if n_bins <= 256 else np.uint16)
    assert np.array_equal(codes.qid, train.qid)
    params = {"objective": "lambdarank", "num_leaves": 6, "num_threads": 1, "verbosity": -1, "seed": 0,
              "deterministic": True, "force_row_wise": True, "max_bin": 65535, "min_data_in_bin": 1,
              "lambdarank_truncation_level": 30}  # fmt: skip
    floats = lgb.Dataset(codes.X.astype(float), label=train.y, group=train.counts, params=params)
    expected = lgb.train(params, floats, 10).predict(new.X.astype(float))
    assert np.array_equal(pipeline.predict(test.X), expected)
    assert np.array_equal(clone(pipeline[-1]).fit(codes).predict(new), expected)


def test_ranking_data_keeps_codes_without_a_copy(rng):
    X = rng.integers(0, 256, (20, 3), dtype=np.uint8)
    data = RankingData.from_rows(X, np.zeros(20), np.repeat([1, 2], 10))
    assert np.shares_memory(data.X, X)
    assert not data.has_missing
    assert "uint8" in str(data)
    assert data.describe().storage == "dense uint8"
    frame = RankingData.from_rows(pd.DataFrame(X), np.zeros(20), np.repeat([1, 2], 10))
    assert frame.X.dtype == np.uint8


@pytest.mark.parametrize("suffix", [".txt", ".parquet", ".gainful-data"])
def test_codes_are_written_as_numbers(rng, tmp_path, suffix):
    from gainful.formats import known_suffixes

    if suffix not in known_suffixes():
        suffix = next(s for s in known_suffixes() if s not in (".txt", ".parquet"))
    X = rng.integers(0, 65536, (20, 3), dtype=np.uint16)
    data = RankingData.from_rows(X, np.zeros(20), np.repeat([1, 2], 10))
    gainful.write(data, tmp_path / f"codes{suffix}")
    assert np.array_equal(gainful.read(tmp_path / f"codes{suffix}").X, X)


@pytest.mark.parametrize("name", ["regression", "ranksvm", "listnet", "rankboost", "lambdamart", "mcrank"])
def test_rankers_of_every_kind_take_codes(parts, name):
    train, valid, test = (part.replace(X=AdaptiveBinner(16).fit(parts[0]).transform(part.X)) for part in parts)
    params = {"n_trees": 5, "n_jobs": 1} if name in ("lambdamart", "mcrank") else {}
    model = gainful.ranker(name, **params).fit(train, eval_set=valid)
    floats = [part.replace(X=part.X.astype(np.float32)) for part in (train, valid, test)]
    same = gainful.ranker(name, **params).fit(floats[0], eval_set=floats[1])
    assert np.allclose(model.predict(test), same.predict(floats[2]))
    assert np.allclose(model.predict(test.X), same.predict(floats[2]))
