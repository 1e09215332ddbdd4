"""Losses averaged over noise: what is drawn, on what it depends, and that models train on it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gainful
from gainful import BoostedRanker, LinearRanker, NeuralRanker, ParameterError, RankingData
from gainful.compute.query_loop import gradient_and_curvature, values_and_gradient
from gainful.losses import LOSSES, loss
from gainful.losses.noise import gumbel, row_keys

NAMES = ["lambda", "lambda(metric=map)", "lambdaloss", "weighted-huber"]


def noisy(text, **params):
    return loss(loss(text), **{"noise": 0.7, "draws": 3, **params})


def queries(n_queries=60, seed=0):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 30, n_queries))])
    return rng.normal(size=offsets[-1]), rng.integers(0, 4, offsets[-1]).astype(float), offsets


def test_the_losses_with_noise():
    assert {name for name, entry in LOSSES.items() if "noise" in entry.parameters} == {
        "lambda", "lambdaloss", "weighted-huber",
    }  # fmt: skip
    assert str(loss("lambda(noise=0.5, draws=8, seed=3)")) == "lambda(noise=0.5, draws=8, seed=3)"
    with pytest.raises(ParameterError, match=r"draws of lambda must be an integer in \[1, 100000\], was 0"):
        loss("lambda(draws=0)")
    for text in ("-1", "1e7", "1e308"):
        with pytest.raises(ParameterError, match=r"noise of lambda must be a number in \[0, 1e\+06\], was "):
            loss(f"lambda(noise={text})")


@pytest.mark.parametrize("text", NAMES)
def test_the_most_noise_is_finite(text):
    s, y, offsets = queries()
    most = noisy(text, noise=1e6)
    found = values_and_gradient(most.bind(y, offsets), offsets, s)
    curved = gradient_and_curvature(most.bind_newton(y, offsets), offsets, s)
    assert all(np.isfinite(each).all() for each in (*found, *curved))


@pytest.mark.parametrize("text", NAMES)
def test_no_noise_is_the_plain_loss(text):
    s, y, offsets = queries()
    still = noisy(text, noise=0.0)
    assert not still.staged
    for found, expected in zip(still.of_queries(s, y, offsets), loss(text).of_queries(s, y, offsets), strict=True):
        assert np.array_equal(found, expected)
    tiny = noisy(text, noise=1e-12).of_queries(s, y, offsets)[1]
    np.testing.assert_allclose(tiny, loss(text).of_queries(s, y, offsets)[1], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("text", NAMES)
def test_neither_threads_nor_blocks_change_a_bit(text):
    s, y, offsets = queries()
    own = noisy(text)
    values, gradient = values_and_gradient(own.bind(y, offsets).at(5, 9), offsets, s, 1)
    slopes, bends = gradient_and_curvature(own.bind_newton(y, offsets).at(5, 9), offsets, s, 1)
    np.testing.assert_allclose(slopes, gradient, rtol=1e-9, atol=1e-12)
    for threads in (2, 3):
        again = values_and_gradient(own.bind(y, offsets).at(5, 9), offsets, s, threads)
        curved = gradient_and_curvature(own.bind_newton(y, offsets).at(5, 9), offsets, s, threads)
        for found, expected in zip((*again, *curved), (values, gradient, slopes, bends), strict=True):
            assert np.array_equal(found, expected)
    first, rows = 20, slice(int(offsets[20]), int(offsets[40]))
    ends = offsets[20:41] - offsets[20]
    block = values_and_gradient(own.bind(y[rows], ends).at(5, 9), ends, s[rows], 1)
    assert np.array_equal(block[0], values[first:40])
    assert np.array_equal(block[1], gradient[rows])


def test_seed_iteration_and_draw_each_change_the_noise():
    _, y, offsets = queries()
    keys = row_keys(y, offsets, 0)
    base = gumbel(keys, 1, 0)
    assert np.array_equal(base, gumbel(row_keys(y, offsets, 0), 1, 0))
    for other in (gumbel(keys, 2, 0), gumbel(keys, 1, 1), gumbel(row_keys(y, offsets, 1), 1, 0)):
        assert abs(np.corrcoef(base, other)[0, 1]) < 0.15
        assert not np.isclose(base, other).any()


def test_the_noise_is_gumbel():
    keys = row_keys(np.zeros(200_000), np.array([0, 200_000]), 0)
    x = np.sort(gumbel(keys, 3, 1))
    assert x.mean() == pytest.approx(0.57722, abs=0.01)
    assert x.var() == pytest.approx(math.pi**2 / 6.0, rel=0.02)
    exact = np.exp(-np.exp(-x))
    assert np.abs(exact - np.arange(len(x)) / len(x)).max() < 0.005


def test_two_documents_by_the_distribution():
    """The difference of two Gumbel variables is logistic."""
    u = (np.arange(200_000) + 0.5) / 200_000
    d = 0.4 + 0.8 * np.log(u / (1.0 - u))
    drop = 1.0 - 1.0 / math.log2(3.0)
    value, gradient = loss("lambda(noise=0.8, draws=20000)")([0.4, 0.0], [1.0, 0.0])
    assert value == pytest.approx(drop * np.logaddexp(0.0, -d).mean(), rel=0.02)
    assert gradient[0] == pytest.approx(-drop * (1.0 / (1.0 + np.exp(d))).mean(), rel=0.02)


@pytest.mark.parametrize("text", NAMES)
def test_more_draws_come_closer_to_the_mean(text):
    s, y, offsets = queries(20)
    mean = noisy(text, draws=3000, seed=9).of_queries(s, y, offsets)[1]
    off = [np.abs(noisy(text, draws=n).of_queries(s, y, offsets)[1] - mean).mean() for n in (1, 16, 256)]
    assert off[0] > 2.5 * off[1] > 6.0 * off[2]


@pytest.mark.parametrize("text", NAMES)
def test_frozen_gradients_by_finite_differences(text):
    rng = np.random.default_rng(1)
    s, g, ends = rng.normal(size=9), rng.integers(0, 3, 9).astype(float), np.array([0, 9])
    bound = noisy(text).bind(g, ends)
    fixed = bound.bind_frozen(s)
    _, gradient = values_and_gradient(bound, ends, s)
    h = 1e-6
    found = [
        (values_and_gradient(fixed, ends, s + e)[0][0] - values_and_gradient(fixed, ends, s - e)[0][0]) / (2 * h)
        for e in np.eye(9) * h
    ]
    np.testing.assert_allclose(gradient, found, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    "make",
    [
        lambda text: LinearRanker(loss=text, max_iter=15),
        lambda text: BoostedRanker(loss=text, n_trees=10, n_leaves=6, min_docs_in_leaf=5, n_jobs=1),
        lambda text: NeuralRanker(loss=text, hidden=(8,), epochs=4),
    ],
    ids=["linear", "trees", "net"],
)
def test_every_model_trains_on_it(make):
    data = gainful.make_artificial(40, n_docs=12, n_features=6, seed=2)
    first, again, plain = (make(text).fit(data) for text in ("lambda(noise=1)", "lambda(noise=1)", "lambda"))
    assert np.array_equal(first.predict(data), again.predict(data))
    assert not np.allclose(first.predict(data), plain.predict(data))
    assert first.score(data) > gainful.metric("ndcg@10")(np.zeros(data.n_rows), data) + 0.03


def test_noise_is_not_a_schedule():
    assert (loss("lambda(noise=1)").staged, loss("lambda(noise=1)").scheduled) == (True, False)
    assert (loss("reg-shf-sdcg").staged, loss("reg-shf-sdcg").scheduled) == (True, True)


@pytest.mark.parametrize("device", ["cpu", "torch-cpu"])
def test_nets_with_noise_stop_early_and_may_keep_any_epoch(device):
    data = gainful.make_artificial(40, n_docs=12, n_features=6, seed=2)
    train, valid = gainful.split(data, (0.6, 0.4), seed=1)
    model = NeuralRanker("lambda(noise=1)", hidden=(8,), epochs=60, early_stopping=2, learning_rate=0.1, device=device)
    figures = [row["validation"] for row in model.fit(train, eval_set=valid).history_]
    assert None not in figures
    assert len(figures) == model.best_epoch_ + 2 < 30
    assert model.best_epoch_ == 1 + int(np.argmax(figures))


def test_linear_models_with_noise_run_all_iterations():
    data = gainful.make_artificial(40, n_docs=12, n_features=6, seed=2)
    model = LinearRanker(loss="lambda(noise=1)", max_iter=40).fit(data)
    objectives = [row["objective"] for row in model.history_]
    assert len(objectives) == 40
    assert min(objectives) < objectives[-1]  # another noise, not a better point


def test_preferences_take_no_noise():
    preferred = RankingData.from_rows(np.eye(3), qid=[1, 1, 1], pairs=[(0, 1, 1.0)])
    with pytest.raises(ParameterError, match="needs grades for its noise, but the data has preferences; set noise=0"):
        loss("weighted-huber(noise=1)").bind_judgments(preferred)


@pytest.mark.parametrize("wrong", ["seed=100000000000000000000000", "draws=1000000"])
def test_settings_that_could_not_be_computed_are_refused(wrong):
    with pytest.raises(gainful.ParameterError, match="lambda"):
        gainful.loss(f"lambda(noise=1, {wrong})")
