"""Compiled loops over the trees of an :class:`~gainful.rankers.ensembles.Ensemble`. Loaded on use."""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from numpy import int64, uint64

from gainful.compute.compiled import helper, kernel
from gainful.rankers.ensembles import IS_CATEGORICAL, IS_NAN_LEFT

ROWS = 64  # that walk through one tree before the next
MOST_CATEGORIES = 16_777_216.0  # above, float32 does not have every whole number


@helper
def _goes_left(x, split, threshold, kind, bounds, categories):
    if (kind[split] & IS_CATEGORICAL) == 0:
        return x <= threshold[split] or (x != x and (kind[split] & IS_NAN_LEFT) != 0)
    if x != x:
        return (kind[split] & IS_NAN_LEFT) != 0
    if x < 0.0 or x >= MOST_CATEGORIES:
        return False
    wanted, low, high = int(x), bounds[split], bounds[split + 1]
    while low < high:
        middle = (low + high) // 2
        if categories[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low < bounds[split + 1] and categories[low] == wanted


@kernel
def add_outputs(X, lo, hi, roots, feature, threshold, kind, children, bounds, categories, leaves, sums):
    """sums[i, t mod n_sums] += the leaf of tree t that row i reaches, for trees without categories.

    Which way a row goes cannot be foretold, so there is no branch: the comparison is part of the place of the child.
    """
    n_sums = sums.shape[1]
    for start in range(lo, hi, ROWS):
        end = start + ROWS if start + ROWS < hi else hi
        for t in range(len(roots)):
            for i in range(start, end):
                node = roots[t]
                while node >= 0:
                    at = uint64(node)
                    x = X[uint64(i), uint64(feature[at])]
                    left = (x <= threshold[at]) | ((x != x) & ((kind[at] & IS_NAN_LEFT) != 0))
                    node = int64(children[uint64(2 * node + 1 - left)])
                sums[i, t % n_sums] += leaves[-node - 1]


@kernel
def add_outputs_by_category(X, lo, hi, roots, feature, threshold, kind, children, bounds, categories, leaves, sums):
    """The same for trees with categories."""
    n_sums = sums.shape[1]
    for start in range(lo, hi, ROWS):
        end = start + ROWS if start + ROWS < hi else hi
        for t in range(len(roots)):
            for i in range(start, end):
                node = roots[t]
                while node >= 0:
                    left = _goes_left(X[i, feature[node]], node, threshold, kind, bounds, categories)
                    node = int64(children[2 * node + 1 - left])
                sums[i, t % n_sums] += leaves[-node - 1]


@kernel
def add_contributions(
    X, lo, hi, roots, feature, threshold, kind, children, bounds, categories, leaves,
    first_split, first_leaf, above_split, above_leaf, cover, points, weights, most, out,
):  # fmt: skip
    """SHAP values, leaf by leaf.

    The features on the way to a leaf play a game of products: known, feature j gives o_j (1 if the row takes the way, 0
    if not), unknown z_j, the share of the training data that takes it. The Shapley value of j is
    leaf·(o_j − z_j)·∫₀¹ Π_{k≠j} ((1 − t) z_k + t o_k) dt, a polynomial, which Gauss's rule integrates exactly.
    """
    n_features, n_sums = X.shape[1], out.shape[1]
    held = np.empty(len(feature))  # cover of each split
    went_left = np.empty(len(feature), dtype=np.bool_)
    on_path = np.empty(most, dtype=np.int64)
    unknown, known = np.empty(most), np.empty(most)
    for t in range(len(roots)):
        for split in range(first_split[t], first_split[t + 1]):
            held[split] = 0.0
        for leaf in range(first_leaf[t], first_leaf[t + 1]):
            up = above_leaf[leaf]
            while up >= 0:
                held[up // 2] += cover[leaf]
                up = above_split[up // 2]
    for i in range(lo, hi):
        for t in range(len(roots)):
            for split in range(first_split[t], first_split[t + 1]):
                went_left[split] = _goes_left(X[i, feature[split]], split, threshold, kind, bounds, categories)
            s = t % n_sums
            for leaf in range(first_leaf[t], first_leaf[t + 1]):
                n, up, below, base = 0, above_leaf[leaf], cover[leaf], leaves[leaf]
                while up >= 0:
                    split = up // 2
                    share = below / held[split] if held[split] > 0.0 else 0.5
                    takes = 1.0 if went_left[split] == (up % 2 == 0) else 0.0
                    base *= share
                    j = 0
                    while j < n and on_path[j] != feature[split]:
                        j += 1
                    if j == n:
                        on_path[n] = feature[split]
                        unknown[n], known[n] = share, takes
                        n += 1
                    else:
                        unknown[j] *= share
                        known[j] *= takes
                    below, up = held[split], above_split[split]
                out[i, s, n_features] += base
                for q in range(len(points)):
                    product = leaves[leaf] * weights[q]
                    for j in range(n):
                        product *= (1.0 - points[q]) * unknown[j] + points[q] * known[j]
                    for j in range(n):
                        factor = (1.0 - points[q]) * unknown[j] + points[q] * known[j]
                        if factor > 0.0:  # a share may be 0
                            out[i, s, on_path[j]] += (known[j] - unknown[j]) * product / factor
