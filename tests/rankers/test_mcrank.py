"""McRank is LightGBM's multiclass, or K − 1 logistic boosters, ranked by expected relevance."""

from __future__ import annotations

import itertools

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import expit, logit
from sklearn.isotonic import IsotonicRegression

import gainful
from gainful import DataError, GainfulError, McRank, ParameterError, RankingData
from gainful.rankers.scorers import Expectation
from gainful.trees.grades import CumulativeLogits, Grades, proper_probabilities, relevance_of

QUICK = {"n_trees": 15, "n_leaves": 6, "learning_rate": 0.1, "n_jobs": 1}
MODES = ("classification", "ordinal", "regression")


def booster(data, labels, weight=None, **params):
    """The same trees straight from LightGBM."""
    params = {"num_leaves": 6, "learning_rate": 0.1, "num_threads": 1, "verbosity": -1, "seed": 0,
                "deterministic": True, "force_row_wise": True, **params}  # fmt: skip
    return lgb.train(params, lgb.Dataset(data.X, label=labels, weight=weight, params=params), 15)


def with_grades(data, y):
    return RankingData.from_rows(data.X, y, data.qid)


# -- against LightGBM itself -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("relevance", "T"), [("grade", np.arange(5.0)), ("gain", 2.0 ** np.arange(5) - 1)])
def test_classification_is_lightgbms_multiclass(parts, relevance, T):
    train, _, test = parts
    model = McRank(relevance=relevance, **QUICK).fit(train)
    p = booster(train, train.y, objective="multiclass", num_class=5).predict(test.X)
    assert np.array_equal(model.predict_proba(test), p)
    assert np.array_equal(model.predict(test), p @ T)
    assert model.classes_.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("weighted", [False, True])
def test_ordinal_is_one_binary_booster_for_each_threshold(parts, weighted, rng):
    train, _, test = parts
    weights = np.ones(train.n_queries)  # of mean 1, as LightGBM does not divide them by their mean
    weights[: train.n_queries // 2 * 2] = rng.permutation(np.resize([0.5, 1.5], train.n_queries // 2 * 2))
    weight = np.repeat(weights, train.counts) if weighted else None
    at_least = [
        booster(train, train.y >= k, weight, objective="binary").predict(test.X, raw_score=False) for k in range(1, 5)
    ]
    model = McRank("ordinal", **QUICK).fit(train.X, train.y, qid=train.qid, sample_weight=weight)
    assert np.allclose(model.predict(test), np.sum(at_least, axis=0), rtol=0, atol=1e-9)
    gains = McRank("ordinal", "gain", **QUICK).fit(train.X, train.y, qid=train.qid, sample_weight=weight)
    expected = sum((2**k - 2 ** (k - 1)) * p for k, p in enumerate(at_least, start=1))
    assert np.allclose(gains.predict(test), expected, rtol=0, atol=1e-9)


def test_regression_is_lightgbms_on_grades_or_gains(parts):
    train, _, test = parts
    on_grades = gainful.ranker("tree-regression", **QUICK).fit(train)
    assert np.array_equal(on_grades.predict(test), booster(train, train.y, objective="regression").predict(test.X))
    on_gains = gainful.ranker("mcrank-regression", **QUICK).fit(train)
    expected = booster(train, 2.0**train.y - 1, objective="regression").predict(test.X)
    assert np.array_equal(on_gains.predict(test), expected)


def test_ordinal_gradients_are_those_of_the_log_loss(rng):
    labels, weights, start = rng.integers(0, 4, 9), rng.uniform(0.5, 2.0, 9), rng.normal(size=3)

    def loss(s):
        p = expit(s + start)
        z = labels[:, None] > np.arange(3)
        return -(weights[:, None] * np.where(z, np.log(p), np.log1p(-p))).sum()

    s, h = rng.normal(size=(9, 3)), 1e-4
    gradient, curvature = CumulativeLogits(labels, start, weights)(s, 1)
    for i, k in itertools.product(range(9), range(3)):
        step = np.zeros_like(s)
        step[i, k] = h
        up, here, down = loss(s + step), loss(s), loss(s - step)
        assert gradient[i, k] == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-6)
        assert curvature[i, k] == pytest.approx((up - 2 * here + down) / h**2, rel=1e-4, abs=1e-5)


# -- the paper's mathematics -------------------------------------------------------------------------------------------

PROBABILITIES = hnp.arrays(float, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.floats(0, 1))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40), st.integers(1, 45))
def test_lemma_1_bounds_the_loss_of_dcg_by_the_misclassified(pairs, k):
    y, guess = np.array(pairs).T
    n = len(y)
    D = np.where(np.arange(1, n + 1) <= k, 1.0 / np.log2(1.0 + np.arange(1, n + 1)), 0.0)
    # the worst order that ranks by the guesses: within a guess, low grades first
    order = np.lexsort((y, -guess))
    best = (2.0 ** np.sort(y)[::-1] - 1) @ D
    error = best - (2.0 ** y[order] - 1) @ D
    spread = (D**2).sum() - n * np.prod(D ** (2.0 / n))
    assert error <= 15 * np.sqrt(2.0) * np.sqrt(max(spread, 0.0)) * np.sqrt((y != guess).sum()) + 1e-9


@given(hnp.arrays(float, st.tuples(st.integers(1, 5), st.integers(1, 6)), elements=st.floats(1e-3, 1)), st.data())
def test_expected_relevance_is_a_sum_over_the_probabilities_of_each_grade_or_better(weights, data):
    p = weights / weights.sum(axis=1, keepdims=True)
    K = p.shape[1]
    T = np.sort(data.draw(hnp.arrays(float, K, elements=st.floats(0, 100), unique=True)))
    at_least = np.cumsum(p[:, ::-1], axis=1)[:, ::-1][:, 1:]
    if K > 1:
        expected = Expectation("cumulative", T, np.zeros(K - 1))
        assert np.allclose(expected(logit(np.minimum(at_least, 1.0))), p @ T)
    assert np.allclose(proper_probabilities(at_least, np.diff(T)), p, atol=1e-12)


@given(PROBABILITIES, st.data())
@settings(max_examples=30)
def test_crossing_curves_become_the_nearest_falling_ones(at_least, data):
    m = at_least.shape[1]
    steps = data.draw(hnp.arrays(float, m, elements=st.floats(0.1, 10)))
    p = proper_probabilities(at_least, steps)
    assert p.min() >= 0
    assert np.allclose(p.sum(axis=1), 1)
    T = np.concatenate([[0.0], np.cumsum(steps)])
    assert np.allclose(p @ T, at_least @ steps)  # the expected relevance is kept
    for row, values in zip(p, at_least, strict=True):
        nearest = IsotonicRegression(increasing=False).fit_transform(np.arange(m), values, sample_weight=steps)
        assert np.allclose(1 - np.cumsum(row)[:-1], nearest, atol=1e-9)


@pytest.mark.parametrize("mode", ["classification", "ordinal"])
@pytest.mark.parametrize("relevance", ["grade", "gain"])
def test_scores_are_the_expected_relevance_of_the_probabilities(parts, mode, relevance):
    train, _, test = parts
    model = McRank(mode, relevance, **QUICK).fit(train)
    p = model.predict_proba(test)
    assert p.shape == (test.n_rows, 5)
    assert p.min() >= 0
    assert np.allclose(p.sum(axis=1), 1)
    T = model.classes_ if relevance == "grade" else 2**model.classes_ - 1
    assert np.allclose(p @ T, model.predict(test))


# -- grades ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["classification", "ordinal"])
@pytest.mark.filterwarnings("ignore:the highest grade is:gainful.DataWarning")
def test_only_the_order_of_grades_makes_classes(parts, mode):
    train, _, test = parts
    value = np.array([0.25, 1.5, 1.75, 40.0, 41.5])
    plain = McRank(mode, **QUICK).fit(train)
    model = McRank(mode, **QUICK).fit(with_grades(train, value[train.y.astype(int)]))
    assert model.classes_.tolist() == value.tolist()
    assert np.array_equal(model.class_contributions(test), plain.class_contributions(test))
    assert np.allclose(model.predict(test), model.predict_proba(test) @ value)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore:no query has rows of two:gainful.DataWarning")
def test_one_grade_gives_constant_scores(parts, mode, tmp_path):
    train, valid, test = parts
    model = McRank(mode, **QUICK).fit(with_grades(train, np.full(train.n_rows, 3.0)), eval_set=valid)
    assert np.allclose(model.predict(test), 3.0)
    assert not model.feature_importances_.any()
    gainful.save(model, tmp_path / "one.gainful")
    assert np.array_equal(gainful.load(tmp_path / "one.gainful").predict(test), model.predict(test))
    if mode != "regression":
        assert model.predict_proba(test).tolist() == [[1.0]] * test.n_rows
        assert model.class_contributions(test).shape == (test.n_rows, 0, test.n_features + 1)


@pytest.mark.parametrize("mode", ["classification", "ordinal"])
def test_two_grades_and_unseen_grades_in_the_validation_data(parts, mode):
    train, valid, test = parts
    model = McRank(mode, **QUICK).fit(with_grades(train, train.y >= 3), eval_set=valid)
    assert model.predict_proba(test).shape == (test.n_rows, 2)
    assert np.allclose(model.predict_proba(test)[:, 1], model.predict(test))
    assert model.history_[-1]["validation"] > 0.5


@pytest.mark.parametrize("mode", ["classification", "ordinal"])
@pytest.mark.filterwarnings("ignore:the highest grade is:gainful.DataWarning")
def test_fifty_grades(parts, mode, rng):
    train, _, test = parts
    y = train.y * 10 + rng.integers(0, 10, train.n_rows)
    model = McRank(mode, n_trees=3, n_leaves=4, learning_rate=0.3, n_jobs=1).fit(with_grades(train, y))
    assert len(model.classes_) == 50
    assert model.score(test) > 0.5


@pytest.mark.parametrize("mode", ["classification", "ordinal"])
@pytest.mark.filterwarnings("ignore:the grades have:gainful.DataWarning")
def test_many_grades_are_refused_or_merged(parts, mode, rng):
    train, _, test = parts
    data = with_grades(train, train.y + rng.random(train.n_rows))
    with pytest.raises(DataError, match=r"1,440 distinct grades.*max_classes=20, or choose mode=\"regression\""):
        McRank(mode, **QUICK).fit(data)
    model = McRank(mode, max_classes=10, **QUICK).fit(data)
    sizes = np.diff([*np.searchsorted(np.sort(data.y), model._grades.lows), data.n_rows])
    assert sizes.tolist() == [144] * 10
    groups = np.split(np.sort(data.y), 10)
    assert np.allclose(model.classes_, [g.mean() for g in groups])
    assert model.score(test) > 0.5


def test_merged_classes_hold_neighbours_and_mean_relevance():
    y = np.array([0.0] * 6 + [1.0, 2.0, 3.0])
    grades = Grades.of(y, "gain", 3, None)
    assert grades.lows.tolist() == [0, 1]  # zero fills the first two of three classes of three
    assert grades.highs.tolist() == [0, 3]
    assert grades.grades.tolist() == [0, 2]
    assert grades.relevance.tolist() == [0, (1 + 3 + 7) / 3]
    assert grades.labels(np.array([0, 1, 2, 3.0])).tolist() == [0, 1, 1, 1]
    assert grades.start.tolist() == pytest.approx([np.log(3 / 6)])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore:the highest grade is:gainful.DataWarning")
def test_high_grades_keep_gains_finite(parts, mode):
    train, _, test = parts
    model = McRank(mode, "gain", **QUICK).fit(with_grades(train, 500 * train.y))
    scores = model.predict(test)
    assert np.isfinite(scores).all()
    assert len(np.unique(scores)) > 10
    assert np.isfinite(model.feature_importances_).all()
    T = relevance_of(np.array([0.0, 998.0, 1000.0]), "gain")
    assert T.tolist() == [0.0, 0.25, 1.0]


# -- training ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_validation_is_of_the_combined_scores(parts, mode):
    train, valid, _ = parts
    model = McRank(mode, **QUICK).fit(train, eval_set=valid)
    ndcg = gainful.metric("ndcg@10")
    for iterations in (1, 7, 15):
        shorter = McRank(mode, **{**QUICK, "n_trees": iterations}).fit(train)
        assert model.history_[iterations - 1]["validation"] == pytest.approx(ndcg(shorter.predict(valid), valid))
    values = [row["validation"] for row in model.history_]
    assert model.best_iteration_ == 1 + int(np.argmax(values))
    assert ndcg(model.predict(valid), valid) == pytest.approx(max(values))


def test_early_stopping_counts_iterations_of_all_classes(parts):
    train, valid, _ = parts
    model = McRank("ordinal", n_trees=300, n_leaves=16, learning_rate=0.5, early_stopping=3, n_jobs=1)
    model.fit(train, eval_set=valid)
    assert model.n_iter_ == model.best_iteration_ + 3
    assert model.booster_.num_trees() == 4 * model.best_iteration_


@pytest.mark.parametrize("mode", MODES)
def test_warm_start_goes_on_where_training_ended(parts, mode):
    train, valid, test = parts
    model = McRank(mode, warm_start=True, **{**QUICK, "n_trees": 6}).fit(train)
    model.set_params(n_trees=15).fit(train)
    cold = McRank(mode, **QUICK).fit(train)
    assert [row["iteration"] for row in model.history_] == list(range(1, 16))
    assert np.allclose(model.predict(test), cold.predict(test), rtol=0, atol=1e-6)
    model.set_params(n_trees=16).fit(train, eval_set=valid)
    assert model.history_[-1]["validation"] is not None


def test_warm_start_refuses_grades_the_trees_do_not_know(parts):
    train = parts[0]
    model = McRank("ordinal", warm_start=True, **QUICK).fit(train)
    model.set_params(n_trees=20)
    with pytest.raises(DataError, match=r"grade 2.5 is not among those the trees"):
        model.fit(with_grades(train, np.where(np.arange(train.n_rows) == 5, 2.5, train.y)))
    model.fit(with_grades(train, np.minimum(train.y, 3)))  # a grade that is absent now does no harm
    assert len(model.classes_) == 5


@pytest.mark.parametrize("mode", MODES)
def test_monotone_and_categorical_features(parts, mode):
    train = parts[0]
    X = train.X.copy()
    X[:, 3] = np.digitize(X[:, 3], [-0.5, 0.0, 0.5])
    if mode == "classification":  # each class rises, which says nothing about their softmax
        with pytest.raises(ParameterError, match=r"monotone of McRank .* does not hold .* use mode='ordinal' or"):
            McRank(mode, monotone={0: 1}, **QUICK).fit(X, train.y, qid=train.qid)
        return
    model = McRank(mode, monotone={0: 1}, categorical=[3], **QUICK).fit(X, train.y, qid=train.qid)
    assert "num_cat=1" in model.booster_.model_to_string()
    rows = np.repeat(X[:20], 2, axis=0)
    rows[::2, 0], rows[1::2, 0] = -1.0, 1.0
    scores = model.predict(rows)
    assert (scores[1::2] >= scores[::2] - 1e-12).all()


def test_subsampling_changes_the_model_and_is_reproducible(parts):
    train, _, test = parts
    scores = [McRank("ordinal", subsample=s, **QUICK).fit(train).predict(test) for s in (1.0, 0.5, 0.5)]
    assert not np.allclose(scores[0], scores[1])
    assert np.array_equal(scores[1], scores[2])


# -- use ---------------------------------------------------------------------------------------------------------------


def test_contributions_are_of_regression_or_of_the_classes(parts):
    train, _, test = parts
    model = McRank("regression", **QUICK).fit(train)
    assert np.allclose(model.contributions(test).sum(axis=1), model.predict(test))
    classes = McRank(**QUICK).fit(train)
    shap = classes.class_contributions(test)
    assert shap.shape == (test.n_rows, 5, test.n_features + 1)
    raw = shap.sum(axis=2)
    p = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    assert np.allclose(p, classes.predict_proba(test))
    ordinal = McRank("ordinal", **QUICK).fit(train)
    at_least = expit(ordinal.class_contributions(test).sum(axis=2))
    assert np.allclose(at_least.sum(axis=1), ordinal.predict(test))


@pytest.mark.parametrize("mode", ["classification", "ordinal"])
def test_contributions_go_through_the_link(parts, mode):
    """Against the integral along the straight line from the base sums to the full ones, in many small steps."""
    train, _, test = parts
    model = McRank(mode, **QUICK).fit(train)
    found = model.contributions(test)
    assert np.allclose(found.sum(axis=1), model.predict(test), rtol=1e-12)
    link, sums = model._link(), model.class_contributions(test)
    base, way = sums[:, :, -1], sums[:, :, :-1].sum(axis=2)
    expected, steps = np.zeros((test.n_rows, test.n_features)), 2000
    for t in (np.arange(steps) + 0.5) / steps:
        slopes = np.empty_like(base)
        for k in range(base.shape[1]):
            up, down = base + t * way, base + t * way
            up[:, k] += 1e-5
            down[:, k] -= 1e-5
            slopes[:, k] = (link.of_sums(up) - link.of_sums(down)) / 2e-5
        expected += np.einsum("rk,rkj->rj", slopes, sums[:, :, :-1]) / steps
    assert np.allclose(found[:, :-1], expected, atol=1e-6)
    assert np.allclose(found[:, -1], link.of_sums(base))


@pytest.mark.parametrize("what", ["predict_proba", "class_contributions"])
def test_regression_has_no_classes(parts, what):
    model = McRank("regression", **QUICK).fit(parts[0])
    with pytest.raises(GainfulError, match=f'mode="regression" has no {what}'):
        getattr(model, what)(parts[2])


def test_a_loaded_model_gives_the_same_probabilities(parts, tmp_path):
    train, valid, test = parts
    for mode in ("classification", "ordinal"):
        model = McRank(mode, "gain", **QUICK).fit(train, eval_set=valid)
        gainful.save(model, tmp_path / "model.gainful")
        again = gainful.load(tmp_path / "model.gainful")
        assert np.array_equal(again.predict_proba(test), model.predict_proba(test))
        assert np.array_equal(again.classes_, model.classes_)


def test_importances_sum_over_the_classes(parts):
    model = McRank("ordinal", **QUICK).fit(parts[0])
    assert (model.feature_importances_ > 0).any()
    assert model.feature_importances_.shape == (parts[0].n_features,)


def test_what_gainful_sets_itself_is_refused():
    with pytest.raises(ParameterError, match="must not set 'num_class'; use max_classes="):
        McRank(engine_params={"num_class": 3})._check_parameters()
    with pytest.raises(ParameterError, match="use another ranker"):
        McRank(engine_params={"objective": "binary"})._check_parameters()
