"""Rescaled slacks: the ranking that maximises Δ(y)·(1 + Ψ(y)·s − Ψ(target)·s)."""

from __future__ import annotations

from typing import Any

from gainful.inference.problem import RankingProblem
from gainful.inference.stream import violations_of
from gainful.rows import Array


def slack_violations(problem: RankingProblem, scores: Any, *, threads: int | None = None) -> tuple[Array, Array]:
    """ξ_q = max_y Δ(y)·(1 + Ψ(y)·s − Ψ(target)·s) as far as found, and c_i = Δ(ỹ)·(A(ỹ_i) − target_i)."""
    return violations_of(problem, scores, "slack", None, threads)
