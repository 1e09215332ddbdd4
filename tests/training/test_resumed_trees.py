"""Trees that were stopped and resumed are the trees that would have grown without a stop."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pytest
from killed_training import Stop, kill_in_the_middle, problem, without_seconds

import gainful
from gainful import ParameterError
from gainful.data.query_weights import rows_of_mean_one
from gainful.errors import InterruptedFitWarning
from gainful.trees.query_sampling import QuerySample

COMMON = {"n_trees": 30, "n_leaves": 6, "min_docs_in_leaf": 5, "subsample": 0.7, "colsample": 0.7,
          "early_stopping": 8, "n_jobs": 1}  # fmt: skip


def trees(booster) -> str:
    text = booster.model_to_string()
    return text[text.index("Tree=0") : text.index("end of trees")]


def fit(name, settings, **how):
    train, valid = problem()
    return gainful.ranker(name, **COMMON | settings).fit(train, eval_set=valid, **how)


def assert_same(resumed, whole):
    assert trees(resumed.booster_) == trees(whole.booster_)
    assert without_seconds(resumed.history_) == without_seconds(whole.history_)
    assert (resumed.best_iteration_, resumed.n_iter_) == (whole.best_iteration_, whole.n_iter_)
    assert not resumed.interrupted_
    _, valid = problem()
    assert np.array_equal(resumed.predict(valid), whole.predict(valid))


# -- killed ------------------------------------------------------------------------------------------------------------

KILLED = {
    "lambdamart": {},
    "lambdamart-plain": {},
    "sdcg": {"start_trees": 3},
    "mcrank": {"early_stopping": None, "n_trees": 15},
}


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The folder with the checkpoints of trainings that were killed in their ninth iteration."""
    folder = tmp_path_factory.mktemp("killed")
    kill_in_the_middle(folder, {name: COMMON | settings for name, settings in KILLED.items()}, 9)
    return folder


@pytest.mark.parametrize("name", KILLED)
def test_a_killed_training_goes_on_with_the_same_trees(killed, name):
    path = killed / f"{name}.ckpt"
    seen = []
    resumed = fit(name, KILLED[name], checkpoint=path, progress=lambda event: seen.append(event.iteration) and None)
    whole = fit(name, KILLED[name])
    assert_same(resumed, whole)
    assert seen == list(range(9, whole.n_iter_ + 1))
    assert not path.exists()
    seconds = [row["seconds"] for row in resumed.history_]
    assert seconds == sorted(seconds)


# -- stopped in other ways ---------------------------------------------------------------------------------------------


def holes():
    """Data with missing values and a feature of categories."""
    train, valid = problem()
    rng = np.random.default_rng(5)
    parts = []
    for part in (train, valid):
        X = part.X.copy()
        X[rng.random(X.shape) < 0.1] = np.nan
        X[:, 3] = rng.integers(0, 9, len(X))
        parts.append(part.replace(X=X))
    return parts


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("lambdamart", {"categorical": [3], "bins": 20}),
        ("mcrank", {"categorical": [3], "bins": "exact"}),
        ("mcrank-ordinal", {}),
        ("tree-regression", {"engine_params": {"max_depth": 3, "path_smooth": 1.0}}),
        ("reg-shf-sdcg", {}),
        ("gbrank", {"update": "average"}),
    ],
)
def test_ctrl_c_with_missing_values_and_categories(tmp_path, name, settings):
    train, valid = holes()
    path = tmp_path / "c.ckpt"
    whole = gainful.ranker(name, **COMMON | settings).fit(train, eval_set=valid)
    for last, interrupt in ((1, False), (3, True), (5, False)):  # each continues from the one before
        model = gainful.ranker(name, **COMMON | settings)
        with pytest.warns(InterruptedFitWarning):
            model.fit(train, eval_set=valid, checkpoint=path, progress=Stop(last, interrupt))
        assert model.n_iter_ == last
    resumed = gainful.ranker(name, **COMMON | settings).fit(train, eval_set=valid, checkpoint=path)
    assert_same(resumed, whole)


def test_ctrl_c_within_a_tree(tmp_path):
    """What is kept ends with the last tree that was measured."""
    path, calls = tmp_path / "c.ckpt", []

    def loss(scores, grades):
        calls.append(1)
        if len(calls) == 500:
            raise KeyboardInterrupt
        return float(((scores - grades) ** 2).sum()), 2 * (scores - grades)

    settings = {"loss": loss, "early_stopping": None, "n_trees": 14}
    with pytest.warns(InterruptedFitWarning):
        stopped = fit("boosted", settings, checkpoint=path, checkpoint_every=1e6)
    assert 5 < stopped.n_iter_ < 14
    assert_same(fit("boosted", settings, checkpoint=path), fit("boosted", settings))


def test_a_training_that_had_ended_ends_at_once(tmp_path):
    path = tmp_path / "c.ckpt"
    whole = fit("lambdamart", {})
    with pytest.warns(InterruptedFitWarning):
        fit(
            "lambdamart", {}, checkpoint=path, progress=Stop(whole.n_iter_)
        )  # in the iteration that runs out of patience
    seen = []
    resumed = fit("lambdamart", {}, checkpoint=path, progress=lambda event: seen.append(event))
    assert_same(resumed, whole)
    assert not seen


def test_a_seed_drawn_at_random_is_kept(tmp_path):
    path = tmp_path / "c.ckpt"
    whole = fit("lambdamart", {"random_state": np.random.RandomState(1)})
    with pytest.warns(InterruptedFitWarning):
        fit("lambdamart", {"random_state": np.random.RandomState(1)}, checkpoint=path, progress=Stop(4))
    assert_same(fit("lambdamart", {"random_state": np.random.RandomState(2)}, checkpoint=path), whole)


def test_going_on_from_a_model_can_be_stopped_too(tmp_path):
    train, valid = problem()
    path = tmp_path / "c.ckpt"
    settings = COMMON | {"early_stopping": None}

    def first():
        model = gainful.ranker("lambdamart", **settings | {"n_trees": 6}).fit(train, eval_set=valid)
        return model.set_params(n_trees=16, warm_start=True)

    whole = first().fit(train, eval_set=valid)
    with pytest.warns(InterruptedFitWarning):
        first().fit(train, eval_set=valid, checkpoint=path, progress=Stop(11))
    with pytest.raises(gainful.GainfulError, match="trees to go on from was"):
        gainful.ranker("lambdamart", **settings | {"n_trees": 16, "warm_start": True}).fit(
            train, eval_set=valid, checkpoint=path
        )
    assert_same(first().fit(train, eval_set=valid, checkpoint=path), whole)


@pytest.mark.parametrize("extra", [{"extra_trees": True}, {"boosting": "goss"}, {"feature_fraction_bynode": 0.5}])
def test_what_cannot_be_resumed_is_refused(extra, tmp_path):
    with pytest.raises(ParameterError, match=rf"{next(iter(extra))}=.* cannot resume from a checkpoint"):
        fit("lambdamart", {"engine_params": extra}, checkpoint=tmp_path / "c.ckpt")


@pytest.mark.parametrize("subsample", [0.7, 1.0])
@pytest.mark.parametrize("weightless", [(4.0,), (4.0, 0.0)])
def test_classes_without_weight(tmp_path, subsample, weightless):
    """LightGBM grows no trees for them, and draws no features."""
    train, _ = problem()
    y, weights = train.y.copy(), np.ones(train.n_queries)
    for q, grade in enumerate(weightless):
        y[y == grade] = 2.0
        y[train.offsets[q] : train.offsets[q + 1]] = grade
        weights[q] = 0.0
    train = train.replace(y=y, query_weights=weights)
    path, settings = tmp_path / "c.ckpt", COMMON | {"early_stopping": None, "n_trees": 8, "subsample": subsample}
    with pytest.warns(InterruptedFitWarning):
        gainful.ranker("mcrank", **settings).fit(train, checkpoint=path, progress=Stop(4))
    resumed = gainful.ranker("mcrank", **settings).fit(train, checkpoint=path)
    whole = gainful.ranker("mcrank", **settings).fit(train)
    # LightGBM writes the leaf of a tree without splits as it was grown ("leaf_weight=0") or read ("leaf_weight=")
    plain = [trees(model.booster_).replace("leaf_weight=0\n", "leaf_weight=\n") for model in (resumed, whole)]
    assert plain[0] == plain[1]


@pytest.mark.parametrize("name", ["bagging_by_query", "bagging_freq", "subsample_freq", "bagging_seed", "bagging"])
def test_settings_of_samples_are_gainfuls(name):
    with pytest.raises(ParameterError, match=rf"must not set '{name}'; use subsample= instead"):
        fit("lambdamart", {"engine_params": {name: 1}})


# -- samples of queries ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("tree-regression", {"objective": "regression"}),
        ("lambdamart", {"objective": "lambdarank", "label_gain": [0, 1, 3, 7, 15]}),
        ("mcrank", {"objective": "multiclass", "num_class": 5}),
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_tree_fits_the_queries_drawn_for_it(name, params, weighted):
    """Tree t is what LightGBM grows first, from the scores so far, with weight 0 for queries that are not drawn."""
    train, _ = problem()
    if weighted:
        train = train.replace(query_weights=np.random.default_rng(0).uniform(0.5, 2, train.n_queries))
    model = gainful.ranker(name, **COMMON | {"n_trees": 5, "colsample": 1.0, "early_stopping": None}).fit(train)
    sample = QuerySample(train, 0.7, 0)
    settings = params | {"num_leaves": 6, "min_data_in_leaf": 5, "learning_rate": model.learning_rate, "verbosity": -1,
                         "num_threads": 1, "deterministic": True, "force_row_wise": True}  # fmt: skip
    per = params.get("num_class", 1)
    grown = [tree.split("\n", 1)[1] for tree in trees(model.booster_).split("Tree=")[1:]]
    for t in range(1, 5):
        before = lgb.Booster(model_str=model.booster_.model_to_string(num_iteration=t))
        rows = sample.rows(t + 1)
        assert len(np.unique(train.qid[rows > 0])) == round(0.7 * train.n_queries)
        data = lgb.Dataset(
            train.X,
            label=train.y,
            group=train.counts,
            weight=rows * rows_of_mean_one(train) if weighted else rows,
            init_score=before.predict(train.X, raw_score=True).ravel(order="F"),
            params=settings,
        )
        alone = lgb.Booster(settings, data.construct())
        alone.update()
        expected = [tree.split("\n", 1)[1] for tree in trees(alone).split("Tree=")[1:]]
        assert grown[per * t : per * (t + 1)] == expected


@pytest.mark.parametrize("name", ["tree-regression", "lambdamart", "mcrank"])
def test_a_sample_of_all_queries_is_all_of_them(name):
    train, _ = problem()
    settings = COMMON | {"colsample": 1.0, "early_stopping": None}
    sampled, whole = (gainful.ranker(name, **settings | {"subsample": share}).fit(train) for share in (0.999, 1.0))
    assert np.allclose(sampled.predict(train), whole.predict(train), rtol=1e-3, atol=1e-3)
