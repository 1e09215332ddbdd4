"""From the bytes of a request to the bytes of its answer, with the model in use when it arrived; no HTTP here.

Runs in a thread of the pool. The clock is checked between blocks of work, so that a request past its deadline does not
keep a thread busy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from pydantic_core import to_json

from gainful.data.categories import Categories, encode_features
from gainful.data.limits import large_feature_text
from gainful.data.rows import Array, chunks, scan_features
from gainful.errors import DataError, GainfulError
from gainful.explanation.explain import feature_row, pair_explanation, row_explanation
from gainful.serve.interleaving import Experiment, why_not_together
from gainful.serve.model_slot import Served
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


class OverTimeError(Exception):
    """The request is past its deadline."""


class TooManyRowsError(Exception):
    """The request has too many documents."""


class Job:
    """The computation of one request: its model, its deadline, and its maximum number of rows."""

    def __init__(self, served: Served, deadline: float, max_rows: int, experiment: Experiment | None = None):
        self.served, self.deadline, self.max_rows, self.experiment = served, deadline, max_rows, experiment

    def rank(self, body: bytes) -> Answer:
        """``POST /rank``"""
        request = self._request(RankRequest, body)
        queries, X = self._queries(request)
        scores = self._scores(X, [len(query.documents) for query in queries])
        orders = _orders(queries, scores)
        impressions: list[str | None] = []
        if self.experiment is not None:
            orders, impressions = self._interleave(self.experiment, request, queries, orders, body)
        ranked, start = [], 0
        for number, (query, order) in enumerate(zip(queries, orders, strict=True)):
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
        return to_json(answer), len(scores)

    def _interleave(
        self, experiment: Experiment, request: RankRequest, queries: list[Query], orders: list[Array], body: bytes
    ) -> tuple[list[Array], list[str | None]]:
        """The orders to show and their impression ids; the orders given if the second model cannot take part."""
        second = Job(experiment.second, self.deadline, self.max_rows)
        why = why_not_together(self.served, second.served)
        if why is None:
            try:
                others = second._orders_for(request, body, self.served)
            except DataError as error:
                why = f"{second.served.ranker}: {error}"
            else:
                self._check_time()
                ids = [[_id_of(one, i) for i, one in enumerate(query.documents)] for query in queries]
                return experiment.interleave(ids, orders, others, request.top)
        experiment.skip(len(queries), why)
        return orders, [None] * len(orders)

    def _orders_for(self, request: RankRequest, body: bytes, other: Served) -> list[Array]:
        """The orders of a request that was parsed for another model; words have other numbers in this one."""
        categories = (getattr(one.model, "categories_", None) for one in (self.served, other))
        if any(one is not None for one in categories):
            request = self._request(RankRequest, body)
        queries, X = self._queries(request)
        return _orders(queries, self._scores(X, [len(query.documents) for query in queries]))

    def score(self, body: bytes) -> Answer:
        """``POST /score``"""
        request = self._request(ScoreRequest, body)
        X = self._matrix(request.rows, lambda i: f"rows[{i}]")
        scores = self._scores(X)
        answer: dict[str, Any] = {"model_version": self.served.version, "scores": scores.tolist()}
        if request.contributions:
            answer["explanations"] = self._explain(X, scores, request.top_features)
        return to_json(answer), len(scores)

    def pair(self, body: bytes) -> Answer:
        """``POST /pair``"""
        request = self._request(PairRequest, body)
        X = self._matrix([request.a, request.b], lambda i: "ab"[i])
        parts, scores = self._contributions(X), self._scores(X)
        words = getattr(self.served.model, "categories_", None)
        pair = pair_explanation(self.served.names, X, parts, scores, words)
        return to_json({"model_version": self.served.version} | pair.to_dict(request.top_features)), 2

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _request(self, kind: type[Request], body: bytes) -> Request:
        self._check_time()
        given = read_json(body)
        n = count_rows(given)
        if n > self.max_rows:
            raise TooManyRowsError(f"the request has {n:,} documents, {self.max_rows:,} are allowed; split it")
        categories = getattr(self.served.model, "categories_", None)
        if categories is not None:
            given = encode_documents(given, categories, self.served.names)
        return parse(kind, given)

    def _queries(self, request: RankRequest) -> tuple[list[Query], Array]:
        """The queries of a request, and the features of all their documents."""
        if (request.documents is None) == (request.queries is None):
            raise DataError("give either documents (of one query) or queries, and not both")
        queries = [Query(documents=request.documents)] if request.documents is not None else request.queries or []
        rows = [document.features for query in queries for document in query.documents]
        return queries, self._matrix(rows, _document_place(queries, request.documents is not None))

    def _matrix(self, rows: Sequence[Any], place: Callable[[int], str]) -> Array:
        model, names = self.served.model, self.served.names
        n_features = model.n_features_in_
        if all(type(row) is list and len(row) == n_features for row in rows):
            X = np.array(rows, dtype=np.float64).reshape(len(rows), n_features)
        else:
            X = np.empty((len(rows), n_features))
            for i, row in enumerate(rows):
                X[i] = feature_row(model, names, row, place(i))
        if not model.accepts_missing and np.isnan(X).any():
            row, column = np.argwhere(np.isnan(X))[0]
            raise DataError(
                f"feature {names[column]!r} of {place(int(row))} is missing, which {self.served.ranker} does not accept"
            )
        too_large = scan_features(X).too_large
        if too_large is not None:
            row, column, value = too_large
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
        self, documents: list[Document], X: Array, scores: Array, order: Array, request: RankRequest
    ) -> list[dict[str, Any]]:
        order = order[: request.top]
        places, values = order.tolist(), scores[order].tolist()
        found: list[dict[str, Any]] = [
            {"rank": r + 1, "id": _id_of(documents[i], i), "place": i, "score": values[r]} for r, i in enumerate(places)
        ]
        if request.contributions:
            explanations = self._explain(X[order], scores[order], request.top_features)
            for document, explanation in zip(found, explanations, strict=True):
                document["explanation"] = explanation
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


def _orders(queries: list[Query], scores: Array) -> list[Array]:
    """The documents of each query, best first; equal scores in the order given."""
    ends = np.cumsum([len(query.documents) for query in queries])
    return [np.argsort(-part, kind="stable") for part in np.split(scores, ends[:-1])] if queries else []


def _id_of(document: Document, place: int) -> str | int:
    return place if document.id is None else document.id


def _document_place(queries: list[Query], alone: bool) -> Callable[[int], str]:
    """From the number of a document over all queries to its place in the request."""

    def place(i: int) -> str:
        for q, query in enumerate(queries):
            if i < len(query.documents):
                return f"documents[{i}]" if alone else f"queries[{q}].documents[{i}]"
            i -= len(query.documents)
        raise IndexError(i)

    return place


def _require_finite(values: Array, what: str) -> Array:
    if not np.isfinite(values).all():
        raise DataError(f"{what} overflows; the features are too large for this model")
    return values
