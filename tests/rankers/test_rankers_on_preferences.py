"""Rankers on preferences: equal to those on grades with the same pairs, and clear where pairs are of no use."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import LinearRegression

import gainful
from gainful import RankingData
from gainful.data.blocks import LocalBlocks
from gainful.data.pairs import PreferredPairs
from gainful.data.query_weights import query_shares
from gainful.data.sharded import ShardedData
from gainful.errors import DataError, ParameterError
from gainful.linear.risk import LinearRisk
from gainful.rankers.frank import FidelityLoss, FidelityOfPreferences
from gainful.rankers.rankboost import exponential_loss
from gainful.rankers.thresholds import CriticalPairs, weigh_preferences
from graded_pairs import pairs_of_grades

SETTINGS = [
    ("ranksvm", {}),
    ("ranksvm", {"loss": "squared-hinge"}),
    ("ranknet", {}),
    ("linear", {"loss": "pairwise-hinge"}),
    ("linear", {"loss": "ranknet(sigma=2)", "solver": "gradient", "max_iter": 30}),
    ("boosted", {"loss": "ranknet", "n_trees": 15}),
    ("boosted", {"loss": "pairwise-squared-hinge", "n_trees": 15, "subsample": 0.5}),
    ("boosted", {"loss": "pairwise-hinge", "n_trees": 15}),
    ("gbrank", {"n_trees": 15}),
    ("gbrank", {"n_trees": 15, "update": "average"}),
    ("rankboost", {"n_rounds": 15}),
    ("rankboost", {"n_rounds": 15, "pairs": "query"}),
    ("frank", {"n_rounds": 15, "certainty": 0.9}),
]
NETS = [("ranknet-net", {}), ("neural", {"loss": "pairwise-squared-hinge"}), ("list-net", {"loss": "ranknet"})]


def as_preferences(data):
    return data.with_pairs(pairs_of_grades(data.y, data.offsets))


@pytest.fixture(scope="module")
def train():
    return gainful.make_artificial(40, n_docs=12, n_features=5, seed=1)


@pytest.fixture(scope="module")
def valid():
    return gainful.make_artificial(15, n_docs=12, n_features=5, seed=2)


def same(a, b):
    assert a == pytest.approx(b, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("name", "params"), SETTINGS)
def test_all_pairs_of_the_grades_give_the_model_of_the_grades(name, params, train, valid):
    one, other = (gainful.ranker(name, **params).fit(data).predict(valid) for data in (train, as_preferences(train)))
    assert np.ptp(one) > 0.01
    same(other, one)


@pytest.mark.parametrize(
    ("name", "params"), [SETTINGS[0], SETTINGS[2], SETTINGS[5], SETTINGS[8], SETTINGS[10], SETTINGS[12]]
)
def test_the_same_with_weights_of_queries_and_documents(name, params, train, valid):
    weights = np.random.default_rng(0).random(train.n_rows) + 0.2
    heavy = RankingData.from_rows(train.X, train.y, train.qid, sample_weight=weights)
    one, other = (gainful.ranker(name, **params).fit(data).predict(valid) for data in (heavy, as_preferences(heavy)))
    same(other, one)


@pytest.mark.parametrize(("name", "params"), NETS)
def test_the_same_for_nets(name, params, train, valid):
    pytest.importorskip("torch")
    how = {"epochs": 3, "dtype": "float64", "device": "cpu", **params}
    one, other = (gainful.ranker(name, **how).fit(data).predict(valid) for data in (train, as_preferences(train)))
    same(other, one)


def test_sparse_rows_in_any_order_with_pairs_by_input_row(train, valid):
    order = np.random.default_rng(4).permutation(train.n_rows)
    place = np.argsort(order)
    pairs = pairs_of_grades(train.y, train.offsets)
    given = np.column_stack([place[pairs.better], place[pairs.worse]])
    for X in (train.X[order], sparse.csr_matrix(train.X[order])):
        model = gainful.RankSVM(tol=1e-8).fit(X, pairs=given, qid=train.qid[order])
        assert model.predict(valid) == pytest.approx(gainful.RankSVM(tol=1e-8).fit(train).predict(valid), abs=1e-3)


def test_blocks_of_queries_give_the_model_of_the_whole(train, valid):
    data = as_preferences(train)
    blocks = ShardedData(LocalBlocks([data[:13], data[13:30], data[30:]]))
    assert blocks.has_pairs
    for name, params in (("ranksvm", {}), ("boosted", {"loss": "ranknet", "n_trees": 10})):
        whole, parts = (gainful.ranker(name, **params).fit(one).predict(valid) for one in (data, blocks))
        assert parts == pytest.approx(whole, rel=1e-6, abs=1e-8)
    with pytest.raises(DataError, match=r"has preferences and .* has grades; give all shards the same"):
        ShardedData(LocalBlocks([data[:13], train[13:]]))


def test_a_weight_counts_as_copies_of_the_pair(train, valid):
    pairs = pairs_of_grades(train.y, train.offsets)
    n = np.arange(len(pairs)) % 3 + 1
    rows = np.column_stack([pairs.better, pairs.worse])
    once, copies = np.column_stack([rows, n]), np.repeat(rows, n, axis=0)
    one, other = (gainful.ranker("ranknet").fit(train.X, pairs=p, qid=train.qid).predict(valid) for p in (once, copies))
    same(one, other)


def test_noisy_judgments_are_learned_from(train, valid):
    """A quarter of all pairs is reversed, so that pairs contradict each other through cycles."""
    pairs = pairs_of_grades(train.y, train.offsets)
    wrong = np.random.default_rng(3).random(len(pairs)) < 0.25
    rows = np.column_stack([np.where(wrong, pairs.worse, pairs.better), np.where(wrong, pairs.better, pairs.worse)])
    for name in ("ranksvm", "gbrank", "rankboost", "frank", "ranknet"):
        model = gainful.ranker(name).fit(train.X, pairs=rows, qid=train.qid)
        assert gainful.metric("pair-accuracy")(model.predict(valid), valid) > 0.65


def test_init_scores_count(train, valid):
    data = as_preferences(train)
    start = np.random.default_rng(5).normal(size=train.n_rows)
    for name, params in (("linear", {"loss": "ranknet"}), ("boosted", {"loss": "ranknet", "n_trees": 8})):
        models = [gainful.ranker(name, **params).fit(one, init_score=start) for one in (train, data)]
        same(models[0].predict(valid), models[1].predict(valid))


def test_the_risk_on_a_device_is_that_of_the_host(train):
    pytest.importorskip("torch")
    from gainful.linear.tensor_risk import TensorLinearRisk

    data, w = as_preferences(train), np.random.default_rng(8).normal(size=train.n_features)
    for name in ("ranknet", "pairwise-hinge"):
        risks = LinearRisk.of(gainful.loss(name), data), TensorLinearRisk(gainful.loss(name), data, device="cpu")
        (value, gradient, _), (expected, expected_gradient, _) = (risk.value_and_gradient(w) for risk in risks)
        same(value, expected)
        same(gradient, expected_gradient)


def test_keywords_of_other_libraries_are_explained(train):
    with pytest.raises(TypeError, match="pairs takes the weights of the pairs as its third column"):
        gainful.RankSVM().fit(train.X, pairs=[(0, 1)], pairs_weight=[1.0], qid=train.qid)


# -- potentials of the boosters of steps -------------------------------------------------------------------------------


@pytest.mark.parametrize("per_query", [False, True])
def test_potentials_are_those_of_the_critical_pairs(train, per_query):
    data, scores = as_preferences(train), np.random.default_rng(6).normal(size=train.n_rows)
    preferred = weigh_preferences(data, query_shares(data), per_query)
    assert preferred.weight.sum() == pytest.approx(1.0)
    critical = CriticalPairs.of(train, query_shares(train), per_query)
    for certainty in (1.0, 0.8):
        ours, theirs = FidelityOfPreferences(preferred, certainty), FidelityLoss(critical, certainty)
        (value, potentials), (expected, expected_potentials) = ours.at(scores), theirs.at(scores)
        assert value == pytest.approx(expected, rel=1e-12)
        assert potentials == pytest.approx(expected_potentials, abs=1e-14)
        above = train.X[:, 0] > 0.5
        assert ours.sides(scores, above) == pytest.approx(theirs.sides(scores, above), rel=1e-10)
    model = gainful.ranker("rankboost", pairs="query" if per_query else "all")
    (value, potentials), (expected, expected_potentials) = (
        exponential_loss(model._loss(one), scores) for one in (data, train)
    )
    assert value == pytest.approx(expected, rel=1e-12)
    assert potentials == pytest.approx(expected_potentials, abs=1e-12)


# -- validation --------------------------------------------------------------------------------------------------------


def test_the_default_metric_on_preferences_is_the_share_of_pairs_in_order(train, valid):
    data, held = as_preferences(train), as_preferences(valid)
    model = gainful.ranker("gbrank", n_trees=30, early_stopping=5).fit(data, eval_set=held)
    best = model.history_[model.best_iteration_ - 1]["validation"]
    assert model.training_["validation"]["metric"] == "pair-accuracy(empty=skip)"
    assert best == gainful.metric("pair-accuracy")(model.predict(held), held) == model.score(held)
    assert best == pytest.approx(gainful.metric("pair-accuracy")(model.predict(valid), valid))
    assert model.training_["preferences"]


def test_training_and_validation_data_may_differ_in_kind(train, valid):
    graded = gainful.ranker("gbrank", n_trees=10).fit(as_preferences(train), eval_set=valid)
    assert graded.training_["validation"]["metric"].startswith("ndcg@10")
    preferred = gainful.ranker("lambdamart", n_trees=10, eval_metric="pair-accuracy").fit(
        train, eval_set=as_preferences(valid)
    )
    assert 0.5 < preferred.history_[0]["validation"] < 1.0


def test_a_metric_that_needs_grades_is_refused_before_training(train, valid):
    with pytest.raises(DataError, match="map needs grades, but eval_set has preferences; pass eval_metric='pair-accur"):
        gainful.ranker("gbrank", eval_metric="map").fit(as_preferences(train), eval_set=as_preferences(valid))
    with pytest.raises(DataError, match="err@5 needs grades, but the data has preferences; measure them by pair-acc"):
        gainful.metric("err@5")(np.zeros(valid.n_rows), as_preferences(valid))

    def share(scores, grades):
        return 1.0

    with pytest.raises(DataError, match="share needs grades"):
        gainful.metric(share)(np.zeros(valid.n_rows), as_preferences(valid))


def test_weighted_pair_accuracy_by_hand():
    data = RankingData.from_rows(
        np.zeros((5, 1)), qid=[1, 1, 1, 2, 2], pairs=[(0, 1, 3.0), (1, 2, 1.0), (2, 1, 0.5), (0, 2, 0.5)]
    )
    values = gainful.metric("pair-accuracy").per_query([2.0, 1.0, 1.0, 0.0, 0.0], data)
    assert values[0] == (3.0 + 0.5 * 1.0 + 0.5 * 0.5 + 0.5) / 5.0
    assert np.isnan(values[1])
    assert gainful.metric("pair-accuracy")([2.0, 1.0, 1.0, 0.0, 0.0], data) == values[0]
    assert gainful.metric("pair-accuracy(empty=0)").per_query(np.zeros(5), data).tolist() == [0.5, 0.0]
    assert gainful.metric("pair-accuracy").per_query([np.inf, np.inf, -np.inf, 0, 0], data)[0] == pytest.approx(
        (1.5 + 1.0 + 0.5) / 5.0
    )


def test_comparison_and_search_work_on_preferences(train):
    data = as_preferences(train)
    found = gainful.compare("ranksvm,rankboost", data, metrics="pair-accuracy", folds=3)
    assert found.mean("ranksvm", "pair-accuracy") > 0.6
    assert not found.curve
    assert "pair-accuracy" in str(found)
    tuned = gainful.tune("ranksvm", data, metric="pair-accuracy", trials=2)
    assert tuned.best_value > 0.6


def test_the_default_metric_of_comparison_search_and_evaluation_fits_the_data(train):
    data = as_preferences(train)
    found = gainful.compare("ranksvm", data, tune=2)
    assert [m.name for m in found.metrics] == ["pair-accuracy"]
    assert not found.failures
    graded = gainful.compare("ranksvm", data, test=train.replace(query_ids=np.arange(1000, 1000 + train.n_queries)))
    assert [m.name for m in graded.metrics] == ["ndcg@10", "ndcg@1", "ndcg@5", "map"]
    tuned = gainful.tune("gbrank:n_trees=5", data, trials=2)
    assert tuned.best_value == gainful.tune("gbrank:n_trees=5", data, trials=2, metric="pair-accuracy").best_value
    model = gainful.ranker("ranksvm").fit(data)
    assert gainful.evaluate(model, data) == {"pair-accuracy": model.score(data)}


def test_a_search_by_a_metric_of_grades_is_refused_before_the_first_trial(train):
    with pytest.raises(DataError, match="ndcg@5 needs grades, but the data has preferences; measure them by pair-acc"):
        gainful.tune("ranksvm", as_preferences(train), metric="ndcg@5", progress=lambda event: pytest.fail("a trial"))


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_every_ranker_learns_from_preferences_or_refuses_in_one_line(train):
    data = as_preferences(train)
    able = {name for name, entry in gainful.RANKERS.items() if entry.accepts_pairs}
    assert able == {"linear", "ranksvm", "ranknet", "rankboost", "frank", "rsrank", "rsrank-sparse", "gbrank",
                    "ranknet-net"}  # fmt: skip
    for name in gainful.RANKERS:
        if name in able:
            continue
        with pytest.raises(DataError, match="needs grades, but the data has preferences; use one of ranksvm, ranknet"):
            gainful.ranker(name).fit(data)


def test_the_refusal_recommends_only_what_works_each_once(train):
    with pytest.raises(DataError) as caught:
        gainful.ranker("lambdamart").fit(as_preferences(train))
    advice = str(caught.value).partition("use one of ")[2].partition(", or linear, boosted, neural")
    assert advice[1]
    assert "linear" not in advice[0] + advice[2]
    recommended = advice[0].split(", ")
    assert "rsrank with init='zeros'" in recommended
    assert "rsrank-sparse with init='zeros'" in recommended
    for one in recommended:
        name, _, setting = one.partition(" with ")
        params = {"init": "zeros"} if setting else {}
        gainful.ranker(name, **params)._refuse_pairs(as_preferences(train))


@pytest.mark.parametrize(
    ("name", "params", "words"),
    [
        (
            "linear",
            {"loss": "listnet"},
            "with the loss listnet needs grades, .* with one of the losses pairwise-hinge,",
        ),
        ("boosted", {}, "with the loss lambda needs grades"),
        ("linear", {"loss": "ranknet", "init": "regression"}, "starts from the grades, .*; use init='zeros'"),
        ("rsrank", {}, "starts from the grades, .*; use init='zeros'"),
        ("boosted", {"loss": "ranknet", "start_trees": 2}, "start_trees fit the grades, .*; set start_trees=0"),
    ],
)
def test_parameters_that_need_grades_are_refused(name, params, words, train):
    with pytest.raises(DataError, match=words):
        gainful.ranker(name, **params).fit(as_preferences(train))


def test_rsrank_chooses_features_by_preferences(train, valid):
    model = gainful.ranker("rsrank-sparse", init="zeros").fit(as_preferences(train), eval_set=as_preferences(valid))
    assert gainful.metric("pair-accuracy")(model.predict(valid), valid) > 0.65


def test_what_would_take_the_grades_for_zeros_refuses(train):
    data = as_preferences(train).replace(doc_ids=np.arange(train.n_rows))
    with pytest.raises(DataError, match="the data has preferences, but qrels hold grades"):
        gainful.Qrels.from_data(data)
    with pytest.raises(DataError, match="distill puts scores on the scale of the grades, but data has preferences"):
        gainful.distill(gainful.RankSVM().fit(data), data)
    found = gainful.compare([LinearRegression(), "ranksvm"], data, metrics="pair-accuracy")
    assert list(found.failures.values()) == [
        "the data has preferences, which compare does not pass to LinearRegression"
    ]


def test_pairs_are_given_once(train):
    data = as_preferences(train)
    with pytest.raises(ParameterError, match="brings its own preferences; leave out pairs"):
        gainful.RankSVM().fit(data, pairs=[(0, 1)])
    blocks = ShardedData(LocalBlocks([train[:20], train[20:]]))
    with pytest.raises(ParameterError, match="X is in 2 parts, whose rows pairs cannot name"):
        gainful.RankSVM().fit(blocks, pairs=[(0, 1)])


def test_pairs_in_place_of_grades_are_refused_with_the_way_to_give_them(train):
    data, qid = as_preferences(train), np.repeat(np.arange(train.n_queries), train.counts)
    words = r"had 2; preferences are given as pairs, and for eval_set as RankingData\.from_rows\(X, qid=…, pairs=…\)"
    for pairs in ([(0, 1)], pd.DataFrame({"better": [0], "worse": [1], "weight": [2.0]})):
        with pytest.raises(DataError, match=words):
            gainful.RankSVM().fit(data, eval_set=(train.X, pairs, qid))
        with pytest.raises(DataError, match=words):
            gainful.RankSVM().fit(train.X, pairs, qid=qid)


def test_a_checkpoint_knows_its_preferences(train, tmp_path):
    data = as_preferences(train)
    file = tmp_path / "c.ckpt"

    def stop(event):
        return event.iteration == 3

    with pytest.warns(gainful.InterruptedFitWarning):
        gainful.RankSVM(tol=1e-9).fit(data, checkpoint=file, checkpoint_every=0.0, progress=stop)
    other = data.with_pairs(
        PreferredPairs.of_rows(data.pairs.better, data.pairs.worse, data.pairs.weight * 2, data.offsets)
    )
    with pytest.raises(gainful.GainfulError, match="preferences"):
        gainful.RankSVM(tol=1e-9).fit(other, checkpoint=file)
    resumed = gainful.RankSVM(tol=1e-9).fit(data, checkpoint=file)
    assert resumed.coef_ == pytest.approx(gainful.RankSVM(tol=1e-9).fit(data).coef_, rel=1e-9)
