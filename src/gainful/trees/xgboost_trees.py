"""Trees that XGBoost has grown, in LightGBM's terms: gainful has one kind of tree model, whoever grew it.

XGBoost rounds a value to float32 and sends it left if it is below the condition. For a float64 that is x ≤ t, where t
is the largest float64 that is rounded to a float32 below the condition; so training and scoring agree on every row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gainful.data.rows import Array
from gainful.trees.tree_text import DEFAULT_LEFT, NAN, tree_lines


@dataclass(frozen=True)
class GrownTree:
    """A tree as arrays, one entry per split; a child ≥ 0 is a split, a child < 0 the leaf −child − 1."""

    feature: Array
    condition: Array  # float32: below it goes left
    nan_left: Array
    left: Array
    right: Array
    gains: Array
    leaves: Array
    cover: Array  # the curvature in each leaf

    @classmethod
    def of(cls, tree: Mapping[str, Any]) -> GrownTree:
        """From one of the trees in XGBoost's model."""
        left, right = np.asarray(tree["left_children"]), np.asarray(tree["right_children"])
        order = [0]  # parents before children; deleted nodes are not reached
        for node in order:
            if left[node] >= 0:
                order += [int(left[node]), int(right[node])]
        splits = [node for node in order if left[node] >= 0]
        ends = [node for node in order if left[node] < 0]
        place = {node: i for i, node in enumerate(splits)} | {node: -i - 1 for i, node in enumerate(ends)}

        def of(name: str, nodes: list[int], kind: type) -> Array:
            return np.asarray(tree[name])[nodes].astype(kind)

        return cls(
            feature=of("split_indices", splits, np.int64),
            condition=of("split_conditions", splits, np.float32),
            nan_left=of("default_left", splits, np.int64) > 0,
            left=np.array([place[int(left[node])] for node in splits], dtype=np.int64),
            right=np.array([place[int(right[node])] for node in splits], dtype=np.int64),
            gains=of("loss_changes", splits, np.float64),
            leaves=of("split_conditions", ends, np.float32).astype(np.float64),
            cover=of("sum_hessian", ends, np.float64),
        )

    @property
    def depth(self) -> int:
        """The number of splits on the longest path."""
        depth = np.ones(len(self.feature), dtype=np.int64)
        for split, children in enumerate(zip(self.left.tolist(), self.right.tolist(), strict=True)):
            for child in children:
                if child >= 0:
                    depth[child] = depth[split] + 1
        return int(depth.max(initial=0))

    @property
    def thresholds(self) -> Array:
        return last_below(self.condition)

    def lines(self, n_rows: int) -> dict[str, Any]:
        """The tree as LightGBM writes it; the rows of a leaf are its share of the curvature."""
        counts = np.maximum(1, np.round(self.cover / max(self.cover.sum(), 1e-300) * n_rows)).astype(np.int64)
        return tree_lines(
            feature=self.feature,
            threshold=self.thresholds,
            decision=(NAN << 2) | np.where(self.nan_left, DEFAULT_LEFT, 0),
            left=self.left,
            right=self.right,
            leaves=self.leaves,
            counts=counts,
            gains=self.gains,
        )


def last_below(conditions: Array) -> Array:
    """The largest float64 that is rounded to a float32 below each condition, a float32."""
    below = np.nextafter(conditions, np.float32(-np.inf))
    with np.errstate(over="ignore"):
        middle = (below.astype(np.float64) + conditions.astype(np.float64)) / 2.0
        goes_left = middle.astype(np.float32) < conditions  # halves are rounded to even
    return np.where(goes_left, middle, np.nextafter(middle, -np.inf))
