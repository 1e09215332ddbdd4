"""Numbers from users: what is converted, what counts as missing, what is refused, and the limits of training."""

from __future__ import annotations

import fractions
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import gainful
from gainful import DataError, RankingData
from gainful.data import rows
from gainful.data.frames import as_features
from gainful.data.rows import check_grades, check_query_weights, scan_features


def made(n_queries: int = 4, n_docs: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    n = n_queries * n_docs
    return rng.normal(size=(n, 3)), np.tile([0.0, 1.0, 2.0, 0.0], n_queries), np.repeat(np.arange(n_queries), n_docs)


# -- conversion --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (">f8", np.float64),
        (">f4", np.float32),
        (">i4", np.float64),
        (">f2", np.float32),
        (np.longdouble, np.float64),
        (bool, np.float64),
    ],
    ids=str,
)
def test_any_width_and_byte_order_is_taken(given, stored):
    values = np.array([[1.0, 0.0], [1.0, 1.0]])
    X, _ = as_features(values.astype(given))
    assert X.dtype == stored
    assert X.dtype.isnative
    assert X.tolist() == values.tolist()


def test_big_endian_sparse_values_are_taken():
    X = sparse.csr_array(np.eye(3))
    X.data = X.data.astype(">f8")
    found, _ = as_features(X)
    assert found.data.dtype.isnative
    assert found.toarray().tolist() == np.eye(3).tolist()


def test_numbers_in_objects_are_taken():
    X, _ = as_features(np.array([[1, 2.5], [Decimal("1.5"), fractions.Fraction(1, 4)]], dtype=object))
    assert X.tolist() == [[1.0, 2.5], [1.5, 0.25]]
    assert np.isnan(as_features(np.array([[None, 1.0]], dtype=object))[0][0, 0])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.array([["1.5"]]), "X must be numeric, was <U3; convert it to numbers first"),
        (np.array([["1.5", 2.0]], dtype=object), "X must be numeric, but holds the text '1.5'; convert it"),
        (np.array([[10**400]], dtype=object), "X must be numeric: int too large"),
        (np.array([[1 + 0j]]), "X must be numeric, was complex128"),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), "X must be numeric, was datetime64"),
    ],
)
def test_other_features_are_refused(X, message):
    with pytest.raises(DataError, match=message):
        as_features(X)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["1", "0"], "grades must be numbers, was <U1"),
        (np.array(["1", 0], dtype=object), "grades must be numbers, but holds the text '1'"),
        (np.array([1, 0]) + 0j, "grades must be numbers, was complex128"),
        (np.array([1, 0], dtype="datetime64[D]"), "grades must be numbers, was datetime64"),
        (np.array([1, 0], dtype="timedelta64[D]"), "grades must be numbers, was timedelta64"),
        ([10**400, 0], "grades must be numbers: int too large"),
        ([[1], [0, 2]], "grades must be numbers: "),
        (np.array([1, np.longdouble("1e4000")]), "grade of row 1 must be finite"),
        (np.ma.masked_array([1, 0], [False, True]), "grade of row 1 is masked; every row needs one"),
    ],
    ids=str,
)
def test_other_grades_are_refused(y, message):
    with pytest.raises(DataError, match=message):
        check_grades(y)


@pytest.mark.parametrize("what", ["qid", "sample_weight", "doc_ids"])
def test_masked_columns_are_refused(what):
    X, y, qid = made()
    columns = {"qid": qid, "sample_weight": np.ones(len(y)), "doc_ids": np.arange(len(y))}
    columns[what] = np.ma.masked_array(columns[what], np.arange(len(y)) == 5)
    with pytest.raises(DataError, match=f"{what} of row 5 is masked"):
        RankingData.from_rows(X, y, **columns)
    columns[what] = np.ma.masked_array(columns[what].data)
    assert RankingData.from_rows(X, y, **columns).n_rows == len(y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8, object], ids=str)
def test_masked_features_are_missing(dtype):
    values = np.array([[1, 2], [3, 4]], dtype=dtype)
    X, _ = as_features(np.ma.masked_array(values, [[False, True], [False, False]]))
    assert np.isnan(X[0, 1])
    assert X[0, 0] == 1
    assert X[1].tolist() == [3, 4]
    assert X.dtype == (np.float32 if dtype in (np.float32, np.uint8) else np.float64)
    unmasked, _ = as_features(np.ma.masked_array(values))
    assert unmasked.tolist() == [[1, 2], [3, 4]]
    assert dtype != np.uint8 or unmasked.dtype == np.uint8  # codes stay codes


@pytest.mark.parametrize(
    "damage",
    [
        lambda X: X.indices.__setitem__(1, 10**6),
        lambda X: X.indices.__setitem__(1, -1),
        lambda X: X.indptr.__setitem__(2, 10**6),
        lambda X: X.indptr.__setitem__(-1, 10**6),
    ],
    ids=["column", "negative column", "row", "end"],
)
@pytest.mark.parametrize("kind", ["csr", "csc", "bsr"])
def test_positions_outside_a_sparse_matrix_are_refused(damage, kind):
    X = sparse.csr_array(np.ones((5, 4))).asformat(kind)
    damage(X)
    with pytest.raises(DataError, match="X is a damaged sparse matrix"):
        as_features(X)


def test_positions_outside_a_coordinate_matrix_are_refused():
    X = sparse.coo_array(np.ones((3, 2)))
    X.coords[1][0] = 7
    with pytest.raises(DataError, match="X is a damaged sparse matrix"):
        as_features(X)


# -- one pass over the features ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_a_scan_finds_what_is_missing(dtype, form, monkeypatch):
    monkeypatch.setattr(rows, "CHUNK_VALUES", 8)
    X = np.ones((20, 3), dtype=dtype)
    assert scan_features(form(X)).is_ordinary
    assert scan_features(form(X)).squares == 60
    X[17, 1] = np.nan
    assert scan_features(form(X)).has_missing
    X[3, 2] = -np.inf
    with pytest.raises(DataError, match="feature 3 of row 3 is infinite"):
        scan_features(form(X))


def test_a_scan_finds_the_first_value_that_is_too_large(monkeypatch):
    monkeypatch.setattr(rows, "CHUNK_VALUES", 8)
    X = np.ones((20, 3))
    X[4, 1], X[9, 0] = -1e151, 1e300
    assert scan_features(X).too_large == (4, 1, -1e151)
    assert scan_features(np.where(X > 1, 1.0, np.maximum(X, -1e150))).too_large is None
    X = np.arange(40.0).reshape(20, 2) * 1e149  # 1e150 itself, feature 1 of row 5, is allowed
    assert scan_features(X).too_large == (5, 1, 1.1e150)
    assert scan_features(np.full((3, 2), 3e38, dtype=np.float32)).is_ordinary  # its squares overflow, it does not


def test_rows_are_numbered_as_given():
    X, y, qid = made()
    mixed = np.argsort(np.arange(len(y)) % 4, kind="stable")  # queries in turn, so that rows move
    X[mixed[5], 1] = np.inf
    with pytest.raises(DataError, match="feature 2 of row 5 is infinite"):
        RankingData.from_rows(X[mixed], y[mixed], qid[mixed])
    X[mixed[5], 1] = 1e200
    with pytest.raises(DataError, match=r"feature 2 of row 5 of X is 1e\+200"):
        gainful.RegressionRanker().fit(X[mixed], y[mixed], qid=qid[mixed])


def test_features_are_looked_at_once(monkeypatch):
    scans = []
    monkeypatch.setattr(
        "gainful.data.dataset.scan_features", lambda X, **more: scans.append(X) or scan_features(X, **more)
    )
    data = RankingData.from_rows(*made())
    gainful.RegressionRanker().fit(data).predict(data)
    gainful.RegressionRanker().fit(data[:3]).predict(data[[0, 2]])
    assert len(scans) == 1


# -- the limits of training and scoring --------------------------------------------------------------------------------


def fit(X, y, qid, weights=None, **params):
    return gainful.RegressionRanker(**params).fit(X, y, qid=qid, sample_weight=weights)


def test_large_features_are_refused_with_name_and_row():
    X, y, qid = made()
    X[6, 2] = -1e155
    with pytest.raises(
        DataError, match=r"feature 3 of row 6 of X is -1e\+155, but .* up to ±1e\+150; divide the feature"
    ):
        fit(X, y, qid)
    with pytest.raises(DataError, match=r"feature 3 \(c\) of row 6 of X is -1e\+155"):
        fit(pd.DataFrame(X, columns=list("abc")), y, qid)
    harmless = np.clip(X, -1.0, 1.0)
    with pytest.raises(DataError, match=r"feature 3 of row 6 of eval_set is -1e\+155"):
        gainful.RegressionRanker().fit(harmless, y, qid=qid, eval_set=(X, y, qid + 100))
    model = fit(harmless, y, qid)
    with pytest.raises(DataError, match="feature 3 of row 6 of X is"):
        model.predict(X)
    with pytest.raises(DataError, match="feature 3 of row 6 of X is"):
        model.contributions(X)


def test_large_features_in_blocks_are_refused_with_their_row(tmp_path):
    X, y, qid = made()
    X[13, 0] = 1e200
    for part, queries in enumerate((qid < 2, qid >= 2)):
        gainful.write(RankingData.from_rows(X[queries], y[queries], qid[queries]), tmp_path / f"{part}.gnf")
    with pytest.raises(DataError, match=r"feature 1 of row 13 of X is 1e\+200"):
        gainful.RegressionRanker().fit(tmp_path)


@pytest.mark.filterwarnings("ignore:the highest grade is:gainful.DataWarning")
@pytest.mark.parametrize("factor", [1e31, 1e300, 1e-31, 1e-310])
def test_extreme_grades_are_refused(factor):
    X, y, qid = made()
    with pytest.raises(
        DataError, match=r"the highest grade of X is .* in row 2; it must be 0, or from 1e-30 to 1e\+30"
    ):
        fit(X, y * factor, qid)
    assert np.isfinite(fit(X, y * (1e-29 if factor < 1 else 1e29), qid).predict(X)).all()


@pytest.mark.parametrize("weight", [1e31, 1e300, 1e308, 1e-31, 5e-324])
def test_extreme_weights_are_refused(weight):
    X, y, qid = made()
    with pytest.raises(
        DataError, match=r"the weight of query 2 of X is .*; weights must be 0, or from 1e-30 to 1e\+30"
    ):
        fit(X, y, qid, np.where(qid == 2, weight, 1.0))


@pytest.mark.parametrize("weight", [1e30, 1e-30])
def test_models_of_the_largest_and_smallest_weights_are_saved(weight, tmp_path):
    X, y, qid = made()
    for name in ("regression", "ranksvm", "rankboost"):
        model = gainful.ranker(name).fit(X, y, qid=qid, sample_weight=np.full(len(y), weight))
        gainful.save(model, tmp_path / "m.gainful")
        assert np.array_equal(gainful.load(tmp_path / "m.gainful").predict(X), model.predict(X))


@pytest.mark.filterwarnings("ignore:.*have no value beyond ±1e-30")
def test_features_too_small_to_train_on_without_scaling_are_refused():
    X, y, qid = made()
    for name in ("regression", "ranksvm", "rsrank"):
        with pytest.raises(DataError, match="all below 1e-140 in size, too small for scale=None; use scale='standard'"):
            gainful.ranker(name, scale=None).fit(X * 1e-155, y, qid=qid)
        assert np.isfinite(gainful.ranker(name, scale=None).fit(X * 1e-130, y, qid=qid).predict(X * 1e-130)).all()


def test_a_score_that_overflows_is_refused():
    X, y, qid = made()
    model = fit(X, y, qid)
    model.coef_ = np.array([1e200, 0.0, 0.0])
    with pytest.raises(DataError, match="the score of row 3 overflows; its features are too large for this model"):
        model.predict(np.vstack([X[:3], [[1e149, 0.0, 0.0]]]))


def test_no_rows_have_no_scores():
    X, y, qid = made()
    assert fit(X, y, qid).predict(X[:0]).shape == (0,)


def test_weights_beyond_the_limits_of_training_still_weigh_a_mean():
    values = gainful.metric("ndcg@10")
    X, y, qid = made()
    scores = X[:, 0]
    expected = values(scores, y, qid=qid, query_weights=[1.0, 2.0, 1.0, 0.0])
    for factor in (1e307, 1e-310):
        found = values(scores, y, qid=qid, query_weights=np.array([1.0, 2.0, 1.0, 0.0]) * factor)
        assert found == pytest.approx(expected, rel=1e-6)


def test_weights_of_files_may_be_anything_finite():
    assert check_query_weights([1e300, 0.0], 2).tolist() == [1e300, 0.0]
