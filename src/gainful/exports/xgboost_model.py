"""XGBoost's model file: trees for ``xgboost.Booster.load_model``, and through eland for Elastic's own learning to rank.

XGBoost computes in float32. A value goes left if it is < condition, so we write the next float32 above our threshold;
categories go right, so the children of such a split are exchanged. Features without names get none: eland reads the
names f0, f1, … that XGBoost then makes up by their number.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from gainful.data.rows import Array
from gainful.errors import ParameterError
from gainful.exports.describe import Described
from gainful.exports.floats import above, below, single
from gainful.exports.formats import (
    WORDS_AT,
    Settings,
    Written,
    note_on_words,
    plain_trees,
    refuse,
    setting,
    split_cover,
)
from gainful.foreign import ubjson
from gainful.foreign.xgboost_model import read_json, read_ubjson
from gainful.rankers.ensembles import Ensemble, Tree

VERSION = [2, 0, 0]  # of the format; later versions read it too
NO_PARENT = 2**31 - 1
MOST_CATEGORIES = 1 << 24
LEAST_COVER = 1e-6  # of a leaf, as a share of its tree
NOT_IN_NAMES = re.compile(r"[\[\]<]")
ZERO_BASED = re.compile(r"f[0-9]+")
READERS = {".json": read_json, ".ubj": read_ubjson}


def write(described: Described, settings: Settings) -> Written:
    if settings.suffix not in READERS:
        raise ParameterError(
            f"an XGBoost model is a .json or .ubj file, by which XGBoost knows how to read it; was {settings.suffix!r}"
        )
    ensemble = plain_trees(described, "xgboost")
    bad = next((name for name in described.features if described.named and NOT_IN_NAMES.search(name)), None)
    if bad is not None:
        raise refuse(described, "xgboost", f"XGBoost has no feature names with [, ] or <, as in {bad!r}", "rename it")
    if any(max(inside, default=0) >= MOST_CATEGORIES for tree in ensemble.trees for inside in tree.categories.values()):
        why = f"XGBoost has categories below {MOST_CATEGORIES:,} only"
        raise refuse(described, "xgboost", why, f"use {setting('to', 'lightgbm')}")
    model = _model(described, ensemble)
    content = ubjson.dump(model) if settings.suffix == ".ubj" else (json.dumps(_plain(model)) + "\n").encode()
    read, notes = READERS[settings.suffix], _notes(described) + note_on_words(described, WORDS_AT)
    return Written({"": content}, lambda files, X: [read(files[""])._scorer().scores(X)], notes=notes)


def _notes(described: Described) -> tuple[str, ...]:
    names = enumerate(described.features) if described.named else ()
    shifted = next((name for j, name in names if ZERO_BASED.fullmatch(name) and name != f"f{j}"), None)
    if shifted is None:
        return ()
    return (
        f"eland reads the name {shifted!r} as feature number {int(shifted[1:])}, counted from 0; rename the features "
        "before you import the model into Elasticsearch",
    )


def _model(described: Described, ensemble: Ensemble) -> dict[str, Any]:
    n = len(ensemble.trees)
    categorical = {int(tree.feature[split]) for tree in ensemble.trees for split in tree.categories}
    types = ["c" if j in categorical else "float" for j in range(ensemble.n_features)] if categorical else []
    trees = [_tree(tree, place, ensemble.n_features) for place, tree in enumerate(ensemble.trees)]
    booster = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(n)},
        "iteration_indptr": list(range(n + 1)),
        "tree_info": [0] * n,
        "trees": trees,
    }
    learner = {
        "attributes": {},
        "feature_names": list(described.features) if described.named else [],
        "feature_types": types,
        "gradient_booster": {"model": booster, "name": "gbtree"},
        "learner_model_param": {
            "base_score": "0E0",
            "boost_from_average": "0",
            "num_class": "0",
            "num_feature": str(ensemble.n_features),
            "num_target": "1",
        },
        "objective": {"name": "rank:ndcg", "lambdarank_param": {"lambdarank_pair_method": "topk"}},
    }
    return {"learner": learner, "version": VERSION}


def _tree(tree: Tree, place: int, n_features: int) -> dict[str, Any]:
    """The nodes of a tree as columns."""
    first, where_splits, where_leaves = _places(tree)
    n = tree.n_splits + len(tree.leaves)
    swapped = np.zeros(tree.n_splits, dtype=bool)
    swapped[sorted(tree.categories)] = True
    thresholds = np.where(swapped, np.float32(0.0), above(below(tree.threshold)))

    def column(splits: Any, leaves: Any, dtype: Any) -> Array:
        found = np.zeros(n, dtype=dtype)
        found[where_splits], found[where_leaves] = splits, leaves
        return found

    parents = np.full(n, NO_PARENT, dtype=np.int32)
    parents[first], parents[first + 1] = where_splits, where_splits
    by_category = sorted(tree.categories, key=lambda split: where_splits[split])
    sets = [np.array(tree.categories[split], dtype=np.int32) for split in by_category]
    sizes = np.array([len(inside) for inside in sets], dtype=np.int64)
    counts = np.ones(len(tree.leaves)) if tree.cover is None else tree.cover
    counts = np.maximum(counts, LEAST_COVER * counts.sum())  # XGBoost divides by it
    return {
        "base_weights": column(0.0, tree.leaves, np.float32),
        "categories": np.concatenate([np.zeros(0, dtype=np.int32), *sets]),
        "categories_nodes": np.array([where_splits[split] for split in by_category], dtype=np.int32),
        "categories_segments": np.cumsum(sizes) - sizes,
        "categories_sizes": sizes,
        "default_left": column(tree.nan_left != swapped, 0, np.uint8),
        "id": place,
        "left_children": column(first, -1, np.int32),
        "loss_changes": np.zeros(n, dtype=np.float32),
        "parents": parents,
        "right_children": column(first + 1, -1, np.int32),
        "split_conditions": column(thresholds, tree.leaves, np.float32),
        "split_indices": column(tree.feature, 0, np.int32),
        "split_type": column(swapped, 0, np.uint8),
        "sum_hessian": column(split_cover(tree, counts), counts, np.float32),
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(n_features),
            "num_nodes": str(n),
            "size_leaf_vector": "1",
        },
    }


def _places(tree: Tree) -> tuple[Array, Array, Array]:
    """The node of the left child of each split, of each split, and of each leaf.

    XGBoost takes for granted that the right child follows the left one.
    """
    first = np.zeros(tree.n_splits, dtype=np.int64)
    splits, leaves = np.zeros(tree.n_splits, dtype=np.int64), np.zeros(len(tree.leaves), dtype=np.int64)
    free = 1
    for split in range(tree.n_splits):  # children come after their parents
        first[split] = free
        sides = int(tree.left[split]), int(tree.right[split])
        for child in reversed(sides) if split in tree.categories else sides:
            if child >= 0:
                splits[child] = free
            else:
                leaves[-child - 1] = free
            free += 1
    return first, splits, leaves


def _plain(value: Any) -> Any:
    """The model as JSON holds it."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray):
        return [single(one) for one in value] if value.dtype.kind == "f" else value.tolist()
    return [_plain(inner) for inner in value] if isinstance(value, list) else value
