"""LightGBM's model text: trees for ``lightgbm.Booster(model_file=…)``. LightGBM itself reads the export back.

Every split counts NaN as missing and sends it where ours does. LightGBM reads values up to 1e-35 in size as 0.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from gainful.data.rows import Array
from gainful.exports.describe import Described
from gainful.exports.formats import (
    WORDS_AT,
    Settings,
    Written,
    note_on_words,
    plain_trees,
    refuse,
    setting,
)
from gainful.rankers.ensembles import Ensemble, Tree
from gainful.trees.booster_text import MOST_LEAVES
from gainful.trees.tree_text import CATEGORICAL, DEFAULT_LEFT, NAN, ZERO_BAND, model_text, tree_lines, words

SHARES = 1_000_000  # rows that the leaves of a tree share if their cover is not a count
NOT_IN_NAMES = re.compile(r'[\s",:\[\]{}\x00-\x1f\x7f]')  # LightGBM refuses such names, or cuts them


def write(described: Described, settings: Settings) -> Written:
    ensemble = plain_trees(described, "lightgbm")
    if any(tree.nan_left[split] for tree in ensemble.trees for split in tree.categories):
        why = "a missing value goes with some of the categories, and in LightGBM it never does"
        raise refuse(described, "lightgbm", why, f"use {setting('to', 'xgboost')}")
    if any(len(tree.leaves) > MOST_LEAVES for tree in ensemble.trees):
        raise refuse(
            described, "lightgbm", f"a tree has more than {MOST_LEAVES:,} leaves", f"use {setting('to', 'xgboost')}"
        )
    names = _names(described)
    changed = [(old, new) for old, new in zip(described.features, names, strict=True) if described.named and old != new]
    notes: tuple[str, ...] = (
        (f"LightGBM has no name {changed[0][0]!r}; the feature is called {changed[0][1]!r} there",) if changed else ()
    )
    notes += note_on_words(described, WORDS_AT)
    content = model_text([_lines(tree) for tree in ensemble.trees], names, _ranges(ensemble)).encode()
    return Written({"": content}, lambda files, X: [scores(files[""], X)], precision=1e-11, tiny=ZERO_BAND, notes=notes)


def _names(described: Described) -> list[str]:
    """Names that LightGBM takes; those it makes up itself for features without one."""
    if not described.named:
        return [f"Column_{j}" for j in range(len(described.features))]
    names: list[str] = []
    seen: set[str] = set()
    for name in described.features:
        plain = new = NOT_IN_NAMES.sub("_", name) or "_"
        number = 2
        while new in seen:
            new, number = f"{plain}_{number}", number + 1
        names.append(new)
        seen.add(new)
    return names


def _ranges(ensemble: Ensemble) -> list[str]:
    """What LightGBM says about the values of each feature; "none" for those that no split uses."""
    low, high = np.full(ensemble.n_features, np.inf), np.full(ensemble.n_features, -np.inf)
    categories: dict[int, set[int]] = {}
    for tree in ensemble.trees:
        np.minimum.at(low, tree.feature, tree.threshold)
        np.maximum.at(high, tree.feature, tree.threshold)
        for split, inside in tree.categories.items():
            categories.setdefault(int(tree.feature[split]), set()).update(inside)
    found = [f"[{a:.17g}:{b:.17g}]" if a <= b else "none" for a, b in zip(low.tolist(), high.tolist(), strict=True)]
    for j, known in categories.items():
        found[j] = ":".join(map(str, sorted(known) or [0]))
    return found


def _lines(tree: Tree) -> dict[str, Any]:
    decision = (NAN << 2) | np.where(tree.nan_left, DEFAULT_LEFT, 0)
    threshold = tree.threshold.astype(np.float64)
    bounds, bits = [0], []
    for place, split in enumerate(sorted(tree.categories)):
        decision[split] |= CATEGORICAL
        threshold[split] = place
        bits += _bits(tree.categories[split])
        bounds.append(len(bits))
    about = {"feature": tree.feature, "left": tree.left, "right": tree.right, "leaves": tree.leaves}
    lines = tree_lines(threshold=threshold, decision=decision, counts=_counts(tree), **about)
    if tree.categories:
        lines |= {"num_cat": len(tree.categories), "cat_boundaries": words(bounds), "cat_threshold": words(bits)}
    return lines


def _bits(categories: tuple[int, ...]) -> list[int]:
    """A set as bits, 32 to a word."""
    words = [0] * (max(categories, default=0) // 32 + 1)
    for category in categories:
        words[category // 32] |= 1 << (category % 32)
    return words


def _counts(tree: Tree) -> Array:
    """Rows in each leaf, by which LightGBM weighs contributions: whole numbers, at least 1."""
    cover = np.ones(len(tree.leaves)) if tree.cover is None else tree.cover
    is_count = bool((cover == np.floor(cover)).all()) and cover.sum() < 2**31
    shares = cover if is_count else cover / cover.sum() * SHARES
    return np.asarray(np.maximum(1, np.round(shares)), dtype=np.int64)


def scores(content: bytes, X: Array) -> Array:
    from gainful.trees.grow import predict_rows
    from gainful.trees.lightgbm_library import lgb

    booster = lgb.Booster(model_str=content.decode())
    return predict_rows(booster, X.astype(np.float64), -1)
