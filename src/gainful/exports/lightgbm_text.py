"""The trees of a LightGBM model, parsed from its text.

The text is flat, so trees of any depth are read without recursion. When scoring, LightGBM reads values up to 1e-35 in
size as 0; moving thresholds inside that band to its end makes the plain comparison do the same.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from gainful.errors import ExportError
from gainful.exports.floats import FARTHEST
from gainful.rankers.ensembles import Tree
from gainful.trees.tree_text import CATEGORICAL, DEFAULT_LEFT, NAN, ZERO, ZERO_BAND, numbers_of, tree_sections


def trees_of(text: str) -> list[Tree]:
    """All trees, in training order."""
    return [_tree(lines) for lines in tree_sections(text)]


def _tree(lines: dict[str, str]) -> Tree:
    if lines.get("is_linear", "0") != "0":
        raise ExportError(
            "trees with linear models in their leaves (linear_tree) are not supported by any format; train without them"
        )

    numbers = partial(numbers_of, lines)
    decision, threshold = numbers("decision_type"), numbers("threshold", np.float64)
    missing, categorical = (decision >> 2) & 3, (decision & CATEGORICAL) > 0
    if (missing == ZERO).any():
        raise ExportError(
            "trees that treat 0 as missing (zero_as_missing) are not supported by any format; train without it, and "
            "use NaN for missing values"
        )
    categories = _categories(threshold, categorical, numbers("cat_boundaries"), numbers("cat_threshold", np.uint32))
    counts, leaves = numbers("leaf_count", np.float64), numbers("leaf_value", np.float64)
    # NaN is 0 if training saw none, and categories are never missing
    nan_left = np.where(missing == NAN, (decision & DEFAULT_LEFT) > 0, threshold >= 0.0) & ~categorical
    return Tree(
        feature=numbers("split_feature"),
        threshold=_plain(threshold),
        nan_left=nan_left,
        left=numbers("left_child"),
        right=numbers("right_child"),
        leaves=leaves,
        categories=categories,
        cover=counts if len(counts) == len(leaves) and (counts > 0).all() else None,
    )


def _plain(threshold: np.ndarray) -> np.ndarray:
    """Finite thresholds for which small values need no special rule."""
    threshold = np.where((threshold >= 0.0) & (threshold < ZERO_BAND), ZERO_BAND, threshold)
    threshold = np.where((threshold < 0.0) & (threshold >= -ZERO_BAND), np.nextafter(-ZERO_BAND, -1.0), threshold)
    return np.asarray(np.clip(threshold, -FARTHEST, FARTHEST))


def _categories(
    threshold: np.ndarray, categorical: np.ndarray, bounds: np.ndarray, words: np.ndarray
) -> dict[int, tuple[int, ...]]:
    """The categories that go left, per split, from bit sets of 32 bits per word."""
    found = {}
    for split in np.flatnonzero(categorical):
        place = int(threshold[split])
        bits = np.unpackbits(words[bounds[place] : bounds[place + 1]].view(np.uint8), bitorder="little")
        found[int(split)] = tuple(np.flatnonzero(bits).tolist())
    return found
