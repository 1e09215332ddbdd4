"""A maker's file is read whole: unknown members are refused by name, those without meaning change no score."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from small_models import LIBLINEAR, SVM_RANK, catboost_model, xgboost_model

import gainful
from fuzz import members
from fuzz.cases import Input
from gainful.foreign.members import TRIED

pytest.importorskip("xgboost")
pytest.importorskip("catboost")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return cache(lambda maker: members.prepare(maker, tmp_path_factory.mktemp(maker)))


@pytest.mark.parametrize("maker", members.CHANGES)
def test_members_added_at_random_are_refused_by_name_or_change_no_score(maker, prepared, tmp_path):
    outcomes = {"refused": 0, "accepted": 0}
    rng = np.random.default_rng(0)
    for _ in range(60):
        case = members.make(maker, rng, prepared(maker), False)
        assert isinstance(case, Input)
        (tmp_path / "m").write_bytes(case.content)
        try:
            members.use(tmp_path / "m", case.options)
            outcomes["accepted"] += 1
        except gainful.FormatError:
            outcomes["refused"] += 1
    assert outcomes["refused"] >= 10
    assert outcomes["accepted"] >= (0 if maker == "liblinear" else 10)


def as_gbtree(model):
    """A dart model in the form of XGBoost 3.4."""
    dart = model["learner"]["gradient_booster"]
    inner = {**dart["gbtree"]["model"], "weight_drop": dart["weight_drop"]} if dart["name"] == "dart" else dart["model"]
    return {**model, "learner": {**model["learner"], "gradient_booster": {"name": "gbtree", "model": inner}}}


@pytest.mark.parametrize("parallel", [1, 2])
def test_dropped_trees_are_weighted_in_both_forms_of_dart(parallel, tmp_path):
    params = {"booster": "dart", "rate_drop": 0.8, "one_drop": 1, "num_parallel_tree": parallel}
    booster, data, X = xgboost_model(tmp_path / "m.json", objective="reg:squarederror", **params)
    model = json.loads((tmp_path / "m.json").read_bytes())
    expected = booster.predict(data, output_margin=True)
    np.testing.assert_allclose(gainful.load(tmp_path / "m.json").predict(X), expected, atol=1e-5)
    (tmp_path / "gbtree.json").write_text(json.dumps(as_gbtree(model)))
    np.testing.assert_allclose(gainful.load(tmp_path / "gbtree.json").predict(X), expected, atol=1e-5)
    weights = as_gbtree(model)["learner"]["gradient_booster"]["model"]["weight_drop"]
    assert min(weights) < 0.9  # otherwise this test says nothing


def test_dropout_without_dart_scores_as_xgboost(tmp_path):
    booster, data, X = xgboost_model(tmp_path / "m.ubj", objective="reg:squarederror", rate_drop=0.8, one_drop=1)
    np.testing.assert_allclose(gainful.load(tmp_path / "m.ubj").predict(X), booster.predict(data), atol=1e-5)


def newer_xgboost(tmp_path):
    xgboost_model(tmp_path / "m.json")
    model = json.loads((tmp_path / "m.json").read_bytes())
    (tmp_path / "m").write_text(json.dumps(model | {"version": [99, 1, 0]}))
    return "written by XGBoost 99.1.0, newer than "


def newer_catboost(tmp_path):
    catboost_model(tmp_path / "m.json")
    text = (tmp_path / "m.json").read_text()
    (tmp_path / "m").write_text(text.replace("tags/v1.", "tags/v99."))
    return "written by CatBoost 99."


def newer_svm(tmp_path):
    (tmp_path / "m").write_text(SVM_RANK.replace("V6.20", "V7.0"))
    return "written by SVM-light V7.0, newer than "


@pytest.mark.parametrize("make", [newer_xgboost, newer_catboost, newer_svm])
def test_a_version_newer_than_those_tried_is_named_in_a_note(make, tmp_path):
    note = make(tmp_path)
    assert any(found.startswith(note) for found in gainful.load(tmp_path / "m").training_["notes"])


def test_versions_that_were_tried_get_no_note(tmp_path):
    xgboost_model(tmp_path / "m.json")
    catboost_model(tmp_path / "c.json")
    (tmp_path / "svm").write_text(SVM_RANK)
    for name in ("m.json", "c.json", "svm"):
        notes = gainful.load(tmp_path / name).training_.get("notes")
        assert notes is None, f"try the new version (benchmarks/foreign_models.py), then raise TRIED: {notes}"


def test_the_page_names_the_newest_versions_that_were_tried():
    rows = (Path(__file__).parents[2] / "docs/foreign-models.md").read_text().splitlines()
    for maker, version in TRIED.items():
        assert any(row.startswith(f"| {maker}") and f"| {version}" in row for row in rows)


def set_split(model, **values):
    model["oblivious_trees"][0]["splits"][0].update(values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: set_split(m, border=99.0), "another border than its split_index says"),
        (lambda m: set_split(m, split_index=10**6), "split_index is 1,000,000, not from 0"),
        (lambda m: m.update(trees=[]), "does not know 'trees' in the model"),
        (lambda m: m.update(ctr_data={"a": 1}), "ctr_data in the model is not empty, all that"),
        (lambda m: m["features_info"]["float_features"][0].update(scale=2), "'scale' in features_info.float_features"),
    ],
)
def test_catboost_files_that_say_two_things_are_refused(change, message, tmp_path):
    catboost_model(tmp_path / "m.json")
    model = json.loads((tmp_path / "m.json").read_bytes())
    change(model)
    (tmp_path / "m.json").write_text(json.dumps(model))
    with pytest.raises(gainful.FormatError, match=message):
        gainful.load(tmp_path / "m.json")


@pytest.mark.parametrize("policy", ["SymmetricTree", "Depthwise"])
def test_missing_values_of_catboost_go_right_only_where_training_had_some(policy, tmp_path):
    import catboost

    _, X = catboost_model(tmp_path / "m.json", loss_function="RMSE", nan_mode="Max", grow_policy=policy)
    model = json.loads((tmp_path / "m.json").read_bytes())
    for feature in model["features_info"]["float_features"][1:]:
        feature["has_nans"] = False
    (tmp_path / "m.json").write_text(json.dumps(model))
    again = catboost.CatBoost().load_model(str(tmp_path / "m.json"), format="json")
    np.testing.assert_allclose(gainful.load(tmp_path / "m.json").predict(X), again.predict(X), atol=1e-12)


def test_a_line_of_liblinear_may_not_be_there_twice(tmp_path):
    (tmp_path / "m").write_text(LIBLINEAR.replace("bias 1", "bias 1\nbias -1"))
    with pytest.raises(gainful.FormatError, match="the same name twice"):
        gainful.load(tmp_path / "m")
