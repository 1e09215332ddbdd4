"""Active-set method for the small dual problem of the bundle solver, and its line search.

    maximise  φ(α) = b·α − (C/2) α'Gα    over  α ≥ 0, Σ α = 1

G is the Gram matrix of the planes. The *last* plane is the zero plane (the risk is never negative): its row of G and
its entry of b are 0, and it takes the remaining weight.

The maximum over the planes of the *active set*, signs aside, is one Cholesky factorisation of C·G + σee' over the set.
Adding σee' changes nothing where Σ α = 1, and removes the one dependency that more planes than dimensions must have. A
plane that depends on those before it (a duplicate, a zero gradient, more planes than features) stops the factorisation:
weight moves along the dependency, which changes only the linear part of φ, until some plane has no weight and leaves
the set. Optimality is measured by the exact gap of the problem, max_j p_j − α·p with p = b − C·Gα, so an inaccurate
factor does no harm: exact pairwise steps finish what it cannot.

The problems are small (tens of planes in use) and a good start needs few changes, so this is NumPy and LAPACK, and
every change factors from scratch: compiling it took longer than most fits. Only the pairwise steps are compiled, on the
first problem hard enough to need them.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from gainful.data.rows import Array

DEPENDENT = 1e-13  # a pivot this small relative to its diagonal is rounding
PATIENCE = 3  # maximum planes that enter without ascent
SETTLED = 1e-3  # of the gap: if the heights of the planes in use differ by less, the set is not the problem
MOST_STEPS = 100  # of a line search
AGREE = 1e-12  # relative difference of heights that rounding may cause


def solve_simplex_qp(
    G: Array, b: Array, C: float, alpha: Array, tol: float, max_changes: int, max_pairs: int
) -> tuple[float, int, int]:
    """Improve ``alpha`` in place; returns (gap of φ reached, changes of the active set, pairwise steps).

    Stops at a gap of at most ``tol`` (absolute, in units of b), or when rounding prevents further ascent.
    """
    _make_feasible(alpha)
    p, gap, value = _heights_and_gap(G, b, C, alpha)
    if not gap > tol:
        return gap, 0, 0
    start, first = alpha.copy(), (gap, value)
    with np.errstate(all="ignore"):  # an inaccurate factor may overflow: the check of the value catches that
        gap, value, changes = _ascend(G, b, C, alpha, p, gap, tol, max_changes)
    if not value >= first[1]:
        alpha[:], gap = start, first[0]
    if not gap > tol:
        return gap, changes, 0
    from gainful.solvers.bundle_qp_kernels import ascend_by_pairs

    p, planes = _heights_and_gap(G, b, C, alpha)[0], slice(len(b) - 1)
    pairs = ascend_by_pairs(np.ascontiguousarray(G[planes, planes]), p[planes], C, alpha[planes], tol, max_pairs)
    _make_feasible(alpha)
    return _heights_and_gap(G, b, C, alpha)[1], changes, pairs


def _make_feasible(alpha: Array) -> None:
    np.fmax(alpha, 0.0, out=alpha)  # NaN too
    total = float(alpha[:-1].sum())
    alpha[-1] = max(0.0, 1.0 - total)
    if total > 1.0:
        alpha /= total


def _heights_and_gap(G: Array, b: Array, C: float, alpha: Array) -> tuple[Array, float, float]:
    """p = b − C·Gα, the height of every plane at the point given by α; the gap; and 2φ."""
    p = G @ alpha
    p *= -C
    p += b
    level = float(alpha @ p)
    return p, float(p.max()) - level, level + float(alpha @ b)


def _ascend(
    G: Array, b: Array, C: float, alpha: Array, p: Array, gap: float, tol: float, max_changes: int
) -> tuple[float, float, int]:
    """Change the set until the gap is at most ``tol``; returns the gap, 2φ and the number of changes.

    ``p`` and ``gap`` are those of the start. If the start is the maximum over its set, as after adding a plane to a
    solved problem, the best plane enters at once.
    """
    squares = C * G.diagonal()
    inside = alpha.nonzero()[0]
    sigma = float(squares[inside].mean()) or float(squares.max()) or 1.0
    steepest = float(squares.max()) + sigma
    value, highest, idle, change = -math.inf, -math.inf, 0, 0
    settled = float(np.ptp(p[inside])) < SETTLED * gap
    while change < max_changes:
        if settled:
            level = float(p.max()) - gap
            p[inside] = -math.inf
            entering = int(p.argmax())
            if not p[entering] > level:
                break  # the remaining gap is rounding
            inside = np.concatenate((inside, [entering]))
        change += 1
        emptied = _move(G, b, C, sigma, steepest, inside, alpha)
        settled = emptied < 0
        if not settled:
            inside = np.concatenate((inside[:emptied], inside[emptied + 1 :]))
            if len(inside) == 0:
                break  # no digit of the weights is correct
            continue
        p, gap, value = _heights_and_gap(G, b, C, alpha)
        idle = 0 if value > highest else idle + 1
        highest = max(highest, value)
        if not gap > tol or idle > PATIENCE:
            break
    _make_feasible(alpha)
    if not settled or value == -math.inf:
        _, gap, value = _heights_and_gap(G, b, C, alpha)
    return gap, value, change


def _move(G: Array, b: Array, C: float, sigma: float, steepest: float, inside: Array, alpha: Array) -> int:
    """Move towards the maximum over the active set until a weight would fall below 0.

    Returns the position in the set of a plane that lost its weight and leaves the set, or −1. ``steepest`` is the
    largest entry on the diagonal of C·G + σee'.
    """
    M = G[inside[:, None], inside]
    M *= C
    M += sigma
    heights = b[inside]
    L, failed = dpotrf(M.T, lower=1, clean=0)  # M is symmetric; its transpose needs no copy
    pivots, rounding = L.diagonal(), DEPENDENT * len(inside)
    if failed or not float(pivots.min()) ** 2 > rounding * steepest:
        sound = np.square(pivots) > rounding * M.diagonal()
        if failed or not sound.all():
            return _move_along(L, M, heights, int(failed) - 1 if failed else int(sound.argmin()), inside, alpha)
    right = np.empty((2, len(inside)))
    right[0], right[1] = heights, 1.0
    of_heights, of_ones = dpotrs(L, right.T, lower=1, overwrite_b=1)[0].T
    target = of_heights + (1.0 - float(of_heights.sum())) / float(of_ones.sum()) * of_ones
    if float(target.min()) >= 0.0:
        alpha[inside] = target
        return -1
    held = alpha[inside]
    return _step(inside, held, target - held, alpha)


def _move_along(L: Array, M: Array, heights: Array, k: int, inside: Array, alpha: Array) -> int:
    """Move weight along the dependency of plane k of the set on those before it, uphill, until a plane is empty."""
    direction = np.zeros(len(inside))
    direction[k] = 1.0
    if k > 0:
        direction[:k] = -dpotrs(L[:k, :k], M[:k, k], lower=1)[0]
    if float(heights @ direction) < 0.0 or alpha[inside[k]] > 0.0 >= float(heights @ direction):
        direction = -direction  # plane k gives its weight away
    return _step(inside, alpha[inside], direction, alpha)


def _step(inside: Array, held: Array, direction: Array, alpha: Array) -> int:
    """Step until the first weight is 0; returns its position."""
    limits = np.where(direction < 0.0, held / -direction, math.inf)
    k = int(limits.argmin())
    if limits[k] < math.inf:
        held = np.fmax(held + limits[k] * direction, 0.0)
    held[k] = 0.0
    alpha[inside] = held
    return k


# -- the line search ---------------------------------------------------------------------------------------------------


def lowest_on_line(
    heights: Array, slopes: Array, C: float, linear: float, square: float, longest: float
) -> tuple[float, float]:
    """(t, value) at the minimum of linear·t + square·t²/2 + C·max(0, max_i heights_i + slopes_i·t), 0 ≤ t ≤ longest.

    An interval shrinks around the minimum, by the sign of the derivative. The next t is where the highest lines at its
    two ends have their minimum; if no other line is higher there, the search ends. Near t = 0, where all heights almost
    agree, the steepest of the highest lines counts. If rounding still puts t outside the interval, take its middle.
    """

    def highest(t: float) -> tuple[float, float]:
        """The height and the slope of the highest line at t."""
        at = heights + slopes * t
        i = int(at.argmax())
        return (float(at[i]), float(slopes[i])) if at[i] > 0.0 else (0.0, 0.0)

    top, end_slope = highest(longest)
    low, high, end = 0.0, longest, top
    at_end = linear * longest + 0.5 * square * longest * longest + C * top
    if linear + square * longest + C * end_slope <= 0.0:
        return longest, at_end
    begin = max(0.0, float(heights.max()))
    begin_slope = float(slopes[heights >= begin * (1.0 - AGREE)].max(initial=-math.inf if begin > 0.0 else 0.0))
    if linear + C * begin_slope >= 0.0:
        return 0.0, C * begin
    t, value = longest, at_end
    for step in range(MOST_STEPS):
        # minima of both parabolas, and where their lines cross
        from_low = -(linear + C * begin_slope) / square if square > 0.0 else math.inf
        from_high = -(linear + C * end_slope) / square if square > 0.0 else -math.inf
        steeper = end_slope - begin_slope
        crossing = (begin - begin_slope * low - end + end_slope * high) / steeper if steeper > 0.0 else math.inf
        t = min(from_low, max(crossing, from_high))
        halve = step % 4 == 3 or not low < t < high
        t = 0.5 * (low + high) if halve else t
        model = max(begin + begin_slope * (t - low), end + end_slope * (t - high))
        top, slope = highest(t)
        value = linear * t + 0.5 * square * t * t + C * top
        if linear + square * t + C * slope > 0.0:
            high, end, end_slope = t, top, slope
        else:
            low, begin, begin_slope = t, top, slope
        if (top <= model and not halve) or high - low <= 1e-15 * high:
            break
    return (t, value) if value <= at_end else (longest, at_end)
