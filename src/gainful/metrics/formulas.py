"""The formula of each metric: from the lists of all queries to one value per query, NaN where nothing is relevant."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from gainful.data.rows import Array
from gainful.metrics import lists
from gainful.metrics.lists import Lists

if TYPE_CHECKING:
    from gainful.metrics.value import Metric


def _kernels() -> Any:
    from gainful.metrics import kernels  # imports the compiler, which most metrics of this module need and some do not

    return kernels


@lru_cache(maxsize=64)
def rank_discounts(discount: str | tuple[float, ...], depth: int) -> Array:
    """Discounts of the ranks 1…depth, fewer if a table is shorter."""
    ranks = np.arange(1.0, depth + 1.0)
    if isinstance(discount, tuple):
        return np.array(discount[:depth])
    logarithms = np.log2(1.0 + ranks) if discount == "log2" else np.maximum(1.0, np.log2(ranks))
    return np.asarray(1.0 / logarithms)


def _by_kernel(name: str, m: Metric, given: Lists, y: Array, depth: int, *rest: Any) -> Array:
    kernels = _kernels()
    ties = {"average": kernels.AVERAGE, "worst": kernels.WORST}.get(m.ties, kernels.INPUT)
    kernel = getattr(kernels, name)
    return np.asarray(
        kernels.over_queries(kernel, given.scores, y, given.offsets, depth, ties, *rest, listed=given.listed)
    )


def _worths(m: Metric, given: Lists) -> Array:
    """The gain of each document by the table, 0 if it is not judged; without a table its grade."""
    if not isinstance(m.gain, tuple):
        return given.grades
    values = np.asarray(m.gain)[given.grades.astype(np.int64)]
    return np.where(given.y >= 0.0, values, 0.0) if given.partly_judged else values


def _gains(m: Metric, given: Lists, depth: int) -> Array:
    y, exp2 = _worths(m, given), m.gain == "exp2"
    weights = rank_discounts(m.discount or "log2", depth)
    values = _by_kernel("discounted_gain", m, given, y, len(weights), weights, exp2)
    return values if m.kind == "dcg" else _normalised(m, given, y, weights, exp2, values)


def _normalised(m: Metric, given: Lists, y: Array, weights: Array, exp2: bool, values: Array) -> Array:
    """Discounted gain over that of the best order of all documents; NaN where no document has a gain."""
    kernels = _kernels()
    best = kernels.over_queries(
        kernels.discounted_gain, y, y, given.offsets, len(weights), kernels.INPUT, weights, exp2
    )
    if np.isinf(best).any():
        shifted = kernels.shifted_gains(y, given.offsets)
        values = _by_kernel("discounted_gain", m, given, shifted, len(weights), weights, False)
        return _normalised(m, given, shifted, weights, False, values)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(best > 0.0, np.minimum(1.0, values / best), np.nan)


def _mean_ndcg(m: Metric, given: Lists, depth: int) -> Array:
    """The mean of NDCG@1, …, NDCG@n over the n ranks of the list."""
    gains = _worths(m, given)
    if m.gain == "exp2":
        gains = _kernels().shifted_gains(gains, given.offsets)
    weights = np.zeros(depth)
    table = rank_discounts(m.discount or "log2", depth)
    weights[: len(table)] = table
    order, best = given.ranked(m.ties), given.perfect(gains)
    sums = order.running(order.shared(gains[order.rows]) * weights[order.rank])
    ideal = best.running(gains[best.rows] * weights[best.rank])[given.offsets[order.query] + order.rank]
    with np.errstate(invalid="ignore", divide="ignore"):
        means = order.sum(np.minimum(1.0, sums / ideal)) / np.maximum(given.counts, 1)
    return np.where(given.sum(gains) > 0.0, means, np.nan)


def _weighted_hits(m: Metric, given: Lists, weights: Array) -> Array:
    return _by_kernel("discounted_gain", m, given, lists.hits(m, given), len(weights), weights, False)


def _precision(m: Metric, given: Lists, depth: int) -> Array:
    found = _weighted_hits(m, given, np.ones(depth))
    if m.divisor == "k":
        return found / float(m.k or 1)
    most = given.sum(lists.hits(m, given)) if m.divisor == "relevant" else given.counts
    return found / np.maximum(1.0, np.minimum(float(m.k or 1), most))


def _first(m: Metric, given: Lists, depth: int) -> Array:
    return _weighted_hits(m, given, np.ones(min(1, depth)))


def _biased(m: Metric, given: Lists, depth: int) -> Array:
    p = m.p or 0.0
    weights = (1.0 - p) * p ** np.arange(depth)
    if m.worth == "binary":
        return _weighted_hits(m, given, weights)
    highest = np.maximum.reduceat(np.append(given.grades, 0.0), given.offsets[:-1])[given.query]
    return _by_kernel("discounted_gain", m, given, given.grades / np.maximum(1.0, highest), depth, weights, False)


def _average_precision(m: Metric, given: Lists, depth: int) -> Array:
    kernels = _kernels()
    divisor = kernels.BY_ALL if m.divisor in (None, "all") else kernels.BY_MIN
    return _by_kernel("average_precision", m, given, lists.hits(m, given), depth, float(depth), divisor)


def _reciprocal_rank(m: Metric, given: Lists, depth: int) -> Array:
    return _by_kernel("reciprocal_rank", m, given, lists.hits(m, given), depth)


def _expected_reciprocal_rank(m: Metric, given: Lists, depth: int) -> Array:
    stops, kernels = (np.exp2(given.grades) - 1.0) / 2.0 ** (m.max_grade or 0.0), _kernels()
    values = _by_kernel("expected_reciprocal_rank", m, given, stops, depth)
    if m.kind == "err":
        return values
    best = kernels.over_queries(kernels.expected_reciprocal_rank, stops, stops, given.offsets, depth, kernels.INPUT)
    return np.asarray(values / best)


def _pair_accuracy(m: Metric, given: Lists, depth: int) -> Array:
    """The share of the pairs of different grade, or relevance, in the right order; equal scores are half right."""
    scores, grades = given.scores, lists.hits(m, given) if m.kind == "auc" else given.grades
    if given.listed is not None:  # below all that are listed, in no order
        place = np.arange(len(scores)) - given.offsets[given.query]
        scores = np.where(place < given.listed[given.query], scores, -np.inf)
    right, pairs = _kernels().count_right_pairs(scores, grades, given.offsets, given.query)
    return np.asarray(np.divide(right, pairs, out=np.full(len(right), np.nan), where=pairs > 0.0))


#: Kind of metric → its formula.
FORMULAS: Mapping[str, Any] = {
    "ndcg": _gains,
    "dcg": _gains,
    "mean-ndcg": _mean_ndcg,
    "p": _precision,
    "map": _average_precision,
    "mrr": _reciprocal_rank,
    "wta": _first,
    "err": _expected_reciprocal_rank,
    "nerr": _expected_reciprocal_rank,
    "rbp": _biased,
    "rbp-resid": lists.residual,
    "recall": lists.recall,
    "hit": lists.hit,
    "rprec": lists.r_precision,
    "iprec": lists.interpolated_precision,
    "iprec-avg": lists.interpolated_precision,
    "bpref": lists.preference,
    "infap": lists.inferred_precision,
    "judged": lists.judged,
    "unj": lists.unjudged,
    **dict.fromkeys(("pair-accuracy", "auc"), _pair_accuracy),
    **dict.fromkeys(("set-p", "set-recall", "set-f1", "set-map", "set-relative-p"), lists.of_sets),
    **dict.fromkeys(("num-ret", "num-rel", "num-rel-ret", "num-nonrel-judged-ret", "utility"), lists.count),
    **dict.fromkeys(("g", "bin-g", "r-ndcg", "ndcg-rel"), lists.by_query),
    **dict.fromkeys(("alpha-ndcg", "err-ia"), lists.of_subtopics),
}
