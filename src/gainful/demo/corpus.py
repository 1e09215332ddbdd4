"""``SearchCorpus``: documents, held-out queries and features of a search over the standard library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gainful.data.dataset import RankingData
from gainful.data.rows import Array
from gainful.demo.features import FEATURES, KINDS, FeatureMaker, Fields
from gainful.demo.held_out import choose_queries
from gainful.demo.library import LibraryObject, gather_library
from gainful.demo.text import sentences, terms
from gainful.errors import DataError, ParameterError

CANDIDATES = 60
PARENT_SENTENCES = 3
ITSELF, ITS_CLASS, ITS_MODULE = 3.0, 2.0, 1.0


@dataclass(frozen=True)
class Document:
    """What is searched: an object of the library and the sentences of its docstring, without the one held out."""

    source: LibraryObject
    sentences: tuple[str, ...]
    held_out: str | None  # the sentence that is a query and is not searched

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def title(self) -> str:
        """The name as one would write it in a program."""
        known = self.source.parameters
        return self.name if known is None else f"{self.name}({', '.join(known)})"


class SearchCorpus:
    """Objects of the standard library as documents, and one query per object whose documentation can spare a sentence.

    Every such object is the answer to exactly one query, and has lost exactly one sentence. Only these are candidates
    in :meth:`data`, so that no ranker can tell an answer by what was taken from it.
    """

    def __init__(self, objects: Sequence[LibraryObject], uses: Mapping[str, Mapping[str, int]]):
        texts = [sentences(one.doc) for one in objects]
        kept = [i for i, text in enumerate(texts) if text]
        if not kept:
            raise DataError("none of the objects has a docstring")
        objects, texts = [objects[i] for i in kept], [texts[i] for i in kept]
        found = [[terms(one) for one in text] for text in texts]
        chosen = choose_queries([one.name for one in objects], texts, found)
        self.documents = tuple(
            Document(
                source,
                tuple(one for s, one in enumerate(text) if s != chosen.get(d)),
                text[chosen[d]] if d in chosen else None,
            )
            for d, (source, text) in enumerate(zip(objects, texts, strict=True))
        )
        self._uses = uses
        self._sentence_terms = [
            [one for s, one in enumerate(spoken) if s != chosen.get(d)] for d, spoken in enumerate(found)
        ]

    @classmethod
    def gather(cls, modules: Sequence[str] | None = None) -> SearchCorpus:
        """The corpus of the modules named, by default of all public modules of the standard library."""
        return cls(*gather_library(modules))

    @cached_property
    def place(self) -> dict[str, int]:
        """Name → document."""
        return {one.name: i for i, one in enumerate(self.documents)}

    @cached_property
    def queries(self) -> dict[str, str]:
        """Name of the object that is looked for → the sentence that looks for it."""
        return {one.name: one.held_out for one in self.documents if one.held_out is not None}

    @cached_property
    def maker(self) -> FeatureMaker:
        return FeatureMaker([self._fields(one) for one in self.documents])

    def _fields(self, document: Document) -> Fields:
        source = document.source
        path = source.name.split(".") if source.kind == "module" else source.name.split(".")[:-1]
        own, spoken = terms(source.short_name), self._sentence_terms[self.place[source.name]]
        summary, body = spoken[0] if spoken else [], [term for one in spoken[1:] for term in one]
        figures = {
            "summary_length": len(summary),
            "body_length": math.log1p(len(body)),
            "name_length": len(own),
            "n_parameters": len(source.parameters or ()),
            "n_members": math.log1p(len(source.members)),
            **{f"is_{kind}": source.kind == kind for kind in KINDS},
            "module_imports": math.log1p(self.count_uses(source)[0]),
            "name_uses": math.log1p(self.count_uses(source)[1]),
        }
        return Fields(
            name=own,
            path=[term for part in path for term in terms(part)],
            parameters=[term for one in source.parameters or () for term in terms(one)],
            summary=summary,
            body=body,
            members=[term for one in source.members for term in terms(one)],
            code=[term for one in source.code for term in terms(one)],
            parents=self._terms_of(self._parents(source), PARENT_SENTENCES),
            siblings=self._terms_of(self._neighbours(source), 1),
            parent=terms(source.parent.rpartition(".")[2]),
            sentences=spoken,
            inside=(source.parent, source.module),
            letters=source.short_name.lower().replace("_", "").replace(".", ""),
            figures={name: float(value) for name, value in figures.items()},
        )

    def _parents(self, source: LibraryObject) -> list[int]:
        """The class and the module that contain the object."""
        around = dict.fromkeys((source.parent, source.module))
        return [self.place[one] for one in around if one in self.place and one != source.name]

    def _neighbours(self, source: LibraryObject) -> list[int]:
        """The other objects in the same class or module, and those inside this one."""
        inside = self._inside.get(source.name, []) if source.kind in ("class", "module") else []
        beside = self._inside.get(source.parent, []) if source.kind != "module" else []
        return [d for d in beside if self.documents[d].name != source.name] + inside

    @cached_property
    def _inside(self) -> dict[str, list[int]]:
        """Class or module → the objects directly inside it."""
        found: dict[str, list[int]] = {}
        for d, one in enumerate(self.documents):
            found.setdefault(one.source.parent, []).append(d)
        return found

    def _terms_of(self, documents: Sequence[int], n_sentences: int) -> list[str]:
        """The terms of the first sentences of these documents."""
        return [term for d in documents for one in self._sentence_terms[d][:n_sentences] for term in one]

    def count_uses(self, source: LibraryObject) -> tuple[int, int]:
        """How many files of the library import the object's module, and how many use the object.

        A method counts wherever a method of that name is called: whose it is cannot be seen from the source.
        """
        imports = self._uses["imports"].get(source.module, 0)
        if source.kind == "module":
            return imports, imports
        if source.kind == "method":
            return imports, self._uses["calls"].get(source.short_name, 0)
        return imports, self._uses["names"].get(source.name, 0)

    # -- search --------------------------------------------------------------------------------------------------------

    def candidates(self, text: str, n: int = CANDIDATES, *, among: Array | None = None) -> Array:
        """The n best documents by BM25 of their own text, best first; those without a match are left out."""
        scores = self.maker.first_stage(text)
        if among is not None:
            scores = np.where(among, scores, 0.0)
        order = np.argsort(-scores, kind="stable")[:n]
        return np.asarray(order[scores[order] > 0])

    def features(self, text: str, documents: Array) -> Array:
        """The features of these documents for a query, one row each; the columns are those of ``FEATURES``."""
        return self.maker.features(text, documents)

    def grade(self, target: str, document: str) -> float:
        """How close a document is to what is looked for: 3 the object itself, 2 its class, 1 its module, else 0."""
        source = self.documents[self.place[target]].source
        if document == source.name:
            return ITSELF
        if source.kind == "method" and document == source.parent:
            return ITS_CLASS
        return ITS_MODULE if document == source.module else 0.0

    def data(self, n_candidates: int = CANDIDATES) -> RankingData:
        """The queries whose answer is among the best candidates, with features and grades."""
        among = np.array([one.held_out is not None for one in self.documents])
        X, y, counts, queries, names = [], [], [], [], []
        for target, text in self.queries.items():
            found = self.candidates(text, n_candidates, among=among)
            listed = [self.documents[d].name for d in found]
            if target in listed:
                X.append(self.features(text, found))
                y += [self.grade(target, name) for name in listed]
                names += listed
                counts.append(len(found))
                queries.append(target)
        if not queries:
            raise DataError("no query finds its answer; name more modules")
        return RankingData(
            X=np.vstack(X),
            y=np.array(y),
            offsets=np.concatenate([[0], np.cumsum(counts)]),
            query_ids=np.array(queries),
            doc_ids=np.array(names),
            feature_names=tuple(FEATURES),
        )


def make_search(modules: Sequence[str] | None = None, *, n_candidates: int = CANDIDATES) -> RankingData:
    """Real text that every machine has: search over the documentation of Python's standard library.

    Documents are modules, classes, functions and methods. A query is a sentence of one object's docstring, which is
    taken out of what is searched; its id is the name of that object. Grades: 3 the object itself, 2 its class, 1 its
    module. The ``n_candidates`` best documents by BM25 are ranked; queries whose answer is not among them are left out.
    Texts are in :class:`SearchCorpus`, whose ``data()`` this is.

    Parameters
    ----------
    modules : names of modules to search; by default all public ones of this Python
    n_candidates : documents per query

    The result depends on the version of Python and its optional modules only. Nothing is downloaded.
    """
    if isinstance(modules, str) or not (modules is None or all(isinstance(one, str) for one in modules)):
        raise ParameterError.of("make_search", "modules", "a list of names of modules, or None for all", modules)
    if not isinstance(n_candidates, (int, np.integer)) or isinstance(n_candidates, bool) or n_candidates < 2:
        raise ParameterError.of("make_search", "n_candidates", "an integer ≥ 2", n_candidates)
    return SearchCorpus.gather(modules).data(int(n_candidates))
