"""Segments of queries from a column of the data: head and tail, languages, devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gainful.data.columns import numbers_of_feature, without_feature
from gainful.data.dataset import RankingData
from gainful.data.rows import Array
from gainful.data.splits import Split
from gainful.errors import DataError, UnknownNameError, brief

OTHERS = "other"  # the segment of queries that are not named


def take_segments_out(parts: dict[str, Any], column: str, is_feature: bool) -> tuple[dict[str, Any], dict[Any, str]]:
    """The parts of a comparison without the feature that holds the segments, and the segment of each query.

    ``is_feature``: somebody named the column as a feature, so it stays.
    """
    names: dict[Any, str] = {}
    for one in _tested(parts):
        for query, name in zip(one.query_ids.tolist(), segments_of(one, column), strict=True):
            if names.setdefault(query, name) != name:
                raise DataError(
                    f"query {brief(query)} is in segment {brief(names[query])} and, in another fold, in {brief(name)}; "
                    "give query ids that differ"
                )
    if is_feature:
        return parts, names
    return {name: _without(part, column) for name, part in parts.items()}, names


def segments_of(data: RankingData, column: str) -> list[str]:
    """The segment of each query: the one value that the column has in its rows."""
    place = _place(data, column)
    values = numbers_of_feature(data, place)
    first = values[data.offsets[:-1]]
    repeated = np.repeat(first, data.counts)
    differs = np.flatnonzero((values != repeated) & ~(np.isnan(values) & np.isnan(repeated)))
    words = None if data.categories is None else data.categories[place]
    if len(differs):
        q = int(np.searchsorted(data.offsets, differs[0], side="right")) - 1
        two = " and ".join(brief(name) for name in _names(np.array([first[q], values[differs[0]]]), words))
        raise DataError(
            f"column {column!r} is not a segment of queries: query {brief(data.query_ids[q])} has {two}; a query needs "
            "one value"
        )
    return _names(first, words)


def _names(values: Array, words: Sequence[str] | None) -> list[str]:
    known = ~np.isnan(values)
    shown = [f"{value:.15g}" if words is None else words[int(value)] for value in values[known].tolist()]
    names = np.full(len(values), OTHERS, dtype=object)
    names[known] = shown
    return [str(name) for name in names]


def _tested(parts: dict[str, Any]) -> list[RankingData]:
    """The data whose queries are tested, or may be."""
    data = parts["data"]
    if isinstance(data, RankingData):
        return [parts.get("test", data)]
    return [part.test for part in ([data] if isinstance(data, Split) else data)]


def _place(data: RankingData, column: str) -> int:
    names = data.feature_names or ()
    if column not in names:
        hint = "" if names else "its columns have no names; give segments as a mapping or a function of the query id"
        raise UnknownNameError.among("column", column, names, owner="the data", hint=hint)
    return names.index(column)


def _without(part: Any, column: str) -> Any:
    """The same without the column; what is read only when needed stays so."""
    if part is None:
        return None
    if isinstance(part, (list, tuple)):
        return [_without(one, column) for one in part]
    if isinstance(part, Split):
        train, valid, test = (_without(one, column) for one in (part._train, part._valid, part._test))
        return Split(train, valid, test, name=part.name)
    if isinstance(part, RankingData):
        return without_feature(part, _place(part, column))
    return lambda: _without(part(), column)
