"""Pipelines, searches and validation of scikit-learn: figures as a plain loop finds them, or an error."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict, cross_validate
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import gainful
from gainful import DataError, ParameterError

GRID = {"ranker__alpha": [0.01, 1e4], "scale": [StandardScaler(), MinMaxScaler()]}


@pytest.fixture(scope="module")
def rows():
    """Rows of the queries all mixed up, with grades and query ids, as frames."""
    data = gainful.make_artificial(30, n_docs=9, n_features=4, seed=2)
    order = np.random.default_rng(0).permutation(data.n_rows)
    labels = [f"row {i}" for i in order]
    X = pd.DataFrame(data.X[order], columns=["a", "b", "c", "d"], index=labels)
    return X, pd.Series(data.y[order], index=labels), pd.Series(data.qid[order], index=labels)


def pipeline() -> Pipeline:
    return Pipeline([("scale", StandardScaler()), ("ranker", gainful.RegressionRanker())])


def plain_loop(model, rows, measure, *, weights=None) -> np.ndarray:
    """The metric on each of three folds, without scikit-learn's help in fitting or scoring."""
    X, y, qid = (part.to_numpy() for part in rows)
    values = []
    for train, test in GroupKFold(3).split(X, y, qid):
        assert not set(qid[train]) & set(qid[test])
        scaler = clone(model.named_steps["scale"]).fit(X[train])
        ranker = clone(model.named_steps["ranker"]).fit(scaler.transform(X[train]), y[train], qid=qid[train])
        scores = ranker.predict(scaler.transform(X[test]))
        of_query, weight_of = [], []
        for query in np.unique(qid[test]):
            mine = qid[test] == query
            of_query.append(measure(scores[mine], y[test][mine], qid=np.zeros(mine.sum())))
            weight_of.append(1.0 if weights is None else weights[test][mine][0])
        values.append(np.average(of_query, weights=weight_of))
    return np.array(values)


def expected_of_grid(search, rows, measure):
    return [
        plain_loop(pipeline().set_params(**params), rows, measure).mean() for params in search.cv_results_["params"]
    ]


@pytest.mark.parametrize(
    ("scoring", "measure"),
    [(None, "ndcg@10"), (gainful.scorer("ndcg@3"), "ndcg@3"), (gainful.scorer("map", relevant=2), "map(relevant=2)")],
    ids=["score", "ndcg@3", "map"],
)
def test_a_grid_search_with_routing_finds_what_a_loop_finds(rows, scoring, measure):
    X, y, qid = rows
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(pipeline(), GRID, cv=GroupKFold(3), scoring=scoring, error_score="raise")
        search.fit(X, y, qid=qid, groups=qid)
        expected = expected_of_grid(search, rows, gainful.metric(measure))
        assert len(expected) == 4
        assert len(set(np.round(expected, 12))) > 1
        assert search.cv_results_["mean_test_score"] == pytest.approx(expected, abs=1e-12)
        assert search.best_score_ == pytest.approx(max(expected), abs=1e-12)
        again = gainful.metric(measure)(search.predict(X), y, qid=qid)
        assert search.score(X, y, qid=qid) == pytest.approx(again, abs=1e-12)
        with pytest.raises(DataError, match="qid is missing"):
            search.score(X, y)


def test_a_grid_search_without_routing_finds_it_too_by_the_labels_of_the_rows(rows):
    X, y, qid = rows
    scoring = gainful.scorer("ndcg@3", qid=qid.sample(frac=1, random_state=1))
    search = GridSearchCV(pipeline(), GRID, cv=GroupKFold(3), scoring=scoring, error_score="raise")
    search.fit(X, y, ranker__qid=qid, groups=qid)
    expected = expected_of_grid(search, rows, gainful.metric("ndcg@3"))
    assert search.cv_results_["mean_test_score"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("scoring", [None, gainful.scorer("ndcg@3")], ids=["score", "scorer"])
def test_without_routing_and_labels_there_is_no_figure(rows, scoring):
    X, y, qid = rows
    search = GridSearchCV(pipeline(), {"ranker__alpha": [1.0]}, cv=GroupKFold(3), scoring=scoring, error_score="raise")
    with pytest.raises(DataError, match="qid is missing"):
        search.fit(X, y, ranker__qid=qid, groups=qid)
    with (
        pytest.warns(UserWarning, match=r"(?s)Scoring failed.*qid is missing"),
        pytest.warns(UserWarning, match="non-finite"),
    ):
        search.set_params(error_score=np.nan, refit=False).fit(X, y, ranker__qid=qid, groups=qid)
    assert np.isnan(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("routing", [True, False], ids=["routing", "no routing"])
def test_a_search_without_qid_fails(rows, routing):
    X, y, qid = rows
    with sklearn.config_context(enable_metadata_routing=routing):
        search = GridSearchCV(pipeline(), {"ranker__alpha": [1.0]}, cv=GroupKFold(3))
        with pytest.raises(ValueError, match=r"(?s)All the 3 fits failed.*qid is missing"):
            search.fit(X, y, groups=qid)
        with pytest.raises(DataError, match="qid is missing"):
            cross_validate(pipeline(), X, y, cv=3, scoring=gainful.scorer("map"), error_score="raise")


def test_group_sizes_instead_of_ids_are_refused(rows):
    X, y, qid = rows
    with sklearn.config_context(enable_metadata_routing=True), pytest.raises((DataError, ValueError)):
        GridSearchCV(pipeline(), {}, cv=GroupKFold(3), error_score="raise").fit(
            X, y, qid=qid.value_counts().to_numpy(), groups=qid
        )


def test_several_metrics_and_weights_in_one_validation(rows):
    X, y, qid = rows
    weights = qid.map({query: 1.0 + (i % 4) for i, query in enumerate(qid.unique())}).to_numpy()
    with sklearn.config_context(enable_metadata_routing=True):
        scoring = {
            "ndcg": gainful.scorer("ndcg@5").set_score_request(sample_weight=False),
            "map": gainful.scorer("map").set_score_request(sample_weight=True),
        }
        model = pipeline()
        model.named_steps["ranker"].set_fit_request(sample_weight=False)
        model.named_steps["scale"].set_fit_request(sample_weight=False)
        found = cross_validate(
            model, X, y, cv=GroupKFold(3), scoring=scoring, error_score="raise",
            params={"qid": qid, "groups": qid, "sample_weight": weights},
        )  # fmt: skip
    assert found["test_ndcg"] == pytest.approx(plain_loop(pipeline(), rows, gainful.metric("ndcg@5")), abs=1e-12)
    weighted = plain_loop(pipeline(), rows, gainful.metric("map"), weights=weights)
    assert found["test_map"] == pytest.approx(weighted, abs=1e-12)
    assert weighted != pytest.approx(plain_loop(pipeline(), rows, gainful.metric("map")), abs=1e-6)


@pytest.mark.parametrize("model", [gainful.LambdaMART(n_trees=3, n_jobs=1), gainful.RankBoost(n_rounds=3)], ids=repr)
def test_scores_of_held_out_folds_stand_in_the_order_of_the_rows(rows, model):
    X, y, qid = rows
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_val_predict(model, X, y, cv=GroupKFold(3), params={"qid": qid, "groups": qid})
    expected = np.empty(len(X))
    for train, test in GroupKFold(3).split(X, y, qid):
        fitted = clone(model).fit(X.iloc[train], y.iloc[train], qid=qid.iloc[train])
        expected[test] = fitted.predict(X.iloc[test])
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize(
    "ranker", [gainful.RegressionRanker(), gainful.LambdaMART(n_trees=2, n_jobs=1), gainful.KernelStructuredSVM()],
    ids=lambda r: type(r).__name__,
)  # fmt: skip
def test_names_that_set_output_keeps_are_checked_at_predict(rows, kind, ranker):
    X, y, qid = rows
    model = Pipeline([("scale", StandardScaler()), ("ranker", clone(ranker))]).set_output(transform=kind)
    model.fit(X, y, ranker__qid=qid)
    fitted = model.named_steps["ranker"]
    assert fitted.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    bare = Pipeline([("scale", StandardScaler()), ("ranker", clone(ranker))])
    assert np.allclose(model.predict(X), bare.fit(X.to_numpy(), y, ranker__qid=qid).predict(X.to_numpy()))
    frame = pl.from_pandas(X) if kind == "polars" else X
    assert np.array_equal(fitted.predict(frame[["b", "a", "c", "d"]]), fitted.predict(frame))
    with pytest.raises(DataError, match="X has no feature 'a', which"):
        fitted.predict(frame[["b", "c", "d"]])


# -- scorers -----------------------------------------------------------------------------------------------------------


def test_a_scorer_is_the_metric_with_its_conventions(rows):
    X, y, qid = rows
    model = gainful.RegressionRanker().fit(X, y, qid=qid)
    scorer = gainful.scorer("ndcg@4", gain="linear")
    assert scorer(model, X, y, qid=qid) == gainful.metric("ndcg@4", gain="linear")(model.predict(X), y, qid=qid)
    copy = pickle.loads(pickle.dumps(scorer))
    assert copy.metric == scorer.metric
    assert repr(scorer) == f"scorer({str(scorer.metric)!r})"
    assert repr(gainful.scorer("map", qid=qid)).endswith("qid=…)")


def test_a_scorer_without_queries_is_refused(rows):
    X, y, qid = rows
    model = gainful.RegressionRanker().fit(X, y, qid=qid)
    with pytest.raises(DataError, match=r"qid is missing; .* gainful\.scorer\('ndcg@4', qid=series\)"):
        gainful.scorer("ndcg@4")(model, X, y)
    bound = gainful.scorer("ndcg@4", qid=qid)
    with pytest.raises(DataError, match="neither X nor y is a pandas object"):
        bound(model, X.to_numpy(), y.to_numpy())
    with pytest.raises(DataError, match="row 'new' has no query"):
        bound(model, X.rename(index={X.index[3]: "new"}), y.to_numpy())
    with pytest.raises(DataError, match="X and y have different row labels"):
        bound(model, X, y.iloc[::-1])
    with pytest.raises(DataError, match="X and y have different row labels"):
        bound(model, X.reset_index(drop=True), y)
    for wrong, message in ((qid.to_numpy(), "pandas Series"), (pd.concat([qid, qid]), "unique row labels")):
        with pytest.raises(ParameterError, match=message):
            gainful.scorer("ndcg@4", qid=wrong)
    with pytest.raises(ParameterError, match="did you mean"):
        gainful.scorer("ndgc@4")
