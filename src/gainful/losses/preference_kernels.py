"""Compiled losses on given pairs of documents, for a run of queries.

``better`` and ``worse`` are rows of all queries; query q has the pairs ``starts[q]`` to ``starts[q + 1] − 1``. Entry 0
of ``t``, the scores, and of ``g`` and ``h``, gradient and curvature, is the first row of query ``first``; ``g`` and
``h`` start at 0. ``weight`` are the weights of the pairs.
"""
# mypy: ignore-errors

from __future__ import annotations

import math

from gainful.compute.compiled import helper, kernel

REACH = 600.0  # scores further apart than this count as this far: exp stays finite
HINGE, SQUARED_HINGE, LOGISTIC, HUBER, EXPONENTIAL = 0, 1, 2, 3, 4


@kernel
def over_pairs(kind, sigma, t, better, worse, weight, starts, offsets, first, last, values, g, h):
    """Σ weight · cost(t_better − t_worse) of each query, its gradient and the diagonal of its Hessian."""
    base = offsets[first]
    for q in range(first, last):
        value = 0.0
        for p in range(starts[q], starts[q + 1]):
            i, j = better[p] - base, worse[p] - base
            cost, slope, bend = _cost(kind, sigma, t[i] - t[j])
            value += weight[p] * cost
            pull, bow = weight[p] * slope, weight[p] * bend
            g[i] += pull
            g[j] -= pull
            h[i] += bow
            h[j] += bow
        values[q] = value


@helper
def _cost(kind, sigma, d):
    """The cost of a pair whose better document leads by d, and its first two derivatives by d."""
    if kind == LOGISTIC:
        x = sigma * d
        small = math.exp(-abs(x))
        slope = (small if x > 0.0 else 1.0) / (1.0 + small)
        return (
            math.log1p(small) + (0.0 if x > 0.0 else -x),
            -sigma * slope,
            sigma * sigma * small / ((1.0 + small) * (1.0 + small)),
        )
    if kind == EXPONENTIAL:
        cost = math.exp(-d if -d < REACH else REACH)
        return cost, -cost, cost
    short = 1.0 - d
    if short <= 0.0:
        return 0.0, 0.0, 0.0
    if kind == HINGE:
        return short, -1.0, 0.0
    if kind == HUBER and d < -1.0:
        return -4.0 * d, -4.0, 0.0
    return short * short, -2.0 * short, 2.0
