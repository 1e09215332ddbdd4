"""Losses on clicks: unbiased by enumeration, and equal to the same loss on a list per click."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import gainful
from gainful.compute.query_loop import gradient_and_curvature, values_and_gradient
from gainful.data.dataset import RankingData
from gainful.debiasing.debias import LISTS, RATES, Correction
from gainful.debiasing.settings import Debias
from gainful.losses import LOSSES
from gainful.losses.click_lists import ClickLists, list_per_click

EXAMINED = np.array([1.0, 0.5, 0.3, 0.2])
RELEVANT = np.array([0.2, 0.9, 0.0, 0.6])  # a document is relevant to some users, and not to others
SCORES = np.array([0.03, -0.02, 0.11, 0.08])  # close, so that no loss is flat here
WEIGHING = [name for name, entry in LOSSES.items() if entry.weighs_documents]
IPW = Correction(Debias("ipw", clip=0.0))


def clicks(y, propensity, **more):
    return RankingData.from_rows(np.zeros((len(y), 1)), y, np.zeros(len(y)), propensity=propensity, **more)


def weighed_gradient(loss, data):
    """The gradient of a query times its weight: what training sums."""
    form = RATES if loss.entry.affine else LISTS
    lists = IPW.apply(data, form)
    _, gradient = values_and_gradient(loss.bind_judgments(lists), lists.offsets, SCORES)
    return gradient if form == RATES else gradient * lists.query_weights[0]


@pytest.mark.parametrize("name", LOSSES)
def test_the_expected_gradient_is_that_of_full_information(name):
    loss = gainful.loss(name)
    expected, total = np.zeros(4), 0.0
    for pattern in product([0.0, 1.0], repeat=4):
        y = np.array(pattern)
        chance = np.prod(np.where(y > 0, EXAMINED * RELEVANT, 1.0 - EXAMINED * RELEVANT))
        total += chance
        expected += chance * weighed_gradient(loss, clicks(y, EXAMINED)) if y.any() or loss.entry.affine else 0.0
    full = weighed_gradient(loss, clicks(RELEVANT, np.ones(4)))
    assert total == pytest.approx(1.0)
    assert expected == pytest.approx(full, abs=1e-12)
    naive = sum(  # the test can fail: clicks as they are have another expectation
        np.prod(np.where(np.array(p) > 0, EXAMINED * RELEVANT, 1.0 - EXAMINED * RELEVANT))
        * weighed_gradient(loss, clicks(np.array(p), np.ones(4)))
        for p in product([0.0, 1.0], repeat=4)
        if any(p) or loss.entry.affine
    )
    assert np.abs(naive - full).max() > 1e-4


@pytest.fixture(scope="module")
def lists():
    rng = np.random.default_rng(5)
    counts = np.array([4, 1, 6, 3, 5])
    n = int(counts.sum())
    y = rng.integers(0, 2, n).astype(float)
    y[5:11] = 0.0  # a query without clicks
    data = RankingData.from_rows(
        rng.normal(size=(n, 2)),
        y,
        group=counts,
        position=np.concatenate([np.arange(1, c + 1) for c in counts]),
        propensity=rng.uniform(0.2, 1.0, n),
        sample_weight=rng.integers(1, 4, n),
    )
    return data, rng.normal(size=n)


@pytest.mark.parametrize(("name", "rivals"), [(name, False) for name in LOSSES] + [(name, True) for name in WEIGHING])
def test_fills_equal_a_list_per_click(name, rivals, lists):
    data, scores = lists
    loss = gainful.loss(name)
    unclicked = np.linspace(1.0, 2.0, 6) if rivals else None
    learned = np.linspace(1.0, 0.2, 6) if rivals else None
    data = Correction(Debias("pairwise" if rivals else "ipw"), learned, unclicked).apply(data, LISTS)
    copies, where = list_per_click(data), ClickLists(data)
    share = where.weight / np.bincount(where.query, where.weight, minlength=5)[where.query]
    by_row = np.repeat(share, where.counts)
    values, slopes = values_and_gradient(loss.bind_judgments(copies), copies.offsets, scores[where.rows])
    fill = loss.bind_judgments(data)
    found, gradient = values_and_gradient(fill, data.offsets, scores)
    assert found == pytest.approx(np.bincount(where.query, share * values, minlength=5))
    assert gradient == pytest.approx(np.bincount(where.rows, by_row * slopes, minlength=len(scores)))
    parts = np.empty(5), np.empty(len(scores))  # queries in two runs
    for first, last in ((0, 2), (2, 5)):
        rows = slice(int(data.offsets[first]), int(data.offsets[last]))
        fill(scores[rows], first, last, parts[0], parts[1][rows])
    assert parts[0] == pytest.approx(found)
    assert parts[1] == pytest.approx(gradient)
    if hasattr(fill, "bind_frozen") and loss.frozen:
        assert values_and_gradient(fill.bind_frozen(scores), data.offsets, scores)[1] == pytest.approx(gradient)
    newton = loss.bind_newton_judgments(data)
    if newton is not None:
        g, h = gradient_and_curvature(newton, data.offsets, scores)
        slopes, bends = gradient_and_curvature(loss.bind_newton_judgments(copies), copies.offsets, scores[where.rows])
        assert g == pytest.approx(np.bincount(where.rows, by_row * slopes, minlength=len(scores)))
        assert h == pytest.approx(np.bincount(where.rows, by_row * bends, minlength=len(scores)))
