"""XGBoost's model files, JSON and UBJSON: boosted trees (gbtree, dart) and linear models (gblinear).

XGBoost computes in float32: x < condition goes left, a missing value where ``default_left`` says. Where a split has
categories, those go right, and every other value left. Leaves of dart are multiplied by the weight of their tree; since
version 3.4 dart is a gbtree with such weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from gainful.data.categories import Categories, check_categories
from gainful.data.rows import Array
from gainful.errors import shorten
from gainful.foreign.checks import MOST_FEATURES, BadModelError, count, feature_names, member, numbers, parse_json, real
from gainful.foreign.members import ANY, check_members, notes_on_version, table
from gainful.foreign.nodes import Nodes, less_than, turn_empty_splits
from gainful.foreign.rankers import ImportedLinear, ImportedTrees, expected_class
from gainful.foreign.ubjson import Reader
from gainful.rankers.base import Ranker
from gainful.rankers.ensembles import Ensemble, Tree

MOST_CLASSES = 10_000
LOGIT = ("binary:logistic", "reg:logistic")
LOG = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft")
CLASSES = ("multi:softprob", "multi:softmax")
PLAIN = (
    "rank:ndcg", "rank:pairwise", "rank:map", "reg:squarederror", "reg:linear", "reg:squaredlogerror",
    "reg:absoluteerror", "reg:pseudohubererror", "reg:quantileerror", "binary:logitraw", "binary:hinge",
)  # fmt: skip
LEAST_CHANCE = np.float32(1e-6)  # XGBoost's own bound of base_score as a probability

# The members of XGBoost's files, since version 1.0. It refuses a file whose numbers of trees or nodes disagree
TREE = table(
    "left_children right_children split_indices split_conditions split_type default_left sum_hessian categories "
    "categories_nodes categories_segments categories_sizes",
    "id parents base_weights loss_changes leaf_child_counts leaf_weights",
    tree_param=table("size_leaf_vector", "num_nodes num_deleted num_feature"),
)
TREES = table(
    "tree_info",
    "iteration_indptr",
    trees=TREE,
    gbtree_model_param=table("", "num_trees num_parallel_tree size_leaf_vector"),
    cats=table("", "feature_segments sorted_idx", enc=table("values offsets", "type")),
)
BOOSTERS = {
    "gbtree": table("name", model=TREES | table("weight_drop")),
    "dart": table("name weight_drop", gbtree={"name": ("gbtree",), "model": TREES}),
    "gblinear": table("name", model=table("weights boosted_rounds")),
}
SETTINGS = table(  # of objectives, all of them for training
    "",
    "lambdarank_pair_method lambdarank_num_pair_per_sample lambdarank_unbiased lambdarank_bias_norm ndcg_exp_gain "
    "lambdarank_normalization lambdarank_score_normalization num_pairsample fix_list_weight scale_pos_weight num_class "
    "max_delta_step tweedie_variance_power huber_slope quantile_alpha aft_loss_distribution "
    "aft_loss_distribution_scale",
)
OBJECTIVE = table("name", "ti+ tj-") | dict.fromkeys(
    ("lambdarank_param", "lambda_rank_param", "reg_loss_param", "softmax_multiclass_param", "poisson_regression_param",
     "tweedie_regression_param", "pseudo_huber_param", "quantile_loss_param", "aft_loss_param"), SETTINGS,
)  # fmt: skip
LEARNER = table("feature_names", "feature_types", objective=OBJECTIVE, attributes=table("best_iteration", ANY))
LEARNER["learner_model_param"] = table("base_score num_feature num_class num_target", "boost_from_average")
MEMBERS = {kind: table("version", learner=LEARNER | {"gradient_booster": own}) for kind, own in BOOSTERS.items()}


def read_json(raw: bytes) -> Ranker:
    return read_model(parse_json(raw))


def read_ubjson(raw: bytes) -> Ranker:
    return read_model(Reader(raw).read())


def read_model(model: Any) -> Ranker:
    """The ranker of a model file that was parsed already."""
    learner = member(model, "learner", Mapping)
    params, booster = member(learner, "learner_model_param", Mapping), member(learner, "gradient_booster", Mapping)
    objective = str(member(member(learner, "objective", Mapping), "name", str))
    if objective not in (*PLAIN, *LOGIT, *LOG, *CLASSES):
        raise BadModelError(f"its objective {shorten(objective, 40)} is not one that gainful knows")
    kind = member(booster, "name", str)
    if kind not in MEMBERS:
        raise BadModelError(
            f"it is a {shorten(kind, 40)}; trees (gbtree, dart) and linear models (gblinear) can be read"
        )
    check_members("XGBoost", model, MEMBERS[kind])
    n_features = count(member(params, "num_feature"), "num_feature", 1, MOST_FEATURES)
    n_classes = count(params.get("num_class", "0"), "num_class", 0, MOST_CLASSES)
    if count(params.get("num_target", "1"), "num_target", 1, MOST_CLASSES) > 1:
        raise BadModelError("it predicts several targets; a ranker has one score")
    if n_classes > 1 and objective not in CLASSES:
        raise BadModelError(f"its objective {objective} has several classes; a ranker has one score")
    base = _margins(member(params, "base_score"), objective, max(1, n_classes))
    names = feature_names(learner.get("feature_names", []), n_features, "f{}")
    version = ".".join(map(str, numbers(member(model, "version"), "version", np.int64, 3).tolist()))
    notes = _notes(objective, learner) + notes_on_version("XGBoost", version)
    about = {"maker": f"XGBoost {version}", "objective": objective, "notes": notes}
    if kind == "gblinear":
        return _linear(booster, n_features, names, base, about)
    trees = _trees(booster, kind, n_features, len(base))
    trees += [Tree.constant(value) for value in base] if base.any() else []
    link = expected_class(np.arange(n_classes)) if n_classes > 1 else None
    made = ImportedTrees.of_ensemble(Ensemble(tuple(trees), n_features, len(base), link), names, about)
    made.categories_ = _words(_model(booster, kind).get("cats"), n_features)
    return made


def _notes(objective: str, learner: Mapping[str, Any]) -> list[str]:
    notes = []
    if objective in CLASSES:
        notes.append("scores are expected classes, from the probabilities that XGBoost predicts")
    elif objective.startswith("binary:") or objective in (*LOGIT, *LOG):
        notes.append("scores are XGBoost's margins (output_margin=True), which rank as its predictions do")
    attributes = learner.get("attributes", {})
    if isinstance(attributes, Mapping) and "best_iteration" in attributes:
        notes.append("all trees count, as in Booster.predict; XGBRanker.predict stops at the best iteration")
    return notes


def _margins(text: Any, objective: str, n_outputs: int) -> Array:
    """Where the sums start: base_score, through the inverse of the objective's link."""
    parts = str(text).strip("[]").split(",")
    base = np.array([real(part, "base_score") for part in parts], dtype=np.float32).astype(np.float64)
    if len(base) == 1:
        base = np.repeat(base, n_outputs)
    if len(base) != n_outputs:
        raise BadModelError(f"base_score has {len(base)} values for {n_outputs} sums")
    if objective in LOGIT:
        one = np.float32(1.0)
        chance = np.clip(base.astype(np.float32), LEAST_CHANCE, one - LEAST_CHANCE)
        return np.asarray(-np.log(one / chance - one), dtype=np.float64)
    if objective in LOG:
        if base[0] <= 0.0:
            raise BadModelError("base_score is not positive, so that every score is infinite")
        return np.log(base)
    return base


# -- trees -------------------------------------------------------------------------------------------------------------


def _model(booster: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    model: Mapping[str, Any] = member(
        member(booster, "gbtree", Mapping) if kind == "dart" else booster, "model", Mapping
    )
    return model


def _words(cats: Any, n_features: int) -> Categories | None:
    """The categories of a frame, by feature: words one after another in UTF-8, or numbers. Older versions have none."""
    if not isinstance(cats, Mapping) or not len(encoded := member(cats, "enc", list)):
        return None
    if len(encoded) != n_features:
        raise BadModelError("its categories are not one entry per feature")
    found: list[list[str] | None] = []
    for one in encoded:
        dtype = np.float64 if "offsets" not in one else np.int64
        values = numbers(member(one, "values"), "values", dtype)
        if "offsets" not in one:
            found.append([f"{value:.15g}" for value in values.tolist()])
            continue
        ends = numbers(member(one, "offsets"), "offsets", np.int64)
        if len(ends) and (ends[0] != 0 or ends[-1] != len(values) or (np.diff(ends) < 0).any()):
            raise BadModelError("the words of a category do not fit together")
        if len(values) and not 0 <= values.min() <= values.max() < 128:
            raise BadModelError(
                "its categories have words with letters beyond ASCII, which XGBoost cuts short; train it with codes"
            )
        raw = values.astype(np.uint8).tobytes()
        found.append([raw[start:end].decode() for start, end in pairwise(ends.tolist())] or None)
    return check_categories(found, n_features)


def _trees(booster: Mapping[str, Any], kind: str, n_features: int, n_outputs: int) -> list[Tree]:
    """All trees; tree i is of output i mod ``n_outputs``."""
    model = _model(booster, kind)
    found = [_tree(tree, n_features) for tree in member(model, "trees", list)]
    if kind == "dart" or "weight_drop" in model:
        given = member(booster if kind == "dart" else model, "weight_drop")
        weights = numbers(given, "weight_drop", np.float64, len(found))
        found = [replace(tree, leaves=tree.leaves * weight) for tree, weight in zip(found, weights, strict=True)]
    outputs = numbers(member(model, "tree_info"), "tree_info", np.int64, len(found))
    if len(outputs) and not 0 <= outputs.min() <= outputs.max() < n_outputs:
        raise BadModelError("a tree is of a class that is not there")
    return in_turns(found, outputs.tolist(), n_outputs)


def in_turns(trees: list[Tree], outputs: list[int], n_outputs: int) -> list[Tree]:
    """The trees in an order in which tree i is of output i mod ``n_outputs``, filled up with trees that add nothing."""
    queues = [[tree for tree, output in zip(trees, outputs, strict=True) if output == k] for k in range(n_outputs)]
    longest = max(map(len, queues))
    return [queue[i] if i < len(queue) else Tree.constant(0.0) for i in range(longest) for queue in queues]


def _tree(tree: Any, n_features: int) -> Tree:
    left = numbers(member(tree, "left_children"), "left_children", np.int64)
    n = len(left)
    if count(member(member(tree, "tree_param", Mapping), "size_leaf_vector"), "size_leaf_vector", 0, 2**31) > 1:
        raise BadModelError("its leaves hold several values (multi_output_tree); a ranker has one score")
    right = numbers(member(tree, "right_children"), "right_children", np.int64, n)
    feature = numbers(member(tree, "split_indices"), "split_indices", np.int64, n)
    conditions = _singles(member(tree, "split_conditions"), "split_conditions", n)
    nan_left = numbers(member(tree, "default_left"), "default_left", np.int64, n) != 0
    cover = _singles(member(tree, "sum_hessian"), "sum_hessian", n)
    inner = left != -1
    if (feature[inner] < 0).any() or (feature[inner] >= n_features).any():
        raise BadModelError("a tree splits a feature that is not there")
    if not np.isfinite(conditions[~inner]).all():
        raise BadModelError("a leaf is not a finite number")
    if (right[inner] != left[inner] + 1).any():
        raise BadModelError("the children of a split are not neighbours, as XGBoost takes for granted")
    categories = _categories(tree, inner)
    conditions[list(categories)] = 0.0  # they have none; older versions write NaN
    if np.isnan(conditions).any():
        raise BadModelError("split_conditions holds missing numbers")
    thresholds = np.where(inner, less_than(conditions), np.float32(0.0))
    for node in categories:  # XGBoost's right is our left
        nan_left[node] = not nan_left[node]
        left[node], right[node] = right[node], left[node]
    nodes = Nodes(left.tolist(), right.tolist(), feature, thresholds, nan_left, conditions, cover, categories)
    turn_empty_splits(nodes)
    return nodes.tree()


def _singles(values: Any, name: str, n: int) -> Array:
    """Float32, which may be infinite or missing."""
    found = np.asarray(values)
    if found.ndim != 1 or len(found) != n or (n and found.dtype.kind not in "iuf"):
        raise BadModelError(f"{name} is not a list of as many numbers as there are nodes")
    with np.errstate(over="ignore"):
        return found.astype(np.float32)


def _categories(tree: Mapping[str, Any], inner: Array) -> dict[int, list[int]]:
    """The categories that go right, by node."""
    n = len(inner)
    types = numbers(tree.get("split_type", np.zeros(n, dtype=np.int64)), "split_type", np.int64, n)
    wanted = set(np.flatnonzero((types == 1) & inner).tolist())
    if not wanted and "categories_nodes" not in tree:
        return {}
    nodes = numbers(member(tree, "categories_nodes"), "categories_nodes", np.int64)
    starts = numbers(member(tree, "categories_segments"), "categories_segments", np.int64, len(nodes))
    sizes = numbers(member(tree, "categories_sizes"), "categories_sizes", np.int64, len(nodes))
    values = numbers(member(tree, "categories"), "categories", np.int64)
    found: dict[int, list[int]] = {}
    for node, start, size in zip(nodes.tolist(), starts.tolist(), sizes.tolist(), strict=True):
        if node in found or not 0 <= start <= start + size <= len(values):
            raise BadModelError("the categories of a tree do not fit together")
        found[node] = values[start : start + size].tolist()
    if not wanted <= set(found):
        raise BadModelError("a split by category has no categories")
    return {node: inside for node, inside in found.items() if node in wanted}


# -- linear models -----------------------------------------------------------------------------------------------------


def _linear(
    booster: Mapping[str, Any], n_features: int, names: tuple[str, ...] | None, base: Array, about: dict[str, Any]
) -> Ranker:
    if len(base) > 1:
        raise BadModelError("it is a linear model of several classes; a ranker has one score")
    model = member(booster, "model", Mapping)
    count(model.get("boosted_rounds", 1), "boosted_rounds", 1, 2**31)  # with none, XGBoost takes base_score otherwise
    weights = numbers(member(model, "weights"), "weights", np.float32, n_features + 1).astype(np.float64)
    return ImportedLinear.of_weights(weights[:-1], float(weights[-1] + base[0]), names, about)
