"""Losses over pairs of documents, with the difference of their grades as the margin (Agarwal and Collins 2010).

With t_i = s_i − g_i the loss of a pair g_j > g_k is [(g_j − g_k) − (s_j − s_k)]_+ = [t_k − t_j]_+. The loss of a query
combines those of its pairs R_q:

======================  ============================================  ==========
"margin-average"        (1/\\|R_q\\|) Σ_(j,k) [t_k − t_j]_+               O(n log n)
"margin-maximum"        max_(j,k) [t_k − t_j]_+                       O(n)
"margin-max-average"    max_k (1/\\|P_k\\|) Σ_(j ∈ P_k) [t_k − t_j]_+     O(n log n)
======================  ============================================  ==========

where P_k are the documents with a higher grade than k. For long queries, sorting replaces the loop over pairs. A query
whose grades are all equal has no pairs and no loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from gainful.compute.query_loop import Fill
from gainful.data.grades import by_grade
from gainful.data.rows import Array, check_grades, read_only
from gainful.losses.base import LossEntry

KERNELS = {"average": "fill_average", "maximum": "fill_maximum", "max-average": "fill_max_average"}
LONG_KERNELS = {"average": "fill_long_average", "max-average": "fill_long_max_average"}  # the same for long queries


class GradedPairs:
    """The pairs of each query, stored as two numbers per document.

    Query q owns the rows ``offsets[q]:offsets[q + 1]``. Its rows by decreasing grade, in row order within a grade, are
    ``offsets[q] + order[offsets[q]:offsets[q + 1]]``. The document at place p has the grade ``by_grade[p]``, and the
    ``preferred[p]`` documents with a higher grade occupy the first places of the query.
    """

    def __init__(self, grades: Any, offsets: Any):
        self.offsets = read_only(np.ascontiguousarray(offsets, dtype=np.int64))
        self.n_queries, self.n_rows = len(self.offsets) - 1, int(self.offsets[-1])
        self.grades = read_only(check_grades(grades, self.n_rows))
        order, _, starts = by_grade(self.grades, self.offsets)
        first = np.repeat(self.offsets[:-1], np.diff(self.offsets))
        self.order, self.by_grade = read_only(order), read_only(self.grades[first + order])
        self.preferred = read_only((np.repeat(starts[:-1], np.diff(starts)) - first).astype(np.int32))
        self.n_pairs = read_only(np.add.reduceat(self.preferred.astype(np.int64), self.offsets[:-1]))

    def fill(self, kind: str) -> Fill:
        """The losses of a run of queries: the "average", the "maximum" or the "max-average"."""

        def fill(scores: Array, first: int, last: int, losses: Array, c: Array) -> None:
            from gainful.losses import margin_kernels as kernels

            arrays: tuple[Array, ...] = (scores, self.grades, self.offsets, self.order, self.preferred)
            if kind == "average":
                arrays = (*arrays, self.n_pairs)
            longest = int(np.diff(self.offsets[first : last + 1]).max(initial=0))
            queries: tuple[int, ...] = (first, last)
            if kind in LONG_KERNELS:
                queries = (first, last, kernels.SORTED_FROM)
            room = np.empty(longest), np.empty(longest)
            getattr(kernels, KERNELS[kind])(*arrays, *queries, *room, losses, c)
            if kind in LONG_KERNELS and longest >= kernels.SORTED_FROM:
                levels = self._places_by_level(scores, first, last, kernels.SORTED_FROM)
                tree = np.empty((2, longest + 1))
                getattr(kernels, LONG_KERNELS[kind])(*arrays, levels, tree, *queries, *room, losses, c)

        return fill

    def _places_by_level(self, scores: Array, first: int, last: int, long: int) -> Array:
        """The places of each long query by increasing level, counted within the query; scores begin at ``first``."""
        ends = self.offsets[first : last + 1]
        places = np.empty(int(ends[-1] - ends[0]), dtype=np.int64)
        for q in np.flatnonzero(np.diff(ends) >= long):
            rows = slice(int(ends[q]), int(ends[q + 1]))
            here = slice(rows.start - int(ends[0]), rows.stop - int(ends[0]))
            levels = scores[here][self.order[rows]] - self.by_grade[rows]
            places[here] = np.argsort(levels, kind="stable")
        return places


def _bind(kind: str, params: Mapping[str, Any], y: Array, offsets: Array) -> Fill:
    return GradedPairs(y, offsets).fill(kind)


SUMMARIES = {
    "average": "Mean over the pairs of [(g_i − g_j) − (s_i − s_j)]₊.",
    "maximum": "Maximum over the pairs of [(g_i − g_j) − (s_i − s_j)]₊.",
    "max-average": "Maximum over documents j of the mean of [(g_i − g_j) − (s_i − s_j)]₊ over the better documents i.",
}
MARGINS = tuple(
    LossEntry(
        f"margin-{kind}",
        summary,
        partial(_bind, kind),
        convex=True,
        paper="Agarwal and Collins 2010, Maximum margin ranking algorithms for information retrieval",
    )
    for kind, summary in SUMMARIES.items()
)
