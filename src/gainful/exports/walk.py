"""Trees as a format's reader sees them: nested nodes as arrays, walked by all rows at once.

Readers share only the walk. What a split tests, and in which precision, is up to each format.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gainful.data.rows import Array

# (values of the rows' features, places of the splits they are at) → which rows go left
Decide = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class Split:
    """A node with children."""

    feature: int
    threshold: Any
    missing_left: bool
    left: Any
    right: Any


@dataclass(frozen=True)
class Nodes:
    """One tree: arrays by node, the root first. ``left`` is −1 at a leaf, whose output is ``value``."""

    feature: Array
    threshold: Array
    missing_left: Array
    left: Array
    right: Array
    value: Array

    def outputs(self, X: Array, decide: Decide) -> Array:
        """The output of the leaf that each row reaches."""
        at = np.zeros(len(X), dtype=np.int64)
        moving = np.flatnonzero(self.left[at] >= 0)
        while len(moving):
            here = at[moving]
            goes_left = decide(X[moving, self.feature[here]], here)
            at[moving] = np.where(goes_left, self.left[here], self.right[here])
            moving = moving[self.left[at[moving]] >= 0]
        return np.asarray(self.value[at])


def flatten(root: Any, read: Callable[[Any], Split | Any], kind: Any) -> Nodes:
    """The arrays of a nested tree; ``read`` turns a node into a Split, or into its output if it is a leaf."""
    splits: list[list[Any]] = []
    todo = [(root, -1, 0)]
    while todo:
        node, parent, side = todo.pop()
        found, place = read(node), len(splits)
        if parent >= 0:
            splits[parent][3 + side] = place
        if isinstance(found, Split):
            splits.append([found.feature, found.threshold, found.missing_left, -1, -1, 0])
            todo += [(found.right, place, 1), (found.left, place, 0)]
        else:
            splits.append([0, 0, False, -1, -1, found])
    columns = list(zip(*splits, strict=True))
    return Nodes(
        feature=np.array(columns[0], dtype=np.int64),
        threshold=np.array(columns[1], dtype=kind),
        missing_left=np.array(columns[2], dtype=bool),
        left=np.array(columns[3], dtype=np.int64),
        right=np.array(columns[4], dtype=np.int64),
        value=np.array(columns[5], dtype=kind),
    )
