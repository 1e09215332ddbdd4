"""RankMM's losses as double loops, and its minimum from a general solver on small problems."""

from __future__ import annotations

import numpy as np
from scipy.optimize import LinearConstraint, minimize


def pairs_of(grades):
    n = len(grades)
    return [(j, k) for j in range(n) for k in range(n) if grades[j] > grades[k]]


def plain_loss(loss, scores, grades):
    hinge = {(j, k): max(0.0, (grades[j] - grades[k]) - (scores[j] - scores[k])) for j, k in pairs_of(grades)}
    if not hinge:
        return 0.0
    if loss == "average":
        return sum(hinge.values()) / len(hinge)
    if loss == "maximum":
        return max(hinge.values())
    below = {k for _, k in hinge}
    return max(np.mean([value for (_, other), value in hinge.items() if other == k]) for k in below)


def plain_objective(loss, w, data, C):
    weights = np.ones(data.n_queries) if data.query_weights is None else data.query_weights
    total = 0.0
    for q in range(data.n_queries):
        rows = slice(data.offsets[q], data.offsets[q + 1])
        total += weights[q] / weights.sum() * plain_loss(loss, data.X[rows] @ w, data.y[rows])
    return 0.5 * w @ w + C * total


def plain_minimum(loss, data, C):
    """min over (w, ξ) with one ξ for each pair and one for each query, every ξ bounded by linear constraints."""
    d, m = data.n_features, data.n_queries
    pairs = [(q, *p) for q in range(m) for p in pairs_of(data.y[data.offsets[q] : data.offsets[q + 1]])]
    size, A, low = d + len(pairs) + m, [], []

    def constraint(entries, bound):
        row = np.zeros(size)
        for place, value in entries:
            row[place] += value
        A.append(row)
        low.append(bound)

    for p, (q, j, k) in enumerate(pairs):
        x = data.X[data.offsets[q] + j] - data.X[data.offsets[q] + k]
        margin = data.y[data.offsets[q] + j] - data.y[data.offsets[q] + k]
        constraint([*enumerate(x), (d + p, 1.0)], margin)  # ξ_jk ≥ margin − w·x
        constraint([(d + p, 1.0)], 0.0)
    for q in range(m):
        mine = [p for p, (other, _, _) in enumerate(pairs) if other == q]
        groups = {"average": [mine], "maximum": [[p] for p in mine]}.get(loss)
        if groups is None:
            groups = [[p for p in mine if pairs[p][2] == k] for k in {pairs[p][2] for p in mine}]
        constraint([(d + len(pairs) + q, 1.0)], 0.0)
        for group in groups:
            if group:
                constraint([(d + len(pairs) + q, 1.0)] + [(d + p, -1.0 / len(group)) for p in group], 0.0)
    cost = np.concatenate([np.zeros(d + len(pairs)), np.full(m, C / m)])
    start = np.concatenate([np.zeros(d), np.full(len(pairs) + m, 4.0)])
    found = minimize(
        lambda v: 0.5 * v[:d] @ v[:d] + cost @ v,
        start,
        jac=lambda v: np.concatenate([v[:d], np.zeros(size - d)]) + cost,
        constraints=LinearConstraint(np.array(A), np.array(low), np.inf),
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-14},
    )
    return plain_objective(loss, found.x[:d], data, C)
