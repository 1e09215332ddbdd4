"""One tree on tensors: all rows walk side by side. Imports PyTorch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gainful.trees.xgboost_trees import GrownTree

ROWS = 1 << 20  # that walk together


def leaf_values(tree: GrownTree, X: Tensor) -> Tensor:
    """The leaf that each row of X (float32) reaches, in float64. A leaf is its own child."""
    n, n_leaves = len(tree.feature), len(tree.leaves)
    own = n + np.arange(n_leaves)

    def send(values: object, kind: torch.dtype) -> Tensor:
        return torch.as_tensor(np.asarray(values), dtype=kind, device=X.device)

    feature = send(np.concatenate([tree.feature, np.zeros(n_leaves, dtype=np.int64)]), torch.int64)
    condition = send(np.concatenate([tree.condition, np.zeros(n_leaves, dtype=np.float32)]), torch.float32)
    nan_left = send(np.concatenate([tree.nan_left, np.zeros(n_leaves, dtype=bool)]), torch.bool)
    children = np.column_stack([tree.right, tree.left])
    children = np.concatenate([np.where(children >= 0, children, n - children - 1), np.column_stack([own, own])])
    child = send(children.ravel(), torch.int64)
    value = send(np.concatenate([np.zeros(n), tree.leaves]), torch.float64)
    found, depth = torch.empty(len(X), dtype=torch.float64, device=X.device), tree.depth
    for start in range(0, len(X), ROWS):
        rows = X[start : start + ROWS]
        node = torch.zeros(len(rows), dtype=torch.int64, device=X.device)
        for _ in range(depth):
            x = rows.gather(1, feature[node, None])[:, 0]
            left = (x < condition[node]) | (x.isnan() & nan_left[node])
            node = child[2 * node + left]
        found[start : start + ROWS] = value[node]
    return found
