"""What is drawn at random for each tree, so that a training that was stopped draws the same as one that was not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gainful.data.dataset import RankingData
from gainful.data.rows import Array
from gainful.errors import ParameterError

# LightGBM's settings under which a tree depends on more than its number and the trees before it; shares of 1 do not.
SHARES = ("feature_fraction_bynode", "sub_feature_bynode", "colsample_bynode", "pos_bagging_fraction", "pos_sub_row",
          "pos_subsample", "pos_bagging", "neg_bagging_fraction", "neg_sub_row", "neg_subsample",
          "neg_bagging")  # fmt: skip
NOT_RESUMED = ("extra_trees", "extra_tree", "data_sample_strategy", "boosting", "boosting_type", "boost",
               "use_quantized_grad", "linear_tree", "linear_trees", "cegb_penalty_split", "cegb_penalty_feature_lazy",
               "cegb_penalty_feature_coupled")  # fmt: skip
LIGHTGBM_EPSILON = float(np.float32(1e-15))
OFF = (None, False, 0, "gbdt", "gbrt", "bagging")


def refuse_not_resumed(engine_params: Mapping[str, Any] | None, owner: str) -> None:
    """Raise for settings with which a resumed training would grow other trees."""
    for name, value in (engine_params or {}).items():
        if (name in SHARES and value != 1) or (name in NOT_RESUMED and value not in OFF):
            raise ParameterError(
                f"engine_params of {owner} sets {name}={value!r}, with which LightGBM cannot go on from a checkpoint "
                "as if it had never stopped; leave it out, or train without checkpoint"
            )


class QuerySample:
    """A share of the queries, drawn anew for each tree from a seed and the number of the tree.

    gainful draws for LightGBM: its own ``bagging_by_query`` (seen in 4.7) ends in wrong scores of the training rows for
    shares above one half, and leaves out nothing where the gradients come from outside. Documents of queries that are
    not drawn count for nothing in sums, but do count as documents of a leaf.
    """

    def __init__(self, data: RankingData, share: float, seed: int):
        self.counts, self.n_queries = data.counts, data.n_queries
        self.n_drawn, self.seed = max(1, round(share * data.n_queries)), seed

    def rows(self, tree: int) -> Array:
        """1 for the rows whose query is drawn, else 0."""
        drawn = np.zeros(self.n_queries)
        drawn[np.random.default_rng([self.seed, tree]).permutation(self.n_queries)[: self.n_drawn]] = 1.0
        return np.repeat(drawn, self.counts)


def taken_from(params: dict[str, Any], data: RankingData) -> tuple[dict[str, Any], QuerySample | None]:
    """LightGBM's parameters without its sampling of queries, and ours instead of it."""
    if not params.get("bagging_by_query"):
        return params, None
    rest = {name: value for name, value in params.items() if not name.startswith("bagging_")}
    return rest, QuerySample(data, float(params["bagging_fraction"]), int(params["seed"]))


def never_all_one(weights: Array) -> Array:
    """Weights as LightGBM keeps them: it forgets those that are all 1, and with them where its objectives look."""
    kept = weights.astype(np.float32)
    if (kept == 1.0).all():
        kept[0] = np.nextafter(np.float32(1.0), np.float32(2.0))
    return kept


def n_models_drawn_for(params: Mapping[str, Any], train: Any, n_models: int) -> int:
    """The trees of an iteration that LightGBM draws features for, from its own data set.

    Its softmax grows none for a class that has no weight, or all of it.
    """
    if params.get("objective") != "multiclass":
        return n_models
    weights = train.get_weight()
    totals = np.bincount(np.asarray(train.get_label()).astype(np.int64), weights, n_models)
    shares = totals / totals.sum()
    return int(((shares > LIGHTGBM_EPSILON) & (shares < 1.0 - LIGHTGBM_EPSILON)).sum())


def pass_feature_samples(booster: Any, n: int) -> None:
    """Let the booster draw and forget the features of ``n`` trees.

    LightGBM's generator of feature samples goes on from tree to tree and can be neither read nor set. But a change of
    parameters, even to what they are, makes it draw a sample.
    """
    for _ in range(n):
        booster.reset_parameter({"verbosity": -1})
