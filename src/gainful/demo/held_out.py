"""Queries for known-item search: for each object, one sentence of its docstring, which is then not indexed.

A sentence qualifies only if no other sentence of the whole library says nearly the same, so that no parent, alias or
sibling that quotes it can give the answer away, and the query has one right answer.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

import numpy as np

from gainful.data.rows import Array

FEWEST_TERMS = 4
MOST_WORDS = 25
FIRST_SENTENCES = 3  # later ones tell details that nobody would search for
MOST_ALIKE = 0.6  # share of terms in common, of all terms in either (Jaccard's index)
MOST_CONTAINED = 0.8  # share of the query's terms that another sentence has


def choose_queries(
    names: Sequence[str], texts: Sequence[Sequence[str]], terms: Sequence[Sequence[list[str]]]
) -> dict[int, int]:
    """Document → place of the sentence that is held out. ``texts`` and ``terms`` have the sentences of each document.

    The choice among the sentences that qualify depends on the name only.
    """
    places = [(d, s) for d, sentences in enumerate(texts) for s in range(len(sentences))]
    alike = Similarity([frozenset(terms[d][s]) for d, s in places])
    chosen: dict[int, int] = {}
    options: dict[int, list[int]] = {}
    for k, (d, s) in enumerate(places):
        if len(texts[d]) > 1 and s < FIRST_SENTENCES and is_query(texts[d][s], terms[d][s]) and alike.is_unique(k):
            options.setdefault(d, []).append(s)
    for d, found in options.items():
        chosen[d] = found[zlib.crc32(names[d].encode()) % len(found)]
    return chosen


def is_query(text: str, terms: Sequence[str]) -> bool:
    """Whether the sentence reads like one: not too short or long, from a capital letter to a full stop, no markup."""
    whole = re.fullmatch(r"[A-Z][^:`|>]*\.", text) is not None
    return whole and len(set(terms)) >= FEWEST_TERMS and len(text.split()) <= MOST_WORDS


class Similarity:
    """How alike sentences are, as sets of terms."""

    def __init__(self, sets: Sequence[frozenset[str]]):
        found: dict[str, list[int]] = {}
        for k, terms in enumerate(sets):
            for term in terms:
                found.setdefault(term, []).append(k)
        self._sets = sets
        self._sizes: Array = np.array([len(terms) for terms in sets], dtype=np.float64)
        self._having: dict[str, Array] = {term: np.array(entries) for term, entries in found.items()}

    def is_unique(self, k: int) -> bool:
        """Whether no other sentence is nearly the same as sentence k, or contains it."""
        common, size = np.zeros(len(self._sets)), self._sizes[k]
        for term in self._sets[k]:
            common[self._having[term]] += 1.0
        common[k] = 0.0
        alike = common / (self._sizes + size - common)
        return bool((alike <= MOST_ALIKE).all() and (common <= MOST_CONTAINED * size).all())
