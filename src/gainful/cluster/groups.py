"""Groups of blocks: those that one Dask task works on, one after another.

Dask needs about two milliseconds of processor time for a task, whatever the task does. So a pass is one task for each
thread of a worker, not one for each block. What such a task leaves on its worker is one future for all its blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import distributed
import numpy as np

from gainful.data.blocks import PerBlock

Groups = Sequence[tuple[int, ...]]  # block numbers


def group_blocks(holders: Sequence[Sequence[str]], threads: Mapping[str, int]) -> Groups:
    """Blocks grouped by the worker that holds them, with as many groups for a worker as it has threads."""
    by_worker: dict[str, list[int]] = {}
    for i, workers in enumerate(holders):
        least = min(sorted(workers), key=lambda worker: len(by_worker.get(worker, ())))
        by_worker.setdefault(least, []).append(i)
    return [
        tuple(part.tolist())
        for worker, blocks in by_worker.items()
        for part in np.array_split(blocks, min(len(blocks), threads.get(worker, 1)))
    ]


def each_alone(n: int) -> Groups:
    return [(i,) for i in range(n)]


def in_block_order(groups: Groups, values: Sequence[Sequence[Any]]) -> list[Any]:
    """The values of all blocks, given those of each group."""
    by_block = dict(zip(chain(*groups), chain(*values), strict=True))
    return [by_block[i] for i in range(len(by_block))]


@dataclass(frozen=True)
class Member:
    """The value of one block, in a future that holds those of its group."""

    future: Any
    position: int


def members(groups: Groups, futures: Sequence[Any]) -> PerBlock:
    """One value per block, given a future per group."""
    inside = [[Member(future, k) for k in range(len(blocks))] for blocks, future in zip(groups, futures, strict=True)]
    return PerBlock(tuple(in_block_order(groups, inside)))


@dataclass(frozen=True)
class Held:
    """Placeholder for a value on the worker: the task's future of this number, or the value at a position in it."""

    number: int
    position: int | None = None


def wire(columns: Sequence[tuple[Any, ...]], blocks: Sequence[int]) -> tuple[list[tuple[Any, ...]], list[Any]]:
    """The values of each of these blocks, with a :class:`Held` in place of each on a worker; and the futures."""
    futures: dict[str, Any] = {}

    def held(value: Any) -> Any:
        if isinstance(value, distributed.Future):
            future, position = value, None
        elif isinstance(value, Member):
            future, position = value.future, value.position
        else:
            return value
        futures.setdefault(future.key, future)
        return Held(list(futures).index(future.key), position)

    return [tuple(held(column[i]) for column in columns) for i in blocks], list(futures.values())


def look_up(value: Any, results: Sequence[Any]) -> Any:
    """On the worker: the value that :func:`wire` put a placeholder for, from the results of the futures."""
    if not isinstance(value, Held):
        return value
    result = results[value.number]
    return result if value.position is None else result[value.position]
