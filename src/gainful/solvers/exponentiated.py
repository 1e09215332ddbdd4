"""Stochastic exponentiated gradient in the dual of the worst pair's loss (Agarwal and Collins 2010, section 3.2).

The variables of a query are a distribution over its pairs and one "no pair": α_0 + Σ α_jk = 1, with
w = C Σ_q ω_q Σ α_jk (x_j − x_k). A random query takes the step α_jk ← α_jk exp(η0 (t_k − t_j))/Z, where t are the
levels. From a uniform start that is α_jk ∝ exp(z_k − z_j) with z = η0 Σ t over the query's steps: n numbers represent
n² variables, and sums over them come from running sums over the documents, preferred ones first: O(n) per step.
"""

from __future__ import annotations

from typing import Unpack

import numpy as np

from gainful.data.rows import Array
from gainful.solvers.certificate import Solution
from gainful.solvers.stochastic_dual import AscentOptions, PairDual, ascend, some_queries


def minimize_exponentiated(
    risk: PairDual,
    C: float,
    *,
    learning_rate: float | None = None,
    seed: int = 0,
    **run: Unpack[AscentOptions],
) -> Solution:
    """Minimise ½‖w‖² + C Σ_q ω_q max_(j,k) [t_k − t_j]_+ in the dual.

    Parameters
    ----------
    learning_rate : η0, the same for all steps; by default the reciprocal of the largest C ω_q ‖x_j − x_k‖² in a sample
        of queries
    run : see :class:`~gainful.solvers.stochastic_dual.AscentOptions`
    """
    if learning_rate is None:
        curvature = C * largest_pair(risk, seed)
        learning_rate = 1.0 / curvature if curvature > 0 else 1.0
    rule = ExponentiatedRule(risk, C, learning_rate)
    return ascend("minimize_exponentiated", risk, C, rule, seed=seed, **run)


class ExponentiatedRule:
    """The distribution of every query, as one number z per document."""

    def __init__(self, risk: PairDual, C: float, learning_rate: float):
        self.risk, self.learning_rate, self.limits = risk, learning_rate, C * risk.weights
        self.z = np.zeros(risk.n_rows)

    def start(self, q: int) -> Array:
        return self._sums(q)

    def step(self, q: int, t: Array, number: int) -> Array:
        lo, hi = self.risk.places(q)
        self.z[lo:hi] += self.learning_rate * (t - t[0])  # only differences count
        return self._sums(q)

    def _sums(self, q: int) -> Array:
        from gainful.solvers.exponentiated_kernels import marginals

        lo, hi = self.risk.places(q)
        c = np.empty(hi - lo)
        marginals(self.z[lo:hi], self.risk.preferred_counts(q), c)
        c *= self.limits[q]
        return c


def largest_pair(risk: PairDual, seed: int) -> float:
    """A bound of the largest ω_q ‖x_j − x_k‖² in a sample of queries."""
    queries = some_queries(risk, np.random.default_rng(seed))
    return max((float(risk.weights[q]) * risk.widest_pair(int(q)) for q in queries), default=0.0)
