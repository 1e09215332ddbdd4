"""Trees from nodes in any order: renumbered from the root, and only if they make a tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gainful.data.rows import Array
from gainful.foreign.checks import LARGEST_SINGLE, MOST_CATEGORIES, MOST_COVER, BadModelError
from gainful.rankers.ensembles import Tree
from gainful.trees.booster_text import DEEPEST


@dataclass
class Nodes:
    """The nodes of one tree, the root first; ``left`` is −1 at a leaf. Splits send x ≤ threshold left."""

    left: Sequence[int]
    right: Sequence[int]
    feature: Array
    threshold: Array
    nan_left: Array
    value: Array  # of leaves
    cover: Array | None = None
    categories: Mapping[int, Sequence[int]] = field(default_factory=dict)  # by node; they go left

    def tree(self) -> Tree:
        """Nodes that the root does not reach are left out."""
        splits, leaves, place = self._walk()
        at = {node: number for number, node in enumerate(splits)}
        categories = {at[node]: _ascending(inside) for node, inside in self.categories.items() if node in at}
        inner, outer = np.array(splits, dtype=np.int64), np.array(leaves, dtype=np.int64)
        return Tree(
            feature=self.feature[inner],
            threshold=self.threshold[inner],
            nan_left=self.nan_left[inner],
            left=np.array([place[self.left[node]] for node in splits], dtype=np.int64),
            right=np.array([place[self.right[node]] for node in splits], dtype=np.int64),
            leaves=self.value[outer].astype(np.float64),
            categories=categories,
            cover=usable_cover(None if self.cover is None else self.cover[outer]),
        )

    def _walk(self) -> tuple[list[int], list[int], list[int]]:
        """Splits and leaves, parents before children, and the new number of each node."""
        n = len(self.left)
        place, depth = [0] * n, [0] * n  # the depth of a node is 1 or more once it is reached
        splits: list[int] = []
        leaves: list[int] = []
        todo = [(0, 1)]
        while todo:
            node, level = todo.pop()
            if not 0 <= node < n or depth[node]:
                raise BadModelError("the nodes of a tree do not make a tree")
            if level > DEEPEST + 1:
                raise BadModelError(f"a tree is deeper than {DEEPEST:,}")
            depth[node] = level
            if self.left[node] == -1:
                place[node] = -len(leaves) - 1
                leaves.append(node)
            else:
                place[node] = len(splits)
                splits.append(node)
                todo += [(self.right[node], level + 1), (self.left[node], level + 1)]
        return splits, leaves, place


def usable_cover(cover: Array | None) -> Array | None:
    """The cover of leaves if it gives them shares; otherwise None, and all count the same."""
    if cover is None:
        return None
    cover = cover.astype(np.float64)
    return cover if bool(((cover >= 0.0) & (cover <= MOST_COVER)).all()) and cover.any() else None


def less_than(conditions: Array) -> Array:
    """Thresholds t with x ≤ t where x < condition, for float32 x; −inf where there is none."""
    return np.asarray(np.nextafter(conditions.astype(np.float32), np.float32(-np.inf)))


def turn_empty_splits(nodes: Nodes) -> None:
    """Splits that no number passes to the left, as splits that every number does, with the children exchanged."""
    for node in np.flatnonzero(nodes.threshold < -LARGEST_SINGLE).tolist():
        nodes.threshold[node] = LARGEST_SINGLE
        nodes.nan_left[node] = not nodes.nan_left[node]
        left, right = list(nodes.left), list(nodes.right)
        left[node], right[node] = right[node], left[node]
        nodes.left, nodes.right = left, right


def _ascending(categories: Sequence[int]) -> tuple[int, ...]:
    found = tuple(sorted({int(one) for one in categories}))
    if found and not 0 <= found[0] <= found[-1] < MOST_CATEGORIES:
        raise BadModelError("a split has a category that is negative or too large")
    return found
