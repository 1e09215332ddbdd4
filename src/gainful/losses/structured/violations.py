"""The bounds of a ranking problem as losses: fills for :mod:`gainful.compute.query_loop`, or values from scores.

With ỹ the ranking that attains the first maximum, the bound of a query is

========  ===================================================  ============================  ======
"convex"  max_y [Δ(y) + Ψ(y)·s] − Ψ(target)·s                  convex
"tight"   max_y [Δ(y) + Ψ(y)·s] − max_y Ψ(y)·s                 not convex, at most "convex"
"slack"   max_y Δ(y)·(1 + Ψ(y)·s − Ψ(target)·s), estimated    convex but for the search     NDCG
========  ===================================================  ============================  ======

None is ever negative, and each is at least the loss of the ranking by score. The gradients by score are, for NDCG,
c_i = A(ỹ_i) − target_i, A(ỹ_i) − A(ŷ_i) with ŷ the ranking by score (ties in row order), and Δ(ỹ)·(A(ỹ_i) − target_i).

"slack" is a quadratic assignment problem, so a local search estimates it: from the best corner of the hull of all
(loss, margin) and from three plain rankings, it exchanges two documents until no exchange improves. The estimate never
exceeds the maximum. With up to seven documents it was the maximum for 6,399 of 6,400 random queries
(docs/decisions/0008-inference.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gainful.compute.query_loop import Fill, run_in_threads, values_and_gradient
from gainful.data.rows import Array, read_only
from gainful.errors import ParameterError
from gainful.losses.structured import average_precision, ndcg
from gainful.losses.structured.problem import RankingProblem

BOUNDS = ("convex", "tight", "slack")


def fill_bound(problem: RankingProblem, bound: str, prices: Array | None = None) -> Fill:
    """The bound of a run of queries.

    ``prices``, (n_rows,) float64, start at 0, and the caller keeps them between calls: for lists no longer than the
    depth of the problem they speed up the next inference with similar scores. They never change a value.
    """
    if bound not in BOUNDS:
        raise ParameterError.of("violations", "bound", "'convex', 'tight' or 'slack'", bound)
    if problem.measure == "average_precision":
        if bound == "slack":
            raise ParameterError.of("violations", "bound", "'convex' or 'tight' for average precision", bound)
        return lambda s, a, b, xi, c: average_precision.fill_violations(problem, s, a, b, bound == "tight", xi, c)
    if bound == "slack":
        return lambda s, a, b, xi, c: ndcg.fill_slack_violations(problem, s, a, b, xi, c)
    return lambda s, a, b, xi, c: ndcg.fill_violations(problem, s, a, b, bound == "tight", prices, xi, c)


def violations(
    problem: RankingProblem,
    scores: Any,
    bound: str = "convex",
    *,
    prices: Array | None = None,
    threads: int | None = None,
) -> tuple[Array, Array]:
    """The bound ξ of each query, and its gradient by score: (n_queries,), (n_rows,)."""
    if prices is not None and (prices.shape != (problem.n_rows,) or prices.dtype != np.float64):
        raise ParameterError.of("violations", "prices", f"{problem.n_rows} float64 numbers", prices)
    fill = fill_bound(problem, bound, prices)
    return values_and_gradient(fill, problem.offsets, _check_scores(problem, scores), threads)


def augmented_rankings(problem: RankingProblem, scores: Any, *, threads: int | None = None) -> Array:
    """The rank of each row in ỹ, (n_rows,) int32: 1…depth, and 0 below the depth or in an inactive query.

    For average precision every row has a rank.
    """
    fill = ndcg.fill_rankings if problem.measure == "ndcg" else average_precision.fill_rankings
    scores, ranks = _check_scores(problem, scores), np.zeros(problem.n_rows, dtype=np.int32)

    def piece(first: int, last: int) -> None:
        rows = slice(int(problem.offsets[first]), int(problem.offsets[last]))
        fill(problem, scores[rows], first, last, ranks[rows])

    run_in_threads(problem.offsets, threads, piece)
    return ranks


def _check_scores(problem: RankingProblem, scores: Any) -> Array:
    array = read_only(np.ascontiguousarray(scores, dtype=np.float64))
    if array.shape != (problem.n_rows,):
        raise ParameterError.of("violations", "scores", f"{problem.n_rows} numbers", f"an array of shape {array.shape}")
    return array
