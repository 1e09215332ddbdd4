"""How much a model needs each feature: what the measure loses when the feature is shuffled within queries.

For feature j, its values are permuted among the documents of each query, and the model ranks again. The loss on query q
is l_qj = m_q − mean over the repeats of m_q(permuted j), the importance of j its mean over the queries (Breiman, 2001;
within queries, because only the order within a query counts). Intervals come from the l_qj, paired by query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gainful.data.columns import place_of_feature
from gainful.data.dataset import RankingData
from gainful.data.rows import Array
from gainful.display import html, plots
from gainful.errors import ParameterError
from gainful.errors.terminal import visible
from gainful.explanation.explain import TOP, check_model
from gainful.metrics import Metric, mean_over_queries
from gainful.metrics import metric as metric_of
from gainful.rankers.base import Ranker, usual_metric
from gainful.statistics.paired import difference_intervals

Predict = Callable[[RankingData], Array]


@dataclass(frozen=True)
class FeatureLoss:
    """What the measure loses, in the mean over the queries, when one feature is shuffled; with its interval."""

    feature: str
    loss: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class PermutationImportance:
    """The loss of each feature, the largest first, and ``value``, the mean of the measure with nothing shuffled.

    ``per_query`` has the losses, (n_queries, n_features) in the order of ``losses``; NaN where a query is skipped.
    """

    metric: str
    value: float
    level: float
    repeats: int
    losses: tuple[FeatureLoss, ...]
    per_query: Array = field(repr=False)

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """Plain values of all features, or of the first ``top``."""
        return {
            "metric": self.metric,
            "value": self.value,
            "level": self.level,
            "repeats": self.repeats,
            "queries": len(self.per_query),
            "features": [dict(vars(one)) for one in self._first(top, "to_dict")],
        }

    def __str__(self) -> str:
        head = f"{self.metric} {self.value:.4f}; loss when a feature is shuffled within queries"
        lines = [f"  {one.loss:+.4f}  [{one.low:+.4f}, {one.high:+.4f}]  {one.feature}" for one in self.losses]
        return visible("\n".join([head, *lines]))

    def _repr_html_(self) -> str:
        shown = self._first(TOP, "_repr_html_")
        most = max((abs(one.loss) for one in shown), default=0.0)
        rows = [
            (
                one.feature,
                f"{one.loss:+.4f}",
                f"[{one.low:+.4f}, {one.high:+.4f}]",
                html.signed_bar(one.loss / most if most else 0.0),
            )
            for one in shown
        ]
        head = ("feature", "loss", f"{100 * self.level:g} % interval", "")
        about = f"{self.value:.4f}; loss when a feature is shuffled within queries"
        return html.frame(self.metric, html.table(head, rows, left=(0, 3)), about=about)

    def plot(self, ax: Any = None, *, top: int = TOP) -> Any:
        """Draw the losses of the first ``top`` features with their intervals; returns the axes.

        Needs the extra ``plot``.
        """
        shown = self._first(top, "plot")
        ends = [(one.low, one.loss, one.high) for one in shown]
        return plots.intervals(ax, [one.feature for one in shown], ends, x=f"loss of {self.metric} when shuffled")

    def _first(self, top: int | None, owner: str) -> tuple[FeatureLoss, ...]:
        if top is not None and top < 1:
            raise ParameterError.of(owner, "top", "1 or more features, or None for all", top)
        return self.losses[:top]


def permutation_importance(
    model: Ranker,
    data: RankingData,
    *,
    metric: str | Metric | None = None,
    features: Iterable[str | int] | None = None,
    repeats: int = 5,
    level: float = 0.95,
    seed: int = 0,
) -> PermutationImportance:
    """What a measure loses when a feature is shuffled within each query, with intervals over the queries.

    Parameters
    ----------
    model : a fitted ranker, of any kind
    data : queries that the model was not trained on; the cost is 1 + features × repeats predictions of them
    metric : the measure, by default NDCG@10, on preferences ``pair-accuracy``
    features : names, or numbers from 1; all by default
    repeats : permutations of each feature, whose losses are averaged on each query
    level : of the intervals
    seed : of the permutations and of the bootstrap

    Queries count the same, whatever their weights. A feature that others can stand in for loses little: the loss is
    about this model, not about what the feature is worth to a model trained without it.
    """
    check_model(model, "permutation_importance")
    if not isinstance(data, RankingData):
        raise ParameterError.of("permutation_importance", "data", "a RankingData in memory", type(data).__name__)
    if isinstance(repeats, bool) or not isinstance(repeats, (int, np.integer)) or repeats < 1:
        raise ParameterError.of("permutation_importance", "repeats", "an integer ≥ 1", repeats)
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ParameterError.of("permutation_importance", "seed", "an integer ≥ 0", seed)
    if not isinstance(level, (int, float)) or not 0 < level < 1:
        raise ParameterError.of("permutation_importance", "level", "a number in (0, 1)", level)
    measure = usual_metric(data) if metric is None else metric_of(metric)
    places = None if features is None else [place_of_feature(data, one) for one in features]
    values, losses = query_losses(
        lambda rows: rows.add_init_scores(model.predict(rows)), data, measure, places, repeats, seed
    )
    names = data.feature_names or [f"f{j + 1}" for j in range(data.n_features)]
    shown = names if places is None else [names[j] for j in places]
    found, order = summarise_losses(shown, losses, measure, level, seed)
    return PermutationImportance(measure.name, mean_over_queries(values), level, int(repeats), found, losses[:, order])


def query_losses(
    predict: Predict, data: RankingData, measure: Metric, places: Sequence[int] | None, repeats: int, seed: int
) -> tuple[Array, Array]:
    """The measure on each query, (n_queries,), and its loss for each feature, (n_queries, n_features)."""
    values = np.asarray(measure.per_query(predict(data), data))
    chosen = range(data.n_features) if places is None else places
    losses = np.empty((data.n_queries, len(chosen)))
    shuffled = _Shuffled(data)
    for column, place in enumerate(chosen):
        total = np.zeros(data.n_queries)
        for repeat in range(repeats):
            # A seed of its own for each feature: its permutations do not depend on which others are asked for.
            order = _order_within_queries(data, np.random.default_rng([seed, place, repeat]))
            rows = shuffled.column(place, order)
            total += values - np.asarray(measure.per_query(predict(rows), rows))
        losses[:, column] = total / repeats
    return values, losses


def summarise_losses(
    names: Sequence[str], losses: Array, measure: Metric, level: float, seed: int
) -> tuple[tuple[FeatureLoss, ...], Array]:
    """The mean loss of each feature with its interval, the largest first, and the order of the columns."""
    whole = np.isnan(losses) | (losses == 0) | (np.abs(losses) == 1)
    binary = measure.bounds[1] == 1 and bool(whole.all())  # a measure that is 0 or 1 on every query
    low, high = difference_intervals(losses, level=level, highest=measure.bounds[1], binary=binary, seed=seed)
    kept = ~np.isnan(losses)
    counts = np.maximum(kept.sum(axis=0), 1)
    means = np.where(kept.any(axis=0), np.where(kept, losses, 0.0).sum(axis=0) / counts, np.nan)
    order = np.argsort(-means, kind="stable")
    found = tuple(FeatureLoss(names[j], float(means[j]), float(low[j]), float(high[j])) for j in order)
    return found, order


class _Shuffled:
    """The data with one column in another order; a dense copy is made once and mended after each column."""

    def __init__(self, data: RankingData):
        self.data = data
        self.matrix: Any = data.X.tocsc() if data.is_sparse else np.array(data.X)
        self.changed: int | None = None

    def column(self, place: int, order: Array) -> RankingData:
        """The value of row ``order[i]`` in row i."""
        if self.data.is_sparse:
            return self.data.replace(X=self._sparse(place, order))
        if self.changed is not None:
            self.matrix[:, self.changed] = self.data.X[:, self.changed]
        self.matrix[:, place] = self.data.X[order, place]
        self.changed = place
        return self.data.replace(X=self.matrix)

    def _sparse(self, place: int, order: Array) -> Any:
        goes_to = np.empty_like(order)
        goes_to[order] = np.arange(len(order))
        moved = self.matrix.copy()
        begin, end = moved.indptr[place : place + 2]
        moved.indices[begin:end] = goes_to[moved.indices[begin:end]]
        moved.has_sorted_indices = False
        moved.sort_indices()
        return moved.tocsr()


def _order_within_queries(data: RankingData, rng: np.random.Generator) -> Array:
    """A random order of the rows that keeps every row in its query, (n_rows,)."""
    query = np.repeat(np.arange(data.n_queries), data.counts)
    return np.lexsort((rng.random(data.n_rows), query))
