"""Rankers whose best parameters, or whose whole learning curve, are known."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

import gainful
from gainful.parameters.constraints import Constraint, Integer, Maybe, MetricSpec, Real
from gainful.parameters.space import Range, Space
from gainful.rankers.base import Ranker
from gainful.training.monitor import Monitor

TRUE_ANGLE = 0.6


def angle_data(n_queries: int = 30, seed: int = 0) -> gainful.RankingData:
    """Grades are the ranks of cos(0.6)·x₁ + sin(0.6)·x₂ within the query, in five steps."""
    rng = np.random.default_rng(seed)
    X = rng.random((n_queries * 20, 2))
    target = math.cos(TRUE_ANGLE) * X[:, 0] + math.sin(TRUE_ANGLE) * X[:, 1]
    ranks = target.reshape(-1, 20).argsort(axis=1).argsort(axis=1).ravel()
    return gainful.RankingData.from_rows(X, ranks // 4, np.repeat(np.arange(n_queries), 20))


class Angle(Ranker):
    """Scores cos(angle)·x₁ + sin(angle)·x₂; on :func:`angle_data` NDCG is 1 at 0.6 and falls on both sides."""

    parameters: ClassVar[dict[str, Constraint]] = {
        "angle": Real(help="direction"),
        "idle": Integer(low=0, help="does nothing"),
        "eval_metric": MetricSpec(help="metric"),
    }
    space: ClassVar[Space] = {"angle": Range(0.0, 1.2, why="around the right one")}

    def __init__(self, angle: float = 0.1, idle: int = 0, eval_metric: Any = "ndcg@10"):
        self.angle, self.idle, self.eval_metric = angle, idle, eval_metric

    def _fit(self, data: Any, monitor: Monitor) -> None:
        with monitor:
            monitor.step(validation=None if monitor.valid is None else monitor.evaluate(self._predict(monitor.valid.X)))

    def _predict(self, X: Any) -> Any:
        return math.cos(self.angle) * X[:, 0] + math.sin(self.angle) * X[:, 1]


class Curve(Ranker):
    """Validation after iteration t is top·(1 − e^(−rate·t)), for 100 iterations; :class:`Height` reads the last."""

    parameters: ClassVar[dict[str, Constraint]] = {
        "top": Real(help="where the curve ends"),
        "rate": Real(help="how fast it rises"),
        "fail_above": Maybe(inner=Real(), help="a top that cannot be trained"),
    }
    space: ClassVar[Space] = {"top": Range(0.1, 0.9), "rate": Range(0.01, 0.5, log=True)}
    iterations: ClassVar[int] = 100

    def __init__(self, top: float = 0.5, rate: float = 0.1, fail_above: float | None = None):
        self.top, self.rate, self.fail_above = top, rate, fail_above

    def _fit(self, data: Any, monitor: Monitor) -> None:
        if self.fail_above is not None and self.top > self.fail_above:
            raise gainful.DataError(f"cannot reach {self.top}")
        monitor.total = self.iterations
        with monitor:
            for t in range(1, self.iterations + 1):
                self.height_ = self.top * (1.0 - math.exp(-self.rate * t))
                if monitor.step(validation=self.height_):
                    break

    def _predict(self, X: Any) -> Any:
        return np.full(X.shape[0], self.height_)


class Height:
    """In place of a metric: the score itself."""

    name = "height"

    def __call__(self, scores: Any, data: Any) -> float:
        return float(scores[0])

    def __str__(self) -> str:
        return self.name
