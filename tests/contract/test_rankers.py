"""The promises that every ranker of the registry keeps. A new ranker is tested by being registered."""

from __future__ import annotations

import inspect
import itertools
import pickle
import warnings

import cloudpickle
import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gainful
from few_trees import few_trees
from gainful import DataError, GainfulError, InterruptedFitWarning, ParameterError, RankingData
from gainful.rankers.scorers import Constant, Kernel, Linear, ListNet, Net, Steps, Sum, Trees, scores_of_lists

# What makes a ranker quick enough for tests, where its defaults are not.
NET_NAMES = ("neural", "lambdarank-net", "ranknet-net", "structured-net", "list-net")
NET = {"epochs": 12, "learning_rate": 0.03, "hidden": (16,), "device": "cpu"}
QUICK = {"rankmm-1": {"C": 100.0}, "structured-svm-kernel": {"n_landmarks": 80},
         **dict.fromkeys(NET_NAMES, NET)}  # fmt: skip
QUICK |= {
    name: {"n_trees": 12, "n_leaves": 7, "learning_rate": 0.1, "n_jobs": 1, "max_classes": 8}
    for name in ("mcrank", "mcrank-ordinal", "mcrank-regression", "tree-regression")
}
SCIKIT_LEARN = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
TREES = "n_trees=8:n_leaves=7:min_docs_in_leaf=3:n_jobs=1"
MEMBERS = ("lambdamart", "tree-regression", "gbrank", "mcrank-regression", "lambdamart:gain=linear")
QUICK |= {
    "blend": {"members": [f"{name}:{TREES}" for name in MEMBERS], "folds": 3, "n_jobs": 1},
    "auto": {"trials": 4, "folds": 3, "n_jobs": 1, "rankers": ["regression", "listnet", "tree-regression"]},
}
QUICK_KINDS = {"trees": {"n_trees": 12, "n_leaves": 7, "min_docs_in_leaf": 3, "n_jobs": 1}}
NAMES = list(gainful.RANKERS)
# What depends on the order of the rows beyond rounding, and so gives another model of the same quality.
ORDER_COUNTS = {
    **dict.fromkeys(("structured-svm", "structured-svm-slack"), "of equally bad rankings a cut takes the first"),
    "structured-svm-kernel": "landmarks are drawn by row",
    "lambdamart": "queries are drawn by their place",
    **dict.fromkeys(NET_NAMES, "batches are drawn by place"),
    **dict.fromkeys(("blend", "auto"), "queries are dealt to folds by their place"),
}


def of_queries(model, qid):
    """What ``predict`` takes besides rows: the query of each, if the model scores a query's documents together."""
    return {"qid": qid} if model.needs_queries else {}


def make(name, **params):
    kind = QUICK_KINDS.get(gainful.RANKERS[name].kind, {})
    return gainful.ranker(name, **{**kind, **QUICK.get(name, {}), **params})


@pytest.fixture(scope="module", autouse=True)
def _few_trees():
    with few_trees():
        yield


@pytest.fixture(scope="module", params=NAMES)
def name(request):
    """Of the module, so that all tests of a ranker come together and share its models."""
    return request.param


@pytest.fixture(scope="module")
def parts():
    """Train, validation and test part: as few rows as let every ranker learn."""
    return gainful.split(gainful.make_artificial(90, n_docs=14, n_features=8, seed=5), (0.6, 0.2, 0.2), seed=1)


@pytest.fixture(scope="module")
def fitted(name, parts):
    """Trained on the training part. Look at it, do not change it."""
    return make(name).fit(parts[0])


@pytest.fixture(scope="module")
def validated(name, parts):
    """Trained with validation data. Look at it, do not change it."""
    return make(name).fit(parts[0], eval_set=parts[1])


def test_names_summaries_and_parameters_are_declared(name):
    entry = gainful.RANKERS[name]
    assert entry.name == name
    assert entry.summary.endswith(".")
    signature = [p for p in inspect.signature(entry.cls.__init__).parameters if p != "self"]
    assert signature == list(entry.cls.parameters)
    assert all(constraint.help for constraint in entry.cls.parameters.values())
    assert getattr(gainful, entry.cls.__name__) is entry.cls


def test_defaults_are_accepted(name):
    gainful.ranker(name)._check_parameters()


def test_every_parameter_is_checked(name, parts):
    class Nonsense:
        pass

    for parameter in gainful.RANKERS[name].cls.parameters:
        with pytest.raises(ParameterError, match=rf"^{parameter} of \w+ must be .*, was "):
            make(name, **{parameter: Nonsense()}).fit(parts[0])


def test_what_scikit_learn_finds_by_name_is_there(name):
    """It takes an estimator for what its attributes say: none may be a parameter, or raise when it is called."""
    model, entry = make(name), gainful.RANKERS[name]
    for method in ("transform", "fit_transform", "inverse_transform", "predict_proba", "decision_function"):
        assert method not in entry.cls.parameters
        assert not hasattr(model, method) or callable(getattr(model, method))
    if hasattr(model, "predict_proba"):
        assert model.__sklearn_tags__().classifier_tags is not None


@pytest.mark.parametrize("more", [{}, {"init": "listnet"}, {"init": "lambdamart:n_trees=2"}], ids=str)
def test_monotone_holds_or_is_refused(name, more, parts, rng):
    """Scores never fall along the feature, from any document of the test part."""
    if not {"monotone", *more} <= set(gainful.RANKERS[name].cls.parameters):
        pytest.skip("no such parameter")
    train, _, test = parts
    X = train.X.copy()
    X[:, 0] = rng.normal(size=train.n_rows) - train.y  # so that trees and linear first models want it to fall
    train = train.replace(X=X)
    if name == "mcrank" or "lambdamart" in more.get("init", "") or (more and name == "mcrank-ordinal"):
        with pytest.raises(ParameterError, match=r"monotone of .* does not hold .*; use |; leave out init$"):
            make(name, monotone={0: 1}, **more).fit(train)
        return
    model = make(name, monotone={0: 1}, **more).fit(train)
    rows = np.repeat(test.X[:30], 50, axis=0)
    rows[:, 0] = np.tile(np.sort(np.r_[rng.choice(train.X[:, 0], 48), -1e3, 1e3]), 30)
    assert np.diff(model.predict(rows).reshape(30, 50)).min() >= -1e-12
    free = make(name, **more).fit(train)
    assert np.diff(free.predict(rows).reshape(30, 50)).min() < 0  # it has something to hold against


def test_unknown_parameters_get_the_nearest(name):
    parameter = next(iter(gainful.RANKERS[name].cls.parameters))
    with pytest.raises(ParameterError, match=f"did you mean '{parameter}'"):
        gainful.ranker(name, **{parameter + "x": 1})
    with pytest.raises(ParameterError, match=f"did you mean '{parameter}'"):
        gainful.ranker(name).set_params(**{parameter + "x": 1})
    with pytest.raises(TypeError, match=f"did you mean '{parameter}'"):
        gainful.RANKERS[name].cls(**{parameter + "x": 1})


def test_it_learns(validated, parts):
    test = parts[2]
    noise = gainful.metric("ndcg@10")(np.random.default_rng(0).random(test.n_rows), test)
    assert validated.score(test) > noise + 0.1


def test_rows_in_any_order_give_the_same_scores(name, fitted, parts, rng):
    train, _, test = parts
    order = rng.permutation(train.n_rows)
    one = fitted
    other = make(name).fit(train.X[order], train.y[order], qid=train.qid[order])
    queries = of_queries(one, test.qid)
    scores, again = one.predict(test.X, **queries), other.predict(test.X, **queries)
    if name in ORDER_COUNTS:
        assert np.corrcoef(scores, again)[0, 1] > 0.7
        assert other.score(test) == pytest.approx(one.score(test), abs=0.05)
    else:
        assert np.allclose(scores, again, rtol=1e-6, atol=1e-6 * scores.std())
    shuffled = rng.permutation(test.n_rows)
    mixed = one.predict(test.X[shuffled], **of_queries(one, test.qid[shuffled]))
    if one.needs_queries:  # sums over the documents of a query are rounded in their order
        assert np.allclose(mixed, scores[shuffled], rtol=1e-9, atol=1e-9 * scores.std())
    else:
        assert np.array_equal(mixed, scores[shuffled])


def test_same_seed_same_model_bit_for_bit(name, validated, parts):
    train, valid, test = parts
    again = make(name).fit(train.X, train.y, qid=train.qid, eval_set=(valid.X, valid.y, valid.qid))
    assert np.array_equal(again.predict(test), validated.predict(test))
    assert again.n_iter_ == validated.n_iter_


def test_fitting_again_forgets_the_first_fit(name, fitted, parts):
    train, valid, test = parts
    model = make(name).fit(valid)
    assert not np.array_equal(model.predict(test), fitted.predict(test))
    assert np.array_equal(model.fit(train).predict(test), fitted.predict(test))


def test_ranks_follow_the_scores(fitted, parts, rng):
    test = parts[2]
    order = rng.permutation(test.n_rows)
    qid = test.qid[order]
    scores = fitted.predict(test.X[order], **of_queries(fitted, qid))
    ranks = fitted.rank(test.X[order], qid=qid)
    for query in test.query_ids:
        inside = test.qid[order] == query
        expected = np.empty(inside.sum(), dtype=int)
        expected[np.argsort(-scores[inside], kind="stable")] = np.arange(1, inside.sum() + 1)
        assert ranks[inside].tolist() == expected.tolist()


def lists_by_formula(net, X, offsets):
    """One model, list and head after the other."""
    x = net.inputs
    seen = (np.sign(X) * np.log1p(np.abs(X) / x.unit) - x.shift) / x.scale
    found = np.zeros(len(X))
    for model, (a, b) in itertools.product(range(net.n_models), itertools.pairwise(offsets)):
        z = seen[a:b]
        for W, bias in net.layers:
            z = np.maximum(z @ W[model] + bias[model], 0)
        context = z
        for block in net.blocks:
            query, key, value = np.split(context @ block.projection[model] + block.bias[model], 3, axis=1)
            heads = []
            for own in np.split(np.arange(z.shape[1]), net.heads):
                alike = query[:, own] @ key[:, own].T / np.sqrt(len(own))
                heads.append(softmax(alike, axis=1) @ value[:, own])
            added = context + np.hstack(heads) @ block.output[model] + block.output_bias[model]
            normal = (added - added.mean(axis=1)[:, None]) / np.sqrt(added.var(axis=1) + 1e-5)[:, None]
            context = normal * block.gain[model] + block.shift[model]
        W, bias = net.output
        found[a:b] += ((1 + context) * z @ W[model] + bias[model])[:, 0] / net.n_models
    return found


def by_formula(scorer, X, offsets):
    """The scores that the fields of a scorer describe, by their definitions."""
    match scorer:
        case Constant():
            return np.full(len(X), scorer.value)
        case Linear():
            return X @ scorer.weights + scorer.intercept
        case Steps():
            return ((X[:, scorer.features] >= scorer.thresholds) * scorer.weights).sum(axis=1)
        case Trees():
            raw = scorer.booster.predict(X, num_iteration=scorer.iterations, raw_score=True)
            if scorer.link is None:
                return scorer.factor * raw
            relevance = scorer.link.relevance
            if scorer.link.kind == "softmax":
                return softmax(raw, axis=1) @ relevance
            return relevance[0] + expit(raw.reshape(len(X), -1) + scorer.link.start) @ np.diff(relevance)
        case Net():
            functions = {"relu": lambda z: np.maximum(z, 0), "tanh": np.tanh}
            z = (X - scorer.inputs.shift) / scorer.inputs.scale
            for place, (W, b) in enumerate(scorer.layers):
                z = (z if place == 0 else functions[scorer.activation](z)) @ W + b
            return z[:, 0]
        case ListNet():
            return lists_by_formula(scorer, X, offsets)
        case Sum():
            return sum(f * by_formula(part, X, offsets) for part, f in zip(scorer.parts, scorer.factors, strict=True))
        case Kernel(kernel="rbf"):
            z = (X - scorer.shift) * scorer.factor
            squares = ((z[:, None] - scorer.landmarks) ** 2).sum(axis=2)
            return np.exp(-scorer.settings["gamma"] * squares) @ scorer.weights
    raise AssertionError(f"write down how a {type(scorer).__name__} scores")


def test_the_scorer_says_what_predict_computes(fitted, parts):
    test = parts[2]
    X = test.X.astype(np.float64)
    scores = fitted.predict(X, **of_queries(fitted, test.qid))
    assert np.array_equal(scores_of_lists(fitted._scorer(), X, test.offsets), scores)
    assert np.allclose(by_formula(fitted._scorer(), X, test.offsets), scores, rtol=1e-9, atol=1e-9 * scores.std())


def test_a_ranker_that_needs_queries_says_so(fitted, parts):
    test = parts[2]
    if not fitted.needs_queries:
        assert np.array_equal(fitted.predict(test.X), fitted.predict(test.X, qid=test.qid))
        return
    with pytest.raises(DataError, match=r"qid is missing; \w+ scores the documents of a query together.*qid=qid"):
        fitted.predict(test.X)
    assert np.array_equal(fitted.predict(test.X, group=test.counts), fitted.predict(test))
    with pytest.raises(ParameterError, match="brings its own qid"):
        fitted.predict(test, qid=test.qid)


def test_contributions_add_up_where_the_score_is_a_sum(fitted, parts):
    X = parts[2].X
    if fitted._scorer().additive:
        assert np.allclose(fitted.contributions(X).sum(axis=1), fitted.predict(X), rtol=1e-9, atol=1e-9)
    else:
        with pytest.raises(GainfulError, match="no contributions"):
            fitted.contributions(X)


def test_score_is_mean_ndcg_at_10(fitted, parts):
    test = parts[2]
    expected = gainful.metric("ndcg@10")(fitted.predict(test.X, **of_queries(fitted, test.qid)), test.y, qid=test.qid)
    assert fitted.score(test.X, test.y, qid=test.qid) == expected


def test_history_has_a_row_per_iteration(validated):
    model = validated
    assert len(model.history_) == model.n_iter_ >= 1
    assert [row["iteration"] for row in model.history_] == list(range(1, model.n_iter_ + 1))
    for row in model.history_:
        assert {"objective", "gap", "validation", "seconds"} <= set(row)
        assert row["validation"] is None or 0 <= row["validation"] <= 1
    assert model.history_[-1]["validation"] is not None
    assert not model.interrupted_


def test_without_early_stopping_validation_data_only_watches(name, parts):
    """What is kept is what the same training without validation data keeps; the curve is recorded all the same."""
    if "early_stopping" not in gainful.RANKERS[name].cls.parameters or name == "rsrank-sparse":
        pytest.skip("no early stopping, or validation data choose among several l1")
    watched = make(name, early_stopping=None).fit(parts[0], eval_set=parts[1])
    alone = make(name, early_stopping=None).fit(parts[0])
    whole = of_queries(watched, parts[2].qid)
    np.testing.assert_array_equal(watched.predict(parts[2].X, **whole), alone.predict(parts[2].X, **whole))
    assert watched.n_iter_ == alone.n_iter_
    assert watched.training_["validation"]["iteration"] == alone.n_iter_ or gainful.RANKERS[name].kind == "linear"
    measured = gainful.metric(watched.training_["validation"]["metric"])(watched.predict(parts[1]), parts[1])
    assert watched.history_[watched.training_["validation"]["iteration"] - 1]["validation"] in (
        None,
        pytest.approx(measured),
    )


ITERATES = {"trees": ("n_trees", 25), "net": ("epochs", 6)}


def test_iterating_without_validation_data_says_once_what_it_costs(name, parts, recwarn):
    entry = gainful.RANKERS[name]
    length, n = ITERATES.get(entry.kind, (None, 0))
    if length is None:
        pytest.skip("does not lose without validation data")
    warnings.simplefilter("always", gainful.ValidationWarning)
    train, valid = parts[0], RankingData.concatenate([parts[1], parts[2]])

    def told(**how):
        recwarn.clear()
        make(name, **{length: n, "early_stopping": how.pop("early_stopping", 3)}).fit(train, **how)
        return [str(one.message) for one in recwarn if one.category is gainful.ValidationWarning]

    (line,) = told()
    assert f"kept all {n} iterations, which lost" in line
    assert "gainful.split(data, (0.8, 0.2))" in line
    assert told(early_stopping=None) == told(early_stopping=n) == []
    assert not [line for line in told(eval_set=valid) if "kept all" in line]
    assert told(eval_set=valid, early_stopping=1) == []  # 36 queries
    few = told(eval_set=valid[:5], early_stopping=1)
    assert len(few) <= 1
    assert all(line.startswith("5 validation queries chose the iteration of") for line in few)


def test_weights_count(name, fitted, parts):
    train, _, test = parts
    weights = np.where(np.arange(train.n_queries) < train.n_queries // 2, 1.0, 0.0)
    weighted = make(name).fit(train.X, train.y, qid=train.qid, sample_weight=np.repeat(weights, train.counts))
    assert not np.allclose(weighted.predict(test), fitted.predict(test))


def test_weights_of_documents_count_or_are_refused(name, fitted, parts):
    train, _, test = parts
    weights = np.random.default_rng(3).uniform(0.1, 2.0, train.n_rows)
    if gainful.RANKERS[name].weighs_documents:
        weighted = make(name).fit(train.X, train.y, qid=train.qid, sample_weight=weights)
        assert not np.allclose(weighted.predict(test), fitted.predict(test))
        assert weighted.training_["weighted_documents"]
    else:
        with pytest.raises(
            DataError, match=rf"weighs whole queries, but sample_weight differs .* {train.query_ids[0]};"
        ):
            make(name).fit(train.X, train.y, qid=train.qid, sample_weight=weights)


def test_initial_scores_count_or_are_refused(name, fitted, parts):
    train, valid, test = parts
    rng = np.random.default_rng(4)
    init, its = rng.normal(size=train.n_rows), rng.normal(size=valid.n_rows)
    if gainful.RANKERS[name].accepts_init_scores:
        model = make(name).fit(train, init_score=init, eval_set=valid, eval_init_score=its)
        assert not np.allclose(model.predict(test), fitted.predict(test))
        row = model.history_[model.training_["validation"]["iteration"] - 1]
        reached = gainful.metric(str(model._validation_metric()))(its + model.predict(valid), valid)
        assert row["validation"] == pytest.approx(reached, abs=1e-9)  # of the sum, not of the model alone
    else:
        with pytest.raises(DataError, match="cannot start from initial scores; leave out init_score"):
            make(name).fit(train, init_score=init)


def test_weights_that_are_all_equal_change_nothing(name, fitted, parts):
    """Only their ratios count, whatever rounding makes of 0.3."""
    train, _, test = parts
    model = make(name).fit(train.X, train.y, qid=train.qid, sample_weight=np.full(train.n_rows, 0.3))
    assert np.allclose(model.predict(test), fitted.predict(test))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float32_and_sparse_are_taken(name, fitted, parts, dtype):
    train, _, test = parts
    dense = fitted if dtype == train.X.dtype else make(name).fit(train.X.astype(dtype), train.y, qid=train.qid)
    csr = make(name).fit(sparse.csr_array(train.X.astype(dtype)), train.y, qid=train.qid)
    queries = of_queries(dense, test.qid)
    a = dense.predict(test.X.astype(dtype), **queries)
    b = csr.predict(sparse.csr_array(test.X.astype(dtype)), **queries)
    assert np.allclose(a, b, rtol=1e-4, atol=1e-5)


def test_the_columns_of_frames_are_found_by_name(name, fitted, parts):
    """Trained with a frame of one library, a ranker takes those of both; every other ranker learns from the other."""
    train, _, test = parts
    columns = [f"c{j}" for j in range(train.n_features)]
    kinds = (pd.DataFrame, pl.DataFrame)
    learned, *tested = (
        frame({c: X[:, j] for j, c in enumerate(columns)})
        for frame, X in ((kinds[NAMES.index(name) % 2], train.X), *((one, test.X) for one in kinds))
    )
    model = make(name).fit(learned, pd.Series(train.y), qid=pl.Series(train.qid))
    assert model.feature_names_in_.tolist() == columns
    queries = of_queries(model, test.qid)
    for frame, given in zip(kinds, tested, strict=True):
        assert np.allclose(model.predict(given, **queries), fitted.predict(test))
        other = frame({"title": ["a"] * test.n_rows} | {c: given[c] for c in columns[::-1]})
        assert model.predict(other, **queries).tolist() == model.predict(given, **queries).tolist()
        assert model.score(other, test.y, qid=test.qid) == model.score(given, test.y, qid=test.qid)
        absent = rf"X has no features 'c0', 'c2', which {type(model).__name__} was trained with"
        with pytest.raises(DataError, match=absent):
            model.predict(other[["title", "c1", *columns[3:]]])


def test_missing_values_are_taken_or_refused_in_words(name, fitted, parts):
    train = parts[0]
    X = train.X.copy()
    X[::7, 1] = np.nan
    if gainful.RANKERS[name].cls.accepts_missing:
        model = make(name).fit(X, train.y, qid=train.qid)
        assert np.isfinite(model.predict(X)).all()
        return
    with pytest.raises(DataError, match=r"X has missing values \(NaN\), which \w+ cannot handle"):
        make(name).fit(X, train.y, qid=train.qid)
    with pytest.raises(DataError, match="eval_set has missing values"):
        make(name).fit(train, eval_set=(X, train.y, train.qid))
    with pytest.raises(DataError, match="X has missing values"):
        fitted.predict(X)


def degenerate_queries() -> RankingData:
    """One document; equal grades; nothing relevant; a constant and two equal features; large units."""
    rng = np.random.default_rng(5)
    X = rng.random((40, 5))
    X[:, 1] = 3.0
    X[:, 3] = X[:, 2]
    X[:, 4] *= 1e6
    qid = np.array([1] + [2] * 9 + [3] * 10 + [4] * 20)
    y = np.concatenate([[1], np.ones(9), np.zeros(10), rng.integers(0, 3, 20)])
    return RankingData.from_rows(X, y, qid)


@pytest.mark.filterwarnings("ignore:.*validation queries are also training queries:gainful.DataWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # how far rounding lets a solver come
@pytest.mark.filterwarnings("ignore::gainful.RedundantFeaturesWarning")
def test_degenerate_queries_give_finite_scores(name):
    data = degenerate_queries()
    model = make(name).fit(data, eval_set=data)
    assert np.isfinite(model.predict(data)).all()
    if hasattr(model, "coef_"):
        assert np.isfinite(model.coef_).all()


def test_nothing_to_learn_is_a_warning_and_not_an_error(name):
    data = RankingData.from_rows(np.ones((9, 2)), np.zeros(9), [1, 1, 1, 2, 2, 2, 3, 3, 3])
    with pytest.warns(gainful.DataWarning, match="no query has rows of two different grades"):
        model = make(name).fit(data)
    assert np.isfinite(model.predict(data)).all()


@pytest.mark.filterwarnings("ignore:the grades have:gainful.DataWarning")
@pytest.mark.filterwarnings("ignore:the highest grade is:gainful.DataWarning")
@pytest.mark.filterwarnings("ignore:the convex bound is lowest at w = 0:gainful.DataWarning")
def test_real_valued_and_many_grades_are_taken(name, parts, rng):
    train, _, test = parts
    model = make(name).fit(train.X, train.y + rng.random(train.n_rows), qid=train.qid)
    assert model.score(test) > 0.4
    grades = np.argsort(np.argsort(train.y)) % 100
    assert np.isfinite(make(name).fit(train.X, grades, qid=train.qid).predict(test)).all()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m, d: m.predict(d.X[:, :3]), DataError, "X has 3 features, but"),
        (lambda m, d: m.rank(d.X), DataError, "qid is missing"),
        (lambda m, d: m.score(d.X, d.y), DataError, "qid is missing"),
        (lambda m, d: m.predict(np.full((1, d.n_features), np.inf)), DataError, "is infinite"),
    ],
)
def test_bad_calls_of_a_model_are_refused(fitted, parts, call, error, message):
    with pytest.raises(error, match=message):
        call(fitted, parts[0])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m, d: m.fit(d.X, d.y), DataError, "qid is missing"),
        (lambda m, d: m.fit(d.X[:, :0], d.y, qid=d.qid), DataError, "X has no features"),
        (lambda m, d: m.fit(d.X, qid=d.qid), DataError, "y is missing"),
        (lambda m, d: m.fit(d, d.y), ParameterError, "brings its own y"),
        (lambda m, d: m.fit(d, eval_set=(d.X, d.y)), ParameterError, "eval_set of fit must be"),
        (lambda m, d: m.fit(d, eval_set=(d.X[:, :2], d.y, d.qid)), DataError, "eval_set has 2 features"),
        (lambda m, d: m.predict(d.X), NotFittedError, "call fit first"),
    ],
)
def test_bad_calls_are_refused(name, parts, call, error, message):
    with pytest.raises(error, match=message):
        call(make(name), parts[0])


# -- progress and interruption -----------------------------------------------------------------------------------------


def test_progress_is_reported_each_iteration(name, fitted, parts):
    seen = []
    model = make(name).fit(parts[0], progress=seen.append)
    assert [event.iteration for event in seen] == [row["iteration"] for row in model.history_]
    assert np.array_equal(model.predict(parts[2]), fitted.predict(parts[2]))


def test_a_callback_can_stop_training_and_the_model_says_so(name, fitted, parts):
    if fitted.n_iter_ == 1:
        pytest.skip(f"{name} has a single iteration")
    with pytest.warns(InterruptedFitWarning, match="interrupted after iteration 3"):
        model = make(name).fit(parts[0], progress=lambda event: event.iteration == 3)
    assert model.interrupted_
    assert model.n_iter_ == 3
    assert np.isfinite(model.predict(parts[2])).all()


def test_ctrl_c_keeps_the_best_model_so_far(name, fitted, parts):
    train, valid, _ = parts
    if fitted.n_iter_ == 1:
        pytest.skip(f"{name} has a single iteration")

    def press(event):
        if event.iteration == 4:
            raise KeyboardInterrupt

    with pytest.warns(InterruptedFitWarning, match="the model kept is that of iteration"):
        model = make(name).fit(train, eval_set=valid, progress=press)
    assert model.interrupted_
    validated = [row["validation"] for row in model.history_ if row["validation"] is not None]
    if gainful.RANKERS[name].kind == "blend":  # validated on the queries that each model was not trained on
        assert model.leaderboard_.blend.mean == validated[-1]
        return
    assert model._validation_metric()(model.predict(valid), valid) == pytest.approx(max(validated))


def test_ctrl_c_before_the_first_iteration_is_not_swallowed(name, parts, monkeypatch):
    def press(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(gainful.RANKERS[name].cls, "_fit", press)
    with pytest.raises(KeyboardInterrupt):
        make(name).fit(parts[0])


# -- model files and scikit-learn --------------------------------------------------------------------------------------


def test_saved_and_loaded_models_score_the_same(validated, parts, tmp_path):
    model, test = validated, parts[2]
    gainful.save(model, tmp_path / "model.gainful")
    again = gainful.load(tmp_path / "model.gainful")
    assert type(again) is type(model)
    assert np.array_equal(again.predict(test), model.predict(test))
    assert again.n_iter_ == model.n_iter_
    assert again.get_params() == model.get_params()
    assert again.training_ == model.training_
    joblib.dump(model, tmp_path / "model.joblib", compress=1)
    for copy in (
        pickle.loads(pickle.dumps(model)),
        cloudpickle.loads(cloudpickle.dumps(model)),
        joblib.load(tmp_path / "model.joblib"),
    ):
        assert np.array_equal(copy.predict(test), model.predict(test))
        assert copy.history_ == model.history_


def test_clone_gives_an_unfitted_copy(fitted, parts):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(parts[0])


@pytest.mark.parametrize("routing", [True, False], ids=["routing", "no routing"])
def test_cross_validation_by_query(name, parts, routing):
    train = parts[0][:12]
    with sklearn.config_context(enable_metadata_routing=routing):
        if routing:
            how = {"cv": GroupKFold(2), "scoring": None if SCIKIT_LEARN >= (1, 8) else gainful.scorer("ndcg@10")}
            grid = GridSearchCV(
                make_pipeline(StandardScaler(), make(name)), {}, error_score="raise", refit=False, **how
            )
            assert 0 < grid.fit(train.X, train.y, qid=train.qid, groups=train.qid).best_score_ <= 1
        else:  # the query id reaches fit but not score: an error rather than a wrong figure
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                with pytest.raises(DataError, match="qid is missing"):
                    cross_validate(make(name), train.X, train.y, cv=3, params={"qid": train.qid}, error_score="raise")


# -- units of the features ---------------------------------------------------------------------------------------------


def fitted_in_units(name, train, test, factors):
    """Ranks and NDCG@10 of the test queries, where each feature is multiplied by its factor."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = make(name).fit(train.X * factors, train.y, qid=train.qid)
    X = test.X * factors
    return model.rank(X, qid=test.qid), model.score(X, test.y, qid=test.qid)


def test_units_of_features_change_no_ranking(name, fitted, parts):
    """Powers of two scale floating point numbers exactly, so that not one rank may differ."""
    train, _, test = parts
    rng = np.random.default_rng(11)
    ranks, ndcg = fitted.rank(test.X, qid=test.qid), fitted.score(test)
    doubled, _ = fitted_in_units(name, train, test, 2.0 ** rng.integers(-9, 14, train.n_features))
    assert np.array_equal(doubled, ranks)
    other, value = fitted_in_units(name, train, test, 10.0 ** rng.uniform(-3.0, 4.0, train.n_features))
    assert value == pytest.approx(ndcg, abs=1e-3)
    assert np.corrcoef(other, ranks)[0, 1] > 0.999


def test_what_is_linear_or_has_a_kernel_takes_a_scale(name):
    if gainful.RANKERS[name].kind in ("linear", "kernel", "net"):
        assert gainful.ranker(name).scale == "standard"
        assert gainful.ranker(name, scale=None).scale is None
    else:
        assert "scale" not in gainful.ranker(name).get_params()  # the name has one meaning


def test_a_notebook_shows_parameters_and_what_training_found(name, fitted):
    shown = fitted._repr_mimebundle_()
    page = shown["text/html"]
    assert page == fitted._repr_html_()
    assert shown["text/plain"] == repr(fitted)
    assert next(iter(gainful.RANKERS[name].cls.parameters)) in page
    assert f">{fitted.n_features_in_}<" in page
    assert f">{fitted.n_iter_:,}" in page
    assert "not trained yet" not in page
    assert "not trained yet" in make(name)._repr_html_()


# -- clicks ------------------------------------------------------------------------------------------------------------


def test_clicks_are_corrected_or_refused(name, parts):
    few = parts[0][:4]
    clicked = few.replace(y=(few.y > np.median(few.y)).astype(float))
    shown = np.concatenate([np.arange(1, n + 1) for n in few.counts])
    model = make(name, **({"epochs": 2} if name in NET_NAMES else {}))
    if not model.learns_clicks:
        with pytest.raises(DataError, match="which clicks do not survive"):
            model.fit(clicked, propensity=1.0 / shown)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so little data
        model.fit(clicked, position=shown, propensity=1.0 / shown)
    assert model.training_["debias"] == "ipw"
    assert np.isfinite(model.predict(few)).all()
    if model._fits_grades() or not model._weighs_documents():
        with pytest.raises(DataError, match="cannot weigh the pairs of a click"):
            model.fit(clicked, position=shown, debias="pairwise")
