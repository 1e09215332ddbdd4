"""``Metric``: a metric with its conventions, as a value.

A metric prints as it is typed and parses back: ``metric(str(m)) == m``. What the usual formulas leave open (gain,
discount, ties, queries without relevant documents) is part of the value, so every figure states it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from gainful.data.blocks import PerBlock, Task
from gainful.data.dataset import Dataset, RankingData
from gainful.data.judgments import JudgedRun, Qrels
from gainful.data.pairs import PreferredPairs
from gainful.data.rows import Array, check_doc_ids, check_grades, check_query_weights, group_rows, number_column
from gainful.display import html
from gainful.errors import DataError, ParameterError, UnknownNameError
from gainful.errors.keywords import explain_keywords
from gainful.metrics.conventions import (
    BOUNDS,
    DEFAULTS,
    KINDS,
    PAIR_METRIC,
    PRINTED_IF_CHANGED,
    conventions_of,
    defaults_of,
    options_of,
    parse_convention,
    show,
)
from gainful.metrics.formulas import FORMULAS, rank_discounts
from gainful.metrics.lists import Lists, order_by_document
from gainful.metrics.trec_names import our_name

SPEC = re.compile(r"\s*([a-z][\w-]*)\s*(?:@\s*([^\s()]*))?\s*(?:\((.*)\))?\s*", re.IGNORECASE | re.DOTALL)
STORED_FUNCTION = re.compile(r"\s*function\((.*)\)\s*", re.IGNORECASE | re.DOTALL)
PARAMETERS = ("p", "times", "alpha")  # which no tool decides
BY_DOCUMENT = ("docid", "docid-rising")  # ties
ABOUT_JUDGMENTS = ("bpref", "infap", "judged", "unj", "rbp-resid")  # what is not judged is part of their definition
OF_SUBTOPICS = ("alpha-ndcg", "err-ia")
LARGEST_SUMMED = 1000.0  # grades whose gains 2^g − 1 can be summed; those of NDCG are divided first
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
    recall: float | None = None  # the level of iprec
    times: float | None = None
    alpha: float | None = None
    unjudged: str | None = None
    rounding: str | None = None
    worth: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS or any(getattr(self, name) is None for name in options_of(self.kind, self.k)):
            raise ParameterError(f"a Metric is built by gainful.metric({self.kind!r}), which settles its conventions")

    # -- as text -------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The short form for headings: ``ndcg@10``, ``rbp(0.8)``."""
        return self._head if self.p is None else f"{self._head}({show(self.p)})"

    @property
    def _head(self) -> str:
        """The name with what follows @."""
        cut = self.recall if self.k is None else self.k
        return self.kind if cut is None else f"{self.kind}@{show(cut)}"

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the highest value that the metric can have."""
        return BOUNDS.get(self.kind, (0.0, 1.0))

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
        return f"{self._head}({', '.join(parts)})" if parts else self._head

    def __repr__(self) -> str:
        return f"metric({str(self)!r})"

    def _repr_html_(self) -> str:
        return html.frame(self.name, html.facts(self.conventions.items()))

    def as_parameter(self) -> Any:
        """The metric as a ranker's parameter: text, which files can hold, if the text says it all."""
        return str(self)

    @property
    def accepts_pairs(self) -> bool:
        """Whether it measures preferences."""
        return self.kind == PAIR_METRIC

    def refuse_pairs(self) -> None:
        """Raise unless it measures preferences."""
        if not self.accepts_pairs:
            raise DataError(f"{self.name} needs grades, but the data has preferences; measure them by {PAIR_METRIC}")

    # -- values --------------------------------------------------------------------------------------------------------

    @explain_keywords
    def __call__(
        self, scores: Any, y: Any = None, *, qid: Any = None, query_weights: Any = None, doc_ids: Any = None
    ) -> float:
        """The mean over queries, weighted where there are weights; NaN when every query is skipped.

        ``y`` holds one grade per row and ``qid`` the query of each row, in any order; or ``y`` is a
        :class:`~gainful.data.dataset.RankingData` or :class:`~gainful.ShardedData`, which has its own queries,
        weights and document ids. Or ``scores`` is a run and ``y`` are qrels (:func:`gainful.read_run`,
        :func:`gainful.read_qrels`, or mappings query → document → number).
        ``query_weights`` has one weight per query, in order of first appearance.
        """
        values = self.per_query(scores, y, qid=qid, doc_ids=doc_ids)
        if query_weights is None and isinstance(y, Dataset):
            query_weights = y.query_weights
        return mean_over_queries(values, query_weights)

    @explain_keywords
    def per_query(self, scores: Any, y: Any = None, *, qid: Any = None, doc_ids: Any = None) -> Array:
        """One value per query in order of first appearance, (n_queries,) float64; NaN where skipped.

        For a run, the queries are those of the qrels, in their order; one that the run lacks has an empty list.
        """
        if isinstance(scores, (JudgedRun, Mapping)):
            if qid is not None or doc_ids is not None:
                raise DataError("a run has its own queries and document ids; leave out qid and doc_ids")
            return self._of_run(_judged(scores, y))
        if isinstance(y, (Qrels, Mapping)):
            raise DataError(f"qrels judge a run, query → document → score; the scores are {type(scores).__name__}")
        if isinstance(y, Dataset) and qid is not None:
            raise DataError("qid is given twice: the ranking data in second place has its own")
        if isinstance(y, Dataset) and y.whole is None:
            if doc_ids is not None:
                raise DataError("the ranking data in second place has its own document ids; give none")
            return _by_block(self, scores, y)
        if isinstance(y, Dataset):
            y = y.whole
            assert y is not None
            if y.pairs is not None:
                return self._of_pairs(_checked_scores(scores, y.n_rows), y.pairs)
            grades, order, offsets = y.y, None, y.offsets
            doc_ids = y.doc_ids if doc_ids is None else doc_ids
            scores = _checked_scores(scores, len(grades))
        else:
            grades = self._check_grades(y)
            scores = _checked_scores(scores, len(grades))
            if len(grades) == 0:
                raise DataError("there are no rows; a metric needs at least one query with one document")
            order, offsets, _ = group_rows(qid, len(grades))
        self._refuse_grades(grades)
        ids = check_doc_ids(doc_ids, len(grades)) if self.ties in BY_DOCUMENT else None
        if order is not None:
            scores, grades = scores[order], grades[order]
            ids = None if ids is None else ids[order]
        return self.evaluate(scores, grades, offsets, ids)

    def _of_pairs(self, scores: Array, pairs: PreferredPairs) -> Array:
        """The weighted share of the preferences of each query that the scores respect; equal scores are half right."""
        self.refuse_pairs()
        ours, theirs = scores[pairs.better], scores[pairs.worse]
        right = pairs.sums(pairs.weight * ((ours > theirs) + 0.5 * (ours == theirs)))
        total = pairs.sums(pairs.weight)
        empty = np.nan if self.empty == "skip" else float(self.empty)
        return np.asarray(np.divide(right, total, out=np.full(len(total), empty), where=total > 0.0))

    def _of_run(self, run: JudgedRun) -> Array:
        self._refuse_grades(run.grades)
        return self.evaluate(run.scores, run.grades, run.offsets, run.doc_ids, run)

    def evaluate(
        self, scores: Array, y: Array, offsets: Array, doc_ids: Array | None = None, run: JudgedRun | None = None
    ) -> Array:
        """One value per query of grouped rows, unchecked: contiguous float64 scores and grades, int64 offsets.

        ``run`` is where the rows come from, if some of its documents are not judged or some judged ones not listed.
        """
        if self.kind in OF_SUBTOPICS and run is None:
            raise DataError(f"{self.name} needs the subtopics of documents; measure a run by qrels, which have them")
        listed, origin = None if run is None else run.listed, None
        if self.ties == "docid":
            with np.errstate(over="ignore"):
                scores = scores.astype(np.float32).astype(np.float64)
        if self.ties in BY_DOCUMENT and doc_ids is not None:
            known = {} if run is None else run.orders
            if self.ties not in known:
                rising = self.ties == "docid-rising"
                known[self.ties] = order_by_document(scores, offsets, doc_ids, listed, rising=rising)
            origin = known[self.ties]
            scores, y = scores[origin], y[origin]
        partly = run is not None or self._takes_unjudged
        given = Lists(scores, y, offsets, partly, listed, in_order=origin is not None, origin=origin, run=run)
        if self.unjudged == "skip":
            given = given.without_unjudged()
        sizes = np.diff(given.offsets)
        depth = int(sizes.max()) if len(sizes) else 0
        depth = depth if self.k is None else min(depth, self.k)
        values = self._values(given, depth)
        no_relevant = np.isnan(values)
        if self.short == "zero":
            values[given.counts < self.k] = 0.0
        values[no_relevant] = np.nan if self.empty == "skip" else float(self.empty)
        return np.asarray(values)

    def _values(self, given: Lists, depth: int) -> Array:
        """One value per query, NaN where nothing is relevant; ``depth`` ranks count."""
        return np.asarray(FORMULAS[self.kind](self, given, depth))

    @property
    def _takes_unjudged(self) -> bool:
        """Whether NaN among grades means a document that is not judged."""
        return self.unjudged == "skip" or self.kind in ABOUT_JUDGMENTS

    def _check_grades(self, y: Any) -> Array:
        grades = number_column(y, "grades", "grade")
        unjudged = np.isnan(grades)
        if not unjudged.any():
            return check_grades(y)
        if not self._takes_unjudged:
            row = int(np.flatnonzero(unjudged)[0])
            has = "unjudged" in options_of(self.kind, self.k)
            hint = "; documents that are not judged need unjudged='skip', or a grade of 0" if has else ""
            raise DataError(f"grade of row {row} must be finite and not negative, was nan{hint}")
        check_grades(np.where(unjudged, 0.0, grades))
        return grades

    def discounts(self, depth: int) -> Array:
        """D(1), …, D(depth) of a metric that has a discount, (depth,); 0 beyond k and beyond the end of a table."""
        if self.discount is None:
            raise ParameterError(f"metric {self.name!r} has no discount")
        values = np.zeros(depth)
        found = rank_discounts(self.discount, depth if self.k is None else min(depth, self.k))
        values[: len(found)] = found
        return values

    def _refuse_grades(self, grades: Array) -> None:
        """Raise where a grade has no gain in the table, a gain that overflows, or is above the highest grade of ERR."""
        if self.kind == "dcg" and self.gain == "exp2" and (grades > LARGEST_SUMMED).any():
            row = int(np.nanargmax(grades))
            raise DataError(
                f"grade of row {row} must be at most {LARGEST_SUMMED:g} for {self.name}, whose gains 2^g − 1 are "
                f"summed; was {grades[row]:g}. Measure with a linear gain: {self.name}(gain=linear), or use ndcg"
            )
        if isinstance(self.gain, tuple):
            bad = np.flatnonzero((grades >= 0.0) & ((grades != np.floor(grades)) | (grades >= len(self.gain))))
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


@dataclass(frozen=True, repr=False)
class FunctionMetric(Metric):
    """A function (scores, grades of one query) → number as a metric; larger is better. NaN leaves the query out.

    Its text, ``function(name)``, reads back as a metric without the function, which has a name but no values.
    """

    label: str = ""
    function: Callable[[Array, Array], float] | None = None

    def __post_init__(self) -> None:
        pass  # it has no conventions to check

    @property
    def name(self) -> str:
        return self.label

    @property
    def bounds(self) -> tuple[float, float]:
        return -math.inf, math.inf

    @property
    def conventions(self) -> dict[str, Any]:
        return {}

    def __str__(self) -> str:
        return f"function({self.label})"

    def as_parameter(self) -> Any:
        return self

    def _values(self, given: Lists, depth: int) -> Array:
        if self.function is None:
            raise ParameterError(
                f"the metric {self.label} is a Python function, and only its name was stored; pass the function again"
            )
        if given.listed is not None:
            raise ParameterError(
                f"the metric {self.label} is a function of scores and grades, but a run leaves documents out; "
                "measure the scores of ranking data with it"
            )
        values = np.empty(given.n_queries)
        for q, (a, b) in enumerate(pairwise(given.offsets.tolist())):
            values[q] = self._value(given.scores[a:b], given.y[a:b], q)
        return values

    def _value(self, scores: Array, grades: Array, query: int) -> float:
        assert self.function is not None
        value = self.function(scores, grades)
        if isinstance(value, (bool, int, float, np.number, np.bool_)) and not np.isinf(value):
            return float(value)
        expected = "a finite number, or NaN to leave the query out"
        raise ParameterError.of(f"metric {self.label}", f"the value for query number {query + 1}", expected, value)


def refuse_storing(metrics: Iterable[Metric], what: str) -> None:
    """Raise if results by a function would be stored: another function of the same name could not be told apart."""
    for one in metrics:
        if isinstance(one, FunctionMetric):
            raise ParameterError(f"{what} cannot hold results of {one.label}, which is a Python function; leave it out")


def _as_function(spec: Any) -> FunctionMetric | None:
    """The metric of a function, or of the text of one; None for other metrics."""
    if isinstance(spec, FunctionMetric):
        return spec
    if isinstance(spec, str):
        stored = STORED_FUNCTION.fullmatch(spec)
        return None if stored is None else FunctionMetric("function", empty="skip", label=stored[1])
    if isinstance(spec, Metric) or not callable(spec):
        return None
    if isinstance(spec, type):
        raise ParameterError.of("metric", "spec", f"{SHAPE}, or a function (scores, grades) → number", spec)
    name = getattr(spec, "__name__", None) or type(spec).__name__
    return FunctionMetric("function", empty="skip", label=name, function=spec)


def metric(
    spec: str | Metric | Callable[[Array, Array], float],
    *,
    gain: Any = None,
    discount: Any = None,
    ties: str | None = None,
    empty: int | str | None = None,
    relevant: float | None = None,
    short: str | None = None,
    max_grade: float | None = None,
    divisor: str | None = None,
    alpha: float | None = None,
    unjudged: str | None = None,
    rounding: str | None = None,
    worth: str | None = None,
    convention: str | None = None,
) -> Metric:
    """The metric that ``spec`` names, with its conventions.

    ``spec`` is a text such as ``ndcg@10``, ``map`` or ``rbp(0.5)``, alone or with conventions as ``str`` prints them;
    or a metric, which comes back with the given conventions changed; or a function (scores, grades) → number of one
    query. ``convention`` sets all of them as a tool does (``letor3``, ``letor4``, ``trec_eval-9``, ``trec_eval-10``,
    ``ir-measures``, ``lightgbm``, ``xgboost``, ``catboost``, ``sklearn``; ``trec`` is ``trec_eval-9``); those given one
    by one override it.

    The metrics are ``ndcg@k``, ``dcg@k``, ``mean-ndcg``, ``p@k``, ``map@k``, ``mrr@k``, ``wta``, ``err@k``, ``nerr@k``,
    ``rbp@k(p)``, ``recall@k``, ``hit@k``, ``rprec``, ``iprec@r``, ``bpref``, ``infap``, ``judged@k``, ``alpha-ndcg@k``,
    ``err-ia@k``, ``pair-accuracy``, ``auc``, those of sets (``set-p``, ``set-recall``, ``set-f1``) and the rest of
    trec_eval's; docs/metrics.md defines them.
    trec_eval's names (``P_10``, ``ndcg_cut_10``, ``recip_rank``) mean ours; they choose no conventions.

    =============  =================================================================================================
    ``gain``       ``exp2`` (2^g − 1) | ``linear`` | the gain of each integer grade, as an array
    ``discount``   ``log2`` (1/log2(1 + r)) | ``letor`` (1 at ranks 1 and 2, then 1/log2 r) | an array by rank
    ``ties``       ``average`` (expectation over the orders of equal scores) | ``input`` (order of the rows) |
                   ``worst`` | ``docid`` (trec_eval: descending document id, scores in single precision) |
                   ``docid-rising``
    ``empty``      value of a query without a relevant document: 0 | 1 | ``skip`` (NaN, left out of the mean)
    ``relevant``   least grade that counts as relevant
    ``short``      NDCG@k of a query with fewer than k documents: ``use`` them | ``zero``
    ``max_grade``  highest grade of ERR's scale
    ``divisor``    P@k by ``k`` | ``min`` of k and documents | ``relevant``: min of k and relevant documents;
                   MAP@k by ``min`` of k and relevant | ``all`` relevant
    ``alpha``      how much a subtopic is worth less each time it is met again, in α-nDCG and ERR-IA
    ``unjudged``   documents that are not judged: ``zero`` (not relevant) | ``skip`` (left out of the list)
    ``rounding``   how many of R relevant documents make the recall r of ``iprec``: ``up`` (⌊rR + 0.9⌋) | ``nearest``
    ``worth``      of a document in RBP: ``binary`` | ``scaled`` (its grade over the highest of the query, if above 1)
    =============  =================================================================================================

    >>> str(metric("ndcg@10", gain="linear"))
    'ndcg@10(gain=linear, discount=log2, ties=average, empty=0)'
    """
    given = {
        "gain": gain, "discount": discount, "ties": ties, "empty": empty, "relevant": relevant, "short": short,
        "max_grade": max_grade, "divisor": divisor, "alpha": alpha, "unjudged": unjudged, "rounding": rounding,
        "worth": worth, "convention": convention,
    }  # fmt: skip
    changes = {name: value for name, value in given.items() if value is not None}
    function = _as_function(spec)
    if function is not None:
        changes.pop("convention", None)  # which sets what a metric has, and a function has nothing
        if changes:
            raise ParameterError(f"the metric {function.label} is a function and has no {next(iter(changes))}")
        return function
    assert not callable(spec) or isinstance(spec, Metric)
    if not isinstance(spec, Metric):
        kind, k, written = _parse(spec)
    elif not changes:
        return spec
    else:
        kind, k, written = spec.kind, spec.k, spec.conventions
        if convention is not None:
            written = {name: value for name, value in written.items() if name in PARAMETERS}
        if spec.recall is not None:
            written["recall"] = spec.recall
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
    largest = float(weights[kept].max(initial=0.0))
    if not largest > 0.0:
        return math.nan
    shares = weights[kept] / largest  # so that no sum of huge or tiny weights leaves the range of float64
    return float(shares @ values[kept]) / float(shares.sum())


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
    match = SPEC.fullmatch(our_name(spec)) if isinstance(spec, str) else None
    if match is None:
        raise ParameterError.of("metric", "spec", SHAPE, spec)
    kind, cut, inside = match[1].lower(), match[2], match[3]
    if kind not in KINDS:
        raise UnknownNameError.among("metric", kind, KINDS)
    cut_off = KINDS[kind][0]
    if cut_off == "recall":
        if not cut:
            raise ParameterError.of("metric", "spec", f"'{kind}@r' with a recall r, as in '{kind}@0.1'", spec)
        found = _parse_conventions(kind, inside or "", spec)
        return kind, None, {"recall": cut, **found}
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
        if not equals and kind in ("rbp", "rbp-resid") and "p" not in found:
            name, text = "p", name
        if not name or not text or name.lower() in found:
            raise ParameterError.of("metric", "spec", SHAPE, spec)
        found[name.lower()] = text
    return found


def _build(kind: str, k: int | None, given: Mapping[str, Any], tool: Any) -> Metric:
    cut = given.get("recall", k)
    head = kind if cut is None else f"{kind}@{cut}"
    known = options_of(kind, k)
    for name in given:
        if name not in known and not (name == "recall" and KINDS[kind][0] == "recall"):
            if name in DEFAULTS:
                raise ParameterError(f"metric {head!r} has no {name}; its conventions are {', '.join(known)}")
            raise UnknownNameError.among("convention", name, (*known, "convention"), owner=f"metric {head!r}")
    base = defaults_of(kind) if tool is None else conventions_of(tool, kind)
    owner = f"metric {head!r}"
    chosen = {name: parse_convention(owner, kind, name, given.get(name, base[name])) for name in known}
    if KINDS[kind][0] == "recall":
        chosen["recall"] = parse_convention(owner, kind, "recall", given["recall"])
    return Metric(kind, k, **chosen)


# -- arrays ------------------------------------------------------------------------------------------------------------


def _judged(run: Any, qrels: Any) -> JudgedRun:
    if isinstance(run, JudgedRun):
        if qrels is not None:
            raise DataError("the run in first place is judged already; leave out the qrels")
        return run
    if not isinstance(qrels, Mapping):
        raise DataError(f"a run is measured by qrels, query → document → grade, not by {type(qrels).__name__}")
    return (qrels if isinstance(qrels, Qrels) else Qrels(qrels)).judge(run)


def _checked_scores(scores: Any, n_rows: int) -> Array:
    array = number_column(scores, "scores", "score")
    if array.shape != (n_rows,):
        raise DataError(f"scores must have one entry per row ({n_rows}), had shape {array.shape}")
    missing = np.isnan(array)
    if missing.any():
        raise DataError(f"score of row {int(np.flatnonzero(missing)[0])} is NaN; every row needs a score")
    return array
