"""A click log as ranking data: clicks as grades, with the positions or propensities that correct them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from gainful.clicks.pages import distinct_pages
from gainful.data.dataset import RankingData
from gainful.data.rows import Array, check_propensities
from gainful.errors import DataError, DataWarning, ParameterError, plural, shorten, wording

if TYPE_CHECKING:
    from gainful.clicks.log import ClickLog

SAME = 1e-6  # difference of propensities that is rounding


def training_data(log: ClickLog, source: RankingData | None, propensity: Any, merge: bool) -> RankingData:
    """See :meth:`ClickLog.to_data`."""
    X, rows, names = _features(log, source)
    propensities = _propensities(log, propensity)
    kept = rows >= 0
    page = np.repeat(np.arange(log.n_pages), log.counts)
    if not kept.all():
        _warn_of_lost_rows(log, kept, page)
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
    known = _rows_by_pair(source)
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
    if source.doc_ids is None and (found < 0).any():
        pair = int(np.argmin(found))
        raise DataError(
            f"the features have no document ids, and the log is not of their simulated users: it shows document "
            f"{shorten(shown[pair])} for query {shorten(queries[pair])}, which is not a row of that query; "
            f"give the features document ids {wording('(doc_ids)', '(such as a column doc_id)')}"
        )
    return source.X, found[group], source.feature_names


def _rows_by_pair(source: RankingData) -> dict[tuple[str, str], int]:
    """The row of each query and document. Without ids, documents are row numbers, as simulated users name them."""
    documents = source.doc_ids
    if documents is None:
        documents = np.arange(source.n_rows) if source.input_order is None else source.input_order
    known: dict[tuple[str, str], int] = {}
    for row, (query, document) in enumerate(zip(source.qid.tolist(), documents.tolist(), strict=True)):
        if known.setdefault((str(query), str(document)), row) != row:
            raise DataError(
                f"the features have document {shorten(document)} of query {shorten(query)} twice; give every document "
                "of a query one row"
            )
    return known


def _warn_of_lost_rows(log: ClickLog, kept: Array, page: Array) -> None:
    pages = np.unique(page[kept])
    lost_pages, lost_queries = log.n_pages - len(pages), log.n_queries - len(np.unique(log.query[pages]))
    lost = f"{plural(lost_pages, 'page')} of {log.n_pages:,} and {plural(lost_queries, 'query', 'queries')}"
    clicks = plural(int(log.clicked[~kept].sum()), "click")
    warnings.warn(
        f"{int((~kept).sum()):,} of {log.n_rows:,} rows of the log, with {clicks}, have no features and are left out; "
        f"{lost} of {log.n_queries:,} are lost altogether",
        DataWarning,
        stacklevel=4,  # the caller of to_data
    )


def _pairs(log: ClickLog) -> Array:
    """A number for the query and document of each row."""
    return np.repeat(log.query.astype(np.int64), log.counts) * len(log.document_ids) + log.document


def _propensities(log: ClickLog, given: Any) -> Array | None:
    if given is False:
        return None
    if given is None:
        _warn_if_not_examination(log)
        return log.propensity
    if hasattr(given, "propensities"):
        given = given.propensities(log)
    return check_propensities(given, log.n_rows)


def _warn_if_not_examination(log: ClickLog) -> None:
    """Warn if the log's propensities look like those of a policy: of showing a document, not of examining a position.

    Examination of the first position depends on no document in any click model; the probability of showing one does.
    """
    first = None if log.propensity is None else log.propensity[log.position == 1]
    if first is not None and len(first) and np.ptp(first) > SAME:
        other = wording("propensity=False", "--positions")
        warnings.warn(
            f"the propensities of the log differ in position 1, from {first.min():.3g} to {first.max():.3g}, as "
            "probabilities of showing a document do; training takes them as probabilities of examining it. If they are "
            f"not, leave them out with {other}",
            DataWarning,
            stacklevel=5,  # the caller of to_data
        )


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
