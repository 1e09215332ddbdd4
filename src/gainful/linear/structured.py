"""Structured bounds on linear models: one problem per block of queries, shared by several risks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gainful.data.blocks import PerBlock
from gainful.data.dataset import Dataset, RankingData
from gainful.data.query_weights import block_shares
from gainful.data.rows import Array, linear_scores
from gainful.linear.blockwise import BlockwiseRisk
from gainful.linear.journal import Journal, record_risk
from gainful.linear.risk import LinearRisk
from gainful.linear.scaling import ScaledRisk
from gainful.losses.structured import RankingProblem, fill_bound, violations
from gainful.metrics import Metric
from gainful.solvers.risk import ColumnRisk, Risk


class QueryColumns(ScaledRisk):
    """The convex bound of a training set as a function of v = w·scales, and the worst ranking of each query."""

    def __init__(self, problem: RankingProblem, X: Any, weights: Array, scales: Array):
        super().__init__(LinearRisk(fill_bound(problem, "convex"), X, problem.offsets, weights), scales)
        self.problem, self.X, self.weights, self.n_queries = problem, X, weights, problem.n_queries

    def columns(self, v: Array, queries: Array) -> tuple[Array, Array]:
        """As in :class:`~gainful.solvers.risk.ColumnRisk`: ξ_q(v) = b − v·V."""
        w = self.unscale(v)
        V, b = np.zeros((len(queries), self.n_features)), np.zeros(len(queries))
        for i, q in enumerate(queries):
            X = self.X[int(self.problem.offsets[q]) : int(self.problem.offsets[q + 1])]
            scores = np.asarray(X @ w, dtype=np.float64)
            xi, coefficients = violations(only_query(self.problem, int(q)), scores, threads=1)
            V[i] = -np.asarray(X.T @ coefficients, dtype=np.float64)
            b[i] = float(xi[0]) + float(V[i] @ w)
        return V / self.scales, b


@dataclass(frozen=True)
class ProblemSpec:
    """How to build a ranking problem from grades: the measure, A(1), A(2), … (None: average precision), and ties."""

    measure: Metric
    position_weights: Array | None
    ties: str
    seed: int

    def problem(self, data: RankingData, first_row: int = 0) -> RankingProblem:
        """The problem of a block of queries whose rows count from ``first_row``."""
        measure = self.measure
        if self.position_weights is None:
            return RankingProblem.average_precision(data.y, data.offsets, relevant=measure.relevant or 1.0)
        grades, gain = data.y, "exp2"
        if measure.gain != "exp2":
            gain = "linear"
            grades = grades if measure.gain == "linear" else np.asarray(measure.gain)[grades.astype(np.int64)]
        return RankingProblem.ndcg(
            grades,
            data.offsets,
            measure.k,
            gain=gain,
            discount=measure.discounts(int(data.counts.max())),
            position_weights=self.position_weights,
            ties=self.ties,
            seed=self.seed,
            first_row=first_row,
        )


class StructuredRisks:
    """The structured risks of data in blocks; all bounds share the problems, which are built once.

    The risks are functions of v, which represents the weights v/scales. A journal, if any, records all their answers.
    """

    def __init__(self, data: Dataset, spec: ProblemSpec, scales: Array, journal: Journal | None = None):
        self.data, self.spec, self.scales, self.journal = data, spec, scales, journal
        self._problems = data.map_resident(_problem_of, spec, data.first_rows)

    def risk(self, bound: str) -> Risk:
        return self._risk(self._problems, bound)

    def linearise(self, v: Array) -> Risk:
        """The convex risk whose target is the ranking that v predicts."""
        return self._risk(self.data.map_resident(_retarget_block, self._problems, v / self.scales), "convex")

    def _risk(self, problems: PerBlock, bound: str) -> Risk:
        parts = self.data.map_resident(_bind_bound, problems, bound, self.data.total_weight)
        made: Risk = record_risk(ScaledRisk(BlockwiseRisk(self.data, parts), self.scales), self.journal)
        return made

    def by_query(self) -> ColumnRisk:
        """The convex risk of one RankingData, query by query."""
        data = self.data.whole
        assert data is not None
        return QueryColumns(self.spec.problem(data), data.X, block_shares(data, self.data.total_weight), self.scales)


def _problem_of(data: RankingData, spec: ProblemSpec, first_row: int) -> RankingProblem:
    return spec.problem(data, first_row)


def _bind_bound(data: RankingData, problem: RankingProblem, bound: str, total: float) -> LinearRisk:
    return LinearRisk(fill_bound(problem, bound), data.X, data.offsets, block_shares(data, total))


def _retarget_block(data: RankingData, problem: RankingProblem, w: Array) -> RankingProblem:
    return retarget(problem, linear_scores(data.X, w))


class ShiftedRisk:
    """R(w0 + u) as a function of u: for penalties on the distance to a start w0."""

    def __init__(self, inner: Risk, w0: Array):
        self.inner, self.w0 = inner, w0
        self.n_features = inner.n_features

    def value_and_gradient(self, u: Array) -> tuple[float, Array, Any]:
        return self.inner.value_and_gradient(self.w0 + u)

    def along(self, scores: Any, direction: Any, t: float) -> tuple[float, float]:
        return self.inner.along(scores, direction, t)


def only_query(problem: RankingProblem, q: int) -> RankingProblem:
    """The problem of one query."""
    rows = slice(int(problem.offsets[q]), int(problem.offsets[q + 1]))
    blocks = slice(int(problem.blocks[q]), int(problem.blocks[q + 1]))
    return replace(
        problem,
        offsets=problem.offsets[q : q + 2] - problem.offsets[q],
        order=problem.order[rows],
        blocks=problem.blocks[q : q + 2] - problem.blocks[q],
        starts=problem.starts[blocks.start : blocks.stop + 1] - problem.starts[blocks.start],
        gains=problem.gains[blocks],
        target=problem.target[rows],
        active=problem.active[q : q + 1],
    )


def retarget(problem: RankingProblem, scores: Array) -> RankingProblem:
    """The same losses with the ranking by score as the target, ties in row order."""
    counts = np.diff(problem.offsets)
    query = np.repeat(np.arange(problem.n_queries), counts)
    best_first = np.lexsort((-scores, query))
    rank = np.empty(len(scores), dtype=np.int64)
    rank[best_first] = np.arange(len(scores)) - problem.offsets[:-1][query]
    if problem.measure == "ndcg":
        weights = np.append(problem.position_weights, 0.0)
        target = weights[np.minimum(rank, len(weights) - 1)]
    else:
        target = _pair_weights(problem, rank, query)
    target[~np.repeat(problem.active, counts)] = 0.0
    return replace(problem, target=target)


def _pair_weights(problem: RankingProblem, rank: Array, query: Array) -> Array:
    """Coefficient of each document in Ψ = Σ ±(x_i − x_j)/(n_relevant·n_other), given its rank from 0."""
    relevant = np.zeros(len(rank))
    block_of = np.repeat(np.arange(len(problem.gains)), np.diff(problem.starts))
    relevant[problem.offsets[:-1][query] + problem.order] = problem.gains[block_of] > 0
    place = problem.offsets[:-1][query] + rank
    in_rank_order = np.empty(len(rank))
    in_rank_order[place] = relevant
    seen = np.concatenate([[0.0], np.cumsum(in_rank_order)])
    start = problem.offsets[:-1][query]
    n_relevant = (seen[problem.offsets[1:]] - seen[problem.offsets[:-1]])[query]
    n_other = np.diff(problem.offsets)[query] - n_relevant
    relevant_before = seen[place] - seen[start]
    other_before = rank - relevant_before
    pairs = np.maximum(n_relevant * n_other, 1.0)
    return np.asarray(np.where(relevant > 0, n_other - 2 * other_before, n_relevant - 2 * relevant_before) / pairs)
