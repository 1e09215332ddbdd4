"""What every solver returns: a point, and a bound on its distance from the minimum."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from gainful.compute.estimators import ConvergenceWarning as ConvergenceWarning
from gainful.data.rows import Array
from gainful.display import html
from gainful.errors import ParameterError

TINY = float(np.finfo(np.float64).tiny)
FEATURES = {"standard": "on standardised features", None: "on the features as given"}


@dataclass(frozen=True)
class Certificate:
    """dual ≤ minimum ≤ primal, where ``primal`` is the objective at the point returned.

    ``scale`` names the problem: "standard" penalises the weights of features divided by their standard
    deviations, None those of the features as given.

    >>> print(Certificate(primal=2.0, dual=1.999))
    objective 2 on the features as given, at most 0.001 above the minimum (0.05 %)
    """

    primal: float
    dual: float
    scale: str | None = None

    @property
    def gap(self) -> float:
        """primal − dual, never negative."""
        return self.primal - self.dual if not self.primal <= self.dual else 0.0  # NaN stays NaN

    @property
    def relative_gap(self) -> float:
        """The gap divided by the absolute primal value; 0 if both are 0."""
        return self.gap / max(abs(self.primal), TINY)

    def __str__(self) -> str:
        percent, features = 100 * self.relative_gap, FEATURES[self.scale]
        return f"objective {self.primal:.6g} {features}, at most {self.gap:.3g} above the minimum ({percent:.2g} %)"

    def _repr_html_(self) -> str:
        rows = [
            ("objective", f"{self.primal:.6g}"),
            ("minimum is at least", f"{self.dual:.6g}"),
            ("gap", f"{self.gap:.3g} ({100 * self.relative_gap:.2g} %)"),
        ]
        return html.frame("Certificate", html.facts(rows), about=FEATURES[self.scale])


@dataclass(frozen=True)
class Solution:
    """The best point found. ``n_iter`` counts iterations, each about one pass over the data.

    ``interrupted``: a monitor ended the run; otherwise it ``converged``, or issued a :class:`ConvergenceWarning`.
    """

    w: Array
    certificate: Certificate
    n_iter: int
    converged: bool
    interrupted: bool


class Watch(Protocol):
    """What a solver needs from a monitor."""

    def __enter__(self) -> Any: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None: ...

    def step(self, *, objective: float | None = None, gap: float | None = None) -> bool: ...


class NullMonitor:
    """A null monitor: never stops, lets every exception through."""

    def __enter__(self) -> NullMonitor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def step(self, *, objective: float | None = None, gap: float | None = None) -> bool:
        return False


def warn_not_converged(solver: str, certificate: Certificate, tol: float, why: str) -> None:
    """Warn how far the solver got. ``why`` completes "stopped …"."""
    gap = f" at a relative gap of {certificate.relative_gap:.2g}" if math.isfinite(certificate.dual) else ""
    warnings.warn(
        f"{solver} stopped {why}{gap}, tol is {tol:.2g}",
        ConvergenceWarning,
        stacklevel=3,
    )


def check_settings(owner: str, *, C: float, tol: float, max_iter: int) -> None:
    """Check the settings that all solvers share."""
    if not (math.isfinite(C) and C > 0):
        raise ParameterError.of(owner, "C", "a number > 0", C)
    if not (math.isfinite(tol) and tol >= 0):
        raise ParameterError.of(owner, "tol", "a number ≥ 0", tol)
    if max_iter < 1:
        raise ParameterError.of(owner, "max_iter", "an integer ≥ 1", max_iter)


def best_multiple(linear: float, square: float) -> float:
    """max over 0 ≤ τ ≤ 1 of τ·linear − ½ τ² square: a multiple of a feasible dual point is feasible."""
    part = 0.0 if linear <= 0.0 else 1.0 if linear >= square else linear / square  # the square may have vanished
    return part * linear - 0.5 * part * part * square
