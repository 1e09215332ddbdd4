"""Blocks of whole queries, and tasks that run where a block is.

Solvers see data only as blocks that answer tasks: functions of the block and of what was kept beside it, such as
"value and gradient at w" or "scores at w". One block in memory, many blocks of mapped files and the partitions of a
cluster are the same to them. A query is never split between blocks. What is as long as the data, such as scores, stays
with the blocks; what comes back is as long as the weights.

A task is a function at the top of a module, so that it can be sent elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from gainful.data.dataset import RankingData
from gainful.data.rows import Array, chunks, is_mapped, linear_scores

BLOCK_ROWS = 1 << 20  # of a mapped file: what is prepared for a block (sorting by grade) takes memory by the row
Task = Callable[..., Any]


@dataclass(frozen=True)
class Kept:
    """One thing for each block, in the order of the blocks. A task that is given it gets the part of its block."""

    parts: tuple[Any, ...]


class Blocks(Protocol):
    """Where the blocks are. Arguments that are :class:`Kept` reach a task part by part, all others as they are."""

    @property
    def data(self) -> Kept:
        """The RankingData of each block."""
        ...

    @property
    def longest_history(self) -> float:
        """Additions after which a vector had better be computed afresh."""
        ...

    def run(self, task: Task, *arguments: Any) -> list[Any]:
        """What the task answers for each block, brought here."""
        ...

    def keep(self, task: Task, *arguments: Any) -> Kept:
        """What the task answers for each block, left where the block is."""
        ...

    def run_and_keep(self, task: Task, *arguments: Any) -> tuple[list[Any], Kept]:
        """For tasks that answer with a pair: the first halves brought here, the second halves left with the blocks."""
        ...


class LocalBlocks:
    """Blocks of this process, in memory or mapped from files, one after the other."""

    longest_history: float = math.inf  # nothing is remembered

    def __init__(self, data: Sequence[RankingData]):
        self.data = Kept(tuple(data))

    def run(self, task: Task, *arguments: Any) -> list[Any]:
        return [
            task(*(argument.parts[i] if isinstance(argument, Kept) else argument for argument in arguments))
            for i in range(n_parts(arguments))
        ]

    def keep(self, task: Task, *arguments: Any) -> Kept:
        return Kept(tuple(self.run(task, *arguments)))

    def run_and_keep(self, task: Task, *arguments: Any) -> tuple[list[Any], Kept]:
        answers = self.run(task, *arguments)
        return [here for here, _ in answers], Kept(tuple(there for _, there in answers))


def n_parts(arguments: Sequence[Any]) -> int:
    """How many parts the kept arguments of a task have: as often it runs."""
    return next(len(argument.parts) for argument in arguments if isinstance(argument, Kept))


def in_blocks(data: RankingData, rows: int = BLOCK_ROWS) -> list[RankingData]:
    """The data itself, or where it is mapped from a file and long, pieces of it of about so many rows."""
    if not is_mapped(data.X) or data.n_rows <= rows:
        return [data]
    cuts = chunks(data.offsets, 0, data.n_queries, rows)
    return [data[first:last] for first, last in pairwise(cuts)]


class RowVector:
    """One number for each row, kept with the blocks. Vectors can be added, subtracted and stretched.

    Where it is the scores X·w, ``weights`` are w: blocks that remember how each vector came about (to make it again
    when it is lost) can then forget after ``longest_history`` additions, ``age``, and compute it from the data.
    """

    __array_ufunc__ = None  # a number of NumPy's must leave the product to us

    def __init__(self, blocks: Blocks, kept: Kept, weights: Array | None = None, age: int = 0):
        self.blocks, self.kept, self.weights, self.age = blocks, kept, weights, age

    def __sub__(self, other: RowVector) -> RowVector:
        return self + (-1.0) * other

    def __add__(self, other: RowVector | Stretched) -> RowVector:
        factor, vector = (other.factor, other.vector) if isinstance(other, Stretched) else (1.0, other)
        age = max(self.age, vector.age) + 1
        if self.weights is None or vector.weights is None:
            return RowVector(self.blocks, self.blocks.keep(_sum, self.kept, factor, vector.kept), None, age)
        weights = self.weights + factor * vector.weights
        if age > self.blocks.longest_history:
            return RowVector(self.blocks, self.blocks.keep(_scores, self.blocks.data, weights), weights)
        return RowVector(self.blocks, self.blocks.keep(_sum, self.kept, factor, vector.kept), weights, age)

    def __rmul__(self, factor: float) -> Stretched:
        return Stretched(float(factor), self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """All of it here, for those who can hold it."""
        return np.concatenate(self.blocks.run(np.asarray, self.kept)).astype(dtype or np.float64)


@dataclass(frozen=True)
class Stretched:
    """A factor times a vector, to be added to another."""

    factor: float
    vector: RowVector


def _scores(data: RankingData, w: Array) -> Array:
    return linear_scores(data.X, w)


def _sum(a: Array, factor: float, b: Array) -> Array:
    total = np.multiply(b, factor)
    total += a
    return total
