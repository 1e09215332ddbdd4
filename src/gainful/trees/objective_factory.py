"""What trees shall fit, before it is known where the rows are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from gainful.data.dataset import RankingData
from gainful.data.rows import Array
from gainful.trees.grow import Objective

Labels = Callable[[RankingData], Array]  # of the rows of some queries


@dataclass(frozen=True)
class ObjectiveFactory:
    """How the objective of some queries is made; all of it can be sent to a worker.

    ``make(data, mean_weight=, threads=)`` gives the objective; ``mean_weight`` is the mean weight of all queries of the
    training, None where ``data`` are all. ``scale_from`` is the number of the tree whose gradients set the scale, in
    which case ``make`` takes ``scale=``; None where there is nothing to set.
    """

    make: Callable[..., Objective]
    scale_from: int | None = None
    changes: bool = False  # whether a later tree may find a split where this one found none

    def scaled(self, scale: float) -> ObjectiveFactory:
        return ObjectiveFactory(partial(self.make, scale=scale), None, self.changes)


def grades(data: RankingData) -> Any:
    return data.y
