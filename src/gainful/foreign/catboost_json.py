"""CatBoost's JSON models: symmetric (oblivious) and other trees over float features.

CatBoost rounds features to float32; a value above its border goes right, so x ≤ border goes left. Leaf i of a symmetric
tree is reached by the splits whose bits are set in i. A missing value goes left everywhere, or right everywhere where
the feature ``has_nans`` and its ``nan_value_treatment`` is AsTrue. The score is scale · Σ leaves + bias.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gainful.data.rows import Array
from gainful.errors import shorten
from gainful.foreign.checks import BadModelError, count, feature_names, member, numbers, real
from gainful.foreign.members import ANY, TRIED, check_members, notes_on_version, table
from gainful.foreign.nodes import Nodes, usable_cover
from gainful.foreign.rankers import ImportedTrees, expected_class
from gainful.rankers.base import Ranker
from gainful.rankers.ensembles import Ensemble, Tree

DEEPEST_SYMMETRIC = 16  # CatBoost's limit
MOST_FEATURES = 1_000_000
OTHER_FEATURES = ("categorical_features", "text_features", "embedding_features", "ctrs")
PLACES = ("flat_feature_index", "feature_index")
RELEASE = re.compile(r"tags/v([0-9.]{1,30})")

# The members of CatBoost's files. It finds the border of a split by split_index alone
SPLIT = table("split_type split_index float_feature_index border")
NODE: dict[str, Any] = table("value weight", split=SPLIT)
NODE |= {"left": NODE, "right": NODE}
FEATURE = table("feature_id feature_index flat_feature_index borders has_nans nan_value_treatment", "feature_name")
FEATURES = table("", float_features=FEATURE) | dict.fromkeys((*OTHER_FEATURES, "cat_features_hash"), (None, []))
PARAMS = table("", ANY, loss_function=table("type", ANY))
INFO = table("catboost_version_info", ANY, params=PARAMS, class_params=table("class_names", ANY))
MODEL = table("scale_and_bias", features_info=FEATURES, model_info=INFO, ctr_data=(None, {}))
KINDS = table("", oblivious_trees=table("leaf_values leaf_weights", splits=SPLIT), trees=NODE)
MEMBERS = {kind: MODEL | {kind: own} for kind, own in KINDS.items()}


def read_model(model: Any) -> Ranker:
    """The ranker of a model file that was parsed already."""
    kind = "oblivious_trees" if "oblivious_trees" in model else "trees"
    features = _float_features(member(model, "features_info", Mapping))
    check_members("CatBoost", model, MEMBERS[kind])
    scale, bias = _scale_and_bias(model)
    read_trees = _symmetric if kind == "oblivious_trees" else _free
    trees = read_trees(member(model, kind, list), Splits(features), len(bias))
    scaled = [replace(tree, leaves=tree.leaves * scale) for tree in trees]
    scaled += [Tree.constant(value) for value in bias.tolist()] if bias.any() else []
    about, relevance = _about(model, len(bias))
    link = None if relevance is None else expected_class(relevance)
    n_features = len(features)
    ensemble = Ensemble(tuple(scaled), n_features, len(bias), link)
    names = feature_names([str(one["feature_id"]) for one in features], n_features, "{}")
    return ImportedTrees.of_ensemble(ensemble, names, about)


def _about(model: Mapping[str, Any], n_sums: int) -> tuple[dict[str, Any], Array | None]:
    """Facts, and the grade of each class if there are several."""
    info = model.get("model_info", {})
    params = info.get("params", {}) if isinstance(info, Mapping) else {}
    loss = params.get("loss_function", {}) if isinstance(params, Mapping) else {}
    objective = loss.get("type", "unknown") if isinstance(loss, Mapping) else "unknown"
    about: dict[str, Any] = {"maker": "CatBoost", "objective": str(objective)[:60]}
    release = RELEASE.search(str(info.get("catboost_version_info", "")) if isinstance(info, Mapping) else "")
    unknown = f"written by a CatBoost that does not say its version; {TRIED['CatBoost']} is the newest that was tried"
    notes = [unknown] if release is None else notes_on_version("CatBoost", release[1])
    if n_sums == 1:
        if objective in ("Logloss", "CrossEntropy", "Poisson", "Tweedie"):
            notes.append("scores are CatBoost's RawFormulaVal, which ranks as its predictions do")
        return about | {"notes": notes}, None
    classes = info.get("class_params", {}) if isinstance(info, Mapping) else {}
    labels = classes.get("class_names") if isinstance(classes, Mapping) else None
    if objective != "MultiClass" or not isinstance(labels, list) or len(labels) != n_sums:
        raise BadModelError(f"it predicts {n_sums} values ({shorten(objective, 40)}); a ranker has one score")
    notes.append("scores are expected classes, from the probabilities that CatBoost predicts")
    return about | {"notes": notes}, np.array([real(label, "a class") for label in labels])


def _float_features(info: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    for kind in OTHER_FEATURES:
        if info.get(kind):
            raise BadModelError(
                f"it has {kind.replace('_', ' ')}, which only CatBoost computes; train with numbers alone, and "
                "categories as numbers of your own"
            )
    features = member(info, "float_features", list)
    if not 1 <= len(features) <= MOST_FEATURES:
        raise BadModelError("it has no float features")
    for place, feature in enumerate(features):
        if any(count(member(feature, name), name, 0, MOST_FEATURES) != place for name in PLACES):
            raise BadModelError("its features are not in order")
        member(feature, "borders", list), member(feature, "has_nans", bool)
        if feature.get("nan_value_treatment") not in ("AsIs", "AsFalse", "AsTrue"):
            raise BadModelError(f"feature {place} does not say what becomes of missing values")
    return [
        {**feature, "feature_id": feature.get("feature_id") or str(place)} for place, feature in enumerate(features)
    ]


def _scale_and_bias(model: Mapping[str, Any]) -> tuple[float, Array]:
    found = model.get("scale_and_bias", [1, [0]])
    if not isinstance(found, list) or len(found) != 2:
        raise BadModelError("its scale_and_bias is not a scale and a bias")
    bias = numbers(found[1] if isinstance(found[1], list) else [found[1]], "bias", np.float64)
    if not len(bias):
        raise BadModelError("it has no bias")
    return real(found[0], "scale"), bias


class Splits:
    """Reads splits: feature, border, and whether a missing value goes left."""

    def __init__(self, features: list[Mapping[str, Any]]):
        self.nan_left = [not one["has_nans"] or one["nan_value_treatment"] != "AsTrue" for one in features]
        borders = [numbers(one["borders"], "borders", np.float32) for one in features]
        self.borders = [(place, border) for place, own in enumerate(borders) for border in own]

    def read(self, split: Any) -> tuple[int, np.float32, bool]:
        kind = split.get("split_type", "FloatFeature") if isinstance(split, Mapping) else None
        if kind != "FloatFeature":
            raise BadModelError(f"it splits by {shorten(kind, 40)}; only splits of float features can be read")
        place, border = self.borders[count(member(split, "split_index"), "split_index", 0, len(self.borders) - 1)]
        if (member(split, "float_feature_index"), np.float32(member(split, "border", (int, float)))) != (place, border):
            raise BadModelError("a split has another border than its split_index says")
        return place, border, self.nan_left[place]


def _symmetric(trees: list[Any], reader: Splits, n_sums: int) -> list[Tree]:
    found = []
    for tree in trees:
        splits = [reader.read(split) for split in tree.get("splits") or []]
        if len(splits) > DEEPEST_SYMMETRIC:
            raise BadModelError(f"a tree is deeper than {DEEPEST_SYMMETRIC}")
        n_leaves = 1 << len(splits)
        values = numbers(member(tree, "leaf_values"), "leaf_values", np.float64, n_leaves * n_sums)
        cover = numbers(tree["leaf_weights"], "leaf_weights", np.float64, n_leaves) if "leaf_weights" in tree else None
        found += [_full_tree(splits, values[k::n_sums], cover) for k in range(n_sums)]
    return found


def _full_tree(splits: list[tuple[int, np.float32, bool]], values: Array, cover: Array | None) -> Tree:
    """The last split is the root; below split i of a level are 2i + 1 and 2i + 2, and the leaves in order."""
    if not splits:
        return Tree.constant(float(values[0]))
    depth = len(splits)
    level = np.repeat(np.arange(depth), 2 ** np.arange(depth))  # of each split
    feature, border, nan_left = (np.array([split[part] for split in reversed(splits)]) for part in range(3))
    child = 2 * np.arange(len(level)) + 1
    left, right = (np.where(c < len(level), c, len(level) - c - 1) for c in (child, child + 1))
    return Tree(
        feature=feature[level].astype(np.int64),
        threshold=border[level],
        nan_left=nan_left[level],
        left=left,
        right=right,
        leaves=values.astype(np.float64),
        cover=usable_cover(cover),
    )


def _free(trees: list[Any], reader: Splits, n_sums: int) -> list[Tree]:
    """Trees of the policies Depthwise and Lossguide: nested nodes."""
    found: list[Tree] = []
    for tree in trees:
        nodes = _flatten(tree, reader, n_sums)
        found += [nodes[k].tree() for k in range(n_sums)]
    return found


def _flatten(root: Any, reader: Splits, n_sums: int) -> list[Nodes]:
    left: list[int] = []
    right: list[int] = []
    rows: list[tuple[int, np.float32, bool]] = []
    values: list[Array] = []
    cover: list[float] = []
    todo: list[tuple[Any, list[int] | None, int]] = [(root, None, 0)]
    while todo:
        node, side, parent = todo.pop()
        place = len(left)
        if side is not None:
            side[parent] = place
        left.append(-1)
        right.append(-1)
        if isinstance(node, Mapping) and "value" in node and {"split", "left", "right"} & set(node):
            raise BadModelError("a node is both a split and a leaf")
        if isinstance(node, Mapping) and "split" in node:
            rows.append(reader.read(node["split"]))
            values.append(np.zeros(n_sums))
            cover.append(0.0)
            todo += [(member(node, "right"), right, place), (member(node, "left"), left, place)]
        else:
            value = member(node, "value")
            values.append(numbers(value if isinstance(value, list) else [value], "value", np.float64, n_sums))
            cover.append(real(node.get("weight", 0.0), "weight"))
            rows.append((0, np.float32(0.0), False))
    feature, border, nan_left = (np.array(column) for column in zip(*rows, strict=True))
    table, held = np.array(values), np.array(cover)
    return [
        Nodes(left, right, feature.astype(np.int64), border.astype(np.float32), nan_left, table[:, k], held)
        for k in range(n_sums)
    ]
