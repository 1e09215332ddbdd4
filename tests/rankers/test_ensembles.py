"""Trees as arrays: scores by a walk node by node, contributions by the definition of Shapley values."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import sparse

from gainful import DataError
from gainful.rankers.ensembles import Ensemble, Tree
from gainful.rankers.scorers import Expectation

N_FEATURES = 4


def random_tree(rng, n_leaves):
    """A tree grown by splitting a random leaf again and again; feature 3 is categorical."""
    n = n_leaves - 1
    left, right, open_leaves = np.full(n, -1), np.full(n, -1), [(-1, 0)]
    for split in range(n):
        parent, side = open_leaves.pop(int(rng.integers(len(open_leaves))))
        if parent >= 0:
            (left if side == 0 else right)[parent] = split
        open_leaves += [(split, 0), (split, 1)]
    for leaf, (parent, side) in enumerate(open_leaves):
        if parent >= 0:
            (left if side == 0 else right)[parent] = -leaf - 1
    feature = rng.integers(0, N_FEATURES, n)
    sets = {
        int(s): tuple(sorted(rng.choice(8, int(rng.integers(0, 5)), replace=False).tolist()))
        for s in np.flatnonzero(feature == 3)
    }
    threshold = np.where(feature == 3, 0.0, rng.integers(-3, 4, n) / 2).astype(np.float32)
    cover = rng.integers(0, 6, n_leaves).astype(float)
    cover[0] += 1.0
    return Tree(feature, threshold, rng.random(n) < 0.5, left, right, rng.normal(size=n_leaves), sets, cover)


def random_rows(rng, n):
    X = rng.integers(-4, 5, (n, N_FEATURES)) / 2
    X[:, 3] = rng.choice([0, 1, 2, 5, 7, 9, -1, 2.5, 1e9], n)
    X[rng.random(X.shape) < 0.2] = np.nan
    return X


def goes_left(tree, split, row):
    x = row[tree.feature[split]]
    if math.isnan(x):
        return bool(tree.nan_left[split])
    if split in tree.categories:
        return x >= 0 and int(x) in tree.categories[split]
    return x <= tree.threshold[split]


def walk(tree, row):
    node = 0 if tree.n_splits else -1
    while node >= 0:
        node = int(tree.left[node] if goes_left(tree, node, row) else tree.right[node])
    return tree.leaves[-node - 1]


def covers(tree, node):
    return tree.cover[-node - 1] if node < 0 else covers(tree, tree.left[node]) + covers(tree, tree.right[node])


def value(tree, row, known, node):
    """The expected leaf if only these features are known: others take both ways, by cover."""
    if node < 0:
        return tree.leaves[-node - 1]
    left, right = int(tree.left[node]), int(tree.right[node])
    if tree.feature[node] in known:
        return value(tree, row, known, left if goes_left(tree, node, row) else right)
    here, share = covers(tree, node), 0.5
    if here > 0:
        share = covers(tree, left) / here
    return share * value(tree, row, known, left) + (1 - share) * value(tree, row, known, right)


def shapley(tree, row):
    root = 0 if tree.n_splits else -1
    parts = np.zeros(N_FEATURES + 1)
    parts[-1] = value(tree, row, (), root)
    for j in range(N_FEATURES):
        others = [k for k in range(N_FEATURES) if k != j]
        for size in range(N_FEATURES):
            weight = math.factorial(size) * math.factorial(N_FEATURES - size - 1) / math.factorial(N_FEATURES)
            for known in itertools.combinations(others, size):
                parts[j] += weight * (value(tree, row, (*known, j), root) - value(tree, row, known, root))
    return parts


@pytest.mark.parametrize("seed", range(6))
def test_scores_and_contributions_follow_their_definitions(seed):
    rng = np.random.default_rng(seed)
    trees = tuple(random_tree(rng, int(n)) for n in (1, 2, 5, 12, 20))
    ensemble, X = Ensemble(trees, N_FEATURES), random_rows(rng, 40)
    expected = [sum(walk(tree, row) for tree in trees) for row in X]
    np.testing.assert_allclose(ensemble.scores(X), expected, atol=1e-12)
    np.testing.assert_allclose(ensemble.scores(sparse.csr_array(np.nan_to_num(X))), ensemble.scores(np.nan_to_num(X)))
    parts = ensemble.contributions(X)
    for row, found in zip(X[:8], parts, strict=False):
        np.testing.assert_allclose(found, sum(shapley(tree, row) for tree in trees), atol=1e-12)


def test_several_sums_go_through_the_link():
    rng = np.random.default_rng(0)
    trees = tuple(random_tree(rng, 6) for _ in range(9))
    link = Expectation("softmax", np.array([0.0, 1.0, 3.0]), np.zeros(3))
    ensemble, X = Ensemble(trees, N_FEATURES, 3, link), random_rows(rng, 30)
    sums = np.array([[sum(walk(tree, row) for tree in trees[k::3]) for k in range(3)] for row in X])
    odds = np.exp(sums)
    np.testing.assert_allclose(ensemble.scores(X), odds @ [0, 1, 3] / odds.sum(axis=1))
    np.testing.assert_allclose(ensemble.contributions(X).sum(axis=1), ensemble.scores(X))


def test_blocks_and_threads_change_nothing(monkeypatch):
    rng = np.random.default_rng(1)
    ensemble, X = Ensemble(tuple(random_tree(rng, 9) for _ in range(7)), N_FEATURES), random_rows(rng, 333)
    scores, parts = ensemble.scores(X), ensemble.contributions(X)
    monkeypatch.setattr("gainful.rankers.ensembles.BLOCK_CELLS", 200)
    monkeypatch.setattr("gainful.rankers.ensembles.STEPS_PER_THREAD", 1)
    assert np.array_equal(ensemble.scores(X), scores)
    assert np.array_equal(ensemble.contributions(X), parts)


def test_very_deep_trees_have_finite_contributions():
    n = 3000  # one feature again and again: its share underflows
    left, right = np.arange(1, n + 1), -np.arange(1, n + 1)
    left[-1], right[-1] = -n, -n - 1
    tree = Tree(np.zeros(n, dtype=int), np.linspace(1, 0, n), np.zeros(n, dtype=bool), left, right, np.ones(n + 1))
    ensemble = Ensemble((tree,), 1)
    X = np.array([[-1.0], [0.5], [2.0]])
    np.testing.assert_allclose(ensemble.contributions(X).sum(axis=1), ensemble.scores(X))


def test_numbers_beyond_float32_are_refused():
    ensemble = Ensemble((random_tree(np.random.default_rng(0), 4),), N_FEATURES)
    with pytest.raises(DataError, match="float32"):
        ensemble.scores(np.full((1, N_FEATURES), 1e200))
