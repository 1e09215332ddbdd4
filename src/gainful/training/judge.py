"""The validation figures of a fit, noted down; or others in their place, which then choose the iteration it keeps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from gainful.data.dataset import RankingData
from gainful.data.rows import Array
from gainful.metrics import Metric, mean_over_queries


class Judge:
    """The validation metric of the next fit inside :meth:`use`, which adds every figure to ``values``.

    With a ``script`` the fit learns these figures instead of its own, so that its validation data choose nothing. Fits
    inside that fit are not judged.
    """

    def __init__(self, script: Array | None = None):
        self.script, self.values, self._metric = script, list[float](), None

    @contextmanager
    def use(self) -> Iterator[None]:
        before = _judge.set(self)
        try:
            yield
        finally:
            _judge.reset(before)

    @property
    def is_done(self) -> bool:
        """Whether the highest figure of the script has been said: later ones change nothing."""
        known = self.script is not None and np.isfinite(self.script).any()
        return bool(known and len(self.values) > np.nanargmax(self.script))  # type: ignore[arg-type]

    def per_query(self, scores: Any, data: RankingData) -> Array:
        values: Array = self._metric.per_query(scores, data)  # type: ignore[attr-defined]
        if self.script is not None:
            values = np.full(len(values), self.script[min(len(self.values), len(self.script) - 1)])
        self.values.append(mean_over_queries(values, data.query_weights))
        return values

    def __call__(self, scores: Any, data: RankingData) -> float:
        return mean_over_queries(self.per_query(scores, data), data.query_weights)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._metric, name)

    def __str__(self) -> str:
        return str(self._metric)


_judge: ContextVar[Judge | None] = ContextVar("judge of the next fit", default=None)
script_of_first: ContextVar[Array | None] = ContextVar("script of the ranker that trees start from", default=None)


def judged(metric: Metric) -> Any:
    """The validation metric of a fit that begins: its judge, if it has one."""
    judge = _judge.get()
    if judge is None:
        return metric
    _judge.set(None)
    judge._metric = metric  # type: ignore[assignment]
    return judge
