"""``Run`` and ``Qrels``: rankings and judgments by document id, as TREC files hold them.

A run lists some documents of each query, with scores; qrels hold the grades of some documents. The two meet in a
:class:`JudgedRun`, which knows what rows of ranking data cannot: documents that are listed but not judged, and those
that are judged but not listed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np

from gainful.data.dataset import RankingData
from gainful.data.rows import Array, check_column, read_only
from gainful.errors import DataError, ParameterError, shorten

NOTHING = "there are no documents; {what} needs at least one"


class _ByQuery(Mapping[str, Mapping[str, float]]):
    """Query → document → number, held as columns: rows of one query are adjacent."""

    what = ""
    number = ""

    def __init__(self, of: Mapping[Any, Mapping[Any, float]]):
        if not isinstance(of, Mapping) or not all(isinstance(held, Mapping) for held in of.values()):
            raise ParameterError.of(type(self).__name__, "of", f"query → document → {self.number}", type(of).__name__)
        queries = [str(query) for query, held in of.items() for _ in held]
        documents = [str(document) for held in of.values() for document in held]
        self._fill(queries, documents, [number for held in of.values() for number in held.values()])

    @classmethod
    def from_rows(cls, queries: Sequence[Any], documents: Sequence[Any], numbers: Any, **more: Any) -> Self:
        """From columns of the same length, in any order; ids are used as text."""
        made = object.__new__(cls)
        made._fill([str(one) for one in queries], [str(one) for one in documents], numbers, **more)
        return made

    def _fill(self, queries: list[str], documents: list[str], numbers: Any, **more: Any) -> None:
        if not documents:
            raise DataError(NOTHING.format(what=self.what))
        codes = {query: i for i, query in enumerate(dict.fromkeys(queries))}
        column = np.array([codes[query] for query in queries])
        values = check_column(numbers, len(documents), f"{self.number}s")
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            place = f"document {documents[bad[0]]!r} of query {queries[bad[0]]!r}"
            raise DataError(f"the {self.number} of {place} must be a finite number, was {values[bad[0]]:g}")
        self._group(list(codes), column, np.array(documents, dtype=object), values, **more)
        self._refuse_duplicates()

    def _group(self, query_ids: list[str], codes: Array, documents: Array, values: Array) -> None:
        """Take columns over: ``codes[i]`` is the place of the query of row i in ``query_ids``."""
        order = None if (np.diff(codes) >= 0).all() else np.argsort(codes, kind="stable")
        self._order = order
        self.query_ids = read_only(np.array(query_ids, dtype=object))
        sizes = np.bincount(codes, minlength=len(query_ids))
        self.offsets = read_only(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))
        self.doc_ids = read_only(documents if order is None else documents[order])
        self._numbers = read_only(values if order is None else values[order])
        self._place = {query: i for i, query in enumerate(query_ids)}

    @property
    def n_rows(self) -> int:
        return len(self.doc_ids)

    @property
    def n_queries(self) -> int:
        return len(self.query_ids)

    def rows_of(self, query: str) -> slice:
        """The rows of a query; none if it is unknown."""
        place = self._place.get(query)
        return slice(0, 0) if place is None else slice(int(self.offsets[place]), int(self.offsets[place + 1]))

    def __getitem__(self, query: str) -> Mapping[str, float]:
        if query not in self._place:
            raise KeyError(query)
        rows = self.rows_of(query)
        return dict(zip(self.doc_ids[rows].tolist(), self._numbers[rows].tolist(), strict=True))

    def __iter__(self) -> Iterator[str]:
        return iter(self._place)

    def __len__(self) -> int:
        return self.n_queries

    def __contains__(self, query: object) -> bool:
        return query in self._place

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n_queries:,} queries, {self.n_rows:,} documents)"

    def _refuse_duplicates(self) -> None:
        query = np.repeat(np.arange(self.n_queries), np.diff(self.offsets)).tolist()
        seen: set[tuple[Any, ...]] = set()
        for key in zip(query, *(column.tolist() for column in self._keys), strict=True):
            if key in seen:
                subtopic = f" and subtopic {key[2]!r}" if len(key) > 2 else ""
                raise DataError(f"document {key[1]!r} is given twice for query {self.query_ids[key[0]]!r}{subtopic}")
            seen.add(key)

    @property
    def _keys(self) -> tuple[Array, ...]:
        """Columns that together may not repeat in a query."""
        return (self.doc_ids,)


class Run(_ByQuery):
    """The documents that a system returns for each query, with their scores: query → document → score.

    Build it from such a mapping, with :meth:`from_scores`, or with :func:`gainful.read_run`. ``name`` is the run's tag.
    Document ids are texts. Scores decide the order; ranks in files are ignored, as trec_eval does.

    >>> import gainful
    >>> gainful.Run({"q1": {"d1": 2.0, "d2": 1.5}})["q1"]["d1"]
    2.0
    """

    what, number = "a run", "score"
    name = "run"

    def __init__(self, of: Mapping[Any, Mapping[Any, float]], name: str = "run"):
        super().__init__(of)
        self.name = name

    @property
    def scores(self) -> Array:
        """(n_rows,) float64, finite."""
        return self._numbers

    @classmethod
    def from_scores(cls, scores: Any, data: RankingData, name: str = "run") -> Run:
        """The run of a model's scores, one per row of data that has document ids."""
        if data.doc_ids is None:
            raise DataError("the data has no document ids, which a run needs; give them as doc_ids")
        made = cls.from_rows(data.qid.tolist(), data.doc_ids.tolist(), scores)
        made.name = name
        return made


class Qrels(_ByQuery):
    """Judgments: query → document → grade. A document that is not in it is not judged.

    Build it from such a mapping, with :meth:`from_data`, or with :func:`gainful.read_qrels`. ``subtopics`` has one text
    per row if documents are judged by subtopic, else it is None; ``qrels[query]`` then has the highest grade of each
    document. As in trec_eval, a negative grade means in the pool, but not judged.
    """

    what, number = "qrels", "grade"

    subtopics: Array | None = None

    @property
    def _keys(self) -> tuple[Array, ...]:
        return (self.doc_ids,) if self.subtopics is None else (self.doc_ids, self.subtopics)

    @property
    def grades(self) -> Array:
        """(n_rows,) float64, finite."""
        return self._numbers

    @classmethod
    def from_data(cls, data: RankingData) -> Qrels:
        """The grades of ranking data that has document ids."""
        if data.has_pairs:
            raise DataError("the data has preferences, but qrels hold grades")
        if data.doc_ids is None:
            raise DataError("the data has no document ids, which qrels need; give them as doc_ids")
        return cls.from_rows(data.qid.tolist(), data.doc_ids.tolist(), data.y)

    def _group(
        self, query_ids: list[str], codes: Array, documents: Array, values: Array, subtopics: Any = None
    ) -> None:
        super()._group(query_ids, codes, documents, values)
        if subtopics is not None:
            column = np.array([str(one) for one in subtopics], dtype=object)
            if len(column) != len(documents):
                raise DataError(f"subtopics has {len(column)} entries for {len(documents)} rows")
            self.subtopics = read_only(column if self._order is None else column[self._order])

    def __getitem__(self, query: str) -> Mapping[str, float]:
        if self.subtopics is None:
            return super().__getitem__(query)
        if query not in self._place:
            raise KeyError(query)
        rows = self.rows_of(query)
        highest: dict[str, float] = {}
        for document, grade in zip(self.doc_ids[rows].tolist(), self.grades[rows].tolist(), strict=True):
            highest[document] = max(grade, highest.get(document, grade))
        return highest

    def judge(self, run: Mapping[str, Mapping[str, float]], *, queries: str | Collection[str] = "all") -> JudgedRun:
        """The run with the grades of its documents, for metrics.

        ``queries="all"``: every query of the qrels; one that the run lacks has an empty list. "run": only queries that
        the run has, as trec_eval does by default; or the ids of some queries. Those that are not in the qrels are left
        out.
        """
        run = as_run(run)
        if isinstance(queries, str) and queries not in ("all", "run"):
            raise ParameterError.of("judge", "queries", "'all', 'run' or query ids", queries)
        wanted = set(self if queries == "all" else run if queries == "run" else queries)
        chosen = [query for query in self.query_ids.tolist() if query in wanted]
        if not any(query in run for query in chosen):
            ours, theirs = shorten(self.query_ids[0]), shorten(run.query_ids[0])
            raise DataError(f"the run and the qrels have no query in common; the first ones are {theirs} and {ours}")
        return JudgedRun.of(self, run, chosen)

    @cached_property
    def _judged(self) -> list[tuple[dict[str, int], Array, Array]]:
        """Of each query: document → place, the highest grade of each, and the place of each row's document."""
        found = []
        for a, b in pairwise(self.offsets.tolist()):
            places: dict[str, int] = {}
            rows = np.array([places.setdefault(one, len(places)) for one in self.doc_ids[a:b].tolist()])
            grades = np.full(len(places), -np.inf)
            np.maximum.at(grades, rows, self.grades[a:b])
            found.append((places, grades, rows))
        return found

    @cached_property
    def _subtopic_codes(self) -> Array:
        """The number of each row's subtopic; all 0 without subtopics."""
        if self.subtopics is None:
            return np.zeros(self.n_rows, dtype=np.int64)
        codes: dict[str, int] = {}
        return np.array([codes.setdefault(one, len(codes)) for one in self.subtopics.tolist()])


def as_run(run: Any) -> Run:
    """A run, or a mapping query → document → score made one."""
    return run if isinstance(run, Run) else Run(run)


@dataclass(frozen=True, eq=False, repr=False)
class JudgedRun:
    """A run with the grades of its documents: what a metric needs, one row per document.

    The rows of a query are its ``listed`` documents, then those that are judged but not listed, with score −∞. Grades
    are NaN where a document is not judged.
    """

    query_ids: Array
    offsets: Array
    doc_ids: Array
    scores: Array
    grades: Array
    listed: Array  # (n_queries,)
    subtopics: Subtopics
    missing: tuple[str, ...]  # queries that the run lacks
    ignored: tuple[str, ...]  # queries of the run that are not in the qrels

    @classmethod
    def of(cls, qrels: Qrels, run: Run, queries: Sequence[str]) -> JudgedRun:
        """Join ``run`` and ``qrels`` on the ``queries``, which the qrels have."""
        documents: list[Array] = []
        scores: list[Array] = []
        grades: list[Array] = []
        rows_by_query: list[Array] = []
        listed, start = [], 0
        for query in queries:
            places, known, of_rows = qrels._judged[qrels._place[query]]
            mine = run.rows_of(query)
            found = np.array([places.get(one, -1) for one in run.doc_ids[mine].tolist()], dtype=np.int64)
            absent = np.ones(len(known), dtype=bool)
            absent[found[found >= 0]] = False
            others = np.flatnonzero(absent)
            row_of = np.empty(len(known), dtype=np.int64)
            row_of[found[found >= 0]] = start + np.flatnonzero(found >= 0)
            row_of[others] = start + len(found) + np.arange(len(others))
            rows_by_query.append(row_of[of_rows])
            names = np.array(list(places), dtype=object)
            documents += [run.doc_ids[mine], names[others]]
            scores += [run.scores[mine], np.full(len(others), -np.inf)]
            grades += [np.append(known, np.nan)[found], known[others]]
            listed.append(len(found))
            start += len(found) + len(others)
        sizes = [len(a) + len(b) for a, b in zip(scores[::2], scores[1::2], strict=True)]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        taken = np.concatenate([np.arange(qrels.n_rows)[qrels.rows_of(query)] for query in queries])
        doc_ids = np.concatenate(documents)
        return cls(
            query_ids=np.array(queries, dtype=object),
            offsets=offsets,
            doc_ids=doc_ids,
            scores=np.concatenate(scores),
            grades=np.concatenate(grades),
            listed=np.array(listed, dtype=np.int64),
            subtopics=Subtopics.of(
                np.concatenate(rows_by_query), qrels._subtopic_codes[taken], qrels.grades[taken], offsets
            ),
            missing=tuple(query for query in queries if query not in run),
            ignored=tuple(query for query in run if query not in qrels),
        )

    @property
    def n_queries(self) -> int:
        return len(self.query_ids)

    @property
    def n_listed(self) -> int:
        return int(self.listed.sum())

    @cached_property
    def orders(self) -> dict[str, Array]:
        """Orders of the rows that metrics have found and may need again, by name."""
        return {}

    def __repr__(self) -> str:
        return f"JudgedRun({self.n_queries:,} queries, {self.n_listed:,} documents)"


@dataclass(frozen=True)
class Subtopics:
    """The subtopics that documents were judged for: entry i says that row ``rows[i]`` has a grade for ``codes[i]``."""

    rows: Array  # rising
    codes: Array
    grades: Array
    offsets: Array

    @classmethod
    def of(cls, rows: Array, codes: Array, grades: Array, offsets: Array) -> Subtopics:
        order = np.argsort(rows, kind="stable")
        return cls(rows[order], codes[order], grades[order], offsets)

    def by_query(self, relevant: float) -> Iterator[dict[int, list[int]]]:
        """Row → the subtopics that it is relevant to, of each query; rows without any are left out."""
        kept = self.grades >= relevant
        rows, codes = self.rows[kept], self.codes[kept].tolist()
        for a, b in pairwise(np.searchsorted(rows, self.offsets).tolist()):
            held: dict[int, list[int]] = {}
            for row, code in zip(rows[a:b].tolist(), codes[a:b], strict=True):
                held.setdefault(row, []).append(code)
            yield held
