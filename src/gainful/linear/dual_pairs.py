"""Margin losses on a linear model, as the dual solvers see them: query by query, documents by decreasing grade."""

from __future__ import annotations

from typing import Any

import numpy as np

from gainful.data.rows import Array, read_only
from gainful.linear.risk import LinearRisk
from gainful.linear.scaling import ScaledRisk
from gainful.losses.margins import GradedPairs


class DualPairs(ScaledRisk):
    """The risk of a margin loss, and the parts of its dual; ``kind`` is "average", "maximum" or "max-average".

    It is a function of v = w·scales, and "documents" are rows of X/scales.
    """

    def __init__(self, pairs: GradedPairs, X: Any, weights: Array, kind: str, scales: Array | None = None):
        inner = LinearRisk(pairs.fill(kind), X, pairs.offsets, weights)
        super().__init__(inner, np.ones(inner.n_features) if scales is None else scales)
        self.pairs, self.X, self.features, self.weights = pairs, X, inner.features, inner.weights
        self.n_queries, self.n_rows, self.n_pairs = pairs.n_queries, pairs.n_rows, pairs.n_pairs

    def places(self, q: int) -> tuple[int, int]:
        """Where a query's documents are in arrays over all documents, by decreasing grade within each query."""
        return int(self.pairs.offsets[q]), int(self.pairs.offsets[q + 1])

    def preferred_counts(self, q: int) -> Array:
        """|P_k| of each document of a query."""
        return np.asarray(self.pairs.preferred[self.pairs.offsets[q] : self.pairs.offsets[q + 1]])

    def levels(self, v: Array, q: int) -> Array:
        """t = s − g of a query's documents at v."""
        lo, hi = self.places(q)
        scores = np.empty(hi - lo)
        self.features.scores(read_only(self.unscale(v)), lo, hi, scores)
        return np.asarray(scores[self.pairs.order[lo:hi]] - self.pairs.by_grade[lo:hi])

    def add_documents(self, q: int, c: Array, v: Array) -> None:
        """v += Σ_i c_i x_i over a query's documents."""
        lo, hi = self.places(q)
        by_row, added = np.empty(hi - lo), np.zeros_like(v)
        by_row[self.pairs.order[lo:hi]] = c
        self.features.add_gradient(by_row, lo, hi, added)
        v += added / self.scales

    def sum_of_documents(self, c: Array) -> Array:
        """Σ_i c_i x_i over all documents."""
        by_row = np.empty(self.n_rows)
        by_row[np.repeat(self.pairs.offsets[:-1], np.diff(self.pairs.offsets)) + self.pairs.order] = c
        total = np.zeros(self.n_features)
        self.features.add_gradient(by_row, 0, self.n_rows, total)
        return np.asarray(total / self.scales)

    def widest_pair(self, q: int) -> float:
        """A bound of ‖x_j − x_k‖² over pairs: documents are at most twice as far apart as from their mean."""
        lo, hi = self.places(q)
        X = self.X[lo:hi]
        X = X / self.scales if isinstance(X, np.ndarray) else X.multiply(1.0 / self.scales).tocsr()
        mean = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
        if isinstance(X, np.ndarray):
            squares = np.square(X - mean).sum(axis=1)
        else:
            squares = np.asarray(X.multiply(X).sum(axis=1)).ravel() - 2.0 * (X @ mean) + mean @ mean
        return 4.0 * max(0.0, float(squares.max()))

    def sum_of_margins(self, c: Array) -> float:
        """Σ_i c_i g_i: the margins of the pairs that make up c."""
        return float(c @ self.pairs.by_grade)
