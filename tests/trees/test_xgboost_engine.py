"""Trees that XGBoost grows on our objectives. A GPU's code runs in tensors on the CPU, and on a GPU if there is one."""

import json

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import gainful
from gainful.data.dataset import RankingData
from gainful.errors import DataError, ParameterError, UnknownNameError
from gainful.losses import loss
from gainful.trees.objective import LossObjective
from gainful.trees.xgboost_trees import GrownTree, last_below

xgb = pytest.importorskip("xgboost")
torch = pytest.importorskip("torch")
DEVICES = [
    "cpu",
    "torch-cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")),
]
FAR = 2.0**90
SMALL = {"n_trees": 6, "n_leaves": 6, "n_jobs": 1}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def parts():
    data = gainful.make_artificial(60, n_docs=20, n_features=6, seed=0)
    X = data.X.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    return gainful.split(data.replace(X=X), (0.6, 0.2, 0.2), seed=0)


@given(
    conditions=arrays(np.float32, 5, elements=st.floats(-(2.0**90), 2.0**90, width=32)),
    x=st.floats(-(2.0**90), 2.0**90),
)
def test_thresholds_round_as_xgboost_does(conditions, x):
    for value in (x, *np.nextafter(conditions.astype(float), -np.inf), *conditions.astype(float)):
        assert ((value <= last_below(conditions)) == (np.float32(value) < conditions)).all()
    bound = last_below(conditions)
    assert (bound.astype(np.float32) < conditions).all()
    assert (np.nextafter(bound, np.inf).astype(np.float32) >= conditions).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_trees_score_as_in_xgboost(parts, dtype):
    train = parts[0]
    X = train.X.astype(dtype)
    params = {"max_leaves": 8, "grow_policy": "lossguide", "max_depth": 0, "base_score": 0.0, "nthread": 1}
    booster = xgb.train(params, xgb.DMatrix(X, train.y), 5)
    model = json.loads(booster.save_raw("json"))
    trees = [GrownTree.of(tree) for tree in model["learner"]["gradient_booster"]["model"]["trees"]]
    from gainful.trees.tensor_walk import leaf_values
    from gainful.trees.xgboost_engine import as_booster

    ours = as_booster([tree.lines(train.n_rows) for tree in trees], train.n_features)
    expected = booster.predict(xgb.DMatrix(X))
    np.testing.assert_allclose(ours.predict(X), expected, atol=1e-6)
    walked = sum(leaf_values(tree, torch.tensor(X.astype(np.float32))) for tree in trees)
    np.testing.assert_array_equal(walked.numpy(), ours.predict(X))
    assert ours.feature_importance("gain").sum() > 0


def by_hand(scores, gains, truncation, sigmoid, normalize):
    """LightGBM's lambdarank of one query, pair by pair."""
    order = np.argsort(-scores, kind="stable")
    ideal = np.sort(gains)[::-1][:truncation]
    inverse = 1 / max((ideal / np.log2(2 + np.arange(len(ideal)))).sum(), 1e-300)
    g, h, total = np.zeros(len(scores)), np.zeros(len(scores)), 0.0
    for a in range(min(truncation, len(scores) - 1)):
        for b in range(a + 1, len(scores)):
            i, j = (order[a], order[b]) if gains[order[a]] > gains[order[b]] else (order[b], order[a])
            if gains[i] == gains[j]:
                continue
            apart = scores[i] - scores[j]
            change = (gains[i] - gains[j]) * abs(1 / np.log2(2 + a) - 1 / np.log2(2 + b)) * inverse
            if normalize and scores.max() != scores.min():
                change /= 0.01 + abs(apart)
            p = 1 / (1 + np.exp(sigmoid * apart))
            g[i] -= sigmoid * p * change
            g[j] += sigmoid * p * change
            h[[i, j]] += sigmoid**2 * p * (1 - p) * change
            total += 2 * sigmoid * p * change
    factor = np.log2(1 + total) / total if normalize and total > 0 else 1.0
    return g * factor, h * factor


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("truncation", [3, 30])
def test_lambdarank_pair_by_pair(normalize, truncation):
    from gainful.trees.lambdarank_tensors import LambdaRank

    rng = np.random.default_rng(1)
    counts = [1, 4, 9, 9, 2]
    y, qid = rng.integers(0, 4, 25).astype(float), np.repeat(np.arange(5), counts)
    data = RankingData.from_rows(np.zeros((25, 1)), y, qid)
    scores, gains = np.round(rng.normal(size=25), 1), 2**y - 1
    about = {"truncation": truncation, "sigmoid": 1.5, "normalize": normalize}
    for given_scores in (scores, np.zeros(25)):
        found = LambdaRank(data, gains, **about, device="cpu")(given_scores, 1)
        for q in range(5):
            expected = by_hand(given_scores[qid == q], gains[qid == q], **about)
            for ours, theirs in zip(found, expected, strict=True):
                np.testing.assert_allclose(ours[qid == q], theirs, atol=1e-12)


def test_lambdarank_is_lightgbms(parts):
    """The same first trees as LightGBM's own objective, grown by LightGBM from our gradients."""
    from gainful.trees.lambdarank_tensors import LambdaRank

    train = parts[0]
    params = {
        "num_leaves": 4,
        "verbosity": -1,
        "num_threads": 1,
        "lambdarank_truncation_level": 5,
    }
    about = {"label": train.y, "group": train.counts, "params": {"verbosity": -1}}
    own = lgb.Booster(params | {"objective": "lambdarank"}, lgb.Dataset(train.X, **about))
    ours = lgb.Booster(params | {"objective": "none"}, lgb.Dataset(train.X, **about))
    objective = LambdaRank(train, 2**train.y - 1, truncation=5, sigmoid=1.0, normalize=True, device="cpu")
    for number in range(1, 4):
        own.update()
        ours.update(fobj=lambda scores, _, number=number: objective(np.asarray(scores), number))
    np.testing.assert_allclose(ours.predict(train.X), own.predict(train.X), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["ranknet", "lambda", "lambda(k=5)", "lambdaloss", "listnet", "xendcg"])
def test_curvatures_in_tensors_are_the_compiled_ones(parts, name):
    from gainful.trees.tensor_objective import TensorObjective

    train = parts[0]
    scores = np.round(np.random.default_rng(0).normal(size=train.n_rows), 1)
    expected = LossObjective(loss(name), train, 10)(scores, 1)
    objective = TensorObjective(loss(name), train, 10, device="torch-cpu")
    assert objective.form is not None
    for ours, theirs in zip(objective(torch.tensor(scores), 1), expected, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("lambdamart", {}),
        ("boosted", {"loss": "lambda", "start_trees": 2}),
        ("boosted", {"loss": "listmle"}),  # whose curvature is computed on the host
        ("sdcg", {"start_trees": 2}),
    ],
)
def test_models_are_like_any_other(parts, tmp_path, device, name, given):
    train, valid, test = parts
    model = gainful.ranker(name, **SMALL, engine="xgboost", device=device, **given).fit(train, eval_set=valid)
    assert len(model.history_) == 6
    assert model.score(train) > 0.6
    assert model.history_[model.best_iteration_ - 1]["validation"] == pytest.approx(model.score(valid), abs=1e-9)
    gainful.save(model, tmp_path / "model.gainful")
    again = gainful.load(tmp_path / "model.gainful")
    np.testing.assert_array_equal(again.predict(test), model.predict(test))
    np.testing.assert_allclose(model.contributions(test).sum(axis=1), model.predict(test), atol=1e-9)
    assert model.feature_importances_.sum() > 0


def test_export_and_continuing(parts, tmp_path):
    train, _, test = parts
    model = gainful.LambdaMART(**SMALL, engine="xgboost").fit(train)
    first = model.booster_.model_to_string(num_iteration=6)
    gainful.export(model, tmp_path / "model.json", to="xgboost", check_on=test)
    more = model.set_params(warm_start=True, n_trees=9).fit(train)
    assert more.best_iteration_ == 9
    kept = lgb.Booster(model_str=first).predict(test.X)
    np.testing.assert_array_equal(more.booster_.predict(test.X, num_iteration=6), kept)
    whole = gainful.LambdaMART(**SMALL | {"n_trees": 9}, engine="xgboost").fit(train)
    np.testing.assert_allclose(more.predict(test), whole.predict(test), atol=1e-6)


def test_same_seed_same_model(parts):
    train = parts[0]
    given = SMALL | {"subsample": 0.5, "colsample": 0.5, "engine": "xgboost", "monotone": {0: 1}}
    a, b, c = (gainful.BoostedRanker("listnet", **given, random_state=seed).fit(train) for seed in (1, 1, 2))
    np.testing.assert_array_equal(a.predict(train), b.predict(train))
    assert (a.predict(train) != c.predict(train)).any()
    row = np.zeros((50, 6))
    row[:, 0] = np.linspace(-3, 3, 50)
    assert (np.diff(a.predict(row)) >= 0).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"device": "cuda"}, "device='cuda' needs engine='xgboost'"),
        ({"engine": "xgboost", "bins": "exact"}, "has no bins='exact'"),
        ({"engine": "xgboost", "engine_params": {"eta": 0.1}}, "has no parameter 'eta'"),
        ({"engine": "catboost"}, "engine"),
    ],
)
def test_refusals_of_parameters(parts, given, message):
    with pytest.raises((ParameterError, UnknownNameError), match=message):
        gainful.LambdaMART(**given).fit(parts[0])


def test_refusals_of_data(parts, tmp_path):
    from scipy import sparse

    train = parts[0]
    dense = np.nan_to_num(train.X)
    with pytest.raises(DataError, match="takes dense features"):
        gainful.LambdaMART(engine="xgboost").fit(train.replace(X=sparse.csr_array(dense)))
    with pytest.raises(DataError, match="takes no categories"):
        gainful.LambdaMART(engine="xgboost", categorical=[0]).fit(train.replace(X=np.abs(dense).round()))
    with pytest.raises(ParameterError, match="does not write checkpoints"):
        gainful.LambdaMART(engine="xgboost").fit(train, checkpoint=tmp_path / "c")
