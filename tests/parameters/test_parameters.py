"""Constraints: what they accept, how they say it, how they read the command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import metadata
from types import SimpleNamespace

import numpy as np
import pytest

import gainful
from gainful.errors import ParameterError, UnknownNameError, install_command
from gainful.parameters.constraints import (
    Choice,
    Flag,
    Integer,
    Maybe,
    MetricSpec,
    Real,
    Seed,
    Settings,
    check_parameters,
    parse_setting,
)


@pytest.mark.parametrize(
    ("constraint", "good", "bad"),
    [
        (Real(low=0), [0, 1.5, np.float32(2)], [-1, "1", None, True, float("nan"), float("inf")]),
        (Real(low=0, high=1, open_low=True), [1, 0.5], [0, 1.01]),
        (Integer(low=1), [1, np.int64(4)], [0, 1.0, "1", True]),
        (Flag(), [True, np.bool_(False)], [1, "yes", None]),
        (Choice(of=("a", "b")), ["a"], ["c", 1, None]),
        (Maybe(inner=Integer(low=1)), [None, 3], [0]),
        (MetricSpec(), ["ndcg@10", "map"], ["ndgc", 3, "ndcg@0"]),
        (Settings(), [{}, {"a": 1}], [[1], {1: 2}]),
        (Seed(), [0, 7, np.random.RandomState(0)], [-1, 1.5, "x", 2**32]),
    ],
)
def test_accepts(constraint, good, bad):
    assert all(constraint.accepts(value) for value in good)
    assert not any(constraint.accepts(value) for value in bad)
    assert constraint.expected()


def test_one_template_for_all():
    with pytest.raises(ParameterError, match=r"^C of RankMM must be a number > 0, was -1$"):
        check_parameters("RankMM", {"C": Real(low=0, open_low=True)}, {"C": -1})


@pytest.mark.parametrize(
    ("constraint", "text", "value"),
    [
        (Real(), "1e3", 1000.0),
        (Integer(), "12", 12),
        (Flag(), "True", True),
        (Flag(), "no", False),
        (Choice(of=("gain",)), "gain", "gain"),
        (Maybe(inner=Integer()), "none", None),
        (Maybe(inner=Integer()), "4", 4),
        (Settings(), '{"max_depth": 3}', {"max_depth": 3}),
        (Seed(), "5", 5),
        (MetricSpec(), "map", "map"),
    ],
)
def test_settings_are_read_from_text(constraint, text, value):
    assert parse_setting("x", {"p": constraint}, f"p={text}") == ("p", value)


@pytest.mark.parametrize(
    ("setting", "error", "message"),
    [
        ("p=abc", ParameterError, "p of x must be a number ≥ 0, was 'abc'"),
        ("p=-3", ParameterError, "p of x must be a number ≥ 0, was -3.0"),
        ("q=1", UnknownNameError, "x has no parameter 'q'"),
        ("p", ParameterError, "NAME=VALUE"),
    ],
)
def test_bad_settings_are_refused(setting, error, message):
    with pytest.raises(error, match=message):
        parse_setting("x", {"p": Real(low=0)}, setting)


def test_unknown_names_get_the_nearest():
    assert str(UnknownNameError.among("ranker", "lamdamart", ["regression", "lambdamart"])) == (
        "there is no ranker 'lamdamart'; did you mean 'lambdamart'?"
    )
    assert "choose from a, b" in str(UnknownNameError.among("ranker", "zzz", ["a", "b"]))


@pytest.mark.parametrize(
    ("name", "found"),
    [("lambdaMART", "lambdamart"), ("Structured_SVM", "structured-svm"), ("mc rank", "mcrank"), ("RankSVN", "ranksvm")],
)
def test_capitals_dashes_and_underscores_do_not_count(name, found):
    with pytest.raises(UnknownNameError, match=f"did you mean '{found}'"):
        gainful.ranker(name)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("n_estimators", "it is called 'n_trees' here"),
        ("min_child_samples", "it is called 'min_docs_in_leaf' here"),
        ("max_depth", "engine_params={'max_depth': …} passes it to LightGBM"),
        ("gamma", "engine_params={'min_gain_to_split': …} passes it to LightGBM"),
        ("eval_at", "eval_metric='ndcg@10' names the metric and where it ends"),
        ("num_leaves", "it is called 'n_leaves' here"),
        ("eta", "it is called 'learning_rate' here"),
        ("lambda_l2", "it is called 'l2' here"),
        ("lambdarank_truncation_level", "it is called 'truncation' here"),
        ("cat_features", "it is called 'categorical' here"),
    ],
)
def test_names_of_other_libraries_are_translated(name, told):
    for call in (gainful.LambdaMART, lambda **given: gainful.ranker("lambdamart", **given)):
        with pytest.raises(gainful.ParameterError, match=re.escape(told)):
            call(**{name: 10})
    with pytest.raises(gainful.ParameterError, match=re.escape(told)):
        parse_setting("lambdamart", gainful.LambdaMART.parameters, f"{name}=10")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("group", "give it to fit: fit(…, group=…)"),
        ("eval_set", "give it to fit: fit(…, eval_set=…)"),
        ("eval_group", "in fit, eval_set=(X, y, group) takes the group sizes"),
        ("callbacks", "in fit, progress takes one function"),
        ("verbose", "in fit, progress=True shows a bar"),
        ("init_score", "give it to fit: fit(…, init_score=…)"),
        ("init_model", "warm_start=True continues training from a model"),
        ("depth", "engine_params={'max_depth': …} passes it to LightGBM"),
        ("objective", "each ranker has its own: lambdamart is lambdarank, boosted takes loss=…"),
        ("loss", "boosted takes loss=…, such as 'lambda(metric=map)'"),
    ],
)
def test_parameters_that_are_keywords_of_fit(name, told):
    with pytest.raises(TypeError, match=f"^LambdaMART has no parameter '{name}'; ") as raised:
        gainful.LambdaMART(**{name: 1})
    assert told in str(raised.value)


@pytest.mark.parametrize(
    ("keyword", "told"),
    [
        ("groups", "it is called 'qid' here"),
        ("init_model", "warm_start=True continues training from a model"),
        ("base_margin", "it is called 'init_score' here"),
        ("callbacks", "progress takes one function"),
        ("eval_group", "eval_set=(X, y, group) takes the group sizes"),
        ("sample_weights", "did you mean 'sample_weight'|it is called 'sample_weight' here"),
        ("early_stopping_rounds", "set early_stopping of LambdaMART instead"),
        ("n_trees", "set n_trees of LambdaMART instead"),
    ],
)
def test_keywords_of_fit_that_others_have(keyword, told, artificial):
    with pytest.raises(TypeError, match=f"^fit has no keyword '{keyword}'; ") as raised:
        gainful.LambdaMART().fit(artificial, **{keyword: [1]})
    assert any(one in str(raised.value) for one in told.split("|"))
    assert isinstance(raised.value, gainful.GainfulError)


def test_advice_is_only_about_what_exists(artificial):
    model = gainful.ranker("regression").fit(artificial)
    with pytest.raises(TypeError) as no_warm_start:
        gainful.ranker("regression").fit(artificial, init_model=model)
    assert "warm_start" not in str(no_warm_start.value)
    for keyword, absent in (("verbose", "progress"), ("eval_group", "eval_set")):
        with pytest.raises(TypeError, match=f"^predict has no keyword '{keyword}'; ") as raised:
            model.predict(artificial, **{keyword: [1]})
        assert absent not in str(raised.value)
    with pytest.raises(TypeError, match=r"^compare has no keyword 'group'; ") as in_compare:
        gainful.compare("regression", artificial, group=[1])
    assert "qid" not in str(in_compare.value)


@pytest.mark.parametrize(
    ("keyword", "told"),
    [
        ("group", "qid takes the query id of each row"),
        ("sample_weight", "it is called 'query_weights' here"),
        ("progress", "did you mean|choose from scores, y, qid, query_weights, doc_ids"),
    ],
)
def test_metrics_explain_their_keywords(keyword, told):
    with pytest.raises(gainful.ParameterError, match=f"^Metric has no keyword '{keyword}'; ({told})"):
        gainful.metric("ndcg@10")([1.0, 2.0], [0, 1], **{keyword: [2]})
    with pytest.raises(TypeError, match=r"^per_query has no keyword 'query_weights'; "):
        gainful.metric("ndcg@10").per_query([1.0, 2.0], [0, 1], query_weights=[2])


def test_functions_explain_their_keywords_too(artificial):
    with pytest.raises(TypeError, match="compare has no keyword 'cv'; it is called 'folds' here"):
        gainful.compare("regression", artificial, cv=3)
    with pytest.raises(TypeError, match="tune has no keyword 'n_trial'; did you mean 'trials'"):
        gainful.tune("regression", artificial, n_trial=3)


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'gainful[serve]'"),
        ({"url": "file:///tmp/g-1.whl", "archive_info": {}}, "pip install 'gainful[serve] @ file:///tmp/g-1.whl'"),
        ({"url": "file:///not/there", "dir_info": {}}, "pip install '.[serve]' in a checkout of gainful"),
        ({"url": "CHECKOUT", "dir_info": {"editable": True}}, "pip install 'CHECKOUT[serve]'"),
    ],
)
def test_the_command_for_an_extra_works_where_gainful_came_from(origin, command, tmp_path, monkeypatch):
    checkout = tmp_path / "a checkout"
    checkout.mkdir()
    (checkout / "pyproject.toml").touch()
    told = None if origin is None else json.dumps(origin).replace("CHECKOUT", checkout.as_uri())
    monkeypatch.setattr("importlib.metadata.distribution", lambda _: SimpleNamespace(read_text=lambda _: told))
    assert install_command("serve") == command.replace("CHECKOUT", str(checkout))


def test_the_command_for_an_extra_without_an_installation(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", missing)
    assert install_command("tune") == "pip install '.[tune]' in a checkout of gainful"


def test_the_package_shows_public_names_only():
    shown = {name for name in dir(gainful) if not name.startswith("_")}
    assert shown == set(gainful.__all__)
    loaded = subprocess.run(
        [sys.executable, "-c", "import gainful, gainful.cli.app; print(*dir(gainful))"],
        check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    assert {name for name in loaded if not name.startswith("_")} == set(gainful.__all__)
