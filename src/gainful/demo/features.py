"""The features of a document for a query: what a search engineer would make, by name and in plain words."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gainful.data.rows import Array
from gainful.demo.index import K1, B, FieldIndex, neighbours
from gainful.demo.text import terms

FIELDS = {
    "name": "its own name",
    "path": "the names of its class and module",
    "parameters": "its parameters",
    "summary": "the first sentence of its documentation",
    "body": "the rest of its documentation",
    "members": "the names of what it contains",
    "code": "the names in its code",
    "parents": "the documentation of its class and module",
    "siblings": "the documentation of its neighbours",
    "all": "its own text",
}
SEARCHED = tuple(field for field in FIELDS if field != "all")  # "all" repeats some of the others
SHARED_FIELDS = ("name", "summary", "body", "code", "parents", "siblings", "all")
USUAL_WEIGHTS = {"name": 4.0, "summary": 2.0, "code": 0.25, "parents": 0.25, "siblings": 0.25}  # 1 if not named
KINDS = ("module", "class", "method")  # and functions, which are none of these
SHORTEST_PART = 3  # letters of a query term that may be part of a name
BEGINNING = 5  # letters; decompress, decompressor and decompression begin alike

# name → what it says, for readers of the page
FEATURES: dict[str, str] = {
    "bm25": "match in all fields together",
    "bm25_relative": "match in all fields, as a share of the best match",
    **{f"bm25_{field}": f"match in {words}" for field, words in FIELDS.items()},
    **{f"share_{field}": f"share of the query's words that are in {FIELDS[field]}" for field in SHARED_FIELDS},
    "share_sentence": "share of the query's words that are in one sentence of its documentation",
    "likelihood": "probability of the query's words in its own text",
    "pairs": "neighbouring query words that are neighbours in its documentation",
    "beginnings": "match in its own text, by the first letters of words",
    "name_beginnings": "match in its own name, by the first letters of words",
    "name_covered": "share of its name's words that are in the query",
    "parent_covered": "share of the words in its class's or module's name that are in the query",
    "name_letters": "share of its name's letters that the query's words spell",
    "class_support": "match of its neighbours in the same class or module",
    "module_support": "match of others in the same module",
    "summary_length": "length of the first sentence",
    "body_length": "length of the rest of the documentation",
    "name_length": "number of words in its name",
    "n_parameters": "number of parameters",
    "n_members": "number of classes, functions or methods it contains",
    **{f"is_{kind}": f"being a {kind}" for kind in KINDS},
    "module_imports": "popularity of its module (files of the library that import it)",
    "name_uses": "its own popularity (files of the library that use it)",
}


@dataclass(frozen=True)
class Fields:
    """The terms of each field, and the figures of a document that no query changes."""

    name: list[str]
    path: list[str]
    parameters: list[str]
    summary: list[str]
    body: list[str]
    members: list[str]
    code: list[str]
    parents: list[str]
    siblings: list[str]
    parent: list[str]  # the last part of the path
    sentences: list[list[str]]
    letters: str  # the name in lower case, letters only
    inside: tuple[Hashable, Hashable]  # what contains it; its module
    figures: Mapping[str, float]

    @property
    def all(self) -> list[str]:
        return self.name + self.path + self.parameters + self.summary + self.body + self.members

    @property
    def pairs(self) -> list[str]:
        return [pair for one in self.sentences for pair in neighbours(one)]


class FeatureMaker:
    """Computes the features of documents for a query."""

    def __init__(self, documents: Sequence[Fields]):
        self.documents = documents
        self.indexes = {field: FieldIndex.of([getattr(one, field) for one in documents]) for field in FIELDS}
        self.pairs = FieldIndex.of([one.pairs for one in documents])
        self.beginnings = FieldIndex.of([beginnings(one.all) for one in documents])
        self.name_beginnings = FieldIndex.of([beginnings(one.name) for one in documents])
        self.sentences = [[frozenset(spoken) for spoken in one.sentences] for one in documents]
        self.figures: dict[str, Array] = {
            name: np.array([one.figures[name] for one in documents]) for name in documents[0].figures
        }

    def first_stage(self, text: str) -> Array:
        """BM25 of the own text, which decides which documents are looked at, (n_documents,)."""
        return self.indexes["all"].bm25(query_terms(text))

    def features(self, text: str, chosen: Array) -> Array:
        """The features of the chosen documents, (len(chosen), n_features)."""
        query = query_terms(text)
        bm25 = self.field_bm25(query, chosen, np.array([USUAL_WEIGHTS.get(field, 1.0) for field in SEARCHED]))
        columns = {"bm25": bm25, "bm25_relative": bm25 / max(bm25.max(initial=0.0), 1e-12)}
        columns |= {f"bm25_{field}": index.bm25(query)[chosen] for field, index in self.indexes.items()}
        columns |= {f"share_{field}": self.indexes[field].share(query)[chosen] for field in SHARED_FIELDS}
        columns["likelihood"] = self.indexes["all"].likelihood(query)[chosen]
        columns["pairs"] = self.pairs.count(list(dict.fromkeys(neighbours(terms(text)))))[chosen]
        begun = list(dict.fromkeys(beginnings(query)))
        columns["beginnings"] = self.beginnings.bm25(begun)[chosen]
        columns["name_beginnings"] = self.name_beginnings.bm25(begun)[chosen]
        columns |= self._matches(query, chosen)
        for i, name in enumerate(("class_support", "module_support")):
            columns[name] = support([self.documents[d].inside[i] for d in chosen], bm25)
        columns |= {name: values[chosen] for name, values in self.figures.items()}
        return np.column_stack([columns[name] for name in FEATURES])

    def _matches(self, query: Sequence[str], chosen: Array) -> dict[str, Array]:
        """Features that compare the query with the words and letters of each document."""
        documents = [self.documents[d] for d in chosen]
        words, weights = set(query), {term: self.indexes["all"].idf(term) for term in query}
        found = {
            "share_sentence": [best_sentence(self.sentences[d], weights) for d in chosen],
            "name_covered": [covered(one.name, words) for one in documents],
            "parent_covered": [covered(one.parent, words) for one in documents],
            "name_letters": [letters_covered(one.letters, query) for one in documents],
        }
        return {name: np.array(values) for name, values in found.items()}

    def field_bm25(self, query: Sequence[str], chosen: Array, weights: Array, k1: float = K1, b: float = B) -> Array:
        """BM25 over all fields at once (BM25F), of the chosen documents: see :func:`weighted_bm25`."""
        return weighted_bm25(*self.frequencies(query, chosen), weights, k1, b)

    def frequencies(self, query: Sequence[str], chosen: Array) -> tuple[Array, Array, Array]:
        """What BM25 over fields is made of.

        Counts (terms, fields, documents), relative lengths (fields, documents), idf of the terms.
        """
        counts = np.zeros((len(query), len(SEARCHED), len(chosen)))
        where = np.full(len(self.documents), -1)
        where[chosen] = np.arange(len(chosen))
        lengths = np.empty(counts.shape[1:])
        for f, field in enumerate(SEARCHED):
            index = self.indexes[field]
            lengths[f] = index.lengths[chosen] / index.mean_length
            for t, term in enumerate(query):
                if term in index.postings:
                    docs, tf = index.postings[term]
                    at = where[docs]
                    counts[t, f, at[at >= 0]] = tf[at >= 0]
        return counts, lengths, np.array([self.indexes["all"].idf(term) for term in query])


def weighted_bm25(counts: Array, lengths: Array, idf: Array, weights: Array, k1: float, b: float) -> Array:
    """BM25 of fields with weights (BM25F; Robertson, Zaragoza and Taylor 2004), one score per document.

    Σ_t idf(t) · z (k₁ + 1) / (z + k₁)  with  z = Σ_f weight_f · tf_f / (1 − b + b l_f / l̄_f)
    """
    z = np.einsum("fd,tfd->td", weights[:, None] / (1.0 - b + b * lengths), counts)
    return np.asarray(idf @ (z * (k1 + 1.0) / (z + k1)))


def query_terms(text: str) -> list[str]:
    """The distinct terms of a query in their order."""
    return list(dict.fromkeys(terms(text)))


def beginnings(words: Sequence[str]) -> list[str]:
    return [word[:BEGINNING] for word in words]


def covered(name: Sequence[str], words: set[str]) -> float:
    """The share of a name's terms that are among the words."""
    return sum(term in words for term in name) / len(name) if name else 0.0


def letters_covered(letters: str, query: Sequence[str]) -> float:
    """The share of the letters that lie in some query term of at least three letters."""
    marked = [False] * len(letters)
    for term in query:
        if len(term) >= SHORTEST_PART:
            at = letters.find(term)
            while at >= 0:
                marked[at : at + len(term)] = [True] * len(term)
                at = letters.find(term, at + 1)
    return sum(marked) / len(marked) if marked else 0.0


def best_sentence(sentences: Sequence[frozenset[str]], weights: Mapping[str, float]) -> float:
    """The largest share of the query's weight that one sentence has."""
    whole = sum(weights.values())
    shares = [sum(weight for term, weight in weights.items() if term in one) for one in sentences]
    return max(shares, default=0.0) / whole if whole > 0 else 0.0


def support(groups: Sequence[Hashable], scores: Array) -> Array:
    """The share of all scores that the other documents of the same group have."""
    totals: dict[Hashable, float] = {}
    for group, score in zip(groups, scores.tolist(), strict=True):
        totals[group] = totals.get(group, 0.0) + score
    whole = max(float(scores.sum()), 1e-12)
    return np.array([(totals[group] - score) / whole for group, score in zip(groups, scores.tolist(), strict=True)])
