"""Bundle method: ½‖w‖² + C·R(w) from values and subgradients of R alone.

R lies above each of its planes R(w_t) + g_t·(w − w_t), and above zero. The minimum of the *model*, the objective with
max(0, planes) in place of R, is a lower bound; its dual is a quadratic programme with one variable per plane. The plain
method (Teo et al., "Bundle methods for regularized risk minimization", JMLR 2010) takes the next plane at the
minimiser of the model, which jumps far from the optimum when C is large. Two things stabilise it, both with one pass
over the data per iteration:

- a *line search* through the best point (Franc and Sonnenburg, "Optimized cutting plane algorithm for large-scale risk
  minimization", JMLR 2009): scores are linear in w, so the objective along a line needs no data;
- *trial points near the best point*, alternately on the segment to the minimiser of the model, as far along as the
  last line searches went, and at the minimiser of the model plus (ρ/2)‖w − best‖² (proximal bundle).

The lower bound always comes from the model of the problem itself, with feasible dual weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gainful.data.rows import Array
from gainful.errors import DataError, ParameterError
from gainful.solvers.bundle_qp import lowest_on_line, solve_simplex_qp
from gainful.solvers.certificate import (
    TINY,
    Certificate,
    NullMonitor,
    Solution,
    Watch,
    best_multiple,
    check_settings,
    warn_not_converged,
)
from gainful.solvers.risk import Risk

MOST_PLANES = 1000
FEWEST_PLANES = 50
PLANE_VALUES = 1 << 25  # 256 MiB of planes, unless the minimum number needs more

ACCURACY_OF_QP = 1e-3  # as a fraction of what the outer tolerance needs
STEEPEST = 1e13  # C·‖g‖² over the planes' heights that leaves enough digits
PUSH = 0.1  # how far past the expected step, towards the minimiser of the model, to take the next plane
LONGEST_STEP = 3.0  # of the line search past a proximal trial point
MOST_EVALUATIONS = 3  # per line search
WORTHWHILE = 0.05  # fraction of the gap that another evaluation must promise
STALLED = 60  # iterations without progress
DUST = 1e-6  # of the longest step that a plane allows
ROUNDING = 1e-13  # relative decrease of the objective that counts as progress


@dataclass(frozen=True)
class Point:
    """A point with the risk and the scores there; ``exact`` when they come from the data, not from a line search."""

    w: Array
    risk: float
    scores: Any  # an array, or a vector stored elsewhere that supports sums and multiples
    exact: bool

    def objective(self, C: float) -> float:
        return 0.5 * float(self.w @ self.w) + C * self.risk


@dataclass(frozen=True)
class BundleSolution(Solution):
    """A solution with its bundle, from which another C can start."""

    bundle: Bundle

    def is_zero(self, C: float) -> bool:
        """Whether the minimum is at w = 0, for all C: no descent from there, and w is what rounding leaves.

        A tiny C moves w little too, but by C times a gradient.
        """
        lowest = C * self.bundle.risk_at_zero
        longest = C * math.sqrt(self.bundle.steepness())  # what a plane can move w by
        no_descent = lowest - self.certificate.primal <= ROUNDING * lowest
        return self.converged and no_descent and float(np.linalg.norm(self.w)) < DUST * longest


class Bundle:
    """Planes offset + gradient·w below the risk, with their Gram matrix and the dual weights of the last C.

    Conventions: row i < ``n_planes`` of ``gradients`` (capacity, d), ``offsets``, ``gram``, ``alpha`` and ``idle``
    belongs to plane i; ``idle`` counts the iterations since it had a weight. The row after them is 0 and represents
    the zero plane, so one row is always spare. At ``max_planes`` planes, the half that has been idle longest is
    dropped; if that is not enough, the planes of least weight are merged into one, which keeps the current lower bound.
    """

    def __init__(self, n_features: int, max_planes: int | None = None):
        if max_planes is None:
            max_planes = max(FEWEST_PLANES, min(MOST_PLANES, PLANE_VALUES // max(1, n_features)))
        if max_planes < 4:
            raise ParameterError.of("the bundle", "max_planes", "an integer ≥ 4", max_planes)
        self.n_features, self.max_planes = n_features, max_planes
        self.n_planes = 0
        self.anchor: Point | None = None
        self.risk_at_zero = math.nan  # where known
        capacity = min(32, max_planes) + 1
        self.gradients = np.zeros((capacity, n_features))
        self.gram = np.zeros((capacity, capacity))
        self.offsets, self.alpha = np.zeros(capacity), np.zeros(capacity)
        self.idle = np.zeros(capacity, dtype=np.int64)

    def add(self, gradient: Array, offset: float) -> None:
        if self.n_planes >= self.max_planes:
            self._shrink()
        if self.n_planes + 1 == len(self.offsets):
            self._take(np.arange(self.n_planes), min(2 * self.n_planes, self.max_planes) + 1)
        n = self.n_planes
        self.gradients[n] = gradient
        products = self.gradients[: n + 1] @ self.gradients[n]
        self.gram[n, : n + 1] = products
        self.gram[: n + 1, n] = products
        self.offsets[n], self.alpha[n], self.idle[n] = offset, 0.0, 0
        self.n_planes = n + 1

    def heights(self, w: Array) -> Array:
        """The value of every plane at w."""
        n = self.n_planes
        return np.asarray(self.offsets[:n] + self.gradients[:n] @ w)

    def minimise(self, C: float, tol: float) -> tuple[Array, float]:
        """The minimiser of ½‖w‖² + C·max(0, planes), and a lower bound of that minimum.

        If C·‖g‖² dwarfs the planes' heights, a sum of weighted gradients that should almost cancel has no correct
        digit; a smaller C is used then, whose weights agree in all digits that matter.
        """
        n = self.n_planes
        steepness = self.steepness()
        most = STEEPEST * max(float(self.offsets[:n].max()), -float(self.offsets[:n].min())) / max(steepness, TINY)
        usable = min(C, most) if most > 0 else C
        alpha = self.alpha[: n + 1]
        self._solve(self.offsets[: n + 1], usable, alpha, tol)
        self.idle[:n] += 1
        self.idle[:n][alpha[:n] > 0.0] = 0
        gradient = alpha[:n] @ self.gradients[:n]
        return -usable * gradient, self._dual(C, gradient, float(alpha[:n] @ self.offsets[:n]))

    def _solve(self, heights: Array, C: float, alpha: Array, tol: float) -> None:
        n = self.n_planes
        solve_simplex_qp(self.gram[: n + 1, : n + 1], heights, C, alpha, tol, 20 * n + 1000, 200)

    def bound(self, C: float, alpha: Array) -> float:
        """The dual value of the best multiple of α ≥ 0, Σ α ≤ 1, that keeps the sum at 1 or less.

        It is a lower bound of the minimum for any α, even one found with another C.
        """
        n = self.n_planes
        return self._dual(C, alpha @ self.gradients[:n], float(alpha @ self.offsets[:n]))

    @staticmethod
    def _dual(C: float, gradient: Array, offset: float) -> float:
        return best_multiple(C * offset, C * C * float(gradient @ gradient))

    def steepness(self) -> float:
        """The largest squared length of a gradient."""
        return float(self.gram.diagonal()[: self.n_planes].max())

    def minimise_near(self, C: float, tol: float, centre: Array, rho: float, alpha: Array) -> tuple[Array, float]:
        """The minimiser of the same plus (ρ/2)‖w − centre‖², and a lower bound without that term.

        ``alpha``, of all planes and the zero plane, is the starting point and is overwritten. With u = w − c,
        c = ρ·centre/(1+ρ), this is the same problem in u, with C/(1+ρ) and the planes' heights at c.
        """
        n = self.n_planes
        shift, pull = centre * (rho / (1.0 + rho)), C / (1.0 + rho)
        heights = np.zeros(n + 1)
        heights[:n] = self.heights(shift)
        self._solve(heights, pull, alpha, tol)
        gradient = alpha[:n] @ self.gradients[:n]
        return shift - pull * gradient, self._dual(C, gradient, float(alpha[:n] @ self.offsets[:n]))

    def _shrink(self) -> None:
        n, half = self.n_planes, self.max_planes // 2
        order = np.lexsort((-self.alpha[:n], self.idle[:n]))  # planes in use first, the heaviest at the front
        used = int(np.count_nonzero(self.alpha[:n]))
        if used <= half:
            self._take(np.sort(order[:half]), len(self.offsets))
            return
        kept, merged = order[: half - 1], order[half - 1 : used]
        share = self.alpha[merged] / self.alpha[merged].sum()
        last = merged[0]
        products = self.gram[:n, merged] @ share
        own = float(share @ products[merged])
        self.gradients[last] = share @ self.gradients[merged]
        self.offsets[last] = share @ self.offsets[merged]
        self.gram[last, :n], self.gram[:n, last], self.gram[last, last] = products, products, own
        self.alpha[last] = self.alpha[merged].sum()
        self._take(np.sort(np.append(kept, last)), len(self.offsets))

    def _take(self, rows: Array, capacity: int) -> None:
        n = len(rows)
        state: dict[str, Any] = {"n_planes": n, "gram": np.zeros((capacity, capacity))}
        state["gram"][:n, :n] = self.gram[np.ix_(rows, rows)]
        for name in ("gradients", "offsets", "alpha", "idle"):
            old = getattr(self, name)
            state[name] = np.zeros((capacity, *old.shape[1:]), dtype=old.dtype)
            state[name][:n] = old[rows]
        self.__dict__.update(state)  # all at once: an interruption leaves either the old planes or the new ones


def minimize_bundle(
    risk: Risk,
    C: float,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    bundle: Bundle | None = None,
    w0: Array | None = None,
    monitor: Watch | None = None,
    max_planes: int | None = None,
    line_search: bool = True,
) -> BundleSolution:
    """Minimise ½‖w‖² + C·R(w) until the gap is at most ``tol`` times the objective.

    Parameters
    ----------
    max_iter : maximum passes over the data, one per iteration
    bundle : planes of an earlier solve of the same risk, for any C; it is extended in place
    w0 : (d,), the starting point; by default the best point of the bundle, or 0
    max_planes : maximum planes kept (by default 1,000, or fewer if they would take more than 256 MiB)
    line_search : False for the plain bundle method
    """
    check_settings("minimize_bundle", C=C, tol=tol, max_iter=max_iter)
    if bundle is None:
        bundle = Bundle(risk.n_features, max_planes)
    elif bundle.n_features != risk.n_features:
        raise ParameterError.of("minimize_bundle", "bundle", f"of {risk.n_features} features", bundle.n_features)
    search = _Search(risk, float(C), tol, bundle, line_search)
    with NullMonitor() if monitor is None else monitor as watch:
        search.run(watch, max_iter, None if w0 is None else np.asarray(w0, dtype=np.float64))
    if search.best is None:
        raise KeyboardInterrupt  # nothing to return yet
    certificate = search.certificate()
    if search.stopped:
        warn_not_converged("minimize_bundle", certificate, tol, search.stopped)
    interrupted = not (search.converged or search.stopped)
    return BundleSolution(search.best.w, certificate, search.n_iter, search.converged, interrupted, bundle)


class _Search:
    """One run of the bundle method. ``best`` and ``dual`` are valid at any time, so a run can stop anywhere."""

    def __init__(self, risk: Risk, C: float, tol: float, bundle: Bundle, line_search: bool):
        self.risk, self.C, self.tol, self.bundle, self.line_search = risk, C, tol, bundle, line_search
        self.best: Point | None = bundle.anchor
        self.dual = 0.0
        self.n_iter = 0
        self.converged = False
        self.stopped = ""  # why the run stopped short of the tolerance
        self.expected = 1.0  # step length, as a fraction of the way to the minimiser of the model
        self.rho = 0.0  # chosen at first use
        self.near_alpha = np.zeros(0)

    def certificate(self) -> Certificate:
        assert self.best is not None
        primal = self.best.objective(self.C)
        return Certificate(primal, min(self.dual, primal))

    def run(self, watch: Watch, max_iter: int, w0: Array | None) -> None:
        if w0 is not None or self.best is None:
            self._start(np.zeros(self.risk.n_features) if w0 is None else w0)
        stalled, before = 0, math.inf
        while True:
            model = self._bound()
            now = self.certificate()
            reached = now.relative_gap <= self.tol
            done = reached and self._final()
            stop = watch.step(objective=now.primal, gap=now.relative_gap) if self.n_iter or done else False
            if done or self.n_iter >= max_iter:
                self.converged = reached
                self.stopped = "" if reached else f"after {max_iter} iterations"
                return
            if stop:
                return
            stalled = stalled + 1 if before - now.gap <= ROUNDING * now.primal else 0
            before = min(before, now.gap)
            if stalled >= STALLED:
                self.stopped = "because rounding allows no more progress"
                return
            self._advance(model, reached)

    def _final(self) -> bool:
        """Whether a point within the tolerance can be returned.

        Its risk must come from the data, and for a tiny C it must not be the start at 0, which ranks nothing.
        """
        assert self.best is not None
        at_start = self.n_iter == 1 and not self.best.w.any() and self.best.risk > 0 and self.bundle.steepness() > 0
        return self.best.exact and not at_start

    def _start(self, w: Array) -> None:
        value, gradient, scores = self.risk.value_and_gradient(w)
        with np.errstate(over="ignore"):
            square = float(gradient @ gradient)
        if not (math.isfinite(value) and math.isfinite(square)):
            raise DataError("the risk is not finite at the start of training; are the features scaled sensibly?")
        self.n_iter += 1
        self.bundle.add(gradient, value - float(gradient @ w))
        if not w.any():
            self.bundle.risk_at_zero = value
        self._accept(Point(w, value, scores, True))

    def _accept(self, point: Point) -> None:
        """Keep the point if it is at least as good. Ties go to the newer one, so that a tiny C leaves 0."""
        if self.best is None or point.objective(self.C) <= self.best.objective(self.C):
            self.best = self.bundle.anchor = point

    def _accuracy(self) -> float:
        """The accuracy of the small problems, in units of the risk."""
        return ACCURACY_OF_QP * self.tol * self.certificate().primal / self.C

    def _bound(self) -> Array:
        """The minimiser of the model; raises the lower bound."""
        model, bound = self.bundle.minimise(self.C, self._accuracy())
        if bound > self.dual:
            self.dual = bound
        return model

    def _advance(self, model: Array, confirm: bool) -> None:
        """One pass over the data: a new plane, and the best point of a line search.

        ``confirm``: the gap is small enough, but the best point comes from a line search; evaluate it on the data.
        """
        assert self.best is not None
        near = self.n_iter % 2 == 0
        if confirm and not self.best.exact:
            trial, longest = self.best.w, 1.0
        elif not self.line_search:
            trial, longest = model, 1.0
        elif near:
            trial, longest = self._near(), LONGEST_STEP
        else:
            part = PUSH + (1.0 - PUSH) * min(1.0, max(0.05, self.expected))
            trial, longest = self.best.w + part * (model - self.best.w), 1.0 / part
        value, gradient, scores = self.risk.value_and_gradient(trial)
        self.n_iter += 1
        if not (math.isfinite(value) and np.isfinite(gradient).all()):
            self.expected, self.rho = self.expected / 10, self.rho * 10
            return
        self.bundle.add(gradient, value - float(gradient @ trial))
        point = Point(trial, value, scores, True)
        if trial is self.best.w:
            self.best = self.bundle.anchor = point
            return
        if not self.line_search:
            self._accept(point)
            return
        step = self._search_line(point, longest)
        if near:
            self.rho = max(self.rho * min(max(0.3 / max(step, 1e-12), 0.1), 2.0), 1e-9)
        else:
            self.expected = 0.5 * (self.expected + step / longest) if step > 0 else 0.5 * self.expected

    def _near(self) -> Array:
        """The minimiser of the model with a pull towards the best point; its weights also bound the minimum.

        If C·‖g‖² is too large to minimise the model itself to all digits, this bound is the better one.
        """
        assert self.best is not None
        n = self.bundle.n_planes
        if self.rho == 0.0:
            # A pull that makes the first step about as long as the steepest plane needs to reach zero.
            self.rho = max(1.0, self.C * self.bundle.steepness() / max(self.best.risk, TINY))
        alpha = np.zeros(n + 1)
        start = self.near_alpha if len(self.near_alpha) <= n else self.bundle.alpha[:n]  # if planes were dropped
        alpha[: len(start)] = start
        self.near_alpha = alpha[:n]
        trial, bound = self.bundle.minimise_near(self.C, self._accuracy(), self.best.w, self.rho, alpha)
        self.dual = max(self.dual, bound)
        return trial

    def _search_line(self, point: Point, longest: float) -> float:
        """Accept the best point found on the ray from the best point through ``point``; returns t, 1 for ``point``.

        On the ray the objective is a known parabola plus C times a convex function of t. Planes and previous
        evaluations bound it from below; each evaluation is at the minimum of that bound.
        """
        assert self.best is not None
        best, C = self.best, self.C
        d, ds = point.w - best.w, point.scores - best.scores
        linear, square = float(best.w @ d), float(d @ d)
        heights = self.bundle.heights(best.w)
        slopes = self.bundle.heights(point.w) - heights
        start = best.objective(C)
        lowest, at, risk = start, 0.0, best.risk
        if point.objective(C) <= lowest:
            lowest, at, risk = point.objective(C), 1.0, point.risk
        tried = [0.0, 1.0]
        for _ in range(MOST_EVALUATIONS):
            t, bound = lowest_on_line(heights, slopes, C, linear, square, longest)
            bound += 0.5 * float(best.w @ best.w)
            promise = lowest - bound
            if not promise > WORTHWHILE * max(lowest - self.dual, 0.0):
                break
            if any(abs(t - other) <= 1e-9 * max(t, other) for other in tried):
                break
            value, slope = self.risk.along(best.scores, ds, t)
            if not (math.isfinite(value) and math.isfinite(slope)):
                break
            tried.append(t)
            heights, slopes = np.append(heights, value - slope * t), np.append(slopes, slope)
            objective = 0.5 * float(best.w @ best.w) + t * linear + 0.5 * t * t * square + C * value
            if objective < lowest:
                lowest, at, risk = objective, t, value
        if at == 1.0:
            self._accept(point)
        elif at > 0.0:
            self._accept(Point(best.w + at * d, risk, best.scores + at * ds, False))
        return at
