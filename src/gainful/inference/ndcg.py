"""Loss-augmented ranking for NDCG: the compiled kernels, called for a run of queries."""

from __future__ import annotations

from typing import Any

import numpy as np

from gainful.inference.problem import RankingProblem
from gainful.rows import Array

NO_PRICES: Array = np.empty(0)


def fill_violations(
    problem: RankingProblem,
    scores: Array,
    first: int,
    last: int,
    tight: bool,
    prices: Array | None,
    xi: Array,
    c: Array,
    method: str = "automatic",
) -> None:
    """ξ of the queries first…last − 1 into ``xi``, the gradient by score of their rows into ``c``.

    ``scores`` and ``c`` hold the rows of these queries only. ``method`` is for tests: ``"paths"``, ``"counts"`` and
    ``"square"`` (where all documents are placed) give the same values.
    """
    kernels = _kernels()
    kernels.violations(scores, first, last, *_arrays(problem), tight, kernels.METHODS[method], _prices(prices), xi, c)


def fill_rankings(problem: RankingProblem, scores: Array, first: int, last: int, ranks: Array) -> None:
    """The rank of each row in its loss-augmented ranking into ``ranks``: 1…depth, 0 below."""
    kernels = _kernels()
    kernels.rankings(scores, first, last, *_arrays(problem), ranks)


def fill_slack_violations(problem: RankingProblem, scores: Array, first: int, last: int, xi: Array, c: Array) -> None:
    """As :func:`fill_violations`, for rescaled slacks."""
    kernels = _kernels()
    kernels.slack_violations(scores, first, last, *_arrays(problem), xi, c)


def _arrays(p: RankingProblem) -> tuple[Array, ...]:
    return (p.offsets, p.order, p.blocks, p.starts, p.gains, p.target, p.active, p.position_weights, p.discounts)


def _prices(prices: Array | None) -> Array:
    return NO_PRICES if prices is None else prices


def _kernels() -> Any:
    """The compiled module, loaded on use."""
    from gainful.inference import ndcg_kernels

    return ndcg_kernels
