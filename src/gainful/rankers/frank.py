"""FRank: additive thresholded features on the fidelity loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gainful.compute.query_loop import even_cuts, run_each, threads_for
from gainful.data.dataset import RankingData
from gainful.data.query_weights import query_shares
from gainful.data.rows import Array
from gainful.losses.preferences import WeighedPairs
from gainful.parameters.constraints import Integer, MetricSpec, Real, parameter, patience
from gainful.parameters.space import IntRange, Range, Space, Values
from gainful.rankers.base import Ranker
from gainful.rankers.rankboost import ValidationScores
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

SMALLEST_SIDE = 1e-6  # of both together: a perfect weak ranker would have infinite weight
HALVINGS = 30
NOTHING_LEFT = 1e-12
PAIRS_PER_THREAD = 300_000
REACH = 600.0  # scores further apart count as this far: exp stays finite


@dataclass(repr=False, eq=False)
class FRank(BoostedSteps, Ranker):
    """A sum of step functions that minimises the fidelity loss (Tsai, Liu, Qin, Chen and Ma 2007).

    With P = 1/(1 + exp(s_j − s_i)) the modelled probability that i ≻ j, and P* its target, a pair costs::

        F = 1 − √(P* P) − √((1 − P*)(1 − P)),

    between 0 and 1: a pair that is hopelessly wrong costs 1 and no longer pulls, unlike in RankNet or RankBoost. The
    objective is Σ_q ω_q (1/|R_q|) Σ_{(i,j) ∈ R_q} F, so that every query counts the same. Each round adds α [x_f ≥ θ].
    Among all features and thresholds, the steepest descents (one threshold for each of ``n_candidates`` features) are
    evaluated exactly: W₊ and W₋, the weight of the pairs they separate in the right and in the wrong order, give the
    paper's α = ½ ln(W₊/W₋), and the largest (√W₊ − √W₋)² wins. The closed form treats the denominators as constant;
    α is halved until the loss falls, so every round lowers it.

    Parameters
    ----------
    n_rounds : maximum rounds; fewer with ``eval_set`` and ``early_stopping``
    n_thresholds : maximum thresholds per feature, at quantiles of the rows; or "all"
    certainty : P* of every pair with different grades, above ½; 1 trusts every grade
    n_candidates : features evaluated exactly in each round
    directions : "both", or "up": only weights α > 0, so that scores never fall when a feature grows
    early_stopping : stop when ``eval_metric`` on ``eval_set`` has not improved for this many rounds, and keep the best
        one; None keeps all rounds
    eval_metric : metric on ``eval_set`` that chooses the number of rounds

    Attributes
    ----------
    features_, thresholds_, weights_ : f, θ and α of each round kept
    feature_importances_ : Σ |α| by feature
    history_ : objective is the fidelity loss after the round; also alpha and feature
    """

    space: ClassVar[Space] = {
        "n_thresholds": IntRange(8, 512, log=True, why="few thresholds overfit less on few queries"),
        "certainty": Range(0.7, 1.0, why="below 1, a pair with too wide a margin pulls back"),
        "directions": Values("both", "up", why="features that should only raise the score need one direction"),
    }

    n_rounds: int = parameter(300, Integer(low=1, help="maximum number of rounds"))
    n_thresholds: int | str = parameter(255, THRESHOLDS)
    certainty: float = parameter(
        1.0, Real(low=0.5, high=1.0, open_low=True, help="target probability that the better document wins")
    )
    n_candidates: int = parameter(3, Integer(low=1, help="features evaluated exactly in each round"))
    directions: str = parameter("both", DIRECTIONS)
    early_stopping: int | None = parameter(50, patience("rounds"))
    eval_metric: Any = parameter("ndcg@10", MetricSpec(help="metric on eval_set that chooses the number of rounds"))

    def _loss(self, data: RankingData) -> FidelityLoss | FidelityOfPreferences:
        shares, certainty = query_shares(data), float(self.certainty)
        if data.pairs is not None:
            return FidelityOfPreferences(weigh_preferences(data, shares, per_query=True), certainty)
        return FidelityLoss(CriticalPairs.of(data, shares, per_query=True), certainty)

    def _boost(
        self, data: RankingData, loss: FidelityLoss | FidelityOfPreferences, steps: list[Step], monitor: Monitor
    ) -> None:
        codes, watched = Codes.of(data.X, self.n_thresholds), ValidationScores(monitor)
        scores = np.zeros(data.n_rows)
        value, potentials = loss.at(scores)
        for _ in range(self.n_rounds):
            chosen = self._weak_ranker(codes, loss, scores, potentials)
            if chosen is None:
                break
            f, t, alpha = chosen
            above = codes.above(f, t)
            for _ in range(HALVINGS):
                trial = scores + alpha * above
                lower, after = loss.at(trial)
                if lower < value:
                    break
                alpha /= 2.0
            else:  # only rounding is left
                break
            scores, value, potentials = trial, lower, after
            steps.append((f, float(codes.cuts[f][t]), alpha))
            if monitor.step(objective=value, validation=watched.after(*steps[-1]), alpha=alpha, feature=f):
                break
        if not monitor.history:  # no threshold separates the documents
            monitor.step(objective=value, validation=watched.value())

    def _weak_ranker(
        self, codes: Codes, loss: FidelityLoss | FidelityOfPreferences, scores: Array, potentials: Array
    ) -> tuple[int, int, float] | None:
        """Feature, threshold and weight that lower the loss most, by the closed form."""
        sums, places = codes.best(potentials, self.directions == "both")
        best, chosen = 0.0, None
        for f in np.argsort(-np.abs(sums), kind="stable")[: self.n_candidates].tolist():
            if abs(sums[f]) <= NOTHING_LEFT:
                break
            t = int(places[f])
            more, less = loss.sides(scores, codes.above(f, t))
            gain = abs(math.sqrt(more) - math.sqrt(less))
            if gain > best:
                least = SMALLEST_SIDE * (more + less)
                best, chosen = gain, (f, t, 0.5 * math.log(max(more, least) / max(less, least)))
        return chosen


class FidelityLoss:
    """Σ share·F over the critical pairs, with P* = ``certainty`` for the better document."""

    def __init__(self, pairs: CriticalPairs, certainty: float = 1.0):
        self._pairs = pairs
        self._roots = math.sqrt(certainty), math.sqrt(1.0 - certainty)
        n_threads = threads_for(int(pairs.n_pairs.sum()), per_thread=PAIRS_PER_THREAD)
        self._cuts = even_cuts(len(pairs.shares), n_threads)

    def at(self, scores: Array) -> tuple[float, Array]:
        """The loss, and the potential of each row: −2 times the derivative by its score."""
        from gainful.rankers.threshold_kernels import fidelity_potentials

        kernel: Any = fidelity_potentials
        potentials, arrays = np.empty(len(scores)), self._pairs.arrays()

        def piece(first: int, last: int) -> float:
            return float(kernel(scores, *arrays, first, last, *self._roots, self._pairs.work(), potentials))

        return float(sum(run_each(piece, self._cuts))), potentials

    def sides(self, scores: Array, above: Array) -> tuple[float, float]:
        """W₊ and W₋ of the weak ranker that is 1 for the rows in ``above``."""
        from gainful.rankers.threshold_kernels import fidelity_sides

        kernel: Any = fidelity_sides
        arrays = self._pairs.arrays()

        def piece(first: int, last: int) -> tuple[float, float]:
            sides = kernel(scores, *arrays, first, last, *self._roots, above, self._pairs.work())
            return float(sides[0]), float(sides[1])

        found = run_each(piece, self._cuts)
        return sum(more for more, _ in found), sum(less for _, less in found)


class FidelityOfPreferences:
    """The same over the preferences of the data."""

    def __init__(self, pairs: WeighedPairs, certainty: float = 1.0):
        self._pairs, self._right, self._wrong = pairs, math.sqrt(certainty), math.sqrt(1.0 - certainty)

    def at(self, scores: Array) -> tuple[float, Array]:
        """As :meth:`FidelityLoss.at`."""
        P, Q = self._chances(scores)
        pull = self._pairs.weight * (self._right * Q * np.sqrt(P) - self._wrong * P * np.sqrt(Q))
        potentials = np.bincount(self._pairs.better, pull, len(scores)) - np.bincount(
            self._pairs.worse, pull, len(scores)
        )
        return float(self._pairs.weight @ (1.0 - self._right * np.sqrt(P) - self._wrong * np.sqrt(Q))), potentials

    def sides(self, scores: Array, above: Array) -> tuple[float, float]:
        """As :meth:`FidelityLoss.sides`."""
        P, Q = self._chances(scores)
        more, less = self._right * Q * np.sqrt(P), self._wrong * P * np.sqrt(Q)
        lead = above[self._pairs.better].astype(np.float64) - above[self._pairs.worse]
        up, down = self._pairs.weight * (lead > 0.0), self._pairs.weight * (lead < 0.0)
        return float(up @ more + down @ less), float(up @ less + down @ more)

    def _chances(self, scores: Array) -> tuple[Array, Array]:
        """P and 1 − P of each pair."""
        lead = np.clip(scores[self._pairs.better] - scores[self._pairs.worse], -REACH, REACH)
        return 1.0 / (1.0 + np.exp(-lead)), 1.0 / (1.0 + np.exp(lead))
