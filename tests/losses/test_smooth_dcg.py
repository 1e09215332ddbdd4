"""Smoothed DCG: against matrices of all pairs, limits, long lists, large scores, moving cut-off and stages."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_formulas import hinge_above, hinge_below, ideal, moving_cutoff, sigmoid, smooth_dcg, smooth_ranks

import gainful
from gainful import DataError, LinearRanker, ParameterError
from gainful.compute.query_loop import gradient_and_curvature, values_and_gradient
from gainful.linear.risk import LinearRisk
from gainful.losses import LOSSES, loss, smooth_dcg_kernels
from gainful.losses.base import ByGrade
from gainful.losses.smooth_dcg import in_bands, regression_share
from gainful.losses.smooth_dcg import smooth_ranks as ranks_of
from gainful.solvers.momentum import descend_stages

NAMES = ("sdcg", "shf-sdcg", "reg-shf-sdcg")


def falling(x):
    """1/(1 + exp(x)), elementwise, for x of any size."""
    small = np.exp(-np.abs(x))
    return np.where(x > 0.0, small, 1.0) / (1.0 + small)


def by_matrices(s, g, *, alpha=1.0, beta=1.0, k=10, hinged=False):
    """Value and gradient of (N − S)/N_q by n × n matrices, the cut-off held where it is."""
    s, g = np.asarray(s), np.asarray(g)
    x = s[:, None] - s
    step, slope = falling(alpha * x), -alpha * falling(alpha * x) * falling(-alpha * x)
    if hinged:
        for higher, sign in ((g[:, None] > g, 1.0), (g[:, None] < g, -1.0)):
            wrong = sign * x < 0.0  # the document of higher grade has the lower score
            hinge = np.where(wrong, 0.5 - alpha / 4.0 * sign * x, falling(alpha * sign * x))
            step = np.where(higher, hinge + (sign < 0), step)
            slope = np.where(higher, sign * np.where(wrong, -alpha / 4.0, slope), slope)
    np.fill_diagonal(step, 0.0)
    np.fill_diagonal(slope, 0.0)
    r = 1.0 + step.sum(axis=1)
    cutoff = moving_cutoff(s, g, k) if hinged else k
    inside, outside, log = falling(beta * (r - cutoff)), falling(beta * (cutoff - r)), np.log1p(r)
    term = (2.0**g - 1.0) / ideal(g, k) * inside * math.log(2.0) / log
    by_rank = term * (beta * outside + 1.0 / ((1.0 + r) * log))
    flow = by_rank[:, None] * slope  # of the loss by s_i through r_i; the same with the other sign by s_j
    return ideal(g, len(g)) / ideal(g, k) - term.sum(), flow.sum(axis=1) - flow.sum(axis=0)


def kernel_ranks(s, g, alpha, hinged):
    """What the compiled code takes for the ranks, by row."""
    rows, n = ByGrade(np.asarray(g, dtype=float), np.array([0, len(s)])), len(s)
    z, bands = in_bands(np.asarray(s, dtype=float)[rows.rows], rows.offsets, alpha)
    found = np.empty(n)
    found[rows.rows] = ranks_of(z, bands, rows, np.array([n]), 0, 1, hinged)
    return found


# -- long lists, large scores ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hinged", [False, True])
@pytest.mark.parametrize("alpha", [0.3, 5.0])
@pytest.mark.parametrize("scores", ["near", "ties", "spread", "clusters", "bands", "huge"])
def test_a_thousand_documents_by_matrices(hinged, alpha, scores):
    rng, n = np.random.default_rng(3), 1_000
    s = {
        "near": rng.normal(size=n),
        "ties": rng.integers(-2, 3, n).astype(float),
        "spread": rng.normal(size=n) * 500.0,
        "clusters": rng.choice([-1e6, 0.0, 1e6], n) + rng.normal(size=n),
        "bands": rng.choice([0.0, 64.0, 128.0, 256.0, 2560.0], n) + rng.integers(0, 3, n),
        "huge": rng.normal(size=n) * 1e6,
    }[scores]
    g = rng.choice(5, n, p=[0.5, 0.3, 0.1, 0.09, 0.01]).astype(float)
    s[g >= 3.0] += {"near": 3.0, "ties": 3.0}.get(scores, 2e6 if scores in ("clusters", "huge") else 3e3)
    settings_ = {"alpha": alpha, "beta": 0.05, "k": 40}
    value, gradient = loss("shf-sdcg" if hinged else "sdcg", **settings_)(s, g)
    expected, slopes = by_matrices(s, g, hinged=hinged, **settings_)
    assert value == pytest.approx(expected, rel=1e-9)
    if scores != "huge":  # where every pair is decided
        assert np.abs(slopes).max() > 1e-7
    np.testing.assert_allclose(gradient, slopes, rtol=1e-7, atol=1e-9 * np.abs(slopes).max() + 1e-50)


@pytest.mark.parametrize("alpha", [0.5, 2.0])
@pytest.mark.parametrize("size", [0.0, 300.0, 1e6])
@pytest.mark.parametrize("n", [2, 9, 30])
@pytest.mark.parametrize("hinged", [False, True])
def test_gradients_by_finite_differences_at_any_size_of_scores(alpha, size, n, hinged):
    rng = np.random.default_rng(n)
    s = size * rng.choice([-1.0, 1.0], n) + rng.integers(-4, 5, n) / 2.0  # with ties
    g = rng.permutation(np.arange(n) % 3).astype(float)
    s[g == 2.0] += 2.0 * size
    cutoff = moving_cutoff(s, g, 3) if hinged else 3
    _, gradient = loss("shf-sdcg" if hinged else "sdcg", alpha=alpha, beta=0.2, k=3)(s, g)
    h = 2.0**-12  # so that scores of ±1e6 move by exactly that
    plain = lambda at: smooth_dcg(at, g, 3, alpha, 0.2, hinged=hinged, cutoff=cutoff)  # noqa: E731
    found = [(plain(s + e) - plain(s - e)) / (2 * h) for e in np.eye(n) * h]
    np.testing.assert_allclose(gradient, found, rtol=1e-5, atol=1e-6 * np.abs(found).max() + 1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_equal_grades_do_nothing(name):
    for s, g in (([3.0], [2.0]), ([1.0, -1.0, 0.0], [1.0, 1.0, 1.0]), ([0.0, 5.0], [0.0, 0.0])):
        value, gradient = loss(name, target="dcg")(s, g)
        assert value == 0.0
        assert not gradient.any()


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(2, 30),
    k=st.integers(1, 30),
    beta=st.sampled_from([0.1, 1.0, 50.0]),
    hinged=st.booleans(),
)
def test_smoothed_dcg_is_never_above_the_best_of_the_whole_list(seed, n, k, beta, hinged):
    rng = np.random.default_rng(seed)
    g = rng.integers(0, 3, n).astype(float)
    s = rng.choice([0.0, 0.01, 1.0]) * rng.normal(size=n)
    if len(set(g)) > 1:
        cutoff = moving_cutoff(s, g, k) if hinged else k
        r = smooth_ranks(s, g, 1.0, hinged)
        total = sum(
            (2.0**x - 1.0) * sigmoid(beta * (y - cutoff)) / math.log2(1.0 + y) for x, y in zip(g, r, strict=True)
        )
        assert total <= ideal(g, n) * (1.0 + 1e-12)
        value = loss("shf-sdcg" if hinged else "sdcg", beta=beta, k=k, target="dcg")(s, g)[0]
        assert value == pytest.approx(ideal(g, n) - total, abs=1e-9)


def test_it_can_be_above_the_best_at_the_cut_off():
    """Why the losses measure from the best of the whole list: 17 documents share rank 9, and all of them count."""
    g, s = np.array([1.0] * 17 + [0.0]), np.array([5.0] * 17 + [-5.0])
    total = ideal(g, 18) - loss("sdcg", alpha=10.0, beta=10.0, k=10, target="dcg")(s, g)[0]
    assert total > ideal(g, 10) * 1.05


# -- limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [0.7, 3.0, 40.0])
@pytest.mark.parametrize("alpha", [0.5, 1.0, 4.0])
def test_a_wrong_pair_has_one_slope_whichever_document_is_looked_at(x, alpha):
    """Equation (16): |∂r̂_j/∂o_i| = α/4 and ∂r̂_1/∂o_i = ∂r̂_2/∂o_i where the better document has the lower score."""
    s, h = np.array([-x / 2, x / 2]), 1e-4
    for i in range(2):
        e = h * np.eye(2)[i]
        up, down = (kernel_ranks(s + sign * e, [1, 0], alpha, True) for sign in (1, -1))
        slope = (up - down) / (2 * h)
        assert np.abs(slope) == pytest.approx([alpha / 4.0] * 2, rel=1e-8)
        assert slope[0] == pytest.approx(slope[1], rel=1e-8)


def pair_ranks(x, alpha):
    """A_α(x) and B_α(−x) as the compiled code has them."""
    return kernel_ranks([x, 0.0], [1, 0], alpha, True) - 1.0


@pytest.mark.parametrize("alpha", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("x", [-1e6, -20.0, -0.3, 0.0, 0.3, 20.0, 1e6])
def test_smoothed_hinges(x, alpha):
    a, b = pair_ranks(x, alpha)
    assert a == pytest.approx(hinge_above(alpha, x), rel=1e-12, abs=1e-15)
    assert b == pytest.approx(hinge_below(alpha, -x), rel=1e-12)
    assert b == pytest.approx(1.0 + a, rel=1e-15)


def test_limits_of_the_smoothed_hinges():
    assert pair_ranks(1e3, 10.0) == pytest.approx([0.0, 1.0], abs=1e-50)  # x → ∞: the right order
    assert pair_ranks(0.01, 1e6) == pytest.approx([0.0, 1.0], abs=1e-50)  # α → ∞
    assert pair_ranks(-1e3, 1.0)[0] == 0.5 + 250.0  # x → −∞: a line of slope −α/4
    assert (pair_ranks(-2e3, 1.0) - pair_ranks(-1e3, 1.0)) / -1e3 == pytest.approx([-0.25, -0.25])


@pytest.mark.parametrize("alpha", [0.5, 2.0, 10.0])
def test_the_slope_is_continuous_at_0(alpha):
    h = 1e-6 / alpha
    left, right = (
        (pair_ranks(0.0, alpha) - pair_ranks(-h, alpha)) / h, (pair_ranks(h, alpha) - pair_ranks(0.0, alpha)) / h
    )  # fmt: skip
    assert left == pytest.approx([-alpha / 4.0] * 2, rel=1e-5)
    assert right == pytest.approx([-alpha / 4.0] * 2, rel=1e-5)


@pytest.mark.parametrize("k", [1, 4, 10, 25, None])
@pytest.mark.parametrize("seed", range(4))
def test_steep_sigmoids_give_dcg(k, seed):
    """α, β → ∞: DCG@k, but for rank k itself, which the sigmoid gives one half at every β."""
    rng, n = np.random.default_rng(seed), 20
    s, g = rng.permutation(n).astype(float), rng.integers(0, 4, n).astype(float)
    value, _ = loss("sdcg", alpha=1e3, beta=1e3, k=k, target="dcg")(s, g)
    dcg = lambda depth: gainful.metric(f"dcg@{depth}")(s, g, qid=np.zeros(n)) if depth else 0.0  # noqa: E731
    expected = dcg(n) if k is None or k > n else 0.5 * (dcg(k) + dcg(k - 1))
    assert ideal(g, n) - value == pytest.approx(expected, rel=1e-9)
    normed, _ = loss("sdcg", alpha=1e3, beta=1e3, k=k)(s, g)
    assert normed == pytest.approx(value / ideal(g, n if k is None else k), rel=1e-12)


def test_a_perfect_ranking_with_steep_hinges_is_dcg_too():
    g = np.array([3.0, 2.0, 2.0, 1.0, 0.0, 0.0])
    value, _ = loss("shf-sdcg", alpha=1e3, k=None)(np.arange(6.0)[::-1], g)
    assert value == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_with_no_least_spread_the_unit_of_the_scores_does_not_matter(name):
    rng = np.random.default_rng(4)
    s, g = rng.normal(size=30), rng.integers(0, 4, 30).astype(float)
    own = loss(name, least_spread=0.0, alpha=3.0)
    _, gradient = own(s, g)
    assert np.abs(gradient).max() > 1e-3
    for size in (1e-6, 1e3, 1e160):
        np.testing.assert_allclose(own(size * s, g)[1], gradient, rtol=1e-6, atol=1e-12)
    np.testing.assert_array_equal(own(np.full(30, 7.0), g)[1], loss(name, alpha=3.0)(np.full(30, 7.0), g)[1])


@pytest.mark.parametrize("name", NAMES)
def test_a_large_least_spread_is_the_unit(name):
    rng = np.random.default_rng(4)
    s, g = rng.normal(size=30), rng.integers(0, 4, 30).astype(float)
    value, gradient = loss(name, least_spread=1e9, alpha=1e9)(s, g)
    expected, slopes = loss(name, alpha=1.0)(s, g)
    assert value == pytest.approx(1e9 * expected)
    np.testing.assert_allclose(gradient, 1e9 * slopes, rtol=1e-9, atol=1e-3)


def test_the_unit_of_the_scores_is_frozen():
    assert loss("sdcg").smooth
    assert not loss("sdcg").frozen
    assert loss("sdcg", least_spread=0.0).frozen
    assert not loss("sdcg", least_spread=0.0).smooth


def test_sigmoids_have_no_gradient_from_a_flat_start_and_hinges_have_one():
    g = np.repeat([2.0, 1.0, 0.0], [10, 90, 900])
    slopes = {name: loss(name)(np.zeros(1_000), g)[1] for name in ("sdcg", "shf-sdcg")}
    assert np.abs(slopes["sdcg"]).max() < 1e-100
    assert slopes["shf-sdcg"][0] < -1e-4 < 0.0 < slopes["shf-sdcg"][-1]


# -- the moving cut-off ------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(data=st.data(), n=st.integers(1, 12), k=st.integers(1, 14), tied=st.sampled_from(["all", "best"]))
def test_the_cut_off_by_sorting(data, n, k, tied):
    s = np.array(data.draw(st.lists(st.sampled_from([-1.0, 0.0, 0.0, 0.5, 2.0]), min_size=n, max_size=n)))
    g = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), dtype=float)
    order = np.array(data.draw(st.permutations(range(n))))
    for rows_s, rows_g in ((s, g), (s[order], g[order])):
        rows, found = ByGrade(rows_g, np.array([0, n])), np.empty(1)
        smooth_dcg_kernels.moving_cutoffs(
            tied == "all", rows_s[rows.rows], rows.offsets, rows.blocks, rows.starts, k, 0, 1, np.empty(n), found
        )  # fmt: skip
        assert found[0] == moving_cutoff(s, g, k, tied)


def test_a_perfect_ranking_is_cut_off_at_k_or_after_the_grade_of_the_kth():
    s, g = np.arange(30.0)[::-1], np.repeat([2.0, 1.0, 0.0], [2, 18, 10])
    for k, tied, expected in ((1, "all", 2), (10, "all", 20), (10, "best", 10), (25, "all", 25), (25, "best", 25)):
        rows, found = ByGrade(g, np.array([0, 30])), np.empty(1)
        smooth_dcg_kernels.moving_cutoffs(
            tied == "all", s[rows.rows], rows.offsets, rows.blocks, rows.starts, k, 0, 1, np.empty(30), found
        )
        assert found[0] == expected


def test_cut_offs_of_several_queries():
    offsets = np.array([0, 3, 5, 9])
    s = np.array([0.0, 1.0, 2.0, 1.0, 0.0, 3.0, 1.0, 2.0, 0.0])
    rows, found = ByGrade(np.array([1.0, 0, 0, 1, 0, 0, 0, 0, 2]), offsets), np.empty(2)
    smooth_dcg_kernels.moving_cutoffs(
        True, s[rows.rows][3:], offsets, rows.blocks, rows.starts, 1, 1, 3, np.empty(4), found
    )
    assert found.tolist() == [1.0, 4.0]


# -- stages ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("total", [3, 4, 7, 250, 10_000])
def test_the_share_of_regression(total):
    assert regression_share(1, total) == pytest.approx(0.999999, abs=1e-12)
    assert regression_share(total, total) <= 1.1e-6
    if total % 2 == 0:
        assert regression_share(total // 2, total) == 0.5
    shares = [regression_share(m, total) for m in range(1, total + 1)]
    assert all(a > b for a, b in pairwise(shares))
    gamma = math.log(999_999) / (total / 2 - 1)
    assert shares == pytest.approx([sigmoid(gamma * (m - total / 2)) for m in range(1, total + 1)], rel=1e-9)


def test_the_share_of_regression_where_there_are_hardly_any_iterations():
    assert [regression_share(m, 2) for m in (1, 2)] == pytest.approx([0.999999, 1e-6])
    assert regression_share(1, 1) == pytest.approx(1e-6)


@pytest.mark.parametrize("iteration", [1, 5, 6, 10])
def test_a_stage_is_the_mixture(iteration):
    rng = np.random.default_rng(0)
    offsets = np.array([0, 1, 8, 30, 33])
    s, y = rng.normal(size=33), rng.integers(0, 3, 33).astype(float)
    y[30:] = 1.0
    own, tau = loss("reg-shf-sdcg", regression=3.0, alpha=2.0), regression_share(iteration, 10)
    values, gradient = values_and_gradient(own.bind(y, offsets).at(iteration, 10), offsets, s)
    hinged, slopes = loss("shf-sdcg", alpha=2.0).of_queries(s, y, offsets)
    squared, lines = loss("squared").of_queries(s, y, offsets)
    np.testing.assert_allclose(values, tau * 3.0 * squared + (1 - tau) * hinged, rtol=1e-12)
    np.testing.assert_allclose(gradient, tau * 3.0 * lines + (1 - tau) * slopes, rtol=1e-12, atol=1e-15)
    again = values_and_gradient(own.bind(y, offsets).at(iteration, 10), offsets, s, 3)
    assert np.array_equal(again[0], values)
    assert np.array_equal(again[1], gradient)


@pytest.mark.parametrize("iteration", [1, 5, 10])
def test_the_curvature_of_a_stage_is_mixed_too(iteration):
    rng = np.random.default_rng(0)
    offsets = np.array([0, 1, 8, 30, 33])
    s, y = rng.normal(size=33), rng.integers(0, 3, 33).astype(float)
    own, tau = loss("reg-shf-sdcg", regression=3.0, alpha=2.0), regression_share(iteration, 10)
    gradient, curvature = gradient_and_curvature(own.bind_newton(y, offsets).at(iteration, 10), offsets, s)
    bends = gradient_and_curvature(loss("shf-sdcg", alpha=2.0).bind_newton(y, offsets), offsets, s)[1]
    lines = gradient_and_curvature(loss("squared").bind_newton(y, offsets), offsets, s)[1]
    np.testing.assert_allclose(curvature, tau * 3.0 * lines + (1 - tau) * bends, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(
        gradient, values_and_gradient(own.bind(y, offsets).at(iteration, 10), offsets, s)[1], rtol=1e-9, atol=1e-15
    )


def test_regression_takes_a_grade_for_a_step():
    y, offsets, s = np.array([2.0, 0.0, 1.0]), np.array([0, 3]), np.array([0.2, 0.0, 0.1])
    own = loss("reg-shf-sdcg", grade_step=0.1)
    for bound, run in (
        (own.bind(y, offsets), values_and_gradient),
        (own.bind_newton(y, offsets), gradient_and_curvature),
    ):
        found = run(bound.at(1, 10), offsets, s)
        assert np.abs(found[0] if run is gradient_and_curvature else found[1]).max() < 1e-5
    assert np.abs(values_and_gradient(loss("reg-shf-sdcg").bind(y, offsets).at(1, 10), offsets, s)[1]).max() > 0.1


# -- parameters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sdcg(alpha=0)", "alpha of sdcg must be a number > 0, was 0"),
        ("shf-sdcg(beta=-1)", "beta of shf-sdcg must be a number > 0"),
        ("shf-sdcg(k=0)", "k of shf-sdcg must be an integer ≥ 1, or None, was 0"),
        ("sdcg(target=map)", "target of sdcg must be 'ndcg' or 'dcg', was 'map'"),
        ("reg-shf-sdcg(regression=0)", "regression of reg-shf-sdcg must be a number > 0"),
        ("sdcg(regression=1)", "the loss sdcg has no parameter 'regression'"),
    ],
)
def test_bad_parameters(text, message):
    with pytest.raises(ParameterError, match=message):
        loss(text)


def test_gains_too_large_for_dcg():
    with pytest.raises(DataError, match="a grade of 2000 is too large to sum; use target='ndcg'"):
        loss("sdcg", target="dcg")([0.0, 1.0], [2000.0, 1.0])
    assert loss("sdcg")([0.0, 1.0], [2000.0, 1.0])[0] > 0.0


def test_what_they_are():
    assert [LOSSES[name].smooth for name in NAMES] == [True, False, False]
    assert [LOSSES[name].frozen for name in NAMES] == [False, True, True]
    assert [LOSSES[name].staged for name in NAMES] == [False, False, True]


# -- on linear models --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parts():
    data = gainful.make_artificial(90, n_docs=15, n_features=6, seed=3)
    return gainful.split(data, (0.6, 0.2, 0.2), seed=1)


def test_a_staged_loss_on_a_linear_model(parts):
    train, _, test = parts
    model = LinearRanker(loss="reg-shf-sdcg", max_iter=80).fit(train)
    assert model.solver_ == "gradient"
    assert model.n_iter_ == 80
    plain = LinearRanker(loss="squared").fit(train)
    value = lambda w: LinearRisk.of(loss("shf-sdcg"), train).value_and_gradient(w)[0]  # noqa: E731
    assert value(model.coef_) < value(plain.coef_) - 0.01
    assert model.score(test) > 0.7


def test_the_first_stages_are_regression(parts):
    """Objectives as the stages have them: the first one is the squared error at w = 0, but for a millionth."""
    train, _, _ = parts
    risk = LinearRisk.of(loss("reg-shf-sdcg"), train)
    squared = LinearRisk.of(loss("squared"), train).value_and_gradient(np.zeros(train.n_features))[0]
    first = risk.at(1, 50).value_and_gradient(np.zeros(train.n_features))[0]
    assert first == pytest.approx(squared, rel=1e-5)
    w = np.ones(train.n_features)
    last, slopes, _ = risk.at(50, 50).value_and_gradient(w)
    expected = LinearRisk.of(loss("shf-sdcg"), train).value_and_gradient(w)
    assert last == pytest.approx(expected[0], rel=1e-4)
    np.testing.assert_allclose(slopes, expected[1], rtol=1e-3, atol=1e-5)


def test_validation_keeps_the_best_iteration_of_a_staged_loss(parts):
    train, valid, _ = parts
    model = LinearRanker(loss="reg-shf-sdcg", max_iter=40, early_stopping=40).fit(train, eval_set=valid)
    validated = [row["validation"] for row in model.history_]
    assert len(validated) == 40
    assert model._validation_metric()(model.predict(valid), valid) == max(validated)


def test_several_Cs_and_one_iteration(parts):
    train, valid, _ = parts
    model = LinearRanker(loss="reg-shf-sdcg", C=[1.0, 100.0], max_iter=10).fit(train, eval_set=valid)
    assert [row["iterations"] for row in model.path_] == [10, 10]
    assert LinearRanker(loss="reg-shf-sdcg", max_iter=1).fit(train).n_iter_ == 1


@pytest.mark.parametrize("solver", ["lbfgs", "bundle"])
def test_solvers_that_cannot_follow_a_staged_loss_say_so(parts, solver):
    message = f"solver='{solver}' cannot follow reg-shf-sdcg, which changes from .*; use solver='gradient'"
    with pytest.raises(ParameterError, match=message):
        LinearRanker(loss="reg-shf-sdcg", solver=solver).fit(parts[0])


def test_stages_are_visited_in_order():
    asked, seen = [], []

    def stage(m):
        asked.append(m)
        return lambda w: (float((w - m) @ (w - m)), 2.0 * (w - m))

    found = descend_stages(
        stage, np.zeros(1), step=0.5, max_iter=4, visit=lambda w, value, gap: seen.append(value) or False
    )  # fmt: skip
    assert asked == [1, 2, 3, 4, 4]
    assert len(seen) == found.n_iter == 4
    assert found.converged
    assert found.certificate.primal == seen[-1] == float((found.w - 4.0) @ (found.w - 4.0))
    stopped = descend_stages(stage, np.zeros(1), max_iter=4, visit=lambda w, value, gap: True)
    assert stopped.interrupted
    assert stopped.n_iter == 1
    with pytest.raises(DataError, match="not finite at the start of training"):
        descend_stages(lambda m: lambda w: (math.inf, w), np.zeros(1))
    with pytest.raises(DataError, match="became infinite during training"):
        descend_stages(lambda m: lambda w: (0.0 if m == 1 else math.nan, w + 1.0), np.zeros(1))
