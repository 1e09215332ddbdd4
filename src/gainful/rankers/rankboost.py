"""RankBoost: boosting of thresholded features on the pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gainful.compute.query_loop import even_cuts, run_each, threads_for, values_and_gradient
from gainful.data.dataset import RankingData
from gainful.data.query_weights import query_shares
from gainful.data.rows import Array, Columns, read_only
from gainful.losses.preferences import PairFill
from gainful.parameters.constraints import Choice, Integer, MetricSpec, parameter, patience
from gainful.parameters.space import IntRange, Space, Values
from gainful.rankers.base import Ranker
from gainful.rankers.thresholds import (
    DIRECTIONS,
    THRESHOLDS,
    BoostedSteps,
    Codes,
    CriticalPairs,
    Step,
    weigh_preferences,
)
from gainful.training.monitor import Monitor

LARGEST_R = 1.0 - 1e-6  # a perfect weak ranker would have infinite weight
NOTHING_LEFT = 1e-12  # of the loss: every pair is in order by a wide margin
ROWS_PER_THREAD = 50_000


@dataclass(repr=False, eq=False)
class RankBoost(BoostedSteps, Ranker):
    """Boosting on pairs: a sum of step functions, each of one feature (Freund, Iyer, Schapire and Singer 2003).

    Over the critical pairs i ≻ j (documents of one query, g_i > g_j) RankBoost maintains a distribution D(i, j), at
    first uniform. Each round picks the weak ranker h(x) = [x_f ≥ θ] with the largest |r|, gives it the weight α, and
    shifts D to the pairs still in the wrong order::

        r = Σ D(i, j) (h(x_i) − h(x_j)),   α = ½ ln((1 + r)/(1 − r)),   D(i, j) ∝ D(i, j) exp(α (h(x_j) − h(x_i)))

    Each round multiplies the exponential loss Σ D₁(i, j) exp(s_j − s_i), an upper bound of the share of pairs in the
    wrong order, by √(1 − r²) or less. D is never stored: it factorises over documents, so one potential per document
    gives r for all thresholds of a feature in one pass over its codes.

    Parameters
    ----------
    n_rounds : maximum rounds; fewer with ``eval_set`` and ``early_stopping``
    n_thresholds : maximum thresholds per feature, at quantiles of the rows; or "all"
    pairs : the initial D: "all" weights every pair equally (as in the paper), "query" every query
    directions : "both", or "up": only weights α > 0, so that scores never fall when a feature grows
    early_stopping : stop when ``eval_metric`` on ``eval_set`` has not improved for this many rounds, and keep the best
        one; None keeps all rounds
    eval_metric : metric on ``eval_set`` that chooses the number of rounds

    Attributes
    ----------
    features_, thresholds_, weights_ : f, θ and α of each round kept
    feature_importances_ : Σ |α| by feature
    history_ : objective is the exponential loss after the round; also r, alpha and feature
    """

    space: ClassVar[Space] = {
        "n_thresholds": IntRange(8, 512, log=True, why="few thresholds overfit less on few queries"),
        "pairs": Values("all", "query", why="long queries dominate if every pair counts the same"),
        "directions": Values("both", "up", why="features that should only raise the score need one direction"),
    }

    n_rounds: int = parameter(300, Integer(low=1, help="maximum number of rounds"))
    n_thresholds: int | str = parameter(255, THRESHOLDS)
    pairs: str = parameter(
        "all", Choice(of=("all", "query"), help="what has equal weight at first: every pair, or every query")
    )
    directions: str = parameter("both", DIRECTIONS)
    early_stopping: int | None = parameter(50, patience("rounds"))
    eval_metric: Any = parameter("ndcg@10", MetricSpec(help="metric on eval_set that chooses the number of rounds"))

    def _loss(self, data: RankingData) -> CriticalPairs | PairFill:
        shares, per_query = query_shares(data), self.pairs == "query"
        if data.pairs is not None:
            return PairFill("exponential", 1.0, weigh_preferences(data, shares, per_query))
        return CriticalPairs.of(data, shares, per_query)

    def _boost(self, data: RankingData, pairs: CriticalPairs | PairFill, steps: list[Step], monitor: Monitor) -> None:
        codes, watched = Codes.of(data.X, self.n_thresholds), ValidationScores(monitor)
        scores = np.zeros(data.n_rows)
        loss, potentials = exponential_loss(pairs, scores)
        for _ in range(self.n_rounds):
            sums, places = codes.best(potentials, self.directions == "both")
            f = int(np.argmax(np.abs(sums)))
            if loss <= NOTHING_LEFT or abs(sums[f]) <= NOTHING_LEFT * loss:
                break
            r = float(np.clip(sums[f] / loss, -LARGEST_R, LARGEST_R))
            alpha, threshold = 0.5 * math.log((1.0 + r) / (1.0 - r)), float(codes.cuts[f][places[f]])
            scores[codes.above(f, int(places[f]))] += alpha
            steps.append((f, threshold, alpha))
            loss, potentials = exponential_loss(pairs, scores)
            validation = watched.after(f, threshold, alpha)
            if monitor.step(objective=loss, validation=validation, r=r, alpha=alpha, feature=f):
                break
        if not monitor.history:  # no threshold separates the documents
            monitor.step(objective=loss, validation=watched.value())


class ValidationScores:
    """The validation scores of a sum of steps, one step at a time."""

    def __init__(self, monitor: Monitor):
        self._monitor = monitor
        self._columns = None if monitor.valid is None else Columns(monitor.valid.X)
        self._scores = np.zeros(0 if monitor.valid is None else monitor.valid.n_rows)

    def after(self, feature: int, threshold: float, weight: float) -> float | None:
        if self._columns is not None:
            self._scores[self._columns[feature] >= threshold] += weight
        return self.value()

    def value(self) -> float | None:
        return None if self._columns is None else self._monitor.evaluate(self._scores)


def exponential_loss(pairs: CriticalPairs | PairFill, scores: Array) -> tuple[float, Array]:
    """Σ share·exp(s_worse − s_better) over the pairs, and the potential of each row, (n_rows,)."""
    if isinstance(pairs, PairFill):
        values, gradient = values_and_gradient(pairs, pairs.pairs.offsets, read_only(scores))
        return float(values.sum()), -gradient
    from gainful.rankers.threshold_kernels import exponential_potentials

    kernel: Any = exponential_potentials
    potentials, arrays = np.empty(len(scores)), pairs.arrays()

    def piece(first: int, last: int) -> float:
        return float(kernel(scores, *arrays, first, last, pairs.work(), potentials))

    losses = run_each(piece, even_cuts(len(pairs.shares), threads_for(len(scores), per_thread=ROWS_PER_THREAD)))
    return float(sum(losses)), potentials
