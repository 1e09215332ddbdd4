"""Trees in the form that all formats are written from.

They are binary. A split sends a value x of its feature left when x ≤ threshold, or, where it has categories, when the
whole part of x is one of them; a missing value goes where ``nan_left`` says. LightGBM's rules for missing values (none
were seen: they count as 0; some were seen: a side was chosen) become that one flag.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from gainful.data.rows import Array
from gainful.rankers.scorers import Expectation


@dataclass(frozen=True)
class Tree:
    """A tree as arrays, one entry per split; a child ≥ 0 is a split, a child < 0 the leaf −child − 1.

    ``categories[i]`` holds those of split i if it is categorical. A tree without splits has one leaf.
    """

    feature: Array
    threshold: Array
    nan_left: Array
    left: Array
    right: Array
    leaves: Array
    categories: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def n_splits(self) -> int:
        return len(self.feature)

    @property
    def depth(self) -> int:
        """The number of splits on the longest path to a leaf."""
        deepest, todo = 0, [(0, 1)] if self.n_splits else []
        while todo:
            split, level = todo.pop()
            deepest = max(deepest, level)
            todo += [(int(child), level + 1) for child in (self.left[split], self.right[split]) if child >= 0]
        return deepest

    @property
    def zero_left(self) -> Array:
        """Whether the value 0 goes left, per split."""
        zero = self.threshold >= 0.0
        for split, inside in self.categories.items():
            zero[split] = 0 in inside
        return np.asarray(zero)


@dataclass(frozen=True)
class Ensemble:
    """A sum of trees; with ``link``, tree i adds to output i mod ``n_outputs`` and the link makes the score of them."""

    trees: tuple[Tree, ...]
    n_features: int
    n_outputs: int = 1
    link: Expectation | None = None

    @property
    def categorical(self) -> bool:
        return any(tree.categories for tree in self.trees)

    @property
    def missing_is_zero(self) -> bool:
        """Whether a missing value goes the way of 0 in every split."""
        return all(np.array_equal(tree.nan_left, tree.zero_left) for tree in self.trees)

    def with_missing_as_zero(self) -> Ensemble:
        return replace(self, trees=tuple(replace(tree, nan_left=tree.zero_left) for tree in self.trees))

    def scaled(self, factor: float) -> Ensemble:
        """``factor`` times the sum; only without a link."""
        return replace(self, trees=tuple(replace(tree, leaves=tree.leaves * factor) for tree in self.trees))

    @property
    def used_features(self) -> list[int]:
        """Features that some split uses."""
        return sorted({int(j) for tree in self.trees for j in tree.feature})
