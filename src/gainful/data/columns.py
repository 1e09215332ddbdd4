"""One feature of a data set: found by name or number, and its values."""

from __future__ import annotations

from typing import Any

import numpy as np

from gainful.data.dataset import RankingData
from gainful.data.rows import Array
from gainful.errors import DataError, UnknownNameError, plural


def place_of_feature(data: RankingData, feature: str | int) -> int:
    """The column of a feature, from 0, by its name or its number from 1. A name that is a number is a name first."""
    names = data.feature_names or ()
    if feature in names:
        return names.index(str(feature))
    number = _as_number(feature)
    if number is None and names:
        raise UnknownNameError.among("feature", feature, names, owner="the data")
    if number is None or not 1 <= number <= data.n_features:
        named = "" if names else ", without names"
        raise UnknownNameError.among(
            "feature",
            feature,
            names,
            owner="the data",
            hint=f"it has {plural(data.n_features, 'feature')}{named}; give a number from 1 to {data.n_features}",
        )
    return number - 1


def values_of_feature(data: RankingData, place: int) -> Array:
    """The values of a feature, (n_rows,) float64; text is refused."""
    if data.categories is not None and data.categories[place] is not None:
        raise DataError(f"feature {name_of_feature(data, place)} holds text, not numbers")
    return numbers_of_feature(data, place)


def numbers_of_feature(data: RankingData, place: int) -> Array:
    """The values of a feature, (n_rows,) float64; of text the numbers of the words."""
    column = data.X[:, [place]]
    dense = column.toarray() if data.is_sparse else column
    return np.asarray(dense, dtype=np.float64).ravel()


def name_of_feature(data: RankingData, place: int) -> str:
    """How messages call a feature: its name, or its number from 1."""
    return str(place + 1) if data.feature_names is None else repr(data.feature_names[place])


def without_feature(data: RankingData, place: int) -> RankingData:
    """The data without one feature."""
    if data.n_features == 1:
        raise DataError(f"feature {name_of_feature(data, place)} is the only one; without it there is none to rank by")
    kept = np.delete(np.arange(data.n_features), place)

    def others(column: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
        return None if column is None else (*column[:place], *column[place + 1 :])

    categories = others(data.categories)
    return data.replace(
        X=data.X[:, kept],
        feature_names=others(data.feature_names),
        categories=categories if categories is not None and any(words is not None for words in categories) else None,
    )


def _as_number(feature: str | int) -> int | None:
    if isinstance(feature, str):
        return int(feature) if feature.isdecimal() else None
    return int(feature) if isinstance(feature, (int, np.integer)) and not isinstance(feature, bool) else None
