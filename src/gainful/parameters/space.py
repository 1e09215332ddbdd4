"""Search spaces: one small vocabulary of ranges, declared next to each ranker's class.

A ranker declares ``space = {"C": Range(1e-2, 1e3, log=True, why="…"), …}``. That table gives the draws of a random
search, the points of a grid, Optuna's distributions and the list of what ``gainful tune`` is going to try. A value of a
dimension is a number, a text, True, False or None, so that a trial can be stored and read back exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from gainful.errors import ParameterError, UnknownNameError
from gainful.parameters.constraints import Constraint, split_outside_brackets

DIGITS = 4  # significant digits of a drawn number: more would only be harder to read


@dataclass(frozen=True)
class Dimension:
    """The values to try for one parameter. ``why`` explains the choice of the range."""

    _: KW_ONLY
    why: str = ""

    def at(self, u: float) -> Any:
        """The value at the fraction 0 ≤ u < 1 of the dimension: uniform fractions give uniform values."""
        raise TypeError(f"{type(self).__name__} does not say how to draw")

    def points(self, n: int) -> list[Any]:
        """At most ``n`` ≥ 2 values that cover the dimension, ends included."""
        raise TypeError(f"{type(self).__name__} does not say how to divide")

    def contains(self, value: Any) -> bool:
        """Whether a parameter with this value can be tuned within this dimension."""
        raise TypeError(f"{type(self).__name__} does not say what it holds")

    def __str__(self) -> str:
        raise TypeError(f"{type(self).__name__} does not say how it is written")


@dataclass(frozen=True)
class Range(Dimension):
    """Numbers from ``low`` to ``high``, uniform or (``log``) uniform in the logarithm.

    >>> Range(0.01, 100, log=True).points(5)
    [0.01, 0.1, 1.0, 10.0, 100.0]
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        owner, ends = type(self).__name__, (self.low, self.high)
        if not all(_is_number(end) and math.isfinite(end) for end in ends):
            raise ParameterError.of(owner, "low and high", "finite numbers", ends)
        if not self.low < self.high:
            raise ParameterError.of(owner, "low and high", "numbers with low < high", ends)
        if self.log and self.low <= 0:
            raise ParameterError.of(owner, "low", "a number > 0 if log=True", self.low)

    def at(self, u: float) -> float:
        return self.tidy(_between(self.low, self.high, self.log, u))

    def tidy(self, value: float) -> float:
        """``value`` with a few digits, inside the range."""
        return float(min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high))

    def points(self, n: int) -> list[Any]:
        return [self.at(i / (n - 1)) for i in range(n)]

    def contains(self, value: Any) -> bool:
        return _is_number(value) and math.isfinite(value)

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}{':log' if self.log else ''}"


@dataclass(frozen=True)
class IntRange(Range):
    """Whole numbers from ``low`` to ``high``, both included, uniform or (``log``) uniform in the logarithm.

    >>> IntRange(4, 64, log=True).points(5)
    [4, 8, 16, 32, 64]
    """

    low: int
    high: int

    def at(self, u: float) -> int:
        # Each integer owns the interval of ±½ around it, so that the ends are drawn as often as the others.
        value = round(_between(self.low - 0.5, self.high + 0.5, self.log, u))
        return int(min(max(value, self.low), self.high))

    def tidy(self, value: float) -> int:
        return int(min(max(round(value), self.low), self.high))

    def points(self, n: int) -> list[Any]:
        return list(dict.fromkeys(round(_between(self.low, self.high, self.log, i / (n - 1))) for i in range(n)))

    def contains(self, value: Any) -> bool:
        return _is_number(value) and value == int(value)

    def __str__(self) -> str:
        return f"{self.low}..{self.high}{':log' if self.log else ''}"


@dataclass(frozen=True)
class Values(Dimension):
    """One of some values.

    >>> Values("exp2", "linear").at(0.7)
    'linear'
    """

    of: tuple[Any, ...]

    def __init__(self, *of: Any, why: str = ""):
        if not of or any(not (value is None or isinstance(value, (bool, int, float, str))) for value in of):
            raise ParameterError.of("Values", "of", "one or more numbers, texts, True, False or None", of)
        object.__setattr__(self, "of", of)
        object.__setattr__(self, "why", why)

    def at(self, u: float) -> Any:
        return self.of[min(int(u * len(self.of)), len(self.of) - 1)]

    def points(self, n: int) -> list[Any]:
        return list(self.of)

    def contains(self, value: Any) -> bool:
        return any(value is one or (type(value) is type(one) and value == one) for one in self.of)

    def __str__(self) -> str:
        return ",".join(str(value) for value in self.of)


Space = Mapping[str, Dimension]


def parse_dimension(owner: str, table: Mapping[str, Constraint], text: str) -> tuple[str, Dimension]:
    """``"C=0.01..100:log"``, ``"n_leaves=4..64"`` or ``"loss=hinge,squared-hinge"`` as a name and its dimension.

    ``table`` has the ranker's parameters; it decides between whole and real numbers, and parses the values.
    """
    name, equals, where = (part.strip() for part in text.partition("="))
    if not equals or not name or not where:
        raise ParameterError(f"a dimension must read NAME=LOW..HIGH, NAME=LOW..HIGH:log or NAME=A,B,C, was {text!r}")
    if name not in table:
        raise UnknownNameError.among("parameter", name, table, owner=owner)
    constraint = table[name]
    found: Dimension
    if ".." in where:
        span = _parse_range(owner, name, constraint, where)
        found, ends = span, (span.low, span.high)
    else:
        values = Values(*(_parse_value(owner, name, constraint, one) for one in split_outside_brackets(where, ",")))
        found, ends = values, values.of
    for value in ends:
        if not constraint.accepts(value):
            raise ParameterError.of(owner, name, constraint.expected(), value)
    return name, found


def _parse_range(owner: str, name: str, constraint: Constraint, where: str) -> Range:
    span, _, scale = where.partition(":")
    low, _, high = span.partition("..")
    try:
        if scale not in ("", "log", "linear"):
            raise ValueError(scale)
        ends = float(low), float(high)
    except ValueError:
        raise ParameterError.of(
            "--space", name, "LOW..HIGH or LOW..HIGH:log with numbers for LOW and HIGH", where
        ) from None
    middle = 0.382 * ends[0] + 0.618 * ends[1]  # unlikely to be an integer by chance
    if constraint.accepts(middle):
        return Range(*ends, log=scale == "log")
    for end in ends:
        if not end.is_integer():
            raise ParameterError.of(owner, name, constraint.expected(), end)
    return IntRange(int(ends[0]), int(ends[1]), log=scale == "log")


def _parse_value(owner: str, name: str, constraint: Constraint, text: str) -> Any:
    try:
        return constraint.parse(text)
    except ValueError as error:
        raise ParameterError.of(owner, name, constraint.expected(), text) from error


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _between(low: float, high: float, log: bool, u: float) -> float:
    if log:
        return float(math.exp(math.log(low) + u * (math.log(high) - math.log(low))))
    return low + u * (high - low)
