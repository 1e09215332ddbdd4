"""Active-set method for the small dual problem of the bundle solver, and its line search.

    maximise  φ(α) = b·α − (C/2) α'Gα    over  α ≥ 0, Σ α ≤ 1

G is the Gram matrix of the planes. What Σ α leaves to 1 is the weight of the *zero plane* (the risk is never negative).

Conventions
-----------
``inside[:size]`` lists the planes of the active set in the order of the rows of ``L``, the lower Cholesky factor of

- C·G over the active set while the zero plane is *in* (the sum is free), or
- C·G + σee' while it is *out* (Σ α = 1), where adding σee' changes nothing on the plane Σ α = 1 and removes the one
  dependency that more planes than dimensions must have.

A plane that depends on the active set (a duplicate, a zero gradient, more planes than features) is never factored:
weight is moved along the dependency, which changes only the linear part of φ, until some plane of the set is empty
and leaves it. Optimality is measured by the exact gap of the problem, max(0, max_j p_j) − α·p with p = b − C·Gα, so the
factor may be inaccurate without harm: what it cannot finish, pairwise exact steps do.

The problems are small (tens of planes in use), so this is NumPy and LAPACK: compiling it took longer than most fits.
Only the pairwise steps are compiled, on the first problem that is hard enough to need them.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg.lapack import dgeqrf, dpotrf, dpotrs, dtrtrs

from gainful.data.rows import Array

DEPENDENT = 1e-13  # a pivot this small beside its diagonal is rounding
SLACK, FREE = -1, -2  # what ended a move, where it was not a plane of the set: the zero plane, or nothing
PATIENCE = 3  # changes of the active set without ascent
CUTS = np.arange(1.0, 16.0) / 16.0  # where a line search that halves four times at once looks
MOST_HALVINGS = 100
FEW_LINES = 6  # so many are compared faster one by one


def solve_simplex_qp(
    G: Array, b: Array, C: float, alpha: Array, tol: float, max_changes: int, max_pairs: int
) -> tuple[float, int, int]:
    """Improve ``alpha`` in place; returns (gap of φ reached, changes of the active set, pairwise steps).

    Stops at a gap of at most ``tol`` (absolute, in units of b), or when rounding forbids further ascent. Only the first
    ``len(b)`` rows and columns of ``G`` count.
    """
    G = G[: len(b), : len(b)]
    _make_feasible(alpha)
    p = _heights(G, b, C, alpha)
    gap = _gap(alpha, p)
    if not gap > tol:
        return gap, 0, 0
    start, start_gap, value = alpha.copy(), gap, _value(b, alpha, p)
    with np.errstate(all="ignore"):  # a factor without digits may overflow: the check of the value mends that
        changes = _ActiveSet(G, b, C, alpha).ascend(tol, max_changes)
    _make_feasible(alpha)
    p = _heights(G, b, C, alpha)
    gap = _gap(alpha, p)
    if not _value(b, alpha, p) >= value:
        alpha[:], gap = start, start_gap
    if not gap > tol:
        return gap, changes, 0
    from gainful.solvers.bundle_qp_kernels import ascend_by_pairs

    p = _heights(G, b, C, alpha)
    pairs = ascend_by_pairs(np.ascontiguousarray(G), p, C, alpha, tol, max_pairs)
    return _gap(alpha, _heights(G, b, C, alpha)), changes, pairs


def _make_feasible(alpha: Array) -> None:
    alpha[~(alpha > 0.0)] = 0.0  # also what is not a number
    total = float(alpha.sum())
    if total > 1.0:
        alpha /= total


def _heights(G: Array, b: Array, C: float, alpha: Array) -> Array:
    """p = b − C·Gα, the height of every plane at the point that α stands for; G is symmetric.

    One plane after the other: the same order each time makes rounding the same, where C is so large that it shows.
    """
    used = alpha.nonzero()[0]
    terms = np.empty((len(used) + 1, len(b)))
    terms[0] = b
    np.multiply(G[used], (C * alpha[used])[:, None], out=terms[1:])
    return np.asarray(np.subtract.reduce(terms, axis=0))


def _gap(alpha: Array, p: Array) -> float:
    return max(0.0, float(p.max())) - float(alpha @ p)


def _value(b: Array, alpha: Array, p: Array) -> float:
    return 0.5 * float(alpha @ (b + p))


class _ActiveSet:
    """The planes with weight and their factor."""

    def __init__(self, G: Array, b: Array, C: float, alpha: Array):
        self.G, self.b, self.C, self.alpha = G, b, C, alpha
        n = len(b)
        self.L = np.zeros((n, n), order="F")
        self.planes = np.zeros(n, dtype=np.intp)
        self.size = 0
        self.slack = max(0.0, 1.0 - float(alpha.sum()))
        self.zero_in = self.slack > 1e-12
        self.sigma = 0.0

    @property
    def inside(self) -> Array:
        return self.planes[: self.size]

    @property
    def factor(self) -> Array:
        return self.L[: self.size, : self.size]

    def ascend(self, tol: float, max_changes: int) -> int:
        """Change the set until the gap is at most ``tol``; returns the number of changes."""
        self._factor_all()
        highest, idle = -math.inf, 0
        for change in range(max_changes):
            if self.size:
                blocking = self._move(self.inside, self._target() - self.alpha[self.inside], 1.0)
                if blocking == SLACK:
                    self._set_zero_plane(False)
                    continue
                if blocking >= 0:
                    self._remove(blocking)
                    continue
            p = _heights(self.G, self.b, self.C, self.alpha)
            if not _gap(self.alpha, p) > tol:
                return change
            value = _value(self.b, self.alpha, p)
            idle = 0 if value > highest else idle + 1
            highest = max(highest, value)
            if idle > PATIENCE or not self._grow(p):
                return change
        return max_changes

    def _grow(self, p: Array) -> bool:
        """Take in the highest plane outside the set; False where none is above it: what gap is left is rounding."""
        level = 0.0 if self.zero_in else float(self.alpha[self.inside] @ p[self.inside])
        p[self.inside] = -math.inf
        entering = int(p.argmax())
        top = float(p[entering])
        if not self.zero_in and not top > 0.0:
            if level < 0.0:
                self._set_zero_plane(True)
            return level < 0.0
        if not top > level:
            return False
        if self._enter(entering):
            self._set_zero_plane(False)
        return True

    # -- the factor ----------------------------------------------------------------------------------------------------

    def _set_zero_plane(self, is_in: bool) -> None:
        self.zero_in, self.slack = is_in, 0.0
        self._factor_all()

    def _factor_all(self) -> None:
        """Factor the planes in use from scratch; the zero plane goes out where that empties it."""
        while True:
            used = self.alpha.nonzero()[0]
            self.size, self.sigma = 0, 0.0
            if not self.zero_in:
                squares = self.C * self.G.diagonal()[used]
                positive = squares[squares > 0.0]
                self.sigma = float(positive.mean()) if len(positive) else 1.0
            if self._factor_at_once(used) or not any(self._enter(int(j)) for j in used):
                return
            self.zero_in = False

    def _factor_at_once(self, planes: Array) -> bool:
        """False where a plane depends on those before it."""
        M = self.C * self.G[np.ix_(planes, planes)] + self.sigma
        L, failed = dpotrf(M, lower=1, clean=1)
        least = DEPENDENT * np.arange(1.0, len(planes) + 1.0) * M.diagonal()
        if failed or not (np.square(L.diagonal()) > least).all():
            return False
        self.size = len(planes)
        self.planes[: self.size] = planes
        self.L[: self.size, : self.size] = L
        return True

    def _enter(self, j: int) -> bool:
        """Add plane j, moving weight along dependencies first where there are any.

        Returns whether that emptied the zero plane. A plane whose own weight the move empties stays out.
        """
        diagonal = self.C * float(self.G[j, j]) + self.sigma
        while True:
            u = np.zeros(0)
            if self.size:
                u = dtrtrs(self.factor, self.C * self.G[j, self.inside] + self.sigma, lower=1)[0]
            rest = diagonal - float(u @ u)
            if rest > DEPENDENT * (self.size + 1) * diagonal:
                self.L[self.size, : self.size] = u
                self.L[self.size, self.size] = math.sqrt(rest)
                self.planes[self.size] = j
                self.size += 1
                return False
            if self.size:
                u = dtrtrs(self.factor, u, lower=1, trans=1)[0]
            members, direction = np.append(self.inside, j), np.append(-u, 1.0)
            if not float(self.b[members] @ direction) > 0.0:
                direction = -direction  # plane j gives its weight away
            blocking = self._move(members, direction, math.inf)
            if blocking == SLACK:
                return True
            if blocking == FREE or blocking == self.size:
                return False
            self._remove(blocking)

    def _remove(self, k: int) -> None:
        """Take row k out of the factor: an orthogonal factorisation restores the triangle below it."""
        size = self.size - 1
        rows = self.L[k + 1 : size + 1, : size + 1].copy()
        self.planes[k:size] = self.planes[k + 1 : size + 1].copy()
        self.size = size
        if k == size:
            return
        self.L[k:size, :k] = rows[:, :k]
        self.L[k:size, k:size] = np.tril(dgeqrf(rows[:, k:].T)[0][: size - k].T)

    def _target(self) -> Array:
        """The maximiser of φ over the active set without signs."""
        right = np.ones((self.size, 1 if self.zero_in else 2), order="F")
        right[:, 0] = self.b[self.inside]
        right = dpotrs(self.factor, right, lower=1)[0]
        if self.zero_in:
            return np.asarray(right[:, 0])
        have, per = right.sum(axis=0)
        return np.asarray(right[:, 0] + (1.0 - have) / per * right[:, 1])

    def _move(self, members: Array, direction: Array, longest: float) -> int:
        """Step along ``direction``, at most ``longest``, until a weight is zero.

        Returns the position among ``members`` of the plane that is empty now, or SLACK, or FREE. Where nothing limits
        the step, there is none.
        """
        held = self.alpha[members]
        limits = np.where(direction < 0.0, held, math.inf) / np.abs(direction)
        blocking = int(limits.argmin())
        step = float(limits[blocking])
        if not step < longest:
            step, blocking = longest, FREE
        total = float(direction.sum())
        if self.zero_in and total > 0.0 and self.slack / total < step:
            step, blocking = self.slack / total, SLACK
        if not step < math.inf:
            return FREE
        held = np.maximum(held + step * direction, 0.0)
        if blocking >= 0:
            held[blocking] = 0.0
        self.alpha[members] = held
        self.slack = max(0.0, self.slack - step * total) if self.zero_in and blocking != SLACK else 0.0
        return blocking


# -- the line search ---------------------------------------------------------------------------------------------------


def lowest_on_line(
    heights: Array, slopes: Array, C: float, linear: float, square: float, longest: float
) -> tuple[float, float]:
    """(t, value) at the minimum of linear·t + square·t²/2 + C·max(0, max_i heights_i + slopes_i·t), 0 ≤ t ≤ longest.

    Halving by the sign of the derivative, which grows with t: four times at once while there are many lines, of which
    those that are highest nowhere in the interval are then left out. Going from kink to kink takes fewer steps, but
    rounding misleads it near t = 0, where all heights almost agree.
    """
    low, high, halvings = 0.0, longest, 0
    ends = _values_on_line(heights, slopes, C, linear, square, np.array([longest]))
    while len(heights) > FEW_LINES and halvings < 12:
        t = low + (high - low) * CUTS
        at = np.multiply.outer(t, slopes) + heights
        i = at.argmax(axis=1)
        rising = linear + square * t + C * np.where(at[np.arange(len(t)), i] > 0.0, slopes[i], 0.0) > 0.0
        first = int(rising.argmax()) if rising.any() else len(t)
        low, high = float(t[first - 1]) if first > 0 else low, float(t[first]) if first < len(t) else high
        halvings += 4
        at_low, at_high = heights + slopes * low, heights + slopes * high
        one, other = int(at_low.argmax()), int(at_high.argmax())
        kept = (at_high > at_high[one]) & (at_low > at_low[other])
        kept[[one, other]] = True
        heights, slopes = heights[kept], slopes[kept]
    lines = list(zip(heights.tolist(), slopes.tolist(), strict=True))
    while halvings < MOST_HALVINGS and high - low > 1e-15 * high:
        halvings += 1
        middle = 0.5 * (low + high)
        top, slope = 0.0, 0.0
        for height, steep in lines:
            if height + steep * middle > top:
                top, slope = height + steep * middle, steep
        if linear + square * middle + C * slope > 0.0:
            high = middle
        else:
            low = middle
    middle = 0.5 * (low + high)
    value = float(_values_on_line(heights, slopes, C, linear, square, np.array([middle]))[0])
    return (middle, value) if value <= ends[0] else (longest, float(ends[0]))


def _values_on_line(heights: Array, slopes: Array, C: float, linear: float, square: float, t: Array) -> Array:
    top = np.maximum((np.multiply.outer(t, slopes) + heights).max(axis=1), 0.0)
    return np.asarray(linear * t + 0.5 * square * t * t + C * top)
