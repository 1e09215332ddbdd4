"""Loss-augmented ranking for average precision: the compiled kernels, called for a run of queries."""

from __future__ import annotations

from typing import Any

from gainful.inference.problem import RankingProblem
from gainful.rows import Array


def fill_violations(
    problem: RankingProblem, scores: Array, first: int, last: int, tight: bool, xi: Array, c: Array
) -> None:
    """ξ of the queries first…last − 1 into ``xi``, the gradient by score of their rows into ``c``.

    ``scores`` and ``c`` hold the rows of these queries only.
    """
    _kernels().violations(
        scores,
        first,
        last,
        problem.offsets,
        problem.order,
        problem.blocks,
        problem.starts,
        problem.active,
        tight,
        xi,
        c,
    )


def fill_rankings(problem: RankingProblem, scores: Array, first: int, last: int, ranks: Array) -> None:
    """The rank of each row in its loss-augmented ranking into ``ranks``, from 1; 0 in a query that is not active."""
    _kernels().rankings(
        scores, first, last, problem.offsets, problem.order, problem.blocks, problem.starts, problem.active, ranks
    )


def _kernels() -> Any:
    """The compiled module, loaded on use."""
    from gainful.inference import average_precision_kernels

    return average_precision_kernels
