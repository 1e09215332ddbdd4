"""Blocks of whole queries, and tasks that run where a block is.

Solvers see data only as blocks that answer tasks: functions of a block and of what is stored beside it, such as "value
and gradient at w" or "scores at w". One block in memory, many blocks of mapped files and the partitions of a cluster
look the same to them. A query is never split between blocks. Whatever is as long as the data, such as scores, stays
with the blocks; only what is as long as the weights comes back.

A task is a function at the top of a module, so that it can be sent elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from gainful.data.rows import Array, chunks, is_mapped, linear_scores

if TYPE_CHECKING:
    from gainful.data.dataset import RankingData

BLOCK_ROWS = 1 << 20  # of a mapped file: what is prepared for a block (sorting by grade) takes memory by the row
Task = Callable[..., Any]


@dataclass(frozen=True)
class PerBlock:
    """One value for each block, in the order of the blocks. A task that takes it receives the value of its block."""

    parts: tuple[Any, ...]


class Blocks(Protocol):
    """Where the blocks are. A :class:`PerBlock` argument reaches a task value by value, any other as it is."""

    @property
    def data(self) -> PerBlock:
        """The RankingData of each block."""
        ...

    @property
    def longest_history(self) -> float:
        """Number of additions after which it pays to recompute a vector."""
        ...

    def map(self, task: Task, *arguments: Any) -> list[Any]:
        """Run the task on each block and bring the results here."""
        ...

    def map_resident(self, task: Task, *arguments: Any) -> PerBlock:
        """Run the task on each block and leave each result where its block is."""
        ...

    def map_both(self, task: Task, *arguments: Any) -> tuple[list[Any], PerBlock]:
        """Run a task that returns a pair: the first halves come here, the second halves stay with the blocks."""
        ...


class LocalBlocks:
    """Blocks of this process, in memory or mapped from files; tasks run on one after the other."""

    longest_history: float = math.inf  # vectors are plain arrays

    def __init__(self, data: Sequence[RankingData]):
        self.data = PerBlock(tuple(data))

    def map(self, task: Task, *arguments: Any) -> list[Any]:
        return [
            task(*(argument.parts[i] if isinstance(argument, PerBlock) else argument for argument in arguments))
            for i in range(n_parts(arguments))
        ]

    def map_resident(self, task: Task, *arguments: Any) -> PerBlock:
        return PerBlock(tuple(self.map(task, *arguments)))

    def map_both(self, task: Task, *arguments: Any) -> tuple[list[Any], PerBlock]:
        answers = self.map(task, *arguments)
        return [here for here, _ in answers], PerBlock(tuple(there for _, there in answers))


def n_parts(arguments: Sequence[Any]) -> int:
    """How many times a task runs: the length of its PerBlock arguments."""
    return next(len(argument.parts) for argument in arguments if isinstance(argument, PerBlock))


def in_blocks(data: RankingData, rows: int = BLOCK_ROWS) -> list[RankingData]:
    """The data itself; a long mapped file is cut into parts of about ``rows`` rows."""
    if not is_mapped(data.X) or data.n_rows <= rows:
        return [data]
    cuts = chunks(data.offsets, 0, data.n_queries, rows)
    return [data[first:last] for first, last in pairwise(cuts)]


class RowVector:
    """One number per row, stored with the blocks. Vectors can be added, subtracted and scaled.

    For scores X·w, ``weights`` is w. Some blocks remember how each vector was computed, to recompute one that is lost;
    after ``longest_history`` additions (``age``) they compute it from the data instead.
    """

    __array_ufunc__ = None  # so that a NumPy number times a vector calls __rmul__

    def __init__(self, blocks: Blocks, values: PerBlock, weights: Array | None = None, age: int = 0):
        self.blocks, self.values, self.weights, self.age = blocks, values, weights, age

    def __sub__(self, other: RowVector) -> RowVector:
        return self + (-1.0) * other

    def __add__(self, other: RowVector | Scaled) -> RowVector:
        factor, vector = (other.factor, other.vector) if isinstance(other, Scaled) else (1.0, other)
        age = max(self.age, vector.age) + 1
        if self.weights is None or vector.weights is None:
            return RowVector(self.blocks, self.blocks.map_resident(_sum, self.values, factor, vector.values), None, age)
        weights = self.weights + factor * vector.weights
        if age > self.blocks.longest_history:
            return RowVector(self.blocks, self.blocks.map_resident(_scores, self.blocks.data, weights), weights)
        return RowVector(self.blocks, self.blocks.map_resident(_sum, self.values, factor, vector.values), weights, age)

    def __rmul__(self, factor: float) -> Scaled:
        return Scaled(float(factor), self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The whole vector, in memory here."""
        return np.concatenate(self.blocks.map(np.asarray, self.values)).astype(dtype or np.float64)


@dataclass(frozen=True)
class Scaled:
    """A factor times a vector, waiting to be added to another."""

    factor: float
    vector: RowVector


def _scores(data: RankingData, w: Array) -> Array:
    return linear_scores(data.X, w)


def _sum(a: Array, factor: float, b: Array) -> Array:
    total = np.multiply(b, factor)
    total += a
    return total
