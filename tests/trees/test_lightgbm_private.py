"""A LightGBM that lacks a private name is named, with what to install."""

from __future__ import annotations

import lightgbm.basic
import pytest

import gainful
from gainful.errors import GainfulError
from gainful.trees import lightgbm_private


@pytest.fixture
def data():
    return gainful.make_artificial(20, n_docs=10, n_features=4)


MESSAGE = r"^LightGBM [\d.]+ has no lightgbm\.basic\.{name}.*, which gainful needs; .*: pip install 'lightgbm[<>=]"


def test_the_list_of_parameters(data, monkeypatch):
    monkeypatch.delattr(lightgbm.basic, "_ConfigAliases")
    with pytest.raises(GainfulError, match=MESSAGE.format(name="_ConfigAliases")):
        gainful.LambdaMART(n_trees=2).fit(data)


@pytest.mark.parametrize("name", ["_InnerPredictor.from_booster", "Dataset._set_predictor"])
def test_the_start_from_other_trees(data, monkeypatch, name):
    booster = gainful.LambdaMART(n_trees=2).fit(data).booster_
    owner, attribute = name.split(".")
    monkeypatch.delattr(getattr(lightgbm.basic, owner), attribute)
    with pytest.raises(GainfulError, match=MESSAGE.format(name=name)):
        lightgbm_private.set_start(booster)


def test_what_only_saves_threads_may_be_missing(data, monkeypatch):
    monkeypatch.setattr("gainful.trees.lightgbm_library.native", None)
    assert gainful.LambdaMART(n_trees=2).fit(data).n_iter_ == 2


def test_the_versions_to_install_are_the_declared_ones(monkeypatch):
    monkeypatch.setattr("importlib.metadata.requires", lambda name: ["numpy>=2.0", "lightgbm<9,>=8"])
    assert lightgbm_private._supported() == "lightgbm<9,>=8"
