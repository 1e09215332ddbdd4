"""Rescaled slacks: the ranking that maximises Δ(y)·(1 + Ψ(y)·s − Ψ(target)·s)."""

from __future__ import annotations

from typing import Any

from gainful.data.rows import Array
from gainful.losses.structured.problem import RankingProblem
from gainful.losses.structured.violations import violations_of


def slack_violations(problem: RankingProblem, scores: Any, *, threads: int | None = None) -> tuple[Array, Array]:
    """ξ_q = max_y Δ(y)·(1 + Ψ(y)·s − Ψ(target)·s) as far as found, and c_i = Δ(ỹ)·(A(ỹ_i) − target_i).

    For NDCG. A quadratic assignment, so a search: the best corner of the hull of all (loss, margin) and three plain
    rankings, each followed by exchanges of two documents until none improves. ξ ≥ 0 and never above the maximum; up to
    seven documents it was the maximum for 6,399 of 6,400 random queries (docs/decisions/0008-inference.md).
    """
    return violations_of(problem, scores, "slack", None, threads)
