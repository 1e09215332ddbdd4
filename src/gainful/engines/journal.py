"""Checkpoints of solvers: a journal of what the data has answered.

A solver is a function of the answers it gets (values, gradients, slopes along lines), and of nothing else. So all that
has to be kept of a long training are these answers, a few numbers for each pass over the data. To go on, the solver
runs from the start and hears the old answers without a look at the data, until it asks what it has not asked before.
That holds for every solver, and for any sequence of them.

Scores are as long as the data and are not kept. They are linear in the weights, so they are computed again, in one
pass, when the first new question needs them.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from gainful.errors import GainfulError
from gainful.monitor import Monitor
from gainful.rows import Array

EVALUATION, LINE = 0, 1  # kinds of questions


class Journal:
    """Questions and answers in order. ``replaying`` while there are old answers left."""

    def __init__(self, monitor: Monitor):
        assert monitor.checkpoint is not None
        self.checkpoint, self.monitor = monitor.checkpoint, monitor
        self.questions: list[tuple[int, int]] = []  # kind, and a checksum of what was asked
        self.numbers: list[tuple[float, float]] = []  # value, and the slope along a line
        self.gradients: list[Array] = []
        self.at = self.gradients_read = 0
        if self.checkpoint.state is not None:
            self._read(self.checkpoint.state)

    def _read(self, state: dict[str, Any]) -> None:
        self.questions = [(int(kind), int(asked)) for kind, asked in state["questions"]]
        self.numbers = [(float(value), float(slope)) for value, slope in state["numbers"]]
        self.gradients = list(state["gradients"])
        self.monitor.started -= float(state["seconds"])

    @property
    def replaying(self) -> bool:
        return self.at < len(self.questions)

    def evaluation(self, asked: int, ask: Callable[[], tuple[float, Array]]) -> tuple[float, Array]:
        """Value and gradient: the old answer, or that of ``ask``."""
        if self.replaying:
            value, _ = self._old(EVALUATION, asked)
            self.gradients_read += 1
            return value, np.array(self.gradients[self.gradients_read - 1])
        value, gradient = self._new(ask)
        self._add(EVALUATION, asked, value, 0.0, gradient)
        return value, gradient

    def line(self, asked: int, ask: Callable[[], tuple[float, float]]) -> tuple[float, float]:
        """Value and slope along a line: the old answer, or that of ``ask``."""
        if self.replaying:
            return self._old(LINE, asked)
        value, slope = self._new(ask)
        self._add(LINE, asked, value, slope, None)
        return value, slope

    def _old(self, kind: int, asked: int) -> tuple[float, float]:
        if self.questions[self.at] != (kind, asked):
            raise GainfulError(
                f"{self.checkpoint.path} does not fit this training: step {self.at + 1} asks something else, as on "
                "another kind of processor or with other libraries. Delete it to begin anew, or name another file"
            )
        self.at += 1
        return self.numbers[self.at - 1]

    def _new(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except BaseException:  # the last chance to keep what is known: an interruption, a lost cluster
            self.save()
            raise

    def _add(self, kind: int, asked: int, value: float, slope: float, gradient: Array | None) -> None:
        self.questions.append((kind, asked))
        self.numbers.append((float(value), float(slope)))
        if gradient is not None:
            self.gradients.append(np.array(gradient))
            self.gradients_read += 1
        self.at += 1
        if self.checkpoint.due():
            self.save()

    def save(self) -> None:
        if not self.questions:
            return
        self.checkpoint.save(
            {
                "questions": np.array(self.questions, dtype=np.int64).reshape(-1, 2),
                "numbers": np.array(self.numbers).reshape(-1, 2),
                "gradients": np.array(self.gradients),
                "seconds": time.perf_counter() - self.monitor.started,
            }
        )


def recorded(risk: Any, journal: Journal | None) -> Any:
    """The risk, with its answers written to the journal where there is one."""
    return risk if journal is None else RecordedRisk(risk, journal)


class RecordedRisk:
    """A risk whose answers come from a journal as long as it has them."""

    def __init__(self, inner: Any, journal: Journal):
        self.inner, self.journal = inner, journal
        self.n_features = inner.n_features

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def at(self, iteration: int, total: int) -> RecordedRisk:
        return RecordedRisk(self.inner.at(iteration, total), self.journal)

    def value_and_gradient(self, w: Array) -> tuple[float, Array, Scores]:
        found: list[Any] = [None]

        def ask() -> tuple[float, Array]:
            value, gradient, found[0] = self.inner.value_and_gradient(w)
            return value, gradient

        value, gradient = self.journal.evaluation(_checksum(w), ask)
        return value, gradient, Scores(self.inner, np.array(w), found[0])

    def along(self, scores: Scores, direction: Scores, t: float) -> tuple[float, float]:
        asked = _checksum(scores.w, direction.w, np.array([t]))
        return self.journal.line(asked, lambda: self.inner.along(scores.there(), direction.there(), t))

    def objective(self, w: Array, C: float) -> tuple[float, Array]:
        return self.journal.evaluation(_checksum(w, np.array([C])), lambda: self.inner.objective(w, C))


class Scores:
    """X·w, known as w, and where somebody asked also as what it is."""

    __array_ufunc__ = None

    def __init__(self, risk: Any, w: Array, vector: Any):
        self.risk, self.w, self.vector = risk, w, vector

    def there(self) -> Any:
        if self.vector is None:
            self.vector = self.risk.value_and_gradient(self.w)[2]
        return self.vector

    def __sub__(self, other: Scores) -> Scores:
        known = self.vector is not None and other.vector is not None
        return Scores(self.risk, self.w - other.w, self.vector - other.vector if known else None)

    def __add__(self, other: Scores) -> Scores:
        known = self.vector is not None and other.vector is not None
        return Scores(self.risk, self.w + other.w, self.vector + other.vector if known else None)

    def __rmul__(self, factor: float) -> Scores:
        return Scores(self.risk, factor * self.w, None if self.vector is None else factor * self.vector)


def _checksum(*arrays: Array) -> int:
    crc = 0
    for array in arrays:
        crc = zlib.crc32(np.ascontiguousarray(array, dtype=np.float64).tobytes(), crc)
    return crc
