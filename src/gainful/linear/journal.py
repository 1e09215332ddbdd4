"""Checkpoints of solvers: a journal of the evaluations they asked for.

A solver is a function of the answers it gets (values, gradients, slopes along lines) and of nothing else. So a
checkpoint needs only these answers, a few numbers per pass over the data. On resuming, the solver runs from the start
and first replays the recorded answers without reading the data, until it asks something new. That works for every
solver, and for any sequence of them. What is computed before the solver starts (feature scales, a first point) and what
is measured on the validation data is recorded too: all of it may round differently with another number of threads, and
then the next question would differ.

Scores are as long as the data and are not stored. They are linear in the weights, so one pass recomputes them when the
first new question needs them.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from gainful.data.rows import Array
from gainful.errors import GainfulError
from gainful.training.monitor import Monitor

EVALUATION, LINE, VECTOR, NUMBER = range(4)  # kinds of questions


LARGEST_ANSWER = 1e120  # values and gradients; solvers square them, times C


class Journal:
    """Questions and answers in order. ``replaying`` while old answers are left."""

    def __init__(self, monitor: Monitor):
        assert monitor.checkpoint is not None
        self.checkpoint, self.monitor = monitor.checkpoint, monitor
        self.questions: list[tuple[int, int]] = []  # kind, and a checksum of what was asked
        self.numbers: list[tuple[float, float, float]] = []  # value, slope along a line, seconds since the start
        self.gradients: list[Array] = []
        self.at = self.gradients_read = 0
        if self.checkpoint.state is not None:
            with self.checkpoint.restoring():
                self._read(self.checkpoint.state)
        self.n_old = self.n_saved = len(self.questions)
        self.closed = False  # after an interruption: an uninterrupted training would not ask what is asked then
        monitor.journal = self

    def _read(self, state: dict[str, Any]) -> None:
        self.questions = [(int(kind), int(asked)) for kind, asked in state["questions"]]
        self.numbers = [(float(value), float(slope), float(seconds)) for value, slope, seconds in state["numbers"]]
        self.gradients = list(state["gradients"])
        n_vectors = sum(kind in (EVALUATION, VECTOR) for kind, _ in self.questions)
        if len(self.numbers) != len(self.questions) or len(self.gradients) != n_vectors:
            raise ValueError("its questions and answers do not match")
        evaluated = [kind == EVALUATION for kind, _ in self.questions if kind in (EVALUATION, VECTOR)]
        slopes = np.array([gradient for gradient, wanted in zip(self.gradients, evaluated, strict=True) if wanted])
        _refuse_large(np.array(self.numbers), slopes)
        self.monitor.started -= float(state["seconds"])

    @property
    def replaying(self) -> bool:
        return self.at < len(self.questions) and not self.closed

    def old_seconds(self) -> float | None:
        """How long training had run when the last answer was given; None once the answers are new."""
        if self.n_old == 0 or self.at > self.n_old:
            return None
        return self.numbers[self.at - 1][2] if self.at else 0.0

    def evaluation(self, asked: int, ask: Callable[[], tuple[float, Array]]) -> tuple[float, Array]:
        """Value and gradient: the old answer, or that of ``ask``."""
        if self.replaying:
            value, _ = self._old(EVALUATION, asked)
            return value, self._next_vector()
        value, gradient = ask()
        if self.n_old:
            with self.checkpoint.restoring():
                _refuse_large(gradient)  # damaged feature scales show only here
        self._add(EVALUATION, asked, value, 0.0, gradient)
        return value, gradient

    def line(self, asked: int, ask: Callable[[], tuple[float, float]]) -> tuple[float, float]:
        """Value and slope along a line: the old answer, or that of ``ask``."""
        if self.replaying:
            return self._old(LINE, asked)
        value, slope = ask()
        self._add(LINE, asked, value, slope, None)
        return value, slope

    def vector(self, name: str, ask: Callable[[], Array]) -> Array:
        """One number per feature, identified by name: the old answer, or that of ``ask``."""
        asked = zlib.crc32(name.encode())
        if self.replaying:
            self._old(VECTOR, asked)
            return self._next_vector()
        found = ask()
        self._add(VECTOR, asked, 0.0, 0.0, found)
        return found

    def number(self, w: Array, ask: Callable[[], float]) -> float:
        """A measurement of the weights w: the old answer, or that of ``ask``."""
        asked = _checksum(w)
        if self.replaying:
            return self._old(NUMBER, asked)[0]
        found = ask()
        self._add(NUMBER, asked, found, 0.0, None)
        return found

    def _next_vector(self) -> Array:
        self.gradients_read += 1
        return np.array(self.gradients[self.gradients_read - 1])

    def _old(self, kind: int, asked: int) -> tuple[float, float]:
        if self.questions[self.at] != (kind, asked):
            raise GainfulError(
                f"{self.checkpoint.path} does not fit this training: step {self.at + 1} asks something else, as on "
                "another kind of processor or with other libraries. Delete it to start again, or name another file"
            )
        self.at += 1
        return self.numbers[self.at - 1][:2]

    def _add(self, kind: int, asked: int, value: float, slope: float, gradient: Array | None) -> None:
        if self.closed:
            return
        seconds = time.perf_counter() - self.monitor.started
        if gradient is not None:
            self.gradients.append(np.array(gradient))
            self.gradients_read += 1
        self.numbers.append((float(value), float(slope), seconds))
        self.questions.append((kind, asked))  # last, so that an interrupt leaves no question without data
        self.at += 1
        if self.checkpoint.due():
            self.save()

    def save(self) -> None:
        """Bring the file up to date if it is not."""
        n = len(self.questions)
        if n == self.n_saved:
            return
        n_vectors = sum(kind in (EVALUATION, VECTOR) for kind, _ in self.questions)
        self.checkpoint.save(
            {
                "questions": np.array(self.questions, dtype=np.int64).reshape(-1, 2),
                "numbers": np.array(self.numbers[:n]).reshape(-1, 3),
                "gradients": np.array(self.gradients[:n_vectors]),
                "seconds": time.perf_counter() - self.monitor.started,
            }
        )
        self.n_saved = n


def _refuse_large(*answers: Array) -> None:
    if not all((np.abs(each) <= LARGEST_ANSWER).all() for each in answers):
        raise ValueError("an answer is not a number, or too large to compute with")


def record_vector(journal: Journal | None, name: str, ask: Callable[[], Array]) -> Array:
    """One number per feature: the journal's, or a new one, which the journal records."""
    return ask() if journal is None else journal.vector(name, ask)


def record_risk(risk: Any, journal: Journal | None) -> Any:
    """The risk, with its answers recorded if there is a journal."""
    return risk if journal is None else RecordedRisk(risk, journal)


class RecordedRisk:
    """A risk that replays the answers of a journal first."""

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
        return self.journal.line(asked, lambda: self.inner.along(scores.compute(), direction.compute(), t))

    def objective(self, w: Array, C: float) -> tuple[float, Array]:
        return self.journal.evaluation(_checksum(w, np.array([C])), lambda: self.inner.objective(w, C))


class Scores:
    """X·w, stored as w; the vector itself is computed on demand."""

    __array_ufunc__ = None

    def __init__(self, risk: Any, w: Array, vector: Any):
        self.risk, self.w, self.vector = risk, w, vector

    def compute(self) -> Any:
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
