"""Loss-augmented ranking for average precision: the compiled stages, called for a run of queries."""

from __future__ import annotations

from typing import Any

import numpy as np

from gainful.data.rows import Array
from gainful.losses.structured.problem import RankingProblem

LARGEST = 1e300  # larger scores would overflow
DEEPEST = 64  # maximum halvings of the range of other documents


def fill_violations(
    problem: RankingProblem, scores: Array, first: int, last: int, tight: bool, xi: Array, c: Array
) -> None:
    """Write ξ of the queries first…last − 1 to ``xi``, and the gradient by score of their rows to ``c``.

    ξ_q = max_y [Δ(y) + Ψ(y)·s] − (Ψ(target)·s, or max_y Ψ(y)·s for the tight loss). ``scores`` and ``c`` hold the rows
    of these queries only.
    """
    kernels = _kernels()
    usable = _usable(problem, scores, first, last)
    rows, before = _sort_and_count(problem, scores, first, last, usable)
    losses, parts = np.empty(last - first), (problem.offsets, problem.blocks, problem.starts, usable, rows)
    c[:] = 0.0
    xi[first:last] = np.where(problem.active[first:last] & ~usable, np.nan, 0.0)
    kernels.fill_violations(scores, first, last, *parts, before, tight, losses, xi, c)
    if tight:
        kernels.take_by_score(scores, first, last, *parts, losses, xi, c)


def fill_rankings(problem: RankingProblem, scores: Array, first: int, last: int, ranks: Array) -> None:
    """Write the rank of each row in its loss-augmented ranking to ``ranks``, from 1; 0 in an inactive query."""
    usable = _usable(problem, scores, first, last)
    rows, before = _sort_and_count(problem, scores, first, last, usable)
    ranks[:] = 0
    _kernels().rankings(first, last, problem.offsets, problem.blocks, problem.starts, usable, rows, before, ranks)


def _usable(problem: RankingProblem, scores: Array, first: int, last: int) -> Array:
    """The active queries with finite scores."""
    begins = problem.offsets[first:last] - problem.offsets[first]
    with np.errstate(over="ignore"):
        return np.asarray(problem.active[first:last] & (np.add.reduceat(np.abs(scores), begins) < LARGEST))


def _sort_and_count(
    problem: RankingProblem, scores: Array, first: int, last: int, usable: Array
) -> tuple[Array, Array]:
    """The rows of each kind by decreasing score, and the number of relevant rows before each other row."""
    kernels, longest = _kernels(), int(np.diff(problem.offsets[first : last + 1]).max())
    rows, spare = np.empty(len(scores), np.int64), np.empty(longest, np.int64)
    before, stack = np.empty(len(scores), np.int64), np.empty((2 * DEEPEST, 4), np.int64)
    offsets, blocks, starts = problem.offsets, problem.blocks, problem.starts
    kernels.sort_rows(scores, first, last, offsets, problem.order, blocks, starts, usable, rows, spare)
    kernels.count_before(scores, first, last, offsets, blocks, starts, usable, rows, before, stack)
    return rows, before


def _kernels() -> Any:
    """The compiled module, loaded on first use."""
    from gainful.losses.structured import average_precision_kernels

    return average_precision_kernels
