"""Cutting planes with one slack per query: ½‖w‖² + C Σ_q ω_q max_y (b_qy − w·v_qy).

The dual has one variable per ranking that was ever the most violated one of its query:

    maximise  b·α − ½‖Σ α v‖²   over  α ≥ 0, Σ_{columns of q} α ≤ C·ω_q.

Chapelle, Le and Smola, "Large margin optimization of ranking measures" (2007), algorithm 1, with the variations of
section 3.2: each round starts from the weights of the previous one; columns without weight are dropped; the quadratic
programme is solved inexactly, and skips inactive columns; a new column is first optimised alone; and the programme is
solved after every query, after a batch, or after a pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gainful.data.rows import Array
from gainful.errors import ParameterError
from gainful.solvers.certificate import Certificate, NullMonitor, Solution, Watch, check_settings, warn_not_converged
from gainful.solvers.risk import ColumnRisk

# Limits on the work for one quadratic programme; the next pass does the rest.
MOST_ROUNDS = 20
SWEEPS = 20
FACES = 20
MOST_CONJUGATE = 200


@dataclass(frozen=True)
class CuttingPlaneSolution(Solution):
    """A solution with the final number of columns."""

    n_columns: int


def minimize_cutting_plane(
    risk: ColumnRisk,
    C: float,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    schedule: str | int = "pass",
    drop_inactive: bool = True,
    drop_after: int = 10,
    inner_tol: float = 0.1,
    single_variable_update: bool = True,
    active_set: bool = True,
    monitor: Watch | None = None,
) -> CuttingPlaneSolution:
    """Minimise ½‖w‖² + C·R(w) until the gap is at most ``tol`` times the objective.

    Parameters
    ----------
    max_iter : maximum passes over the queries
    schedule : after how many queries w changes: "query", a number of queries, or "pass" (all are evaluated at the same
        w, which gives the objective there at no extra cost; otherwise each pass needs another pass over the data)
    drop_inactive : remove columns without weight for ``drop_after`` passes in a row
    inner_tol : solve each quadratic programme to this fraction of the current gap
    single_variable_update : between passes make one exact step per new column; else solve the whole programme
    active_set : exclude a column that lost its weight from the programme until its ranking is found again
    """
    check_settings("minimize_cutting_plane", C=C, tol=tol, max_iter=max_iter)
    if not 0 < inner_tol < 1:
        raise ParameterError.of("minimize_cutting_plane", "inner_tol", "a number between 0 and 1", inner_tol)
    if drop_after < 1:
        raise ParameterError.of("minimize_cutting_plane", "drop_after", "an integer ≥ 1", drop_after)
    batch = _batch(schedule, risk.n_queries)
    run = _CuttingPlanes(risk, float(C), tol, inner_tol, single_variable_update, active_set)
    with NullMonitor() if monitor is None else monitor as watch:
        run.solve(watch, max_iter, batch, drop_after if drop_inactive else 0)
    if run.n_iter == 0:
        raise KeyboardInterrupt  # nothing to return yet
    certificate = run.certificate()
    if run.stopped:
        warn_not_converged("minimize_cutting_plane", certificate, tol, run.stopped)
    interrupted = not (run.converged or run.stopped)
    return CuttingPlaneSolution(run.best, certificate, run.n_iter, run.converged, interrupted, run.columns.n)


def _batch(schedule: str | int, n_queries: int) -> int:
    if schedule == "pass":
        return max(1, n_queries)
    if schedule == "query":
        return 1
    if isinstance(schedule, int) and not isinstance(schedule, bool) and schedule >= 1:
        return schedule
    raise ParameterError.of("minimize_cutting_plane", "schedule", '"pass", "query" or an integer ≥ 1', schedule)


class _Columns:
    """Growing arrays of columns, chained by query (see the kernels' conventions)."""

    def __init__(self, n_features: int, n_queries: int):
        self.n = 0
        self.head = np.full(n_queries, -1, dtype=np.int64)
        self.V = np.zeros((64, n_features))
        self.b, self.alpha = np.zeros(64), np.zeros(64)
        self.link, self.query, self.idle = (np.zeros(64, dtype=np.int64) for _ in range(3))
        self.asleep = np.zeros(64, dtype=np.bool_)

    def add(self, queries: Array, V: Array, b: Array) -> None:
        if self.n + len(b) > len(self.b):
            self._take(np.arange(self.n), max(2 * len(self.b), self.n + len(b)))
        new = slice(self.n, self.n + len(b))
        self.V[new], self.b[new], self.query[new] = V, b, queries
        self.alpha[new], self.idle[new], self.asleep[new] = 0.0, 0, False
        self.link[new] = self.head[queries]  # a query occurs once in a batch
        self.head[queries] = np.arange(self.n, self.n + len(b))
        self.n += len(b)

    def age(self, drop_after: int) -> None:
        """Count passes without weight, and drop the columns that reach ``drop_after`` (0: none)."""
        idle = self.idle[: self.n]
        idle[:] = np.where(self.alpha[: self.n] > 0, 0, idle + 1)
        if drop_after and int(idle.max(initial=0)) >= drop_after:
            self._take(np.flatnonzero(idle < drop_after), len(self.b))

    def _take(self, rows: Array, capacity: int) -> None:
        for name in ("V", "b", "alpha", "query", "idle", "asleep"):
            old = getattr(self, name)
            new = np.zeros((capacity, *old.shape[1:]), dtype=old.dtype)
            new[: len(rows)] = old[rows]
            setattr(self, name, new)
        self.n, self.link = len(rows), np.full(capacity, -1, dtype=np.int64)
        self.head[:] = -1
        for i, q in enumerate(self.query[: self.n].tolist()):
            self.link[i], self.head[q] = self.head[q], i


class _CuttingPlanes:
    """One run. ``best`` with its objective and ``dual`` are valid at any time, so a run can stop anywhere."""

    def __init__(
        self, risk: ColumnRisk, C: float, tol: float, inner_tol: float, single_variable_update: bool, active_set: bool
    ):
        self.risk, self.C, self.tol, self.inner_tol = risk, C, tol, inner_tol
        self.single_variable_update, self.active_set = single_variable_update, active_set
        self.caps = C * np.asarray(risk.weights, dtype=np.float64)
        self.columns = _Columns(risk.n_features, risk.n_queries)
        self.load = np.zeros(risk.n_queries)
        self.w = np.zeros(risk.n_features)
        self.best, self.dual = self.w.copy(), 0.0
        self.primal = np.inf
        self.n_iter = 0
        self.converged = False
        self.stopped = ""
        self.order = np.arange(risk.n_queries)
        self.rng = np.random.default_rng(0)

    def certificate(self) -> Certificate:
        return Certificate(self.primal, min(self.dual, self.primal))

    def solve(self, watch: Watch, max_iter: int, batch: int, drop_after: int) -> None:
        one_point = batch >= self.risk.n_queries
        while True:
            at = self.w.copy()
            losses = self._pass(batch)
            if one_point:
                self._offer(at, losses)
            else:
                self._offer(self.w.copy(), self.C * self.risk.value_and_gradient(self.w)[0])
            self.n_iter += 1
            now = self.certificate()
            stop = watch.step(objective=now.primal, gap=now.relative_gap)
            if now.relative_gap <= self.tol:
                self.converged = True
                return
            if self.n_iter >= max_iter:
                self.stopped = f"after {max_iter} passes"
                return
            if stop:
                return
            self._optimise(self.inner_tol * now.gap)
            self.columns.age(drop_after)

    def _offer(self, w: Array, losses: float) -> None:
        """A candidate for the best point; ``losses`` is C·R(w)."""
        primal = 0.5 * float(w @ w) + losses
        if primal <= self.primal:
            self.best, self.primal = w, primal

    def _pass(self, batch: int) -> float:
        """Evaluate every query once; returns Σ cap_q L_q, which is C·R(w) if w did not change during the pass."""
        from gainful.solvers.cutting_plane_kernels import admit, improve_queries

        total = 0.0
        for start in range(0, self.risk.n_queries, batch):
            queries = np.arange(start, min(start + batch, self.risk.n_queries))
            V, b = self.risk.columns(self.w, queries)
            V, b = np.ascontiguousarray(V, dtype=np.float64), np.ascontiguousarray(b, dtype=np.float64)
            store = self.columns
            news, losses = admit(
                queries, V, b, self.w, store.V, store.b, store.head, store.link, store.asleep, self.caps, self._least()
            )
            total += losses
            if not news.any():
                continue
            store.add(queries[news], V[news], b[news])
            if self.single_variable_update:
                improve_queries(queries[news], *self._programme())
            elif batch < self.risk.n_queries:
                self._optimise(self.inner_tol * self.tol * self._scale())
        return total

    def _programme(self) -> tuple[Any, ...]:
        """The quadratic programme and its current solution, as the kernels take them."""
        of = self.columns
        return of.V, of.b, of.alpha, of.head, of.link, of.asleep, self.active_set, self.caps, self.load, self.w

    def _scale(self) -> float:
        return self.primal if np.isfinite(self.primal) else self.C

    def _least(self) -> float:
        """Violations below this cannot hold the gap above the tolerance."""
        known = self.primal if np.isfinite(self.primal) else 0.0
        return 0.25 * self.tol * known / max(float(self.caps.sum()), np.finfo(np.float64).tiny)

    def _optimise(self, tol: float) -> None:
        """Solve the quadratic programme over all columns; raises the lower bound."""
        from gainful.solvers.cutting_plane_kernels import ascend

        for _ in range(MOST_ROUNDS):
            self.rng.shuffle(self.order)
            gap, _ = ascend(*self._programme(), tol, SWEEPS, self.order)
            if gap <= tol:
                break
            for _ in range(FACES):
                if not self._follow_face():
                    break
            self._resum()
        self._resum()

    def _follow_face(self) -> bool:
        """Conjugate gradients over the columns in use, keeping sums that are at their caps; True if a bound was hit.

        Steps within single queries identify the columns that matter; where queries compete, they converge slowly, and
        this does the rest (Moré and Toraldo, "On the solution of large quadratic programming problems with
        bound constraints", 1991, alternate in the same way).
        """
        n, store = self.columns.n, self.columns
        used = np.flatnonzero(store.alpha[:n] > 0)
        if len(used) == 0:
            return False
        alpha, V, query = store.alpha[used], store.V[used], store.query[used]
        slack = np.maximum(self.caps - self.load, 0.0)
        tight = slack <= 1e-12 * self.caps
        share = np.where(tight, 1.0 / np.maximum(np.bincount(query, minlength=len(tight)), 1), 0.0)

        def project(x: Array) -> Array:
            return np.asarray(x - (share * np.bincount(query, weights=x, minlength=len(share)))[query])

        slopes = store.b[used] - V @ self.w
        residual = project(slopes)
        direction, square = residual, float(residual @ residual)
        enough = 1e-20 * square
        met = False
        for _ in range(min(2 * len(used), MOST_CONJUGATE)):
            if not square > enough:
                break
            change = direction @ V
            curvature = float(change @ change)
            length, blocking = _room(alpha, direction, query, slack, tight)
            met = not square < length * curvature
            if not met:
                length = square / curvature
            if not np.isfinite(length):
                break
            alpha = np.maximum(alpha + length * direction, 0.0)
            slack = np.maximum(slack - length * np.bincount(query, weights=direction, minlength=len(slack)), 0.0)
            if met:
                if blocking >= 0:
                    alpha[blocking] = 0.0
                break
            slopes = slopes - length * (V @ change)
            residual = project(slopes)
            before, square = square, float(residual @ residual)
            direction = residual + (square / before) * direction
        store.alpha[used] = alpha
        store.asleep[used] |= alpha == 0.0
        self._resum()
        return met

    def _resum(self) -> None:
        """Recompute w and the loads without accumulated rounding, and the dual value from feasible weights."""
        n, store = self.columns.n, self.columns
        alpha, query = store.alpha[:n], store.query[:n]
        load = np.bincount(query, weights=alpha, minlength=len(self.caps))
        over = load > self.caps
        if over.any():
            shrink = np.ones(len(load))
            shrink[over] = self.caps[over] / load[over]
            alpha *= shrink[query]
            load = np.minimum(load, self.caps)
        self.load[:] = load
        self.w[:] = alpha @ store.V[:n]
        self.dual = max(self.dual, float(alpha @ store.b[:n]) - 0.5 * float(self.w @ self.w))


def _room(alpha: Array, direction: Array, query: Array, slack: Array, tight: Array) -> tuple[float, int]:
    """How far the step along ``direction`` can go, and which weight is zero then (−1: a sum is at its cap)."""
    down = np.flatnonzero(direction < 0)
    limits = alpha[down] / -direction[down]
    length, blocking = np.inf, -1
    if len(down):
        nearest = int(limits.argmin())
        length, blocking = float(limits[nearest]), int(down[nearest])
    grow = np.bincount(query, weights=direction, minlength=len(slack))
    rising = (grow > 0) & ~tight
    if rising.any():
        cap = float((slack[rising] / grow[rising]).min())
        if cap < length:
            length, blocking = cap, -1
    return length, blocking
