"""Gradient descent with momentum for objectives that are not convex, or whose gradient is no derivative.

Steps are those of Adam (Kingma and Ba, ICLR 2015) with full gradients: every coordinate moves by about the step length,
so one length serves all features once they are measured in units of their spread. What makes it safe: the point of
lowest objective is remembered, and when none lower has been found for a while the descent returns there with half the
step, until the step is a small part of the first one. Nothing is drawn at random.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gainful.errors import DataError
from gainful.rows import Array
from gainful.solvers.certificate import Certificate, Solution, check_settings
from gainful.solvers.lbfgs import Visit

FIRST_MOMENT, SECOND_MOMENT = 0.9, 0.99
PATIENCE = 10  # iterations without a lower objective before the step is halved
SMALLEST_STEP = 1e-3  # of the first one


def minimize_momentum(
    fun: Callable[[Array], tuple[float, Array]],
    w0: Array,
    *,
    step: float | Array = 0.1,
    tol: float = 1e-4,
    max_iter: int = 300,
    count_start: bool = True,
    visit: Visit | None = None,
) -> Solution:
    """Descend from ``w0``; the point handed back has the lowest objective seen.

    Parameters
    ----------
    fun : w ↦ (objective, gradient (d,))
    step : length of the first steps, one number or one per coordinate
    tol : relative decrease that counts as one
    count_start : whether the objective at ``w0`` compares with that elsewhere. It does not where it depends on a
        ranking and all scores are equal at the start
    visit : called with (w, objective, None) after each iteration; True stops. The array is its to keep
    """
    check_settings("minimize_momentum", C=1.0, tol=tol, max_iter=max_iter)
    w = np.array(w0, dtype=np.float64)
    value, gradient = fun(w)
    if not (math.isfinite(value) and np.isfinite(gradient).all()):
        raise DataError("the objective is not finite where training starts; are the features scaled sensibly?")
    best, lowest, slope_there = w, value if count_start else math.inf, gradient
    mean, square, age = np.zeros_like(w), np.zeros_like(w), 0
    part, waited, n_iter, interrupted = 1.0, 0, 0, False
    while n_iter < max_iter and part >= SMALLEST_STEP and not interrupted:
        age += 1
        mean = FIRST_MOMENT * mean + (1 - FIRST_MOMENT) * gradient
        square = SECOND_MOMENT * square + (1 - SECOND_MOMENT) * gradient**2
        root = np.sqrt(square / (1 - SECOND_MOMENT**age))
        w = w - part * step * (mean / (1 - FIRST_MOMENT**age)) / np.maximum(root, np.finfo(np.float64).tiny)
        value, gradient = fun(w)
        n_iter += 1
        finite = math.isfinite(value) and bool(np.isfinite(gradient).all())
        waited = 0 if finite and (lowest == math.inf or value < lowest - tol * abs(lowest)) else waited + 1
        if finite and value < lowest:
            best, lowest, slope_there = w, value, gradient
        interrupted = visit is not None and visit(
            w.copy() if finite else best.copy(), value if finite else lowest, None
        )
        if waited >= PATIENCE or not finite:
            w, gradient, part, waited, age = best, slope_there, 0.5 * part, 0, 0
            mean, square = np.zeros_like(w), np.zeros_like(w)
    lowest = value if lowest == math.inf else lowest
    return Solution(best, Certificate(lowest, 0.0), n_iter, part < SMALLEST_STEP, interrupted)
