"""Nets over lists: what a score depends on, and what it does not; padding, seeds, and everyone who predicts."""

from __future__ import annotations

import itertools

import numpy as np
import onnxruntime
import pytest
import torch
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gainful
from gainful import AttentionRanker, DataError, GainfulError, ParameterError, RankingData
from gainful.data.query_weights import query_shares
from gainful.losses import loss
from gainful.nets.epochs import Epochs
from gainful.nets.lists import CPU_SLACK, Layout, ListNet, ListNetSettings
from gainful.nets.train import Batches, Inputs, scores_of
from gainful.rankers import scorers

QUICK = {"epochs": 3, "hidden": (8,), "models": 2, "device": "cpu"}


def settings_of(**changed):
    usual = {
        "hidden": (6, 4), "activation": "tanh", "dropout": 0.0, "batch_queries": 100, "optimizer": "sgd",
        "learning_rate": 0.1, "weight_decay": 0.0, "epochs": 1, "device": "cpu", "dtype": "float64", "seed": 1,
        "heads": 2, "blocks": 2, "models": 2,
    }  # fmt: skip
    return ListNetSettings(**(usual | changed))


def ragged(counts=(5, 1, 3, 12, 5, 2, 40), d=4, seed=0, weights=False):
    rng, counts = np.random.default_rng(seed), np.array(counts)
    X, y = rng.normal(size=(counts.sum(), d)), rng.integers(0, 3, counts.sum()).astype(float)
    qid = np.repeat(np.arange(len(counts)), counts)
    sample_weight = np.repeat(rng.random(len(counts)) + 0.1, counts) if weights else None
    return RankingData.from_rows(X, y, qid, sample_weight=sample_weight)


def plain(data):
    return Inputs(np.zeros(data.n_features), np.ones(data.n_features), "float64")


def net_with_context(data, **changed):
    """A net whose attention counts: at the start of training its gains are 0."""
    net, rng = ListNet(data.n_features, settings_of(**changed)), np.random.default_rng(3)
    with torch.no_grad():
        for weight in net.weights:
            weight += torch.from_numpy(0.3 * rng.normal(size=weight.shape))
    return net


@pytest.fixture(scope="module")
def fitted(parts):
    return AttentionRanker(**QUICK | {"epochs": 12, "learning_rate": 0.01}).fit(parts[0], eval_set=parts[1])


# -- what a score depends on -------------------------------------------------------------------------------------------


def test_permuting_the_documents_of_a_query_permutes_its_scores(fitted, parts, rng):
    test = parts[2]
    scores = fitted.predict(test)
    for query, (a, b) in enumerate(itertools.pairwise(test.offsets)):
        order = rng.permutation(b - a)
        mixed = fitted.predict(test.X[a:b][order], group=[b - a])
        np.testing.assert_allclose(mixed, scores[a:b][order], rtol=1e-9, atol=1e-9 * scores.std(), err_msg=str(query))


def test_the_other_documents_of_the_query_count(fitted, parts):
    one = parts[2][0]
    whole, half = fitted.predict(one), fitted.predict(one.X[::2], group=[len(one.X[::2])])
    assert np.abs(whole[::2] - half).max() > 1e-3 * whole.std()


def test_other_queries_do_not_count_to_the_last_bit(fitted, parts):
    test = parts[2]
    scores = fitted.predict(test)
    for query in range(test.n_queries):
        assert np.array_equal(fitted.predict(test[query]), scores[test.offsets[query] : test.offsets[query + 1]])


def test_rows_of_a_query_need_not_be_adjacent(fitted, parts, rng):
    test = parts[2]
    order = rng.permutation(test.n_rows)
    mixed = fitted.predict(test.X[order], qid=test.qid[order])
    np.testing.assert_allclose(mixed, fitted.predict(test)[order], rtol=1e-9, atol=1e-12)


def test_lists_of_one_document_and_of_very_many_have_scores(fitted, monkeypatch, rng):
    X = rng.normal(size=(700, fitted.n_features_in_))
    scores = fitted.predict(X, group=[700])
    monkeypatch.setattr(scorers, "LIST_PAIRS", 5_000)  # a few rows of the list at a time
    np.testing.assert_allclose(fitted.predict(X, group=[700]), scores, rtol=1e-9, atol=1e-12)
    assert np.isfinite(fitted.predict(X[:3], group=[1, 1, 1])).all()


def test_models_are_averaged(fitted, parts):
    test, scorer = parts[2], fitted._scorer()
    each = []
    for model in range(2):
        own = [weight[model : model + 1] for weight in fitted.weights_]
        alone = scorers.ListNet.of_weights(own, 1, fitted.heads, fitted.activation, scorer.inputs)
        each.append(alone.scores_of_lists(test.X, test.offsets))
    np.testing.assert_allclose(np.mean(each, axis=0), fitted.predict(test), rtol=1e-12)
    assert not np.allclose(*each)


# -- training ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ranknet", "listnet"])
@pytest.mark.parametrize("device", ["cpu", "torch-cpu"])
def test_gradients_through_attention_by_finite_differences(name, device):
    data = ragged(weights=True)
    net = net_with_context(data, device=device)
    at = net.weights[0].detach().ravel()[:0]
    batches = Batches(loss(name), data, net.settings, plain(data), at, net.layout)
    found = []

    class Recorder:
        def zero_grad(self):
            for weight in net.weights:
                weight.grad = None

        def step(self):
            found.extend(weight.grad.numpy().copy() for weight in net.weights)

    def objective():
        with torch.no_grad():
            each = net(torch.from_numpy(np.array(data.X)), layout=net.layout(data.counts)).numpy()
        return sum(float(query_shares(data) @ loss(name).of_queries(one, data.y, data.offsets)[0]) for one in each)

    value = Epochs(net, batches, Recorder())(np.arange(1))
    assert value == pytest.approx(objective() / 2, rel=1e-9)  # two models
    h, rng = 1e-6, np.random.default_rng(0)
    for weight, gradient in zip(net.weights, found, strict=True):
        flat = weight.detach().view(-1)
        for i in rng.choice(len(flat), min(len(flat), 6), replace=False):
            kept = float(flat[i])
            flat[i] = kept + h
            up = objective()
            flat[i] = kept - h
            expected = (up - objective()) / (2 * h)
            flat[i] = kept
            assert gradient.ravel()[i] == pytest.approx(expected, rel=1e-4, abs=1e-8)


def test_lists_padded_together_score_as_each_alone():
    data = ragged()
    net = net_with_context(data)
    together = scores_of(net, data.X, plain(data), data.offsets)
    for a, b in itertools.pairwise(data.offsets):
        alone = scores_of(net, data.X[a:b], plain(data), np.array([0, b - a]))
        np.testing.assert_allclose(together[a:b], alone, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_padding_is_little(seed):
    rng = np.random.default_rng(seed)
    counts = np.clip(rng.lognormal(4.0, 0.8, 64), 1, 1000).astype(np.int64)
    layout = Layout(counts, torch.device("cpu"))
    padded = sum(group.m * group.n**2 for group in layout.groups)
    useful = int((counts**2).sum())
    assert padded - useful <= useful / 4 + CPU_SLACK * len(layout.groups)
    assert sorted(np.concatenate([group.own for group in layout.groups])) == list(range(counts.sum()))


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "silu"])
def test_scores_need_no_pytorch_and_are_pytorchs(activation):
    data = ragged()
    changed = {"activation": activation, "hidden": (6,), "models": 3, "heads": 3, "dtype": "float64"}
    model = AttentionRanker(epochs=2, learning_rate=0.1, device="cpu", **changed).fit(data)
    net = ListNet(data.n_features, settings_of(**changed, blocks=1))
    net.weights = [torch.from_numpy(weight) for weight in model.weights_]
    inputs = Inputs(model.shift_, model.scale_, "float64", model.unit_)
    expected = scores_of(net, data.X, inputs, data.offsets)
    np.testing.assert_allclose(model.predict(data), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["lambda", "listnet", "structured-ndcg"])
def test_tensors_train_the_same_net_as_the_compiled_loss(name, parts):
    train, valid, test = parts
    one, other = (
        AttentionRanker(**QUICK | {"loss": name, "dtype": "float64", "device": device}).fit(train, eval_set=valid)
        for device in ("cpu", "torch-cpu")
    )
    np.testing.assert_allclose(one.predict(test), other.predict(test), rtol=1e-7, atol=1e-8)
    assert [row["validation"] for row in one.history_] == pytest.approx([row["validation"] for row in other.history_])


def test_seeds_decide_and_global_state_is_left_alone(parts):
    train, _, test = parts
    torch.manual_seed(5)
    state = torch.get_rng_state()
    one, two, other = (
        AttentionRanker(**QUICK, dropout=0.2, noise=0.2, random_state=seed).fit(train) for seed in (3, 3, 4)
    )
    assert all(np.array_equal(a, b) for a, b in zip(one.weights_, two.weights_, strict=True))
    assert not np.allclose(one.predict(test), other.predict(test))
    assert torch.equal(torch.get_rng_state(), state)


def test_a_first_net_ignores_the_list_and_training_uses_it(parts):
    data = ragged()
    net = ListNet(data.n_features, settings_of())
    alone = [scores_of(net, data.X[i : i + 1], plain(data), np.array([0, 1]))[0] for i in range(data.n_rows)]
    np.testing.assert_allclose(scores_of(net, data.X, plain(data), data.offsets), alone, rtol=1e-9)
    model = AttentionRanker(**QUICK).fit(parts[0])
    assert np.abs(model.weights_[-4]).min() > 0.0  # gains of the normalisation


def test_noise_and_dropout_are_of_training_only():
    data = ragged()
    net = net_with_context(data, noise=0.5, dropout=0.5)
    x, layout = torch.from_numpy(np.array(data.X)), net.layout(data.counts)
    with torch.no_grad():
        assert torch.equal(net(x, layout=layout), net(x, layout=layout))
        assert not torch.equal(net(x, train=True, layout=layout), net(x, train=True, layout=layout))


def test_it_learns_what_no_row_tells_alone():
    """Relevant is the document nearest to the mean of its list: a row alone knows nothing of it."""
    rng = np.random.default_rng(0)
    centres = 5.0 * rng.normal(size=(400, 1, 2))
    X = centres + rng.normal(size=(400, 8, 2))
    y = (np.abs(X - X.mean(axis=1, keepdims=True)).sum(axis=2).argsort(axis=1).argsort(axis=1) < 2).astype(float)
    data = RankingData.from_rows(X.reshape(-1, 2), y.ravel(), np.repeat(np.arange(400), 8))
    common = {"hidden": (32,), "loss": "listnet", "epochs": 40, "learning_rate": 0.01, "device": "cpu"}
    net = AttentionRanker(**common, models=1, noise=0.0, dropout=0.0, log_scale=False).fit(data[:300])
    alone = gainful.NeuralRanker(**common).fit(data[:300])
    assert net.score(data[300:]) > alone.score(data[300:]) + 0.05


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"heads": 3, "hidden": (8,)}, "heads of AttentionRanker must be a divisor of the last of hidden, 8, was 3"),
        ({"hidden": ()}, "hidden of AttentionRanker must be"),
        ({"blocks": 0}, "blocks of AttentionRanker must be"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(params, message, parts):
    with pytest.raises(ParameterError, match=message):
        AttentionRanker(**params).fit(parts[0])


# -- everyone who predicts ---------------------------------------------------------------------------------------------


def test_names_that_differ_by_a_dash():
    with pytest.raises(ParameterError, match="listnet has no parameter 'heads'; 'list-net' does, another ranker"):
        gainful.ranker("listnet", heads=4)
    with pytest.raises(ParameterError, match="did you mean 'listnet' or 'list-net'"):
        gainful.ranker("ListNet")
    with pytest.raises(ParameterError, match="'list-net' does, another ranker"):
        gainful.compare("listnet:heads=4", ragged())


def test_a_blend_of_lists_and_rows(parts, tmp_path):
    train, _, test = parts
    members = ["list-net:epochs=2:hidden=[8]:device=cpu:models=1", "regression"]
    blend = gainful.Blend(members=members, folds=3, weights="uniform", n_jobs=1).fit(train)
    assert blend.needs_queries
    assert np.isfinite(blend.out_of_fold_scores_).all()
    with pytest.raises(DataError, match="qid is missing; Blend scores the documents of a query together"):
        blend.predict(test.X)
    gainful.save(blend, tmp_path / "blend.gainful")
    again = gainful.load(tmp_path / "blend.gainful")
    assert again.needs_queries
    assert np.array_equal(again.predict(test), blend.predict(test))
    expected = sum(factor * model.predict(test) for model, factor in zip(blend._models, blend._factors, strict=True))
    scores = blend.predict(test.X, qid=test.qid)
    assert np.corrcoef(scores, expected)[0, 1] == pytest.approx(1.0)


def test_auto_takes_it_by_name(parts):
    train, _, test = parts
    model = gainful.Auto(trials=2, folds=3, n_jobs=1, rankers=["list-net", "regression"]).fit(train[:12])
    assert any("list-net" in row.name for row in model.leaderboard_.members)
    assert np.isfinite(model.predict(test)).all()


def test_it_is_evaluated_compared_and_distilled(fitted, parts):
    train, _, test = parts
    value = gainful.metric("ndcg@10")(fitted.predict(test), test)
    assert gainful.evaluate(fitted, test, metrics=["ndcg@10"]) == {"ndcg@10": pytest.approx(value)}
    # without its own scale, the net behind a scaler is the net that scales
    same = {"log_scale": False, "models": 1, "dtype": "float64"}
    ours = AttentionRanker(**QUICK | same)
    pipeline = make_pipeline(StandardScaler(), AttentionRanker(**QUICK | same, scale=None))
    result = gainful.compare({"ours": ours, "pipeline": pipeline}, train, test=test, metrics=["ndcg@10"], tests=[])
    assert result.mean("ours", "ndcg@10") == pytest.approx(result.mean("pipeline", "ndcg@10"), abs=0.01)
    student = gainful.distill(fitted, train, "regression", test=test)
    assert not student.model.needs_queries


def test_scikit_learns_scorer_hands_over_the_queries(parts):
    train, _, test = parts
    pipeline = make_pipeline(StandardScaler(), AttentionRanker(**QUICK))
    pipeline.fit(train.X, train.y, attentionranker__qid=train.qid)
    value = gainful.scorer("ndcg@10")(pipeline, test.X, test.y, qid=test.qid)
    assert value == gainful.metric("ndcg@10")(pipeline.predict(test.X, qid=test.qid), test)


def test_a_dask_array_is_refused(fitted):
    da = pytest.importorskip("dask.array")
    with pytest.raises(DataError, match="and a Dask array or frame may divide a query; open the files with"):
        fitted.predict(da.zeros((8, fitted.n_features_in_), chunks=(4, -1)))


def test_there_are_no_contributions(fitted, parts):
    with pytest.raises(GainfulError, match="AttentionRanker is not a sum over features"):
        gainful.explain(fitted, parts[2])


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("params", [{}, {"log_scale": False, "scale": None}, {"activation": "silu", "blocks": 2}])
def test_onnx_scores_lists_of_any_length(params, parts, tmp_path):
    train, _, test = parts
    model = AttentionRanker(**QUICK, **params).fit(train)
    done = gainful.export(model, tmp_path / "net.onnx", to="onnx", check_on=test)
    assert any("once per query" in note for note in done.notes)
    session = onnxruntime.InferenceSession((tmp_path / "net.onnx").read_bytes())
    X = test.X.astype(np.float32)
    for n in (1, 2, 7, test.n_rows):
        (found,) = session.run(None, {"features": X[:n]})
        expected = model.predict(X[:n].astype(np.float64), group=[n])
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_onnx_holds_a_blend_with_lists(parts, tmp_path):
    train, _, test = parts
    members = ["list-net:epochs=2:hidden=[8]:device=cpu:models=1", "regression", "lambdamart:n_trees=3:n_jobs=1"]
    blend = gainful.Blend(members=members, folds=3, weights="uniform", n_jobs=1).fit(train)
    gainful.export(blend, tmp_path / "blend.onnx", to="onnx", check_on=test)
    session = onnxruntime.InferenceSession((tmp_path / "blend.onnx").read_bytes())
    one = test[0]
    (found,) = session.run(None, {"features": one.X.astype(np.float32)})
    np.testing.assert_allclose(found, blend.predict(one), rtol=1e-3, atol=1e-4)
    with pytest.raises(GainfulError, match="scores the documents of a query together, the format each by itself; use"):
        gainful.export(blend, tmp_path / "blend.json", to="json")


def test_a_scaler_in_front_goes_along_or_is_refused(parts, tmp_path):
    train, _, test = parts
    for log_scale, good in ((False, True), (True, False)):
        pipeline = make_pipeline(StandardScaler(), AttentionRanker(**QUICK, log_scale=log_scale))
        pipeline.fit(train.X, train.y, attentionranker__qid=train.qid)
        if good:
            gainful.export(pipeline, tmp_path / "net.onnx", to="onnx", check_on=test)
            continue
        with pytest.raises(GainfulError, match="StandardScaler in front of a net with a logarithmic scale"):
            gainful.export(pipeline, tmp_path / "other.onnx", to="onnx")


def test_damaged_states_are_refused(fitted):
    state = fitted._pack()
    for name, value in (("unit", -fitted.unit_), ("weights_2", fitted.weights_[2][:1]), ("n_weights", 3)):
        model = AttentionRanker(**fitted.get_params())
        model.n_features_in_ = fitted.n_features_in_
        with pytest.raises(ValueError, match=r"unit is not positive|weights_2 does not have|n_weights does not"):
            model._unpack(state | {name: value})
