"""Regression-EM: propensities of positions, learned from clicks and features.

A click on row i in position k has probability θ_k g(x_i): the position is examined, and the document is relevant, a
logistic regression on its features. No document has to be seen in two positions, since its features tell what to expect
of it. (Wang, Golbandi, Bendersky, Metzler and Najork 2018, Position bias estimation for unbiased learning to rank in
personal search.)

Each step infers what an unclicked row was, unexamined or irrelevant; then it counts examinations for θ and moves the
regression towards the inferred relevances by a few steps of L-BFGS. Neither can lower the likelihood. Only products
θ g are seen, so θ of the first position is 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gainful.compute import query_loop
from gainful.compute.features import Features
from gainful.compute.threads import one_blas_thread
from gainful.data.dataset import Dataset, RankingData
from gainful.data.rows import Array, linear_scores
from gainful.linear.scaling import Scaling

PENALTY = 1.0  # on the squared weights of standardised features: one pseudo-click, next to nothing but stable
INNER_STEPS = 2  # of L-BFGS; more cost as much as further steps of EM and gain less
LEAST = 1e-6  # of a propensity, and of the distance of a relevance from 0 and 1


@dataclass(frozen=True)
class LearnedPropensities:
    """θ by position, from 1 on, relative to the first position; and the objective after each step, never falling."""

    propensities: Array
    objectives: tuple[float, ...]
    coef: Array
    intercept: float


def learn_propensities(data: Dataset, *, max_iter: int = 100, tol: float = 1e-6) -> LearnedPropensities:
    """Regression-EM on data with positions, whose grades are click rates in [0, 1] with impressions as weights."""
    scales = Scaling(data, "standard").scales
    first, last, rate = _positions(data)
    theta = np.ones(last + 1)
    theta[1:] = 1.0 / np.maximum(np.arange(1.0, last + 1.0) - first + 1.0, 1.0)  # a usual shape, to start from
    u, b = np.zeros(data.n_features), float(np.log(rate / (1.0 - rate)))
    objectives: list[float] = []
    for _ in range(max_iter):
        answers, relevant = data.source.map_both(_infer, data.source.data, u / scales, b, theta)
        value = sum(one[0] for one in answers) - 0.5 * PENALTY * float(u @ u)
        objectives.append(value)
        if len(objectives) > 1 and value - objectives[-2] <= tol * abs(value):
            break
        examined, shown = (sum(one[i] for one in answers) for i in (1, 2))
        theta = np.clip(np.divide(examined, shown, out=np.array(theta), where=shown > 0.0), LEAST, 1.0)
        theta[: first + 1] = 1.0
        u, b = _regress(data, relevant, scales, u, b)
    return LearnedPropensities(theta[1:], tuple(objectives), np.asarray(u / scales), b)


def _positions(data: Dataset) -> tuple[int, int, float]:
    """The first and last position shown, and the rate of clicks, away from 0 and 1."""
    found = data.map(_summary)
    clicks, shown = (sum(one[i] for one in found) for i in (2, 3))
    rate = min(max(clicks / max(shown, 1.0), LEAST), 1.0 - LEAST)
    return min(one[0] for one in found), max(one[1] for one in found), rate


def _regress(data: Dataset, relevant: Any, scales: Array, u: Array, b: float) -> tuple[Array, float]:
    """A few steps of logistic regression on the inferred relevances."""
    from scipy.optimize import minimize

    def objective(point: Array) -> tuple[float, Array]:
        v, shift = point[:-1], float(point[-1])
        parts = data.source.map(_cross_entropy, data.source.data, relevant, v / scales, shift)
        value = sum(one[0] for one in parts) + 0.5 * PENALTY * float(v @ v)
        slope = sum(one[1] for one in parts) / scales + PENALTY * v
        return value, np.append(slope, sum(one[2] for one in parts))

    with one_blas_thread():
        found = minimize(objective, np.append(u, b), jac=True, method="L-BFGS-B", options={"maxiter": INNER_STEPS})
    return found.x[:-1], float(found.x[-1])


# -- tasks -------------------------------------------------------------------------------------------------------------


def _impressions(data: RankingData) -> Array:
    """How often each row was shown."""
    assert data.positions is not None
    weights = np.ones(data.n_rows) if data.row_weights is None else data.row_weights
    return np.where(data.positions > 0, weights, 0.0)


def _summary(data: RankingData) -> tuple[int, int, float, float]:
    assert data.positions is not None
    seen, shown = data.positions[data.positions > 0], _impressions(data)
    first, last = (int(seen.min()), int(seen.max())) if len(seen) else (1 << 31, 0)
    return first, last, float(np.sum(shown * data.y)), float(shown.sum())


def _relevance(data: RankingData, w: Array, b: float) -> Array:
    z = linear_scores(data.X, w) + b
    return np.asarray(np.clip(1.0 / (1.0 + np.exp(-np.clip(z, -500.0, 500.0))), LEAST, 1.0 - LEAST))


def _infer(data: RankingData, w: Array, b: float, theta: Array) -> tuple[tuple[float, Array, Array], Array]:
    """Log-likelihood, examinations and impressions by position; and how often each row is expected to be relevant."""
    g, shown = _relevance(data, w, b), _impressions(data)
    assert data.positions is not None
    t = theta[data.positions]
    clicks = shown * data.y
    rest = shown - clicks
    missed = 1.0 - t * g
    likelihood = float(np.sum(clicks * np.log(t * g) + rest * np.log(missed)))  # BLAS would wait for its threads
    examined = clicks + rest * t * (1.0 - g) / missed
    relevant = clicks + rest * (1.0 - t) * g / missed
    by_position = [np.bincount(data.positions, one, minlength=len(theta)) for one in (examined, shown)]
    return (likelihood, *by_position), relevant  # type: ignore[return-value]


def _cross_entropy(data: RankingData, relevant: Array, w: Array, b: float) -> tuple[float, Array, float]:
    """−Σ relevant log g + irrelevant log(1 − g), its gradient by w and by b."""
    shown = _impressions(data)
    z = linear_scores(data.X, w) + b
    e = np.exp(-np.abs(z))
    value = float(np.sum(shown * (np.maximum(z, 0.0) + np.log1p(e)) - relevant * z))
    c = shown * np.where(z > 0.0, 1.0, e) / (1.0 + e) - relevant
    return value, query_loop.apply_gradient(Features(data.X), c), float(c.sum())
