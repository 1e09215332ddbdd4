"""Damaged and hostile model files, and texts of LightGBM's that would make it crash: refused in one line."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest

import gainful
from gainful import FormatError, GainfulError
from gainful.persistence.container import LONGEST_MANIFEST, MANIFEST
from gainful.trees.booster_text import DEEPEST, TEXT_SETTINGS, BadBoosterText, check_booster_text
from gainful.trees.grow import contributions_of_rows

# -- LightGBM's text ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def text():
    """Trees with numbers, categories and three leaves or more."""
    data = gainful.make_artificial(20, n_docs=10, n_features=3, seed=1)
    X = data.X.copy()
    X[:, 1] = np.random.default_rng(0).integers(0, 40, len(X))
    settings = {"cat_smooth": 1, "min_data_per_group": 1, "max_cat_to_onehot": 1}
    model = gainful.LambdaMART(
        n_trees=2, n_leaves=5, min_docs_in_leaf=3, n_jobs=1, categorical=[1], engine_params=settings
    )
    text = model.fit(X, 2.0 * (X[:, 1] % 3 == 0), qid=data.qid).booster_.model_to_string()
    assert check_booster_text(text, 3) == 2
    assert re.search(r"^Tree=0\nnum_leaves=5\nnum_cat=[1-9]", text, re.MULTILINE)
    return text


def changed(text: str, pattern: str, new: str, *, sizes: bool = True) -> str:
    """The first match of a pattern replaced, and the sizes of the trees set right."""
    assert re.search(pattern, text, re.MULTILINE)
    text = re.sub(pattern, new, text, count=1, flags=re.MULTILINE)
    trees = ["Tree=" + part for part in text.partition("\n\n")[2].partition("end of trees")[0].split("Tree=")[1:]]
    counts = " ".join(str(len(tree.encode())) for tree in trees)
    return re.sub(r"tree_sizes=.*", f"tree_sizes={counts}", text) if sizes else text


@pytest.mark.parametrize(
    ("pattern", "new", "message"),
    [
        (r"^tree\n", "forest\n", "does not begin"),
        (r"^version=v4", "version=v9", "the unknown version 'v9'"),
        (r"^num_class=1", "num_class=2", "classes disagree"),
        (r"^num_tree_per_iteration=1", "num_tree_per_iteration=0", "not a number from 1"),
        (r"^max_feature_idx=2", "max_feature_idx=3", "another number of features"),
        (r"^feature_names=\S+ ", "feature_names=", "do not fit their number"),
        (r"^feature_names=Column", "feature_names=\0olumn", "do not fit their number"),
        (r"^feature_infos=\S+", "feature_infos=[x", "do not fit their number"),
        (r"^objective=.*", "objective=multiclass num_class:1000000", "classes disagree"),
        (r"^objective=.*", "objective=a\tb", "its objective is not readable"),
        (r"^label_index=0\n", "", "has no line 'label_index'"),
        (r"^num_cat=\d+", "num_cat=0", "has some"),
        (r"^num_leaves=\d+", "num_leaves=999999999", "num_leaves is not a number"),
        (r"^num_leaves=\d+", "num_leaves=4", "values instead of"),
        (r"^split_feature=\d+", "split_feature=3", "splits a feature that is not there"),
        (r"^split_feature=\d+", "split_feature=-1", "splits a feature that is not there"),
        (r"^left_child=-?\d+", "left_child=0", "do not make a tree"),
        (r"^left_child=-?\d+", "left_child=77", "do not make a tree"),
        (r"^right_child=-?\d+", "right_child=-99", "do not make a tree"),
        (r"^decision_type=\d+", "decision_type=64", "unknown kind of split"),
        (r"^leaf_value=\S+", "leaf_value=1e999", "infinite"),
        (r"^leaf_value=\S+", "leaf_value=nan", "numbers of its kind"),
        (r"^leaf_value=\S+ ", "leaf_value=", "values instead of"),
        (r"^threshold=\S+", "threshold=nan", "numbers of its kind"),
        (r"^threshold=\S+", "threshold=-inf", "numbers of its kind"),
        (r"^threshold=\S+", "threshold=inf", "categories that are not there"),
        (r"^cat_boundaries=0 \d+", "cat_boundaries=0 4000", "do not fit together"),
        (r"^cat_threshold=", "cat_threshold=1 ", "do not fit together"),
        (r"^is_linear=0", "is_linear=1", "leaf_const has 0 values"),
        (r"^is_linear=0", "is_linear=2", "whether its leaves are constants"),
        (r"^shrinkage=", "shrinkage=1\nshrinkage=", "unknown, or there twice"),
        (r"^Tree=1$", "Tree=7", "does not stand where"),
        (r"^feature_importances:", "else:", "importances"),
        (r"^\[boosting: gbdt\]", "boosting", "parameters are not readable"),
        (r"^\[path_smooth: 0\]", "[path_smooth: ١٢]", "parameters are not readable"),
        (r"^\[path_smooth: 0\]", "[path_smooth: e5]", "parameters are not readable"),
        (r"^\[label_gain: .*\]", "[label_gain: 1,,2]", "parameters are not readable"),
        (r"^\[linear_tree: 0\]", "[linear_tree: 1 1]", "parameters are not readable"),
        (r"^\[linear_tree: 0\]", "[linear_tree: 01]", "parameters are not readable"),
        (r"^pandas_categorical:null", "pandas_categorical:[[1]]", "something follows"),
    ],
)
def test_texts_that_lightgbm_did_not_write_are_refused(text, pattern, new, message):
    with pytest.raises(BadBoosterText, match=message):
        check_booster_text(changed(text, pattern, new), 3)


def test_parameters_of_text_are_known(text):
    """A version of LightGBM with another parameter of text would write models that are refused."""
    read = lgb.Booster(model_str=text).params
    texts = {name for name, value in read.items() if isinstance(value[0] if isinstance(value, list) else value, str)}
    assert texts
    for name in texts:
        assert re.fullmatch(TEXT_SETTINGS, name.encode()), name


def test_linear_leaves_and_parameters_must_agree():
    X = np.random.default_rng(0).normal(size=(100, 3))
    booster = lgb.train({"linear_tree": True, "verbosity": -1, "num_threads": 1}, lgb.Dataset(X, X.sum(axis=1)), 2)
    text = booster.model_to_string()
    assert check_booster_text(text, 3) == 2
    with pytest.raises(BadBoosterText, match="linear models"):
        check_booster_text(text.replace("[linear_tree: 1]", "[linear_tree: 0]"), 3)
    with pytest.raises(GainfulError, match="have no contributions"):
        contributions_of_rows(lgb.Booster(model_str=text.replace("is_linear=1", "is_linear=0")), X, 2)


@pytest.mark.parametrize("sizes", ["1", "5 5", "999999999 1", "0 0", "-1 2", "x"])
def test_sizes_of_trees_must_be_those_of_the_trees(text, sizes):
    with pytest.raises(BadBoosterText):
        check_booster_text(changed(text, r"^tree_sizes=.*", f"tree_sizes={sizes}", sizes=False), 3)


def test_a_split_may_separate_numbers_from_missing_values(tmp_path):
    """LightGBM writes the threshold ``inf``: all numbers go left, missing values right."""
    data = gainful.make_artificial(20, n_docs=10, n_features=2, seed=1)
    X, y = data.X.copy(), (data.X[:, 0] > 0.5).astype(float)
    X[:, 0] = np.where(y > 0, np.nan, X[:, 0])
    model = gainful.LambdaMART(n_trees=2, n_leaves=3, min_docs_in_leaf=3, n_jobs=1).fit(X, y, qid=data.qid)
    assert "threshold=inf" in model.booster_.model_to_string()
    gainful.save(model, tmp_path / "model")
    assert np.array_equal(gainful.load(tmp_path / "model").predict(X), model.predict(X))


def chain(depth: int) -> str:
    """One tree that is a chain of nodes, as LightGBM would write it."""
    n = depth + 1
    nodes, leaves = " ".join(["0"] * depth), " ".join(["1"] * n)
    left, right = " ".join(str(~i) for i in range(depth)), " ".join([str(i) for i in range(1, depth)] + [str(~depth)])
    tree = (
        f"Tree=0\nnum_leaves={n}\nnum_cat=0\nsplit_feature={nodes}\nsplit_gain={nodes}\nthreshold={nodes}\n"
        f"decision_type={nodes}\nleft_child={left}\nright_child={right}\nleaf_value={leaves}\nleaf_weight={leaves}\n"
        f"leaf_count={leaves}\ninternal_value={nodes}\ninternal_weight={nodes}\ninternal_count={nodes}\nis_linear=0\n"
        "shrinkage=1\n\n\n"
    )
    head = (
        "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\nmax_feature_idx=0\n"
        f"feature_names=Column_0\nfeature_infos=none\ntree_sizes={len(tree)}\n\n"
    )
    return head + tree + "end of trees\n\nfeature_importances:\n\nparameters:\n[a: 1]\n\nend of parameters\n"


def test_trees_may_be_deep_but_not_bottomless():
    assert check_booster_text(chain(DEEPEST), 1) == 1
    with pytest.raises(BadBoosterText, match="tree 0 is deeper than"):
        check_booster_text(chain(DEEPEST + 1), 1)


# -- archives ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def members(parts, tmp_path):
    gainful.save(gainful.RegressionRanker().fit(parts[0]), tmp_path / "whole.gainful")
    with zipfile.ZipFile(tmp_path / "whole.gainful") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def refusal(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED, **options) -> str:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(FormatError) as caught:
        gainful.load(path, **options)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def test_what_unpacks_to_too_much_is_refused_before_it_is_unpacked(members, tmp_path, monkeypatch):
    path = tmp_path / "bomb.gainful"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (members | {"zeros.npy": bytes(5 << 20)}).items():
            archive.writestr(name, content)
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("something was unpacked"))
    with pytest.raises(FormatError, match="bytes, more than the 4,000,000 allowed; pass max_bytes="):
        gainful.load(path, max_bytes=4_000_000)


def test_manifests_may_be_neither_deep_nor_long(members, tmp_path):
    head = b'{"format": "gainful-model", "version": 1, "x": '
    for inside in (b"[" * 100_000 + b"]" * 100_000, b"9" * 10_000, b"NaN", b'"\xff"'):
        assert "not a readable" in refusal(tmp_path / "m", members | {MANIFEST: head + inside + b"}"})
    crowd = b"[" + b"{}," * 2_000_000 + b"{}]"
    assert "too long" in refusal(tmp_path / "m", members | {MANIFEST: head + crowd + b"}"})
    assert "too long" in refusal(tmp_path / "m", members | {MANIFEST: b" " * (LONGEST_MANIFEST + 1)})


def test_strange_archives_are_refused(members, tmp_path):
    path = tmp_path / "m"
    assert "it contains '../x'" in refusal(path, members | {"../x": b""})
    assert "has no checksum" in refusal(path, members | {"more.npy": b""})
    assert "has an unknown compression" in refusal(path, members, zipfile.ZIP_LZMA)
    assert "directory is too long" in refusal(path, members | {f"m{i}.npy": b"" for i in range(5000)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(MANIFEST, members[MANIFEST])
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr(MANIFEST, members[MANIFEST])
    with pytest.raises(FormatError, match="appears twice"):
        gainful.load(path)
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(FormatError, match="not a zip file, or cut short"):
        gainful.load(path)


@pytest.mark.parametrize("header", ["'|O'", "'<U9'", "[('a', '<f8')]", "'<f8', 'x': 1", "'>f8'"])
def test_only_arrays_of_numbers_are_read(members, tmp_path, header):
    text = f"{{'descr': {header}, 'fortran_order': False, 'shape': (12,), }}\n".encode()
    members["coef.npy"] = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(96)
    manifest = json.loads(members[MANIFEST])
    manifest["sha256"]["coef.npy"] = hashlib.sha256(members["coef.npy"]).hexdigest()
    members[MANIFEST] = json.dumps(manifest).encode()
    assert "coef.npy is not an array of numbers" in refusal(tmp_path / "m", members)
