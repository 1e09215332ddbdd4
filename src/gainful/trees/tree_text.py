"""The trees in LightGBM's model text: one line of numbers per property, and how a split decides.

``decision_type`` packs what a split does: bit 0 categories, bit 1 missing values go left, bits 2 and 3 what counts as
missing (0 nothing: NaN is read as 0; 1 zero and NaN; 2 NaN).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

CATEGORICAL, DEFAULT_LEFT = 1, 2
NEVER, ZERO, NAN = 0, 1, 2  # what a split counts as missing
TAIL = "end of trees\n\nfeature_importances:\n\nparameters:\n[boosting: gbdt]\n[objective: lambdarank]\n\nend of parameters\n\npandas_categorical:null\n"  # noqa: E501
ZERO_BAND = float(np.float32(1e-35))  # when scoring, LightGBM treats values closer to 0 as 0


def tree_sections(text: str) -> Iterator[dict[str, str]]:
    """``name=value`` lines of each tree, in training order."""
    body = text.partition("\nend of trees")[0]
    for part in body.split("\nTree=")[1:]:
        yield dict(line.split("=", 1) for line in part.splitlines()[1:] if "=" in line)


def numbers_of(lines: dict[str, str], name: str, kind: type = np.int64) -> np.ndarray:
    """The numbers of one property, none if the tree lacks it."""
    return np.array(lines.get(name, "").split(), dtype=kind)


def model_text(trees: Sequence[Mapping[str, Any]], names: Sequence[str], ranges: Sequence[str]) -> str:
    """A model of these trees, each as ``name → value`` lines; ``ranges`` say which values each feature had."""
    sections = [
        f"Tree={place}\n" + "\n".join(f"{key}={value}" for key, value in lines.items()) + "\n\n\n"
        for place, lines in enumerate(trees)
    ]
    header = {
        "version": "v4",
        "num_class": 1,
        "num_tree_per_iteration": 1,
        "label_index": 0,
        "max_feature_idx": len(names) - 1,
        "objective": "lambdarank",
        "feature_names": " ".join(names),
        "feature_infos": " ".join(ranges),
        "tree_sizes": words(len(section.encode()) for section in sections),
    }
    return "tree\n" + "\n".join(f"{key}={value}" for key, value in header.items()) + "\n\n" + "".join(sections) + TAIL


def tree_lines(
    *, feature: Any, threshold: Any, decision: Any, left: Any, right: Any, leaves: Any, counts: Any, gains: Any = None
) -> dict[str, Any]:
    """The lines of a tree without categories. ``counts`` are the rows in each leaf, by which SHAP values weigh."""
    nothing = np.zeros(len(feature), dtype=np.int64)
    inner = words(_counts_of_splits(left, right, counts))
    of_leaves = words(counts) if len(feature) else ""
    return {
        "num_leaves": len(leaves),
        "num_cat": 0,
        "split_feature": words(feature),
        "split_gain": words(nothing if gains is None else gains),
        "threshold": words(threshold),
        "decision_type": words(decision),
        "left_child": words(left),
        "right_child": words(right),
        "leaf_value": words(leaves),
        "leaf_weight": of_leaves,
        "leaf_count": of_leaves,
        "internal_value": words(nothing),
        "internal_weight": inner,
        "internal_count": inner,
        "is_linear": 0,
        "shrinkage": 1,
    }


def _counts_of_splits(left: Any, right: Any, counts: Any) -> list[Any]:
    """The rows at each split. Children come after their parents."""
    inner = [0] * len(left)
    for split in range(len(left) - 1, -1, -1):
        for child in (int(left[split]), int(right[split])):
            inner[split] += inner[child] if child >= 0 else int(counts[-child - 1])
    return inner


def words(values: Iterable[Any]) -> str:
    """Numbers in a line, so that they are read back exactly."""
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    return " ".join(map(repr, listed))
