"""Blocks of whole queries, and tasks that run where a block is.

Solvers see data only as blocks that run tasks: functions of a block and of the values stored with it, such as "value
and gradient at w" or "scores at w". One block in memory, many blocks of mapped files and the partitions of a cluster
look the same to them. A query is never split between blocks. Anything as long as the data, such as scores, stays with
the blocks; only results as long as the weights come back.

Tasks are top-level functions, so that they can be sent to other processes.
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

BLOCK_ROWS = 1 << 20  # of a mapped file; work on a block, such as sorting by grade, takes memory per row
Task = Callable[..., Any]


@dataclass(frozen=True)
class PerBlock:
    """One value per block, in block order. A task that takes it receives the value of its own block."""

    parts: tuple[Any, ...]


class Blocks(Protocol):
    """Where the blocks are. A task gets its block's value of each :class:`PerBlock` argument; others pass unchanged."""

    @property
    def data(self) -> PerBlock:
        """The RankingData of each block."""
        ...

    @property
    def longest_history(self) -> float:
        """Number of additions after which recomputing a vector pays off."""
        ...

    def map(self, task: Task, *arguments: Any) -> list[Any]:
        """Run the task on each block and return the results."""
        ...

    def map_resident(self, task: Task, *arguments: Any) -> PerBlock:
        """Run the task on each block and leave each result where its block is."""
        ...

    def map_both(self, task: Task, *arguments: Any) -> tuple[list[Any], PerBlock]:
        """Run a task that returns a pair: return the first halves, leave the second halves with the blocks."""
        ...


class LocalBlocks:
    """Blocks in this process, in memory or mapped from files; tasks run on one block after another."""

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
    """Number of times a task runs: the length of its PerBlock arguments."""
    return next(len(argument.parts) for argument in arguments if isinstance(argument, PerBlock))


def in_blocks(data: RankingData, rows: int = BLOCK_ROWS) -> list[RankingData]:
    """The data itself, or parts of about ``rows`` rows if it is mapped from a long file."""
    if not is_mapped(data.X) or data.n_rows <= rows:
        return [data]
    cuts = chunks(data.offsets, 0, data.n_queries, rows)
    return [data[first:last] for first, last in pairwise(cuts)]


class RowVector:
    """One number per row, stored with the blocks. Vectors can be added, subtracted and scaled.

    For scores X·w, ``weights`` is w. Some blocks remember how each vector was computed, to recompute a lost one; after
    ``longest_history`` additions (``age``) they compute it from the data instead.
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
        """The whole vector, in this process's memory."""
        return np.concatenate(self.blocks.map(np.asarray, self.values)).astype(dtype or np.float64)


@dataclass(frozen=True)
class Scaled:
    """A factor times a vector, waiting to be added to another."""

    factor: float
    vector: RowVector


def _scores(data: RankingData, w: Array) -> Array:
    return linear_scores(data.X, w)


def _sum(a: Array, factor: float, b: Array) -> Array:
    if factor == -1.0:
        return np.subtract(a, b)
    total = np.multiply(b, factor)
    total += a
    return total
