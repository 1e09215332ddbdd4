"""Trees as arrays: what imported models score with, and what every export is written from.

Trees are binary. A split sends a value x of its feature left when x ≤ threshold, or, where it has categories, when the
whole part of x is one of them; a missing value goes where ``nan_left`` says. LightGBM's rules for missing values (none
were seen: they count as 0; some were seen: a side was chosen) become that one flag.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from gainful.compute.query_loop import even_cuts, run_each, threads_for
from gainful.data.rows import Array
from gainful.errors import DataError
from gainful.rankers.scorers import Expectation

BLOCK_CELLS = 1 << 22  # of rows that are made dense together
STEPS_PER_THREAD = 2_000_000  # rows times trees; fewer are not worth a thread
IS_NAN_LEFT, IS_CATEGORICAL = 1, 2  # bits that say what a split does


@dataclass(frozen=True)
class Tree:
    """A tree as arrays, one entry per split; a child ≥ 0 is a split, a child < 0 the leaf −child − 1.

    ``categories[i]`` holds those of split i if it is categorical, in ascending order. A tree without splits has one
    leaf. ``cover`` is how much of the training data each leaf holds, if known.
    """

    feature: Array
    threshold: Array
    nan_left: Array
    left: Array
    right: Array
    leaves: Array
    categories: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    cover: Array | None = None

    @classmethod
    def constant(cls, value: float) -> Tree:
        """A tree of one leaf."""
        none = np.zeros(0, dtype=np.int64)
        return cls(none, np.zeros(0), np.zeros(0, dtype=bool), none, none, np.array([value]))

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
    """A sum of trees; with ``link``, tree i adds to output i mod ``n_outputs`` and the link makes the score of them.

    As a scorer it rounds features to float32, as the makers of imported models and all engines do.
    """

    trees: tuple[Tree, ...]
    n_features: int
    n_outputs: int = 1
    link: Expectation | None = None
    additive = True

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

    # -- scoring -------------------------------------------------------------------------------------------------------

    def scores(self, X: Any) -> Array:
        from gainful.rankers import ensemble_kernels as kernels

        add_outputs = kernels.add_outputs_by_category if self.categorical else kernels.add_outputs
        sums, flat = np.zeros((X.shape[0], self.n_outputs)), self._flat
        for start, rows in _single_blocks(X):

            def task(lo: int, hi: int, rows: Array = rows, start: int = start) -> None:
                add_outputs(rows, lo, hi, *flat.walk, sums[start : start + len(rows)])

            run_each(task, even_cuts(len(rows), threads_for(len(rows) * len(self.trees), None, STEPS_PER_THREAD)))
        return sums[:, 0] if self.link is None else self.link.of_sums(sums)

    def contributions(self, X: Any) -> Array:
        """SHAP values by the cover of the leaves, as XGBoost and LightGBM compute them."""
        from gainful.rankers.ensemble_kernels import add_contributions

        parts, flat = np.zeros((X.shape[0], self.n_outputs, self.n_features + 1)), self._flat
        most = max((tree.depth for tree in self.trees), default=0)
        # exact for the polynomials of degree below the number of features on a path
        nodes, weights = np.polynomial.legendre.leggauss(min(most, len(self.used_features)) // 2 + 1)
        for start, rows in _single_blocks(X):

            def task(lo: int, hi: int, rows: Array = rows, start: int = start) -> None:
                out = parts[start : start + len(rows)]
                add_contributions(rows, lo, hi, *flat.walk, *flat.paths, (nodes + 1) / 2, weights / 2, most, out)

            run_each(task, even_cuts(len(rows), threads_for(len(rows) * flat.n_leaves, None, STEPS_PER_THREAD / 100)))
        return parts[:, 0] if self.link is None else self.link.contributions(parts)

    @cached_property
    def _flat(self) -> FlatTrees:
        return FlatTrees(self.trees)


def _single_blocks(X: Any) -> Any:
    """Runs of rows as dense float32, each with the place of its first."""
    step = max(1, BLOCK_CELLS // max(1, X.shape[1]))
    for start in range(0, X.shape[0], step):
        block = X[start : start + step]
        with np.errstate(over="ignore"):
            rows = np.ascontiguousarray(block if isinstance(block, np.ndarray) else block.toarray(), dtype=np.float32)
        if np.isinf(rows).any():
            raise DataError("X holds values beyond 3.4e38, which this model cannot hold: it computes in float32")
        yield start, rows


class FlatTrees:
    """All trees end to end, as compiled loops walk them: a child ≥ 0 is a split of any tree, < 0 the leaf −child − 1.

    ``walk``: the root of each tree; feature, threshold, kind and both children of each split; the bounds of its
    categories and the categories; the leaves. ``paths``: the first split and leaf of each tree, the parent of each
    split and leaf (2·split, +1 if it is the right child; −1 for a root), and the cover of each leaf.
    """

    def __init__(self, trees: tuple[Tree, ...]):
        splits = np.concatenate([[0], np.cumsum([tree.n_splits for tree in trees])]).astype(np.int64)
        leaves = np.concatenate([[0], np.cumsum([len(tree.leaves) for tree in trees])]).astype(np.int64)
        self.n_leaves = int(leaves[-1])
        left, right = (self._children(trees, side, splits, leaves) for side in ("left", "right"))
        kind = _join([tree.nan_left for tree in trees], np.uint8) * np.uint8(IS_NAN_LEFT)
        bounds, categories = np.zeros(splits[-1] + 1, dtype=np.int64), []
        for first, tree in zip(splits, trees, strict=False):
            for split in sorted(tree.categories):
                kind[first + split] |= IS_CATEGORICAL
                bounds[first + split + 1] = len(tree.categories[split])
                categories.append(np.array(tree.categories[split], dtype=np.int64))
        self.walk = (
            np.where(np.diff(splits) > 0, splits[:-1], -leaves[:-1] - 1),
            _join([tree.feature for tree in trees], np.int32),
            _join([tree.threshold for tree in trees], np.float32),
            kind,
            np.column_stack([left, right]).astype(np.int32).ravel(),
            np.cumsum(bounds),
            _join(categories, np.int64),
            _join([tree.leaves for tree in trees], np.float64),
        )  # fmt: skip
        above_split, above_leaf = np.full(splits[-1], -1), np.full(leaves[-1], -1)
        for side, children in enumerate((left, right)):
            parents, inner = 2 * np.arange(len(children)) + side, children >= 0
            above_split[children[inner]] = parents[inner]
            above_leaf[-children[~inner] - 1] = parents[~inner]
        cover = _join([np.ones(len(tree.leaves)) if tree.cover is None else tree.cover for tree in trees], np.float64)
        self.paths = splits, leaves, above_split, above_leaf, cover

    @staticmethod
    def _children(trees: tuple[Tree, ...], side: str, splits: Array, leaves: Array) -> Array:
        return _join(
            [
                np.where(getattr(tree, side) >= 0, getattr(tree, side) + a, getattr(tree, side) - b)
                for a, b, tree in zip(splits, leaves, trees, strict=False)
            ],
            np.int64,
        )


def _join(parts: list[Array], dtype: Any) -> Array:
    return np.concatenate([np.zeros(0, dtype=dtype), *(part.astype(dtype) for part in parts)])
