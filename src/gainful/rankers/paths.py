"""One C or a list of them: what the certified linear rankers share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from gainful.data.dataset import Dataset
from gainful.data.rows import Array
from gainful.errors import ParameterError
from gainful.linear.blockwise import linear_scores_of
from gainful.metrics.value import measure_blocks
from gainful.parameters.constraints import Either, ListOf, Real
from gainful.rankers.base import LinearScores
from gainful.solvers.certificate import FEATURES, Certificate
from gainful.solvers.registry import SOLVERS
from gainful.training.history import Path
from gainful.training.monitor import Monitor

C_CONSTRAINT = Either(
    of=(Real(low=0, open_low=True), ListOf(inner=Real(low=0, open_low=True))),
    help="weight of the loss; from a list, the validation data choose",
)


def stored_certificate(state: Mapping[str, Any]) -> Certificate:
    """The certificate of a model file."""
    found = state["certificate"]
    if found["scale"] not in FEATURES:
        raise ValueError(f"the certificate has an unknown scale, {found['scale']!r}")
    return Certificate(float(found["primal"]), float(found["dual"]), found["scale"])


def validation_of(w: Array, monitor: Monitor) -> float | None:
    """The metric of the weights w on the validation data, or None without any."""
    valid = monitor.valid
    if valid is None:
        return None

    def measure() -> float:
        if monitor.sets is not None:
            return monitor.evaluate(linear_scores_of(valid, w), complete=True)
        return measure_blocks(monitor.metric, valid, linear_scores_of, w)

    found: float = measure() if monitor.journal is None else monitor.journal.number(w, measure)
    return found


@dataclass(kw_only=True)
class PathState:
    """What carries over from one C to the next: the last solution, and ``kept``, the last iteration of the best one.

    The solution is v; the weights of the original features are w = v/scales.
    """

    scales: Array
    v: Array | None = None
    certificate: Certificate | None = None
    kept: int = 0

    @property
    def w(self) -> Array:
        assert self.v is not None
        with np.errstate(over="ignore"):  # fit refuses weights that are not finite
            return np.asarray(self.v / self.scales)


class FitsPath:
    """A ranker whose ``fit`` accepts a list as C."""

    C: float | Sequence[float]

    if TYPE_CHECKING:

        def fit(self, X: Any, y: Any = None, **rest: Any) -> Self: ...

    def fit_path(self, X: Any, y: Any = None, *, C: Sequence[float], **fit_params: Any) -> Self:
        """Train for each C and keep the best on ``eval_set``; ``path_`` has a row per C.

        Each C starts where the previous one ended if the solver can; cutting planes and the tight bound start over.
        ``fit_params`` are the keywords of ``fit``: qid, sample_weight, eval_set and the others.
        """
        given, self.C = self.C, C
        try:
            return self.fit(X, y, **fit_params)
        finally:
            self.C = given


class PathOverC(FitsPath, LinearScores):
    """A linear ranker trained for every C given; it keeps the best one on ``eval_set``.

    A subclass defines ``_solve(state, C, monitor)``, which leaves the solution in ``state``, and calls
    :meth:`_follow_path` from ``_fit``.
    """

    scale: str | None
    solver: str
    C_: float
    path_: Path
    certificate_: Certificate

    def _solve(self, state: Any, C: float, monitor: Monitor) -> None:
        raise TypeError(f"{type(self).__name__} must define how to solve for one C")

    def _refuse_checkpoint(self) -> None:
        if self._visits_queries():
            raise ParameterError(
                f"{type(self).__name__} writes no checkpoints with solver='{self.solver}'; "
                f"solver='{type(self).solver}' does"
            )
        super()._refuse_checkpoint()  # type: ignore[misc]

    def _refuse_shards(self, data: Dataset) -> None:
        """A solver that visits queries one by one needs all of them in one place."""
        if self._visits_queries() and data.whole is None:
            raise ParameterError(
                f"{type(self).__name__}: solver='{self.solver}' takes one file, not shards; "
                f"use solver='{type(self).solver}'"
            )

    def _visits_queries(self) -> bool:
        return self.solver in SOLVERS and SOLVERS[self.solver].by_query

    def _check_path(self, monitor: Monitor) -> None:
        if not np.isscalar(self.C) and monitor.valid is None:
            raise ParameterError(
                f"{type(self).__name__}: several values of C need eval_set to choose from them"
            )  # fmt: skip

    def _follow_path(self, state: PathState, monitor: Monitor) -> None:
        """Solve for every C given and keep the best on the validation data, or the only one."""
        values = [float(self.C)] if np.isscalar(self.C) else [float(C) for C in self.C]  # type: ignore[arg-type, union-attr]
        self.path_ = Path(metric=monitor.metric.name)
        with monitor:  # Ctrl-C keeps the best solution so far
            for C in values:
                self._fit_one(state, C, monitor)
                if monitor.interrupted:
                    break
        if not self.path_:
            raise KeyboardInterrupt  # nothing to keep yet
        monitor.best_iteration = state.kept

    def _fit_one(self, state: PathState, C: float, monitor: Monitor) -> None:
        """Solve for one C, add its row to the path, and keep the solution if it is the best so far."""
        began, before = monitor.elapsed(), len(monitor.history)
        self._solve(state, C, monitor)
        assert state.v is not None
        if len(monitor.history) == before:
            return  # interrupted immediately
        scored = self._validation(state.w, monitor)
        row = {"C": C, "validation": scored, "norm": float(np.linalg.norm(state.v)),
               "iterations": len(monitor.history) - before, "seconds": monitor.elapsed() - began}  # fmt: skip
        if state.certificate is not None:
            row |= {"objective": state.certificate.primal, "relative_gap": state.certificate.relative_gap}
        monitor.validate_last(scored)
        if scored is None or all(scored > other["validation"] for other in self.path_):
            state.kept = len(monitor.history)
            self._keep(state, C)
        self.path_.append(row)

    def _keep(self, state: PathState, C: float) -> None:
        self.coef_, self.intercept_, self.C_ = state.w, 0.0, C
        if state.certificate is not None:
            self.certificate_ = replace(state.certificate, scale=self.scale)
        elif hasattr(self, "certificate_"):
            del self.certificate_

    def _validation(self, w: Array, monitor: Monitor) -> float | None:
        return validation_of(w, monitor)

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"C": self.C_}
        if hasattr(self, "certificate_"):
            facts |= {"certificate": str(self.certificate_)}
        return facts

    # -- model files ---------------------------------------------------------------------------------------------------

    def _pack(self) -> dict[str, Any]:
        state = super()._pack() | {"C": self.C_, "path": self.path_}
        if hasattr(self, "certificate_"):
            state["certificate"] = asdict(self.certificate_)
        return state

    def _unpack(self, state: Mapping[str, Any]) -> None:
        super()._unpack(state)
        self.C_, self.path_ = float(state["C"]), Path(state["path"])
        if "certificate" in state:
            self.certificate_ = stored_certificate(state)
