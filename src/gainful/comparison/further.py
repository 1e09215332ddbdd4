"""What a comparison can say beside "better than the baseline": all pairs, practical equality, parts of the queries."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from gainful.comparison.segments import OTHERS
from gainful.data.rows import Array
from gainful.errors import ParameterError
from gainful.metrics import mean_over_queries
from gainful.statistics.paired import equivalences, holm, joint_randomizations, p_values

if TYPE_CHECKING:
    from gainful.comparison.result import Comparison


@dataclass(frozen=True)
class PairOfRankers:
    """The first ranker against the second on one measure.

    p-values are raw (``p``) and Holm-corrected over all pairs (``p_holm``); ``p_joint`` is that of the randomisation
    test of all pairs at once, which needs no further correction.
    """

    first: str
    second: str
    measure: str
    difference: float
    interval: tuple[float, float]  # not corrected
    p: Mapping[str, float]
    p_holm: Mapping[str, float]
    p_joint: float


@dataclass(frozen=True)
class Equality:
    """Whether a ranker and the baseline are practically the same: their mean difference lies within ±``delta``.

    ``p`` is that of two one-sided tests, ``p_holm`` corrected over the rankers.
    """

    ranker: str
    measure: str
    delta: float
    difference: float
    p: float
    p_holm: float
    equal: bool


@dataclass(frozen=True)
class Choices:
    """What else a comparison shows."""

    all_pairs: bool = False
    delta: float | None = None
    segments: Any = None  # query id → name: a mapping or a function

    def __post_init__(self) -> None:
        delta = self.delta
        if delta is not None and (isinstance(delta, bool) or not isinstance(delta, (int, float)) or not delta > 0):
            raise ParameterError.of("compare", "delta", "a number above 0", delta)
        if not (self.segments is None or callable(self.segments) or isinstance(self.segments, Mapping)):
            expected = "a mapping from query ids to names, or a function of the query id"
            raise ParameterError.of("compare", "segments", expected, self.segments)

    def to_dict(self) -> dict[str, Any]:
        return {"all_pairs": self.all_pairs, "delta": self.delta, "segments": self.segments is not None}


def all_pairs(comparison: Comparison, measure: str) -> tuple[PairOfRankers, ...]:
    """Every pair, the better one first; the pairs from the largest difference to the smallest."""
    order = [label for label in comparison.by_mean if not math.isnan(comparison.mean(label, measure))]
    order.sort(key=lambda label: -comparison.mean(label, measure))
    pairs = list(combinations(order, 2))
    if not pairs:
        return ()
    differences = comparison.weighted_differences(pairs, measure)
    raw = {test: p_values(test, differences, comparison.seed) for test in comparison.tests}
    corrected = {test: holm(p) for test, p in raw.items()}
    low, high = comparison.difference_intervals(pairs, measure)
    joint = joint_randomizations(differences, comparison.seed)
    found = [
        PairOfRankers(
            first,
            second,
            measure,
            difference=float(np.nanmean(column)) if not np.isnan(column).all() else 0.0,
            interval=(float(low[i]), float(high[i])),
            p={test: raw[test][i] for test in comparison.tests},
            p_holm={test: corrected[test][i] for test in comparison.tests},
            p_joint=float(joint[i]),
        )
        for i, ((first, second), column) in enumerate(zip(pairs, differences.T, strict=True))
    ]
    return tuple(sorted(found, key=lambda pair: -pair.difference))


def equalities(comparison: Comparison, measure: str, delta: float) -> tuple[Equality, ...]:
    """Of every ranker except the baseline, whether it is practically the same."""
    others = [label for label in comparison.by_mean if label != comparison.baseline]
    if not others:
        return ()
    columns = np.column_stack([comparison.differences(label, comparison.baseline, measure) for label in others])
    weights, highest = comparison.query_weights, comparison._highest(measure)
    raw = equivalences(columns, delta, weights, highest=highest, seed=comparison.seed).tolist()
    found = []
    for label, column, p, adjusted in zip(others, columns.T, raw, holm(raw), strict=True):
        difference = mean_over_queries(column, weights)
        found.append(Equality(label, measure, delta, difference, p, adjusted, adjusted <= comparison.alpha))
    return tuple(found)


def segment_names(query_ids: Array, segments: Mapping[Any, Any] | Callable[[Any], Any]) -> Array:
    """The segment of each query; a mapping may name queries by their id or by its text."""
    if not isinstance(segments, Mapping):
        return np.array([str(segments(query)) for query in query_ids.tolist()], dtype=object)
    known = {str(query): str(name) for query, name in segments.items()}
    return np.array([known.get(str(query), OTHERS) for query in query_ids.tolist()], dtype=object)


def by_segment(comparison: Comparison, segments: Any) -> dict[str, Comparison]:
    """The same comparison on the queries of each segment, the largest segment first."""
    Choices(segments=segments)
    names = segment_names(comparison.query_ids, segments)
    found, sizes = np.unique(names.astype(str), return_counts=True)
    order = sorted(zip(found.tolist(), sizes.tolist(), strict=True), key=lambda one: (-one[1], one[0]))
    return {name: restrict(comparison, names == name) for name, _ in order}


def restrict(comparison: Comparison, kept: Array) -> Comparison:
    """The comparison on some of its test queries; nothing is trained again."""
    runs: dict[str, Any] = {}
    for label, parts in comparison.runs.items():
        chosen = []
        for run, fold in zip(parts, _folds(comparison), strict=True):
            own = kept[comparison.fold_of_query == fold]
            values = {m: np.asarray(found)[own] for m, found in run.values.items()}
            chosen.append(replace(run, values=values, scores=None, explained=None))
        runs[label] = tuple(chosen)
    weights = comparison.query_weights
    return replace(
        comparison,
        runs=runs,
        query_ids=comparison.query_ids[kept],
        fold_of_query=comparison.fold_of_query[kept],
        query_weights=None if weights is None else weights[kept],
        documents=comparison.documents.of_queries(kept),
        choices=Choices(),
    )


def _folds(comparison: Comparison) -> Sequence[int]:
    return list(dict.fromkeys(comparison.fold_of_query.tolist()))
