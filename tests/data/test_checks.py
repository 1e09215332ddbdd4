"""``check_data`` reports mistakes in bad data and nothing in good data."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

import gainful
from gainful.data import checks
from gainful.data.blocks import LocalBlocks
from gainful.data.checks import skip_checks
from gainful.data.identifiers import is_monotone, is_numbering
from gainful.data.sharded import ShardedData
from gainful.errors import command_line_words

STORED = {
    "dense": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "sparse": sparse.csr_matrix,
}


def data_of(X, y, qid, names=None):
    return gainful.RankingData.from_rows(X, y, qid, feature_names=names)


def with_column(values, j=1, names=None, stored="dense"):
    """Artificial data of 40 queries of 10 rows whose column j is replaced."""
    base = gainful.make_artificial(40, n_docs=10, n_features=4, seed=2)
    X = np.array(base.X)
    X[:, j] = values(base) if callable(values) else values
    return data_of(STORED[stored](X), base.y, base.qid, names)


def codes(data, valid=None):
    return [finding.code for finding in gainful.check_data(data, valid)]


def in_shards(data, n=3):
    cuts = np.linspace(0, data.n_queries, n + 1).astype(int)
    return ShardedData(LocalBlocks([data[a:b] for a, b in pairwise(cuts)]))


def with_weightless_rows(data, seed=0):
    """The same data between queries of weight 0 that contradict every finding: other grades, other values."""
    rng = np.random.default_rng(seed)
    X, y, qid = np.asarray(data.X if isinstance(data.X, np.ndarray) else data.X.toarray()), data.y, data.qid
    n = 30
    noise = rng.random((n, X.shape[1])) * 1e6
    ids = np.repeat(np.arange(10) + 10**6, 3)
    rows = gainful.RankingData.from_rows(
        np.concatenate([noise, X]), np.concatenate([rng.integers(0, 3, n), y]), np.concatenate([ids, qid]),
        sample_weight=np.concatenate([np.zeros(n), np.ones(len(y))]), feature_names=data.feature_names,
    )  # fmt: skip
    return rows if isinstance(data.X, np.ndarray) else rows.replace(X=sparse.csr_matrix(rows.X))


# -- good data ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_docs", [2, 10])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("stored", STORED)
def test_artificial_data_has_no_findings(stored, seed, n_docs):
    made = gainful.make_artificial(60, n_docs=n_docs, n_features=5, n_grades=3, seed=seed)
    data = made.replace(X=STORED[stored](np.array(made.X)))
    assert codes(data) == []
    assert codes(in_shards(data)) == []
    assert codes(data[:40], data[40:]) == []


@pytest.mark.parametrize(
    "values",
    [
        lambda data: np.random.default_rng(0).integers(100, 10**7, data.n_rows),  # sizes in bytes, prices in cents
        lambda data: np.repeat(np.random.default_rng(0).integers(1, 10**6, data.n_queries), data.counts),  # results
        lambda data: np.tile(np.arange(10), data.n_queries),  # the rank of another engine
        lambda data: np.where(np.arange(data.n_rows) % 3, 1.0, np.nan),
        lambda data: data.y + (np.arange(data.n_rows) == 17),  # the grade, but for one row
        lambda data: np.arange(data.n_rows) == 17,
    ],
    ids=["wide counts", "counts per query", "ranks", "one value or missing", "nearly the grade", "one row set"],
)
@pytest.mark.parametrize("stored", STORED)
def test_features_that_only_resemble_a_mistake(stored, values):
    assert codes(with_column(values, stored=stored)) == []


def test_ohsumed_has_nine_constant_features_and_nothing_else(ohsumed):
    train, valid = (gainful.read(ohsumed / "Fold1" / f"{part}.txt") for part in ("train", "vali"))
    (found,) = gainful.check_data(train, valid)
    assert found.code == "constant-features"
    assert found.features == ("5", "6", "7", "20", "21", "22", "35", "36", "37")


# -- queries and grades ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("look", [lambda data: data, in_shards], ids=["whole", "shards"])
def test_a_number_of_the_row_as_query_id(artificial, look):
    data = data_of(artificial.X, artificial.y, np.arange(artificial.n_rows))
    (found,) = gainful.check_data(look(data))
    assert found.code == "one-row-queries"
    assert str(found) == (
        "every query has one row, so there is nothing to rank; check the query ids (qid): is it a row number?"
    )


@pytest.mark.parametrize("look", [lambda data: data, in_shards], ids=["whole", "shards"])
def test_nearly_all_queries_have_one_row(artificial, look):
    qid = np.arange(artificial.n_rows)
    qid[:6] = 0
    data = data_of(artificial.X, np.r_[1.0, artificial.y[1:6] * 0, artificial.y[6:]], qid)
    (found,) = gainful.check_data(look(data))
    assert found.code == "one-row-queries"
    assert found.message.startswith("2,394 of 2,395 queries have one row")


@pytest.mark.parametrize("look", [lambda data: data, in_shards], ids=["whole", "shards"])
def test_no_query_with_two_grades(artificial, look):
    graded_by_query = np.repeat(np.arange(artificial.n_queries) % 3, artificial.counts)
    assert codes(look(data_of(artificial.X, graded_by_query, artificial.qid))) == ["one-grade"]
    assert codes(look(data_of(artificial.X, np.ones(artificial.n_rows), artificial.qid))) == ["one-grade"]


def test_scores_as_grades(artificial, rng):
    def graded(y):
        return codes(data_of(artificial.X, y, artificial.qid))

    assert graded(rng.random(artificial.n_rows)) == ["scores-as-grades"]
    assert graded(rng.integers(0, 200, artificial.n_rows)) == ["scores-as-grades"]
    assert graded(rng.integers(0, 60, artificial.n_rows)) == ["high-grades"]
    assert graded(rng.integers(0, 31, artificial.n_rows)) == []
    assert graded(rng.integers(0, 9, artificial.n_rows) / 2) == []


# -- features ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("leak", [lambda y: y, lambda y: 5 - y, lambda y: 2**y - 1], ids=["same", "falling", "gain"])
def test_the_grade_among_the_features(stored, leak):
    data = with_column(lambda base: leak(base.y), stored=stored, names=["a", "clicked", "b", "c"])
    (found,) = gainful.check_data(data)
    assert (found.code, found.features) == ("leak", ("clicked",))
    assert str(found).startswith("feature clicked is the grade itself, or rises or falls exactly with it; leave out")
    assert codes(in_shards(data)) == ["leak"]


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize(
    "values",
    [
        lambda data: np.arange(data.n_rows),
        lambda data: 1 + np.random.default_rng(0).permutation(data.n_rows),
        lambda data: np.cumsum(np.random.default_rng(0).integers(1, 9, data.n_rows)),
        lambda data: data.qid,
        lambda data: 10 * data.qid[::-1] + 3,
    ],
    ids=["index", "shuffled index", "gaps", "query id", "query number with gaps"],
)
def test_row_and_query_numbers_among_the_features(stored, values):
    (found,) = gainful.check_data(with_column(values, stored=stored))
    assert (found.code, found.features) == ("identifiers", ("2",))


def test_row_numbers_are_found_where_rows_were_grouped():
    base = gainful.make_artificial(40, n_docs=10, n_features=4, seed=2)
    order = np.random.default_rng(0).permutation(base.n_rows)
    X = np.array(base.X)[order]
    X[:, 1] = np.cumsum(np.random.default_rng(0).integers(1, 9, base.n_rows))
    assert codes(data_of(X, base.y[order], base.qid[order])) == ["identifiers"]


@pytest.mark.parametrize(
    "name", ["product_id", "id", "ID", "productId", "siteID", "docid", "index", "Unnamed: 0", "item-id", "Row", "uuid"]
)
@pytest.mark.parametrize("look", [lambda data: data, in_shards], ids=["whole", "shards"])
def test_names_of_identifiers(name, look):
    few = np.random.default_rng(0).integers(0, 50, 400)
    (found,) = gainful.check_data(look(with_column(few, names=["a", name, "b", "c"])))
    assert (found.code, found.features) == ("identifiers", (name,))


@pytest.mark.parametrize("name", ["bid", "paid", "valid", "price_index", "grid", "idf", "idea", "rows_seen", "arrow"])
def test_names_that_only_resemble_those_of_identifiers(name):
    few = np.random.default_rng(0).integers(0, 50, 400)
    assert codes(with_column(few, names=["a", name, "b", "c"])) == []


def test_a_flag_or_a_fraction_is_not_an_identifier():
    rng = np.random.default_rng(0)
    assert codes(with_column(rng.integers(0, 2, 400), names=["a", "has_id", "b", "c"])) == []
    assert codes(with_column(rng.random(400), names=["a", "rate_by_id", "b", "c"])) == []


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_values_do_not_number_rows(value):
    assert not is_numbering(np.full(400, value))
    assert not is_numbering(np.append(np.arange(1.0, 400.0)[::-1], value))
    assert not is_monotone(np.full((400, 1), value)).any()


def test_tiny_features():
    data = with_column(np.random.default_rng(0).normal(size=400) * 1e-36)
    (found,) = gainful.check_data(data)
    assert (found.code, found.features) == ("tiny-features", ("2",))
    assert str(found).startswith("feature 2 has no value beyond ±1e-30, which trees take for 0; ")


@pytest.mark.parametrize("value", [0.0, 7.0, np.nan])
def test_constant_features(value):
    (found,) = gainful.check_data(with_column(value))
    assert (found.code, found.features) == ("constant-features", ("2",))
    assert found.category is gainful.RedundantFeaturesWarning
    assert str(found).startswith("feature 2 has the same value in every row and cannot help; ")


def test_constant_features_of_a_sparse_matrix_are_those_that_are_set():
    assert codes(with_column(7.0, stored="sparse")) == ["constant-features"]
    assert codes(with_column(0.0, stored="sparse")) == []


@pytest.mark.parametrize("stored", STORED)
def test_duplicate_features(stored):
    base = gainful.make_artificial(40, n_docs=10, n_features=9, seed=2)
    X = np.array(base.X)
    X[:, 3] = X[:, 6] = X[:, 0]
    X[:, 8] = X[:, 1]
    X[:, 7] = X[:, 2]
    X[0, 7] += 1
    (found,) = gainful.check_data(data_of(STORED[stored](X), base.y, base.qid))
    assert (found.code, found.features) == ("duplicate-features", ("4", "7", "9"))
    assert "3 features repeat another in every row (4 = 1, 7 = 1, 9 = 2)" in str(found)


def test_rare_values_are_looked_for_in_all_rows():
    """A sample of the rows does not see them."""
    base = gainful.make_artificial(2000, n_docs=10, n_features=4, seed=2)
    X = np.array(base.X)
    X[:, 1] = X[:, 2] = 0
    X[7, 1] = X[13, 2] = 1
    assert codes(data_of(X, base.y, base.qid)) == []


def test_a_message_names_three_features():
    base = gainful.make_artificial(40, n_docs=10, n_features=9, seed=2)
    X = np.array(base.X)
    X[:, 2:7] = 1
    (found,) = gainful.check_data(data_of(X, base.y, base.qid))
    assert "5 of 9 features (3, 4, 5, …) have the same value" in str(found)
    assert found.features == ("3", "4", "5", "6", "7")
    assert "\n" not in str(found)


def test_few_rows_prove_nothing():
    assert codes(data_of(np.array([[0.0], [1.0], [2.0], [0.0]]), [0, 1, 2, 0], [1, 1, 2, 2])) == []


@pytest.mark.parametrize("look", [lambda data: data, in_shards], ids=["whole", "shards"])
@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize(
    "values", [lambda data: data.y, 3.0, lambda data: data.X[:, 0], lambda data: np.arange(data.n_rows)],
    ids=["leak", "constant", "duplicate", "row number"],
)  # fmt: skip
def test_queries_of_weight_0_hide_nothing(values, stored, look):
    data = with_column(values, stored=stored)
    assert codes(look(with_weightless_rows(data))) == codes(look(data))


@pytest.mark.parametrize("look", [lambda data: data, in_shards], ids=["whole", "shards"])
def test_grades_of_queries_of_weight_0_do_not_count(look):
    data = gainful.make_artificial(40, n_docs=10, n_features=4, seed=2)
    y = np.where(data.qid < 20, 99.0, data.y)  # a shard of them alone, too
    assert codes(look(data.replace(y=y))) == ["high-grades"]
    assert codes(look(data.replace(y=y, query_weights=(data.query_ids >= 20).astype(float)))) == []
    flat = np.where(data.qid < 20, data.y, 1.0)
    weightless = data.replace(y=flat, query_weights=(data.query_ids >= 20).astype(float))
    assert codes(look(weightless)) == ["one-grade"]


def test_shared_queries_of_weight_0_do_not_count():
    data = gainful.make_artificial(40, n_docs=10, n_features=4, seed=2)
    assert codes(data, data[:5]) == ["shared-queries"]
    without = data.replace(query_weights=(np.arange(40) >= 5).astype(float))
    assert codes(without, data[:5]) == []


@pytest.mark.parametrize("stored", STORED)
def test_many_blocks_are_sampled_like_few(stored):
    made = gainful.make_artificial(800, n_docs=2, n_features=4, seed=2)
    X = np.array(made.X)
    X[:, 1] = made.y
    data = made.replace(X=STORED[stored](X))
    for n in (3, 400):
        assert codes(in_shards(data, n)) == ["leak"]


def test_the_sample_of_many_blocks_is_bounded(monkeypatch):
    monkeypatch.setattr(checks, "SAMPLE_ROWS", 100)
    data = in_shards(gainful.make_artificial(200, n_docs=5, n_features=4, seed=2), 200)
    assert len(checks._glance(data).y) == 100


def test_a_very_wide_sparse_matrix_is_not_made_dense():
    rng = np.random.default_rng(0)
    places = rng.integers(200, size=4_000), rng.integers(2_000_000, size=4_000)
    X = sparse.csr_array((rng.random(4_000), places), shape=(200, 2_000_000))
    assert codes(data_of(X, np.arange(200) % 3, np.arange(200) // 10)) == []


# -- validation data ---------------------------------------------------------------------------------------------------


def test_validation_queries_that_are_training_queries(artificial):
    (found,) = gainful.check_data(artificial, artificial[100:])
    assert found.code == "shared-queries"
    assert str(found).startswith("20 of 20 validation queries are also training queries")


def test_ids_that_start_again_in_each_file_are_not_shared_queries():
    train, valid = (gainful.make_artificial(30, n_docs=5, n_features=3, seed=seed) for seed in (1, 2))
    assert np.array_equal(train.query_ids, valid.query_ids)
    assert codes(train, valid) == []


def test_rows_of_a_query_divided_between_training_and_validation(artificial):
    """Ids that do not count from 0 mean the same query, whatever its rows are."""
    first = np.tile(np.arange(20) < 12, artificial.n_queries)
    for rename in (lambda qid: [f"query {q}" for q in qid], lambda qid: 7919 * qid + 100_000):
        train, valid = (
            data_of(artificial.X[rows], artificial.y[rows], rename(artificial.qid[rows])) for rows in (first, ~first)
        )
        (found,) = gainful.check_data(train, valid)
        assert str(found).startswith("120 of 120 validation queries")
        assert codes(in_shards(train), in_shards(valid)) == ["shared-queries"]


# -- where it is said --------------------------------------------------------------------------------------------------


def unranked(artificial):
    return data_of(artificial.X, artificial.y, np.arange(artificial.n_rows))


def test_fit_warns_once_for_each_finding(artificial):
    X = np.array(artificial.X)
    X[:, 3], X[:, 5] = 1, X[:, 4]
    with pytest.warns(gainful.DataWarning) as told:
        gainful.ranker("regression").fit(X, artificial.y, qid=np.arange(artificial.n_rows))
    assert [str(one.message).split(";")[0] for one in told] == [
        "every query has one row, so there is nothing to rank",
        "feature 4 has the same value in every row and cannot help",
        "1 feature repeats another in every row (6 = 5)",
    ]
    assert {one.filename for one in told} == {__file__}


def test_harmless_findings_can_be_silenced_alone(artificial):
    X = np.array(artificial.X)
    X[:, 3] = 1
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", gainful.RedundantFeaturesWarning)
        gainful.ranker("regression").fit(X, artificial.y, qid=artificial.qid)
        assert told == []
        gainful.ranker("regression").fit(X, 0 * artificial.y, qid=artificial.qid)
    assert [str(one.message)[:28] for one in told] == ["no query has rows of two dif"]


def test_data_in_blocks_warn_too(artificial):
    with pytest.warns(gainful.DataWarning, match="every query has one row"):
        gainful.ranker("regression").fit(in_shards(unranked(artificial)))


def test_comparing_and_tuning_warn_once(artificial):
    data = unranked(artificial)
    with pytest.warns(gainful.DataWarning) as told:
        gainful.compare(["regression", "listnet:max_iter=2"], data, folds=3)
    assert len(told) == 1
    assert told[0].filename == __file__
    with pytest.warns(gainful.DataWarning) as told:
        gainful.tune("listnet:max_iter=2", data, folds=3, trials=2, n_jobs=2)
    assert len(told) == 1
    assert told[0].filename == __file__


def test_splits_given_to_compare_are_looked_at(artificial):
    train, valid, test = artificial[:60], artificial[50:90], artificial[90:]
    with pytest.warns(gainful.DataWarning, match="10 of 40 validation queries") as told:
        gainful.compare(["regression"], train, valid=valid, test=test)
    assert len(told) == 1
    with pytest.warns(gainful.DataWarning, match="10 of 40 validation queries") as told:
        gainful.compare(["regression"], gainful.Split(train, valid, test))
    assert len(told) == 1


def test_checked_data_are_not_checked_again(artificial):
    with skip_checks():
        gainful.ranker("regression").fit(unranked(artificial))  # a warning would be an error here


def test_advice_is_in_the_words_of_the_command_line(artificial):
    with command_line_words():
        (found,) = gainful.check_data(unranked(artificial))
    assert found.advice == "check which column is the query (--read qid=…): is it a row number?"


def test_only_ranking_data_is_checked():
    with pytest.raises(gainful.ParameterError, match="data of check_data must be a RankingData or a ShardedData"):
        gainful.check_data(np.zeros((3, 2)))


def test_weights_that_are_all_zero(artificial):
    nothing = artificial.replace(query_weights=np.zeros(artificial.n_queries))
    assert codes(nothing) == ["no-weight"]
