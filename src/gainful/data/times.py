"""When queries happened: one number per query, to train on the past and test on the future."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gainful.data.columns import name_of_feature, place_of_feature, values_of_feature, without_feature
from gainful.data.dataset import RankingData
from gainful.data.frames import column_to_numpy
from gainful.data.rows import Array
from gainful.errors import DataError, ParameterError, brief

EXPECTED = "the name or number of a feature, a mapping from query ids to times, or one time per query"


def take_times(data: RankingData, time: Any) -> tuple[RankingData, Array]:
    """The data, and one number per query that orders the queries in time.

    ``time`` is a feature, by name or number, which the data then no longer has; or a mapping from query ids to times,
    or an array with one time per query. Times are numbers or dates.
    """
    if isinstance(time, (str, int, np.integer)) and not isinstance(time, bool):
        place = place_of_feature(data, time if isinstance(time, str) else int(time))
        if data.categories is not None and data.categories[place] is not None:
            raise DataError(
                f"feature {name_of_feature(data, place)} holds text, which has no order in time; if it holds dates, "
                f"read them with times=[{name_of_feature(data, place)}], or give numbers"
            )
        return without_feature(data, place), _one_per_query(data, place)
    if isinstance(time, Mapping):
        absent = next((query for query in data.query_ids.tolist() if query not in time), None)
        if absent is not None:
            raise DataError(f"query {brief(absent)} has no time; give one for every query")
        time = [time[query] for query in data.query_ids.tolist()]
    return data, _as_numbers(data, time)


def _one_per_query(data: RankingData, place: int) -> Array:
    values, name = values_of_feature(data, place), name_of_feature(data, place)
    first = values[data.offsets[:-1]]
    differs = np.flatnonzero(values != np.repeat(first, data.counts))  # a missing value differs from itself
    if len(differs) == 0:
        return first
    row = int(differs[0])
    q = int(np.searchsorted(data.offsets, row, side="right")) - 1
    query = brief(data.query_ids[q])
    if np.isnan(values[row]):
        raise DataError(f"the time of query {query} is missing (feature {name}); give one for every query")
    raise DataError(
        f"feature {name} is not a time of queries: it is {first[q]:.17g} and {values[row]:.17g} in query {query}; a "
        "query needs one time"
    )


def _as_numbers(data: RankingData, times: Any) -> Array:
    try:
        column = np.asarray(column_to_numpy(times))
        if column.dtype.kind in "OUS":
            column = column.astype("datetime64[us]")
        numbers = column.astype("datetime64[us]").astype(np.int64) if column.dtype.kind == "M" else column
        found = numbers.astype(np.float64)
    except (TypeError, ValueError):
        raise ParameterError.of("split", "time", EXPECTED, times) from None
    if found.shape != (data.n_queries,):
        raise DataError(f"time has shape {found.shape}, but there are {data.n_queries} queries; give one per query")
    bad = np.flatnonzero(~np.isfinite(found) | (np.isnat(column) if column.dtype.kind == "M" else False))
    if len(bad):
        raise DataError(f"the time of query {brief(data.query_ids[bad[0]])} is missing; give one for every query")
    return found


def consecutive_parts(times: Array, counts: Array) -> list[Array]:
    """All queries, earliest first, in parts of about ``counts`` queries.

    Queries of the same time stay together, so that all of a part is later than all of the part before: each border
    moves to the nearest change of time. Within a part queries keep the order of the data.
    """
    order = np.argsort(times, kind="stable")
    changes = np.flatnonzero(np.diff(times[order])) + 1  # places where a later time begins
    wanted = np.cumsum(counts)[:-1]
    if len(changes) < len(wanted):
        raise DataError(
            f"the queries have {len(changes) + 1} different times, too few for {len(wanted) + 1} parts of which each "
            "is later than the one before"
        )
    borders: list[int] = []
    for i, place in enumerate(wanted.tolist()):
        first = int(np.searchsorted(changes, borders[-1], side="right")) if borders else 0
        able = changes[first : len(changes) - (len(wanted) - 1 - i)]  # a change is left for each border that follows
        borders.append(int(able[np.argmin(np.abs(able - place))]))
    return [np.sort(part) for part in np.split(order, borders)]
