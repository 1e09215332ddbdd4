"""Steepest subgradient and conjugate-gradient descent with a backtracking line search.

For objectives that are convex but not smooth (Chapelle, Le and Smola 2007, section 3.3.1) and for the smooth or
piecewise linear, non-convex bounds of their section 4. Such a method has no lower bound of its own: the certificate
uses the one given. It stops where no step along its directions decreases the objective, which at a kink need not be the
minimum.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gainful.data.rows import Array
from gainful.errors import DataError, ParameterError
from gainful.solvers.certificate import Certificate, NullMonitor, Solution, Watch, check_settings, warn_not_converged

SUFFICIENT = 1e-4  # fraction of the decrease of a linear model that a step must achieve (Armijo)
GROWTH = 2.0  # growth of the first trial step, after a step accepted at once
SHRINK = 0.5
MOST_TRIALS = 60  # maximum halvings, about what floating point allows
PATIENCE = 5  # iterations with too small a decrease before stopping

METHODS = ("steepest", "conjugate")


def minimize_subgradient(
    fun: Callable[[Array], tuple[float, Array]],
    w0: Array,
    *,
    method: str = "conjugate",
    max_iter: int = 500,
    tol: float = 1e-6,
    monitor: Watch | None = None,
    lower_bound: float | Callable[[], float] | None = 0.0,
) -> Solution:
    """Descend from ``w0``; the point returned is the best one seen.

    Parameters
    ----------
    fun : w ↦ (objective, a subgradient (d,))
    method : "steepest", or "conjugate" (Polak-Ribière, restarted if it would not descend)
    tol : stop when the relative decrease of the objective is smaller for five iterations in a row, or when its relative
        gap to ``lower_bound`` is at most this
    lower_bound : of the objective, or a function that returns the best one so far; gives the certificate. None: no gap
        is reported
    """
    check_settings("minimize_subgradient", C=1.0, tol=tol, max_iter=max_iter)
    if method not in METHODS:
        raise ParameterError.of("minimize_subgradient", "method", " or ".join(map(repr, METHODS)), method)
    descent = _Descent(fun, np.array(w0, dtype=np.float64), method == "conjugate", tol, lower_bound)
    with NullMonitor() if monitor is None else monitor as watch:
        descent.run(watch, max_iter)
    certificate = descent.certificate()
    if descent.stopped:
        warn_not_converged("minimize_subgradient", certificate, tol, descent.stopped)
    interrupted = not (descent.converged or descent.stopped)
    return Solution(descent.w, certificate, descent.n_iter, descent.converged, interrupted)


class _Descent:
    """One run: it only moves to lower points, so the current point is the best one."""

    def __init__(
        self,
        fun: Callable[[Array], tuple[float, Array]],
        w: Array,
        conjugate: bool,
        tol: float,
        lower_bound: float | Callable[[], float] | None,
    ):
        self.fun, self.conjugate, self.tol, self.lower_bound = fun, conjugate, tol, lower_bound
        self.w = w
        self.value, self.gradient = fun(w)
        if not (math.isfinite(self.value) and np.isfinite(self.gradient).all()):
            raise DataError("the objective is not finite at the start of training; are the features scaled sensibly?")
        self.direction = -self.gradient
        self.length = self._first_length()
        self.n_iter = 0
        self.converged = False
        self.stopped = ""

    def _first_length(self) -> float:
        """The step at which a linear model would reach the lower bound, or a unit step if that is useless."""
        square = float(self.gradient @ self.gradient)
        room = self.value - (self.lower_bound if isinstance(self.lower_bound, (int, float)) else 0.0)
        return room / square if square > 0 and math.isfinite(room) and room > 0 else 1.0

    def certificate(self) -> Certificate:
        bound = self.lower_bound() if callable(self.lower_bound) else self.lower_bound
        return Certificate(self.value, -math.inf if bound is None else min(bound, self.value))

    def run(self, watch: Watch, max_iter: int) -> None:
        small = 0
        while True:
            before = self.value
            moved = self._move()
            self.n_iter += 1
            now = self.certificate()
            stop = watch.step(objective=now.primal, gap=None if self.lower_bound is None else now.relative_gap)
            small = small + 1 if before - self.value <= self.tol * abs(before) else 0
            # At a kink every subgradient direction may lead uphill: the method ends there.
            if not moved or small >= PATIENCE or now.relative_gap <= self.tol:
                self.converged = True
                return
            if self.n_iter >= max_iter:
                self.stopped = f"after {max_iter} iterations"
                return
            if stop:
                return

    def _move(self) -> bool:
        """One step down: along the current direction, else along the steepest one; False if neither descends."""
        old = self.gradient
        if not self._search() and (self._is_steepest() or not self._restart()):
            return False
        self.direction = self._next_direction(old)
        return True

    def _is_steepest(self) -> bool:
        return bool(np.array_equal(self.direction, -self.gradient))

    def _restart(self) -> bool:
        self.direction = -self.gradient
        return self._search()

    def _next_direction(self, old: Array) -> Array:
        if not self.conjugate:
            return -self.gradient
        beta = max(0.0, float(self.gradient @ (self.gradient - old)) / max(float(old @ old), np.finfo(np.float64).tiny))
        direction = beta * self.direction - self.gradient
        return direction if float(direction @ self.gradient) < 0 else -self.gradient

    def _search(self) -> bool:
        """Backtrack from the current length until the step is accepted; then update the point, gradient and length."""
        slope = float(self.direction @ self.gradient)
        if not slope < 0:
            return False
        length = self.length
        for trial in range(MOST_TRIALS):
            w = self.w + length * self.direction
            value, gradient = self.fun(w)
            enough = value <= self.value + SUFFICIENT * length * slope and value < self.value
            if enough and math.isfinite(value) and bool(np.isfinite(gradient).all()):
                self.w, self.value, self.gradient = w, value, gradient
                self.length = length * GROWTH if trial == 0 else length
                return True
            length *= SHRINK
        return False
