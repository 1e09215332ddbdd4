"""Losses on clicks: one list for each clicked document, in which it alone is relevant.

With v_i the clicks on document i over the probability that it was examined, the loss of a query is Σ_i v_i L(s; e_i)
over Σ_i v_i, and the query counts Σ_i v_i. L is any loss on grades, and e_i has the grade 1 for document i and 0 for
all others. The product of both is linear in the clicks whatever L is, so its expectation is the same sum with the true
relevances in place of v.

The lists of a query share its scores, so features are neither copied nor read again: scores are gathered into the lists
before L is called, and gradients are summed over the lists afterwards.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from gainful.compute.query_loop import Fill
from gainful.data.dataset import RankingData
from gainful.data.rows import Array, read_only, relative_weights, rows_of_queries


class ClickLists:
    """The lists of some queries: list k has the rows ``rows[offsets[k]:offsets[k + 1]]`` of one query.

    ``of_query[q]:of_query[q + 1]`` are the lists of query q, ``query[k]`` is the query of list k, ``clicked[k]`` the
    row of its relevant document, and ``weight[k]`` what it counts.
    """

    def __init__(self, data: RankingData):
        assert data.click_weights is not None
        self.clicked = np.flatnonzero(data.click_weights > 0.0)
        self.query = np.searchsorted(data.offsets, self.clicked, side="right") - 1
        self.of_query = np.searchsorted(self.query, np.arange(data.n_queries + 1))
        self.counts = data.counts[self.query]
        self.offsets = read_only(np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int64))
        self.rows = rows_of_queries(data.offsets, self.query)
        self.weight = data.click_weights[self.clicked]
        self._rivals = data.rival_weights

    @cached_property
    def grades(self) -> Array:
        """1 for the clicked document of each list, 0 for the others."""
        return np.asarray(self.rows == np.repeat(self.clicked, self.counts), dtype=np.float64)

    @cached_property
    def documents(self) -> Array | None:
        """The weights of the documents in each list; None if all are 1."""
        return None if self._rivals is None else np.where(self.grades > 0.0, 1.0, self._rivals[self.rows])

    @property
    def judgments(self) -> tuple[Array, Array, Array | None]:
        """What a loss binds: grades, offsets, and the weights of the documents, of mean 1 in each list."""
        weights = None if self.documents is None else relative_weights(self.documents, self.offsets)
        return self.grades, self.offsets, weights


class NoLists:
    """The fill of a block without clicks, which is never called."""

    def at(self, iteration: int, total: int) -> NoLists:
        return self

    def bind_frozen(self, scores: Array, threads: int | None = None) -> NoLists:
        return self


class ClickFill:
    """The fill of a loss on clicks: ``inner``, bound to the lists of ``data``, as a fill on its queries.

    It fills values and gradient or, if ``curved`` as ``inner`` is, gradient and curvature.
    """

    def __init__(self, inner: Any, lists: ClickLists, offsets: Array, *, curved: bool, share: Array | None = None):
        self.inner, self.lists, self.offsets, self.curved = inner, lists, offsets, curved
        if share is None:  # of each list in its query
            totals = np.bincount(lists.query, lists.weight, minlength=len(offsets) - 1)
            share = lists.weight / totals[lists.query]
        self.share = share

    def at(self, iteration: int, total: int) -> ClickFill:
        """The fill of a staged loss at iteration 1 … ``total``."""
        return self._with(self.inner.at(iteration, total))

    def bind_frozen(self, scores: Array, threads: int | None = None) -> Fill:
        """The loss with the weights at these scores: an ordinary function."""
        return self._with(self.inner.bind_frozen(read_only(scores[self.lists.rows]), threads))

    def _with(self, inner: Any) -> ClickFill:
        return ClickFill(inner, self.lists, self.offsets, curved=self.curved, share=self.share)

    def __call__(self, scores: Array, first: int, last: int, values: Array, gradient: Array) -> None:
        lists, a, b = self.lists, int(self.lists.of_query[first]), int(self.lists.of_query[last])
        rows = lists.rows[int(lists.offsets[a]) : int(lists.offsets[b])] - int(self.offsets[first])
        share = np.repeat(self.share[a:b], lists.counts[a:b])
        one, other = np.empty(len(rows) if self.curved else len(lists.clicked)), np.empty(len(rows))
        if len(rows):
            self.inner(read_only(scores[rows]), a, b, one, other)
        if self.curved:
            values[:] = np.bincount(rows, share * one, minlength=len(values))
        else:
            values[first:last] = np.bincount(lists.query[a:b] - first, self.share[a:b] * one[a:b], last - first)
        gradient[:] = np.bincount(rows, share * other, minlength=len(gradient))


def list_per_click(data: RankingData) -> RankingData:
    """The same as ordinary ranking data: a copy of the query for each clicked document."""
    if not data.click_weights.any():  # type: ignore[union-attr]
        data = data[:1]  # a block must have rows
        return data.replace(query_weights=np.zeros(1), click_weights=None, rival_weights=None)
    lists = ClickLists(data)
    columns = dict.fromkeys(("positions", "propensities", "click_weights", "rival_weights"))
    scores = data.init_scores
    return data.replace(
        X=data.X[lists.rows],
        y=lists.grades,
        offsets=lists.offsets,
        query_ids=np.arange(len(lists.clicked)),
        doc_ids=None if data.doc_ids is None else data.doc_ids[lists.rows],
        query_weights=lists.weight,
        document_weights=lists.documents,
        init_scores=None if scores is None else scores[lists.rows],
        input_order=None,
        **columns,
    )
