"""Nets that were stopped and resumed have, on the CPU, every weight they would have had without a stop."""

from __future__ import annotations

import numpy as np
import pytest
from killed_training import Stop, problem, without_seconds

import gainful
from gainful.errors import InterruptedFitWarning

pytest.importorskip("torch")

COMMON = {"epochs": 10, "hidden": [8], "dropout": 0.2, "batch_queries": 8, "early_stopping": 4, "device": "cpu"}


def fit(settings, **how):
    train, valid = problem()
    return gainful.NeuralRanker(**COMMON | settings).fit(train, eval_set=valid, **how)


def fit_lists(**how):
    train, valid = problem()
    net = gainful.AttentionRanker(**COMMON | {"noise": 0.2, "models": 2})
    return net.fit(train, eval_set=valid, **how)


def test_a_stopped_net_over_lists_goes_on_with_the_same_weights(tmp_path):
    path, whole = tmp_path / "c.ckpt", fit_lists()
    for last in (2, 4):
        with pytest.warns(InterruptedFitWarning):
            fit_lists(checkpoint=path, progress=Stop(last, False))
    assert_same(fit_lists(checkpoint=path), whole)


def assert_same(resumed, whole):
    assert all(np.array_equal(a, b) for a, b in zip(resumed.weights_, whole.weights_, strict=True))
    assert without_seconds(resumed.history_) == without_seconds(whole.history_)
    assert (resumed.best_epoch_, resumed.n_iter_) == (whole.best_epoch_, whole.n_iter_)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"optimizer": "sgd", "dtype": "float64"},
        {"optimizer": "adamw", "weight_decay": 0.01, "loss": "reg-shf-sdcg"},  # a loss that changes by the epoch
        {"hidden": [], "loss": "listnet"},
    ],
)
def test_a_stopped_net_goes_on_with_the_same_weights(tmp_path, settings):
    path, whole = tmp_path / "c.ckpt", fit(settings)
    for last, interrupt in ((1, False), (3, True), (4, False)):  # Ctrl-C while epoch 3 is reported
        with pytest.warns(InterruptedFitWarning):
            stopped = fit(settings, checkpoint=path, progress=Stop(last, interrupt))
        assert stopped.n_iter_ == last
    assert_same(fit(settings, checkpoint=path), whole)
    assert not path.exists()


def test_ctrl_c_within_an_epoch(tmp_path):
    path, calls = tmp_path / "c.ckpt", []

    def loss(scores, grades):
        calls.append(1)
        if len(calls) == 200:
            raise KeyboardInterrupt
        return float(((scores - grades) ** 2).mean()), 2 * (scores - grades) / len(scores)

    settings = {"loss": loss, "early_stopping": None}
    with pytest.warns(InterruptedFitWarning):
        stopped = fit(settings, checkpoint=path)
    assert 1 < stopped.n_iter_ < 10
    assert_same(fit(settings, checkpoint=path), fit(settings))


def test_a_net_that_had_ended_ends_at_once(tmp_path):
    path, seen, settings = tmp_path / "c.ckpt", [], {"early_stopping": 1, "learning_rate": 0.3}
    whole = fit(settings)
    assert whole.n_iter_ < 10
    with pytest.warns(InterruptedFitWarning):  # in the epoch that runs out of patience
        fit(settings, checkpoint=path, progress=Stop(whole.n_iter_))
    assert_same(fit(settings, checkpoint=path, progress=seen.append), whole)
    assert not seen


def test_a_seed_drawn_at_random_is_kept(tmp_path):
    path = tmp_path / "c.ckpt"
    whole = fit({"random_state": np.random.RandomState(1)})
    with pytest.warns(InterruptedFitWarning):
        fit({"random_state": np.random.RandomState(1)}, checkpoint=path, progress=Stop(2))
    assert_same(fit({"random_state": np.random.RandomState(2)}, checkpoint=path), whole)
