"""Gradient and curvature for Newton steps, over all losses that know their curvature."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_formulas import FORMULAS, call, lambda_weights, lambdaloss_weights, pairs, smooth_dcg_bend

from gainful.compute.query_loop import gradient_and_curvature, values_and_gradient
from gainful.losses import loss, weighted_kernels
from gainful.losses.pairwise import sweep_hinges
from gainful.losses.weighted import rank_by_sorting

CURVED = [text for text in FORMULAS if loss(text).entry.newton]
KERNEL_LOSSES = {
    "pairwise-squared-hinge",
    "ranknet",
    "ranknet-graded",
    "listnet",
    "listmle",
    "softmax-cross-entropy",
    "sigmoid-cross-entropy",
    "xendcg",
    "squared",
    "centred-squared",
    "lambda",
    "lambdaloss",
    "weighted-huber",
    "sdcg",
    "shf-sdcg",
    "reg-shf-sdcg",
}
BOUNDS = [text for text in CURVED if "sdcg" in text]  # their curvature is a bound, not the second derivative


def newton(text, scores, grades, offsets=None, threads=None):
    """Gradient and curvature; also checks the plain gradient."""
    y = np.asarray(grades, dtype=float)
    offsets = np.array([0, len(y)]) if offsets is None else offsets
    fill = loss(text).bind_newton(y, offsets)
    gradient, curvature = gradient_and_curvature(fill, offsets, scores, threads)
    _, plain = values_and_gradient(loss(text).bind(y, offsets), offsets, scores, threads)
    np.testing.assert_allclose(gradient, plain, rtol=1e-9, atol=1e-13 * max(1.0, np.abs(plain).max()))
    return gradient, curvature


def random_query(seed, n, spread=2.0, n_grades=4):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n) * spread
    scores[rng.random(n) < 0.2] = 0.0  # ties
    return scores, rng.integers(0, n_grades, n).astype(float)


# -- slow formulas -----------------------------------------------------------------------------------------------------


def logistic_bend(sigma):
    return lambda v: sigma**2 * math.exp(-abs(sigma * v)) / (1.0 + math.exp(-abs(sigma * v))) ** 2


def squared_hinge_bend(v):
    return 2.0 if v < 1.0 else 0.0


def huber_bend(v):
    return 2.0 if -1.0 < v < 1.0 else 0.0


def over_pairs(scores, weights, bend):
    curvature = np.zeros(len(scores))
    for (i, j), weight in weights.items():
        curvature[i] += weight * bend(scores[i] - scores[j])
        curvature[j] += weight * bend(scores[i] - scores[j])
    return curvature


def mean_weights(grades):
    chosen = pairs(grades)
    return dict.fromkeys(chosen, 1.0 / max(len(chosen), 1))


def graded_weights(grades):
    total = sum(grades[i] - grades[j] for i, j in pairs(grades))
    return {(i, j): (grades[i] - grades[j]) / total for i, j in pairs(grades)}


def sigmoid_bend(scores):
    small = np.exp(-np.abs(scores))
    return small / (1.0 + small) ** 2


def softmax_bend(scores, grades):
    p = np.exp(scores - scores.max())
    p /= p.sum()
    return p * (1.0 - p) if len(set(grades)) > 1 else np.zeros(len(p))


def listmle_bend(scores, grades):
    curvature = np.zeros(len(scores))
    for i in range(len(scores)):
        rest = [i, *np.flatnonzero(grades < grades[i])]
        p = np.exp(scores[rest] - scores[rest].max())
        p /= p.sum()
        curvature[rest] += p * (1.0 - p)
    return curvature


WEIGHTS = {
    "lambda": lambda_weights,
    "lambda(k=2, sigma=3)": lambda s, g: lambda_weights(s, g, 2),
    "lambdaloss": lambdaloss_weights,
    "lambdaloss(mu=0)": lambda s, g: lambdaloss_weights(s, g, 0.0),
    "weighted-huber": lambda_weights,
}
BENDS = {
    "pairwise-squared-hinge": lambda s, g: over_pairs(s, mean_weights(g), squared_hinge_bend),
    "ranknet": lambda s, g: over_pairs(s, mean_weights(g), logistic_bend(1.0)),
    "ranknet(sigma=2.5)": lambda s, g: over_pairs(s, mean_weights(g), logistic_bend(2.5)),
    "listnet": softmax_bend,
    "listmle": listmle_bend,
    "xendcg": softmax_bend,
    "xendcg(gamma=1)": softmax_bend,
    "softmax-cross-entropy": lambda s, g: sum(g) * softmax_bend(s, g),
    "sigmoid-cross-entropy": lambda s, g: sigmoid_bend(s) / len(s),
    "sigmoid-cross-entropy(top=3)": lambda s, g: sigmoid_bend(s) / len(s),
    "ranknet-graded": lambda s, g: over_pairs(s, graded_weights(g), logistic_bend(1.0)),
    "ranknet-graded(sigma=2.5)": lambda s, g: over_pairs(s, graded_weights(g), logistic_bend(2.5)),
    "squared": lambda s, g: np.full(len(s), 2.0 / len(s)),
    "centred-squared": lambda s, g: np.full(len(s), 2.0 * (len(s) - 1) / len(s) ** 2),
    "lambda": lambda s, g: over_pairs(s, WEIGHTS["lambda"](s, g), logistic_bend(1.0)),
    "lambda(k=2, sigma=3)": lambda s, g: over_pairs(s, WEIGHTS["lambda(k=2, sigma=3)"](s, g), logistic_bend(3.0)),
    "lambdaloss": lambda s, g: over_pairs(s, WEIGHTS["lambdaloss"](s, g), logistic_bend(1.0)),
    "lambdaloss(mu=0)": lambda s, g: over_pairs(s, WEIGHTS["lambdaloss(mu=0)"](s, g), logistic_bend(1.0)),
    "weighted-huber": lambda s, g: over_pairs(s, WEIGHTS["weighted-huber"](s, g), huber_bend),
    "sdcg": smooth_dcg_bend,
    "sdcg(alpha=3, beta=0.5, k=2)": lambda s, g: smooth_dcg_bend(s, g, 2, 3.0, 0.5),
    "sdcg(k=None, target=dcg)": lambda s, g: smooth_dcg_bend(s, g, None, target="dcg"),
    "shf-sdcg": lambda s, g: smooth_dcg_bend(s, g, hinged=True),
    "shf-sdcg(alpha=0.5, beta=2, k=1)": lambda s, g: smooth_dcg_bend(s, g, 1, 0.5, 2.0, hinged=True),
    "shf-sdcg(k=2, tied=best)": lambda s, g: smooth_dcg_bend(s, g, 2, hinged=True, tied="best"),
    "shf-sdcg(k=3, target=dcg)": lambda s, g: smooth_dcg_bend(s, g, 3, hinged=True, target="dcg"),
    "shf-sdcg(k=None)": lambda s, g: smooth_dcg_bend(s, g, None, hinged=True),
    "sdcg(least_spread=0, beta=0.5)": lambda s, g: smooth_dcg_bend(s / (s.std() or 1.0), g, beta=0.5),
    "shf-sdcg(k=3, least_spread=0.5)": lambda s, g: smooth_dcg_bend(s / np.hypot(s.std(), 0.5), g, 3, hinged=True),
    "reg-shf-sdcg": lambda s, g: smooth_dcg_bend(s, g, hinged=True),
}


# -- the tests ---------------------------------------------------------------------------------------------------------


def test_the_losses_that_know_their_curvature():
    assert {loss(text).name for text in CURVED} >= KERNEL_LOSSES
    assert set(BENDS) == set(CURVED)
    for name in ("pairwise-hinge", "softrank", "structured-ndcg"):
        assert loss(name).bind_newton(np.array([1.0, 0.0]), np.array([0, 2])) is None


@st.composite
def queries(draw):
    """Scores with ties and grades, whole or real."""
    n = draw(st.integers(1, 9))
    grade = draw(st.sampled_from([st.integers(0, 3), st.sampled_from([0.0, 0.25, 1.5, 4.0]), st.just(1)]))
    score = st.one_of(st.sampled_from([-1.25, 0.0, 0.5, 2.0]), st.floats(-8, 8).map(lambda x: round(x, 3)))
    scores = draw(st.lists(score, min_size=n, max_size=n))
    return np.array(scores), np.array(draw(st.lists(grade, min_size=n, max_size=n)), dtype=float)


@pytest.mark.parametrize("text", CURVED)
@settings(max_examples=40, deadline=None)
@given(query=queries())
def test_curvature_is_the_formula(text, query):
    scores, grades = query
    if text in ("pairwise-squared-hinge", "weighted-huber"):  # away from the kinks of their slopes
        scores = scores + np.arange(len(scores)) * 1e-5 * math.sqrt(2.0)
    _, curvature = newton(text, scores, grades)
    expected = BENDS[text](scores, grades)
    np.testing.assert_allclose(curvature, expected, rtol=1e-10, atol=1e-14 * max(1.0, np.abs(expected).max()))
    assert (curvature >= 0.0).all()


@pytest.mark.parametrize("text", [text for text in CURVED if text not in (*WEIGHTS, *BOUNDS)])
@pytest.mark.parametrize(("seed", "n"), [(0, 2), (1, 7), (2, 40), (3, 310)])
def test_curvature_is_the_derivative_of_the_gradient(text, seed, n):
    scores, grades = random_query(seed, n)
    _, curvature = newton(text, scores, grades)
    step, some = 1e-6, np.random.default_rng(seed).choice(n, min(n, 20), replace=False)
    for i in some:
        up, down = (loss(text)(scores + h * (np.arange(n) == i), grades)[1][i] for h in (step, -step))
        assert curvature[i] == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("text", BOUNDS)
def test_a_bound_keeps_every_step_within_one_over_alpha(text):
    """Where a document has a gradient it has a curvature, and the step of a pair alone is 1/α."""
    scores, grades = random_query(5, 30)
    gradient, curvature = newton(text, scores, grades)
    assert (curvature[gradient != 0.0] > 0.0).all()
    assert (np.abs(gradient) <= curvature / loss(text).params["alpha"] * (1.0 + 1e-12)).all()
    pair = newton(text, np.array([0.0, 0.3]), [1.0, 0.0])
    assert pair[0][0] / pair[1][0] == pytest.approx(-1.0 / loss(text).params["alpha"])


def frozen_slopes(scores, weights, slope):
    v = scores[:, None] - scores
    pulls = weights * slope(v)
    return pulls.sum(axis=1) - pulls.sum(axis=0)


@pytest.mark.parametrize("text", WEIGHTS)
@pytest.mark.parametrize(("seed", "n"), [(0, 2), (1, 7), (2, 40)])
def test_with_frozen_weights_too(text, seed, n):
    scores, grades = random_query(seed, n)
    weights = np.zeros((n, n))
    for (i, j), weight in WEIGHTS[text](scores, grades).items():
        weights[i, j] = weight
    sigma = loss(text).params.get("sigma", 1.0)
    slope = (
        (lambda v: -2.0 * np.clip(1.0 - v, 0.0, 2.0))
        if text == "weighted-huber"
        else (lambda v: -sigma / (1.0 + np.exp(sigma * v)))
    )
    gradient, curvature = newton(text, scores, grades)
    np.testing.assert_allclose(gradient, frozen_slopes(scores, weights, slope), rtol=1e-9, atol=1e-12)
    step = 1e-6
    for i in range(n):
        up, down = (frozen_slopes(scores + h * (np.arange(n) == i), weights, slope)[i] for h in (step, -step))
        assert curvature[i] == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("name", sorted(KERNEL_LOSSES))
@pytest.mark.parametrize("n", [2, 60, 600])
@pytest.mark.parametrize("size", [0.0, 50.0, 1e3, 1e6])
def test_large_scores_are_safe(name, n, size):
    rng = np.random.default_rng(n)
    scores, grades = rng.choice([-size, size, 0.3], n), rng.permutation(np.arange(n) % 4).astype(float)
    for y in (grades, grades * 300.0):  # gains of 2^900
        with np.errstate(over="raise", invalid="raise"):
            gradient, curvature = newton(name, scores, y)
        assert np.isfinite(gradient).all()
        assert np.isfinite(curvature).all()
        assert (curvature >= 0.0).all()
    if n == 60:
        expected = BENDS[name](scores, grades)
        atol = 1e-9 if name == "listmle" else 1e-14  # sums of logarithms of size 1e6
        np.testing.assert_allclose(newton(name, scores, grades)[1], expected, rtol=1e-9, atol=atol)


@pytest.mark.parametrize("text", ["ranknet", "lambda"])
def test_pairs_far_in_the_wrong_order_keep_their_curvature(text):
    """q(1 − q) where q rounds to 1."""
    near = newton(text, np.array([0.0, 100.0]), [1, 0])[1]
    right = newton(text, np.array([100.0, 0.0]), [1, 0])[1]
    assert near[0] == pytest.approx(right[0], rel=1e-12)
    assert near[0] == pytest.approx(math.exp(-100.0) * (1.0 if text == "ranknet" else 1.0 - 1.0 / math.log2(3.0)))
    far = newton(text, np.array([0.0, 650.0]), [1, 0])[1]
    assert far[0] == pytest.approx(near[0] * math.exp(-550.0), rel=1e-9)


@pytest.mark.parametrize("text", CURVED)
def test_queries_are_independent_whatever_the_threads(text):
    rng = np.random.default_rng(2)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 30, 40))])
    scores, y = rng.normal(size=offsets[-1]), rng.integers(0, 4, offsets[-1]).astype(float)
    gradient, curvature = newton(text, scores, y, offsets)
    for q in range(40):
        rows = slice(offsets[q], offsets[q + 1])
        own = newton(text, scores[rows], y[rows])
        np.testing.assert_allclose(own[0], gradient[rows], atol=1e-13)
        np.testing.assert_allclose(own[1], curvature[rows], atol=1e-13)
    for threads in (1, 3):
        again = newton(text, scores, y, offsets, threads)
        assert np.array_equal(again[0], gradient)
        assert np.array_equal(again[1], curvature)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n_grades", [2, 5, 100])
@pytest.mark.parametrize("n", [230, weighted_kernels.LONG_LIST - 1])
def test_ranks_by_counting_and_by_sorting_agree(ties, n_grades, n):
    rng = np.random.default_rng(n_grades)
    t = rng.integers(-10, 10, n).astype(float) if ties else rng.normal(size=n)
    t[t == 0.0] *= rng.choice([-1.0, 1.0], (t == 0.0).sum())  # −0 equals 0
    grades = np.sort(rng.integers(0, n_grades, n))[::-1]
    cuts = np.concatenate([[0], np.flatnonzero(np.diff(grades)) + 1, [n]])
    offsets, blocks, starts = np.array([0, 7, 7 + n]), np.array([0, 1, len(cuts)]), np.concatenate([[0], 7 + cuts])
    discounts = 1.0 / np.log2(np.arange(2.0, n + 2.0))
    rank, D = np.empty(n, dtype=np.int64), np.empty(n)
    room = np.empty(weighted_kernels.RANK_ROOM, dtype=np.int64)
    weighted_kernels.rank_by_counting(t, offsets, blocks, starts, discounts, room, 1, 2, rank, D)
    sorted_rank, sorted_D = rank_by_sorting(t, cuts, discounts)
    assert np.array_equal(sorted_rank, rank)
    np.testing.assert_allclose(sorted_D, D, rtol=1e-15)


def test_ranks_by_counting_of_scores_that_are_not_finite():
    t = np.array([np.inf, np.nan, 1.0, -np.inf, -np.inf, np.inf, np.nan, -np.inf, 1.0])
    offsets, blocks, starts = np.array([0, 9]), np.array([0, 2]), np.array([0, 4, 9])
    discounts, room = np.arange(10.0, 1.0, -1.0), np.empty(weighted_kernels.RANK_ROOM, dtype=np.int64)
    rank, D = np.empty(9, dtype=np.int64), np.empty(9)
    weighted_kernels.rank_by_counting(t, offsets, blocks, starts, discounts, room, 0, 1, rank, D)
    # Lower grades come first, equal documents share their places, and NaN counts for nobody.
    assert (rank & weighted_kernels.TWICE).tolist() == [4, 1, 8, 14, 11, 2, 1, 11, 6]
    assert (rank >> weighted_kernels.SHARED).tolist() == [1, 1, 1, 1, 2, 1, 1, 2, 1]  # how many share the rank
    assert D.tolist() == [9.0, 0.0, 7.0, 4.0, 5.5, 10.0, 0.0, 5.5, 8.0]


def test_the_logarithm_is_good_to_the_last_digits():
    for p in np.linspace(0.0, 0.5, 1001):
        assert call(weighted_kernels._minus_log, p / (2.0 - p)) == pytest.approx(-math.log1p(-p), rel=1e-15, abs=0.0)


def test_a_list_of_many_documents_and_grades():
    n, n_grades = 5_000, 100
    rng = np.random.default_rng(0)
    scores, grades = rng.normal(size=n), rng.integers(0, n_grades, n).astype(float)
    _, curvature = newton("ranknet", scores, grades)
    q = 1.0 / (1.0 + np.exp(scores[:, None] - scores))
    different = grades[:, None] != grades
    expected = (different * q * (1.0 - q)).sum(axis=1) / (different.sum() / 2)
    np.testing.assert_allclose(curvature, expected, rtol=1e-9)
    for name in ("lambda", "lambdaloss", "pairwise-squared-hinge"):
        assert (newton(name, scores, grades)[1] >= 0.0).all()


def test_squared_hinges_by_sorting_give_what_all_pairs_give():
    scores, grades = random_query(5, 700, spread=1.0)
    order = np.argsort(-grades, kind="stable")
    cuts = np.concatenate([[0], np.flatnonzero(np.diff(grades[order])) + 1, [700]])
    gradient, curvature = np.zeros(700), np.zeros(700)
    sweep_hinges(scores[order], cuts, True, gradient, curvature)
    g, h = newton("pairwise-squared-hinge", scores[order], grades[order])
    pairs = (grades[:, None] > grades).sum()
    np.testing.assert_allclose(gradient / pairs, g, rtol=1e-9, atol=1e-13 * np.abs(g).max())
    np.testing.assert_allclose(curvature / pairs, h, rtol=1e-12)
