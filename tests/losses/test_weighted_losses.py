"""Weights of documents in the losses: copies, gradients, and the losses that refuse them."""

from __future__ import annotations

import numpy as np
import pytest

import gainful
from gainful import ParameterError
from gainful.losses.pairwise import sweep_hinges

WEIGHTED = [name for name, entry in gainful.LOSSES.items() if entry.weighs_documents]
OTHERS = [name for name in gainful.LOSSES if name not in WEIGHTED]
BY_RANK = ("lambda", "lambdaloss", "weighted-huber")  # ranks count every document once
N = 9


@pytest.fixture
def query(rng):
    """Scores, grades and weights of one query."""
    return rng.normal(size=N) * 2.0, np.array([0, 1, 2, 0, 1, 1, 2, 0, 0.0]), rng.uniform(0.2, 3.0, N)


def values_of(loss, y, weights, at):
    """The value as a function of the scores; ranks stay as they are ``at`` these scores."""
    fill = gainful.loss(loss).bind(y, np.array([0, N]), weights / weights.mean())
    if gainful.LOSSES[loss].frozen:
        fill = fill.bind_frozen(at)

    def value_and_gradient(scores):
        value, gradient = np.empty(1), np.empty(N)
        fill(scores, 0, 1, value, gradient)
        return value[0], gradient

    return value_and_gradient


@pytest.mark.parametrize("name", WEIGHTED)
def test_equal_weights_change_nothing(name, query):
    scores, y, _ = query
    plain, weighted = (gainful.loss(name)(scores, y, weights) for weights in (None, np.full(N, 3.0)))
    assert weighted[0] == pytest.approx(plain[0], rel=1e-14)
    assert weighted[1] == pytest.approx(plain[1], rel=1e-13, abs=1e-16)


@pytest.mark.parametrize("name", WEIGHTED)
def test_gradient_and_curvature_are_derivatives(name, query):
    scores, y, weights = query
    at = values_of(name, y, weights, scores)
    newton = gainful.loss(name).bind_newton(y, np.array([0, N]), weights / weights.mean())
    slopes, bends = np.zeros(N), np.zeros(N)
    if newton is not None:
        newton(scores, 0, 1, slopes, bends)
        assert slopes == pytest.approx(at(scores)[1], abs=1e-12)
    for i, step in enumerate(np.eye(N) * 1e-6):
        up, down = at(scores + step), at(scores - step)
        assert (up[0] - down[0]) / 2e-6 == pytest.approx(at(scores)[1][i], abs=1e-7)
        if newton is not None:
            assert (up[1][i] - down[1][i]) / 2e-6 == pytest.approx(bends[i], abs=1e-6)


@pytest.mark.parametrize("name", [name for name in WEIGHTED if name not in BY_RANK])
def test_a_whole_weight_is_a_number_of_copies(name, query):
    scores, y, _ = query
    copies = np.array([1, 2, 3, 1, 0, 2, 1, 1, 2])
    rows = np.repeat(np.arange(N), copies)
    value, copied = gainful.loss(name)(scores[rows], y[rows])
    found, weighted = gainful.loss(name)(scores, y, copies)
    assert found == pytest.approx(value, rel=1e-13)
    assert weighted == pytest.approx(np.bincount(rows, copied, minlength=N), rel=1e-13, abs=1e-14)


@pytest.mark.parametrize("name", WEIGHTED)
def test_a_document_without_weight_is_not_pulled(name, query):
    scores, y, weights = query
    weights[3] = 0.0
    scores[3] = 2000.0  # nor does it push others, however high it stands
    value, gradient = gainful.loss(name)(scores, y, weights)
    assert gradient[3] == 0.0
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    if name not in BY_RANK:
        rest = np.arange(N) != 3
        assert gradient[rest] == pytest.approx(gainful.loss(name)(scores[rest], y[rest], weights[rest])[1], abs=1e-14)


@pytest.mark.parametrize("name", [name for name in WEIGHTED if name != "squared"])
def test_weight_on_one_grade_alone_leaves_little_to_order(name, query):
    scores, y, _ = query
    value, gradient = gainful.loss(name)(scores, y, (y == 1.0).astype(float))
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("squared", [False, True])
def test_sorting_weighs_as_the_loop_over_pairs_does(squared, query):
    scores, y, weights = query
    order = np.argsort(-y, kind="stable")
    cuts = np.array([0, *np.flatnonzero(np.diff(y[order])) + 1, N])
    slopes, bends = np.zeros(N), np.zeros(N)
    value = sweep_hinges(scores[order], cuts, squared, slopes, bends, weights[order])
    better, worse = np.nonzero(y[:, None] > y[None, :])
    short = np.maximum(1.0 - (scores[better] - scores[worse]), 0.0)
    pair = weights[better] * weights[worse]
    assert value == pytest.approx(float(pair @ (short**2 if squared else short)))
    pull = pair * (2.0 * short if squared else short > 0.0)
    expected = np.bincount(worse, pull, N) - np.bincount(better, pull, N)
    assert slopes == pytest.approx(expected[order], abs=1e-12)


@pytest.mark.parametrize("name", OTHERS)
def test_other_losses_refuse_them(name, query):
    with pytest.raises(ParameterError, match=r"the loss .* does not define what weights of single documents mean"):
        gainful.loss(name)(*query)


def test_a_function_refuses_them(query):
    with pytest.raises(ParameterError, match="the loss custom:zero does not define"):
        gainful.loss(lambda s, y: (0.0, 0.0 * s), name="zero")(*query)
