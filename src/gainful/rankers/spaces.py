"""Search spaces that several rankers share."""

from __future__ import annotations

from types import MappingProxyType

from gainful.parameters.space import IntRange, Range, Space, Values

C_RANGE = Range(
    1e-2, 1e4, log=True, why="the papers' grids are powers of ten; below, no weight moves; above, the penalty is gone"
)

TREE_SPACE: Space = MappingProxyType(
    {
        "learning_rate": Range(0.01, 0.3, log=True, why="slower steps rank better until the trees run out"),
        "n_leaves": IntRange(4, 64, log=True, why="few features or queries want small trees, large logs larger ones"),
        "min_docs_in_leaf": IntRange(5, 300, log=True, why="some thousand rows overfit in small leaves"),
        "colsample": Range(0.3, 1.0, why="features of search engines are near copies of each other"),
        "subsample": Range(0.5, 1.0, why="trees on different queries agree less and average better"),
        "l2": Range(1e-3, 100.0, log=True, why="holds back leaves of few documents"),
    }
)

SMOOTH_DCG_SPACE: Space = MappingProxyType(
    {
        "alpha": Range(0.5, 4.0, log=True, why="flat sigmoids see all pairs, steep ones those about to swap"),
        "k": Values(10, 20, 40, None, why="how far down the list a document still counts"),
        "regression": Range(0.03, 0.5, log=True, why="of reg-shf: how much the squared error holds on to the grades"),
        "min_docs_in_leaf": IntRange(20, 200, log=True, why="its gradients are noisier than those of pairs"),
        "colsample": Range(0.2, 1.0, why="features of search engines are near copies of each other"),
        "n_leaves": IntRange(4, 16, log=True, why="large trees follow a measure that is flat nearly everywhere"),
        "learning_rate": Range(0.02, 0.1, log=True, why="slower steps rank better until the trees run out"),
    }
)

GBRANK_SPACE: Space = MappingProxyType(
    {"tau": Range(0.1, 3.0, log=True, why="the margin, in units of what a few trees can move a score"), **TREE_SPACE}
)

NET_SPACE: Space = MappingProxyType(
    {
        "learning_rate": Range(1e-4, 1e-1, log=True, why="the one that decides whether a net learns at all"),
        "weight_decay": Range(1e-6, 1e-1, log=True, why="small data overfits"),
        "dropout": Values(0.0, 0.1, 0.3, 0.5, why="the usual ones"),
    }
)
