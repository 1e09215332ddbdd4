"""Blends in engines: trees as one ensemble, linear ones as one model, any to ONNX and JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gainful
from gainful import Blend
from gainful.errors import ExportError
from gainful.exports.describe import Mixture, describe
from gainful.rankers.ensembles import Ensemble
from gainful.rankers.scorers import Linear

SMALL = "n_trees=6:n_leaves=5:min_docs_in_leaf=3:n_jobs=1"


def blend(members, parts):
    return Blend(members, folds=3, n_jobs=1, weights="uniform").fit(parts[0])


@pytest.fixture(scope="module")
def trees(parts):
    return blend([f"lambdamart:{SMALL}", f"tree-regression:{SMALL}", "rankboost:n_rounds=5"], parts)


@pytest.fixture(scope="module")
def mixed(parts):
    return blend(["regression", f"lambdamart:{SMALL}", f"mcrank:{SMALL}"], parts)


@pytest.mark.parametrize("to", ["elasticsearch", "opensearch", "solr", "onnx", "json"])
def test_trees_are_one_ensemble_anywhere(trees, parts, tmp_path, to):
    assert isinstance(describe(trees).form, Ensemble)
    exported = gainful.export(trees, tmp_path / "model", to=to, check_on=parts[2])
    assert exported.checks["data"].good


@pytest.mark.parametrize("to", ["elasticsearch", "opensearch", "solr", "onnx", "json"])
def test_linear_ones_are_one_linear_model(parts, tmp_path, to):
    linear = blend(["regression", "listnet:max_iter=10"], parts)
    assert isinstance(describe(linear).form, Linear)
    assert gainful.export(linear, tmp_path / "model", to=to, check_on=parts[2]).checks["data"].good


@pytest.mark.parametrize("to", ["onnx", "json"])
def test_any_blend_goes_to_onnx_and_json(mixed, parts, tmp_path, to):
    assert isinstance(describe(mixed).form, Mixture)
    exported = gainful.export(mixed, tmp_path / "model", to=to, check_on=parts[2])
    assert exported.checks["data"].good
    if to == "json":
        assert json.loads((tmp_path / "model").read_text())["kind"] == "sum"


@pytest.mark.parametrize("to", ["elasticsearch", "opensearch", "solr"])
def test_engines_refuse_a_mixture_and_name_the_way_out(mixed, tmp_path, to):
    with pytest.raises(ExportError, match=r"a sum of models of different kinds; use .*onnx.*distill"):
        gainful.export(mixed, tmp_path / "model", to=to)
    assert not list(tmp_path.iterdir())


def test_missing_values_go_where_the_trees_send_them(parts, tmp_path):
    X = parts[0].X.copy()
    X[::3, 1] = np.nan
    members = [f"lambdamart:{SMALL}", f"mcrank:{SMALL}"]
    model = Blend(members, folds=3, n_jobs=1, weights="uniform").fit(X, parts[0].y, qid=parts[0].qid)
    assert model.accepts_missing
    for to in ("onnx", "json"):
        assert gainful.export(model, tmp_path / to, to=to).checks["made up"].good
