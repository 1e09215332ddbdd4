"""Judgments from clicks: grades of query-document pairs, with a confidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gainful.clicks.index import Pairs
from gainful.clicks.log import ClickLog
from gainful.data.dataset import RankingData
from gainful.data.judgments import Qrels
from gainful.data.rows import Array, as_id_array, codes_by_first_appearance, read_only
from gainful.errors import DataError, ParameterError, plural, shorten

MOST_GRADES = 32


@dataclass(frozen=True, eq=False, repr=False)
class Judgments:
    """Graded query-document pairs: entry i of each array is one pair.

    ``relevance`` is the estimate that the grade was made of, ``error`` its standard error, and ``confidence`` the
    probability that the grade is right, by the Beta distribution with that mean and error.
    """

    query_ids: Array
    document_ids: Array
    grades: Array
    relevance: Array
    error: Array
    confidence: Array
    n_grades: int

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                object.__setattr__(self, name, read_only(value))

    def __len__(self) -> int:
        return len(self.grades)

    def __iter__(self) -> Iterator[tuple[Any, Any, float]]:
        """(query, document, grade)."""
        return zip(self.query_ids.tolist(), self.document_ids.tolist(), self.grades.tolist(), strict=True)

    def __repr__(self) -> str:
        return f"Judgments({plural(len(np.unique(self.query_ids)), 'query', 'queries')}, {plural(len(self), 'pair')})"

    def confident(self, least: float) -> Judgments:
        """Those with at least this confidence."""
        keep = self.confidence >= least
        if not keep.any():
            raise DataError(f"no judgment has a confidence of {least:g}; the highest is {self.confidence.max():.6g}")
        arrays = {n: v[keep] for n, v in vars(self).items() if isinstance(v, np.ndarray)}
        return Judgments(**arrays, n_grades=self.n_grades)

    def to_qrels(self) -> Qrels:
        """The grades as qrels, for :func:`gainful.write_qrels` and for metrics of runs."""
        return Qrels.from_rows(self.query_ids.tolist(), self.document_ids.tolist(), self.grades)

    def to_data(self, source: ClickLog | RankingData) -> RankingData:
        """Ranking data with these grades and the features of ``source``; pairs without features are left out.

        A click log gives a pair the features of its last row; ranking data needs document ids.
        """
        X, query, document, names = _features(source)
        last = {(str(q), str(d)): i for i, (q, d) in enumerate(zip(query, document, strict=True))}
        places = [last.get((str(q), str(d)), -1) for q, d, _ in self]
        kept = np.flatnonzero(np.array(places) >= 0)
        if not len(kept):
            first = shorten(next(iter(last)))
            raise DataError(f"no judged pair has features; the first pair that has is {first}, the first judged one "
                            f"{shorten((str(self.query_ids[0]), str(self.document_ids[0])))}")  # fmt: skip
        return RankingData.from_rows(
            X[np.array(places)[kept]],
            self.grades[kept],
            self.query_ids[kept],
            doc_ids=self.document_ids[kept],
            feature_names=names,
        )


def _features(source: ClickLog | RankingData) -> tuple[Any, list[Any], list[Any], Any]:
    if isinstance(source, ClickLog):
        if source.features is None:
            raise DataError("the click log has no features, which ranking data needs; name them when reading it")
        query = np.repeat(source.query_ids[source.query], source.counts).tolist()
        return source.features, query, source.document_ids[source.document].tolist(), source.feature_names
    if isinstance(source, RankingData):
        if source.doc_ids is None:
            raise DataError("the data has no document ids, which judgments need; give them as doc_ids")
        return source.X, source.qid.tolist(), source.doc_ids.tolist(), source.feature_names
    raise ParameterError.of("to_data", "source", "a ClickLog with features or a RankingData", type(source).__name__)


def wanted_pairs(of: Any, fitted: Pairs) -> tuple[Array, Array, Array, Array]:
    """Which pairs to judge: ids of queries, ids of documents, and the code of each in these; distinct pairs."""
    if of is None:
        return fitted.query_ids, fitted.document_ids, fitted.query, fitted.document
    if isinstance(of, ClickLog):
        pairs, _ = Pairs.of_log(of)
        return pairs.query_ids, pairs.document_ids, pairs.query, pairs.document
    if isinstance(of, RankingData):
        if of.doc_ids is None:
            raise DataError("the data has no document ids, which judgments need; give them as doc_ids")
        queries, documents = of.qid, of.doc_ids
    else:
        listed = _listed_pairs(of)
        queries = as_id_array([query for query, _ in listed], "query")
        documents = as_id_array([document for _, document in listed], "document")
    query, query_ids = codes_by_first_appearance(queries)
    document, document_ids = codes_by_first_appearance(documents)
    keys = query.astype(np.int64) * len(document_ids) + document
    first = np.sort(np.unique(keys, return_index=True)[1])
    return query_ids, document_ids, query[first], document[first]


def _listed_pairs(of: Any) -> list[tuple[Any, Any]]:
    try:
        found = [(query, document) for query, document in of]
    except (TypeError, ValueError):
        raise ParameterError.of("judge", "of", "a ClickLog, a RankingData or (query, document) pairs", of) from None
    if not found:
        raise DataError("there are no pairs to judge")
    return found


def grade_pairs(query: Array, document: Array, relevance: Array, error: Array, grades: Any) -> Judgments:
    """Grades of pairs from their relevance and its standard error."""
    if isinstance(grades, bool) or not isinstance(grades, (int, np.integer)) or not 2 <= grades <= MOST_GRADES:
        raise ParameterError.of("judge", "grades", f"a number of grades from 2 to {MOST_GRADES}", grades)
    levels = grade_levels(int(grades))
    cuts = (levels[1:] + levels[:-1]) / 2.0
    grade = np.searchsorted(cuts, relevance, side="right")
    below = _beta_below(np.concatenate([[0.0], cuts, [1.0]])[[grade, grade + 1]], relevance, error)
    return Judgments(query, document, grade.astype(np.float64), relevance, error, below[1] - below[0], int(grades))


def grade_levels(n_grades: int) -> Array:
    """The relevance that each grade stands for: (2^g − 1) / 2^G, where G is the highest, as in ERR."""
    g = np.arange(n_grades)
    return (2.0**g - 1.0) / 2.0 ** (n_grades - 1)


def _beta_below(x: Array, mean: Array, deviation: Array) -> Array:
    """The distribution function of the Beta distribution with this mean and standard deviation."""
    from scipy.special import betainc

    mean = np.clip(mean, 1e-9, 1.0 - 1e-9)
    strength = np.maximum(mean * (1.0 - mean) / np.maximum(deviation, 1e-6) ** 2 - 1.0, 1e-3)
    return np.asarray(betainc(mean * strength, (1.0 - mean) * strength, x))
