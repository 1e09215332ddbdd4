"""The companion of a training loop: history, early stopping, progress and interruption, the same for every ranker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np

from gainful.display.progress import Bar
from gainful.metrics import Metric, mean_over_queries
from gainful.training.checkpoint import Checkpoint
from gainful.training.validation import NamedSets


@dataclass(frozen=True)
class Progress:
    """What a progress callback receives after each iteration. Returning True from the callback stops training."""

    iteration: int
    total: int | None
    seconds: float
    objective: float | None = None
    gap: float | None = None
    validation: float | None = None

    @property
    def note(self) -> str:
        """The validation metric, or the gap to the optimum."""
        if self.validation is not None:
            return f"validation {self.validation:.4f}"
        return "" if self.gap is None else f"gap {100 * self.gap:.2g} %"

    def bars(self, name: str = "iterations") -> tuple[Bar, ...]:
        """What a progress bar shows."""
        return (Bar(name, self.iteration, self.total, self.note),)


ProgressCallback = Callable[[Progress], object]

AFTER_FIT: list[Callable[[Any], object]] = []
"""Called with every ranker whose ``fit`` has succeeded in this process, unless it is part of another fit."""

_inside: ContextVar[bool] = ContextVar("inside another fit", default=False)


@contextmanager
def part_of_a_fit() -> Iterator[None]:
    """Trainings inside this block are parts of another one: nobody is told about them."""
    before = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(before)


def is_part_of_a_fit() -> bool:
    """Whether this training is part of another one."""
    return _inside.get()


def call_after_fit(model: Any) -> None:
    """Tell everyone in ``AFTER_FIT`` about a training that has succeeded."""
    if not is_part_of_a_fit():
        for callback in tuple(AFTER_FIT):
            callback(model)


@dataclass
class Monitor:
    """Watches one fit.

    A loop runs inside ``with monitor:`` and calls :meth:`step` once per iteration; ``step`` says when to stop. Ctrl-C
    inside the block, after at least one finished iteration, ends training instead of raising: the ranker keeps
    ``best_iteration`` and ``interrupted`` is set. That is the best one on the validation data; the newest without
    such data, or where :meth:`stop_early` was told never to stop.
    """

    metric: Metric
    valid: Any = None  # a RankingData; any Dataset for rankers that accept shards
    patience: int | None = None
    keeps_newest: bool = False
    total: int | None = None
    callback: ProgressCallback | None = None
    history: list[dict[str, Any]] = field(default_factory=list)
    best_iteration: int = 0
    best_value: float = -np.inf
    interrupted: bool = False
    started: float = field(default_factory=time.perf_counter)
    checkpoint: Checkpoint | None = None  # from which a solver resumes, and to which it saves
    journal: Any = None  # a gainful.linear.journal.Journal, for solvers that keep one
    sets: NamedSets | None = None  # if several validation sets were given by name: ``valid`` holds them all
    _means: dict[str, float] = field(default_factory=dict)  # of the sets, at the last evaluation

    def __enter__(self) -> Monitor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if kind is not None and issubclass(kind, KeyboardInterrupt) and self.history:
            self._interrupt()
            return True
        return False

    def _interrupt(self) -> None:
        self.interrupted = True
        if self.journal is not None:
            self.journal.closed = True

    def resume(self, history: Sequence[Mapping[str, Any]], iterations: int, validation: float | None) -> None:
        """Continue from a model with ``iterations`` iterations that scores ``validation`` on the validation data."""
        known = [dict(row) for row in history[:iterations]]
        blank = {"objective": None, "gap": None, "validation": None, "seconds": None}
        self.history[:] = [known[i] if i < len(known) else {"iteration": i + 1, **blank} for i in range(iterations)]
        self.best_iteration = iterations
        self.best_value = -np.inf if validation is None or np.isnan(validation) else validation

    def record(self) -> dict[str, Any]:
        """What :meth:`restore` needs, for a checkpoint."""
        seconds = time.perf_counter() - self.started
        best = {"best_iteration": self.best_iteration, "best_value": float(self.best_value)}
        return {"history": [dict(row) for row in self.history], "seconds": seconds, **best}

    def restore(self, record: Mapping[str, Any]) -> None:
        """Restore a record; the clock continues from its seconds."""
        self.history[:] = [dict(row) for row in record["history"]]
        self.best_iteration, self.best_value = int(record["best_iteration"]), float(record["best_value"])
        if any(row["iteration"] != i for i, row in enumerate(self.history, start=1)):
            raise ValueError("the iterations of its history do not follow each other")
        if not 0 <= self.best_iteration <= len(self.history):
            raise ValueError("its best iteration is not one of the iterations")
        seconds = float(record["seconds"])
        if not 0.0 <= seconds < np.inf:
            raise ValueError("its seconds are not a time")
        self.started = time.perf_counter() - seconds

    def elapsed(self) -> float:
        """Seconds of training so far; while a solver replays recorded evaluations, the recorded seconds."""
        old = None if self.journal is None else self.journal.old_seconds()
        return time.perf_counter() - self.started if old is None else float(old)

    def save_journal(self) -> None:
        """Bring the checkpoint of a solver that keeps a journal up to date."""
        if self.journal is not None:
            self.journal.save()

    def evaluate(self, scores: Any, *, complete: bool = False) -> float:
        """The validation metric of the model's scores, one per validation row.

        They are added to the initial scores of the validation data, unless they are ``complete`` with them.
        """
        if self.valid is None:
            raise ValueError("this fit has no validation data")
        if not complete:
            scores = self.valid.add_init_scores(scores)
        if self.sets is None:
            return self.metric(scores, self.valid)
        values = self.metric.per_query(scores, self.valid)
        self._means = self.sets.means(values)
        return mean_over_queries(values, self.valid.query_weights)

    def step(
        self,
        *,
        objective: float | None = None,
        gap: float | None = None,
        validation: float | None = None,
        **more: Any,
    ) -> bool:
        """Record one finished iteration; True when training should stop now."""
        iteration = len(self.history) + 1
        seconds = self.elapsed()
        row = {"iteration": iteration, "objective": objective, "gap": gap, "validation": validation, "seconds": seconds}
        if validation is not None:
            row |= self._means
        self._means = {}
        self.history.append(row | more)
        if self.is_best(validation):
            self.best_iteration = iteration
            self.best_value = -np.inf if validation is None or np.isnan(validation) else validation
        if self.callback is not None and self.callback(
            Progress(iteration, self.total, seconds, objective, gap, validation)
        ):
            self._interrupt()
            return True
        return self.out_of_patience

    def stop_early(self, patience: int | None) -> None:
        """Stop once the best iteration is ``patience`` iterations ago, and keep it; None: keep every iteration."""
        self.patience, self.keeps_newest = patience, patience is None

    def is_best(self, validation: float | None) -> bool:
        """Whether the newest model is the one to keep; it is while the metric is undefined."""
        return self.keeps_newest or validation is None or bool(np.isnan(validation) or validation > self.best_value)

    def validate_last(self, validation: float | None) -> None:
        """Set the validation metric of the last iteration, for solvers that measure after their last step."""
        row = self.history[-1]
        if row["validation"] is None and validation is not None:
            row |= self._means
        row["validation"], self._means = validation, {}

    @property
    def out_of_patience(self) -> bool:
        """Whether the best iteration is at least ``patience`` iterations ago."""
        return self.patience is not None and len(self.history) - self.best_iteration >= self.patience
