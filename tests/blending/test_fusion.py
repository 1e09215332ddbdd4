"""Rank fusion, against its formulas on small cases."""

from __future__ import annotations

import numpy as np
import pytest

import gainful
from gainful import ParameterError

ONE, TWO = [3.0, 2.0, 1.0, 5.0, 4.0], [1.0, 3.0, 2.0, 0.0, 0.0]
QID = [1, 1, 1, 2, 2]


def test_reciprocal_ranks():
    fused = gainful.fuse([ONE, TWO], qid=QID)
    tie = 1 / 61.5
    expected = [1 / 61 + 1 / 63, 1 / 62 + 1 / 61, 1 / 63 + 1 / 62, 1 / 61 + tie, 1 / 62 + tie]
    assert fused == pytest.approx(expected)


def test_combsum_scales_each_query_to_0_and_1():
    fused = gainful.fuse([ONE, TWO], qid=QID, method="combsum")
    assert fused == pytest.approx([1.0, 1.5, 0.5, 2.0, 1.0])


def test_rows_in_any_order():
    order = [4, 2, 0, 3, 1]
    straight = gainful.fuse([ONE, TWO], qid=QID, method="borda")
    mixed = gainful.fuse([np.array(ONE)[order], np.array(TWO)[order]], qid=np.array(QID)[order], method="borda")
    assert mixed == pytest.approx(straight[order])


def test_weights_count():
    assert gainful.fuse([ONE, TWO], qid=QID, method="combsum", weights=[1, 0]) == pytest.approx([1, 0.5, 0, 1, 0])


def test_runs_may_hold_different_documents():
    runs = [{"q": {"a": 2.0, "b": 1.0}, "r": {"x": 1.0}}, {"q": {"b": 7.0, "c": 3.0}}]
    fused = gainful.fuse(runs)
    assert fused["q"] == pytest.approx({"a": 1 / 61, "b": 1 / 62 + 1 / 61, "c": 1 / 62})
    assert fused["r"] == pytest.approx({"x": 1 / 61})
    both = gainful.fuse(runs, method="combmnz")["q"]
    assert both == pytest.approx({"a": 1.0, "b": 2.0, "c": 0.0})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gainful.fuse([ONE], qid=QID, method="rff"), "no fusion method 'rff'; did you mean 'rrf'"),
        (lambda: gainful.fuse([], qid=QID), "rankings of fuse must be"),
        (lambda: gainful.fuse([ONE, TWO], qid=QID, weights=[1]), "one number for each of the 2 rankings"),
        (lambda: gainful.fuse([ONE, TWO], qid=QID, k=0), "k of fuse must be a number > 0"),
        (lambda: gainful.fuse([{"q": {"a": 1.0}}], qid=QID), "a run has its own queries"),
    ],
)
def test_mistakes_are_refused(call, message):
    with pytest.raises(ParameterError, match=message):
        call()
