"""Losses over pairs of documents, on linear models: what the solvers see of the data.

With t_i = s_i − g_i the loss of a pair g_j > g_k is [(g_j − g_k) − (s_j − s_k)]_+ = [t_k − t_j]_+. A query's loss is
made of those of its pairs R_q, without ever listing them where there are many:

===============  ====================================================  =============
"average"        (1/\\|R_q\\|) Σ_(j,k) [t_k − t_j]_+                       O(n log n)
"maximum"        max_(j,k) [t_k − t_j]_+                               O(n)
"max-average"    max_k (1/\\|P_k\\|) Σ_(j ∈ P_k) [t_k − t_j]_+             O(n log n)
===============  ====================================================  =============

where P_k are the documents with a higher grade than k (Agarwal and Collins 2010). A query whose grades are all equal
has no pair and no loss.

Conventions
-----------
Query q owns the rows ``offsets[q]:offsets[q + 1]``. Its rows best grade first, in row order inside a grade, are
``offsets[q] + order[offsets[q]:offsets[q + 1]]``; place p of them has the grade ``by_grade[p]`` and ``preferred[p]``
documents with a higher one, which are those at the places before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gainful.compute.features import Features
from gainful.compute.query_loop import Fill, read_only, risk_along, risk_of_features, values_and_gradient
from gainful.data.rows import Array, check_grades
from gainful.errors import ParameterError
from gainful.linear.scaling import ScaledRisk

KERNELS = {"average": "fill_average", "maximum": "fill_maximum", "max-average": "fill_max_average"}
LONG_KERNELS = {"average": "fill_long_average", "max-average": "fill_long_max_average"}  # the same for long queries
LOSSES = tuple(KERNELS)


class GradedPairs:
    """The pairs of a training set by query, as two numbers for each document."""

    def __init__(self, grades: Any, offsets: Any):
        self.offsets = read_only(np.ascontiguousarray(offsets, dtype=np.int64))
        self.n_queries, self.n_rows = len(self.offsets) - 1, int(self.offsets[-1])
        self.grades = read_only(check_grades(grades, self.n_rows))
        counts = np.diff(self.offsets)
        query = np.repeat(np.arange(self.n_queries), counts)
        places = np.lexsort((-self.grades, query))
        first = np.repeat(self.offsets[:-1], counts)
        self.by_grade = read_only(self.grades[places])
        new_block = np.ones(self.n_rows, dtype=bool)
        new_block[1:] = (np.diff(self.by_grade) != 0) | (np.diff(query) != 0)
        starts = np.flatnonzero(new_block)
        block_start = np.repeat(starts, np.diff(np.append(starts, self.n_rows)))
        self.order = read_only((places - first).astype(np.int32))
        self.preferred = read_only((block_start - first).astype(np.int32))
        self.n_pairs = read_only(np.add.reduceat(self.preferred.astype(np.int64), self.offsets[:-1]))


def losses_of(pairs: GradedPairs, scores: Any, loss: str, *, threads: int | None = None) -> tuple[Array, Array]:
    """The loss of each query and its gradient by score: (n_queries,), (n_rows,)."""
    array = read_only(np.ascontiguousarray(scores, dtype=np.float64))
    if array.shape != (pairs.n_rows,):
        raise ParameterError.of("losses_of", "scores", f"{pairs.n_rows} numbers", f"an array of shape {array.shape}")
    return values_and_gradient(_filler(pairs, loss), pairs.offsets, array, threads)


class PairwiseRisk:
    """R(w) = Σ_q ω_q L_q(w) of a training set, for every solver that takes a :class:`~gainful.solvers.risk.Risk`.

    For solvers of the dual it also gives a query's levels at w, best grade first, and sums of documents.
    """

    def __init__(self, pairs: GradedPairs, X: Any, weights: Array, loss: str, *, threads: int | None = None):
        self.pairs, self.X, self.loss, self.threads = pairs, X, loss, threads
        self.features = Features(X)
        self._weights, self._fill = np.asarray(weights, dtype=np.float64), _filler(pairs, loss)
        self.n_features, self.n_queries, self.n_rows = self.features.n_features, pairs.n_queries, pairs.n_rows

    def weights(self) -> Array:
        return self._weights

    # -- primal --------------------------------------------------------------------------------------------------------

    def value_and_gradient(self, w: Array) -> tuple[float, Array, Array]:
        value, gradient, scores = risk_of_features(
            self._fill, self.pairs.offsets, self.features, w, self._weights, want_scores=True, threads=self.threads
        )
        return value, gradient, np.asarray(scores)

    def along(self, scores: Array, direction: Array, t: float) -> tuple[float, float]:
        return risk_along(self._fill, self.pairs.offsets, scores, direction, t, self._weights, self.threads)

    # -- dual ----------------------------------------------------------------------------------------------------------

    def places(self, q: int) -> tuple[int, int]:
        """Where a query's documents stand in arrays over all documents, best grade first within each query."""
        return int(self.pairs.offsets[q]), int(self.pairs.offsets[q + 1])

    def preferred(self, q: int) -> Array:
        """|P_k| of each document of a query, best grade first."""
        return np.asarray(self.pairs.preferred[self.pairs.offsets[q] : self.pairs.offsets[q + 1]])

    def n_pairs(self) -> Array:
        """|R_q| of each query."""
        return np.asarray(self.pairs.n_pairs)

    def levels(self, w: Array, q: int) -> Array:
        """t = s − g of a query's documents at w, best grade first."""
        lo, hi = self.places(q)
        scores = np.empty(hi - lo)
        self.features.scores(read_only(w), lo, hi, scores)
        return np.asarray(scores[self.pairs.order[lo:hi]] - self.pairs.by_grade[lo:hi])

    def add_documents(self, q: int, c: Array, w: Array) -> None:
        """w += Σ_i c_i x_i over a query's documents, best grade first."""
        lo, hi = self.places(q)
        by_row = np.empty(hi - lo)
        by_row[self.pairs.order[lo:hi]] = c
        self.features.add_gradient(by_row, lo, hi, w)

    def sum_of_documents(self, c: Array) -> Array:
        """Σ_i c_i x_i over all documents, best grade first within each query."""
        by_row = np.empty(self.n_rows)
        by_row[np.repeat(self.pairs.offsets[:-1], np.diff(self.pairs.offsets)) + self.pairs.order] = c
        w = np.zeros(self.n_features)
        self.features.add_gradient(by_row, 0, self.n_rows, w)
        return w

    def widest_pair(self, q: int, scales: Array | None = None) -> float:
        """At least ‖x_j − x_k‖² of every pair: documents are no further apart than twice from their mean.

        With ``scales``, of features divided by them.
        """
        lo, hi = self.places(q)
        X = self.X[lo:hi]
        if scales is not None:
            X = X / scales if isinstance(X, np.ndarray) else X.multiply(1.0 / scales).tocsr()
        mean = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
        if isinstance(X, np.ndarray):
            squares = np.square(X - mean).sum(axis=1)
        else:
            squares = np.asarray(X.multiply(X).sum(axis=1)).ravel() - 2.0 * (X @ mean) + mean @ mean
        return 4.0 * max(0.0, float(squares.max()))

    def sum_of_margins(self, c: Array) -> float:
        """Σ_i c_i g_i: the margins of the pairs that c is made of."""
        return float(c @ self.pairs.by_grade)


class ScaledPairs(ScaledRisk):
    """A :class:`PairwiseRisk` as a function of v = w·scales: what asks for documents gets them scaled."""

    def levels(self, v: Array, q: int) -> Array:
        return np.asarray(self.inner.levels(self.unscaled(v), q))

    def add_documents(self, q: int, c: Array, v: Array) -> None:
        added = np.zeros_like(v)
        self.inner.add_documents(q, c, added)
        v += added / self.scales

    def sum_of_documents(self, c: Array) -> Array:
        return np.asarray(self.inner.sum_of_documents(c) / self.scales)

    def widest_pair(self, q: int) -> float:
        return float(self.inner.widest_pair(q, self.scales))


def _filler(pairs: GradedPairs, loss: str) -> Fill:
    """The losses of a run of queries."""
    if loss not in LOSSES:
        raise ParameterError.of("PairwiseRisk", "loss", " or ".join(map(repr, LOSSES)), loss)

    def fill(scores: Array, first: int, last: int, losses: Array, c: Array) -> None:
        from gainful.linear import pairwise_kernels as kernels

        arrays: tuple[Array, ...] = (scores, pairs.grades, pairs.offsets, pairs.order, pairs.preferred)
        if loss == "average":
            arrays = (*arrays, pairs.n_pairs)
        longest = int(np.diff(pairs.offsets[first : last + 1]).max(initial=0))
        queries: tuple[int, ...] = (first, last)
        if loss in LONG_KERNELS:
            queries = (first, last, kernels.SORTED_FROM)
        room = np.empty(longest), np.empty(longest)
        getattr(kernels, KERNELS[loss])(*arrays, *queries, *room, losses, c)
        if loss in LONG_KERNELS and longest >= kernels.SORTED_FROM:
            levels = _places_by_level(pairs, scores, first, last, kernels.SORTED_FROM)
            tree = np.empty((2, longest + 1))
            getattr(kernels, LONG_KERNELS[loss])(*arrays, levels, tree, *queries, *room, losses, c)

    return fill


def _places_by_level(pairs: GradedPairs, scores: Array, first: int, last: int, long: int) -> Array:
    """The places of each long query by rising level, counted from the query's first; scores begin at ``first``."""
    ends = pairs.offsets[first : last + 1]
    places = np.empty(int(ends[-1] - ends[0]), dtype=np.int64)
    for q in np.flatnonzero(np.diff(ends) >= long):
        rows = slice(int(ends[q]), int(ends[q + 1]))
        here = slice(rows.start - int(ends[0]), rows.stop - int(ends[0]))
        levels = scores[here][pairs.order[rows]] - pairs.by_grade[rows]
        places[here] = np.argsort(levels, kind="stable")
    return places
