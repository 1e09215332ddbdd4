"""The gate before training and scoring: numbers that rankers cannot compute with, refused in one place for all of them.

Inside these limits no ranker returns NaN or infinity. They lie far outside what features, grades and weights mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gainful.data.dataset import Dataset
from gainful.data.numbers import LARGEST_FEATURE, LARGEST_GRADE, LARGEST_WEIGHT, LEAST_SQUARES
from gainful.data.rows import FeatureFacts
from gainful.errors import DataError, brief


def refuse_extremes(data: Dataset, what: str) -> None:
    """Raise where a feature, a grade or a weight is too large or too small. ``what`` names the data: "X"."""
    refuse_large_features(data.feature_facts, data.feature_names, what)
    if data.highest_grade > LARGEST_GRADE or 0.0 < data.highest_grade < 1.0 / LARGEST_GRADE:
        raise DataError(
            f"the highest grade of {what} is {data.highest_grade:g}{_row_of_grade(data)}; it must be 0, or from "
            f"{1.0 / LARGEST_GRADE:g} to {LARGEST_GRADE:g}. Number the grades 0, 1, 2, …"
        )
    if data.query_weights is not None:
        _refuse_weights(data, what)


def refuse_large_features(facts: FeatureFacts, names: tuple[str, ...] | None, what: str) -> None:
    """Raise at a feature value that is too large to square."""
    if facts.too_large is not None:
        row, column, value = facts.too_large
        name = "" if names is None else f" ({names[column]})"
        text = large_feature_text(f"feature {column + 1}{name} of row {row} of {what}", value)
        raise DataError(f"{text}; divide the feature by a constant, or put NaN where such a value means missing")


def large_feature_text(feature: str, value: float) -> str:
    """What is wrong with a feature value that is too large, for the gate and the server."""
    return f"{feature} is {value:g}, but rankers compute with values up to ±{LARGEST_FEATURE:g}"


def refuse_tiny_features(facts: FeatureFacts, what: str) -> None:
    """Raise if features that are not scaled are so small that gradients vanish."""
    if 0.0 < facts.squares < LEAST_SQUARES:
        raise DataError(
            f"the features of {what} are all below {LEAST_SQUARES**0.5:g} in size, too small for scale=None; use "
            "scale='standard', or multiply them by a constant"
        )


def refuse_infinite_scores(scores: Any) -> None:
    """Raise at the first score that is not finite."""
    if not np.isfinite(scores).all():
        row = int(np.argmin(np.isfinite(scores)))
        raise DataError(f"the score of row {row} overflows; its features are too large for this model")


def _row_of_grade(data: Dataset) -> str:
    return "" if data.whole is None else f" in row {data.whole.input_row(int(np.argmax(data.whole.y)))}"


def _refuse_weights(data: Dataset, what: str) -> None:
    weights = np.asarray(data.query_weights)
    bad = np.flatnonzero((weights > LARGEST_WEIGHT) | ((weights < 1.0 / LARGEST_WEIGHT) & (weights > 0.0)))
    if len(bad):
        raise DataError(
            f"the weight of query {brief(data.query_ids[bad[0]])} of {what} is {weights[bad[0]]:g}; weights must be 0, "
            f"or from {1.0 / LARGEST_WEIGHT:g} to {LARGEST_WEIGHT:g}. Their ratios count, so divide all by the largest"
        )
