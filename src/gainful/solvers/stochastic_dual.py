"""Stochastic ascent in the dual of a loss over pairs: the loop that all step rules share.

The primal is ½‖w‖² + C Σ_q ω_q L_q(w), where L_q is made of pair losses [t_k − t_j]_+ with levels t_i = w·x_i − g_i and
j preferred to k. Every dual point gives each pair a weight β_jk ≥ 0 and w = Σ β_jk (x_j − x_k); summed by document,
c_i = Σ_k β_ik − Σ_j β_ji, it is w = Σ_i c_i x_i, and the dual value is Σ_i c_i g_i − ½‖w‖². So the loop needs only
c: one number per document.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypedDict

import numpy as np

from gainful.data.rows import Array
from gainful.solvers.certificate import Certificate, NullMonitor, Solution, Watch, check_settings, warn_not_converged
from gainful.solvers.risk import Risk

SAMPLED = 30  # queries sampled to choose a step
POWER_STEPS = 8
STEPS_PER_QUERY = 20


class PairDual(Risk, Protocol):
    """A risk over pairs that can be evaluated query by query. Each query lists its preferred documents first."""

    @property
    def n_queries(self) -> int: ...

    @property
    def n_rows(self) -> int: ...

    @property
    def weights(self) -> Array:
        """ω_q, (n_queries,)."""
        ...

    def places(self, q: int) -> tuple[int, int]:
        """Start and end of the query's documents in arrays over all documents."""
        ...

    def preferred_counts(self, q: int) -> Array:
        """For each document, the number of documents preferred to it; these occupy the first places."""
        ...

    @property
    def n_pairs(self) -> Array:
        """(n_queries,)."""
        ...

    def levels(self, w: Array, q: int) -> Array:
        """The levels t of a query's documents at w."""
        ...

    def add_documents(self, q: int, c: Array, w: Array) -> None:
        """w += Σ_i c_i x_i over a query's documents."""
        ...

    def sum_of_documents(self, c: Array) -> Array:
        """Σ_i c_i x_i over all documents."""
        ...

    def widest_pair(self, q: int) -> float:
        """A bound of ‖x_j − x_k‖² within a query."""
        ...

    def sum_of_margins(self, c: Array) -> float:
        """Σ_i c_i g_i over all documents."""
        ...


class Rule(Protocol):
    """How one query's dual variables move."""

    def start(self, q: int) -> Array:
        """The c of a query before its first step, (n,)."""
        ...

    def step(self, q: int, t: Array, number: int) -> Array:
        """The c of the query after a step at levels t; ``number`` counts all steps from 1."""
        ...


class AscentOptions(TypedDict, total=False):
    """What :func:`ascend` takes besides a seed.

    n_steps : steps, one query each; by default 20 times the number of queries
    tol : relative gap at which to stop early
    on_round : called with the point and its certificate after every round of as many steps as queries
    """

    n_steps: int | None
    tol: float
    monitor: Watch | None
    on_round: Callable[[Array, Certificate], None] | None


def ascend(
    solver: str,
    risk: PairDual,
    C: float,
    rule: Rule,
    *,
    n_steps: int | None = None,
    tol: float = 1e-3,
    seed: int = 0,
    monitor: Watch | None = None,
    on_round: Callable[[Array, Certificate], None] | None = None,
) -> Solution:
    """Take steps at random queries, in rounds of as many steps as there are queries with pairs.

    After each round the primal value, the dual value and w are recomputed from c; ``on_round`` gets the point and its
    certificate, and so does the monitor. Returns the point of the last round, with the best lower bound.
    """
    check_settings(solver, C=C, tol=tol, max_iter=1)
    queries = np.flatnonzero((risk.n_pairs > 0) & (risk.weights > 0))
    run = _Ascent(risk, float(C), rule, queries, on_round)
    total = STEPS_PER_QUERY * max(1, len(queries)) if n_steps is None else n_steps
    interrupted = False
    with NullMonitor() if monitor is None else monitor as watch:
        interrupted = True  # unless the block ends normally
        interrupted = run.rounds(watch, total, tol, np.random.default_rng(seed))
    if run.certificate is None:
        raise KeyboardInterrupt  # nothing to return yet
    converged = run.certificate.relative_gap <= tol
    if not (converged or interrupted or n_steps is not None):
        warn_not_converged(solver, run.certificate, tol, f"after {total} steps")
    return Solution(run.point, run.certificate, run.n_rounds, converged, interrupted)


class _Ascent:
    """One run. ``point`` and ``certificate`` belong to the last finished round."""

    def __init__(
        self,
        risk: PairDual,
        C: float,
        rule: Rule,
        queries: Array,
        on_round: Callable[[Array, Certificate], None] | None,
    ):
        self.risk, self.C, self.rule, self.queries, self.on_round = risk, C, rule, queries, on_round
        self.c = np.zeros(risk.n_rows)
        for q in queries:
            lo, hi = risk.places(int(q))
            self.c[lo:hi] = rule.start(int(q))
        self.w = risk.sum_of_documents(self.c)
        self.point = self.w
        self.certificate: Certificate | None = None
        self.bound = 0.0
        self.n_rounds = self.n_steps = 0

    def rounds(self, watch: Watch, total: int, tol: float, rng: np.random.Generator) -> bool:
        """Run the rounds; True if the monitor ended them."""
        while True:
            for _ in range(min(len(self.queries), total - self.n_steps)):
                self._step(int(rng.choice(self.queries)))
            self._evaluate()
            assert self.certificate is not None
            stop = watch.step(objective=self.certificate.primal, gap=self.certificate.relative_gap)
            if self.certificate.relative_gap <= tol or self.n_steps >= total or not len(self.queries):
                return False
            if stop:
                return True

    def _step(self, q: int) -> None:
        lo, hi = self.risk.places(q)
        self.n_steps += 1
        new = self.rule.step(q, self.risk.levels(self.w, q), self.n_steps)
        self.risk.add_documents(q, new - self.c[lo:hi], self.w)
        self.c[lo:hi] = new

    def _evaluate(self) -> None:
        self.w = self.risk.sum_of_documents(self.c)  # recomputed, free of accumulated rounding
        square = float(self.w @ self.w)
        primal = 0.5 * square + self.C * self.risk.value_and_gradient(self.w)[0]
        dual = best_multiple(self.risk.sum_of_margins(self.c), square)
        self.bound = max(self.bound, dual)
        self.point, self.certificate = self.w.copy(), Certificate(primal, min(self.bound, primal))
        self.n_rounds += 1
        if self.on_round is not None:
            self.on_round(self.point, self.certificate)


def best_multiple(linear: float, square: float) -> float:
    """max over 0 ≤ τ ≤ 1 of τ·linear − ½ τ² square: a multiple of a feasible dual point is feasible."""
    part = 1.0 if linear >= square else max(0.0, linear / square)
    return part * linear - 0.5 * part * part * square


def some_queries(risk: PairDual, rng: np.random.Generator) -> Array:
    """A sample of the queries with weight and pairs."""
    queries = np.flatnonzero((risk.n_pairs > 0) & (risk.weights > 0))
    return queries if len(queries) <= SAMPLED else np.sort(rng.choice(queries, SAMPLED, replace=False))


def largest_curvature(risk: PairDual, *, by_preferred: bool, seed: int) -> float:
    """An estimate of the largest ‖Σ β_jk (x_j − x_k)‖² over ‖β‖ = 1 among the queries (β_jk/|P_k| ``by_preferred``).

    Power iterations on a sample of queries. A gradient step of the reciprocal length decreases the objective of a
    query.
    """
    rng = np.random.default_rng(seed)
    queries = some_queries(risk, rng)
    start = rng.standard_normal(risk.n_features)
    return max((_curvature(risk, int(q), start, by_preferred) for q in queries), default=0.0)


def _curvature(risk: PairDual, q: int, u: Array, by_preferred: bool) -> float:
    before = risk.preferred_counts(q).astype(np.int64)
    scale = np.where(before > 0, 1.0 / np.maximum(before, 1) ** (2 if by_preferred else 0), 0.0)
    zero = risk.levels(np.zeros(risk.n_features), q)
    found = 0.0
    for _ in range(POWER_STEPS):
        length = float(np.linalg.norm(u))
        if not length > 0:
            break
        u = u / length
        s = risk.levels(u, q) - zero
        sums = np.concatenate([[0.0], np.cumsum(s)])
        own = scale * (before * s - sums[before])  # Σ over the preferred of (s_k − s_j), scaled
        counts = np.bincount(before, weights=scale, minlength=len(s) + 1)
        totals = np.bincount(before, weights=scale * s, minlength=len(s) + 1)
        # place j is preferred to every document with more than j preferred documents
        own += s * (counts.sum() - np.cumsum(counts))[: len(s)] - (totals.sum() - np.cumsum(totals))[: len(s)]
        found = float(s @ own)
        u = np.zeros(risk.n_features)
        risk.add_documents(q, own, u)
    return found
