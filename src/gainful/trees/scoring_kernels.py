"""Compiled loop over the trees of :mod:`gainful.trees.scoring`. Loaded on use."""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from numpy import uint64

from gainful.compute.compiled import helper, kernel
from gainful.trees.scoring import NAN_AS_ZERO, NAN_LEFT, ZERO_LEFT, ZERO_RIGHT
from gainful.trees.tree_text import ZERO_BAND

LANES = 16  # walks that go on side by side, so that one need not wait for the loads of another
ENOUGH_ROWS = 8  # from here on the lanes are rows of one tree; with fewer they are trees of one row


@helper
def _seen(x, rule):
    """The value that a split by ``rule`` compares with its threshold: NaN goes right, −∞ left."""
    zero = -ZERO_BAND <= x <= ZERO_BAND
    missing = x != x
    if rule == NAN_AS_ZERO:
        return 0.0 if zero or missing else x
    if rule == ZERO_LEFT:
        return -np.inf if zero or missing else x
    if rule == ZERO_RIGHT:
        return np.nan if zero or missing else x
    if rule == NAN_LEFT and missing:
        return -np.inf
    return 0.0 if zero else x


@kernel
def add_trees(X, lo, hi, view_feature, view_rule, roots, depths, view, threshold, children, value, sums):
    """sums[i, t mod n_sums] += the leaf of tree t that row i reaches, tree by tree.

    A leaf is its own child, so all lanes take as many steps as the deepest tree needs, and nothing depends on where a
    row goes but the address of the next load.
    """
    n_views, n_trees, n_sums = len(view_feature), len(roots), sums.shape[1]
    seen = np.empty((LANES, n_views))
    node = np.empty(LANES, dtype=np.int64)
    for start in range(lo, hi, LANES):
        n_rows = LANES if start + LANES < hi else hi - start
        for r in range(n_rows):
            for v in range(n_views):
                seen[r, v] = _seen(X[start + r, view_feature[v]], view_rule[v])
        if n_rows >= ENOUGH_ROWS:
            for t in range(n_trees):
                for r in range(n_rows):
                    node[r] = roots[t]
                for _ in range(depths[t]):
                    for r in range(uint64(n_rows)):
                        at = uint64(node[r])
                        right = uint64(not seen[r, uint64(view[at])] <= threshold[at])
                        node[r] = children[uint64(2) * at + right]
                for r in range(n_rows):
                    sums[start + r, t % n_sums] += value[node[r]]
        else:
            for r in range(n_rows):
                for first in range(0, n_trees, LANES):
                    n_lanes = LANES if first + LANES < n_trees else n_trees - first
                    deepest = 0
                    for lane in range(n_lanes):
                        node[lane] = roots[first + lane]
                        if depths[first + lane] > deepest:
                            deepest = depths[first + lane]
                    for _ in range(deepest):
                        for lane in range(uint64(n_lanes)):
                            at = uint64(node[lane])
                            right = uint64(not seen[uint64(r), uint64(view[at])] <= threshold[at])
                            node[lane] = children[uint64(2) * at + right]
                    for lane in range(n_lanes):
                        sums[start + r, (first + lane) % n_sums] += value[node[lane]]
