"""Coordinate ascent: a linear ranker that maximises the measure itself, one weight at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gainful.compute.randomness import seed_from
from gainful.data.dataset import RankingData
from gainful.data.rows import Array, Columns, linear_scores
from gainful.linear.scaling import SCALE, Scaling
from gainful.linear.weighted_pairs import varies_within_queries
from gainful.metrics import Metric, metric
from gainful.parameters.constraints import Choice, Integer, Maybe, MetricSpec, Real, Seed, parameter
from gainful.parameters.space import Range, Space, Values
from gainful.rankers.base import LinearScores, Ranker
from gainful.rankers.line_measure import LineMeasure
from gainful.training.monitor import Monitor

LEAST_GAIN = 1e-9  # smaller gains are rounding


@dataclass(repr=False, eq=False)
class CoordinateAscent(LinearScores, Ranker):
    """A linear ranker that maximises any measure directly (Metzler and Croft 2007).

    The measure of the training queries, with its own convention for ties, is maximised over one weight at a time: for
    the current feature, it tries steps of growing size in both directions and the step to 0, and takes the best one if
    it helps. A sweep visits all features in random order; an ascent ends when a sweep gains less than ``tol``.
    Several ascents start from different weights. The best weights after any sweep are kept: best on ``eval_set`` if
    given, otherwise, or with ``early_stopping=None``, on the training queries.

    Weights are in units of the features' standard deviations (``scale``), and their absolute values sum to 1.

    Parameters
    ----------
    metric : any measure, such as "ndcg@10" or "map"; larger is better
    scale : "standard": divide features by their standard deviations over the training rows, so that units do not
        matter; ``coef_`` are the weights of the original features. None: use the original features
    n_restarts : number of ascents
    n_sweeps : maximum sweeps per ascent
    step, growth, n_steps : the steps tried are ± step·(1 + growth + … + growth^(t − 1)), t = 1 … n_steps
    tol : an ascent ends when a sweep gains less
    init : start of the ascents: "directed" uses equal weights for the first and random ones for the others, each with
        the sign in which the feature alone ranks better; "random" uses random signs too
    early_stopping : an ascent ends when ``eval_metric`` has not improved for this many sweeps; with None ``eval_set``
        is measured and decides nothing
    eval_metric : metric on ``eval_set``; by default ``metric``
    random_state : seed for the starts and the feature order

    Attributes
    ----------
    coef_, intercept_ : weights; 0
    history_ : a row per sweep; objective is the training measure; also restart
    """

    space: ClassVar[Space] = {
        "step": Range(1e-3, 5e-2, log=True, why="smaller steps change nothing, larger ones jump over optima"),
        "growth": Range(1.5, 3.0, why="with n_steps this sets the longest step"),
        "init": Values("directed", "random", why="single features may point the wrong way"),
    }

    metric: Any = parameter("ndcg@10", MetricSpec(help="measure to maximise"))
    scale: str | None = parameter("standard", SCALE)
    n_restarts: int = parameter(10, Integer(low=1, help="number of ascents from different starts"))
    n_sweeps: int = parameter(25, Integer(low=1, help="maximum sweeps over the features per ascent"))
    step: float = parameter(
        0.005, Real(low=0, open_low=True, help="smallest step, as a fraction of the sum of all weights")
    )
    growth: float = parameter(2.0, Real(low=1, open_low=True, help="factor between one step and the next"))
    n_steps: int = parameter(8, Integer(low=1, help="number of steps tried in each direction"))
    tol: float = parameter(1e-4, Real(low=0, help="an ascent ends when a sweep gains less"))
    init: str = parameter("directed", Choice(of=("directed", "random"), help="start of the ascents"))
    early_stopping: int | None = parameter(
        5, Maybe(inner=Integer(low=1), help="sweeps without improvement on eval_set before an ascent ends")
    )
    eval_metric: Any = parameter(
        None, Maybe(inner=MetricSpec(), help="metric on eval_set; None for the training metric")
    )
    random_state: Any = parameter(0, Maybe(inner=Seed(), help="seed"))

    def _validation_metric(self) -> Metric:
        return metric(self.metric if self.eval_metric is None else self.eval_metric)

    def _fit(self, data: RankingData, monitor: Monitor) -> None:
        measure = metric(self.metric)
        measure._refuse_grades(data.y)
        rng = np.random.default_rng(seed_from(self.random_state))
        ascent = Ascent(data, measure, self._steps(), Scaling(data, self.scale).scales)
        self.coef_, self.intercept_ = np.zeros(data.n_features), 0.0
        best = -np.inf
        with monitor:
            signs = ascent.directions() if self.init == "directed" else None
            for restart in range(self.n_restarts):
                ascent.start(_start(ascent.n_features, signs, restart, rng))
                unimproved, own_best = 0, -np.inf
                for _ in range(self.n_sweeps):
                    gain = ascent.sweep(rng)
                    w = ascent.coef()
                    scored = None if monitor.valid is None else monitor.evaluate(linear_scores(monitor.valid.X, w))
                    watches = self.early_stopping is None or scored is None or np.isnan(scored)
                    figure = ascent.value if watches or scored is None else scored
                    unimproved = 0 if figure > own_best else unimproved + 1
                    own_best = max(own_best, figure)
                    if figure > best or np.isnan(best) or not self.coef_.any():
                        best, self.coef_, kept = figure, w, len(monitor.history) + 1
                    stop = monitor.step(objective=ascent.value, validation=scored, restart=restart)
                    monitor.best_iteration = kept
                    if stop or gain < self.tol or unimproved == self.early_stopping:
                        break
                if monitor.interrupted:
                    break

    def _steps(self) -> Array:
        one_way = self.step * np.cumsum(float(self.growth) ** np.arange(self.n_steps))
        return np.concatenate([-one_way[::-1], one_way])


def _start(d: int, signs: Array | None, restart: int, rng: np.random.Generator) -> Array:
    if signs is None:
        return rng.uniform(-1.0, 1.0, d)
    return signs if restart == 0 else signs * rng.random(d)


class Ascent:
    """A training set, its measure, and the current weights u = w·scales of the ascent.

    Features that are constant within every query cannot change a ranking; their weights stay 0.
    """

    def __init__(self, data: RankingData, measure: Metric, steps: Array, scales: Array):
        self._data, self._steps = data, steps
        self._line = LineMeasure(data, measure)
        self._columns = Columns(data.X)
        self._scales = np.where(varies_within_queries(data), scales, np.inf)
        self._movable = np.flatnonzero(np.isfinite(self._scales))
        self.n_features = data.n_features

    def directions(self) -> Array:
        """+1 for a feature that ranks better from large to small, −1 for one that ranks better the other way."""
        signs, nothing = np.zeros(self.n_features), np.zeros(self._data.n_rows)
        for j in self._movable.tolist():
            down, up = self._line.along(nothing, self._columns[j], np.array([-1.0, 1.0]))
            signs[j] = 1.0 if up >= down else -1.0
        return signs

    def start(self, u: Array) -> None:
        u = np.where(np.isfinite(self._scales), u, 0.0)
        self._u = u / max(float(np.abs(u).sum()), 1e-300)
        self._refresh()

    def coef(self) -> Array:
        return np.asarray(self._u / self._scales)

    def _refresh(self) -> None:
        """Recompute scores and value from the weights, so that rounding does not accumulate."""
        self._scores = linear_scores(self._data.X, self.coef())
        self.value = self._line.at(self._scores)

    def sweep(self, rng: np.random.Generator) -> float:
        """Visit every feature once; returns the gain of the measure, never below 0."""
        before, value, value_now = self._u.copy(), self.value, self.value
        for j in rng.permutation(self._movable).tolist():
            value_now = self._move(j, value_now)
        self._refresh()
        if not self.value >= value:  # rounding broke ties the other way
            self._u = before
            self._refresh()
        return self.value - value

    def _move(self, j: int, value: float) -> float:
        x, u = self._columns[j], float(self._u[j])
        steps = self._steps if u == 0.0 else np.sort(np.append(self._steps, -u))
        found = self._line.along(self._scores, x, steps / self._scales[j])
        highest = float(found.max())
        if not highest > value + LEAST_GAIN:
            return value
        best = np.flatnonzero(found >= highest - LEAST_GAIN)
        delta = float(steps[best[np.argmin(np.abs(steps[best]))]])
        new = self._u.copy()
        new[j] = 0.0 if delta == -u else u + delta
        total = float(np.abs(new).sum())
        if total == 0.0:
            return value
        self._u = new / total
        self._scores = (self._scores + delta / self._scales[j] * x) / total
        return highest
