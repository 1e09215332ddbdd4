"""Losses written by the user: a function of the scores and grades of one query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from gainful.errors import DataError, ParameterError
from gainful.losses.base import Loss, LossEntry
from gainful.rows import Array
from gainful.streams import Fill

PREFIX = "custom:"


def custom_loss(
    function: Callable[[Array, Array], tuple[float, Array]],
    *,
    convex: bool = False,
    smooth: bool = False,
    name: str | None = None,
) -> Loss:
    """``function(scores, grades) -> (value, gradient)`` of one query, as a loss.

    ``convex`` and ``smooth`` are the caller's word: they decide which solvers take it. Values must not be negative
    where it is called convex. A function compiled by ``numba.njit`` runs in the compiled loop on several threads; any
    other is called query by query on one.
    """
    shown = name or str(getattr(function, "__name__", type(function).__name__))
    compiled = hasattr(function, "py_func")
    return Loss(
        LossEntry(
            f"{PREFIX}{shown}",
            "A function of the caller's.",
            partial(_bind_compiled if compiled else _bind_plain, function, shown),
            convex=convex,
            smooth=smooth,
            threads=None if compiled else 1,
        )
    )


def missing_loss(text: str) -> Loss:
    """Stands for a function that a model file can name but not hold: it prints, but cannot be trained with."""

    def bind(params: Mapping[str, Any], y: Array, offsets: Array) -> Fill:
        raise ParameterError(f"the loss {text!r} was a function where this model was trained; set loss= to it again")

    return Loss(LossEntry(text, "A function that is not here.", bind))


def _bind_plain(function: Any, shown: str, params: Mapping[str, Any], y: Array, offsets: Array) -> Fill:
    def fill(scores: Array, first: int, last: int, values: Array, gradient: Array) -> None:
        lo = int(offsets[first])
        for q in range(first, last):
            rows = slice(int(offsets[q]), int(offsets[q + 1]))
            own = slice(rows.start - lo, rows.stop - lo)
            values[q], gradient[own] = _checked(function(scores[own], y[rows]), shown, rows.stop - rows.start)

    return fill


def _checked(answer: Any, shown: str, n: int) -> tuple[float, Array]:
    try:
        value, gradient = answer
        number, slopes = float(value), np.asarray(gradient, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"the loss {shown} must return a value and a gradient, returned {answer!r:.60}") from None
    if slopes.shape != (n,):
        raise DataError(f"the loss {shown} must return a gradient of {n} numbers, its shape was {slopes.shape}")
    return number, slopes


def _bind_compiled(function: Any, shown: str, params: Mapping[str, Any], y: Array, offsets: Array) -> Fill:
    _checked(function(np.zeros(2), y[:2] if len(y) > 1 else np.zeros(2)), shown, 2)
    run = _loop()
    return lambda s, a, b, values, c: run(function, s, y, offsets, a, b, values, c)


def _loop() -> Any:
    """The loop over queries, compiled anew in each process: a function handed in has no machine code on disk."""
    global _compiled_loop
    if _compiled_loop is None:
        from numba import njit

        @njit(nogil=True)
        def run(function, scores, y, offsets, first, last, values, gradient):  # type: ignore[no-untyped-def]
            lo = offsets[first]
            for q in range(first, last):
                a, b = offsets[q], offsets[q + 1]
                values[q], gradient[a - lo : b - lo] = function(scores[a - lo : b - lo], y[a:b])

        _compiled_loop = run
    return _compiled_loop


_compiled_loop: Any = None
