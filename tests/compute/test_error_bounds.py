"""Proofs, in exact fractions, of the error bounds of ``exp_below_one`` and ``half_tail``.

Each bound has two parts. *Truncation*: how far the polynomial is from the function, over a whole interval: the interval
is cut into pieces, and on each the difference, expanded around the middle, is at most the sum of its absolute terms.
*Rounding*: n operations in a row change a term by a factor of at most γ(n) = n u / (1 − n u), where u = 2^-53.
Contracting a product and a sum into one operation only removes roundings. Products of two errors are left out; they are
far below the distance to the bounds that are asserted.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from gainful.compute import kernels

LOG_2 = Fraction("0.693147180559945309417232121458176568075500134360255")  # to 50 digits, as the next
INVERSE_ROOT_PI = Fraction("0.564189583547756286948079451560772585844050629328998")
U = Fraction(1, 2**53)


def gamma(operations):
    return operations * U / (1 - operations * U)


class Polynomial:
    """Coefficients that are exact, from the constant up; floats that it meets become fractions."""

    def __init__(self, *coefficients):
        self.coefficients = [Fraction(c) for c in coefficients]

    def __add__(self, other):
        mine, theirs = self.coefficients, _polynomial(other).coefficients
        n = max(len(mine), len(theirs))
        mine, theirs = (c + [Fraction(0)] * (n - len(c)) for c in (mine, theirs))
        return Polynomial(*(a + b for a, b in zip(mine, theirs, strict=True)))

    def __mul__(self, other):
        theirs = _polynomial(other).coefficients
        out = [Fraction(0)] * (len(self.coefficients) + len(theirs) - 1)
        for i, a in enumerate(self.coefficients):
            for j, b in enumerate(theirs):
                out[i + j] += a * b
        return Polynomial(*out)

    def __sub__(self, other):
        return self + _polynomial(other) * -1

    __radd__, __rmul__ = __add__, __mul__

    def slope(self):
        return Polynomial(*(i * c for i, c in enumerate(self.coefficients) if i))

    def around(self, middle):
        """The same function of the distance from ``middle``."""
        c = list(self.coefficients)
        for i in range(len(c)):
            for j in range(len(c) - 2, i - 1, -1):
                c[j] += middle * c[j + 1]
        return Polynomial(*c)

    def absolute(self, x):
        """The sum of the absolute terms: no |y| ≤ x gives more."""
        return sum(abs(c) * x**i for i, c in enumerate(self.coefficients))


def _polynomial(thing):
    return thing if isinstance(thing, Polynomial) else Polynomial(thing)


def pieces(low, high, n):
    """Middles and half a width of n pieces that cover the interval; the middles have short denominators."""
    half = (high - low) / (2 * n)
    for i in range(n):
        yield Fraction(round((low + (2 * i + 1) * half) * 2**20), 2**20), half + Fraction(1, 2**20)


X = Polynomial(0, 1)


def exp_bound():
    """The largest relative error of exp_below_one, for LOWEST_EXPONENT ≤ x ≤ 0."""
    largest = Fraction(1023)  # of |k|
    first, rest = Fraction(kernels.LOG_2_FIRST), Fraction(kernels.LOG_2_REST)
    assert -Fraction(kernels.LOWEST_EXPONENT) / LOG_2 < largest - 1
    assert first.numerator.bit_length() + 10 <= 53  # so k · LOG_2_FIRST is exact
    off = largest * (gamma(2) + abs(Fraction(1.4426950408889634) * LOG_2 - 1))  # of the number that is rounded to k
    reach = LOG_2 * (Fraction(1, 2) + off)
    argument = 2 * U * reach + largest * (U * rest + abs(first + rest - LOG_2))  # how far r is off
    reach += argument

    polynomial = kernels.exp_polynomial.py_func(X)
    taylor = Polynomial(*(Fraction(1, math.factorial(i)) for i in range(20)))
    truncation = reach**20 / math.factorial(20) * 2
    truncation += max((polynomial - taylor).around(x).absolute(half) for x, half in pieces(-reach, reach, 64))
    rounding = gamma(2 * 10) * polynomial.absolute(reach)
    smallest = 1 - reach  # of exp(r)
    return (truncation + rounding) / smallest + 2 * argument


def residual(polynomial):
    """q' − 2 x q + 1/√π as a function of y, times 1 − y; it vanishes where q = exp(x²) ½ erfc(x)."""
    centre, one = Fraction(kernels.TAIL_CENTRE), Polynomial(1)
    left = one - X  # x + centre = 2 centre / (1 − y), and dy/dx = (1 − y)² / (2 centre)
    rate = polynomial.slope() * left * left * left * (1 / (2 * centre))
    return rate - (one + X) * polynomial * (2 * centre) + left * INVERSE_ROOT_PI


def tail_bound():
    """The largest relative error of half_tail, for 0 ≤ x ≤ HALF_TAIL_REACH.

    f = exp(x²) ½ erfc(x) solves f' = 2 x f − 1/√π, and q solves it but for the residual ρ, so their difference is
    e(x) = e(X) exp(x² − X²) − ∫ from x to X of ρ(t) exp(x² − t²) dt. The integral is at most √π f(x) times the
    largest |ρ|, and with X = reach + 1 the first term is at most exp(−2 reach).
    """
    reach, centre = Fraction(kernels.HALF_TAIL_REACH), Fraction(kernels.TAIL_CENTRE)
    polynomial = kernels.tail_polynomial.py_func(X)
    rest = residual(polynomial)
    past = (reach + 1 - centre) / (reach + 1 + centre)
    largest = max(rest.around(y).absolute(half) / (1 - y - half) for y, half in pieces(Fraction(-1), past, 128))
    truncation = largest / INVERSE_ROOT_PI + Fraction(math.exp(-2 * kernels.HALF_TAIL_REACH)) * 2 * reach

    # A term takes at most 10 products by z and 10 sums, each z has a rounding of its own, then come y and the last sum.
    worst = Fraction(0)
    end = (reach - centre) / (reach + centre)
    slope = polynomial.slope()
    for y, half in pieces(Fraction(-1), end, 128):
        around = polynomial.around(y).coefficients
        least = around[0] - sum(abs(c) * half ** (i + 1) for i, c in enumerate(around[1:]))
        assert least > 0
        size = abs(y) + half
        errors = gamma(32) * polynomial.absolute(size) + gamma(3) * size * slope.around(y).absolute(half)
        worst = max(worst, errors / least)
    bell = exp_bound() + gamma(1) * reach**2 * (1 + U)  # the square of x is rounded before its exponential is taken
    return truncation + (worst + bell) * (1 + U) + U


def test_exponentials_are_proven_to_fourteen_digits():
    assert exp_bound() < Fraction(1, 10**14)


def test_half_tails_are_proven_to_twelve_digits():
    assert tail_bound() < Fraction(3, 10**13)


def test_the_residual_vanishes_for_the_true_function():
    """Of a polynomial that takes the values of exp(x²) ½ erfc(x) nearby, so a wrong formula would show."""
    x, step = 1.0, 1e-4
    rho = residual(kernels.tail_polynomial.py_func(X))
    y = Fraction((x - kernels.TAIL_CENTRE) / (x + kernels.TAIL_CENTRE))
    assert abs(rho.around(y).coefficients[0]) < 1e-14
    f = [0.5 * math.exp(v * v) * math.erfc(v) for v in (x - step, x, x + step)]
    assert (f[2] - f[0]) / (2 * step) == pytest.approx(2 * x * f[1] - float(INVERSE_ROOT_PI), abs=1e-8)


def test_a_wrong_digit_breaks_the_proofs(monkeypatch):
    for name, bound in (("exp_polynomial", exp_bound), ("tail_polynomial", tail_bound)):
        right = getattr(kernels, name).py_func

        class Wrong:
            @staticmethod
            def py_func(x, right=right):
                return right(x) + 1e-11 * x * x

        with monkeypatch.context() as patch:
            patch.setattr(kernels, name, Wrong)
            assert bound() > Fraction(1, 10**12)
