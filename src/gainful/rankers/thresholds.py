"""What rankers built from thresholded features share: columns, cuts, codes, critical pairs and scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gainful.compute.query_loop import even_cuts, run_each, threads_for
from gainful.data.dataset import RankingData
from gainful.data.query_weights import pair_weights
from gainful.data.rows import Array, Columns, read_only
from gainful.data.size import DataSize
from gainful.losses.preferences import WeighedPairs
from gainful.parameters.constraints import Choice, Either, Integer
from gainful.rankers.base import stored_array
from gainful.rankers.scorers import Steps
from gainful.training.monitor import Monitor

VALUES_PER_THREAD = 2_000_000  # fewer codes than this are not worth a thread
THRESHOLDS = Either(of=(Integer(low=1), Choice(of=("all",))), help="maximum thresholds per feature, or 'all'")
DIRECTIONS = Choice(of=("both", "up"), help="whether a larger feature may lower the score")
Step = tuple[int, float, float]  # feature, threshold, weight


# -- cuts and codes ----------------------------------------------------------------------------------------------------


def cuts_of(column: Array, most: int | None) -> Array:
    """Thresholds between the values of a feature, ascending: all of them, or at most ``most`` at quantiles of the rows.

    Each lies halfway between two neighbouring values; a value is above it when it is ≥ the threshold.
    """
    values = np.sort(column)
    starts = np.flatnonzero(values[1:] > values[:-1]) + 1  # where a new value begins
    if most is not None and len(starts) > most:
        wanted = len(values) * np.arange(1, most + 1) // (most + 1)
        starts = np.unique(starts[np.minimum(np.searchsorted(starts, wanted), len(starts) - 1)])
    low, high = values[starts - 1], values[starts]
    middle = low + (high - low) / 2
    return np.asarray(np.where(middle > low, middle, high))


@dataclass(frozen=True)
class Codes:
    """``codes[j, i]``: the number of thresholds of feature j that row i reaches; ``cuts[j]``: those thresholds."""

    codes: Array
    cuts: list[Array]

    @classmethod
    def of(cls, X: Any, n_thresholds: int | str) -> Codes:
        columns, most = Columns(X), None if n_thresholds == "all" else int(n_thresholds)
        cuts = []
        codes = np.empty((columns.n_features, X.shape[0]), dtype=_code_type(X.shape[0] if most is None else most))
        for j in range(columns.n_features):
            column = columns[j]
            cuts.append(cuts_of(column, most))
            codes[j] = np.searchsorted(cuts[j], column, side="right")
        return cls(codes, cuts)

    def above(self, j: int, t: int) -> Array:
        """Which rows reach threshold t of feature j."""
        return np.asarray(self.codes[j] > t)

    def best(self, potentials: Array, both: bool) -> tuple[Array, Array]:
        """For every feature the largest Σ_i p_i h(x_i) (in absolute value if ``both``), and its threshold."""
        from gainful.rankers import threshold_kernels

        n_features = len(self.cuts)
        sums, places = np.zeros(n_features), np.zeros(n_features, dtype=np.int64)
        n_cuts = np.array([len(cuts) for cuts in self.cuts], dtype=np.int64)
        codes, potentials = read_only(self.codes), read_only(potentials)

        def piece(first: int, last: int) -> None:
            histogram = np.empty(int(n_cuts.max(initial=0)) + 1)
            threshold_kernels.best_thresholds(codes, n_cuts, potentials, first, last, both, histogram, sums, places)

        run_each(piece, even_cuts(n_features, threads_for(self.codes.size, per_thread=VALUES_PER_THREAD)))
        return sums, places


def _code_type(largest: int) -> Any:
    return np.uint8 if largest <= 255 else np.uint16 if largest <= 65_535 else np.int32


# -- critical pairs ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CriticalPairs:
    """The pairs of documents of one query with different grades, never stored.

    ``order`` has the rows of each query by ascending grade, ``below[p]`` the number of documents of the query with a
    lower grade than the one at position p, ``shares[q]`` the weight of each pair of query q. ``own`` are the weights of
    the documents by position, or None; a pair counts by the product of its two. All pairs together weigh 1.
    """

    order: Array
    below: Array
    offsets: Array
    shares: Array
    n_pairs: Array
    own: Array | None

    @classmethod
    def of(cls, data: RankingData, weights: Array, per_query: bool) -> CriticalPairs:
        """``per_query``: every query with pairs counts by its own weight; otherwise every pair by its query's."""
        query = np.repeat(np.arange(data.n_queries), data.counts)
        order = np.lexsort((data.y, query))
        grades = data.y[order]
        new = np.ones(len(order), dtype=bool)
        new[1:] = grades[1:] != grades[:-1]
        new[data.offsets[:-1]] = True
        position = np.arange(len(order)) - data.offsets[:-1][query]
        below = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0)) - data.offsets[:-1][query]
        assert (below <= position).all()
        own = None if data.relative_weights is None else data.relative_weights[order]
        n_pairs = np.add.reduceat(below, data.offsets[:-1]).astype(np.float64)
        if own is not None:
            sums = np.concatenate([[0.0], np.cumsum(own)])
            lower = sums[data.offsets[:-1][query] + below] - sums[data.offsets[:-1][query]]
            n_pairs = np.add.reduceat(own * lower, data.offsets[:-1])
        shares = np.divide(weights, n_pairs if per_query else 1.0, out=np.zeros(len(weights)), where=n_pairs > 0)
        total = float(shares @ n_pairs)
        return cls(order, below, data.offsets, shares / total if total > 0 else shares, n_pairs, own)

    @property
    def empty(self) -> bool:
        """Whether no pair has any weight."""
        return not bool((self.shares * self.n_pairs).any())

    def work(self) -> Array:
        """A workspace for the compiled loops over a query: three numbers per document, and one extra place."""
        return np.empty((3, int(np.diff(self.offsets).max(initial=0)) + 1))

    def arrays(self) -> tuple[Array | None, ...]:
        own = None if self.own is None else read_only(self.own)
        return read_only(self.order), read_only(self.below), read_only(self.offsets), read_only(self.shares), own


def weigh_preferences(data: RankingData, weights: Array, per_query: bool) -> WeighedPairs:
    """The preferences of the data with weights as in :meth:`CriticalPairs.of`; all together weigh 1."""
    assert data.pairs is not None
    own = pair_weights(data)
    sums = data.pairs.sums(own)
    shares = np.divide(weights, sums if per_query else 1.0, out=np.zeros(len(weights)), where=sums > 0)
    total = float(shares @ sums)
    return WeighedPairs.with_weights(data, own * (shares / total if total > 0 else shares)[data.pairs.query])


# -- boosting ----------------------------------------------------------------------------------------------------------


class BoostedSteps:
    """Boosting of a sum of step functions, each of one feature: Σ_t weights_[t]·[x_{features_[t]} ≥ thresholds_[t]].

    A subclass defines ``_loss(data)`` and ``_boost(data, loss, steps, monitor)``, which appends one step per round.
    ``features_``, ``thresholds_`` and ``weights_`` have one entry per round, in order.
    """

    weighs_documents: ClassVar[bool] = True
    accepts_pairs: ClassVar[bool] = True

    n_rounds: int
    early_stopping: int | None

    features_: Array
    thresholds_: Array
    weights_: Array
    n_features_in_: int

    if TYPE_CHECKING:

        def _loss(self, data: RankingData) -> Any: ...

        def _boost(self, data: RankingData, loss: Any, steps: list[Step], monitor: Monitor) -> None: ...

    def _training_bytes(self: Any, size: DataSize) -> float:
        most = size.rows if self.n_thresholds == "all" else int(self.n_thresholds)
        codes = np.dtype(_code_type(int(most))).itemsize * size.rows * size.features
        return float(self.row_bytes * (size.rows + size.valid_rows) + codes)

    def _fit(self, data: RankingData, monitor: Monitor) -> None:
        monitor.total = self.n_rounds
        monitor.stop_early(self.early_stopping)
        loss = self._loss(data)
        steps: list[Step] = []
        with monitor:
            self._boost(data, loss, steps, monitor)
        steps = steps[: monitor.best_iteration]
        self.features_ = np.array([step[0] for step in steps], dtype=np.int64)
        self.thresholds_ = np.array([step[1] for step in steps], dtype=np.float64)
        self.weights_ = np.array([step[2] for step in steps], dtype=np.float64)

    def _scorer(self) -> Steps:
        return Steps(self.features_, self.thresholds_, self.weights_)

    @property
    def feature_importances_(self) -> Array:
        """Σ |weight| of the steps on each feature, (n_features,)."""
        return np.bincount(self.features_, np.abs(self.weights_), minlength=self.n_features_in_)

    def _pack(self) -> dict[str, Any]:
        return {"features": self.features_, "thresholds": self.thresholds_, "weights": self.weights_}

    def _unpack(self, state: Mapping[str, Any]) -> None:
        self.features_ = stored_array(state, "features", (None,), np.int64)
        self.thresholds_ = stored_array(state, "thresholds", (len(self.features_),))
        self.weights_ = stored_array(state, "weights", (len(self.features_),))
        if ((self.features_ < 0) | (self.features_ >= self.n_features_in_)).any():
            raise ValueError("features names one that does not exist")
