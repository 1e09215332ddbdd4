"""Violations of all queries, and the risk Σ_q ω_q ξ_q with its gradient in one pass over the features.

The passes themselves, their threads and chunks, are those of :mod:`gainful.compute.query_loop`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gainful.compute import query_loop
from gainful.compute.features import Features
from gainful.compute.query_loop import Fill, run_each, run_in_threads, threads_for
from gainful.data.rows import Array, read_only
from gainful.errors import ParameterError
from gainful.losses.structured import average_precision, ndcg
from gainful.losses.structured.problem import RankingProblem

LOSSES = ("convex", "tight", "slack")


# -- from scores -------------------------------------------------------------------------------------------------------


def violations(
    problem: RankingProblem, scores: Any, *, prices: Array | None = None, threads: int | None = None
) -> tuple[Array, Array]:
    """ξ_q = max_y [Δ(y) + Ψ(y)·s] − Ψ(target)·s of each query, and its gradient c by score: (n_queries,), (n_rows,).

    ξ is convex in the scores, never negative, and an upper bound of the loss of the ranking by score. With ỹ the
    ranking that attains the maximum, c_i = A(ỹ_i) − target_i for NDCG.

    ``prices``, (n_rows,) float64, start at 0 and are the caller's to keep between calls: where a list is no longer than
    the depth of the problem they make the next inference with similar scores quicker. They change no value.
    """
    return violations_of(problem, scores, "convex", prices, threads)


def tight_violations(
    problem: RankingProblem, scores: Any, *, prices: Array | None = None, threads: int | None = None
) -> tuple[Array, Array]:
    """max_y [Δ(y) + Ψ(y)·s] − max_y Ψ(y)·s of each query, and a gradient by score.

    Not convex; between the loss of the ranking by score and the convex ξ. The second maximum is the ranking by score
    ŷ, tied scores in row order: c_i = A(ỹ_i) − A(ŷ_i) for NDCG.
    """
    return violations_of(problem, scores, "tight", prices, threads)


def augmented_rankings(problem: RankingProblem, scores: Any, *, threads: int | None = None) -> Array:
    """The rank of each row in ỹ, (n_rows,) int32: 1…depth, and 0 below the depth or in a query that is not active.

    For average precision every row has a rank.
    """
    fill = ndcg.fill_rankings if problem.measure == "ndcg" else average_precision.fill_rankings
    scores, ranks = _checked_scores(problem, scores), np.zeros(problem.n_rows, dtype=np.int32)

    def piece(first: int, last: int) -> None:
        rows = slice(int(problem.offsets[first]), int(problem.offsets[last]))
        fill(problem, scores[rows], first, last, ranks[rows])

    _run_in_threads(problem, threads, piece)
    return ranks


def risk_from_scores(
    problem: RankingProblem,
    scores: Any,
    query_weights: Any = None,
    *,
    loss: str = "convex",
    prices: Array | None = None,
    threads: int | None = None,
) -> tuple[float, Array]:
    """Σ_q ω_q ξ_q and its gradient by score, (n_rows,): ω_q c_i. Without weights ω = 1."""
    weights = _weights(problem, query_weights)
    xi, c = violations_of(problem, scores, loss, prices, threads)
    if query_weights is not None:
        c *= np.repeat(weights, np.diff(problem.offsets))
    return float(weights @ xi), c


def risk_along(
    problem: RankingProblem,
    scores: Any,
    direction: Any,
    t: float,
    query_weights: Any = None,
    *,
    loss: str = "convex",
    threads: int | None = None,
) -> tuple[float, float]:
    """Σ_q ω_q ξ_q at the scores s + t·d and its derivative by t, chunk by chunk, without arrays as long as the data."""
    weights = _weights(problem, query_weights)
    s, d = _checked_scores(problem, scores), _checked_scores(problem, direction)
    return query_loop.risk_along(_filler(problem, loss, None), problem.offsets, s, d, t, weights, threads)


def violations_of(
    problem: RankingProblem, scores: Any, loss: str, prices: Array | None, threads: int | None
) -> tuple[Array, Array]:
    """ξ of each query and the gradient of each ξ by score, for any loss."""
    fill = _filler(problem, loss, _checked_prices(problem, prices))
    return query_loop.values_and_gradient(fill, problem.offsets, _checked_scores(problem, scores), threads)


# -- from features -----------------------------------------------------------------------------------------------------


def risk(
    problem: RankingProblem,
    X: Any,
    w: Any,
    query_weights: Any = None,
    want_scores: bool = False,
    *,
    loss: str = "convex",
    prices: Array | None = None,
    threads: int | None = None,
) -> tuple[float, Array, Array | None]:
    """R(w) = Σ_q ω_q ξ_q(X_q w), a subgradient (n_features,), and the scores (n_rows,) if wanted; one pass over X.

    X is C-contiguous float32 or float64, or CSR, or :class:`Features` made of it; it may be read-only or memory-mapped
    and is not copied. Sums are float64. ``loss`` is ``"convex"``, ``"tight"`` or ``"slack"``.
    """
    weights = None if query_weights is None else _weights(problem, query_weights)
    fill = _filler(problem, loss, _checked_prices(problem, prices))
    return query_loop.risk_of_features(
        fill, problem.offsets, X if isinstance(X, Features) else Features(X), w, weights, want_scores=want_scores,
        threads=threads,
    )  # fmt: skip


def apply_gradient(X: Any, coefficients: Any, *, threads: int | None = None) -> Array:
    """X'c in float64, (n_features,), without reading the rows where c is 0."""
    features, c = Features(X), np.ascontiguousarray(coefficients, dtype=np.float64)

    def piece(lo: int, hi: int) -> Array:
        gradient = np.zeros(features.n_features)
        features.add_gradient(c[lo:hi], lo, hi, gradient)
        return gradient

    pieces = threads_for(features.n_rows, threads)
    cuts = [features.n_rows * i // pieces for i in range(pieces + 1)]
    return np.asarray(np.sum(run_each(piece, cuts), axis=0))


# -- queries ----------------------------------------------------------------------------------------------------------


def _filler(problem: RankingProblem, loss: str, prices: Array | None) -> Fill:
    """The inference of this problem and loss, for a run of queries."""
    if loss not in LOSSES:
        raise ParameterError.of("risk", "loss", "'convex', 'tight' or 'slack'", loss)
    if problem.measure == "average_precision":
        if loss == "slack":
            raise ParameterError.of("risk", "loss", "'convex' or 'tight' for average precision", loss)
        return lambda s, a, b, xi, c: average_precision.fill_violations(problem, s, a, b, loss == "tight", xi, c)
    if loss == "slack":
        return lambda s, a, b, xi, c: ndcg.fill_slack_violations(problem, s, a, b, xi, c)
    return lambda s, a, b, xi, c: ndcg.fill_violations(problem, s, a, b, loss == "tight", prices, xi, c)


def _run_in_threads(problem: RankingProblem, threads: int | None, piece: Callable[[int, int], Any]) -> list[Any]:
    return run_in_threads(problem.offsets, threads, piece)


# -- arguments ---------------------------------------------------------------------------------------------------------


def _checked_scores(problem: RankingProblem, scores: Any) -> Array:
    array = read_only(np.ascontiguousarray(scores, dtype=np.float64))
    if array.shape != (problem.n_rows,):
        raise ParameterError.of("violations", "scores", f"{problem.n_rows} numbers", f"an array of shape {array.shape}")
    return array


def _checked_prices(problem: RankingProblem, prices: Array | None) -> Array | None:
    if prices is not None and (prices.shape != (problem.n_rows,) or prices.dtype != np.float64):
        raise ParameterError.of("violations", "prices", f"{problem.n_rows} float64 numbers", prices)
    return prices


def _weights(problem: RankingProblem, query_weights: Any) -> Array:
    if query_weights is None:
        return np.ones(problem.n_queries)
    weights = np.ascontiguousarray(query_weights, dtype=np.float64)
    if weights.shape != (problem.n_queries,):
        raise ParameterError.of("risk", "query_weights", f"{problem.n_queries} numbers", query_weights)
    return weights
