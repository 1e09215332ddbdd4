"""Position weights A(r) of structured rankers: families by name, arrays, functions, and learned ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gainful.data.rows import Array
from gainful.errors import ParameterError
from gainful.parameters.constraints import Choice, Either, Function, ListOf, Real

Family = Callable[[Array, int], Array]

FAMILIES: dict[str, Family] = {
    "linear": lambda r, k: np.maximum(k + 1.0 - r, 0.0),
    "sqrt": lambda r, k: 1.0 / np.sqrt(r),
    "discount": lambda r, k: 1.0 / np.log2(1.0 + r),
}
# What "learn" chooses from: the shapes (k + 1 − r)^p, from nearly flat to the top only, and the other two families.
POWERS = (0.25, 0.5, 1.0, 2.0, 4.0)


def _power(p: float) -> Family:
    return lambda r, k: np.maximum(k + 1.0 - r, 0.0) ** p


LEARNABLE: dict[str, Family] = {
    **{f"linear^{p:g}": _power(p) for p in POWERS},
    "sqrt": FAMILIES["sqrt"],
    "discount": FAMILIES["discount"],
}

CONSTRAINT = Either(
    of=(Choice(of=(*FAMILIES, "learn")), ListOf(inner=Real(low=0)), Function()),
    help="A(r), weight of rank r: a family, numbers that never increase, a function of r, or 'learn' (by validation)",
)


def position_weights(spec: Any, k: int, owner: str) -> Array:
    """A(1), …, A(k) from the user's setting, checked: finite, ≥ 0, never increasing, not all 0."""
    ranks = np.arange(1.0, k + 1.0)
    if isinstance(spec, str):
        return FAMILIES[spec](ranks, k)
    values = np.zeros(k)
    if callable(spec):
        try:
            values[:] = [float(spec(r)) for r in range(1, k + 1)]
        except (TypeError, ValueError) as error:
            raise ParameterError.of(owner, "position_weights", "a function from ranks to numbers", spec) from error
    else:
        given = np.asarray(spec, dtype=np.float64)[:k]
        values[: len(given)] = given
    if not np.isfinite(values).all() or (values < 0).any() or (np.diff(values) > 0).any() or values[0] == 0:
        raise ParameterError.of(owner, "position_weights", "weights ≥ 0 that never increase, the first > 0", values[:8])
    return values
