"""A click log as ranking data: clicks as grades, with the positions or propensities that correct them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gainful.clicks.pages import distinct_pages
from gainful.data.dataset import RankingData
from gainful.data.rows import Array, check_propensities
from gainful.errors import DataError, ParameterError, shorten

if TYPE_CHECKING:
    from gainful.clicks.log import ClickLog


def training_data(log: ClickLog, source: RankingData | None, propensity: Any, merge: bool) -> RankingData:
    """See :meth:`ClickLog.to_data`."""
    X, rows, names = _features(log, source)
    propensities = _propensities(log, propensity)
    kept = rows >= 0
    page = np.repeat(np.arange(log.n_pages), log.counts)
    if merge and (source is not None or _same_features(log)):
        if propensities is None:
            first, page_list = distinct_pages(log.offsets, _pairs(log), log.position)
            lists, ids = page_list[page], _names_of_pages(log, first)
        else:
            lists, ids = log.query[page].astype(np.int64), log.query_ids
    else:
        lists, ids = page, np.arange(log.n_pages)
    return _merge_rows(log, X, names, rows, kept, lists, ids, propensities)


def _merge_rows(
    log: ClickLog,
    X: Any,
    names: Any,
    rows: Array,
    kept: Array,
    lists: Array,
    ids: Array,
    propensities: Array | None,
) -> RankingData:
    """One row for each document of each list, from all rows of the log that show it there."""
    keys = lists[kept] * np.int64(len(log.document_ids)) + log.document[kept]
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)  # rows in the order of the log
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    group, first = place[group], np.flatnonzero(kept)[first[order]]
    shown, clicks = np.bincount(group), np.bincount(group, log.clicked[kept])
    position = log.position[first].astype(np.int64)
    moved = (log.position[kept] != position[group]).any()
    if propensities is not None:
        propensities = _mean_propensities(propensities[kept], log.clicked[kept], group, shown, clicks)
    return RankingData.from_rows(
        X[rows[first]],
        clicks / shown,
        ids[lists[first]],
        doc_ids=log.document_ids[log.document[first]],
        feature_names=names,
        sample_weight=None if (shown == 1).all() else shown.astype(np.float64),
        position=None if moved else position,
        propensity=propensities,
    )


def _mean_propensities(values: Array, clicked: Array, group: Array, shown: Array, clicks: Array) -> Array:
    """Of merged rows, such that clicks over the result are the sum of 1/p over the clicks."""
    inverse = np.bincount(group, clicked / values)
    mean = np.bincount(group, values) / shown
    found = np.divide(clicks, inverse, out=mean, where=clicks > 0)
    return np.asarray(np.minimum(found, 1.0))  # but for rounding


def _features(log: ClickLog, source: RankingData | None) -> tuple[Any, Array, Any]:
    """A matrix, the row of it for each row of the log (−1: none), and the names of the features."""
    if source is None:
        if log.features is None:
            raise DataError(
                "the click log has no features, which ranking data needs; name them when reading it, or give data that "
                "has them: log.to_data(data)"
            )
        return log.features, np.arange(log.n_rows), log.feature_names
    if not isinstance(source, RankingData):
        raise ParameterError.of("to_data", "features", "a RankingData", type(source).__name__)
    documents = source.doc_ids
    if documents is None:  # as simulated users name them
        documents = np.arange(source.n_rows) if source.input_order is None else source.input_order
    known: dict[tuple[str, str], int] = {}
    for row, (query, document) in enumerate(zip(source.qid.tolist(), documents.tolist(), strict=True)):
        known[str(query), str(document)] = row
    pairs = _pairs(log)
    distinct, group = np.unique(pairs, return_inverse=True)
    width = len(log.document_ids)
    queries, shown = log.query_ids[distinct // width].tolist(), log.document_ids[distinct % width].tolist()
    found = np.array([known.get((str(q), str(d)), -1) for q, d in zip(queries, shown, strict=True)], dtype=np.int64)
    if (found < 0).all():
        ours, theirs = shorten((str(queries[0]), str(shown[0]))), shorten(next(iter(known)))
        raise DataError(
            f"no document of the log has features; the log begins with {ours}, the features with {theirs} (query, "
            "document)"
        )
    return source.X, found[group], source.feature_names


def _pairs(log: ClickLog) -> Array:
    """A number for the query and document of each row."""
    return np.repeat(log.query.astype(np.int64), log.counts) * len(log.document_ids) + log.document


def _propensities(log: ClickLog, given: Any) -> Array | None:
    if given is None or given is False:
        return log.propensity if given is None else None
    if hasattr(given, "propensities"):
        given = given.propensities(log)
    return check_propensities(given, log.n_rows)


def _same_features(log: ClickLog) -> bool:
    """Whether a document has the same features wherever a query shows it, so that its rows can be merged."""
    _, first, group = np.unique(_pairs(log), return_index=True, return_inverse=True)
    X = log.features
    assert X is not None
    if hasattr(X, "indptr"):
        return bool((X[first[group]] != X).nnz == 0)
    steps = range(0, log.n_rows, 1 << 16)
    return all(np.array_equal(X[first[group[i : i + (1 << 16)]]], X[i : i + (1 << 16)], equal_nan=True) for i in steps)


def _names_of_pages(log: ClickLog, first: Array) -> Array:
    """The queries, if each has one page only; otherwise numbers."""
    queries = log.query[first]
    return log.query_ids[queries] if len(np.unique(queries)) == len(queries) else np.arange(len(first))
