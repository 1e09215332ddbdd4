"""SciPy's L-BFGS for smooth objectives, with a callback per iteration and a gap as the stopping rule.

An objective ½‖w‖² + (something convex) is 1-strongly convex, so no point is more than ½‖∇‖² above the minimum: the
gradient is a certificate. SciPy's own stopping rules are switched off.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gainful.data.rows import Array
from gainful.errors import DataError
from gainful.solvers.certificate import Certificate, Solution, check_settings, warn_not_converged

MEMORY = 20  # corrections stored
PATIENCE = 5  # iterations without a sufficient decrease before stopping, if there is no certificate

Visit = Callable[[Array, float, float | None], bool]


class _Stop(Exception):
    """Leaves SciPy's loop."""


def minimize_lbfgs(
    fun: Callable[[Array], tuple[float, Array]],
    w0: Array,
    *,
    tol: float = 1e-4,
    max_iter: int = 500,
    strongly_convex: bool = True,
    visit: Visit | None = None,
) -> Solution:
    """Minimise a smooth ``fun``: w ↦ (objective, gradient (d,)).

    Parameters
    ----------
    tol : relative gap at which to stop; if ``strongly_convex`` is False, stop after five iterations in a row with a
        smaller relative decrease
    strongly_convex : whether ``fun`` minus ½‖w‖² is convex, which makes ½‖∇‖² a bound of the gap
    visit : called with (w, objective, relative gap or None) after each iteration; True stops. It may keep the array
    """
    check_settings("minimize_lbfgs", C=1.0, tol=tol, max_iter=max_iter)
    run = _Run(fun, np.array(w0, dtype=np.float64), tol, max_iter, strongly_convex, visit)
    run.minimise()
    if run.stopped:
        warn_not_converged("minimize_lbfgs", run.certificate(), tol, run.stopped)
    return Solution(run.w, run.certificate(), run.n_iter, run.converged, not (run.converged or run.stopped))


class _Run:
    def __init__(
        self,
        fun: Callable[[Array], tuple[float, Array]],
        w: Array,
        tol: float,
        max_iter: int,
        strongly_convex: bool,
        visit: Visit | None,
    ):
        self.fun, self.tol, self.max_iter, self.strongly_convex, self.visit = fun, tol, max_iter, strongly_convex, visit
        self.w = w
        self.value, self.gradient = fun(w)
        if not (math.isfinite(self.value) and np.isfinite(self.gradient).all()):
            raise DataError("the objective is not finite at the start of training; are the features scaled sensibly?")
        self.last: tuple[Array, float, Array] = (w, self.value, self.gradient)
        self.n_iter, self.small, self.converged, self.stopped = 0, 0, False, ""

    def certificate(self) -> Certificate:
        bound = self.value - 0.5 * float(self.gradient @ self.gradient) if self.strongly_convex else 0.0
        return Certificate(self.value, min(max(0.0, bound), self.value))

    def minimise(self) -> None:
        from scipy.optimize import minimize

        options = {"maxiter": self.max_iter, "maxfun": 20 * self.max_iter + 100, "maxcor": MEMORY, "ftol": 0.0,
                   "gtol": 0.0, "maxls": 40}  # fmt: skip
        try:
            minimize(
                self._evaluate, self.w, jac=True, method="L-BFGS-B", callback=self._after_iteration, options=options
            )
        except _Stop:
            return
        if self.n_iter == 0:  # no step decreases: this is the minimum to all digits, or no digits are left
            self._finish_at_start()
        elif self.n_iter >= self.max_iter:
            self.stopped = f"after {self.max_iter} iterations"
        elif self.strongly_convex and self.certificate().relative_gap > self.tol:
            self.stopped = "because rounding allows no more progress"
        else:
            self.converged = True

    def _finish_at_start(self) -> None:
        self.n_iter = 1
        if self.strongly_convex and self.certificate().relative_gap > self.tol:
            self.stopped = "because rounding allows no more progress"
        else:
            self.converged = True
        if self.visit is not None:
            self.visit(self.w.copy(), self.value, self._gap())

    def _evaluate(self, w: Array) -> tuple[float, Array]:
        value, gradient = self.fun(w)
        if math.isnan(value) or np.isnan(gradient).any():
            raise DataError("the loss became NaN during training; are the features scaled sensibly?")
        self.last = (w.copy(), value, gradient)
        return value, gradient

    def _gap(self) -> float | None:
        return self.certificate().relative_gap if self.strongly_convex else None

    def _after_iteration(self, w: Array) -> None:
        before = self.value
        if not np.array_equal(w, self.last[0]):
            self._evaluate(w)
        self.w, self.value, self.gradient = self.last
        self.n_iter += 1
        stop = self.visit is not None and self.visit(self.w.copy(), self.value, self._gap())
        if self.strongly_convex:
            self.converged = self.certificate().relative_gap <= self.tol
        else:
            self.small = self.small + 1 if before - self.value <= self.tol * abs(before) else 0
            self.converged = self.small >= PATIENCE
        if self.converged or stop:
            raise _Stop
