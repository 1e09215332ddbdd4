"""``Metric``: a metric with its conventions, as a value.

A metric prints as it is typed and parses back: ``metric(str(m)) == m``. What the usual formulas leave open (gain,
discount, ties, queries without relevant documents) is part of the value, so every figure states it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gainful.data.blocks import PerBlock, Task
from gainful.data.dataset import Dataset, RankingData
from gainful.data.frames import column_to_numpy
from gainful.data.rows import Array, check_doc_ids, check_grades, check_query_weights, group_rows
from gainful.errors import DataError, ParameterError, UnknownNameError
from gainful.errors.keywords import explain_keywords
from gainful.metrics.conventions import (
    DEFAULTS,
    KINDS,
    PRINTED_IF_CHANGED,
    conventions_of,
    defaults_of,
    options_of,
    parse_convention,
    show,
)

SPEC = re.compile(r"\s*([a-z]\w*)\s*(?:@\s*([^\s()]*))?\s*(?:\((.*)\))?\s*", re.IGNORECASE | re.DOTALL)
SHAPE = "like 'ndcg@10', 'map', 'rbp(0.8)' or 'ndcg@10(gain=linear, ties=input)'"


@dataclass(frozen=True, repr=False)
class Metric:
    """A ranking metric with its conventions: immutable, hashable, comparable. Build it with :func:`metric`.

    Conventions that the metric does not have are None. Larger is better for all metrics.
    """

    kind: str
    k: int | None = None
    p: float | None = None
    gain: str | tuple[float, ...] | None = None
    discount: str | tuple[float, ...] | None = None
    ties: str = "average"
    empty: int | str = 0
    relevant: float | None = None
    short: str | None = None
    max_grade: float | None = None
    divisor: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS or any(getattr(self, name) is None for name in options_of(self.kind, self.k)):
            raise ParameterError(f"a Metric is built by gainful.metric({self.kind!r}), which settles its conventions")

    # -- as text -------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The short form for headings: ``ndcg@10``, ``rbp(0.8)``."""
        if self.p is not None:
            return f"{self.kind}({show(self.p)})"
        return self.kind if self.k is None else f"{self.kind}@{self.k}"

    @property
    def conventions(self) -> dict[str, Any]:
        """The conventions this metric has, by name."""
        return {name: getattr(self, name) for name in options_of(self.kind, self.k)}

    def __str__(self) -> str:
        usual = defaults_of(self.kind)
        parts = [
            f"{name}={show(value)}"
            for name, value in self.conventions.items()
            if not (name in PRINTED_IF_CHANGED and value == usual[name])
        ]
        head = self.kind if self.k is None else f"{self.kind}@{self.k}"
        return f"{head}({', '.join(parts)})"

    def __repr__(self) -> str:
        return f"metric({str(self)!r})"

    # -- values --------------------------------------------------------------------------------------------------------

    @explain_keywords
    def __call__(
        self, scores: Any, y: Any, *, qid: Any = None, query_weights: Any = None, doc_ids: Any = None
    ) -> float:
        """The mean over queries, weighted where there are weights; NaN when every query is skipped.

        ``y`` holds one grade per row and ``qid`` the query of each row, in any order; or ``y`` is a
        :class:`~gainful.data.dataset.RankingData` or :class:`~gainful.ShardedData`, which has its own queries,
        weights and document ids.
        ``query_weights`` has one weight per query, in order of first appearance.
        """
        values = self.per_query(scores, y, qid=qid, doc_ids=doc_ids)
        if query_weights is None and isinstance(y, Dataset):
            query_weights = y.query_weights
        return mean_over_queries(values, query_weights)

    @explain_keywords
    def per_query(self, scores: Any, y: Any, *, qid: Any = None, doc_ids: Any = None) -> Array:
        """One value per query in order of first appearance, (n_queries,) float64; NaN where skipped."""
        if isinstance(y, Dataset) and qid is not None:
            raise DataError("qid is given twice: the ranking data in second place has its own")
        if isinstance(y, Dataset) and y.whole is None:
            if doc_ids is not None:
                raise DataError("the ranking data in second place has its own document ids; give none")
            return _by_block(self, scores, y)
        if isinstance(y, Dataset):
            y = y.whole
            assert y is not None
            grades, order, offsets = y.y, None, y.offsets
            doc_ids = y.doc_ids if doc_ids is None else doc_ids
            scores = _checked_scores(scores, len(grades))
        else:
            grades = check_grades(y)
            scores = _checked_scores(scores, len(grades))
            if len(grades) == 0:
                raise DataError("there are no rows; a metric needs at least one query with one document")
            order, offsets, _ = group_rows(qid, len(grades))
        self._refuse_grades(grades)
        ids = check_doc_ids(doc_ids, len(grades)) if self.ties == "docid" else None
        if order is not None:
            scores, grades = scores[order], grades[order]
            ids = None if ids is None else ids[order]
        return self.evaluate(scores, grades, offsets, ids)

    def evaluate(self, scores: Array, y: Array, offsets: Array, doc_ids: Array | None = None) -> Array:
        """One value per query of grouped rows, unchecked: contiguous float64 scores and grades, int64 offsets."""
        from gainful.metrics import kernels

        if self.ties == "docid":
            with np.errstate(over="ignore"):
                scores = scores.astype(np.float32).astype(np.float64)
            if doc_ids is not None:
                order = _by_document(scores, offsets, doc_ids)
                scores, y = scores[order], y[order]
        counts = np.diff(offsets)
        depth = int(counts.max()) if len(counts) else 0
        depth = depth if self.k is None else min(depth, self.k)
        values = _VALUES[self.kind](self, kernels, scores, y, offsets, depth)
        no_relevant = np.isnan(values)
        if self.short == "zero":
            values[counts < self.k] = 0.0
        values[no_relevant] = np.nan if self.empty == "skip" else float(self.empty)
        return np.asarray(values)

    def discounts(self, depth: int) -> Array:
        """D(1), …, D(depth) of a metric that has a discount, (depth,); 0 beyond k and beyond the end of a table."""
        if self.discount is None:
            raise ParameterError(f"metric {self.name!r} has no discount")
        values = np.zeros(depth)
        found = _discounts(self.discount, depth if self.k is None else min(depth, self.k))
        values[: len(found)] = found
        return values

    def _refuse_grades(self, grades: Array) -> None:
        """Raise where a grade has no gain in the table, or is above the highest grade of ERR."""
        if isinstance(self.gain, tuple):
            bad = np.flatnonzero((grades != np.floor(grades)) | (grades >= len(self.gain)))
            if len(bad):
                raise DataError(
                    f"grade of row {bad[0]} must be an integer from 0 to {len(self.gain) - 1}, because gain is a table "
                    f"of {len(self.gain)} entries; was {grades[bad[0]]:g}"
                )
        if self.max_grade is not None:
            bad = np.flatnonzero(grades > self.max_grade)
            if len(bad):
                raise DataError(
                    f"grade of row {bad[0]} of {self.name} must be at most max_grade={show(self.max_grade)}, was "
                    f"{grades[bad[0]]:g}; pass max_grade= with the highest grade of your scale"
                )


def metric(
    spec: str | Metric,
    *,
    gain: Any = None,
    discount: Any = None,
    ties: str | None = None,
    empty: int | str | None = None,
    relevant: float | None = None,
    short: str | None = None,
    max_grade: float | None = None,
    divisor: str | None = None,
    convention: str | None = None,
) -> Metric:
    """The metric that ``spec`` names, with its conventions.

    ``spec`` is ``ndcg@k``, ``ndcg``, ``dcg@k``, ``dcg``, ``p@k``, ``map``, ``map@k``, ``mrr``, ``mrr@k``, ``wta``,
    ``err@k``, ``err`` or ``rbp(p)``, alone or with conventions as ``str`` prints them; or a metric, which comes back
    with the given conventions changed. ``convention`` sets all of them as a tool does (``letor3``, ``letor4``,
    ``trec``, ``lightgbm``, ``xgboost``, ``catboost``, ``sklearn``); those given one by one override it.

    =============  =================================================================================================
    ``gain``       ``exp2`` (2^g − 1) | ``linear`` | the gain of each integer grade, as an array
    ``discount``   ``log2`` (1/log2(1 + r)) | ``letor`` (1 at ranks 1 and 2, then 1/log2 r) | an array by rank
    ``ties``       ``average`` (expectation over the orders of equal scores) | ``input`` (order of the rows) |
                   ``worst`` | ``docid`` (trec_eval: descending document id, scores in single precision)
    ``empty``      value of a query without a relevant document: 0 | 1 | ``skip`` (NaN, left out of the mean)
    ``relevant``   least grade that counts as relevant
    ``short``      NDCG@k of a query with fewer than k documents: ``use`` them | ``zero``
    ``max_grade``  highest grade of ERR's scale
    ``divisor``    P@k by ``k`` | ``min`` of k and documents; MAP@k by ``min`` of k and relevant | ``all`` relevant
    =============  =================================================================================================

    >>> str(metric("ndcg@10", gain="linear"))
    'ndcg@10(gain=linear, discount=log2, ties=average, empty=0)'
    """
    given = {
        "gain": gain, "discount": discount, "ties": ties, "empty": empty, "relevant": relevant, "short": short,
        "max_grade": max_grade, "divisor": divisor, "convention": convention,
    }  # fmt: skip
    changes = {name: value for name, value in given.items() if value is not None}
    if not isinstance(spec, Metric):
        kind, k, written = _parse(spec)
    elif not changes:
        return spec
    else:
        kind, k, written = spec.kind, spec.k, spec.conventions
        if convention is not None:
            written = {name: value for name, value in written.items() if name == "p"}
    chosen = written | changes
    tool = chosen.pop("convention", None)
    return _build(kind, k, chosen, tool)


def headings(metrics: Iterable[Metric]) -> dict[Metric, str]:
    """The heading of each metric in a table: its short name, or the full text if two different metrics share that."""
    distinct = list(dict.fromkeys(metrics))
    names = [m.name for m in distinct]
    return {m: m.name if names.count(m.name) == 1 else str(m) for m in distinct}


def mean_over_queries(values: Array, query_weights: Any = None) -> float:
    """Mean of per-query values without the skipped ones (NaN), by weight where there are weights."""
    kept = ~np.isnan(values)
    if query_weights is None:
        return float(values[kept].mean()) if kept.any() else math.nan
    weights = np.asarray(check_query_weights(query_weights, len(values)))
    total = float(weights[kept].sum())
    return float(weights[kept] @ values[kept]) / total if total > 0 else math.nan


# -- over blocks -------------------------------------------------------------------------------------------------------


def measure_blocks(metric: Metric, data: Dataset, score: Task, *arguments: Any) -> float:
    """The mean of a metric over the scores ``score(block, *arguments)``; each block is evaluated where it is."""
    values = np.concatenate(data.map(_measure, metric, score, PerBlock((arguments,) * data.n_blocks)))
    return mean_over_queries(values, data.query_weights)


def _by_block(metric: Metric, scores: Any, data: Dataset) -> Array:
    """One value per query, for scores of all rows in the order of the blocks."""
    given = _checked_scores(scores, data.n_rows)
    own = PerBlock(tuple(np.split(given, np.cumsum(data.rows_by_block)[:-1])))
    return np.concatenate(data.map(_values, metric, own))


def _measure(data: RankingData, metric: Metric, score: Task, arguments: tuple[Any, ...]) -> Array:
    return metric.per_query(score(data, *arguments), data)


def _values(data: RankingData, metric: Metric, scores: Array) -> Array:
    return metric.per_query(scores, data)


# -- from text and keywords --------------------------------------------------------------------------------------------


def _parse(spec: Any) -> tuple[str, int | None, dict[str, Any]]:
    match = SPEC.fullmatch(spec) if isinstance(spec, str) else None
    if match is None:
        raise ParameterError.of("metric", "spec", SHAPE, spec)
    kind, cut, inside = match[1].lower(), match[2], match[3]
    if kind not in KINDS:
        raise UnknownNameError.among("metric", kind, KINDS)
    cut_off = KINDS[kind][0]
    if cut is None and cut_off == "must":
        raise ParameterError.of("metric", "spec", f"'{kind}@k' with a rank k, as in '{kind}@10'", spec)
    if cut is not None and cut_off == "no":
        raise ParameterError.of("metric", "spec", f"'{kind}' without a rank", spec)
    if cut is not None and not (cut.isascii() and cut.isdigit() and int(cut) >= 1):
        raise ParameterError.of(f"metric {kind!r}", "k", "an integer from 1, as in 'ndcg@10'", cut)
    return kind, None if cut is None else int(cut), _parse_conventions(kind, inside or "", spec)


def _parse_conventions(kind: str, inside: str, spec: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in inside.split(",") if inside.strip() else ():
        name, equals, text = (piece.strip() for piece in part.partition("="))
        if not equals and kind == "rbp" and "p" not in found:
            name, text = "p", name
        if not name or not text or name.lower() in found:
            raise ParameterError.of("metric", "spec", SHAPE, spec)
        found[name.lower()] = text
    return found


def _build(kind: str, k: int | None, given: Mapping[str, Any], tool: Any) -> Metric:
    head = kind if k is None else f"{kind}@{k}"
    known = options_of(kind, k)
    for name in given:
        if name not in known:
            if name in DEFAULTS:
                raise ParameterError(f"metric {head!r} has no {name}; its conventions are {', '.join(known)}")
            raise UnknownNameError.among("convention", name, (*known, "convention"), owner=f"metric {head!r}")
    base = defaults_of(kind) if tool is None else conventions_of(tool, kind)
    owner = f"metric {head!r}"
    chosen = {name: parse_convention(owner, kind, name, given.get(name, base[name])) for name in known}
    return Metric(kind, k, **chosen)


# -- arrays ------------------------------------------------------------------------------------------------------------


def _checked_scores(scores: Any, n_rows: int) -> Array:
    try:
        array = np.ascontiguousarray(column_to_numpy(scores), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"scores must be numbers: {error}") from error
    if array.shape != (n_rows,):
        raise DataError(f"scores must have one entry per row ({n_rows}), had shape {array.shape}")
    missing = np.isnan(array)
    if missing.any():
        raise DataError(f"score of row {int(np.flatnonzero(missing)[0])} is NaN; every row needs a score")
    return array


def _by_document(scores: Array, offsets: Array, doc_ids: Array) -> Array:
    """The order of rows that sorts documents with equal scores in a query by descending id, compared as text."""
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((-scores, query))
    again = (scores[order[1:]] == scores[order[:-1]]) & (query[order[1:]] == query[order[:-1]])
    if not again.any():
        return np.arange(len(scores))
    tied = np.concatenate([[False], again]) | np.concatenate([again, [False]])
    _, rank = np.unique(doc_ids[order[tied]].astype(str), return_inverse=True)
    key = np.zeros(len(scores), dtype=np.int64)
    key[order[tied]] = -rank
    return np.lexsort((key, -scores, query))


@lru_cache(maxsize=64)
def _discounts(discount: str | tuple[float, ...], depth: int) -> Array:
    """Discounts of the ranks 1…depth, fewer if a table is shorter."""
    ranks = np.arange(1.0, depth + 1.0)
    if isinstance(discount, tuple):
        return np.array(discount[:depth])
    logarithms = np.log2(1.0 + ranks) if discount == "log2" else np.maximum(1.0, np.log2(ranks))
    return np.asarray(1.0 / logarithms)


def _ties_code(m: Metric, kernels: Any) -> Any:
    return {"average": kernels.AVERAGE, "worst": kernels.WORST}.get(m.ties, kernels.INPUT)


def _binary(m: Metric, y: Array) -> Array:
    return (y >= m.relevant).astype(np.float64)


def _gain_values(m: Metric, kernels: Any, scores: Array, y: Array, offsets: Array, depth: int) -> Array:
    if isinstance(m.gain, tuple):
        y = np.asarray(m.gain)[y.astype(np.int64)]
    weights, ties, exp2 = _discounts(m.discount or "log2", depth), _ties_code(m, kernels), m.gain == "exp2"
    if m.kind == "ndcg":
        return np.asarray(kernels.normalised_gain(scores, y, offsets, ties, weights, exp2))
    rest = (len(weights), ties, weights, exp2)
    return np.asarray(kernels.over_queries(kernels.discounted_gain, scores, y, offsets, *rest))


def _weighted_hits(m: Metric, kernels: Any, scores: Array, y: Array, offsets: Array, weights: Array) -> Array:
    rest = (len(weights), _ties_code(m, kernels), weights, False)
    return np.asarray(kernels.over_queries(kernels.discounted_gain, scores, _binary(m, y), offsets, *rest))


def _precision_values(m: Metric, kernels: Any, scores: Array, y: Array, offsets: Array, depth: int) -> Array:
    hits = _weighted_hits(m, kernels, scores, y, offsets, np.ones(depth))
    return hits / (float(m.k or 1) if m.divisor == "k" else np.minimum(depth, np.diff(offsets)))


def _first_values(m: Metric, kernels: Any, scores: Array, y: Array, offsets: Array, depth: int) -> Array:
    return _weighted_hits(m, kernels, scores, y, offsets, np.ones(min(1, depth)))


def _biased_values(m: Metric, kernels: Any, scores: Array, y: Array, offsets: Array, depth: int) -> Array:
    p = m.p or 0.0
    return _weighted_hits(m, kernels, scores, y, offsets, (1.0 - p) * p ** np.arange(depth))


def _average_precision_values(m: Metric, kernels: Any, scores: Array, y: Array, offsets: Array, depth: int) -> Array:
    divisor = kernels.BY_ALL if m.divisor in (None, "all") else kernels.BY_MIN
    rest = (depth, _ties_code(m, kernels), float(depth), divisor)
    return np.asarray(kernels.over_queries(kernels.average_precision, scores, _binary(m, y), offsets, *rest))


def _reciprocal_values(m: Metric, kernels: Any, scores: Array, y: Array, offsets: Array, depth: int) -> Array:
    rest = (depth, _ties_code(m, kernels))
    return np.asarray(kernels.over_queries(kernels.reciprocal_rank, scores, _binary(m, y), offsets, *rest))


def _expected_reciprocal_values(m: Metric, kernels: Any, scores: Array, y: Array, offsets: Array, depth: int) -> Array:
    stops = (np.exp2(y) - 1.0) / 2.0 ** (m.max_grade or 0.0)
    rest = (depth, _ties_code(m, kernels))
    return np.asarray(kernels.over_queries(kernels.expected_reciprocal_rank, scores, stops, offsets, *rest))


_VALUES: Mapping[str, Any] = {
    "ndcg": _gain_values,
    "dcg": _gain_values,
    "p": _precision_values,
    "map": _average_precision_values,
    "mrr": _reciprocal_values,
    "wta": _first_values,
    "err": _expected_reciprocal_values,
    "rbp": _biased_values,
}
