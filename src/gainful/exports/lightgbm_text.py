"""The trees of a LightGBM model, parsed from its text.

The text is flat (one line of numbers per property of a tree), so trees of any depth are read without recursion.
``decision_type`` packs what a split does: bit 0 categories, bit 1 missing values go left, bits 2 and 3 what counts as
missing (0 nothing: NaN is read as 0; 1 zero and NaN; 2 NaN). When scoring, LightGBM reads values up to 1e-35 in size as
0; moving thresholds inside that band to its end makes the plain comparison do the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gainful.errors import ExportError
from gainful.exports.floats import FARTHEST, ZERO_BAND
from gainful.rankers.ensembles import Tree

CATEGORICAL, DEFAULT_LEFT = 1, 2
ZERO, NAN = 1, 2  # what a split counts as missing


def trees_of(text: str) -> list[Tree]:
    """All trees, in training order."""
    return [_tree(lines) for lines in _sections(text)]


def _sections(text: str) -> Iterator[dict[str, str]]:
    """``name=value`` lines of each tree."""
    body = text.partition("\nend of trees")[0]
    for part in body.split("\nTree=")[1:]:
        yield dict(line.split("=", 1) for line in part.splitlines()[1:] if "=" in line)


def _tree(lines: dict[str, str]) -> Tree:
    if lines.get("is_linear", "0") != "0":
        raise ExportError(
            "trees with linear models in their leaves (linear_tree) are not supported by any format; train without them"
        )

    def numbers(name: str, kind: type = np.int64) -> np.ndarray:
        return np.array(lines.get(name, "").split(), dtype=kind)

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
