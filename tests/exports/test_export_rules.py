"""What exports promise about floats, ties, missing values, categories, pipelines and refusals."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import plain_readers
import pytest
from export_examples import TREES, awkward
from hypothesis import given
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

import gainful
from gainful import GainfulError
from gainful.cli import run
from gainful.errors import ExportError, install_command
from gainful.exports import describe as describe_module
from gainful.exports import elasticsearch, ranklib, solr
from gainful.exports.check import compare_scores, made_up_rows, swapped_gap
from gainful.exports.describe import describe
from gainful.exports.floats import above, below, single
from gainful.exports.lightgbm_text import trees_of
from gainful.exports.solr import without_slack

FINITE32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


@pytest.fixture(scope="module")
def grown():
    """Boosted trees without and with missing values in training."""
    found = {}
    for missing in (False, True):
        X, y, qid = awkward(missing)
        found[missing] = gainful.LambdaMART(**TREES).fit(X, y, qid=qid)
    return found


def in_single(model, X):
    """LightGBM's own leaves of each row, added up in float32, one tree after the other."""
    leaves = model.booster_.predict(X.astype(np.float64), pred_leaf=True, num_iteration=model.best_iteration_)
    total = np.zeros(len(X), dtype=np.float32)
    for tree in range(leaves.shape[1]):
        values = np.array([model.booster_.get_leaf_output(tree, leaf) for leaf in range(leaves[:, tree].max() + 1)])
        total += values.astype(np.float32)[leaves[:, tree]]
    return total


# -- floats ------------------------------------------------------------------------------------------------------------


@given(t=st.floats(allow_nan=False), x=FINITE32)
def test_float32_go_the_same_way_at_the_threshold_below(t, x):
    lower = below([t])[0]
    for value in (x, float(lower), float(above(lower))):
        if abs(value) < 3.4e38:
            assert (np.float32(value) <= lower) == (value <= t)
            assert (np.float32(value) < above(lower)) == (value <= t)


@given(x=FINITE32)
def test_written_numbers_are_read_back_in_either_precision(x):
    text = json.dumps(single(x))
    assert np.float32(text) == np.float32(x) == np.float32(np.float64(text))


@given(x=FINITE32)
def test_solr_thresholds_come_back_once_the_slack_is_added(x):
    written = without_slack(np.array([x], dtype=np.float32))[0]
    if np.isnan(written):  # only where 1e-6 is not a rounding error, and steps of float32 change with the sign or size
        assert abs(x) < 32
    else:
        assert written + np.float32(1e-6) == np.float32(x)


# -- LightGBM's trees --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [False, True])
def test_same_leaves_for_10_000_rows_with_ties_and_missing_values(grown, missing, tmp_path):
    model = grown[missing]
    described = describe(model)
    X = made_up_rows(described.form, 6, missing=True, n=10_000, seed=3)
    assert np.isnan(X).any()
    assert np.isin(X[:, 1], np.concatenate([below(tree.threshold) for tree in described.form.trees])).any()
    expected = in_single(model, X)
    names = described.features
    dump = gainful.export(model, tmp_path / "es.json", to="elasticsearch").files[0].read_text()
    assert np.array_equal(elasticsearch.dump_scores(json.loads(dump), names, X), expected)
    text = gainful.export(model, tmp_path / "solr.json", to="solr").files[0].read_bytes()
    X[np.abs(X) <= 1e-35] = 0.0  # what LightGBM takes for zero, Solr has to be given as zero
    expected = in_single(model, X)
    assert np.array_equal(solr.scores(text, names, X), expected)
    assert ("isNullSameAsZero" in json.loads(text)["params"]) == missing
    order = np.argsort(-model.predict(X.astype(np.float64)), kind="stable")
    assert swapped_gap(model.predict(X.astype(np.float64)), expected) < 1e-6
    assert (np.diff(expected[order]) <= 1e-6).all()
    rows = X[:40]
    assert [plain_readers.solr(text, list(names), row) for row in rows] == expected[:40].tolist()
    assert [plain_readers.xgboost(dump, list(names), row, {}) for row in rows] == expected[:40].tolist()


def test_missing_as_zero_if_the_format_has_no_missing_values(grown, tmp_path):
    model = grown[True]
    with pytest.raises(
        ExportError, match='sides of their own, and RankLib reads them as 0; use format="xgboost", or missing="zero"'
    ):
        gainful.export(model, tmp_path / "m.txt", to="elasticsearch", format="ranklib")
    done = gainful.export(model, tmp_path / "m.txt", to="elasticsearch", format="ranklib", missing="zero")
    text = done.files[0].read_text()
    X = made_up_rows(describe(model).form, 6, missing=True, n=500)
    expected = in_single(model, np.nan_to_num(X))
    assert np.array_equal(ranklib.scores(text, X), expected)
    assert [plain_readers.ranklib(text, None, row, {}) for row in X[:20]] == expected[:20].tolist()
    for to in ("solr", "opensearch", "onnx", "json"):
        gainful.export(model, tmp_path / f"{to}.out", to=to, missing="zero")
    assert "isNullSameAsZero" not in json.loads((tmp_path / "solr.out").read_text())["params"]


def test_the_text_is_read_as_lightgbm_dumps_it(grown):
    booster = grown[True].booster_
    trees = trees_of(booster.model_to_string(num_iteration=-1))
    dumped = booster.dump_model()["tree_info"]
    assert len(trees) == len(dumped)
    for tree, info in zip(trees, dumped, strict=True):
        todo = [info["tree_structure"]]
        while todo:
            node = todo.pop()
            if "leaf_index" in node:
                assert tree.leaves[node["leaf_index"]] == node["leaf_value"]
                continue
            at = node["split_index"]
            assert tree.feature[at] == node["split_feature"]
            if 1e-30 < abs(node["threshold"]) < 1e300:
                assert tree.threshold[at] == node["threshold"]
            if node["missing_type"] == "NaN":
                assert tree.nan_left[at] == node["default_left"]
            todo += [node["left_child"], node["right_child"]]


def test_categories_go_to_onnx_and_json_only(tmp_path):
    X, y, qid = awkward(missing=True)
    X[:, 5] = np.nan_to_num(X[:, 5])
    model = gainful.LambdaMART(**TREES, categorical=[5]).fit(X, y, qid=qid)
    assert any(tree.categories for tree in describe(model).form.trees)
    for to in ("onnx", "json"):
        assert gainful.export(model, tmp_path / to, to=to, check_on=X).checks["data"].swapped_gap < 1e-6
    text = (tmp_path / "json").read_text()
    rows = X[:50].astype(np.float32).astype(float)
    assert np.allclose([plain_readers.plain(text, row) for row in rows], model.predict(rows), atol=1e-12)
    for to in ("elasticsearch", "solr"):
        with pytest.raises(ExportError, match=f'cannot be exported to {to}: it has splits by category.*use to="onnx"'):
            gainful.export(model, tmp_path / "no", to=to)


@pytest.mark.filterwarnings("ignore::gainful.RedundantFeaturesWarning")
def test_models_without_a_tree_or_a_split(tmp_path):
    X, qid = np.ones((48, 2)), np.repeat([1, 2], 24)
    for name in ("lambdamart", "boosted", "mcrank", "rankboost", "tree-regression"):
        with pytest.warns(gainful.DataWarning, match="no query has rows of two different grades"):
            model = gainful.ranker(name).fit(X, np.ones(48), qid=qid)
        for to in ("onnx", "elasticsearch", "solr", "json"):
            done = gainful.export(model, tmp_path / f"{name}.{to}", to=to, check_on=X)
            assert done.largest_difference < 1e-6


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"linear_tree": True, "lambda_l2": 0.0}, "linear models in their leaves"),
        ({"zero_as_missing": True}, "treat 0 as missing"),
    ],
)
def test_trees_that_no_format_holds(params, message, tmp_path):
    X, y, qid = awkward(missing=False)
    params.pop("lambda_l2", None)
    model = gainful.LambdaMART(**TREES, engine_params=params).fit(X, y, qid=qid)
    with pytest.raises(ExportError, match=message):
        gainful.export(model, tmp_path / "no", to="json")


def test_trees_too_deep_to_nest(grown, tmp_path, monkeypatch):
    monkeypatch.setattr("gainful.exports.formats.DEEPEST", 3)
    with pytest.raises(ExportError, match="more than 3 splits deep"):
        gainful.export(grown[False], tmp_path / "no", to="solr")
    gainful.export(grown[False], tmp_path / "yes", to="onnx")


# -- pipelines ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [False, True])
def test_binned_trees_are_written_for_values(missing, tmp_path):
    X, y, qid = awkward(missing)
    binner = gainful.AdaptiveBinner(32).fit(X)
    ranker = gainful.LambdaMART(**TREES, bins="exact").fit(binner.transform(X), y, qid=qid)
    model = make_pipeline(binner, ranker)
    done = gainful.export(model, tmp_path / "m.json", to="json", check_on=X)
    assert done.checks["data"].difference == 0
    gainful.export(model, tmp_path / "m.onnx", to="onnx", check_on=X)
    gainful.export(model, tmp_path / "m.solr", to="solr", check_on=X)


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler(), MaxAbsScaler()], ids=lambda s: type(s).__name__)
def test_scaled_linear_models_keep_their_scores(scaler, tmp_path):
    X, y, qid = awkward(missing=False)
    X[:, 3] = X[:, 3] / 1e4 + 1970
    model = make_pipeline(scaler.fit(X[:, 1:]), gainful.RegressionRanker().fit(scaler.transform(X[:, 1:]), y, qid=qid))
    for to in ("onnx", "solr", "json", "elasticsearch"):
        done = gainful.export(model, tmp_path / to, to=to, check_on=X[:, 1:])
    request = json.loads(done.files[1].read_text())["model"]["model"]
    names = [f"f{j}" for j in range(1, 6)]
    rows = X[:10, 1:].astype(np.float32).astype(float)
    assert set(request["feature_normalizers"]) == set(names)
    found = [plain_readers.plugin(done.files[1].read_text(), names, row) + done.constant for row in rows]
    assert np.allclose(found, model.predict(rows), atol=1e-4)
    alone = [plain_readers.linear(done.files[0].read_text(), names, row, {}) for row in rows]
    assert np.allclose(np.diff(alone), np.diff(model.predict(rows)), atol=1e-3)
    solr_found = [plain_readers.solr((tmp_path / "solr").read_text(), names, row) + done.constant for row in rows]
    assert np.allclose(solr_found, model.predict(rows), atol=1e-4)


@pytest.mark.parametrize(("mean", "std"), [(False, True), (True, False), (False, False)])
def test_standard_scalers_that_do_one_half_only(mean, std, tmp_path):
    X, y, qid = awkward(missing=False)
    X = X[:, 1:] + 3.0
    scaler = StandardScaler(with_mean=mean, with_std=std).fit(X)
    model = make_pipeline(scaler, gainful.RegressionRanker().fit(scaler.transform(X), y, qid=qid))
    for to in ("onnx", "solr", "json", "elasticsearch"):
        gainful.export(model, tmp_path / to, to=to, check_on=X)


def test_steps_that_do_not_fit_are_named(grown, tmp_path):
    X, _, _ = awkward(missing=False)
    with pytest.raises(ExportError, match="StandardScaler in front of trees is not supported by any format"):
        gainful.export(make_pipeline(StandardScaler().fit(X), grown[False]), tmp_path / "no", to="onnx")
    with pytest.raises(GainfulError, match="model of export must be a fitted ranker"):
        gainful.export(StandardScaler(), tmp_path / "no", to="onnx")


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "silu"])
def test_nets_of_every_activation(activation, tmp_path):
    X, _, _ = awkward(missing=False)
    X[:, 0] *= 1e20
    rng = np.random.default_rng(2)
    model = gainful.NeuralRanker(hidden=(6, 4), activation=activation)
    model.n_features_in_, model.shift_, model.scale_ = 6, X.mean(axis=0), X.std(axis=0)
    model.weights_ = [rng.normal(size=shape) for shape in ((6, 6), 6, (6, 4), 4, (4, 1), 1)]
    gainful.export(model, tmp_path / "m.onnx", to="onnx", check_on=X)
    gainful.export(model, tmp_path / "m.json", to="json", check_on=X)
    if activation == "silu":
        with pytest.raises(ExportError, match="Solr has no activation 'silu'; use to=\"onnx\""):
            gainful.export(model, tmp_path / "m.solr", to="solr")
        return
    text = gainful.export(model, tmp_path / "m.solr", to="solr", check_on=X).files[0].read_text()
    names = [f"f{j}" for j in range(1, 7)]
    rows = X[:5].astype(np.float32).astype(float)
    assert np.allclose([plain_readers.solr(text, names, row) for row in rows], model.predict(rows), atol=1e-5)


# -- the check ---------------------------------------------------------------------------------------------------------


def test_a_wrong_export_is_refused_and_leaves_no_file(grown, tmp_path, monkeypatch):
    path = tmp_path / "m.json"
    monkeypatch.setattr("gainful.exports.elasticsearch.above", lambda values: values)  # ties go the other way
    with pytest.raises(ExportError, match=r"does not score as the model does .*nothing was written"):
        gainful.export(grown[False], path, to="elasticsearch")
    monkeypatch.setattr("gainful.exports.solr.without_slack", lambda values: values)  # the slack is forgotten
    with pytest.raises(ExportError, match="does not score as the model does"):
        gainful.export(grown[False], path, to="solr")
    assert not list(tmp_path.iterdir())


def test_wrong_sides_for_missing_values_are_found(grown, tmp_path, monkeypatch):
    def flipped(text):
        return [replace(tree, nan_left=~tree.nan_left) for tree in trees_of(text)]

    monkeypatch.setattr("gainful.exports.describe.trees_of", flipped)
    for to in ("onnx", "elasticsearch", "solr", "json"):
        with pytest.raises(ExportError, match="does not score as the model does"):
            gainful.export(grown[True], tmp_path / "no", to=to)


def test_rows_of_data_are_checked(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    model = gainful.RegressionRanker().fit(X, rng.integers(0, 2, 40), qid=np.repeat([1, 2], 20))
    monkeypatch.setattr("gainful.exports.exporting.made_up_rows", lambda *_, **__: np.zeros((5, 3), dtype=np.float32))
    monkeypatch.setattr("gainful.exports.solr.single", lambda value: float(value) * 1.001)
    gainful.export(model, tmp_path / "unseen", to="solr")
    with pytest.raises(ExportError, match="data rows, 40 rows"):
        gainful.export(model, tmp_path / "no", to="solr", check_on=X)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=9))
def test_swapped_gap_by_brute_force(pairs):
    reference, exported = np.array(pairs, dtype=float).T
    gaps = [
        reference[i] - reference[j]
        for i in range(len(pairs))
        for j in range(len(pairs))
        if reference[i] > reference[j] and exported[i] <= exported[j]
    ]
    assert swapped_gap(reference, exported) == max(gaps, default=0)


def test_comparisons_tell_what_differs():
    offsets = np.array([0, 2, 4])
    reference, tolerance = np.array([1.0, 2.0, 3.0, 4.0]), np.full(4, 1e-3)
    same = compare_scores(reference, reference, tolerance, offsets)
    assert same.good
    assert str(same) == "4 rows: largest difference 0, ranks equal"
    swapped = compare_scores(reference, np.array([1.0, 2.0, 4.0, 3.0]), tolerance, offsets)
    assert (swapped.good, swapped.swapped, swapped.swapped_gap, swapped.difference) == (False, 2, 1.0, 1.0)
    assert not compare_scores(reference, np.array([1.0, np.nan, 3.0, 4.0]), tolerance, offsets).good


# -- files and the command line ----------------------------------------------------------------------------------------


def test_requests_name_model_and_features(tmp_path):
    data = gainful.make_artificial(10, n_docs=8, n_features=3, seed=0).replace(feature_names=("bm25", "age", "links"))
    model = gainful.LambdaMART(**TREES).fit(data)
    done = gainful.export(model, tmp_path / "m.json", to="opensearch", name="shop", feature_set="movies")
    assert [file.name for file in done.files] == ["m.json", "m.request.json"]
    body = json.loads(done.files[1].read_text())["model"]
    assert body["name"] == "shop"
    assert json.loads(body["model"]["definition"]) == json.loads(done.files[0].read_text())
    assert any("POST _ltr/_featureset/movies/_createmodel" in note for note in done.notes)
    text = json.loads(
        gainful.export(model, tmp_path / "s.json", to="solr", name="shop", store="web").files[0].read_text()
    )
    assert (text["name"], text["store"]) == ("shop", "web")
    assert {feature["name"] for feature in text["features"]} <= {"bm25", "age", "links"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"to": "slor"}, "there is no export target 'slor'; did you mean 'solr'"),
        ({"to": "onnx", "format": "ranklib"}, "format of export is for elasticsearch and opensearch"),
        ({"to": "opensearch", "format": "xgbost"}, "did you mean 'xgboost'"),
        ({"to": "solr", "missing": "drop"}, "missing of export must be 'model' or 'zero', was 'drop'"),
        ({"to": "solr", "name": " "}, "name of export must be a name"),
        ({"to": "solr", "store": " "}, "store of export must be a name"),
        ({"to": "json", "store": "mine"}, "store of export is for solr; json has none"),
        ({"to": "solr", "feature_set": "mine"}, "feature_set of export is for elasticsearch and opensearch"),
    ],
)
def test_bad_settings_are_refused(grown, tmp_path, settings, message):
    with pytest.raises(GainfulError, match=message):
        gainful.export(grown[False], tmp_path / "no", **settings)


def test_data_to_check_on_have_the_columns_of_training(tmp_path):
    data = gainful.make_artificial(6, n_docs=8, n_features=3, seed=1).replace(feature_names=("a", "b", "c"))
    turned = data.replace(X=np.ascontiguousarray(data.X[:, ::-1]), feature_names=("c", "b", "a"))
    model = gainful.RegressionRanker().fit(data)
    gainful.export(model, tmp_path / "m", to="json", check_on=data)
    with pytest.raises(
        GainfulError, match="feature 1 of the data to check on is 'c', but RegressionRanker was trained"
    ):
        gainful.export(model, tmp_path / "m", to="json", check_on=turned)
    gainful.export(
        gainful.RegressionRanker().fit(data.X, data.y, qid=data.qid), tmp_path / "n", to="json", check_on=turned
    )


def test_a_missing_extra_is_named(grown, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(GainfulError, match=re.escape(install_command("export"))):
        gainful.export(grown[False], tmp_path / "no", to="onnx")


def test_command_line(grown, tmp_path, capsys):
    X, y, qid = awkward(missing=False)
    gainful.write(gainful.RankingData.from_rows(X, y, qid), tmp_path / "data.txt")
    gainful.save(grown[False], tmp_path / "m.gainful")
    arguments = [
        "export",
        str(tmp_path / "m.gainful"),
        "-o",
        str(tmp_path / "m.json"),
        "--check",
        str(tmp_path / "data.txt"),
    ]
    assert run([*arguments, "--to", "elasticsearch", "--feature-set", "movies"]) == 0
    told = capsys.readouterr()
    assert "largest difference" in told.out
    assert "_featureset/movies/_createmodel" in told.err
    assert run([*arguments, "--to", "solr", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["checks"]["data"]["n_rows"] == 800
    assert facts["largest_difference"] < 1e-5
    assert run([*arguments, "--to", "nowhere"]) == 2
    assert "there is no export target 'nowhere'" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:.*the grade itself:gainful.DataWarning")
def test_digits_that_float32_does_not_hold_are_reported(tmp_path):
    """Two values that only float64 tells apart: the model splits between them, no engine can."""
    X = np.where(np.arange(80) % 2, 1.0 + 1e-9, 1.0)[:, None]
    model = gainful.LambdaMART(n_trees=2, n_leaves=2, n_jobs=1).fit(X, np.arange(80) % 2, qid=np.repeat([1, 2], 40))
    assert len(np.unique(model.predict(X))) == 2
    done = gainful.export(model, tmp_path / "m", to="onnx", check_on=X)
    assert any(note.startswith("40 of 80 rows of the data score differently") for note in done.notes)
    with pytest.raises(GainfulError, match="data to check on has no rows"):
        gainful.export(model, tmp_path / "m", to="onnx", check_on=X[:0])


@pytest.mark.filterwarnings("ignore:.*the grade itself:gainful.DataWarning")
def test_ranks_are_also_compared_with_double_precision(tmp_path):
    """Float32 ties the rows: the export agrees with the model on float32, but not with predict on the file."""
    X = np.where(np.arange(40) % 2, 1.0 + 1e-9, 1.0)[:, None]
    model = gainful.LambdaMART(n_trees=2, n_leaves=2, n_jobs=1).fit(X, np.arange(40) % 2, qid=np.ones(40))
    done = gainful.export(model, tmp_path / "m", to="onnx", check_on=X)
    found = done.checks["data"]
    exact = np.argsort(-model.predict(X), kind="stable")
    assert (found.swapped, found.moved) == (0, (exact != np.arange(40)).sum())
    assert f"ranks equal with features in float32; {found.moved} rows at other ranks than with" in str(found)
    assert any("round features to float32 before training" in note for note in done.notes)
    rounded = gainful.export(model, tmp_path / "m", to="onnx", check_on=X.astype(np.float32)).checks["data"]
    assert rounded.moved == 0
    assert str(rounded).endswith("ranks equal")


@pytest.mark.parametrize("missing", [False, True])
def test_binned_trees_treat_missing_values_as_the_pipeline_does(missing, tmp_path, monkeypatch):
    X, y, qid = awkward(missing)
    binner = gainful.AdaptiveBinner(32).fit(X)
    model = make_pipeline(binner, gainful.LambdaMART(**TREES, bins="exact").fit(binner.transform(X), y, qid=qid))
    rows = awkward(missing=True, seed=7)[0].astype(np.float32).astype(np.float64)
    assert np.isnan(rows).any()
    expected = model.predict(rows)
    if not missing:
        assert np.array_equal(expected, model.predict(np.nan_to_num(rows)))
    text = gainful.export(model, tmp_path / "m.json", to="json", check_on=rows).files[0].read_text()
    assert np.allclose([plain_readers.plain(text, row) for row in rows[:80]], expected[:80], atol=1e-12)
    for to in ("onnx", "solr", "elasticsearch"):
        gainful.export(model, tmp_path / "m", to=to, check_on=rows)
    if not missing:
        gainful.export(model, tmp_path / "m", to="elasticsearch", format="ranklib", check_on=rows)

    def flip(tree, binner):
        return replace(unbin(tree, binner), nan_left=~unbin(tree, binner).nan_left)

    unbin = describe_module._unbin
    monkeypatch.setattr(describe_module, "_unbin", flip)
    with pytest.raises(ExportError, match=r"does not score as the model does .*made up rows"):
        gainful.export(model, tmp_path / "no", to="json")


def test_two_exports_never_share_a_request(grown, tmp_path):
    written = set()
    for name in ("v.1", "v.2", "v", "v.json", "v.txt", "v.1.json"):
        done = gainful.export(
            grown[False], tmp_path / name, to="opensearch", format="ranklib" if name == "v.2" else None
        )
        assert not written & set(done.files)
        written |= set(done.files)
        kind = json.loads(done.files[1].read_text())["model"]["model"]["type"]
        assert kind == ("model/ranklib" if name == "v.2" else "model/xgboost+json")
    assert tmp_path / "v.request.json" in written
    assert tmp_path / "v.1.request" in written


@pytest.mark.parametrize("sign", [1, -1])
def test_a_missing_intercept_is_worded_by_its_sign(sign, tmp_path):
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(40, 3)), np.repeat([1, 2], 20)
    y = np.clip(np.round(X[:, 0] + 1), 0, 3)
    model = gainful.RegressionRanker().fit(X - sign * 100, y, qid=qid)
    for to in ("solr", "elasticsearch"):
        done = gainful.export(model, tmp_path / "m", to=to)
        assert done.constant * sign > 0
        words = f"every score is {'lower' if sign > 0 else 'higher'} by {abs(done.constant):.6g} than the model's"
        assert any(note.startswith(words) for note in done.notes)


def test_a_refused_model_hears_every_format_that_takes_it(tmp_path):
    model = gainful.NeuralRanker(hidden=(2,), activation="relu")
    model.n_features_in_, model.shift_, model.scale_ = 2, np.zeros(2), np.ones(2)
    model.weights_ = [np.ones((2, 2)), np.ones(2), np.ones((2, 1)), np.ones(1)]
    with pytest.raises(ExportError, match='it is a net; use to="solr" or to="onnx" or to="json"'):
        gainful.export(model, tmp_path / "no", to="elasticsearch")
    model.activation = "silu"
    with pytest.raises(ExportError, match='it is a net; use to="onnx" or to="json"'):
        gainful.export(model, tmp_path / "no", to="elasticsearch")
