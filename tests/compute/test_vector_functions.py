"""The functions that kernels evaluate many at a time, against those of the C library."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gainful.compute.compiled import kernel
from gainful.compute.kernels import LOWEST_EXPONENT, exp_below_one, half_tail


@kernel(cache=False)
def exponentials(x, out):
    for i in range(len(x)):
        out[i] = exp_below_one(x[i])


@kernel(cache=False)
def half_tails(x, out):
    for i in range(len(x)):
        out[i] = half_tail(x[i], exp_below_one(-x[i] * x[i]))


def values(of, x):
    out = np.empty(len(x))
    of(np.asarray(x, dtype=np.float64), out)
    return out


def test_exponentials_to_two_ulps_everywhere():
    rng = np.random.default_rng(0)
    edges = 0.5 * math.log(2.0) * np.arange(-2000, 0)  # where the power of two changes, and half-way between
    x = np.concatenate(
        [-708.0 * rng.random(200_000), -np.logspace(-320, 2.85, 20_000), edges, np.nextafter(edges, 0.0)]
    )
    x = np.append(x[x >= LOWEST_EXPONENT], [LOWEST_EXPONENT, -0.0, 0.0])
    exact = np.array([math.exp(v) for v in x])
    assert np.max(np.abs(values(exponentials, x) / exact - 1.0)) <= 5e-16


def test_exponentials_at_the_ends():
    found = values(exponentials, [0.0, np.nextafter(LOWEST_EXPONENT, -np.inf), -1e300, -np.inf, np.nan])
    assert found[0] == 1.0
    assert not found[1:4].any()
    assert math.isnan(found[4])


def test_half_tails_to_twelve_digits_everywhere():
    rng = np.random.default_rng(1)
    x = np.concatenate([26.6 * rng.random(200_000), np.logspace(-320, math.log10(26.6), 20_000), [0.0, 3.75, 26.6]])
    exact = np.array([0.5 * math.erfc(v) for v in x])
    found = values(half_tails, x)
    assert np.max(np.abs(found / exact - 1.0)) <= 2e-13
    near = x < 1.0  # where the square of x rounds to less than an ulp of its exponential
    assert np.max(np.abs(found[near] / exact[near] - 1.0)) <= 1e-15


@pytest.mark.parametrize("x", [26.7, 1e10, 1e300, np.inf])
def test_half_tails_vanish_far_out(x):
    assert values(half_tails, [x])[0] == pytest.approx(0.5 * math.erfc(x), abs=1e-307)


def test_half_tail_of_nan_is_nan():
    assert math.isnan(values(half_tails, [np.nan])[0])
