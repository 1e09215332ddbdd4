"""A ranker as a policy: the probability of each page if scores get random noise (Plackett and Luce)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gainful.clicks.index import Pairs
from gainful.clicks.log import ClickLog
from gainful.clicks.simulation import document_codes, scores_of
from gainful.data.dataset import RankingData
from gainful.data.rows import Array
from gainful.errors import DataError, ParameterError, brief
from gainful.parameters.constraints import Real, check_parameters

MOST_CELLS = 200_000_000  # of a table of probabilities: 1.6 GB


def ranking_probabilities(
    log: ClickLog, data: RankingData, ranker: Any = None, *, temperature: float = 1.0, every: bool = False
) -> Array:
    """The probability that a ranker shows each row of a log, given the documents above it on the page; (n_rows,).

    The ranker draws documents one after another, each with probability proportional to exp(score / temperature), as
    :func:`simulate_clicks` does with the same ``temperature``. Without temperature it shows the best document that is
    left, with probability 1. These are propensities, or a policy, for :func:`estimate_value` with
    ``assumption="cascade"`` or ``"list"``.

    Parameters
    ----------
    log : pages, whose rows are taken in their order without holes
    data : all candidates of the queries of the log, not only those shown
    ranker : a fitted model, one score per row of ``data``, or a function of X; by default the order of ``data``
    every : of every document of the log in the place of each row, (n_rows, n_documents), for ``method="dr"``
    """
    check_parameters("ranking_probabilities", {"temperature": Real(low=0.0)}, {"temperature": temperature})
    if not isinstance(log, ClickLog):
        raise ParameterError.of("ranking_probabilities", "log", "a ClickLog", type(log).__name__)
    scores = scores_of(data, ranker, "ranking_probabilities")
    row = _rows_of(log, data)
    first = np.zeros(log.n_rows, dtype=bool)
    first[log.offsets[:-1]] = True
    query = np.searchsorted(data.offsets, row[first], side="right") - 1
    if every:
        return _of_every_document(log, data, scores, row, query, temperature)
    found = np.empty(log.n_rows)
    for page, (start, stop) in enumerate(zip(log.offsets[:-1], log.offsets[1:], strict=True)):
        low, high = int(data.offsets[query[page]]), int(data.offsets[query[page] + 1])
        found[start:stop] = _page(scores[low:high], row[start:stop] - low, temperature)
    return found


def _page(scores: Array, shown: Array, temperature: float) -> Array:
    """The probability of each document shown, given those above it."""
    if temperature == 0.0:
        best = np.argsort(-scores, kind="stable")[: len(shown)]
        same = np.cumprod(best == shown)  # after the first other document, nothing of the page could happen
        return same.astype(np.float64)
    logits = scores / temperature
    left = np.ones(len(scores), dtype=bool)
    left[shown] = False
    others = np.logaddexp.reduce(logits[left]) if left.any() else -np.inf
    own = logits[shown]
    below = np.logaddexp.accumulate(np.concatenate([[others], own[::-1]]))[:0:-1]
    return np.exp(own - below)


def _of_every_document(
    log: ClickLog, data: RankingData, scores: Array, row: Array, query: Array, temperature: float
) -> Array:
    """(n_rows, n_documents). Documents that the log never shows have no column, and what they earn is not predicted."""
    shape = (log.n_rows, len(log.document_ids))
    if shape[0] * shape[1] > MOST_CELLS:
        raise DataError(
            f"the probabilities of {shape[1]:,} documents for {shape[0]:,} rows are too many; take a shorter log, or "
            "method='snips', which needs those of the documents shown"
        )
    known = {str(name): i for i, name in enumerate(log.document_ids.tolist())}
    ids, document = document_codes(data)
    column = np.array([known.get(str(name), -1) for name in ids.tolist()])[document]  # of each row of the data
    found = np.zeros(shape)
    for page, (start, stop) in enumerate(zip(log.offsets[:-1], log.offsets[1:], strict=True)):
        low, high = int(data.offsets[query[page]]), int(data.offsets[query[page] + 1])
        left, columns = np.ones(high - low, dtype=bool), column[low:high]
        for place in range(start, stop):
            chance = np.zeros(high - low)
            chance[left] = _next(scores[low:high][left], temperature)
            found[place, columns[columns >= 0]] = chance[columns >= 0]
            left[row[place] - low] = False
    return found


def _next(scores: Array, temperature: float) -> Array:
    """The probability of each document that is left to be the next."""
    if temperature == 0.0:
        return np.asarray(np.arange(len(scores)) == np.argmax(scores), dtype=np.float64)
    chance = np.exp((scores - scores.max()) / temperature)
    return np.asarray(chance / chance.sum())


def _rows_of(log: ClickLog, data: RankingData) -> Array:
    """The row of the data of each row of the log."""
    ids, document = document_codes(data)
    query = np.repeat(np.arange(data.n_queries, dtype=np.int32), data.counts)
    order = np.lexsort((document, query))
    pairs = Pairs(query[order], document[order], data.query_ids, ids)
    place = pairs.places(log.query_ids, log.document_ids, np.repeat(log.query, log.counts), log.document)
    lost = np.flatnonzero(place == len(pairs))
    if len(lost):
        name = log.document_ids[log.document[lost[0]]]
        query_name = log.query_ids[np.repeat(log.query, log.counts)[lost[0]]]
        raise DataError(
            f"document {brief(name)} of query {brief(query_name)} is in the log and not in the data; the data must "
            "hold all candidates"
        )
    return np.asarray(order[place])
