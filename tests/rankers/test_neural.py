"""Nets: gradients through them, seeds, devices, what they need of PyTorch and what they do not."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numba
import numpy as np
import pytest
import torch
from scipy import sparse

import gainful
from gainful import DataError, NeuralRanker, ParameterError, RankingData
from gainful.data.query_weights import query_shares
from gainful.linear.risk import LinearRisk
from gainful.linear.tensor_risk import TensorLinearRisk
from gainful.losses import LOSSES, loss
from gainful.losses.tensors import FORMS
from gainful.nets.epochs import Epochs
from gainful.nets.train import Batches, Inputs, Net, NetSettings, scores_of
from gainful.rankers import linear
from gainful.rankers.scorers import NET_BLOCK, activate
from gainful.solvers.certificate import ConvergenceWarning

HOST_ONLY = [name for name in LOSSES if name not in FORMS]
ACTIVATIONS = ("relu", "tanh", "sigmoid", "silu")


def settings_of(**changed):
    usual = {
        "hidden": (5, 3), "activation": "tanh", "dropout": 0.0, "batch_queries": 100, "optimizer": "sgd",
        "learning_rate": 0.1, "weight_decay": 0.0, "epochs": 1, "device": "cpu", "dtype": "float64", "seed": 1,
    }  # fmt: skip
    return NetSettings(**(usual | changed))


def small(seed=0, n_queries=6, d=4, weights=False):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 9, n_queries)
    counts[0] = 5
    X, y = rng.normal(size=(counts.sum(), d)), rng.integers(0, 3, counts.sum()).astype(float)
    qid = np.repeat(np.arange(n_queries), counts)
    sample_weight = np.repeat(rng.random(n_queries) + 0.1, counts) if weights else None
    return RankingData.from_rows(X, y, qid, sample_weight=sample_weight)


def plain(data):
    return Inputs(np.zeros(data.n_features), np.ones(data.n_features), "float64")


class Recorder:
    """An optimizer that takes no step and remembers the gradients."""

    def __init__(self, net):
        self.net = net

    def zero_grad(self):
        for weight in self.net.weights:
            weight.grad = None

    def step(self):
        self.seen = [weight.grad.numpy().copy() for weight in self.net.weights]


# -- gradients ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "torch-cpu"])
@pytest.mark.parametrize("name", ["ranknet", "listnet", "softrank", "squared", "sdcg"])
def test_gradients_through_the_net_by_finite_differences(name, device):
    data, settings = small(weights=True), settings_of(device=device)
    net = Net(data.n_features, settings)
    batches = Batches(loss(name), data, settings, plain(data), net.weights[0].detach()[:0, 0])
    recorder = Recorder(net)

    def objective():
        return float(
            query_shares(data) @ loss(name).of_queries(scores_of(net, data.X, plain(data)), data.y, data.offsets)[0]
        )

    assert Epochs(net, batches, recorder)(np.arange(len(batches))) == pytest.approx(objective(), rel=1e-9)
    h = 1e-6
    for weight, gradient in zip(net.weights, recorder.seen, strict=True):
        flat, found = weight.detach().view(-1), np.empty(weight.numel())
        for i in range(len(found)):
            kept = float(flat[i])
            flat[i] = kept + h
            up = objective()
            flat[i] = kept - h
            found[i] = (up - objective()) / (2 * h)
            flat[i] = kept
        np.testing.assert_allclose(gradient.ravel(), found, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_scores_need_no_pytorch_and_are_pytorchs(activation):
    z = np.linspace(-30, 30, 41)
    model = getattr(torch, activation, None) or getattr(torch.nn.functional, activation)
    np.testing.assert_allclose(activate(activation, z.copy()), model(torch.from_numpy(z)).numpy(), atol=1e-13)
    data = small(n_queries=80)
    model = NeuralRanker(hidden=(7, 4), activation=activation, epochs=2, dtype="float64", device="cpu").fit(data)
    net = Net(data.n_features, settings_of(hidden=(7, 4), activation=activation))
    net.weights = [torch.from_numpy(weight) for weight in model.weights_]
    expected = scores_of(net, data.X, Inputs(model.shift_, model.scale_, "float64"))
    np.testing.assert_allclose(model.predict(data), expected, rtol=1e-9, atol=1e-12)


def test_a_score_does_not_depend_on_its_neighbours(rng):
    data = small(n_queries=120, d=7)
    assert data.n_rows > NET_BLOCK
    model = NeuralRanker(epochs=1, hidden=(33, 9), device="cpu").fit(data)
    scores, order = model.predict(data.X), rng.permutation(data.n_rows)
    assert np.array_equal(model.predict(data.X[order]), scores[order])
    assert np.array_equal([model.predict(row[None])[0] for row in data.X[:20]], scores[:20])


# -- one step ----------------------------------------------------------------------------------------------------------


def test_one_step_of_sgd_is_the_gradient_of_the_weighted_mean():
    data = small(weights=True)
    model = NeuralRanker(
        loss="ranknet", hidden=(3,), activation="tanh", optimizer="sgd", learning_rate=0.5, weight_decay=0.25, epochs=1,
        batch_queries=100, scale=None, dtype="float64", device="cpu",
    ).fit(data)  # fmt: skip
    net = Net(data.n_features, settings_of(hidden=(3,), seed=0))
    before = net.arrays()
    scores = net(torch.from_numpy(np.array(data.X)))
    _, slopes = loss("ranknet").of_queries(scores.detach().numpy(), data.y, data.offsets)
    torch.autograd.backward(scores, torch.from_numpy(slopes * np.repeat(query_shares(data), data.counts)))
    for place, (start, weight, end) in enumerate(zip(before, net.weights, model.weights_, strict=True)):
        decay = 0.25 * start if place % 2 == 0 else 0.0  # biases are spared
        step = 0.5 * 1.9 * (weight.grad.numpy() + decay)  # Nesterov's first step: (1 + momentum) of the gradient
        np.testing.assert_allclose(end, start - step, rtol=1e-9, atol=1e-12)


def test_every_query_is_in_one_batch_and_weights_sum_to_one():
    data, settings = small(n_queries=37, weights=True), settings_of(batch_queries=5)
    at = torch.zeros(0, dtype=torch.float64)
    batches = Batches(loss("squared"), data, settings, plain(data), at)
    assert sorted(np.concatenate([batch.rows for batch in batches.all]).tolist()) == list(range(data.n_rows))
    total = sum(
        share * float(batch.query_weights.sum()) for share, batch in zip(batches.share, batches.all, strict=True)
    )
    assert total == pytest.approx(1.0)
    assert {len(batch.query_weights) for batch in batches.all} <= {4, 5}


@pytest.mark.parametrize("n_queries", [1, 31, 32, 33, 47, 49, 80])
def test_no_batch_has_more_queries_than_asked_for(n_queries):
    data = small(n_queries=n_queries)
    batches = Batches(
        loss("squared"), data, settings_of(batch_queries=32), plain(data), torch.zeros(0, dtype=torch.float64)
    )
    sizes = [len(batch.query_weights) for batch in batches.all]
    assert max(sizes) <= 32
    assert len(sizes) == -(-n_queries // 32)


def test_dropout_leaves_units_out_in_training_only():
    net = Net(4, settings_of(hidden=(400,), activation="relu", dropout=0.25))
    x = torch.ones((50, 400), dtype=torch.float64)
    kept = (net._mask(x) > 0).double().mean()
    assert float(kept) == pytest.approx(0.75, abs=0.02)
    assert float(net._mask(x).mean()) == pytest.approx(1.0, abs=0.03)
    one = torch.ones((1, 4), dtype=torch.float64)
    assert torch.equal(net(one), net(one))
    assert not torch.equal(net(one, train=True), net(one, train=True))


# -- standardisation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["float64", "float32", "csr"])
@pytest.mark.filterwarnings("ignore::gainful.RedundantFeaturesWarning")
def test_inputs_are_standardised_by_the_training_data(form):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4)) * [1, 1e-3, 1e4, 0] + [0, 5, -3e4, 7]
    X = X.astype(np.float32) if form == "float32" else sparse.csr_array(X) if form == "csr" else X
    data = RankingData.from_rows(X, rng.integers(0, 3, 500), np.repeat(np.arange(50), 10))
    model = NeuralRanker(epochs=1, hidden=(3,), device="cpu").fit(data)
    dense = X.toarray() if form == "csr" else X
    np.testing.assert_allclose(model.shift_, dense.mean(axis=0, dtype=np.float64), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.scale_[:3], dense.std(axis=0, dtype=np.float64)[:3], rtol=1e-3)
    assert model.scale_[3] == 1.0
    seen = Inputs(model.shift_, model.scale_, "float32").of(data.X, slice(0, 500))
    assert seen.dtype == np.float32
    np.testing.assert_allclose(seen.mean(axis=0), 0.0, atol=2e-3)
    np.testing.assert_allclose(seen[:, :3].std(axis=0), 1.0, rtol=2e-3)
    assert np.array_equal(data.X.toarray() if form == "csr" else data.X, dense)  # untouched


@pytest.mark.filterwarnings("ignore:.*have no value beyond ±1e-30")
def test_features_too_small_to_divide_by_count_as_constant():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)).astype(np.float32)
    X[:, 1], X[0, 1], X[:, 2] = 0.0, 1e-45, X[:, 2] * np.float32(1e-39)
    data = RankingData.from_rows(X, rng.integers(0, 3, 60), np.repeat(np.arange(6), 10))
    model = NeuralRanker(epochs=2, device="cpu").fit(data)
    assert model.scale_[1:].tolist() == [1.0, 1.0]
    assert np.isfinite(model.predict(data)).all()


def test_units_do_not_matter_when_standardised(parts):
    train, _, test = parts
    factors = 2.0 ** np.arange(train.n_features)
    fit = lambda X: NeuralRanker(epochs=3, device="cpu").fit(X, train.y, qid=train.qid)  # noqa: E731
    np.testing.assert_allclose(
        fit(train.X * factors).predict(test.X * factors), fit(train.X).predict(test.X), rtol=1e-3, atol=1e-4
    )


# -- seeds and PyTorch's own state -------------------------------------------------------------------------------------


def test_seeds_decide_and_global_state_is_left_alone(parts):
    train, valid, test = parts
    torch.manual_seed(5)
    state, threads = torch.get_rng_state(), torch.get_num_threads()

    def fit(seed):
        return NeuralRanker(epochs=3, dropout=0.3, batch_queries=8, random_state=seed).fit(train, eval_set=valid)

    one, two, other = fit(3), fit(3), fit(4)
    assert all(np.array_equal(a, b) for a, b in zip(one.weights_, two.weights_, strict=True))
    assert not np.allclose(one.predict(test), other.predict(test))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads


def test_pytorchs_threads_are_left_alone():
    """Also where numba's own pool would be OpenMP's and so share its count with PyTorch."""
    out = run(
        """
import torch
torch.set_num_threads(1)
import numba
import gainful
data = gainful.make_artificial(60, n_docs=15, n_features=4)
gainful.NeuralRanker(epochs=2, device="cpu").fit(data, eval_set=data)
print(torch.get_num_threads(), numba.np.ufunc.parallel._is_initialized)
from gainful.compute.threads import thread_count
assert thread_count() == numba.config.NUMBA_NUM_THREADS
numba.set_num_threads(1)
assert thread_count() == 1
""",
        NUMBA_NUM_THREADS="2",
    )
    assert out == "1 False"
    home = Path(gainful.__file__).parent
    asking = {path.name for path in home.rglob("*.py") if "get_num_threads" in path.read_text()}
    assert asking == {"threads.py"}  # nobody else starts that pool


def test_dropout_and_first_weights_have_nothing_in_common():
    net = Net(4, settings_of(hidden=(40,), dropout=0.5))
    drawn = torch.rand(160, generator=net.generator, dtype=torch.float64)
    first = net.weights[0].detach().ravel()
    unit = (first - first.min()) / (first.max() - first.min())
    assert abs(np.corrcoef(drawn.numpy(), unit.numpy())[0, 1]) < 0.5


@pytest.mark.parametrize("hidden", [(), (6,), (6, 3)])
def test_output_scale_multiplies_the_first_weights_of_the_output(hidden):
    usual, scaled = (Net(4, settings_of(hidden=hidden, output_scale=scale)).arrays() for scale in (1.0, 0.25))
    np.testing.assert_array_equal(scaled[-2], 0.25 * usual[-2])
    assert all(np.array_equal(a, b) for a, b in zip(scaled[:-2], usual[:-2], strict=True))


def test_a_net_without_hidden_layers_is_linear(parts, tmp_path):
    train, _, test = parts
    model = NeuralRanker(hidden=(), loss="squared", epochs=5, device="cpu").fit(train)
    W, b = model.weights_
    np.testing.assert_allclose(
        model.predict(test), ((test.X - model.shift_) / model.scale_) @ W[:, 0].astype(float) + b[0], rtol=1e-9
    )
    gainful.save(model, tmp_path / "net.gainful")
    assert np.array_equal(gainful.load(tmp_path / "net.gainful").predict(test), model.predict(test))
    with pytest.raises(ParameterError, match=r"hidden of NeuralRanker must be a list such as \[1, 10\] or \[\], each"):
        NeuralRanker(hidden=[0]).fit(train)


def test_the_usual_settings_do_not_run_out_of_epochs():
    data = gainful.make_artificial(240, seed=0)
    model = NeuralRanker(loss="ranknet", device="cpu").fit(data[:180], eval_set=data[180:])
    assert model.n_iter_ < model.epochs


def test_the_structured_net_starts_from_small_scores(parts):
    assert gainful.ranker("structured-net").get_params()["output_scale"] == 0.01
    assert NeuralRanker().output_scale == 1.0


def test_the_best_epoch_is_kept(parts):
    train, valid, _ = parts
    model = NeuralRanker(epochs=40, early_stopping=3, learning_rate=0.1, device="cpu").fit(train, eval_set=valid)
    figures = [row["validation"] for row in model.history_]
    assert model.best_epoch_ == 1 + int(np.argmax(figures))
    assert model.n_iter_ == min(40, model.best_epoch_ + 3)
    assert gainful.metric("ndcg@10")(model.predict(valid), valid) == max(figures)


# -- losses ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_trains_a_net(name, parts):
    train, _, test = parts
    model = NeuralRanker(loss=name, epochs=15, learning_rate=0.02, hidden=(16,), device="cpu").fit(train)
    noise = gainful.metric("ndcg@10")(np.random.default_rng(0).random(test.n_rows), test)
    assert model.score(test) > noise + 0.1


@pytest.mark.parametrize("name", [*FORMS, *HOST_ONLY])
def test_tensors_train_the_same_net_as_the_compiled_loss(name, parts):
    train, valid, test = parts
    fit = lambda device: NeuralRanker(  # noqa: E731
        loss=name, epochs=4, hidden=(6,), activation="tanh", dtype="float64", batch_queries=20, device=device
    ).fit(train, eval_set=valid)
    np.testing.assert_allclose(fit("torch-cpu").predict(test), fit("cpu").predict(test), rtol=1e-7, atol=1e-8)


def test_functions_are_losses_too(parts):
    train, _, test = parts

    def squared(scores, grades):
        return ((scores - grades) ** 2).mean(), 2.0 * (scores - grades) / len(scores)

    known = NeuralRanker(loss="squared", epochs=3, device="cpu").fit(train).predict(test)
    for own in (squared, numba.njit(squared), gainful.loss(squared, convex=True)):
        model = NeuralRanker(loss=own, epochs=3, device="cpu").fit(train)
        np.testing.assert_allclose(model.predict(test), known, rtol=1e-4, atol=1e-5)
        assert str(model.loss_) == "custom:squared"


def test_staged_losses_receive_the_epoch(parts):
    from gainful.losses.base import Loss, LossEntry

    seen = []

    class Staged:
        def __call__(self, scores, first, last, values, gradient):
            values[first:last], gradient[:] = 0.0, 0.0

        def at(self, iteration, total):
            seen.append((iteration, total))
            return self

    staged = Loss(LossEntry("staged", "For this test.", lambda params, y, offsets: Staged(), staged=True))
    NeuralRanker(loss=staged, epochs=3, batch_queries=1000, device="cpu").fit(parts[0])
    assert seen == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("device", ["cpu", "torch-cpu"])
def test_a_staged_loss_is_chosen_among_its_later_stages(device, parts):
    train, valid, _ = parts
    model = NeuralRanker(loss="reg-shf-sdcg", epochs=21, early_stopping=1, learning_rate=0.05, device=device)
    model.fit(train, eval_set=valid)
    figures = [row["validation"] for row in model.history_]
    assert len(figures) == 21  # early_stopping=1 would have ended most others
    assert figures[:10] == [None] * 10
    assert model.best_epoch_ == 11 + int(np.argmax(figures[10:]))
    if device == "cpu":
        assert gainful.metric("ndcg@10")(model.predict(valid), valid) == max(figures[10:])
    assert NeuralRanker(loss="reg-shf-sdcg", epochs=4, device=device).fit(train).best_epoch_ == 4


def test_a_loss_that_runs_away_is_reported(parts):
    with pytest.raises(DataError, match=r"the loss became .* in epoch \d+; take a lower learning_rate"):
        NeuralRanker(loss="squared", optimizer="sgd", learning_rate=1e6, epochs=20, device="cpu").fit(parts[0])


def going_bad_after(calls):
    """The squared loss, which is NaN from some call on."""
    left = iter([True] * calls)

    def squared(scores, grades):
        value = ((scores - grades) ** 2).mean() if next(left, False) else float("nan")
        return value, 2.0 * (scores - grades) / len(scores)

    return squared


def test_epochs_before_a_loss_ran_away_are_kept(parts):
    train, valid, _ = parts
    bad = going_bad_after(5 * train.n_queries)
    with pytest.warns(ConvergenceWarning, match=r"nan in epoch 6, and training stopped; the model is that of epoch \d"):
        model = NeuralRanker(loss=bad, device="cpu").fit(train, eval_set=valid)
    figures = [row["validation"] for row in model.history_]
    assert len(figures) == 5
    assert gainful.metric("ndcg@10")(model.predict(valid), valid) == max(figures)
    with pytest.raises(DataError, match="the loss became nan in epoch 6"):
        NeuralRanker(loss=going_bad_after(5 * train.n_queries), device="cpu").fit(train)


def test_weights_that_run_away_in_the_last_step_are_reported(parts):
    def steep(scores, grades):
        return 0.0, np.full(len(scores), np.inf)

    with pytest.raises(DataError, match="the weights became infinite in epoch 1"):
        NeuralRanker(loss=steep, batch_queries=10_000, device="cpu").fit(parts[0])


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_steps_beyond_float32_are_refused(optimizer, parts):
    for name in ("learning_rate", "weight_decay", "output_scale"):
        with pytest.raises(ParameterError, match=rf"^{name} of NeuralRanker must be .*, 1e\+06\]"):
            NeuralRanker(optimizer=optimizer, **{name: 1e39}).fit(parts[0])
    largest = {"learning_rate": 1e6, "weight_decay": 1e6, "output_scale": 1e6, "epochs": 1, "batch_queries": 10_000}
    with contextlib.suppress(gainful.DataError):  # a loss or weights beyond numbers, but no error of PyTorch's
        NeuralRanker(optimizer=optimizer, device="cpu", **largest).fit(parts[0])


def test_a_refit_that_fails_leaves_the_model_as_it_was(parts):
    train, valid, test = parts
    model = NeuralRanker(loss="squared", epochs=3, device="cpu").fit(train, eval_set=valid)
    before, facts = model.predict(test), (model.best_epoch_, str(model.loss_))
    model.set_params(loss=going_bad_after(0))
    with pytest.raises(DataError, match="the loss became nan"):
        model.fit(train.X * 5.0 + 3.0, train.y, qid=train.qid, eval_set=valid)
    model.set_params(loss="ranknet")

    def stop(progress):
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        model.fit(train.X * 5.0 + 3.0, train.y, qid=train.qid, eval_set=valid, progress=stop)
    assert np.array_equal(model.predict(test), before)
    assert (model.best_epoch_, str(model.loss_)) == facts


# -- linear models on tensors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["ranknet", "lambda", "listmle", "softrank", "pairwise-hinge"])
def test_the_tensor_risk_is_the_linear_risk(name, dtype, monkeypatch):
    monkeypatch.setattr("gainful.linear.tensor_risk.BLOCK_BYTES", 8 * 4 * 10)  # several blocks
    data = small(n_queries=30, weights=True)
    data = RankingData.from_rows(data.X.astype(dtype), data.y, data.qid, sample_weight=data.row_weights)
    ours, theirs = LinearRisk.of(loss(name), data), TensorLinearRisk(loss(name), data, device="torch-cpu")
    rng = np.random.default_rng(1)
    w, direction = rng.normal(size=4), rng.normal(size=data.n_rows)
    for one, other in zip(ours.value_and_gradient(w), theirs.value_and_gradient(w), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-12)
    scores = rng.normal(size=data.n_rows)
    np.testing.assert_allclose(theirs.along(scores, direction, 0.3), ours.along(scores, direction, 0.3), rtol=1e-10)
    for one, other in zip(ours.value_and_gradient(w), theirs.without_scores(w), strict=False):
        np.testing.assert_allclose(other, one, rtol=1e-10)


@pytest.mark.parametrize("name", ["ranknet", "listnet", "lambda", "pairwise-hinge", "reg-shf-sdcg"])
@pytest.mark.parametrize("scale", [None, "standard"])
def test_linear_rankers_on_tensors(name, scale, parts):
    train, valid, _ = parts
    fit = lambda device: gainful.LinearRanker(  # noqa: E731
        loss=name, C=10.0, max_iter=40, scale=scale, device=device
    ).fit(train, eval_set=valid)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # forty iterations may be too few
        np.testing.assert_allclose(fit("torch-cpu").coef_, fit("cpu").coef_, rtol=1e-5, atol=1e-7)


def test_sparse_features_are_refused_in_words(parts):
    with pytest.raises(ParameterError, match="takes dense features, but these are sparse"):
        gainful.LinearRanker(device="torch-cpu").fit(sparse.csr_array(parts[0].X), parts[0].y, qid=parts[0].qid)


def test_auto_takes_sparse_features_to_the_cpu(parts, monkeypatch):
    """As on a machine with a GPU, where "auto" means it."""
    monkeypatch.setattr(linear, "chosen_device", lambda owner, device: "torch-cpu" if device == "auto" else device)
    train = parts[0]
    fit = lambda X, device: gainful.LinearRanker(C=1.0, device=device).fit(X, train.y, qid=train.qid)  # noqa: E731
    found = fit(sparse.csr_array(train.X), "auto").coef_
    assert np.array_equal(found, fit(sparse.csr_array(train.X), "cpu").coef_)
    np.testing.assert_allclose(found, fit(train.X, "auto").coef_, rtol=1e-5)
    with pytest.raises(ParameterError, match=r"device='torch-cpu' takes dense features"):
        fit(sparse.csr_array(train.X), "torch-cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize("ranker", [NeuralRanker, gainful.LinearRanker])
def test_a_gpu_that_is_not_there_is_refused(ranker, parts):
    with pytest.raises(
        ParameterError, match=r"^device of \w+ must be one that is there, was 'cuda'; PyTorch sees no GPU"
    ):
        ranker(device="cuda").fit(parts[0])
    with pytest.raises(ParameterError, match=r"^device of"):
        ranker(device="gpu").fit(parts[0])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.parametrize("name", FORMS)
def test_a_gpu_trains_the_same_net(name, parts):
    train, valid, test = parts
    fit = lambda device: NeuralRanker(loss=name, epochs=4, dtype="float64", device=device).fit(train, eval_set=valid)  # noqa: E731
    np.testing.assert_allclose(fit("cuda").predict(test), fit("cpu").predict(test), rtol=1e-6, atol=1e-8)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_a_gpu_gives_the_same_bits_again(dropout, parts):
    """Steps recorded as graphs, dropout, the last layer and the sums over pairs included."""
    train, _, test = parts
    fit = lambda: NeuralRanker(loss="lambda", dropout=dropout, epochs=5, batch_queries=8, device="cuda").fit(train)  # noqa: E731
    assert np.array_equal(fit().predict(test), fit().predict(test))


# -- with and without PyTorch ------------------------------------------------------------------------------------------


def run(code, **environment):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_nothing_but_training_a_net_imports_pytorch(parts, tmp_path):
    train, _, test = parts
    path, rows = tmp_path / "net.gainful", tmp_path / "rows.npy"
    model = NeuralRanker(epochs=2, device="cpu").fit(train)
    gainful.save(model, path)
    np.save(rows, test.X)
    out = run(f"""
import sys
import numpy as np
import gainful
for name, entry in gainful.RANKERS.items():
    entry.installed, entry.cls.parameters
data = gainful.make_artificial(6, n_docs=8, n_features=4)
gainful.LinearRanker(max_iter=3, C=1.0).fit(data)
net = gainful.load({str(path)!r})
scores = net.predict(np.load({str(rows)!r}))
gainful.save(net, {str(tmp_path / "again.gainful")!r})
assert "torch" not in sys.modules
print(repr(scores.tolist()))
""")
    assert eval(out) == model.predict(test).tolist()


WITHOUT_TORCH = """
from importlib.machinery import PathFinder
real = PathFinder.find_spec
PathFinder.find_spec = classmethod(lambda cls, name, *rest: None if name == "torch" else real(name, *rest))
"""


def test_the_benchmark_measures_nothing_without_pytorch():
    home = str(Path(__file__).parents[2] / "benchmarks")
    code = f"import runpy, sys\nsys.argv = ['bench_nets.py']\nsys.path.insert(0, {home!r})\n"
    assert run(WITHOUT_TORCH + code + f"runpy.run_path({home!r} + '/bench_nets.py', run_name='__main__')") == ""


def test_a_missing_pytorch_says_how_to_get_it():
    out = run(
        WITHOUT_TORCH
        + """
import gainful
data = gainful.make_artificial(6, n_docs=8, n_features=4)
for model in (gainful.ranker("neural"), gainful.LinearRanker(device="cuda")):
    try:
        model.fit(data)
    except gainful.GainfulError as error:
        print(error)
gainful.LinearRanker(device="auto", C=1.0).fit(data)
assert not gainful.RANKERS["neural"].installed and gainful.RANKERS["linear"].installed
from gainful.comparison.contestants import contestants
assert "neural" not in contestants("all") and "linear" in contestants("all")
"""
    )
    first, second = out.splitlines()
    assert first.startswith("NeuralRanker needs PyTorch, which is not installed; run: pip install '")
    assert "[neural]'" in first
    assert second.startswith("LinearRanker with device='cuda' needs PyTorch")
