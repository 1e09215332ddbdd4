"""An inverted index over documents with fields: BM25, matched weight and language model of a query, for all documents.

With tf the count of a term in a field of a document, l the length of that field and l̄ its mean over the documents that
have it::

    idf(t) = log(1 + (N − df(t) + ½) / (df(t) + ½))        within the field
    BM25   = Σ_t idf(t) · tf · (k₁ + 1) / (tf + k₁ (1 − b + b l / l̄))
    share  = Σ_{t found} idf(t) / Σ_t idf(t)

The page's script repeats these sums in the same order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from gainful.data.rows import Array

K1, B = 1.2, 0.75


@dataclass(frozen=True)
class FieldIndex:
    """One field of all documents: term → the documents that have it and how often, and the length per document."""

    postings: dict[str, tuple[Array, Array]]
    lengths: Array
    mean_length: float
    _scores: dict[str, Array] = field(default_factory=dict, repr=False)  # BM25 by term, of the documents that have it

    @classmethod
    def of(cls, texts: Sequence[Sequence[str]]) -> FieldIndex:
        """``texts`` has the terms of each document."""
        found: dict[str, list[tuple[int, int]]] = {}
        for place, text in enumerate(texts):
            for term, count in Counter(text).items():
                found.setdefault(term, []).append((place, count))
        postings = {}
        for term, entries in found.items():
            pairs = np.array(entries, dtype=np.int64)
            postings[term] = (pairs[:, 0], pairs[:, 1].astype(np.float64))
        lengths = np.array([len(text) for text in texts], dtype=np.float64)
        filled = lengths[lengths > 0]
        return cls(postings, lengths, float(filled.sum()) / len(filled) if len(filled) else 1.0)

    @property
    def n_documents(self) -> int:
        return len(self.lengths)

    def idf(self, term: str) -> float:
        df = len(self.postings[term][0]) if term in self.postings else 0
        return float(np.log(1.0 + (self.n_documents - df + 0.5) / (df + 0.5)))

    def bm25(self, query: Sequence[str]) -> Array:
        """BM25 of each document for distinct terms, (n_documents,)."""
        total = np.zeros(self.n_documents)
        for term in query:
            if term in self.postings:
                total[self.postings[term][0]] += self._bm25_of(term)
        return total

    def _bm25_of(self, term: str) -> Array:
        if term not in self._scores:
            docs, tf = self.postings[term]
            norm = K1 * (1.0 - B + B * self.lengths[docs] / self.mean_length)
            self._scores[term] = self.idf(term) * tf * (K1 + 1.0) / (tf + norm)
        return self._scores[term]

    def share(self, query: Sequence[str]) -> Array:
        """The share of the query's weight, by idf, that each document has."""
        total, whole = np.zeros(self.n_documents), 0.0
        for term in query:
            weight = self.idf(term)
            whole += weight
            if term in self.postings:
                total[self.postings[term][0]] += weight
        return total / whole if whole > 0 else total

    def count(self, query: Sequence[str]) -> Array:
        """How many terms of the query each document has."""
        total = np.zeros(self.n_documents)
        for term in query:
            if term in self.postings:
                total[self.postings[term][0]] += 1.0
        return total

    def likelihood(self, query: Sequence[str]) -> Array:
        """Mean log-probability of the query's terms under each document, smoothed by the whole (Dirichlet's prior).

        Relative to a document of mean length without any of the terms: 0 there, higher is better. Terms that no
        document has are left out.
        """
        known = [term for term in query if term in self.postings]
        total, words = np.zeros(self.n_documents), float(self.lengths.sum())
        for term in known:
            docs, tf = self.postings[term]
            total[docs] += np.log1p(tf * words / (self.mean_length * float(tf.sum())))
        if not known:
            return total
        return total / len(known) - np.log((self.lengths + self.mean_length) / (2.0 * self.mean_length))


def neighbours(terms: Sequence[str]) -> list[str]:
    """Each two adjacent terms as one."""
    return [f"{a} {b}" for a, b in pairwise(terms)]
