"""Boosted trees of any loss: the gradients reach LightGBM as they are, and its own features pass through."""

from __future__ import annotations

from itertools import pairwise

import lightgbm as lgb
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import gainful
from gainful import BoostedRanker, DataError, LambdaMART, ParameterError, RankingData
from gainful.compute.query_loop import gradient_and_curvature

QUICK = {"n_trees": 12, "n_leaves": 6, "n_jobs": 1}
PLAIN = {"num_leaves": 6, "num_threads": 1, "verbosity": -1, "seed": 0, "deterministic": True, "force_row_wise": True}


def by_hand(data, gradients, n_trees=12, **params):
    """The same trees straight from LightGBM's custom objective."""
    settings = {**PLAIN, **params, "objective": gradients}
    train = lgb.Dataset(data.X, label=data.y, group=data.counts)
    return lgb.train(settings, train, n_trees)


def test_a_gradient_step_fits_the_gradient_of_the_loss(parts):
    train, _, test = parts
    loss = gainful.loss("pairwise-hinge")

    def gradients(scores, _):
        gradient = loss.of_queries(scores, train.y, train.offsets)[1]
        return 7.0 * gradient, np.ones(len(scores))

    model = BoostedRanker(loss="pairwise-hinge", gradient_scale=7.0, **QUICK).fit(train)
    assert np.allclose(model.predict(test), by_hand(train, gradients).predict(test.X), rtol=0, atol=1e-12)


def test_a_newton_step_divides_by_the_curvature(parts):
    train, _, test = parts
    y, offsets = train.y, train.offsets

    def gradients(scores, _):
        gradient = gainful.loss("ranknet").of_queries(scores, y, offsets)[1]
        curvature = np.zeros_like(gradient)
        for a, b in pairwise(offsets):
            s, g = scores[a:b], y[a:b]
            pairs = g[:, None] > g[None, :]
            p = 1.0 / (1.0 + np.exp(s[:, None] - s[None, :]))
            h = np.where(pairs, p * (1 - p), 0.0) / max(pairs.sum(), 1)
            curvature[a:b] = h.sum(axis=1) + h.sum(axis=0)
        return gradient * 50.0, curvature * 50.0

    model = BoostedRanker(loss="ranknet", gradient_scale=50.0, **QUICK).fit(train)
    assert np.allclose(model.predict(test), by_hand(train, gradients).predict(test.X), rtol=1e-6, atol=1e-9)


def test_automatic_scale_makes_the_first_gradient_one(parts):
    train, _, _ = parts
    model = BoostedRanker(loss="structured-ndcg", **QUICK).fit(train)
    first = gainful.loss("structured-ndcg").of_queries(np.zeros(train.n_rows), train.y, train.offsets)[1]
    assert model.gradient_scale_ == pytest.approx(1.0 / np.sqrt(np.mean(first**2)))


def test_newton_needs_a_curvature(parts):
    with pytest.raises(ParameterError, match="step='newton' needs the curvature of the loss"):
        BoostedRanker(loss="pairwise-hinge", step="newton").fit(parts[0])


def test_a_loss_of_ones_own_drives_the_trees(parts):
    train, _, test = parts

    def squared(scores, grades):
        return float(((scores - grades) ** 2).sum()), 2.0 * (scores - grades)

    model = BoostedRanker(loss=squared, gradient_scale=0.5, **QUICK).fit(train)
    theirs = by_hand(train, lambda scores, _: (scores - train.y, np.ones(train.n_rows)))
    assert np.allclose(model.predict(test), theirs.predict(test.X), rtol=0, atol=1e-9)


def test_first_trees_may_fit_the_grades(parts):
    train, _, test = parts
    model = BoostedRanker(loss="lambda", start_trees=12, **QUICK).fit(train)
    theirs = by_hand(train, lambda scores, _: (scores - train.y, np.ones(train.n_rows)))
    assert np.allclose(model.predict(test), theirs.predict(test.X), rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore:.*no tree has a split")
@pytest.mark.parametrize("step", ["auto", "newton", "gradient"])
def test_a_flat_start_without_gradient_is_reported(step):
    data = gainful.make_artificial(30, n_docs=400, n_features=8, seed=1)  # smooth ranks of 200, far below the cut-off
    with pytest.warns(ConvergenceWarning, match="next to no gradient where its trees start.*start_trees=20"):
        model = BoostedRanker(loss="sdcg", step=step, n_trees=30, n_jobs=1).fit(data)
    assert np.isfinite(model.predict(data)).all()
    with pytest.warns(ConvergenceWarning, match="even after start_trees=3; take a smoother form"):
        BoostedRanker(loss="sdcg", step=step, n_trees=30, start_trees=3, n_jobs=1).fit(data)


@pytest.mark.parametrize("text", ["ranknet(sigma=0.01)", "shf-sdcg(alpha=0.1)"])
def test_newton_steps_on_a_gentle_loss_do_not_count_as_flat(text, parts):
    train = parts[0]
    model = BoostedRanker(loss=text, **QUICK).fit(train)  # a warning would fail here
    fill = gainful.loss(text).bind_newton(train.y, train.offsets)
    _, curvature = gradient_and_curvature(fill, train.offsets, np.zeros(train.n_rows))
    assert model.gradient_scale_ == pytest.approx(1.0 / curvature.mean())


@pytest.mark.parametrize("loss", list(gainful.LOSSES))
def test_every_loss_of_the_registry_learns(loss, parts):
    train, _, test = parts
    start = 5 if loss == "sdcg" else 0
    model = BoostedRanker(loss=loss, n_trees=30, n_leaves=8, n_jobs=1, start_trees=start).fit(train)
    flat = gainful.metric("ndcg@10")(np.zeros(test.n_rows), test)
    assert model.score(test) > flat + 0.03


# -- going on ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lambdamart", "lambdamart-plain", "structured-boost", "reg-shf-sdcg", "gbrank"])
def test_going_on_equals_one_training(name, parts):
    """Up to LightGBM's rounding of its own text form, and where nothing is drawn at random."""
    train, _, test = parts
    whole = gainful.ranker(name, **{**QUICK, "n_trees": 14, "colsample": 1.0}).fit(train)
    first = gainful.ranker(name, **{**QUICK, "n_trees": 14, "colsample": 1.0})
    with pytest.warns(gainful.InterruptedFitWarning):
        first.fit(train, progress=lambda event: event.iteration == 6)
    assert first.best_iteration_ == 6
    first.set_params(warm_start=True).fit(train)
    assert first.n_iter_ == first.best_iteration_ == 14
    assert [row["iteration"] for row in first.history_] == list(range(1, 15))
    assert np.allclose(first.predict(test), whole.predict(test), rtol=1e-6, atol=1e-9)


def test_going_on_from_a_file_counts_the_trees(parts, tmp_path):
    train, _, test = parts
    half = BoostedRanker(loss="reg-shf-sdcg", **{**QUICK, "n_trees": 20})
    with pytest.warns(gainful.InterruptedFitWarning):
        half.fit(train, progress=lambda event: event.iteration == 9)
    gainful.save(half, tmp_path / "half.gainful")
    loaded = gainful.load(tmp_path / "half.gainful").set_params(warm_start=True).fit(train)
    whole = BoostedRanker(loss="reg-shf-sdcg", **{**QUICK, "n_trees": 20}).fit(train)
    assert loaded.n_iter_ == 20
    assert np.allclose(loaded.predict(test), whole.predict(test), rtol=1e-6, atol=1e-9)


def test_going_on_keeps_the_best_of_both(parts):
    train, valid, _ = parts
    model = LambdaMART(**{**QUICK, "n_trees": 10}, warm_start=True).fit(train, eval_set=valid)
    before = gainful.metric("ndcg@10")(model.predict(valid), valid)
    model.set_params(n_trees=40, learning_rate=50.0).fit(train, eval_set=valid)  # nothing good can come of it
    assert gainful.metric("ndcg@10")(model.predict(valid), valid) >= before


def test_going_on_refuses_what_cannot_be(parts):
    train, _, _ = parts
    model = LambdaMART(**QUICK, warm_start=True).fit(train)
    with pytest.raises(ParameterError, match="n_trees of LambdaMART must be above the 12 trees"):
        model.fit(train)
    with pytest.raises(DataError, match="X has 3 features, but the trees to continue were grown with"):
        model.set_params(n_trees=30).fit(train.X[:, :3], train.y, qid=train.qid)


# -- what LightGBM brings ----------------------------------------------------------------------------------------------


def test_linear_leaves_have_no_contributions(parts, capfd):
    """LightGBM would print a line of its own before it refuses."""
    model = BoostedRanker(n_trees=2, n_leaves=4, n_jobs=1, engine_params={"linear_tree": True}).fit(parts[0])
    with pytest.raises(gainful.GainfulError, match="linear models in their leaves"):
        model.contributions(parts[2])
    assert capfd.readouterr() == ("", "")


def test_contributions_sum_to_the_score(parts):
    train, _, test = parts
    for model in (BoostedRanker(**QUICK), gainful.GBRank(update="average", **QUICK)):
        model.fit(train)
        shap = model.contributions(test)
        assert shap.shape == (test.n_rows, test.n_features + 1)
        assert np.allclose(shap.sum(axis=1), model.predict(test))


def test_monotone_constraints_by_list_and_by_name(rng):
    X = rng.normal(size=(600, 2))
    y, qid = (X[:, 0] ** 2 > 1).astype(float), np.repeat(np.arange(30), 20)
    data = RankingData.from_rows(X, y, qid, feature_names=["bent", "noise"])
    line = np.column_stack([np.linspace(-3, 3, 50), np.zeros(50)])
    free = BoostedRanker(**QUICK, loss="squared").fit(data)
    assert (np.diff(free.predict(line)) < 0).any()
    for monotone in ([1, 0], {"bent": 1}, {0: 1}):
        model = BoostedRanker(**QUICK, loss="squared", monotone=monotone).fit(data)
        assert (np.diff(model.predict(line)) >= 0).all()
    with pytest.raises(ParameterError, match="one sign for each of the 2 features"):
        BoostedRanker(monotone=[1]).fit(data)
    with pytest.raises(gainful.GainfulError, match="did you mean 'bent'"):
        BoostedRanker(monotone={"bend": 1}).fit(data)


def test_categories_are_split_as_sets(rng):
    code = rng.integers(0, 6, 900).astype(float)
    y = np.isin(code, (0, 2, 5)).astype(float)  # no threshold parts these
    data = RankingData.from_rows(np.column_stack([code, rng.normal(size=900)]), y, np.repeat(np.arange(45), 20))
    settings = {"n_trees": 1, "n_leaves": 2, "learning_rate": 1.0, "n_jobs": 1, "loss": "squared"}
    settings["engine_params"] = {"cat_smooth": 1.0, "min_data_per_group": 1, "max_cat_to_onehot": 1}
    assert BoostedRanker(**settings, categorical=[0]).fit(data).score(data) == pytest.approx(1.0)
    assert BoostedRanker(**settings).fit(data).score(data) < 0.95
    with pytest.raises(ParameterError, match="categorical of BoostedRanker must be features 0 … 1"):
        BoostedRanker(categorical=[7]).fit(data)


def test_missing_values_go_their_own_way(rng):
    x = rng.normal(size=800)
    y = np.isnan(np.where(x > 0.5, np.nan, x)).astype(float)
    data = RankingData.from_rows(np.where(x > 0.5, np.nan, x)[:, None], y, np.repeat(np.arange(40), 20))
    assert BoostedRanker(**QUICK).fit(data).score(data) == pytest.approx(1.0)


def test_exact_bins_keep_every_value_apart(rng):
    values = np.concatenate([np.linspace(0.0, 1e-9, 300), [5.0]])
    x = rng.choice(values, 3000)
    data = RankingData.from_rows(
        x[:, None], (np.searchsorted(values, x) % 2).astype(float), np.repeat(np.arange(60), 50)
    )
    wide = {"n_trees": 1, "n_leaves": 400, "min_docs_in_leaf": 1, "learning_rate": 1.0, "loss": "squared", "n_jobs": 1}
    apart = BoostedRanker(bins="exact", **wide, engine_params={"min_sum_hessian_in_leaf": 0.0}).fit(data)
    coarse = BoostedRanker(bins=50, **wide).fit(data)
    seen = np.isin(values, x)
    assert seen.sum() > 255
    assert np.allclose(apart.predict(values[seen][:, None]), np.arange(301)[seen] % 2, atol=1e-6)
    assert apart.score(data) > coarse.score(data)


def test_weights_are_copies_of_queries(parts):
    train, _, test = parts
    weights = np.ones(train.n_queries)
    weights[:10] = 3.0
    settings = {"n_trees": 6, "n_leaves": 4, "n_jobs": 1, "loss": "listnet", "step": "gradient", "gradient_scale": 10.0}
    settings |= {"bins": "exact", "min_docs_in_leaf": 0}  # copies must not move bins, nor change what may be a leaf
    settings["engine_params"] = {"min_sum_hessian_in_leaf": 30.0}  # leaves of few documents tie
    weighted = BoostedRanker(**settings).fit(
        train.X, train.y, qid=train.qid, sample_weight=np.repeat(weights, train.counts)
    )
    end = train.offsets[10]
    rows = np.concatenate([np.arange(train.n_rows), np.arange(end), np.arange(end)])
    qid = np.concatenate([train.qid, train.qid[:end] + 10_000, train.qid[:end] + 20_000])
    copied = BoostedRanker(**settings).fit(train.X[rows], train.y[rows], qid=qid)
    assert np.allclose(weighted.predict(test), copied.predict(test), rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore:the grades have:gainful.DataWarning")
def test_fifty_thousand_documents_and_a_hundred_grades(rng):
    n = 50_000
    X = rng.normal(size=(n, 4)).astype(np.float32)
    data = RankingData.from_rows(X, np.clip(np.round(50 + 20 * X[:, 0]), 0, 99) / 10.0, np.zeros(n))
    model = BoostedRanker(loss="lambda", n_trees=2, n_leaves=8).fit(data)
    assert model.score(data) > 3 * gainful.metric("ndcg@10")(np.zeros(n), data)


# -- samples, stages and what cannot be grown --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["boosted", "shf-sdcg", "gbrank", "mcrank-ordinal", "structured-boost", "lambdamart"])
@pytest.mark.parametrize("share", [0.3, 0.7])
def test_a_sample_of_the_queries_still_learns(name, share, parts):
    train, _, test = parts
    settings = {"n_trees": 40, "n_leaves": 6, "n_jobs": 1, "min_docs_in_leaf": 10, "colsample": 1.0}
    whole = gainful.ranker(name, **settings).fit(train)
    some = gainful.ranker(name, **settings, subsample=share).fit(train)
    assert not np.array_equal(some.predict(test), whole.predict(test))
    assert len(np.unique(some.predict(test))) > 50
    flat = gainful.metric("ndcg@10")(np.zeros(train.n_rows), train)
    assert some.score(train) > flat + 0.5 * (whole.score(train) - flat)


def test_a_tree_sees_the_queries_drawn_and_no_others(parts):
    train = parts[0]

    def squared(scores, grades):
        return 0.0, scores - grades

    model = BoostedRanker(loss=squared, n_trees=1, n_leaves=2, subsample=0.25, gradient_scale=1.0, n_jobs=1).fit(train)
    weight = model.booster_.dump_model()["tree_info"][0]["tree_structure"]["internal_weight"]
    assert weight == 0.25 * train.n_queries * 20  # 20 documents per query, each of curvature 1


def test_a_tree_without_a_split_does_not_end_training_on_samples(rng):
    qid = np.repeat(np.arange(6), 12)
    X = rng.normal(size=(72, 2))
    data = RankingData.from_rows(X, (X[:, 0] > 1.2).astype(float), qid)
    model = LambdaMART(n_trees=60, n_leaves=3, min_docs_in_leaf=5, subsample=0.3, n_jobs=1).fit(data)
    assert model.n_iter_ == model.best_iteration_ == model.booster_.current_iteration() > 10


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"engine_params": {"linear_tree": True}}, "does not hold with linear leaves; leave them out of engine_params"),
        ({"categorical": [0]}, "has a sign for feature 0, which holds categories; leave out the sign"),
    ],
)
def test_where_monotone_cannot_hold_it_is_refused(rng, more, message):
    X, y = rng.integers(0, 9, (80, 2)), rng.integers(0, 2, 80)
    with pytest.raises(ParameterError, match=message):
        LambdaMART(monotone=[1, 0], **more).fit(X, y, group=[20] * 4)


def test_a_continued_training_keeps_its_monotone_constraints(parts, tmp_path):
    model = LambdaMART(**QUICK, monotone={0: 1}).fit(parts[0])
    gainful.save(model, tmp_path / "m.gainful")
    for one in (model, gainful.load(tmp_path / "m.gainful")):
        one.set_params(warm_start=True, n_trees=QUICK["n_trees"] + 5)
        assert one.fit(parts[0]).monotone_[0] == 1
        one.set_params(monotone=None, n_trees=QUICK["n_trees"] + 9)
        with pytest.raises(ParameterError, match=r"the trees to continue grew with monotone=\[1, 0.*; keep that"):
            one.fit(parts[0])


@pytest.mark.parametrize("name", [n for n, entry in gainful.RANKERS.items() if entry.kind == "trees"])
def test_a_model_without_a_split_says_so(name, rng):
    X, y = rng.normal(size=(8, 2)), rng.integers(0, 2, 8) + np.repeat([0, 1], 4)
    with pytest.warns(
        ConvergenceWarning, match="no tree has a split, so all scores are equal; min_docs_in_leaf"
    ) as told:
        gainful.ranker(name, n_trees=3, n_jobs=1).fit(X, y, group=[4, 4])
    assert len(told) == 1


def test_trees_that_are_all_of_the_start_are_reported(parts):
    nearly = [np.where(np.arange(part.n_rows) < n, 1.0, part.y) for part, n in zip(parts[:2], (9, 0), strict=True)]
    train, valid = (part.replace(X=x[:, None]) for part, x in zip(parts[:2], nearly, strict=True))
    settings = QUICK | {"n_trees": 30, "start_trees": 20, "early_stopping": 30}
    with pytest.warns(ConvergenceWarning, match="trees kept all fit the grades .* and none the loss structured-ndcg"):
        gainful.ranker("structured-boost", **settings).fit(train, eval_set=valid)


def test_leaves_too_large_for_the_data_are_reported(rng):
    data = RankingData.from_rows(rng.normal(size=(80, 3)), rng.integers(0, 2, 80), np.repeat(np.arange(8), 10))
    with pytest.warns(ConvergenceWarning, match="min_docs_in_leaf=100 leaves no room for a split among 80 documents"):
        model = gainful.ranker("shf-sdcg", min_docs_in_leaf=100).fit(data)
    assert (model.predict(data) == 0).all()


def test_a_stop_before_the_loss_has_begun_leaves_its_scale_open(parts):
    train, _, test = parts
    settings = {"loss": "structured-ndcg", "n_trees": 16, "n_leaves": 6, "n_jobs": 1, "start_trees": 8}
    whole = BoostedRanker(**settings).fit(train)
    half = BoostedRanker(**settings)
    with pytest.warns(gainful.InterruptedFitWarning):
        half.fit(train, progress=lambda event: event.iteration == 5)
    assert half.gradient_scale_ is None
    half.set_params(warm_start=True).fit(train)
    assert half.gradient_scale_ == pytest.approx(whole.gradient_scale_, rel=1e-6)
    assert np.allclose(half.predict(test), whole.predict(test), rtol=1e-5, atol=1e-8)


def test_more_trees_after_the_last_stage_stay_in_it(parts):
    """Going on after all stages are through must not bring the regression of the first ones back."""
    train = parts[0]
    model = gainful.ranker("reg-shf-sdcg", n_trees=20, n_leaves=6, min_docs_in_leaf=20, n_jobs=1, warm_start=True)
    model.fit(train).set_params(n_trees=30).fit(train)
    assert model.n_stages_ == 20
    assert model.best_iteration_ == 30


def test_gradients_that_are_not_finite_are_refused(parts):
    def broken(scores, grades):
        return 0.0, np.full(len(scores), np.nan)

    with pytest.raises(gainful.GainfulError, match="not finite"):
        BoostedRanker(loss=broken, n_trees=3, n_jobs=1).fit(parts[0])


def test_outputs_are_gainfuls_own_matter(parts):
    with pytest.raises(ParameterError, match="must not set 'num_class'"):
        BoostedRanker(engine_params={"num_class": 3}).fit(parts[0])


def test_going_on_in_another_mode_is_refused(parts):
    model = gainful.ranker("mcrank-regression", n_trees=3, n_leaves=4, n_jobs=1, warm_start=True).fit(parts[0])
    with pytest.raises(ParameterError, match="were grown with mode='regression'"):
        model.set_params(mode="ordinal", n_trees=6).fit(parts[0])


def test_no_rows_have_no_scores(parts):
    model = gainful.ranker("mcrank-ordinal", n_trees=3, n_leaves=4, n_jobs=1).fit(parts[0])
    assert model.predict(parts[0].X[:0]).shape == (0,)
    assert model.predict_proba(parts[0].X[:0]).shape == (0, len(model.classes_))
