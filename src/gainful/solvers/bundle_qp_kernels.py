"""Compiled active-set method for the small dual problem of the bundle solver.

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

The compiler's cache looks at this file only, so every helper of an entry point lives here.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"

from __future__ import annotations

import numpy as np
from numba import njit

DEPENDENT = 1e-13  # a pivot this small beside its diagonal is rounding
ZERO_PLANE = -1  # in place of the number of a plane


@njit(cache=True, nogil=True)
def solve_simplex_qp(G, b, C, alpha, tol, max_changes, max_pairs):
    """Improve ``alpha`` in place; returns (gap of φ reached, changes of the active set, pairwise steps).

    Stops at a gap of at most ``tol`` (absolute, in units of b), or when rounding forbids further ascent.
    """
    n = b.shape[0]
    _make_feasible(alpha)
    best = alpha.copy()
    p = np.empty(n)
    gap = _gap(G, b, C, alpha, p)
    best_gap = gap
    changes, pairs = 0, 0
    if gap > tol:
        changes = _active_set(G, b, C, alpha, tol, max_changes)
        _make_feasible(alpha)
        gap = _gap(G, b, C, alpha, p)
        if _value(G, b, C, alpha) < _value(G, b, C, best):
            alpha[:] = best
            gap = best_gap
    if gap > tol:
        gap, pairs = _pairwise(G, b, C, alpha, tol, max_pairs)
    return gap, changes, pairs


@njit(cache=True, nogil=True)
def _make_feasible(alpha):
    total = 0.0
    for i in range(alpha.shape[0]):
        if not alpha[i] > 0.0:  # also not-a-number
            alpha[i] = 0.0
        total += alpha[i]
    if total > 1.0:
        for i in range(alpha.shape[0]):
            alpha[i] /= total


@njit(cache=True, nogil=True)
def _planes(G, b, C, alpha, p):
    """p = b − C·Gα, the height of every plane at the point that α stands for; G is symmetric."""
    n = b.shape[0]
    p[:] = b
    for i in range(n):
        if alpha[i] != 0.0:
            c = C * alpha[i]
            for j in range(n):
                p[j] -= c * G[i, j]


@njit(cache=True, nogil=True)
def _gap(G, b, C, alpha, p):
    _planes(G, b, C, alpha, p)
    top, mean = 0.0, 0.0
    for j in range(b.shape[0]):
        top = max(top, p[j])
        mean += alpha[j] * p[j]
    return top - mean


@njit(cache=True, nogil=True)
def _value(G, b, C, alpha):
    total = 0.0
    n = b.shape[0]
    for i in range(n):
        if alpha[i] != 0.0:
            row = 0.0
            for j in range(n):
                row += G[i, j] * alpha[j]
            total += alpha[i] * (b[i] - 0.5 * C * row)
    return total


# -- the factor --------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _append(L, inside, size, G, C, sigma, j, u):
    """Try to add plane j: u = L⁻¹ M_Sj and whether the pivot is more than rounding; then row ``size`` of L is set."""
    diagonal = C * G[j, j] + sigma
    rest = diagonal
    for r in range(size):
        t = C * G[inside[r], j] + sigma
        for c in range(r):
            t -= L[r, c] * u[c]
        u[r] = t / L[r, r]
        rest -= u[r] * u[r]
    if not rest > DEPENDENT * (size + 1) * diagonal:
        return False
    for c in range(size):
        L[size, c] = u[c]
    L[size, size] = np.sqrt(rest)
    inside[size] = j
    return True


@njit(cache=True, nogil=True)
def _remove(L, inside, size, k):
    """Take row k out of the factor: rotations restore the triangle."""
    for r in range(k, size - 1):
        inside[r] = inside[r + 1]
        for c in range(r + 2):
            L[r, c] = L[r + 1, c]
    size -= 1
    for r in range(k, size):
        x, y = L[r, r], L[r, r + 1]
        norm = np.hypot(x, y)
        cosine, sine = x / norm, y / norm
        L[r, r] = norm
        L[r, r + 1] = 0.0
        for i in range(r + 1, size):
            x, y = L[i, r], L[i, r + 1]
            L[i, r] = cosine * x + sine * y
            L[i, r + 1] = cosine * y - sine * x
    return size


@njit(cache=True, nogil=True)
def _back(L, size, u):
    """Overwrite u by L'⁻¹ u."""
    for r in range(size - 1, -1, -1):
        t = u[r] / L[r, r]
        u[r] = t
        for c in range(r):
            u[c] -= L[r, c] * t


@njit(cache=True, nogil=True)
def _solve(L, size, u):
    """Overwrite u by M⁻¹ u."""
    for r in range(size):
        t = u[r]
        for c in range(r):
            t -= L[r, c] * u[c]
        u[r] = t / L[r, r]
    _back(L, size, u)


# -- the active set ----------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _sigma(G, C, alpha):
    """The size of the diagonal over the planes in use."""
    total, count = 0.0, 0
    for i in range(alpha.shape[0]):
        if alpha[i] > 0.0 and G[i, i] > 0.0:
            total += C * G[i, i]
            count += 1
    return total / count if count > 0 and total > 0.0 else 1.0


@njit(cache=True, nogil=True)
def _move(alpha, inside, size, direction, extra, slack, longest, zero_in):
    """Step along ``direction`` (and +1 for plane ``extra`` where ≥ 0), at most ``longest``, until a weight is zero.

    Returns (position in the active set that is empty, ``size`` for the zero plane, −1 for none; slack afterwards).
    """
    step, blocking, total = longest, -1, 1.0 if extra >= 0 else 0.0
    for r in range(size):
        total += direction[r]
        if direction[r] < 0.0:
            limit = alpha[inside[r]] / -direction[r]
            if limit < step:
                step, blocking = limit, r
    if zero_in and total > 0.0 and slack / total < step:
        step, blocking = max(slack, 0.0) / total, size
    if not step < np.inf:
        return -2, slack
    for r in range(size):
        i = inside[r]
        alpha[i] = max(0.0, alpha[i] + step * direction[r])
    if extra >= 0:
        alpha[extra] += step
    if 0 <= blocking < size:
        alpha[inside[blocking]] = 0.0
    slack = max(0.0, slack - step * total) if zero_in else 0.0
    return blocking, (0.0 if blocking == size else slack)


@njit(cache=True, nogil=True)
def _enter(L, inside, size, G, C, sigma, alpha, j, slack, zero_in, b, u):
    """Add plane j, moving weight along dependencies first where there are any.

    Returns (size, slack, whether the zero plane has just been emptied). A plane whose own weight the move empties stays
    out.
    """
    while not _append(L, inside, size, G, C, sigma, j, u):
        _back(L, size, u)
        slope, total = b[j], 1.0
        for r in range(size):
            u[r] = -u[r]
            slope += b[inside[r]] * u[r]
            total += u[r]
        if slope > 0.0:
            blocking, slack = _move(alpha, inside, size, u, j, slack, np.inf, zero_in)
        else:
            # The other way round: plane j gives its weight away.
            for r in range(size):
                u[r] = -u[r]
            held = alpha[j]
            step, blocking = held, -1
            for r in range(size):
                if u[r] < 0.0 and alpha[inside[r]] / -u[r] < step:
                    step, blocking = alpha[inside[r]] / -u[r], r
            if zero_in and -total > 0.0 and slack / -total < step:
                step, blocking = slack / -total, size
            for r in range(size):
                alpha[inside[r]] = max(0.0, alpha[inside[r]] + step * u[r])
            alpha[j] = held - step if blocking >= 0 else 0.0
            if 0 <= blocking < size:
                alpha[inside[blocking]] = 0.0
            if zero_in:
                slack = max(0.0, slack + step * total)
            if blocking == -1:
                return size, slack, False
        if blocking == size:
            return size, 0.0, True
        if blocking < 0:
            return size, slack, False
        size = _remove(L, inside, size, blocking)
    return size + 1, slack, False


@njit(cache=True, nogil=True)
def _factor(L, inside, G, C, alpha, slack, zero_in, b, u):
    """Factor the planes in use from scratch: (size, slack, σ, whether the zero plane is in)."""
    while True:
        sigma = 0.0 if zero_in else _sigma(G, C, alpha)
        size = 0
        emptied = False
        for j in range(alpha.shape[0]):
            if alpha[j] > 0.0:
                size, slack, emptied = _enter(L, inside, size, G, C, sigma, alpha, j, slack, zero_in, b, u)
                if emptied:
                    break
        if not emptied:
            return size, slack, sigma, zero_in
        zero_in = False


@njit(cache=True, nogil=True)
def _target(L, inside, size, b, zero_in, u, e):
    """u: the maximiser of φ over the active set without signs."""
    for r in range(size):
        u[r] = b[inside[r]]
    _solve(L, size, u)
    if zero_in:
        return
    for r in range(size):
        e[r] = 1.0
    _solve(L, size, e)
    have, per = 0.0, 0.0
    for r in range(size):
        have += u[r]
        per += e[r]
    kappa = (1.0 - have) / per
    for r in range(size):
        u[r] += kappa * e[r]


@njit(cache=True, nogil=True)
def _active_set(G, b, C, alpha, tol, max_changes):
    n = b.shape[0]
    L = np.zeros((n + 1, n + 1))
    inside = np.empty(n + 1, dtype=np.int64)
    u, e, p = np.empty(n + 1), np.empty(n + 1), np.empty(n)
    slack = max(0.0, 1.0 - alpha.sum())
    zero_in = slack > 1e-12
    size, sigma, stale = 0, 0.0, True
    highest, idle = -np.inf, 0
    for change in range(max_changes):
        if stale:
            size, slack, sigma, zero_in = _factor(L, inside, G, C, alpha, slack, zero_in, b, u)
            stale = False
        if size > 0:
            _target(L, inside, size, b, zero_in, u, e)
            for r in range(size):
                u[r] -= alpha[inside[r]]
            blocking, slack = _move(alpha, inside, size, u, ZERO_PLANE, slack, 1.0, zero_in)
            if blocking == size:
                zero_in, stale = False, True
                continue
            if blocking >= 0:
                size = _remove(L, inside, size, blocking)
                continue
        gap = _gap(G, b, C, alpha, p)
        if not gap > tol:
            return change
        value = _value(G, b, C, alpha)
        idle = 0 if value > highest else idle + 1
        highest = max(highest, value)
        if idle > 3:
            return change
        level = 0.0
        for r in range(size):
            if not zero_in:
                level += alpha[inside[r]] * p[inside[r]]
            p[inside[r]] = -np.inf
        entering, top = ZERO_PLANE, -np.inf if zero_in else 0.0
        for j in range(n):
            if p[j] > top:
                entering, top = j, p[j]
        if not top > level:
            return change  # what gap is left lies within the active set: rounding
        if entering == ZERO_PLANE:
            zero_in, slack, stale = True, 0.0, True
            continue
        size, slack, emptied = _enter(L, inside, size, G, C, sigma, alpha, entering, slack, zero_in, b, u)
        if emptied:
            zero_in, stale = False, True
    return max_changes


@njit(cache=True, nogil=True)
def _pairwise(G, b, C, alpha, tol, max_pairs):
    """Exact steps that move weight from the worst plane in use to the best plane, the zero plane among them."""
    n = b.shape[0]
    p = np.empty(n)
    slack = max(0.0, 1.0 - alpha.sum())
    gap = _gap(G, b, C, alpha, p)
    for step in range(max_pairs):
        up, down = ZERO_PLANE, ZERO_PLANE
        top, low = 0.0, 0.0 if slack > 0.0 else np.inf
        mean = 0.0
        for j in range(n):
            mean += alpha[j] * p[j]
            if p[j] > top:
                up, top = j, p[j]
            if alpha[j] > 0.0 and p[j] < low:
                down, low = j, p[j]
        gap = top - mean
        if not (gap > tol and top > low):
            return gap, step
        curvature = 0.0
        if up >= 0:
            curvature += G[up, up]
        if down >= 0:
            curvature += G[down, down]
            if up >= 0:
                curvature -= 2.0 * G[up, down]
        held = alpha[down] if down >= 0 else slack
        move = held
        if curvature > 0.0 and (top - low) < held * C * curvature:
            move = (top - low) / (C * curvature)
        if not move > 0.0:
            return gap, step
        if up >= 0:
            alpha[up] += move
            for j in range(n):
                p[j] -= C * move * G[up, j]
        else:
            slack += move
        if down >= 0:
            alpha[down] = 0.0 if move == held else alpha[down] - move
            for j in range(n):
                p[j] += C * move * G[down, j]
        else:
            slack = 0.0 if move == held else slack - move
        if step % 1000 == 999:
            gap = _gap(G, b, C, alpha, p)
    return _gap(G, b, C, alpha, p), max_pairs


# -- the line search ---------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def lowest_on_line(heights, slopes, C, linear, square, longest):
    """(t, value) at the minimum of linear·t + square·t²/2 + C·max(0, max_i heights_i + slopes_i·t), 0 ≤ t ≤ longest.

    Bisection on the sign of the derivative, which grows with t.
    """
    low, high = 0.0, longest
    for _ in range(100):
        t = 0.5 * (low + high)
        slope = _top_line(heights, slopes, t)[1]
        if linear + square * t + C * slope > 0.0:
            high = t
        else:
            low = t
        if high - low <= 1e-15 * high:
            break
    t = 0.5 * (low + high)
    value_high = linear * longest + 0.5 * square * longest * longest + C * _top_line(heights, slopes, longest)[0]
    value = linear * t + 0.5 * square * t * t + C * _top_line(heights, slopes, t)[0]
    if value_high < value:
        return longest, value_high
    return t, value


@njit(cache=True, nogil=True)
def _top_line(heights, slopes, t):
    top, slope = 0.0, 0.0
    for i in range(heights.shape[0]):
        h = heights[i] + slopes[i] * t
        if h > top:
            top, slope = h, slopes[i]
    return top, slope
