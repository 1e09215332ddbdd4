"""Contributions add up to scores for every ranker that has them, and explain pairs."""

from __future__ import annotations

import json
from itertools import permutations
from math import factorial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gainful
from gainful import DataError, GainfulError, ParameterError
from gainful.cli import run

QUICK = {"n_trees": 6, "n_leaves": 5, "n_jobs": 1, "max_classes": 4, "n_rounds": 8, "max_iter": 10, "epochs": 2,
         "n_restarts": 1, "n_sweeps": 2, "n_landmarks": 10, "hidden": (4,), "device": "cpu", "trials": 3, "folds": 3,
         "members": ("regression", "mcrank:n_trees=6")}  # fmt: skip
# One name of each class and, for McRank, of each mode.
KINDS = {(entry.cls, entry.params.get("mode")): name for name, entry in gainful.RANKERS.items()}
WITHOUT = {"NeuralRanker", "AttentionRanker", "KernelStructuredSVM"}
NAMES = tuple(f"signal {j}" for j in range(6))


def quick(name):
    entry = gainful.RANKERS[name]
    return gainful.ranker(name, **{p: v for p, v in QUICK.items() if p in entry.cls.parameters})


@pytest.fixture(scope="module")
def data():
    made = gainful.make_artificial(15, n_docs=12, n_features=6, seed=4)
    return made.replace(feature_names=NAMES, doc_ids=np.array([f"d{i % 12}" for i in range(made.n_rows)]))


@pytest.fixture(scope="module")
def linear(data):
    return gainful.RegressionRanker().fit(data)


@pytest.fixture(scope="module")
def trees(data):
    return gainful.LambdaMART(n_trees=6, n_leaves=5, n_jobs=1).fit(data)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(KINDS.values()))
def test_contributions_sum_to_the_score_or_are_refused_in_one_line(name, data):
    model = quick(name).fit(data)
    if type(model).__name__ in WITHOUT:
        with pytest.raises(GainfulError, match=r"no contributions; .*have them") as caught:
            model.contributions(data)
        assert "\n" not in str(caught.value)
        return
    for X in (data, data.X.astype(np.float32), sparse.csr_array(data.X)):
        parts = model.contributions(X)
        assert parts.shape == (data.n_rows, data.n_features + 1)
        assert parts.dtype == np.float64
        assert np.allclose(parts.sum(axis=1), model.predict(X), rtol=1e-9, atol=1e-9)


def test_linear_contributions_are_weight_times_value(data, linear):
    parts = linear.contributions(data)
    assert np.array_equal(parts[:, :-1], data.X * linear.coef_)
    assert np.array_equal(parts[:, -1], np.full(data.n_rows, linear.intercept_))


def test_step_contributions_depend_on_their_own_feature_only(data):
    model = gainful.RankBoost(n_rounds=12).fit(data)
    parts = model.contributions(data.X)
    moved = data.X.copy()
    moved[:, 2] += 0.3
    others = np.delete(np.arange(data.n_features + 1), 2)
    assert np.array_equal(model.contributions(moved)[:, others], parts[:, others])
    for j in range(data.n_features):
        steps = [(t, w) for f, t, w in zip(model.features_, model.thresholds_, model.weights_, strict=True) if f == j]
        assert np.allclose(parts[:, j], sum(w * (data.X[:, j] >= t) for t, w in steps) if steps else 0.0)


def test_tree_contributions_are_shapley_values(data):
    """On one tree: the mean over orders of what revealing a feature changes in the tree's expected value."""
    model = gainful.ranker("tree-regression", n_trees=1, n_leaves=4, n_jobs=1, learning_rate=0.5).fit(data)
    root = model.booster_.dump_model()["tree_info"][0]["tree_structure"]

    def expected(node, x, known):
        if "leaf_value" in node:
            return node["leaf_value"]
        left, right = node["left_child"], node["right_child"]
        if node["split_feature"] in known:
            return expected(left if x[node["split_feature"]] <= node["threshold"] else right, x, known)
        n = [child.get("internal_count", child.get("leaf_count")) for child in (left, right)]
        return (n[0] * expected(left, x, known) + n[1] * expected(right, x, known)) / sum(n)

    d = data.n_features
    for x in data.X[:3]:
        values = np.zeros(d)
        for order in permutations(range(d)):
            for i, j in enumerate(order):
                values[j] += expected(root, x, order[: i + 1]) - expected(root, x, order[:i])
        assert np.allclose(model.contributions(x[None])[0, :-1], values / factorial(d), atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*no tree has a split")
def test_a_model_without_splits_has_only_a_base():
    X, y, qid = np.zeros((8, 2)), np.tile([0.0, 1.0], 4), np.repeat([1, 2], 4)
    model = gainful.BoostedRanker(loss="ranknet", n_trees=3, min_docs_in_leaf=1, n_jobs=1).fit(X, y, qid=qid)
    assert np.array_equal(model.contributions(X), np.zeros((8, 3)))


def test_an_unfitted_ranker_says_so():
    with pytest.raises(Exception, match="call fit first"):
        gainful.RegressionRanker().contributions(np.zeros((1, 2)))


# -- explanations ------------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(st.integers(0, 179), st.integers(0, 179))
def test_pair_differences_sum_to_the_difference_of_scores(data, linear, trees, i, j):
    for model in (linear, trees):
        told = gainful.explain_pair(model, data.X[i], data.X[j])
        scores = model.predict(data.X[[i, j]])
        assert (told.score_a, told.score_b) == (scores[0], scores[1])
        assert told.difference == scores[0] - scores[1]
        assert np.isclose(sum(s.difference for s in told.shares), told.difference, atol=1e-9)
        sizes = [abs(s.difference) for s in told.shares]
        assert sizes == sorted(sizes, reverse=True)
        assert {s.feature: (s.value_a, s.value_b) for s in told.shares} == {
            name: (data.X[i, k], data.X[j, k]) for k, name in enumerate(NAMES)
        }
        back = gainful.explain_pair(model, data.X[j], data.X[i])
        assert {s.feature: s.difference for s in back.shares} == {s.feature: -s.difference for s in told.shares}


def test_rows_may_be_mappings_or_rows_of_a_frame(data, linear):
    frame = pd.DataFrame(data.X, columns=NAMES)
    plain = gainful.explain_pair(linear, data.X[0], data.X[1])
    shuffled = dict(sorted(frame.loc[0].items(), reverse=True))
    assert gainful.explain_pair(linear, shuffled, frame.loc[1]) == plain
    assert gainful.explain_pair(linear, frame.loc[0][::-1], frame.loc[1]) == plain


def test_a_frame_of_one_row_is_taken_by_its_columns_and_other_tables_are_refused(data, linear):
    frame = pd.DataFrame(data.X, columns=NAMES)
    plain = gainful.explain_pair(linear, data.X[0], data.X[1])
    assert gainful.explain_pair(linear, frame.iloc[[0]], frame.iloc[[1]]) == plain
    assert gainful.explain_pair(linear, frame.iloc[[0], ::-1], data.X[1]) == plain
    with pytest.raises(DataError, match="a has no feature 'signal 0', which RegressionRanker was trained with"):
        gainful.explain_pair(linear, frame.iloc[[0], 1:], data.X[1])
    for table in (data.X[:1], frame.iloc[:2], sparse.csr_array(data.X[:1])):
        with pytest.raises(DataError, match="b must be one document"):
            gainful.explain_pair(linear, data.X[0], table)


def test_names_that_two_features_share_name_none(data):
    model = gainful.RegressionRanker().fit(data.replace(feature_names=("same",) * 6))
    with pytest.raises(DataError, match="features of a cannot be given by name: the model has two of the same name"):
        gainful.explain_pair(model, {"same": 1.0}, data.X[0])


def test_features_without_names_are_called_as_in_exports(data):
    model = gainful.RegressionRanker().fit(data.replace(feature_names=None))
    assert {s.feature for s in gainful.explain(model, data.X[:1])[0].shares} == {f"f{j}" for j in range(1, 7)}


def test_missing_values_are_shown_as_missing(data, trees, linear):
    told = gainful.explain_pair(trees, {"signal 0": 0.5}, data.X[0])
    assert {s.feature for s in told.shares if s.value_a is None} == set(NAMES[1:])
    with pytest.raises(DataError, match="feature 'signal 1' of a is missing, and RegressionRanker needs every"):
        gainful.explain_pair(linear, {"signal 0": 0.5}, data.X[0])


def test_pairs_that_cannot_be_explained(data, linear):
    with pytest.raises(ParameterError, match=r"b: RegressionRanker has no feature 'signal9'; did you mean 'signal "):
        gainful.explain_pair(linear, data.X[0], {"signal9": 1.0})
    with pytest.raises(DataError, match="a has 2 features, but RegressionRanker was trained with 6"):
        gainful.explain_pair(linear, [1.0, 2.0], data.X[0])
    with pytest.raises(DataError, match="features of a must be numbers"):
        gainful.explain_pair(linear, ["x"] * 6, data.X[0])
    with pytest.raises(ParameterError, match="model of explain_pair must be a fitted ranker"):
        gainful.explain_pair("model", data.X[0], data.X[1])
    with pytest.raises(ParameterError, match="model of explain must be a fitted ranker, not a pipeline; give its last"):
        gainful.explain(make_pipeline(StandardScaler(), linear), data.X)
    with pytest.raises(ParameterError, match="top of to_dict must be 1 or more"):
        gainful.explain_pair(linear, data.X[0], data.X[1]).to_dict(top=-1)


def test_explanations_of_documents(data, trees):
    told = gainful.explain(trees, data)
    scores, parts = trees.predict(data), trees.contributions(data)
    assert len(told) == data.n_rows
    assert [t.score for t in told] == scores.tolist()
    assert {s.feature: s.contribution for s in told[3].shares} == dict(zip(NAMES, parts[3, :-1], strict=True))
    cut = told[3].to_dict(top=2)
    assert len(cut["features"]) == 2
    total = cut["base"] + cut["rest"] + sum(f["contribution"] for f in cut["features"])
    assert np.isclose(total, scores[3])
    assert [t.to_dict() for t in gainful.explain(trees, sparse.csr_array(data.X))] == [t.to_dict() for t in told]
    assert str(told[3]).startswith(f"score {scores[3]:.6g} = base")
    assert "above" in str(gainful.explain_pair(trees, data.X[scores.argmax()], data.X[scores.argmin()]))


# -- command line ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(data, linear, tmp_path_factory):
    folder = tmp_path_factory.mktemp("explain")
    gainful.save(linear, folder / "model.gainful")
    gainful.write(data, folder / "data.parquet")
    kernel = gainful.ranker("structured-svm-kernel", n_landmarks=5)
    gainful.save(kernel.fit(data), folder / "kernel.gainful")
    return folder


def explain(files, *options, model="model.gainful"):
    return run(["explain", str(files / model), str(files / "data.parquet"), *options])


def test_the_command_explains_the_best_documents_of_a_query(files, data, linear, capsys):
    query = data.query_ids[2]
    assert explain(files, "--query", str(query), "--documents", "2", "--top", "3", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    rows = np.arange(data.offsets[2], data.offsets[3])
    best = rows[np.argsort(-linear.predict(data.X[rows]), kind="stable")[:2]]
    assert [d["row"] for d in told["documents"]] == [int(row) + 1 for row in best]
    assert [d["document"] for d in told["documents"]] == [data.doc_ids[row] for row in best]
    assert [d["rank"] for d in told["documents"]] == [1, 2]
    assert told["documents"][0] | gainful.explain(linear, data.X[best])[0].to_dict(3) == told["documents"][0]
    assert explain(files) == 0
    shown = capsys.readouterr().out
    assert "rank 3:" in shown
    assert "signal 0" in shown


@pytest.mark.parametrize("pair", [("d3", "d7"), ("28", "32")])
def test_the_command_explains_a_pair(files, data, linear, capsys, pair):
    query = ["--query", str(data.query_ids[2])] if pair[0] == "d3" else []
    assert explain(files, *query, "--pair", *pair, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["a"]["row"], told["b"]["row"]) == (28, 32)
    expected = gainful.explain_pair(linear, data.X[27], data.X[31]).to_dict(10)
    assert {name: told[name] for name in expected} == expected
    assert explain(files, *query, "--pair", *pair) == 0
    where = "above" if expected["difference"] > 0 else "below"
    assert f"{pair[0]} is {where} {pair[1]}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--pair", "d3", "d7"), "document 'd3' is in 15 rows; name its query with --query"),
        (("--pair", "1", "nobody"), "no document 'nobody'"),
        (("--pair", "1", "181"), "a row number from 1 to 180"),
        (("--query", "none"), "there is no query 'none'"),
        (("--query", "1", "--pair", "2", "30"), "row 30 belongs to query 3, not to query 1; leave out --query"),
    ],
)
def test_mistakes_are_one_line(files, capsys, options, line):
    assert explain(files, *options) == 2
    told = capsys.readouterr().err
    assert line in told
    assert told.count("\n") == 1


def test_columns_of_a_table_may_come_in_another_order(files, data, capsys):
    turned = data.replace(X=np.ascontiguousarray(data.X[:, ::-1]), feature_names=NAMES[::-1])
    gainful.write(data, files / "straight.parquet")
    gainful.write(turned, files / "turned.parquet")
    for options in ((), ("--pair", "1", "2")):
        printed = []
        for name in ("straight", "turned"):
            assert run(["explain", str(files / "model.gainful"), str(files / f"{name}.parquet"), *options]) == 0
            printed.append(capsys.readouterr().out)
        assert printed[0] == printed[1]


def test_a_pair_of_two_queries_is_noted(files, capsys):
    assert explain(files, "--pair", "1", "30", "--json") == 0
    assert "note: these documents are from two queries, 1 and 3" in capsys.readouterr().err
    assert explain(files, "--pair", "1", "2", "--json") == 0
    assert "note" not in capsys.readouterr().err


def test_models_without_contributions_are_refused(files, capsys):
    assert explain(files, model="kernel.gainful") == 2
    assert "KernelStructuredSVM is not a sum over features" in capsys.readouterr().err
