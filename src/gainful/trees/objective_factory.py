"""Builds the objective once the location of the rows is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from gainful.data.dataset import RankingData
from gainful.data.rows import Array
from gainful.trees.grow import Objective

Labels = Callable[[RankingData], Array]  # one label per row


@dataclass(frozen=True)
class ObjectiveFactory:
    """Makes the objective of some queries; it can be sent to a worker.

    ``make(data, mean_weight=, threads=)`` gives the objective; ``mean_weight`` is the mean weight of all queries of the
    training, None if ``data`` has them all. ``scale_from`` is the number of the tree whose gradients set the scale, in
    which case ``make`` takes ``scale=``; None if there is no scale to set.
    """

    make: Callable[..., Objective]
    scale_from: int | None = None
    changes: bool = False  # whether a later tree may find a split where this one found none

    def with_scale(self, scale: float) -> ObjectiveFactory:
        return ObjectiveFactory(partial(self.make, scale=scale), None, self.changes)


def grades(data: RankingData) -> Any:
    return data.y
