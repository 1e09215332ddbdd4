"""Random samples for each tree, drawn so that a resumed training draws the same as one that was never stopped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gainful.data.dataset import RankingData
from gainful.data.rows import Array
from gainful.errors import ParameterError

# LightGBM's settings with which a tree depends on more than its number and the trees before it; a share of 1 is fine.
SHARES = ("feature_fraction_bynode", "sub_feature_bynode", "colsample_bynode", "pos_bagging_fraction", "pos_sub_row",
          "pos_subsample", "pos_bagging", "neg_bagging_fraction", "neg_sub_row", "neg_subsample",
          "neg_bagging")  # fmt: skip
UNRESUMABLE = ("extra_trees", "extra_tree", "data_sample_strategy", "boosting", "boosting_type", "boost",
               "use_quantized_grad", "linear_tree", "linear_trees", "cegb_penalty_split", "cegb_penalty_feature_lazy",
               "cegb_penalty_feature_coupled")  # fmt: skip
LIGHTGBM_EPSILON = float(np.float32(1e-15))
OFF = (None, False, 0, "gbdt", "gbrt", "bagging")


def refuse_unresumable(engine_params: Mapping[str, Any] | None, owner: str) -> None:
    """Raise for settings with which a resumed training would grow different trees."""
    for name, value in (engine_params or {}).items():
        if (name in SHARES and value != 1) or (name in UNRESUMABLE and value not in OFF):
            raise ParameterError(
                f"engine_params of {owner} sets {name}={value!r}, with which LightGBM cannot resume from a checkpoint "
                "as if it had never stopped; leave it out, or train without checkpoint"
            )


class QuerySample:
    """A share of the queries, drawn for each tree from a seed and the number of the tree.

    gainful draws for LightGBM: its own ``bagging_by_query`` (4.7) gives wrong scores of the training rows for shares
    above one half, and has no effect with a custom objective. Documents of queries that are not drawn add nothing to
    sums, but do count as documents of a leaf.
    """

    def __init__(self, data: RankingData, share: float, seed: int):
        self.counts, self.n_queries = data.counts, data.n_queries
        self.n_drawn, self.seed = max(1, round(share * data.n_queries)), seed

    def rows(self, tree: int) -> Array:
        """1 for the rows whose query is drawn, else 0."""
        drawn = np.zeros(self.n_queries)
        drawn[np.random.default_rng([self.seed, tree]).permutation(self.n_queries)[: self.n_drawn]] = 1.0
        return np.repeat(drawn, self.counts)


def replace_bagging(params: dict[str, Any], data: RankingData) -> tuple[dict[str, Any], QuerySample | None]:
    """LightGBM's parameters without its sampling of queries, and our sample instead."""
    if not params.get("bagging_by_query"):
        return params, None
    rest = {name: value for name, value in params.items() if not name.startswith("bagging_")}
    return rest, QuerySample(data, float(params["bagging_fraction"]), int(params["seed"]))


def never_all_one(weights: Array) -> Array:
    """Weights that LightGBM keeps: it would drop weights that are all 1, and its objectives miss later ones."""
    kept = weights.astype(np.float32)
    if (kept == 1.0).all():
        kept[0] = np.nextafter(np.float32(1.0), np.float32(2.0))
    return kept


def n_sampled_models(params: Mapping[str, Any], train: Any, n_models: int) -> int:
    """The number of trees per iteration for which LightGBM draws features, from its own data set.

    Its softmax grows none for a class that has no weight, or all of it.
    """
    if params.get("objective") != "multiclass":
        return n_models
    weights = train.get_weight()
    totals = np.bincount(np.asarray(train.get_label()).astype(np.int64), weights, n_models)
    shares = totals / totals.sum()
    return int(((shares > LIGHTGBM_EPSILON) & (shares < 1.0 - LIGHTGBM_EPSILON)).sum())


def skip_feature_samples(booster: Any, n: int) -> None:
    """Let the booster draw the features of ``n`` trees and discard them.

    LightGBM's generator of feature samples runs on from tree to tree and can be neither read nor set. But any change of
    parameters, even to the same values, makes it draw a sample.
    """
    for _ in range(n):
        booster.reset_parameter({"verbosity": -1})
