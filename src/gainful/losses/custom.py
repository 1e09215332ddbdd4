"""Losses written by the user: a function of the scores and grades of one query."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from gainful.compute.query_loop import Fill
from gainful.data.rows import Array, read_only
from gainful.errors import DataError, ParameterError
from gainful.losses.base import Loss, LossEntry

PREFIX = "custom:"
ROUNDING = 1e-9  # a convex loss this close below 0 counts as 0


def custom_loss(
    function: Callable[[Array, Array], tuple[float, Array]],
    *,
    convex: bool = False,
    smooth: bool = False,
    name: str | None = None,
) -> Loss:
    """``function(scores, grades) -> (value, gradient)`` of one query, as a loss.

    The caller vouches for ``convex`` and ``smooth``, which decide the solvers that accept it. A convex loss must not be
    negative. A function compiled by ``numba.njit`` runs in the compiled loop on several threads; any other function is
    called query by query on one thread.
    """
    shown = name or str(getattr(function, "__name__", type(function).__name__))
    compiled = hasattr(function, "py_func")
    return Loss(
        LossEntry(
            f"{PREFIX}{shown}",
            "A user-defined function.",
            partial(_bind_compiled if compiled else _bind_plain, function, shown, convex),
            convex=convex,
            smooth=smooth,
            threads=None if compiled else 1,
        )
    )


def missing_loss(text: str) -> Loss:
    """A placeholder for a function that a model file can name but not store: it prints, but cannot train."""

    def bind(params: Mapping[str, Any], y: Array, offsets: Array) -> Fill:
        raise ParameterError(
            f"the loss {text!r} was a Python function when this model was trained; set loss= to it again"
        )

    return Loss(LossEntry(text, "A function that the model file does not contain.", bind))


def _bind_plain(function: Any, shown: str, convex: bool, params: Mapping[str, Any], y: Array, offsets: Array) -> Fill:
    def fill(scores: Array, first: int, last: int, values: Array, gradient: Array) -> None:
        lo = int(offsets[first])
        for q in range(first, last):
            rows = slice(int(offsets[q]), int(offsets[q + 1]))
            own = slice(rows.start - lo, rows.stop - lo)
            answer = function(scores[own], y[rows])
            values[q], gradient[own] = _check_result(answer, shown, convex, rows.stop - rows.start)

    return fill


def _check_result(answer: Any, shown: str, convex: bool, n: int) -> tuple[float, Array]:
    try:
        value, gradient = answer
        number, slopes = float(value), np.asarray(gradient, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"the loss {shown} must return a value and a gradient, but returned {answer!r:.60}") from None
    if slopes.shape != (n,):
        raise DataError(f"the loss {shown} must return a gradient of {n} numbers, but its shape was {slopes.shape}")
    if convex and number < 0.0:
        if number < -ROUNDING:
            raise _negative(shown, number)
        number = 0.0
    return number, slopes


def _negative(shown: str, value: float) -> DataError:
    return DataError(f"the loss {shown} is declared convex and must not be negative, but its value was {value:g}")


# -- compiled ----------------------------------------------------------------------------------------------------------


def _bind_compiled(
    function: Any, shown: str, convex: bool, params: Mapping[str, Any], y: Array, offsets: Array
) -> Fill:
    run = _loop()

    def fill(scores: Array, first: int, last: int, values: Array, gradient: Array) -> None:
        with _translate_errors(shown):
            bad = run(function, scores, y, offsets, convex, first, last, values, gradient)
        if bad >= 0:
            n = int(offsets[bad + 1] - offsets[bad])
            if values[bad] < -ROUNDING:
                raise _negative(shown, float(values[bad]))
            raise DataError(f"the loss {shown} must return a gradient of {n} numbers, but did not for query {bad}")

    if len(offsets) > 1:  # a faulty function already fails on the first query
        n = int(offsets[1])
        with _translate_errors(shown):
            answer = function(np.zeros(n), np.array(y[:n]))
        _check_result(answer, shown, convex, n)
        fill(read_only(np.zeros(n)), 0, 1, np.empty(len(offsets) - 1), np.empty(n))
    return fill


@contextmanager
def _translate_errors(shown: str) -> Iterator[None]:
    """Turn errors of the compiler and of the compiled function into errors of this package."""
    from numba.core.errors import NumbaError

    try:
        yield
    except (NumbaError, TypeError) as error:
        raise ParameterError(
            f"the loss {shown} does not compile for two float64 arrays, scores and grades: {error}"
        ) from error
    except ValueError as error:
        raise DataError(f"the loss {shown} failed: {error}") from error


def _loop() -> Any:
    """The loop over queries, compiled once per process: the cache cannot store a user's function."""
    global _compiled_loop
    if _compiled_loop is None:
        from numba import njit

        @njit(nogil=True)
        def run(function, scores, y, offsets, convex, first, last, values, gradient):  # type: ignore[no-untyped-def]
            """The first query with an invalid result, or −1. The function gets copies, so it may write to them."""
            lo = offsets[first]
            for q in range(first, last):
                a, b = offsets[q], offsets[q + 1]
                value, slopes = function(scores[a - lo : b - lo].copy(), y[a:b].copy())
                values[q] = 0.0 if convex and -ROUNDING <= value < 0.0 else value
                if len(slopes) != b - a:
                    values[q] = 0.0
                    return q
                if convex and value < -ROUNDING:
                    return q
                gradient[a - lo : b - lo] = slopes
            return -1

        _compiled_loop = run
    return _compiled_loop


_compiled_loop: Any = None
