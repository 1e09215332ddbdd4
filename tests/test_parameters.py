"""Constraints: what they accept, how they say it, how they read the command line."""

from __future__ import annotations

import numpy as np
import pytest

from gainful.errors import ParameterError, UnknownNameError
from gainful.parameters import (
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
        ("q=1", UnknownNameError, "no parameter of x 'q'"),
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
