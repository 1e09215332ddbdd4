"""Weights of documents in training: copies, absence, shards, and LightGBM's own."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pytest

import gainful
from gainful import DataError, LambdaMART, RankingData
from gainful.data.query_weights import rows_of_mean_one
from gainful.formats.convert import convert
from gainful.linear.risk import LinearRisk
from gainful.solvers.registry import SOLVERS

TREES = {"n_trees": 10, "n_leaves": 5, "min_docs_in_leaf": 1, "n_jobs": 1}


@pytest.fixture(scope="module")
def rows():
    """Features of few distinct values, so that bins do not depend on how often a row is there."""
    rng = np.random.default_rng(5)
    X = rng.integers(0, 8, (120, 4)).astype(float)
    y = np.clip(np.round(X[:, 0] / 3 + rng.normal(size=120) * 0.5), 0, 2)
    return X, y, np.repeat(np.arange(10), 12)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("regression", {"alpha": 3.0}),
        ("regression", {"alpha": 3.0, "target": "gain", "scale": None}),
        ("mcrank", TREES),
        ("mcrank-ordinal", TREES),
        ("tree-regression", TREES),
    ],
)
def test_weight_two_is_a_document_given_twice_and_weight_zero_one_left_out(name, params, rows):
    X, y, qid = rows
    copies = np.random.default_rng(6).integers(0, 3, len(y))
    given = np.repeat(np.arange(len(y)), copies)
    if params is TREES:  # leaves count rows, whatever they weigh
        params = params | {
            "min_docs_in_leaf": 0,
            "engine_params": {"min_sum_hessian_in_leaf": 1e-3, "min_data_in_bin": 1},
        }
    weighted = gainful.ranker(name, **params).fit(X, y, qid=qid, sample_weight=copies)
    if name == "regression":  # its penalty stands beside a sum
        params = params | {"alpha": params["alpha"] * copies.mean()}
    repeated = gainful.ranker(name, **params).fit(X[given], y[given], qid=qid[given])
    assert weighted.predict(X) == pytest.approx(repeated.predict(X), rel=1e-5, abs=1e-6)


TIMES = np.array([1, 2, 3, 1, 0, 2, 1, 1, 4, 1])  # how often each of the ten queries is given


def given_often(rows):
    """The queries as often as TIMES says, each under an id of its own, and once with that as a weight."""
    X, y, qid = rows
    queries = np.repeat(np.arange(10), TIMES)
    index = np.concatenate([np.flatnonzero(qid == q) for q in queries])
    own = np.repeat(np.arange(len(queries)), 12)
    weighted = RankingData.from_rows(X, y, qid, sample_weight=TIMES[qid].astype(float))
    return RankingData.from_rows(X[index], y[index], own), weighted


@pytest.mark.parametrize("name", gainful.LOSSES)
def test_a_query_of_whole_weight_is_as_many_queries_to_every_loss(name, rows):
    repeated, weighted = given_often(rows)
    w = np.random.default_rng(4).normal(size=repeated.n_features)
    one, other = (LinearRisk.of(gainful.loss(name), data).value_and_gradient(w) for data in (repeated, weighted))
    assert other[0] == pytest.approx(one[0], rel=1e-12)
    assert other[1] == pytest.approx(one[1], rel=1e-10, abs=1e-12)


BY_SOLVER = {
    "lbfgs": ("linear", {"loss": "listnet"}),
    "bundle": ("linear", {"loss": "pairwise-hinge"}),
    "gradient": ("linear", {"loss": "listnet"}),
    "cutting_plane": ("structured-svm", {}),
    "subgradient": ("structured-svm", {}),
}


@pytest.mark.filterwarnings("ignore:subgradient descent stopped where no step")  # at a kink, near enough
@pytest.mark.parametrize("solver", BY_SOLVER)
def test_a_query_of_whole_weight_is_as_many_queries_to_every_solver(solver, rows):
    """As near as solvers get, and far nearer than to queries of weight 1."""
    assert set(BY_SOLVER) == set(SOLVERS) - {"stochastic"}, "which draws queries at random"
    name, params = BY_SOLVER[solver]
    repeated, weighted = given_often(rows)
    plain = weighted.replace(query_weights=None)
    often, by_weight, once = (
        gainful.ranker(name, solver=solver, C=3.0, tol=1e-5, **params).fit(data).coef_
        for data in (repeated, weighted, plain)
    )
    assert np.linalg.norm(by_weight - often) < 0.2 * np.linalg.norm(once - often)


def test_ridge_regression_takes_copies_as_weights_if_its_penalty_grows_with_them(rows):
    repeated, weighted = given_often(rows)
    one = gainful.ranker("regression", alpha=3.0 * TIMES[TIMES > 0].mean()).fit(repeated)
    assert gainful.ranker("regression", alpha=3.0).fit(weighted).coef_ == pytest.approx(one.coef_, rel=1e-9)


@pytest.mark.parametrize(
    "name",
    ["ranksvm", "ranknet", "listnet", "linear:loss=squared", "linear:loss=centred-squared", "linear:loss=xendcg"],
)
def test_in_one_query_linear_rankers_count_copies(name, rows):
    """With one query only the weights within it count, and they count as copies would."""
    X, y, _ = (column[:24] for column in rows)
    copies = np.random.default_rng(6).integers(0, 3, len(y))
    given = np.repeat(np.arange(len(y)), copies)
    model = gainful.RANKERS[name.partition(":")[0]]
    params = {"tol": 1e-9, "C": 3.0} | ({"loss": name.partition("=")[2]} if ":" in name else {})
    one = np.zeros(len(y))
    weighted = model.create(**params).fit(X, y, qid=one, sample_weight=copies)
    repeated = model.create(**params).fit(X[given], y[given], qid=one[given])
    assert weighted.coef_ == pytest.approx(repeated.coef_, abs=2e-4)


@pytest.mark.parametrize("name", ["rankboost", "frank"])
def test_documents_without_weight_do_not_train(name, rows):
    X, y, qid = rows
    absent = np.arange(len(y)) % 3 == 0
    other = X.copy()
    other[absent] = X[absent][::-1]  # the same values, so that thresholds stay
    models = [
        gainful.ranker(name, n_rounds=5, n_thresholds="all").fit(given, y, qid=qid, sample_weight=1.0 - absent)
        for given in (X, other)
    ]
    assert models[0].predict(X) == pytest.approx(models[1].predict(X))


def test_lambdamart_weighs_rows_as_lightgbm_does(parts):
    train, _, test = parts
    weights = np.random.default_rng(2).uniform(0.1, 2.0, train.n_rows)
    same = rows_of_mean_one(RankingData.from_rows(train.X, train.y, train.qid, sample_weight=weights))
    model = LambdaMART(n_trees=15, n_leaves=6, n_jobs=1).fit(train.X, train.y, qid=train.qid, sample_weight=weights)
    settings = {"objective": "lambdarank", "num_leaves": 6, "num_threads": 1, "verbosity": -1, "seed": 0,
                "deterministic": True, "force_row_wise": True}  # fmt: skip
    own = lgb.train(settings, lgb.Dataset(train.X, train.y, group=train.counts, weight=same, params=settings), 15)
    assert np.array_equal(model.predict(test), own.predict(test.X))


@pytest.mark.parametrize("name", ["ranknet", "ranksvm", "regression", "lambdamart", "boosted"])
def test_shards_train_the_same_model(name, rows, tmp_path):
    X, y, qid = rows
    weights = np.random.default_rng(8).uniform(0.0, 2.0, len(y))
    data = RankingData.from_rows(X, y, qid, sample_weight=weights)
    gainful.write(data, tmp_path / "a.gnf")
    convert(tmp_path / "a.gnf", tmp_path / "shards", shard_rows=40)
    make = gainful.RANKERS[name]
    params = TREES if make.kind == "trees" else {}
    whole, shards = (make.create(**params).fit(given) for given in (data, tmp_path / "shards"))
    assert shards.predict(X) == pytest.approx(whole.predict(X), abs=1e-5)


def test_the_metric_of_validation_data_ignores_them(parts):
    train, valid, _ = parts
    weights = np.random.default_rng(2).uniform(0.1, 2.0, valid.n_rows)
    weighted = RankingData.from_rows(valid.X, valid.y, valid.qid, sample_weight=weights)
    model = gainful.ranker("listnet").fit(train)
    by_query = valid.replace(query_weights=weighted.query_weights)
    assert model.score(weighted) == model.score(by_query)


def test_the_refusal_names_the_loss(rows):
    X, y, qid = rows
    with pytest.raises(DataError, match="LinearRanker with the loss softrank weighs whole queries, but sample_weight"):
        gainful.ranker("softrank").fit(X, y, qid=qid, sample_weight=np.arange(len(y)))


def test_auto_tries_only_rankers_that_weigh_documents():
    from gainful.blending.portfolio import DataFacts, families

    facts = DataFacts(5000, 46, 3, 300, missing=False, blockwise=False, weighted_documents=True)
    names = [family.name for family in families(facts)]
    assert "lambdamart" in names
    assert all(gainful.RANKERS[name].weighs_documents for name in names)
