"""From the bytes of a request to the bytes of its answer, with the model in use when it arrived; no HTTP here.

Runs in a thread of the pool. The clock is checked between blocks of work, so that a request past its deadline does not
keep a thread busy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import numpy as np

from gainful.data.categories import Categories, encode_features
from gainful.data.limits import large_feature_text
from gainful.data.rows import Array, chunks, scan_features
from gainful.errors import DataError, GainfulError, shorten
from gainful.explanation.explain import feature_row, pair_explanation, row_explanation
from gainful.rankers.base import LinearScores
from gainful.serve import plain_bodies
from gainful.serve.interleaving import Experiment, Lists, why_not_together
from gainful.serve.model_slot import Served
from gainful.serve.npy_bodies import read_matrix
from gainful.serve.plain_bodies import Plain, read_plain
from gainful.serve.schema import (
    Document,
    PairRequest,
    Query,
    RankRequest,
    Request,
    ScoreRequest,
    count_rows,
    parse,
    read_json,
)

SCORED_BLOCK = 1000  # rows between two checks of the clock
EXPLAINED_BLOCK = 8  # SHAP values of 500 trees take about 4 ms per row

Answer = tuple[bytes, int]  # JSON, rows scored
AnyDocument = Document | plain_bodies.Document


class OnlyQuery(NamedTuple):
    """The query of a request that has only one."""

    documents: Sequence[AnyDocument]
    id: None = None


class Ranked(msgspec.Struct, gc=False):
    """A document in the answer, as in ``schema.RankedDocument``."""

    rank: int
    id: str | int
    place: int
    score: float
    explanation: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


Ranking = RankRequest | plain_bodies.RankRequest
Groups = Sequence[Query | plain_bodies.Query | OnlyQuery]


class OverTimeError(Exception):
    """The request is past its deadline."""


class NotQuickError(Exception):
    """The request takes more than a millisecond or so, too long for the event loop."""


class TooManyRowsError(Exception):
    """The request has too many documents."""


class Job:
    """The computation of one request: its model, its deadline, and its maximum number of rows."""

    def __init__(
        self,
        served: Served,
        deadline: float,
        max_rows: int,
        experiment: Experiment | None = None,
        is_npy: bool = False,
    ):
        self.served, self.deadline, self.max_rows, self.experiment = served, deadline, max_rows, experiment
        self.is_npy = is_npy  # the body is a matrix, not JSON
        self.may_be_quick = experiment is None and isinstance(served.model, LinearScores)
        self.is_quick = False  # whether what is not quick is to be given up

    def rank(self, body: bytes) -> Answer:
        """``POST /rank``"""
        request, queries, X = self._rank_request(body)
        _refuse_equal_ids(queries)
        scores = self._scores(X, [len(query.documents) for query in queries])
        orders = _orders(queries, scores)
        if self.experiment is None:
            return self._answer(request, queries, X, scores, Lists(orders))
        mixed = self._interleave(self.experiment, request, queries, X, orders, body)
        if mixed is not None:
            answer = self._answer(request, queries, X, scores, mixed)
            self._check_time()
            if self.experiment.log(mixed):
                return answer
        return self._answer(request, queries, X, scores, Lists(orders, [None] * len(orders)))

    def _answer(self, request: Ranking, queries: Groups, X: Array, scores: Array, lists: Lists) -> Answer:
        ranked, start, impressions = [], 0, lists.impressions
        for number, (query, order) in enumerate(zip(queries, lists.orders, strict=True)):
            end = start + len(query.documents)
            documents = self._rank(query.documents, X[start:end], scores[start:end], order, request)
            impression = {"impression": impressions[number]} if impressions else {}
            ranked.append({"id": query.id, **impression, "documents": documents})
            start = end
        answer: dict[str, Any] = {"model_version": self.served.version}
        if request.documents is not None:
            answer |= {name: value for name, value in ranked[0].items() if name != "id"}
        else:
            answer["queries"] = ranked
        return msgspec.json.encode(answer), len(scores)

    def _interleave(
        self, experiment: Experiment, request: Ranking, queries: Groups, X: Array, orders: list[Array], body: bytes
    ) -> Lists | None:
        """The lists to show; None if the second model cannot take part."""
        second = Job(experiment.second, self.deadline, self.max_rows, is_npy=self.is_npy)
        why = why_not_together(self.served, second.served)
        if why is None:
            try:
                others = second._orders_for(queries, X, body, self.served)
            except DataError as error:
                why = f"{second.served.ranker}: {error}"
            else:
                self._check_time()
                ids = [[_id_of(one, i) for i, one in enumerate(query.documents)] for query in queries]
                return experiment.interleave(ids, orders, others, request.top)
        experiment.skip(len(queries), why)
        return None

    def _orders_for(self, queries: Groups, X: Array, body: bytes, other: Served) -> list[Array]:
        """The orders of a request that was read for another model; words have other numbers in this one."""
        categories = (getattr(one.model, "categories_", None) for one in (self.served, other))
        if any(one is not None for one in categories):
            _, queries, X = self._rank_request(body)
        else:
            self._check_values(X, _document_place(queries))
        return _orders(queries, self._scores(X, [len(query.documents) for query in queries]))

    def score(self, body: bytes) -> Answer:
        """``POST /score``"""
        request, X = self._score_request(body)
        scores = self._scores(X)
        answer: dict[str, Any] = {"model_version": self.served.version, "scores": scores.tolist()}
        if request.contributions:
            answer["explanations"] = self._explain(X, scores, request.top_features)
        return msgspec.json.encode(answer), len(scores)

    def pair(self, body: bytes) -> Answer:
        """``POST /pair``"""
        request = self._request(PairRequest, body)
        X = self._matrix([request.a, request.b], lambda i: "ab"[i])
        parts, scores = self._contributions(X), self._scores(X)
        words = getattr(self.served.model, "categories_", None)
        pair = pair_explanation(self.served.names, X, parts, scores, words)
        return msgspec.json.encode({"model_version": self.served.version} | pair.to_dict(request.top_features)), 2

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _request(self, kind: type[Request], body: bytes) -> Request:
        self._check_time()
        given = read_json(body)
        self._check_count(count_rows(given))
        categories = getattr(self.served.model, "categories_", None)
        if categories is not None:
            given = encode_documents(given, categories, self.served.names)
        return parse(kind, given)

    def _rank_request(self, body: bytes) -> tuple[Ranking, Groups, Array]:
        """The request, its queries, and the features of all their documents."""
        plain = self._plain_request(plain_bodies.RankRequest, body)
        request: Ranking = self._request(RankRequest, body) if plain is None else plain[0]
        if (request.documents is None) == (request.queries is None):
            raise DataError("give either documents (of one query) or queries, and not both")
        queries: Groups = request.queries or []
        if request.documents is not None:
            queries = [OnlyQuery(request.documents)]
        place = _document_place(queries)
        if plain is None:
            return request, queries, self._matrix([one.features for query in queries for one in query.documents], place)
        return request, queries, self._check_values(plain[1], place)

    def _score_request(self, body: bytes) -> tuple[ScoreRequest | plain_bodies.ScoreRequest, Array]:
        plain = self._plain_request(plain_bodies.ScoreRequest, body)
        if plain is not None:
            return plain[0], self._check_values(plain[1], _row_place)
        request = self._request(ScoreRequest, body)
        return request, self._matrix(request.rows, _row_place)

    def _plain_request(self, kind: type[Plain], body: bytes) -> tuple[Plain, Array] | None:
        """The request, if its features are all lists of numbers; features that take words are not."""
        self._check_time()
        model = self.served.model
        has_words, plain = getattr(model, "categories_", None) is not None, None
        if self.is_npy:
            if has_words:
                raise DataError(f"features of {self.served.ranker} hold text, and a matrix cannot; send JSON")
            X = read_matrix(body, model.n_features_in_, self.served.ranker)
            self._check_count(len(X))
            return kind.of_rows(len(X)), X
        if not has_words:
            plain = read_plain(kind, body, model.n_features_in_, self.max_rows)
        if self.is_quick and (plain is None or plain[0].contributions):
            raise NotQuickError
        return plain

    def _matrix(self, rows: Sequence[Any], place: Callable[[int], str]) -> Array:
        model, names = self.served.model, self.served.names
        n_features = model.n_features_in_
        if all(type(row) is list and len(row) == n_features for row in rows):
            X = np.array(rows, dtype=np.float64).reshape(len(rows), n_features)
        else:
            X = np.empty((len(rows), n_features))
            for i, row in enumerate(rows):
                X[i] = feature_row(model, names, row, place(i))
        return self._check_values(X, place)

    def _check_values(self, X: Array, place: Callable[[int], str]) -> Array:
        """The features, unless the model cannot take one of them."""
        model, names = self.served.model, self.served.names
        facts = scan_features(X)
        if facts.has_missing and not model.accepts_missing:
            row, column = np.argwhere(np.isnan(X))[0]
            raise DataError(
                f"feature {names[column]!r} of {place(int(row))} is missing, which {self.served.ranker} does not accept"
            )
        if facts.too_large is not None:
            row, column, value = facts.too_large
            raise DataError(large_feature_text(f"feature {names[column]!r} of {place(row)}", value))
        return X

    def _scores(self, X: Array, counts: Sequence[int] | None = None) -> Array:
        """Scores of the rows; ``counts`` has the number of rows of each query, where they are of queries."""
        scores, model = np.empty(len(X)), self.served.model
        with np.errstate(over="ignore", invalid="ignore"):
            for rows, queries in self._blocks(len(X), counts):
                self._check_time()
                scores[rows] = model.predict(X[rows], **queries)
        return _require_finite(scores, "the score")

    def _blocks(self, n_rows: int, counts: Sequence[int] | None) -> Iterator[tuple[slice, dict[str, Array]]]:
        """Rows to score before the next look at the clock, and the sizes of their queries if the model needs them."""
        if not self.served.model.needs_queries:
            yield from ((slice(start, start + SCORED_BLOCK), {}) for start in range(0, n_rows, SCORED_BLOCK))
            return
        if counts is None:
            raise DataError(f"{self.served.ranker} scores the documents of a query together; send them to /rank")
        sizes = np.array([n for n in counts if n], dtype=np.int64)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        for first, last in pairwise(chunks(offsets, 0, len(sizes), SCORED_BLOCK)):
            yield slice(int(offsets[first]), int(offsets[last])), {"group": sizes[first:last]}

    def _rank(
        self, documents: Sequence[AnyDocument], X: Array, scores: Array, order: Array, request: Ranking
    ) -> list[Ranked]:
        order = order[: request.top]
        places, values = order.tolist(), scores[order].tolist()
        found = [
            Ranked(rank, _id_of(documents[i], i), i, value)
            for rank, (i, value) in enumerate(zip(places, values, strict=True), 1)
        ]
        if request.contributions:
            explanations = self._explain(X[order], scores[order], request.top_features)
            for document, explanation in zip(found, explanations, strict=True):
                document.explanation = explanation
        return found

    def _explain(self, X: Array, scores: Array, top: int | None) -> list[dict[str, Any]]:
        parts, names, explanations = self._contributions(X), self.served.names, []
        words = getattr(self.served.model, "categories_", None)
        for i in range(len(X)):
            if i % EXPLAINED_BLOCK == 0:
                self._check_time()
            explanations.append(row_explanation(names, X[i], parts[i], float(scores[i]), words).to_dict(top))
        return explanations

    def _contributions(self, X: Array) -> Array:
        model = self.served.model
        reason = model._why_no_contributions()
        if reason is not None:
            raise GainfulError(reason)
        parts = np.empty((len(X), X.shape[1] + 1))
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(X), EXPLAINED_BLOCK):
                self._check_time()
                parts[start : start + EXPLAINED_BLOCK] = model.contributions(X[start : start + EXPLAINED_BLOCK])
        return _require_finite(parts, "a contribution")

    def _check_count(self, n: int) -> None:
        if n > self.max_rows:
            raise TooManyRowsError(f"the request has {n:,} documents, {self.max_rows:,} are allowed; split it")

    def _check_time(self) -> None:
        if time.monotonic() > self.deadline:
            raise OverTimeError


def encode_documents(given: Any, categories: Categories, names: Sequence[str]) -> Any:
    """The plain values of a request with the words in features of text replaced by their numbers.

    What has another form than a request is left as it is, for the parser to refuse.
    """
    if not isinstance(given, dict):
        return given

    def features(value: Any, place: str) -> Any:
        return encode_features(value, categories, names, place)

    def documents(value: Any, place: str) -> Any:
        if not isinstance(value, list):
            return value
        return [
            one | {"features": features(one["features"], f"{place}[{i}]")}
            if isinstance(one, dict) and "features" in one
            else one
            for i, one in enumerate(value)
        ]

    encoded = dict(given)
    for name, value in given.items():
        if name == "documents":
            encoded[name] = documents(value, name)
        elif name == "queries" and isinstance(value, list):
            encoded[name] = [
                query | {"documents": documents(query["documents"], f"queries[{q}].documents")}
                if isinstance(query, dict) and "documents" in query
                else query
                for q, query in enumerate(value)
            ]
        elif name == "rows" and isinstance(value, list):
            encoded[name] = [features(row, f"rows[{i}]") for i, row in enumerate(value)]
        elif name in ("a", "b"):
            encoded[name] = features(value, name)
    return encoded


def _orders(queries: Groups, scores: Array) -> list[Array]:
    """The documents of each query, best first; equal scores in the order given."""
    ends = np.cumsum([len(query.documents) for query in queries])
    return [np.argsort(-part, kind="stable") for part in np.split(scores, ends[:-1])] if queries else []


def _id_of(document: AnyDocument, place: int) -> str | int:
    return place if document.id is None else document.id


def _refuse_equal_ids(queries: Groups) -> None:
    """Raise if two documents of a query have the same id, as text: clicks on them could not be told apart."""
    place = _document_place(queries)
    start = 0
    for query in queries:
        ids = [document.id for document in query.documents]
        if (types := set(map(type, ids))) == {type(None)}:
            ids = []  # they are numbered
        elif len(types) > 1:  # numbers beside texts, or beside places
            ids = [str(_id_of(one, i)) for i, one in enumerate(query.documents)]
        if len(set(ids)) < len(ids):
            first: dict[Any, int] = {}
            i = next(i for i, one in enumerate(ids) if first.setdefault(one, i) != i)
            raise DataError(
                f"{place(start + i)} has the id of {place(start + first[ids[i]])}, {shorten(ids[i])}; the documents of "
                "a query need different ids, also as text"
            )
        start += len(query.documents)


def _document_place(queries: Groups) -> Callable[[int], str]:
    """From the number of a document over all queries to its place in the request."""

    def place(i: int) -> str:
        for q, query in enumerate(queries):
            if i < len(query.documents):
                return f"documents[{i}]" if isinstance(query, OnlyQuery) else f"queries[{q}].documents[{i}]"
            i -= len(query.documents)
        raise IndexError(i)

    return place


def _row_place(i: int) -> str:
    return f"rows[{i}]"


def _require_finite(values: Array, what: str) -> Array:
    if not np.isfinite(values).all():
        raise DataError(f"{what} overflows; the features are too large for this model")
    return values
