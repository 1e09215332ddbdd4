"""Paired tests against enumeration and SciPy; Holm against its definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gainful.comparison.statistics import TESTS, holm, paired_t, randomization, wilcoxon


def test_randomization_agrees_with_all_sign_flips(rng):
    d = rng.normal(0.3, 1.0, 12)
    flips = np.array(list(itertools.product([-1, 1], repeat=12)))
    exact = np.mean(np.abs(flips @ d) >= abs(d.sum()) * (1 - 1e-12))
    assert randomization(d) == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 10_000))


def test_t_and_wilcoxon_are_scipys(rng):
    a, b = rng.random(40), rng.random(40)
    assert paired_t(a - b) == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert wilcoxon(a - b) == pytest.approx(stats.wilcoxon(a, b).pvalue)


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
