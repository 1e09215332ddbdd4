"""Rankers on clicks: the models of hand-made weights, in one piece, in shards, and from files."""

from __future__ import annotations

import numpy as np
import pytest

import gainful
from gainful import DataWarning, RankingData
from gainful.data.blocks import LocalBlocks
from gainful.data.sharded import ShardedData
from gainful.errors import DataError, MemoryLimitError, ParameterError
from gainful.formats.convert import convert

TREES = {"n_trees": 5, "n_leaves": 4, "min_docs_in_leaf": 0, "bins": "exact", "n_jobs": 1}
PLAIN = {"engine_params": {"min_sum_hessian_in_leaf": 0.0}}
NET = {"hidden": (3,), "epochs": 10, "batch_queries": 10_000, "scale": None, "dtype": "float64", "device": "cpu",
       "optimizer": "sgd", "learning_rate": 0.05}  # fmt: skip
SETTINGS = [
    ("ranknet", {"tol": 1e-10}),
    ("ranksvm", {"loss": "squared-hinge", "tol": 1e-10}),
    ("linear", {"loss": "lambda(metric=map)", "max_iter": 20}),
    ("linear", {"loss": "squared", "tol": 1e-10}),
    ("linear", {"loss": "structured-ndcg-tight", "tol": 1e-6}),
    ("regression", {}),
    ("boosted", {"loss": "ranknet", **TREES, **PLAIN}),
    ("tree-regression", {**TREES, **PLAIN}),
    ("neural", {"loss": "listnet", **NET}),
    ("lambdamart", TREES),
    ("rankboost", {"n_rounds": 4}),
]


@pytest.fixture(scope="module")
def clicks():
    """Documents of few different values, clicked at random the more the higher they stand."""
    rng = np.random.default_rng(1)
    n, length = 30, 5
    X = rng.integers(0, 6, (n * length, 3)).astype(float)
    position = np.tile(np.arange(1, length + 1), n)
    y = rng.random(n * length) < (0.1 + 0.15 * X[:, 0]) / position
    return {"X": X, "y": y.astype(float), "qid": np.repeat(np.arange(n), length), "position": position}


def by_hand(clicks, propensity, rates):
    """The same clicks as ordinary data: y/p, or a list for each click in which it alone is relevant."""
    X, y, qid = clicks["X"], clicks["y"], clicks["qid"]
    if rates:
        return RankingData.from_rows(X, y / propensity, qid)
    parts = []
    for k, row in enumerate(np.flatnonzero(y)):
        mine = np.flatnonzero(qid == qid[row])
        parts.append((X[mine], (mine == row) * 1.0, np.full(len(mine), k), np.full(len(mine), 1.0 / propensity[row])))
    X, y, qid, weight = (np.concatenate(one) for one in zip(*parts, strict=True))
    return RankingData.from_rows(X, y, qid, sample_weight=weight)


@pytest.mark.filterwarnings("ignore::gainful.DataWarning")  # rates look like scores
@pytest.mark.parametrize(("name", "params"), SETTINGS)
def test_the_model_is_that_of_hand_made_weights(name, params, clicks):
    propensity = 1.0 / clicks["position"]
    data = {key: clicks[key] for key in ("X", "y", "qid")}
    model = gainful.ranker(name, **params).fit(**data, propensity=propensity)
    rates = name.endswith("regression") or params.get("loss") == "squared"
    expected = gainful.ranker(name, **params).fit(by_hand(clicks, propensity, rates))
    scores, wanted = model.predict(clicks["X"]), expected.predict(clicks["X"])
    assert scores - scores.mean() == pytest.approx(wanted - wanted.mean(), abs=1e-4 * np.ptp(wanted))
    naive = gainful.ranker(name, **params).fit(**data, propensity=propensity, debias="naive").predict(clicks["X"])
    assert np.abs((naive - naive.mean()) - (scores - scores.mean())).max() > 1e-3 * np.ptp(wanted)


@pytest.mark.parametrize(
    ("name", "params", "debias"),
    [("ranknet", {"tol": 1e-10}, "em"), ("ranknet", {"tol": 1e-10}, "pairwise"), ("boosted", TREES, "em"),
     ("lambdamart", TREES, "em"), ("regression", {}, "em")],
)  # fmt: skip
def test_blocks_train_the_same_model(name, params, debias, clicks, tmp_path):
    data = RankingData.from_rows(**clicks)
    data = data.replace(y=np.where(data.qid == 7, 0.0, data.y))  # a block without clicks
    whole = gainful.ranker(name, **params).fit(data, debias=debias)
    blocks = ShardedData(LocalBlocks([data[:7], data[7:8], data[8:]]))
    in_blocks = gainful.ranker(name, **params).fit(blocks, debias=debias)
    assert in_blocks.propensities_ == pytest.approx(whole.propensities_, abs=1e-4)
    assert in_blocks.predict(data) == pytest.approx(whole.predict(data), rel=1e-3, abs=1e-4)
    gainful.write(data, tmp_path / "clicks.gnf")
    convert(tmp_path / "clicks.gnf", tmp_path / "shards", shard_rows=40)
    shards = gainful.ranker(name, **params).fit(tmp_path / "shards", debias=debias)
    assert shards.predict(data) == pytest.approx(whole.predict(data), rel=1e-3, abs=1e-4)


def test_a_model_file_keeps_what_was_learned(clicks, tmp_path):
    model = gainful.ranker("ranknet").fit(**clicks)
    gainful.save(model, tmp_path / "a.gainful")
    again = gainful.load(tmp_path / "a.gainful")
    assert again.propensities_.tolist() == model.propensities_.tolist()
    assert again.training_["debias"] == "em"
    with pytest.raises(AttributeError, match="has learned no propensities"):
        _ = gainful.ranker("ranknet").fit(clicks["X"], clicks["y"], qid=clicks["qid"]).propensities_


def test_validation_clicks_are_corrected_too(clicks):
    data = RankingData.from_rows(**clicks)
    train, valid = data[:20], data[20:]
    model = gainful.ranker("lambdamart-plain", **TREES).fit(train, eval_set=valid)
    theirs = by_hand({key: clicks[key][100:] for key in clicks}, model.propensities_[valid.positions - 1], False)
    expected = gainful.metric("ndcg@10")(model.predict(theirs), theirs)
    assert model.history_[model.best_iteration_ - 1]["validation"] == pytest.approx(expected)
    with pytest.raises(DataError, match="eval_set has clicks and the training data has grades"):
        gainful.ranker("ranknet").fit(train.replace(positions=None), eval_set=valid)


def test_columns_follow_their_rows(clicks):
    order = np.random.default_rng(3).permutation(150)
    data = RankingData.from_rows(**{key: column[order] for key, column in clicks.items()}, propensity=np.ones(150))
    assert data.to_input_order(data.positions).tolist() == clicks["position"][order].tolist()
    some = data[[4, 2]]
    assert RankingData.concatenate([some[:1], some[1:]]).equals(some)
    assert not some.equals(some.replace(positions=None))
    with pytest.raises(DataError, match="only one has positions or propensities"):
        RankingData.concatenate([data[:1], data[1:].replace(positions=None)])


def test_pages_under_one_query_id_are_noticed_before_they_take_memory():
    n = 20_000
    X, y = np.arange(2.0 * n).reshape(n, 2) % 7, np.arange(n) % 5 == 0
    data = RankingData.from_rows(X, y, np.zeros(n), position=np.arange(n) % 10 + 1)
    with pytest.raises(MemoryLimitError, match=r"80,000,000 rows and need about 4.48 GB.* give each page a query id"):
        gainful.ranker("ranknet").fit(data, max_bytes="1GB")
    found = {finding.code: str(finding) for finding in gainful.check_data(data)}
    assert "1 of 1 queries have two rows in the same position" in found["repeated-positions"]
    pages = data.replace(offsets=np.arange(0, n + 1, 10), query_ids=np.arange(n // 10))
    assert "repeated-positions" not in {finding.code for finding in gainful.check_data(pages)}


def test_clicks_taken_as_grades_cause_a_warning(clicks):
    data = RankingData.from_rows(**clicks)
    train, valid, test = data[:20], data[20:25], data[25:]
    grades = {"positions": None, "y": np.tile([2.0, 0, 1, 0, 0], 5)}
    linear = gainful.ranker("regression")
    for measure in (
        lambda: gainful.compare([linear], train, valid=valid, test=test, tests=[]),
        lambda: gainful.tune("ranknet", train, valid=valid, trials=1, refit=False),
    ):
        with pytest.warns(DataWarning, match="metrics take the clicks of the data as grades") as caught:
            measure()
        assert len(caught) == 1
        assert caught[0].filename == __file__
    gainful.compare([linear], train, valid=valid, test=test.replace(**grades), tests=[])
    with pytest.warns(DataWarning, match="eval_set has neither positions nor propensities") as caught:
        gainful.ranker("ranknet").fit(train, eval_set=(valid.X, valid.y, valid.qid))
    assert caught[0].filename == __file__
    gainful.ranker("ranknet").fit(train, eval_set=(valid.X, grades["y"], valid.qid))


@pytest.mark.parametrize("debias", ["em", "pairwise"])
def test_pages_of_one_document_have_no_order(clicks, debias):
    rows = clicks | {"qid": np.arange(150)}
    with pytest.raises(DataError, match=r"no list with a click has .* give all documents of a page the same query id"):
        gainful.ranker("ranknet").fit(**rows, debias=debias)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"position": [1, 2]}, DataError, "position must have 150 entries"),
        ({"position": np.full(150, 1.5)}, DataError, "position of row 0 must be a whole number from 1"),
        ({"position": np.full(150, 1_000_001)}, DataError, "from 1 to 1,000,000, .* was 1000001"),
        ({"position": np.zeros(150)}, DataError, "is 0, which means not shown, but the row has a click"),
        ({"propensity": np.zeros(150)}, DataError, "propensity of row 0 must be a probability above 0"),
        ({"debias": "ipw"}, DataError, "the data has neither positions nor propensities"),
    ],
)
def test_wrong_columns(given, error, message, clicks):
    rows = {key: clicks[key] for key in ("X", "y", "qid")}
    with pytest.raises(error, match=message):
        gainful.ranker("ranknet").fit(**rows, **given)
    data = RankingData.from_rows(**clicks)
    with pytest.raises(ParameterError, match="brings its own positions"):
        gainful.ranker("ranknet").fit(data, position=clicks["position"])
