"""AdaRank: boosting over queries, with single features as weak rankers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gainful.data.dataset import RankingData
from gainful.data.query_weights import query_shares
from gainful.data.rows import Array, Columns, linear_scores
from gainful.data.size import DataSize
from gainful.errors import ParameterError
from gainful.linear.scaling import SCALE, Scaling
from gainful.metrics import Metric, metric
from gainful.parameters.constraints import Choice, Integer, Maybe, MetricSpec, Real, parameter, patience
from gainful.parameters.space import Space, Values
from gainful.rankers.base import LinearScores, Ranker
from gainful.training.monitor import Monitor

LEAST_FAULT = 1e-6  # a perfect weak ranker would have infinite weight
UNCHANGED = 1e-12


@dataclass(repr=False, eq=False)
class AdaRank(LinearScores, Ranker):
    """Boosting over queries for any measure between 0 and 1 (Xu and Li 2007). The result is linear.

    A weak ranker is a single feature; E_q is the measure of a ranking of query q. Each round picks the feature with the
    largest Σ_q P_q E_q, adds it with the weight α, in units of its standard deviation, and shifts P towards the queries
    that the sum s still ranks badly::

        α = ½ ln( Σ_q P_q (1 + E_q) / Σ_q P_q (1 − E_q) ),    P_q ∝ ω_q exp(−E_q(s))

    E of all features is computed once (n_queries × n_features numbers), so a round is one evaluation of the measure.

    AdaRank is known to stall: once P has settled, it picks the same feature forever, whose weight drowns the others.
    ``stall`` says what to do with a round that does not raise the training measure above its maximum so far: "undo"
    reverts it, "keep" keeps it, and both set its feature aside until another one raises the measure; "repeat" is the
    paper's loop, without a remedy. With "undo" and "keep" training ends when all features are set aside.

    Parameters
    ----------
    metric : the measure, in [0, 1]: "map", "ndcg@10", "mrr", …
    n_rounds : maximum rounds; fewer with ``eval_set`` and ``early_stopping``
    scale : "standard": divide features by their standard deviations over the training rows, so that their units do not
        matter; ``coef_`` are the weights of the original features. None: use the original features, as the paper does,
        which suits features of comparable ranges within each query, such as LETOR's
    directions : "both" lets a feature also rank from small to large; "up" ranks from large to small only, as the paper
        does
    stall : "undo", "keep" or "repeat", see above
    tol : smallest rise of the training measure that counts
    early_stopping : stop when ``eval_metric`` on ``eval_set`` has not improved for this many rounds, and keep the best
        one; None keeps all rounds
    eval_metric : metric on ``eval_set``; by default ``metric``

    Attributes
    ----------
    coef_, intercept_ : weights; 0
    history_ : objective is the training measure after the round; also alpha and feature
    """

    space: ClassVar[Space] = {
        "directions": Values("both", "up", why="features that should only raise the score need one direction"),
        "stall": Values("undo", "keep", "repeat", why="the paper does not say what to do with a useless round"),
        "tol": Values(0.0, 1e-4, 1e-3, why="a rise that small on the training queries may be chance"),
    }

    metric: Any = parameter("map", MetricSpec(help="measure to boost, between 0 and 1"))
    n_rounds: int = parameter(300, Integer(low=1, help="maximum number of rounds"))
    scale: str | None = parameter("standard", SCALE)
    directions: str = parameter(
        "both", Choice(of=("both", "up"), help="whether features may also rank from small to large")
    )
    stall: str = parameter(
        "undo", Choice(of=("undo", "keep", "repeat"), help="what to do with a round that does not raise the measure")
    )
    tol: float = parameter(0.0, Real(low=0, help="smallest rise of the training measure that counts"))
    early_stopping: int | None = parameter(50, patience("rounds"))
    eval_metric: Any = parameter(
        None, Maybe(inner=MetricSpec(), help="metric on eval_set; None for the training metric")
    )

    def _validation_metric(self) -> Metric:
        return metric(self.metric if self.eval_metric is None else self.eval_metric)

    row_bytes: ClassVar[float] = 32

    def _training_bytes(self, size: DataSize) -> float:
        # the value of every feature as a ranker, for every query
        return super()._training_bytes(size) + 20 * size.queries * size.features

    def _fit(self, data: RankingData, monitor: Monitor) -> None:
        measure = metric(self.metric)
        if measure.bounds != (0.0, 1.0):
            raise ParameterError.of(type(self).__name__, "metric", "a measure between 0 and 1", str(self.metric))
        measure._refuse_grades(data.y)
        monitor.total = self.n_rounds
        monitor.stop_early(self.early_stopping)
        weights = [np.zeros(data.n_features)]
        with monitor:
            self._boost(data, measure, weights, monitor)
        self.coef_, self.intercept_ = weights[min(monitor.best_iteration, len(weights) - 1)], 0.0

    def _boost(self, data: RankingData, measure: Metric, weights: list[Array], monitor: Monitor) -> None:
        """Append the weights after each round to ``weights``."""
        E = performances(data, measure, self.directions == "both")
        omega = np.where(np.isnan(E[0]), 0.0, query_shares(data))
        omega /= max(float(omega.sum()), 1e-300)
        np.nan_to_num(E, copy=False)
        columns, aside = Columns(data.X), np.zeros(len(E), dtype=bool)
        scales = Scaling(data, self.scale).scales
        P, scores, highest = omega, np.zeros(data.n_rows), -math.inf
        while len(monitor.history) < self.n_rounds and not aside.all():
            f = int(np.argmax(np.where(aside, -np.inf, E @ P)))
            alpha = weight_of(P, E[f])
            if alpha <= 0.0:
                break
            feature, signed = f % data.n_features, alpha if f < data.n_features else -alpha
            weight = signed / float(scales[feature])
            trial = scores + weight * columns[feature]
            reached = np.nan_to_num(measure.evaluate(trial, data.y, data.offsets, data.doc_ids))
            value = float(omega @ reached)
            raised = value > highest + max(self.tol, UNCHANGED)
            if self.stall != "repeat":
                aside = np.zeros_like(aside) if raised else aside | (np.arange(len(E)) == f)
            if not raised and self.stall == "undo":
                continue
            scores, P, highest = trial, next_distribution(omega, reached), max(highest, value)
            w = weights[-1].copy()
            w[feature] += weight
            weights.append(w)
            if monitor.step(objective=value, validation=_validation(w, monitor), alpha=signed, feature=feature):
                break
        if not monitor.history:  # no feature ranks any query
            monitor.step(objective=0.0, validation=_validation(weights[-1], monitor))


def performances(data: RankingData, measure: Metric, both: bool) -> Array:
    """E of each feature as a ranker, (n_features, n_queries); followed by those of the reversed features."""
    columns, d = Columns(data.X), data.n_features
    E = np.empty((2 * d if both else d, data.n_queries))
    for j in range(d):
        column = columns[j]
        E[j] = measure.evaluate(column, data.y, data.offsets, data.doc_ids)
        if both:
            E[d + j] = measure.evaluate(-column, data.y, data.offsets, data.doc_ids)
    return E


def weight_of(P: Array, E: Array) -> float:
    """α = ½ ln(ΣP(1 + E)/ΣP(1 − E))."""
    return 0.5 * math.log(float(P @ (1.0 + E)) / max(float(P @ (1.0 - E)), LEAST_FAULT)) if P.any() else 0.0


def next_distribution(omega: Array, E: Array) -> Array:
    """P ∝ ω exp(−E)."""
    P = omega * np.exp(-E)
    return np.asarray(P / P.sum())


def _validation(w: Array, monitor: Monitor) -> float | None:
    return None if monitor.valid is None else monitor.evaluate(linear_scores(monitor.valid.X, w))
