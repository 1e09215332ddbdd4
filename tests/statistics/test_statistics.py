"""Paired statistics against enumeration, simulation and SciPy; Holm against its definition."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gainful.statistics import paired as statistics
from gainful.statistics.paired import (
    TESTS,
    bootstrap_intervals,
    detectable,
    difference_intervals,
    effect_size,
    few_differing,
    holm,
    least_p,
    mean_intervals,
    p_values,
    paired_t,
    randomization,
    randomizations,
    skewed,
    smallest_p,
    superiority,
    wilcoxon,
)


def all_signs(n):
    return np.array(list(itertools.product([-1, 1], repeat=n)))


# -- tests -------------------------------------------------------------------------------------------------------------


def test_randomization_agrees_with_all_sign_flips(rng):
    d = rng.normal(0.3, 1.0, 12)
    exact = np.mean(np.abs(all_signs(12) @ d) >= abs(d.sum()) * (1 - 1e-12))
    assert randomization(d) == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 10_000))


def test_randomization_of_many_queries_is_nearly_normal(rng):
    d = rng.normal(0.02, 1.0, 3000)
    expected = 2 * stats.norm.sf(abs(d.sum()) / np.sqrt((d**2).sum()))
    assert randomization(d) == pytest.approx(expected, abs=4 * np.sqrt(expected / 10_000))


def test_rankers_tested_together_get_the_p_values_they_get_alone(rng):
    columns = rng.normal(0.1, 1.0, (40, 5))
    alone = [randomization(column) for column in columns.T]
    assert randomizations(columns).tolist() == alone
    assert p_values("randomization", columns, 0) == alone
    assert randomizations(columns, seed=1).tolist() != alone


def test_a_skipped_query_counts_for_nothing(rng):
    d = rng.normal(0.4, 1.0, 12)
    with_gaps = np.insert(d, [3, 7], np.nan)
    exact = np.mean(np.abs(all_signs(12) @ d) >= abs(d.sum()) * (1 - 1e-12))
    (p,) = p_values("randomization", with_gaps[:, None], 0)
    assert p == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 10_000))
    for test in ("t", "wilcoxon"):
        assert p_values(test, with_gaps[:, None], 0) == [TESTS[test](d, 0)]


def test_t_is_scipys(rng):
    a, b = rng.random(40), rng.random(40)
    assert paired_t(a - b) == pytest.approx(stats.ttest_rel(a, b).pvalue)


@pytest.mark.parametrize("n", [3, 20, 50, 51, 300])
def test_wilcoxon_is_scipys(n, rng):
    d = rng.normal(0.2, 1.0, n)
    assert wilcoxon(d) == pytest.approx(stats.wilcoxon(d).pvalue, abs=1e-12)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=10))
def test_wilcoxon_with_equal_differences_is_exact(values):
    d = np.array(values, dtype=float)
    nonzero = d[d != 0]
    if len(nonzero) == 0:
        assert wilcoxon(d) == 1.0
        return
    ranks = stats.rankdata(np.abs(nonzero))
    sums = (all_signs(len(nonzero)) > 0) @ ranks
    up = ranks[nonzero > 0].sum()
    assert wilcoxon(d) == pytest.approx(min(1.0, 2 * min((sums <= up).mean(), (sums >= up).mean())))


def test_wilcoxon_with_equal_differences_beyond_50_queries_corrects_the_variance(rng):
    d = rng.integers(-3, 5, 120).astype(float)
    assert wilcoxon(d) == pytest.approx(stats.wilcoxon(d[d != 0], method="approx").pvalue, abs=1e-12)


@pytest.mark.parametrize("test", TESTS)
def test_no_difference_is_never_significant(test):
    assert TESTS[test](np.zeros(20), 0) == 1.0
    assert TESTS[test](np.zeros(0), 0) == 1.0
    assert TESTS[test](np.array([0.3]), 0) > 0.05


@pytest.mark.parametrize("test", TESTS)
def test_a_clear_difference_is_significant_whichever_way(test, rng):
    d = rng.normal(1.0, 0.2, 50)
    assert TESTS[test](d, 0) < 0.001
    assert TESTS[test](-d, 0) == pytest.approx(TESTS[test](d, 0), abs=1e-3)
    assert TESTS[test](np.full(30, 0.25), 0) < 0.001


@pytest.mark.parametrize("test", TESTS)
def test_the_level_is_kept_on_noise(test):
    rng = np.random.default_rng(0)
    false_alarms = np.mean([TESTS[test](rng.standard_t(3, 30), 0) <= 0.05 for _ in range(400)])
    assert false_alarms <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_rejects_what_the_step_down_procedure_rejects(p):
    adjusted = holm(p)
    assert all(a >= raw for a, raw in zip(adjusted, p, strict=True))
    for alpha in (0.01, 0.05, 0.2):
        rejected = set()
        for step, place in enumerate(np.argsort(p, kind="stable")):
            if p[place] * (len(p) - step) > alpha:
                break
            rejected.add(int(place))
        assert {i for i, a in enumerate(adjusted) if a <= alpha} == rejected


# -- intervals ---------------------------------------------------------------------------------------------------------


def test_bootstrap_ends_are_quantiles_of_studentised_means(rng):
    """Against NumPy's own resampling, by how much of it lies beyond the ends; the other end is Student's."""
    x = rng.beta(0.5, 1.5, 30)
    (low,), (high,) = bootstrap_intervals(x[:, None])
    error = x.std(ddof=1) / np.sqrt(30)
    drawn = x[rng.integers(0, 30, (40_000, 30))]
    smooth = np.sqrt((30 * drawn.var(axis=1, ddof=1) / 30 + error**2) / 31)
    t = (drawn.mean(axis=1) - x.mean()) / smooth
    assert (t < (x.mean() - high) / error).mean() == pytest.approx(0.025, abs=4 * np.sqrt(0.025 / 10_000))
    student = stats.t.ppf(0.975, 29)
    assert low == pytest.approx(x.mean() - student * error)
    assert high > x.mean() + 1.1 * student * error  # the values are skewed to the right


@pytest.mark.parametrize("n", [10, 20, 60])
def test_intervals_hold_the_true_mean_as_often_as_they_say(n):
    """A skewed population in [0, 1], like NDCG."""
    values = np.random.default_rng(1).beta(0.5, 1.5, (n, 1000))
    low, high = mean_intervals(values, highest=1.0)
    held = np.mean((low <= 0.25) & (high >= 0.25))
    assert 0.95 - 3 * np.sqrt(0.05 * 0.95 / 1000) <= held <= 0.985
    assert low.min() >= 0
    assert high.max() <= 1


@pytest.mark.parametrize("ones", [0, 1, 4, 9, 10])
def test_intervals_of_zeros_and_ones_are_exact(ones):
    values = np.repeat([1.0, 0.0], [ones, 10 - ones])[:, None]
    expected = stats.binomtest(ones, 10).proportion_ci(0.9, method="exact")
    assert np.ravel(mean_intervals(values, level=0.9, highest=1.0)) == pytest.approx([expected.low, expected.high])
    weighted = mean_intervals(np.vstack([values, [[1.0]]]), np.append(np.full(10, 2.0), 0.0), level=0.9, highest=1.0)
    assert np.ravel(weighted) == pytest.approx([expected.low, expected.high])
    assert np.isnan(mean_intervals(np.array([[1.0], [np.nan]]), highest=1.0)).all()


def test_each_column_has_the_interval_of_its_own_values(rng):
    """A perfect ranker beside one that is not has the exact interval, never a point."""
    x = rng.random(12)
    values = np.column_stack([np.ones(12), x, np.zeros(12)])
    ends = np.array(mean_intervals(values, highest=1.0))
    for k, ones in ((0, 12), (2, 0)):
        expected = stats.binomtest(ones, 12).proportion_ci(0.95, method="exact")
        assert ends[:, k] == pytest.approx([expected.low, expected.high])
    assert ends[:, 1] == pytest.approx(np.clip(np.ravel(bootstrap_intervals(x[:, None])), 0, 1))
    # A metric without a highest value may have others than 0 and 1 on other queries.
    assert np.array(mean_intervals(values))[:, 0] == pytest.approx([1, 1])
    d = np.column_stack([np.ones(12), 1 - x])
    mixed = np.array(difference_intervals(d, binary=np.array([True, False])))
    assert mixed[:, :1] == pytest.approx(np.array(difference_intervals(d[:, :1], binary=True)))
    assert mixed[:, 1:] == pytest.approx(np.array(difference_intervals(d[:, 1:])))


@pytest.mark.parametrize("n", [5, 10, 30])
def test_intervals_of_zeros_and_ones_hold_for_every_mean(n):
    """By enumeration: the chance of all counts of ones whose interval holds p."""
    samples = (np.arange(n)[:, None] < np.arange(n + 1)).astype(float)  # column k has k ones
    low, high = mean_intervals(samples, highest=1.0)
    for p in np.linspace(0.01, 0.99, 99):
        assert stats.binom.pmf(np.arange(n + 1), n, p)[(low <= p) & (p <= high)].sum() >= 0.95


@pytest.mark.parametrize("n", [5, 10, 20])
def test_intervals_of_differences_of_zeros_and_ones_hold(n):
    """By enumeration over the numbers of queries won and lost; at worst a little over one per cent is lacking."""
    pairs = [(w, v) for w in range(n + 1) for v in range(n + 1 - w)]
    samples = np.array([[1.0] * w + [-1.0] * v + [0.0] * (n - w - v) for w, v in pairs]).T
    low, high = difference_intervals(samples, binary=True)
    assert low.min() >= -1
    assert high.max() <= 1
    counts = np.array([(w, v, n - w - v) for w, v in pairs])
    for win, loss in [(0.05, 0.0), (0.05, 0.05), (0.2, 0.02), (0.15, 0.05), (0.3, 0.2), (0.5, 0.1), (0.5, 0.5)]:
        chances = stats.multinomial.pmf(counts, n, [win, loss, 1 - win - loss])
        assert chances[(low <= win - loss) & (win - loss <= high)].sum() >= 0.93
    assert np.isnan(difference_intervals(np.array([[1.0], [np.nan]]), binary=True)).all()


def test_differences_stay_within_what_the_metric_allows():
    d = np.array([[1.0], [0.9], [0.2]])
    low, high = difference_intervals(d, highest=1.0)
    assert (low[0] > -1, high[0]) == (True, 1.0)
    assert difference_intervals(d)[1][0] > 1.0


def test_intervals_of_weighted_and_skipped_queries(rng):
    x = rng.random(25)
    heavy = np.where(np.arange(25) == 3, 1.0, 0.0)
    (low,), (high,) = bootstrap_intervals(x[:, None], heavy)
    assert np.isnan([low, high]).all()  # only one query counts
    (low,), (high,) = bootstrap_intervals(x[:, None], heavy + 1e-9)
    assert (low, high) == (pytest.approx(x[3], abs=1e-6), pytest.approx(x[3], abs=1e-6))
    gaps = np.column_stack([np.insert(x, 0, np.nan), np.insert(x, 25, np.nan)])
    ends = np.array(bootstrap_intervals(gaps))
    alone = np.array(bootstrap_intervals(x[:, None]))
    assert ends == pytest.approx(np.repeat(alone, 2, axis=1), abs=0.01)


def test_an_interval_needs_two_queries():
    assert np.isnan(bootstrap_intervals(np.array([[0.3, np.nan], [np.nan, np.nan]]))).all()
    low, high = bootstrap_intervals(np.full((8, 1), 0.3))
    assert (low[0], high[0]) == (pytest.approx(0.3), pytest.approx(0.3))


def test_a_seed_fixes_the_resamples(rng):
    x = rng.random((20, 2))
    assert np.array_equal(bootstrap_intervals(x, seed=4), bootstrap_intervals(x, seed=4))
    assert not np.array_equal(bootstrap_intervals(x, seed=4), bootstrap_intervals(x, seed=5))
    assert np.array(bootstrap_intervals(x))[:, :1] == pytest.approx(np.array(bootstrap_intervals(x[:, :1])))


@pytest.mark.parametrize("n", [1, 7, 64, 130])
def test_draws(n, monkeypatch):
    """Signs are fair and unrelated, counts are those of n draws; blocks do not repeat each other."""
    monkeypatch.setattr(statistics, "BLOCK_VALUES", 50 * n)
    signs = np.concatenate([block.copy() for block in statistics._draw_blocks("draw_signs", n, 4000, 0)])
    assert signs.shape == (4000, n)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert np.abs(signs.mean(axis=0)).max() < 5 / np.sqrt(4000)
    assert np.abs((signs.T @ signs / 4000) - np.eye(n)).max() < 6 / np.sqrt(4000)
    counts = np.concatenate([block.copy() for block in statistics._draw_blocks("draw_counts", n, 4000, 0)])
    assert (counts.sum(axis=1) == n).all()
    assert np.abs(counts.mean(axis=0) - 1).max() < 5 / np.sqrt(4000)
    assert counts.var() == pytest.approx(1 - 1 / n, rel=0.05, abs=1e-12)


# -- sizes and what can be shown ---------------------------------------------------------------------------------------


def test_effect_sizes(rng):
    d = rng.normal(0.3, 0.5, 40)
    assert effect_size(d) == pytest.approx(stats.ttest_1samp(d, 0).statistic / np.sqrt(40))
    assert effect_size(np.full(5, 0.2)) == math.inf
    assert effect_size(-np.full(5, 0.2)) == -math.inf
    assert effect_size(np.zeros(5)) == 0.0
    assert superiority(np.array([1.0, 0.0, -2.0, 3.0])) == (2 + 0.5) / 4
    assert superiority(np.zeros(0)) == 0.5


@pytest.mark.parametrize("k", [1, 3, 6])
def test_the_smallest_p_is_that_of_the_most_extreme_signs(k):
    d = np.concatenate([np.arange(1.0, k + 1), np.zeros(2)])
    flips = all_signs(k)
    exact = np.mean(np.abs(flips @ d[:k]) >= d.sum())
    assert least_p("randomization", k) == least_p("wilcoxon", k) == exact
    assert wilcoxon(d) == exact
    assert smallest_p([1.0, 1.0, 1.0], 1, exact) == min(1.0, 3 * exact)


def test_the_smallest_p_is_what_holm_would_make_of_the_most_extreme_result():
    """Those that are more certain have taken the larger factors: the third of three is not multiplied at all."""
    assert smallest_p([1e-6, 2e-6, 0.2], 2, 0.03) == 0.03
    assert smallest_p([1e-6, 0.5, 0.2], 2, 0.03) == 0.06
    assert smallest_p([0.5, 0.9, 0.2], 2, 0.03) == pytest.approx(0.09)
    assert smallest_p([0.029], 0, 0.03) == 0.029  # drawn flips came out below


def test_tests_have_different_floors():
    assert least_p("randomization", 100) == 1 / 10_001
    assert least_p("wilcoxon", 100) == 2.0**-99
    assert least_p("t", 2) == 0.0
    assert least_p("randomization", 0) == 1.0


@pytest.mark.parametrize(("n", "rankers"), [(12, 1), (40, 4)])
def test_the_detectable_difference_is_found_in_80_percent_of_cases(n, rankers):
    rng = np.random.default_rng(5)
    unit = stats.zscore(np.arange(n, dtype=float), ddof=1)  # spread 1
    shift = detectable(unit, 0.05, rankers)
    p = stats.ttest_1samp(rng.normal(shift, 1.0, (n, 4000)), 0).pvalue
    assert np.mean(p <= 0.05 / rankers) == pytest.approx(0.8, abs=0.03)


def test_a_difference_of_one_query_is_not_detectable():
    assert detectable(np.array([0.1]), 0.05, 1) == math.inf


@pytest.mark.parametrize("columns", [1, 10])
def test_skewed_differences_are_told_from_normal_ones(columns, rng):
    """The limits within which tests of means hold: from 50 queries on, 5 % of normal samples are called skewed."""
    for n in (50, 200):
        normal = [skewed(rng.normal(size=(n, columns))).any() for _ in range(400)]
        assert np.mean(normal) < 0.07
        uneven = [skewed(np.exp(rng.normal(size=(n, columns)))).all() for _ in range(100)]
        assert np.mean(uneven) > 0.6
    d = rng.exponential(size=(40, 1))
    assert skewed(np.vstack([d, [[np.nan]]])).tolist() == skewed(d).tolist()
    assert skewed(np.full((5, 2), np.nan)).tolist() == [False, False]


def test_few_differing_counts_queries_that_differ():
    d = np.zeros((60, 2))
    d[:20, 0] = 0.1
    d[:19, 1] = 0.1
    d[30, :] = np.nan
    assert few_differing(d).tolist() == [False, True]


def test_weights_of_differences_are_those_of_means(rng):
    """Equal weights change nothing; a query of weight 0 is none."""
    d = rng.normal(0.2, 1.0, (30, 2))
    d[:, 1] = np.sign(d[:, 1]).round()
    how = {"highest": 1e9, "binary": np.array([False, True])}
    plain = np.array(difference_intervals(d, **how))
    np.testing.assert_allclose(difference_intervals(d, np.full(30, 7.0), **how), plain, rtol=1e-9)
    weights = np.r_[np.ones(25), np.zeros(5)]
    np.testing.assert_allclose(
        np.array(difference_intervals(d, weights, **how))[:, 1], np.array(difference_intervals(d[:25], **how))[:, 1]
    )
    middle = np.mean(difference_intervals(d, np.arange(1.0, 31.0), **how), axis=0)[1]
    assert abs(middle - np.average(d[:, 1], weights=np.arange(1.0, 31.0))) < 0.1
