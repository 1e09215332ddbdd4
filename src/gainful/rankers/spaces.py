"""Search spaces shared by several rankers."""

from __future__ import annotations

from types import MappingProxyType

from gainful.parameters.space import IntRange, Range, Space, Values

C_RANGE = Range(
    1e-2,
    1e4,
    log=True,
    why="the papers use powers of ten; below this range no weight moves, above it the penalty has no effect",
)

TREE_SPACE: Space = MappingProxyType(
    {
        "learning_rate": Range(0.01, 0.3, log=True, why="smaller steps rank better as long as there are enough trees"),
        "n_leaves": IntRange(4, 64, log=True, why="small data needs small trees, large logs need larger ones"),
        "min_docs_in_leaf": IntRange(5, 300, log=True, why="a few thousand rows overfit in small leaves"),
        "colsample": Range(0.3, 1.0, why="features of search engines are nearly copies of each other"),
        "subsample": Range(0.5, 1.0, why="trees on different queries are less alike and average better"),
        "l2": Range(1e-3, 100.0, log=True, why="shrinks leaves with few documents"),
    }
)

SMOOTH_DCG_SPACE: Space = MappingProxyType(
    {
        "alpha": Range(1.0, 8.0, log=True, why="flat sigmoids see all pairs, steep ones only pairs about to swap"),
        "least_spread": Values(
            0.0, 0.05, 0.15, 0.5, why="clean data want 0; noisy data want the first trees to see all pairs"
        ),
        "beta": Range(0.1, 1.0, log=True, why="a steep cut-off leaves a gradient to the few documents near it"),
        "k": Values(10, 20, 40, None, why="how far down the list a document still counts"),
        "regression": Range(0.03, 3.0, log=True, why="for reg-shf: the weight of the squared error on the grades"),
        "min_docs_in_leaf": IntRange(20, 200, log=True, why="its gradients are noisier than pairwise ones"),
        "colsample": Range(0.2, 1.0, why="features of search engines are nearly copies of each other"),
        "n_leaves": IntRange(4, 16, log=True, why="the measure is flat almost everywhere, and large trees overfit it"),
        "learning_rate": Range(0.02, 0.1, log=True, why="smaller steps rank better as long as there are enough trees"),
    }
)

GBRANK_SPACE: Space = MappingProxyType(
    {"tau": Range(0.1, 3.0, log=True, why="the margin, relative to how far a few trees move a score"), **TREE_SPACE}
)

NET_SPACE: Space = MappingProxyType(
    {
        "learning_rate": Range(1e-4, 1e-1, log=True, why="decides whether a net learns at all"),
        "weight_decay": Range(1e-6, 1e-1, log=True, why="small data overfits"),
        "dropout": Values(0.0, 0.1, 0.3, 0.5, why="common values"),
    }
)

LIST_NET_SPACE: Space = MappingProxyType(
    {
        "learning_rate": Range(1e-3, 3e-2, log=True, why="decides whether a net learns at all"),
        "noise": Values(0.0, 0.1, 0.3, 0.6, why="small data overfits, and noise makes more of it"),
        "dropout": Values(0.0, 0.1, 0.3, 0.5, why="common values"),
        "blocks": Values(1, 2, why="more rarely help on features that are numbers"),
    }
)
