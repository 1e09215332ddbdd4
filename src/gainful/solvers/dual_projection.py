"""Stochastic gradient projection in the dual of a loss over pairs (Agarwal and Collins 2010, sections 3.1 and 3.3).

A random query takes the step α ← P(α + (η0/√t)·∇) on its pairs' variables, and P projects onto

- *box*, for the mean over pairs: 0 ≤ α_jk ≤ C ω_q/|R_q|, with w = Σ α_jk (x_j − x_k);
- *ball*, for the largest mean over the documents preferred to a document: 0 ≤ α_jk ≤ γ_k, Σ_k γ_k ≤ C ω_q, with
  w = Σ α_jk (x_j − x_k)/|P_k|: the non-negative part of an l1,∞ ball (:func:`project_nonnegative_l1_inf`).

A query has one variable per pair, and those of all queries are far too many to store. They follow from the levels at
which the query took its steps, n numbers per step, so these are stored and the steps replayed when the query comes up
again. If the steps would take more memory than the pairs, the pairs are stored instead.
"""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from gainful.data.rows import Array
from gainful.errors import ParameterError
from gainful.solvers.certificate import Solution
from gainful.solvers.stochastic_dual import AscentOptions, PairDual, ascend, largest_curvature

CONSTRAINTS = ("box", "ball")


def minimize_dual_projection(
    risk: PairDual,
    C: float,
    *,
    constraint: str,
    learning_rate: float | None = None,
    seed: int = 0,
    **run: Unpack[AscentOptions],
) -> Solution:
    """Minimise ½‖w‖² + C Σ_q ω_q L_q(w), the mean of pair losses ("box") or the largest mean ("ball"), in the dual.

    Parameters
    ----------
    learning_rate : η0; by default the reciprocal of the largest curvature in a sample of queries
    run : see :class:`~gainful.solvers.stochastic_dual.AscentOptions`
    """
    if constraint not in CONSTRAINTS:
        expected = " or ".join(map(repr, CONSTRAINTS))
        raise ParameterError.of("minimize_dual_projection", "constraint", expected, constraint)
    if learning_rate is None:
        curvature = largest_curvature(risk, by_preferred=constraint == "ball", seed=seed)
        learning_rate = 1.0 / curvature if curvature > 0 else 1.0
    rule = ProjectionRule(risk, C, constraint, learning_rate)
    return ascend("minimize_dual_projection", risk, C, rule, seed=seed, **run)


class ProjectionRule:
    """The steps of every query. ``variables(q)`` gives α of one, (|R_q|,): of document k those with j < |P_k|."""

    def __init__(self, risk: PairDual, C: float, constraint: str, learning_rate: float):
        self.risk, self.learning_rate, self.ball = risk, learning_rate, constraint == "ball"
        size = C * risk.weights
        self.limits = size if self.ball else size / np.maximum(risk.n_pairs, 1)
        self.levels: dict[int, list[Array]] = {}
        self.rates: dict[int, list[float]] = {}
        self.alpha: dict[int, Array] = {}

    def start(self, q: int) -> Array:
        lo, hi = self.risk.places(q)
        return np.zeros(hi - lo)

    def step(self, q: int, t: Array, number: int) -> Array:
        levels, rates = self.levels.setdefault(q, []), self.rates.setdefault(q, [])
        levels.append(t)
        rates.append(self.learning_rate / np.sqrt(number))
        alpha, c = self._replay(q)
        if q in self.alpha or (len(rates) + 1) * len(t) > len(alpha):
            self.alpha[q] = alpha
            levels.clear()
            rates.clear()
        return c

    def variables(self, q: int) -> Array:
        return self._replay(q)[0]

    def _replay(self, q: int) -> tuple[Array, Array]:
        """α and c after the steps since α was last stored, or since the beginning."""
        from gainful.solvers import dual_projection_kernels as kernels

        kept = self.alpha.get(q)
        alpha = np.zeros(int(self.risk.n_pairs[q])) if kept is None else kept
        preferred, rates = self.risk.preferred_counts(q), np.array(self.rates.get(q, []))
        levels = np.array(self.levels.get(q, [])).reshape(len(rates), len(preferred))
        c = np.empty(len(preferred))
        take = kernels.ball_steps if self.ball else kernels.box_steps
        take(levels, rates, preferred, float(self.limits[q]), alpha, c)
        return alpha, c


def project_nonnegative_l1_inf(groups: Any, radius: float) -> list[Array]:
    """The nearest point, in Euclidean distance, of {v ≥ 0, Σ_k max_j v_jk ≤ radius} to these groups of numbers.

    Negatives are clipped first; the projection onto the l1,∞ ball then keeps the signs, so the result is in both
    sets and nearest. (Projecting onto the ball first and then clipping does not project onto the intersection.)

    >>> [v.tolist() for v in project_nonnegative_l1_inf([[3.0, 1.0], [2.0, -5.0]], 2.0)]
    [[1.5, 1.0], [0.5, 0.0]]
    """
    from gainful.solvers.dual_projection_kernels import project

    if not (np.isfinite(radius) and radius >= 0):
        raise ParameterError.of("project_nonnegative_l1_inf", "radius", "a number ≥ 0", radius)
    sizes = np.array([len(group) for group in groups], dtype=np.int32)
    values = np.concatenate([np.zeros(0), *(np.asarray(group, dtype=np.float64) for group in groups)])
    project(values, sizes, float(radius), np.empty(len(sizes)))
    return np.split(values, np.cumsum(sizes)[:-1])
