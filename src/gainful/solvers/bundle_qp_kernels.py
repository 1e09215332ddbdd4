"""Compiled pairwise steps of the bundle's quadratic programme, for problems where its factor loses too many digits."""
# mypy: ignore-errors

from __future__ import annotations

from gainful.compute.compiled import kernel


@kernel
def ascend_by_pairs(G, p, C, alpha, tol, max_pairs):
    """Exact steps that move weight from the worst plane in use to the best one, the zero plane (``n``) among them.

    ``p`` = b − C·Gα and ``alpha`` are updated. Returns the number of steps.
    """
    n = len(p)
    slack = 1.0
    for j in range(n):
        slack -= alpha[j]
    slack = slack if slack > 0.0 else 0.0
    for step in range(max_pairs):
        up, best, down, worst, level = n, 0.0, n, 0.0 if slack > 0.0 else 1e308, 0.0
        for j in range(n):
            level += alpha[j] * p[j]
            if p[j] > best:
                up, best = j, p[j]
            if alpha[j] > 0.0 and p[j] < worst:
                down, worst = j, p[j]
        if not (best - level > tol and best > worst):
            return step
        curvature = 0.0
        if up < n:
            curvature += G[up, up]
        if down < n:
            curvature += G[down, down]
        if up < n and down < n:
            curvature -= 2.0 * G[up, down]
        held = alpha[down] if down < n else slack
        move = held
        if curvature > 0.0 and best - worst < held * C * curvature:
            move = (best - worst) / (C * curvature)
        if not move > 0.0:
            return step
        if up < n:
            alpha[up] += move
        else:
            slack += move
        left = 0.0 if move == held else held - move
        if down < n:
            alpha[down] = left
        else:
            slack = left
        for j in range(n):
            change = 0.0
            if up < n:
                change += G[up, j]
            if down < n:
                change -= G[down, j]
            p[j] -= C * move * change
    return max_pairs
