"""The seam: one block, many mapped blocks and a folder of shards give the same model by the same code."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import gainful
from gainful.data import blocks as seam
from gainful.data.blocks import LocalBlocks, PerBlock, RowVector, in_blocks
from gainful.data.sharded import ShardedData
from gainful.errors import DataError, ParameterError
from gainful.linear.blockwise import linear_risk
from gainful.losses import loss
from linear_rankers import LINEAR


@pytest.fixture(scope="module")
def data():
    made = gainful.make_artificial(60, n_docs=20, n_features=8, seed=3)
    rng = np.random.default_rng(0)
    return made.replace(query_weights=rng.uniform(0.5, 2.0, made.n_queries))


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    """The data in four shards of unequal length, in order."""
    made = tmp_path_factory.mktemp("shards")
    for i, (a, b) in enumerate(((0, 7), (7, 30), (30, 31), (31, 60))):
        gainful.write(data[a:b], made / f"part-{i}.gnf")
    return made


@pytest.mark.parametrize("name", LINEAR)
def test_shards_give_the_weights_of_memory(name, data, folder):
    model = gainful.ranker(name, **LINEAR[name])
    whole = gainful.ranker(name, **LINEAR[name]).fit(data)
    found = model.fit(folder)
    np.testing.assert_allclose(found.coef_, whole.coef_, rtol=1e-6, atol=1e-6 * np.abs(whole.coef_).max())
    assert found.n_iter_ == whole.n_iter_
    assert found.training_ == whole.training_


def test_a_long_mapped_file_is_cut_and_gives_the_same(data, tmp_path, monkeypatch):
    gainful.write(data, tmp_path / "one.gnf")
    mapped = gainful.read(tmp_path / "one.gnf")
    monkeypatch.setattr(seam, "BLOCK_ROWS", 200)
    monkeypatch.setattr(in_blocks, "__defaults__", (200,))
    assert mapped.n_blocks == 6
    assert data.n_blocks == 1
    for name in ("ranksvm", "structured-svm", "regression"):
        whole = gainful.ranker(name).fit(data)
        np.testing.assert_allclose(gainful.ranker(name).fit(mapped).coef_, whole.coef_, rtol=1e-6)


@pytest.mark.parametrize("ties", ["average", "random"])
def test_random_ties_are_drawn_as_in_one_piece(ties, data, folder):
    whole = gainful.StructuredSVM(ties=ties, C=10.0).fit(data)
    found = gainful.StructuredSVM(ties=ties, C=10.0).fit(folder)
    np.testing.assert_allclose(found.coef_, whole.coef_, rtol=1e-6)


def test_the_tight_bound_by_convex_problems_takes_the_same_first_step(data, folder):
    """Its minima lie where scores tie, so from the second step on rounding decides which ranking is linearised."""
    settings = {"bound": "tight", "tight_method": "cccp", "C": 10.0}
    whole = gainful.StructuredSVM(max_iter=1, **settings).fit(data)
    found = gainful.StructuredSVM(max_iter=1, **settings).fit(folder)
    np.testing.assert_allclose(found.coef_, whole.coef_, rtol=1e-6)
    ends = [gainful.StructuredSVM(max_iter=30, **settings).fit(d).history_[-1]["objective"] for d in (data, folder)]
    assert ends[1] == pytest.approx(ends[0], rel=0.02)


@pytest.mark.filterwarnings("ignore:.*validation queries are also training queries:gainful.DataWarning")
def test_validation_scores_and_metrics_over_shards(data, folder):
    shards = gainful.open_shards(folder)
    whole = gainful.LinearRanker(early_stopping=5, C=[1.0, 100.0]).fit(data, eval_set=data)
    found = gainful.LinearRanker(early_stopping=5, C=[1.0, 100.0]).fit(shards, eval_set=shards)
    np.testing.assert_allclose(found.coef_, whole.coef_, rtol=1e-6)
    assert [row["validation"] for row in found.history_] == pytest.approx(
        [row["validation"] for row in whole.history_], abs=1e-9
    )
    np.testing.assert_allclose(found.predict(shards), found.predict(data), rtol=1e-12)
    assert found.score(shards) == pytest.approx(found.score(data), abs=1e-12)


def test_standardised_and_started_from_regression(data, folder):
    settings = {"loss": "lambda", "init": "regression", "max_iter": 15}
    whole, found = gainful.LinearRanker(**settings).fit(data), gainful.LinearRanker(**settings).fit(folder)
    np.testing.assert_allclose(found.coef_, whole.coef_, rtol=1e-6)


def test_many_features_by_conjugate_gradients(monkeypatch, data, folder):
    from gainful.solvers import ridge

    whole = gainful.RegressionRanker(alpha=2.0).fit(data)
    monkeypatch.setattr(ridge, "MOST_FEATURES_FOR_NORMAL_MATRIX", 3)
    found = gainful.RegressionRanker(alpha=2.0).fit(folder)
    np.testing.assert_allclose(found.coef_, whole.coef_, rtol=1e-7)
    assert found.intercept_ == pytest.approx(whole.intercept_, rel=1e-7)
    assert found.history_[0]["objective"] == pytest.approx(whole.history_[0]["objective"], rel=1e-9)


def test_sparse_shards(data, tmp_path):
    from scipy import sparse

    thin = data.replace(X=sparse.csr_matrix(np.where(data.X > 0.3, data.X, 0.0)))
    gainful.write(thin[:25], tmp_path / "a.gnf")
    gainful.write(thin[25:], tmp_path / "b.gnf")
    for name in ("ranksvm", "regression", "lambdarank"):
        settings = {"max_iter": 10} if name == "lambdarank" else {}
        whole = gainful.ranker(name, **settings).fit(thin)
        np.testing.assert_allclose(gainful.ranker(name, **settings).fit(tmp_path).coef_, whole.coef_, rtol=1e-6)


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_a_split_query_is_refused_with_the_fix(data, tmp_path):
    gainful.write(data[:10], tmp_path / "a.gnf")
    gainful.write(data[9:], tmp_path / "b.gnf")
    with pytest.raises(DataError, match=r"query 10 has rows in .*a\.gnf and .*b\.gnf; .*convert FOLDER NEW"):
        gainful.open_shards(tmp_path)


def test_unlike_shards_are_refused(data, tmp_path):
    gainful.write(data[:10], tmp_path / "a.gnf")
    gainful.write(data[10:].replace(X=data[10:].X[:, :5].copy()), tmp_path / "b.gnf")
    with pytest.raises(DataError, match=r"b\.gnf has 5 features, .*a\.gnf has 8"):
        gainful.open_shards(tmp_path)


def test_rankers_that_want_one_piece_say_so(folder, data, tmp_path):
    with pytest.raises(DataError, match="AdaRank needs its data in one piece, but it has 4 blocks; convert"):
        gainful.AdaRank().fit(folder)
    gainful.write(data, tmp_path / "one.gnf")
    np.testing.assert_allclose(gainful.AdaRank().fit(tmp_path / "one.gnf").coef_, gainful.AdaRank().fit(data).coef_)


@pytest.mark.parametrize(
    "model",
    [
        gainful.StructuredSVM(solver="cutting_plane"),
        gainful.RankMM(solver="stochastic"),
        gainful.StructuredSVM(position_weights="learn"),
    ],
)
def test_solvers_that_ask_query_by_query_say_so(model, folder):
    with pytest.raises(ParameterError, match="shards"):
        model.fit(folder)


def test_missing_values_in_a_later_shard_are_found(data, tmp_path):
    X = np.array(data.X)
    X[-1, 2] = np.nan
    holed = data.replace(X=X)
    gainful.write(holed[:30], tmp_path / "a.gnf")
    gainful.write(holed[30:], tmp_path / "b.gnf")
    with pytest.raises(DataError, match="missing values"):
        gainful.RankSVM().fit(tmp_path)


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(gainful.FormatError, match="holds no data files"):
        gainful.open_shards(tmp_path)


def test_what_does_not_fit_in_memory_and_cannot_be_mapped(data, tmp_path, monkeypatch):
    gainful.write(data, tmp_path / "a.parquet")
    assert gainful.open_shards(tmp_path).n_rows == data.n_rows
    monkeypatch.setattr("gainful.compute.memory.available_memory", lambda: 1000)
    with pytest.raises(DataError, match=r"must be read whole, .* the limit is 0\.5 kB: gainful data convert") as told:
        gainful.open_shards(tmp_path)
    advised = str(told.value).rpartition("max_bytes=")[2].strip("'")
    for limit in (advised, "off"):
        assert gainful.open_shards(tmp_path, max_bytes=limit).n_rows == data.n_rows
    monkeypatch.setenv("GAINFUL_MEMORY_LIMIT", advised)
    assert gainful.open_shards(tmp_path).n_rows == data.n_rows
    with pytest.raises(DataError, match="the limit is 2 kB: "):
        gainful.open_shards(tmp_path, max_bytes="2kB")


# -- vectors that stay with the blocks ---------------------------------------------------------------------------------


def test_row_vectors_are_vectors(data):
    source = LocalBlocks([data[:20], data[20:]])
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=data.n_rows), rng.normal(size=data.n_rows)
    cut = int(data.offsets[20])
    left, right = (RowVector(source, PerBlock((v[:cut], v[cut:]))) for v in (a, b))
    np.testing.assert_array_equal(np.asarray(left - right), a - b)
    np.testing.assert_array_equal(np.asarray(left + np.float64(0.3) * right), 0.3 * b + a)
    np.testing.assert_array_equal(np.asarray(left + right), a + b)


def test_facts_of_shards(data, folder):
    shards = gainful.open_shards(folder)
    assert (shards.n_rows, shards.n_queries, shards.n_features) == (data.n_rows, data.n_queries, data.n_features)
    assert (shards.lowest_grade, shards.highest_grade) == (data.y.min(), data.y.max())
    assert (shards.longest, len(shards)) == (20, 60)
    np.testing.assert_array_equal(shards.query_weights, data.query_weights)
    assert gainful.RankingData.concatenate(list(shards.blocks())).equals(data)
    assert repr(shards) == "ShardedData(4 blocks, 60 queries, 1,200 documents, 8 features)"
    assert isinstance(shards, ShardedData)


def test_missing_values_are_looked_for_in_pieces():
    X = np.zeros((200_000, 40), dtype=np.float32)
    X[-1, -1] = np.nan
    data = gainful.RankingData._build_unchecked(
        X=X, y=np.zeros(2), offsets=np.array([0, len(X)]), query_ids=np.array([1])
    )
    tracemalloc.start()
    try:
        assert data.has_missing
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < X.size / 2  # bytes; a mask of X has one for each value


def test_gradients_of_many_blocks_are_added_in_place(data):
    """Three hundred gradients of a long vector are not all in memory twice."""
    d = 50_000
    answers = [(0.5, np.full(d, float(i))) for i in range(300)]
    risk = linear_risk(loss("ranknet"), data)  # imports modules, which take memory
    risk._sum(answers[:1])
    tracemalloc.start()
    try:
        value, gradient = risk._sum(answers)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert value == 150.0
    assert (gradient == 300 * 299 / 2).all()
    assert not answers[0][1].any()  # what the block answered is not written to
    assert peak < 20 * 8 * d
