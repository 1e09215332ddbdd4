"""Gradient descent with momentum for objectives that are not convex, or whose gradient is not a derivative.

Steps are those of Adam (Kingma and Ba, ICLR 2015) with full gradients: every coordinate moves by about the step length,
so one length suits all features once they are in units of their standard deviations. As a safeguard, the descent
remembers the point of lowest objective; if it finds none lower for a while, it returns there with half the step, until
the step is a small fraction of the first one. Nothing is random.

If the objective changes from one iteration to the next, its values are not comparable and there is no point of lowest
objective to return to: :func:`descend_stages` runs through all stages, with steps that shrink to nothing over the last
quarter.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gainful.data.rows import Array
from gainful.errors import DataError
from gainful.solvers.certificate import Certificate, Solution, check_settings
from gainful.solvers.lbfgs import Visit

FIRST_MOMENT, SECOND_MOMENT = 0.9, 0.99
PATIENCE = 10  # iterations without a lower objective before the step is halved
SMALLEST_STEP = 1e-3  # fraction of the first step at which to stop
LAST_PART = 0.25  # last fraction of the iterations through stages, in which steps shrink


Objective = Callable[[Array], tuple[float, Array]]


class _Moments:
    """Running means of the gradient and of its square, and the step they give."""

    def __init__(self, like: Array):
        self.mean, self.square, self.age = np.zeros_like(like), np.zeros_like(like), 0

    def step(self, gradient: Array) -> Array:
        """The amount to subtract, each coordinate of size about 1."""
        self.age += 1
        self.mean = FIRST_MOMENT * self.mean + (1 - FIRST_MOMENT) * gradient
        self.square = SECOND_MOMENT * self.square + (1 - SECOND_MOMENT) * gradient**2
        root = np.sqrt(self.square / (1 - SECOND_MOMENT**self.age))
        mean = self.mean / (1 - FIRST_MOMENT**self.age)
        return np.asarray(mean / np.maximum(root, np.finfo(np.float64).tiny))


def minimize_momentum(
    fun: Objective,
    w0: Array,
    *,
    step: float | Array = 0.1,
    tol: float = 1e-4,
    max_iter: int = 300,
    count_start: bool = True,
    visit: Visit | None = None,
) -> Solution:
    """Descend from ``w0``; the point returned has the lowest objective seen.

    Parameters
    ----------
    fun : w ↦ (objective, gradient (d,))
    step : length of the first steps, one number or one per coordinate
    tol : smallest relative decrease that counts
    count_start : whether the objective at ``w0`` is comparable with that elsewhere. It is not if it depends on a
        ranking and all scores are equal at the start
    visit : called with (w, objective, None) after each iteration; True stops. It may keep the array
    """
    check_settings("minimize_momentum", C=1.0, tol=tol, max_iter=max_iter)
    w = np.array(w0, dtype=np.float64)
    value, gradient = _first(fun, w)
    best, lowest, slope_there = w, value if count_start else math.inf, gradient
    moments = _Moments(w)
    part, waited, n_iter, interrupted = 1.0, 0, 0, False
    while n_iter < max_iter and part >= SMALLEST_STEP and not interrupted:
        w = w - part * step * moments.step(gradient)
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
            w, gradient, part, waited, moments = best, slope_there, 0.5 * part, 0, _Moments(w)
    lowest = value if lowest == math.inf else lowest
    return Solution(best, Certificate(lowest, 0.0), n_iter, part < SMALLEST_STEP, interrupted)


def descend_stages(
    stage: Callable[[int], Objective],
    w0: Array,
    *,
    step: float | Array = 0.1,
    max_iter: int = 300,
    visit: Visit | None = None,
) -> Solution:
    """Descend from ``w0`` along an objective that changes; the point returned is the last one.

    Parameters
    ----------
    stage : m ↦ the objective of iteration m = 1 … ``max_iter``, as :func:`minimize_momentum` takes it
    step : length of the steps, one number or one per coordinate; over the last quarter it shrinks evenly to nothing
    visit : called with (w, objective, None) after each iteration, with the objective of the next stage, or of the last
        one; True stops. It may keep the array
    """
    check_settings("descend_stages", C=1.0, tol=0.0, max_iter=max_iter)
    w = np.array(w0, dtype=np.float64)
    value, gradient = _first(stage(1), w)
    moments, n_iter, interrupted = _Moments(w), 0, False
    while n_iter < max_iter and not interrupted:
        n_iter += 1
        left = (max_iter - n_iter + 1) / max_iter
        w = w - min(1.0, left / LAST_PART) * step * moments.step(gradient)
        value, gradient = stage(min(n_iter + 1, max_iter))(w)
        if not (math.isfinite(value) and np.isfinite(gradient).all()):
            raise DataError("the objective became infinite during training; use a smaller learning_rate")
        interrupted = visit is not None and visit(w.copy(), value, None)
    return Solution(w, Certificate(value, 0.0), n_iter, n_iter == max_iter, interrupted)


def _first(fun: Objective, w: Array) -> tuple[float, Array]:
    value, gradient = fun(w)
    if not (math.isfinite(value) and np.isfinite(gradient).all()):
        raise DataError("the objective is not finite at the start of training; are the features scaled sensibly?")
    return value, gradient
