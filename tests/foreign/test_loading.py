"""``gainful.load`` of other makers' files: recognised by content, used like any ranker, refused in one line."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from small_models import LIBLINEAR, RANKLIB, SVM_RANK, catboost_model, lightgbm_model, xgboost_model

import gainful
from gainful import FormatError


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """One file of each kind; none has a suffix that tells."""
    home = tmp_path_factory.mktemp("models")
    lightgbm_model(home / "lightgbm")
    xgboost_model(home / "xgboost.json", names=["bm25", "title match", "clicks", "age"])
    (home / "xgboost.json").rename(home / "xgboost-json")
    xgboost_model(home / "m.ubj")
    (home / "m.ubj").rename(home / "xgboost-ubj")
    catboost_model(home / "catboost")
    (home / "ranklib").write_text(RANKLIB)
    (home / "svm-rank").write_text(SVM_RANK)
    (home / "liblinear").write_text(LIBLINEAR)
    (home / "weights-json").write_text('{"bm25": 0.5, "clicks": -1, "intercept": 2}')
    (home / "weights-csv").write_text('name,weight\n"bm25",0.5\nclicks,-1.0\n(Intercept),2\n')
    return home


KINDS = {
    "lightgbm": ("LightGBM", gainful.ImportedTrees),
    "xgboost-json": ("XGBoost", gainful.ImportedTrees),
    "xgboost-ubj": ("XGBoost", gainful.ImportedTrees),
    "catboost": ("CatBoost", gainful.ImportedTrees),
    "ranklib": ("RankLib", gainful.ImportedTrees),
    "svm-rank": ("SVM-light Version V6.20", gainful.ImportedLinear),
    "liblinear": ("LIBLINEAR", gainful.ImportedLinear),
    "weights-json": ("a list of weights", gainful.ImportedLinear),
    "weights-csv": ("a list of weights", gainful.ImportedLinear),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_recognised_by_its_content_and_becomes_a_ranker(kind, home, tmp_path):
    maker, cls = KINDS[kind]
    model = gainful.load(home / kind)
    assert isinstance(model, cls)
    assert model.maker.startswith(maker)
    X = np.random.default_rng(1).normal(size=(30, model.n_features_in_))
    X[::7, 0] = np.nan
    scores = model.predict(X)
    assert np.isfinite(scores).all()
    assert sorted(model.rank(X, qid=np.zeros(30))) == list(range(1, 31))
    np.testing.assert_allclose(model.contributions(X).sum(axis=1), scores, atol=1e-9)
    assert gainful.explain(model, X[:1])[0].score == scores[0]
    gainful.save(model, tmp_path / "m.gainful", metrics={"test": 0.5})
    again = gainful.load(tmp_path / "m.gainful")
    assert np.array_equal(again.predict(X), scores)
    np.testing.assert_array_equal(again.contributions(X), model.contributions(X))
    assert again.maker == model.maker
    info = gainful.model_info(home / kind)
    assert info["class"] == cls.__name__
    assert info["training"]["maker"] == gainful.model_info(tmp_path / "m.gainful")["training"]["maker"] == model.maker
    with pytest.raises(gainful.GainfulError, match=r"was trained by .* and gainful cannot train it"):
        model.fit(X, scores)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_refused_in_one_line_or_still_scores(kind, home, tmp_path):
    raw = (home / kind).read_bytes()
    rng = np.random.default_rng(0)
    path = tmp_path / "damaged"
    refused = []
    for _ in range(60):
        damaged = bytearray(raw)
        for _ in range(int(rng.integers(1, 4))):
            damaged[int(rng.integers(len(damaged)))] = int(rng.integers(256))
        cut = len(damaged) if rng.random() < 0.7 else int(rng.integers(1, len(damaged)))
        path.write_bytes(damaged[:cut])
        try:
            model = gainful.load(path)
            if model.n_features_in_ < 1000:
                model.predict(np.ones((2, model.n_features_in_)))
        except gainful.GainfulError as error:
            refused.append(str(error))
    assert len(refused) > 5
    assert not [text for text in refused if "\n" in text or len(text) > 1000]


# -- columns -----------------------------------------------------------------------------------------------------------


def test_named_features_are_found_by_name_in_any_order_among_others(home):
    model = gainful.load(home / "xgboost-json")
    names = ["bm25", "title match", "clicks", "age"]
    X = np.random.default_rng(0).normal(size=(12, 4))
    frame = pd.DataFrame(X, columns=names)
    wider = frame.assign(extra=np.nan)[["extra", "age", "title match", "clicks", "bm25"]]
    scores = model.predict(X)
    assert np.array_equal(model.predict(frame), scores)
    assert np.array_equal(model.predict(wider), scores)
    np.testing.assert_array_equal(model.contributions(wider), model.contributions(X))
    assert gainful.explain(model, wider)[3] == gainful.explain(model, frame)[3]
    done = gainful.export(model, home / "by-name.json", to="json", check_on=wider)
    assert done.checks["data"].swapped == 0
    with pytest.raises(gainful.DataError, match="X has no feature 'clicks', which the model from XGBoost"):
        model.predict(frame.drop(columns="clicks"))
    with pytest.raises(gainful.DataError, match=r"X has 5 features, but the model from XGBoost .* has 4"):
        model.predict(np.ones((2, 5)))


def test_makers_that_do_not_say_how_many_features_there_are_take_wider_rows(home):
    model = gainful.load(home / "ranklib")
    X = np.array([[-2.0, 9.0, 0.5, 7.0, 7.0], [0.0, 9.0, 0.25, 7.0, 7.0]])
    assert model.predict(X).tolist() == pytest.approx([0.8, -0.7])
    assert model.predict(X[:, :3]).tolist() == pytest.approx([0.8, -0.7])
    with pytest.raises(gainful.DataError, match="X has 2 features, but the model from RankLib has at least 3"):
        model.predict(X[:, :2])


def test_sparse_rows_score_as_dense_ones(home):
    from scipy import sparse

    X = np.random.default_rng(0).normal(size=(50, 4)) * (np.random.default_rng(1).random((50, 4)) < 0.5)
    for kind in ("xgboost-ubj", "catboost", "svm-rank"):
        model = gainful.load(home / kind)
        np.testing.assert_allclose(model.predict(sparse.csr_array(X)), model.predict(X), atol=1e-12)


def test_numbers_beyond_float32_are_refused(home):
    with pytest.raises(gainful.DataError, match=r"beyond 3\.4e38"):
        gainful.load(home / "catboost").predict(np.full((2, 4), 1e39))


# -- linear models -----------------------------------------------------------------------------------------------------


def test_linear_models(home):
    X = np.array([[1.0, 2.0, 3.0, 4.0], [np.nan, 1.0, 0.0, 0.0]])
    svm = gainful.load(home / "svm-rank")  # (0.25, -3, -2, 0), threshold 0.5
    assert svm.predict(X).tolist() == [0.25 - 6 - 6 - 0.5, -3 - 0.5]
    liblinear = gainful.load(home / "liblinear")  # its first label is the lower one
    assert liblinear.predict(X[:1]).tolist() == [-0.5 + 2 - 2]
    for kind in ("weights-json", "weights-csv"):
        weights = gainful.load(home / kind)
        assert list(weights.feature_names_in_) == ["bm25", "clicks"]
        assert weights.predict(pd.DataFrame({"clicks": [3.0], "bm25": [4.0]})).tolist() == [2 + 2 - 3]


@pytest.mark.parametrize(
    ("title", "line", "expected"),
    [
        ("Coordinate Ascent", "1:0.5 3:-2.0", 0.5 - 6),
        ("AdaRank", "2:0.5 2:0.25 1:1", 0.75 * 2 + 1),
        ("Linear Regression", "0:7 1:0.5 2:1", 7 + 0.5 + 2),
    ],
)
def test_linear_models_of_ranklib(title, line, expected, tmp_path):
    (tmp_path / "m").write_text(f"## {title}\n## Some = setting\n{line}")
    assert gainful.load(tmp_path / "m").predict([[1.0, 2.0, 3.0]]).tolist() == [expected]


# -- refusals ----------------------------------------------------------------------------------------------------------


def changed(home, tmp_path, kind, change):
    model = json.loads((home / kind).read_bytes())
    change(model)
    path = tmp_path / "changed"
    path.write_text(json.dumps(model))
    return path


def first_tree(model):
    return model["learner"]["gradient_booster"]["model"]["trees"][0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: first_tree(m)["left_children"].__setitem__(0, 0), "not neighbours"),
        (lambda m: first_tree(m)["left_children"].append(1), "right_children has"),
        (lambda m: first_tree(m)["split_indices"].__setitem__(0, 4), "splits a feature that is not there"),
        (lambda m: first_tree(m)["tree_param"].update(size_leaf_vector="3"), "leaves hold several values"),
        (lambda m: m["learner"]["objective"].update(name="reg:magic"), "objective 'reg:magic' is not one"),
        (lambda m: m["learner"]["learner_model_param"].update(num_target="2"), "several targets"),
        (lambda m: m["learner"]["learner_model_param"].update(base_score="nan"), "base_score is not a finite number"),
        (lambda m: m["learner"]["gradient_booster"].update(name="gbforest"), "it is a 'gbforest'"),
        (lambda m: m["learner"].update(feature_names=["a", "a", "b", "c"]), "two of its features have the same name"),
        (lambda m: m["learner"].pop("learner_model_param"), "it has no learner_model_param"),
    ],
)
def test_xgboost_models_that_are_refused(change, message, home, tmp_path):
    with pytest.raises(FormatError, match=message):
        gainful.load(changed(home, tmp_path, "xgboost-json", change))


def test_circles_of_nodes_are_refused(home, tmp_path):
    def circle(model):
        tree = first_tree(model)
        inner = [node for node, child in enumerate(tree["left_children"]) if child != -1]
        tree["left_children"][inner[1]], tree["right_children"][inner[1]] = 1, 2

    with pytest.raises(FormatError, match="do not make a tree"):
        gainful.load(changed(home, tmp_path, "xgboost-json", circle))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m["features_info"].update(categorical_features=[{}]), "categorical features, which only CatBoost"),
        (
            lambda m: m["oblivious_trees"][0]["splits"][0].update(split_type="OneHotFeature"),
            "splits by 'OneHotFeature'",
        ),
        (lambda m: m["oblivious_trees"][0]["leaf_values"].pop(), "leaf_values has"),
        (lambda m: m.update(scale_and_bias=[1]), "not a scale and a bias"),
        (lambda m: m.update(scale_and_bias=[1, [0, 0, 0]]), "leaf_values has|predicts 3 values"),
    ],
)
def test_catboost_models_that_are_refused(change, message, home, tmp_path):
    with pytest.raises(FormatError, match=message):
        gainful.load(changed(home, tmp_path, "catboost", change))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("## LambdaMART", "## RankNet", "RankNet.*form of its own; LambdaMART, MART"),
        ("<ensemble>", '<!DOCTYPE x [<!ENTITY a "b">]><ensemble>', "damaged|declares a document type"),
        ("<output> 3.0 </output>", "<output> nan </output>", "an output is not a finite number"),
        ("<output> 3.0 </output>", "<output> 1e39 </output>", "an output is beyond float32"),
        ("<output> 3.0 </output>", "", "a node is neither a split nor a leaf"),
        ('<split pos="left">', '<split pos="right">', "one side left and one right"),
        ("<feature> 3 </feature>", "<feature> 0 </feature>", "a feature is 0, not from 1"),
        ("<feature> 3 </feature>", "<colour> 3 </colour>", "element <colour>"),
        ("</ensemble>", "", "damaged"),
        ("</ensemble>", "</ensemble><ensemble></ensemble>", "2 ensembles instead of 1"),
    ],
)
def test_ranklib_models_that_are_refused(old, new, message, tmp_path):
    assert old in RANKLIB
    (tmp_path / "m").write_text(RANKLIB.replace(old, new))
    with pytest.raises(FormatError, match=message):
        gainful.load(tmp_path / "m")


def test_random_forests_of_ranklib_are_means_over_their_bags(tmp_path):
    text = RANKLIB.replace("## LambdaMART", "## Random Forests")
    ensemble = text[text.index("<ensemble>") :]
    (tmp_path / "m").write_text(text + "\n" + ensemble.replace("<output> 3.0", "<output> 5.0"))
    model = gainful.load(tmp_path / "m")
    assert model.predict([[-2.0, 9.0, 0.5]])[0] == pytest.approx(0.5 + 0.1 * (3 + 5) / 2)


def test_what_is_exported_in_the_form_of_ranklib_loads_again(tmp_path):
    data = gainful.make_artificial(30, n_docs=10, n_features=4, seed=1)
    X = data.X.astype(np.float32).astype(np.float64)
    model = gainful.LambdaMART(n_trees=8, n_leaves=7, n_jobs=1).fit(X, data.y, qid=data.qid)
    gainful.export(model, tmp_path / "m.txt", to="opensearch", format="ranklib")
    X[::5, 1] = np.nan  # is 0 in RankLib, and in a model trained without
    np.testing.assert_allclose(gainful.load(tmp_path / "m.txt").predict(X), model.predict(X), atol=1e-6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"CBM1....", r"CatBoost's own binary form; save it as JSON"),
        (b"binf....", "XGBoost's old binary form"),
        (pickle.dumps({"a": 1}), "a pickle, which executes what it holds"),
        (b'[{"nodeid": 0}]', "XGBoost's dump, save the model instead"),
        (b'{"tree_info": []}', "LightGBM's dump"),
        (b'{"a": "b"}', "not a model of LightGBM"),
        (b'{"a": 1, "a": 2}', "the same name twice"),
        (b'{"a": true}', "a weight is not a number"),
        (b"a,1\na,2\n", "the name 'a' twice"),
        (b"a,1\nb\n", "line 2 is not a name and a weight"),
        (b"bias,1\n", "no weights of features"),
        (b"[" * 100_000, "damaged"),
        (b"tree\nversion=v4\n", "cut short"),
        (b"solver_type L2R_LR\nnr_class 3\nnr_feature 1\nw\n1\n", "'3' classes by 'L2R_LR'"),
        (SVM_RANK.replace("0 # kernel", "2 # kernel").encode(), "only the linear kernel"),
        (SVM_RANK.replace("3 # kernel", "cubic # kernel").encode(), "parameter -d is not a number"),
        (b"## Coordinate Ascent\n1:0.5 3:-2.0\n2:1.0\n", "'2:1.0' after its weights"),
        (SVM_RANK.replace("-2 2:1.5 #\n", "").encode(), "1 support vectors, and says that it has 2"),
        (LIBLINEAR.replace("label -1 1", "label 1 1").encode(), "it does not name two labels that differ"),
        (LIBLINEAR.replace("bias 1", "bias 1e300").replace("\n2\n", "\n1e300\n").encode(), "its weights are too large"),
        (b"anything else", "not a readable gainful model file"),
    ],
)
def test_other_content_is_refused_in_one_line(content, message, tmp_path):
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(FormatError, match=message) as caught:
        gainful.load(tmp_path / "m")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("word", ["1_0", "٣"])
@pytest.mark.parametrize(
    ("text", "number", "place"),
    [
        (RANKLIB, "> 0.25 <", "> {} <"),
        (RANKLIB, "> -2.0 <", "> {} <"),
        (RANKLIB, '"0.5"', '"{}"'),
        (SVM_RANK, "0.5 #", "{} #"),
        (SVM_RANK, "1:0.25", "1:{}"),
        (LIBLINEAR, "\n0.5\n", "\n{}\n"),
        ("name,weight\nbm25,7\n", ",7", ",{}"),
    ],
)
def test_numbers_that_only_python_reads_are_refused(text, number, place, word, tmp_path):
    assert text.count(number) == 1
    (tmp_path / "m").write_text(text.replace(number, place.format(word)), encoding="utf-8")
    with pytest.raises(FormatError, match="is not a number"):
        gainful.load(tmp_path / "m")


def test_lightgbm_text_is_checked_before_lightgbm_reads_it(home, tmp_path):
    text = (home / "lightgbm").read_text()
    (tmp_path / "m").write_text(text.replace("left_child=", "left_child=9", 1))
    with pytest.raises(FormatError, match=r"this LightGBM model cannot be read: tree 0 does not stand"):
        gainful.load(tmp_path / "m")
    (tmp_path / "m").write_text(text.replace("objective=lambdarank", "objective=multiclassova num_class:1 sigmoid:1"))
    with pytest.raises(FormatError, match="multiclassova has one model per class"):
        gainful.load(tmp_path / "m")
    (tmp_path / "m").write_text(text.replace("\n", "\r\n"))
    X = np.zeros((1, 4))
    assert gainful.load(tmp_path / "m").predict(X) == gainful.load(home / "lightgbm").predict(X)


def test_the_limits_of_size_and_memory_hold(home, monkeypatch):
    with pytest.raises(FormatError, match=r"more than the 1,000 allowed; pass max_bytes="):
        gainful.load(home / "catboost", max_bytes=1000)
    with pytest.raises(gainful.ParameterError, match="max_bytes of load must be a number of bytes"):
        gainful.load(home / "catboost", max_bytes=-1)
    monkeypatch.setenv("GAINFUL_MEMORY_LIMIT", "4kB")
    with pytest.raises(FormatError, match="the model would take"):
        gainful.load(home / "catboost")
