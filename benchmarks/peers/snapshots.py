"""Models along a training, each with the seconds it took to get there: what an adapter returns.

A library that grows one model and can score with its first n iterations is fitted once (:func:`staged`). One that does
not expose these is fitted again for each of a series of sizes (:func:`refitted`), and each fit is timed from its own
start.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

import gainful

Scores = Callable[[gainful.RankingData], np.ndarray]


class Snapshot(NamedTuple):
    """The model after these iterations and seconds."""

    iterations: int
    seconds: float
    scores: Scores
    final: bool = False  # more iterations would not change it


@dataclass(frozen=True)
class Budget:
    """The limits of a training, in iterations and seconds; whichever is reached first ends it."""

    iterations: int
    seconds: float
    threads: int


def now() -> float:
    """Wall-clock seconds, or processor seconds with ``PEERS_CLOCK=cpu``, for one thread."""
    return time.process_time() if os.environ.get("PEERS_CLOCK") == "cpu" else time.perf_counter()


class Clock:
    """Seconds since its creation, at the end of each iteration."""

    def __init__(self, budget: Budget):
        self.budget, self.times, self.started = budget, [], now()

    def tick(self) -> bool:
        """Record the end of an iteration; True when the time is up."""
        self.times.append(now() - self.started)
        return self.times[-1] >= self.budget.seconds


def checkpoints(n: int, step: float = 1.1) -> list[int]:
    """Numbers of iterations to evaluate, each about ``step`` times the previous one, ending with the last.

    >>> checkpoints(20)
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 19, 20]
    """
    found, at = [], 1.0
    while at < n:
        if not found or int(at) > found[-1]:
            found.append(int(at))
        at = max(at * step, found[-1] + 1)
    return [*found, n] if n > 0 else []


def staged(times: Sequence[float], scores: Callable[[gainful.RankingData, int], np.ndarray]) -> list[Snapshot]:
    """Snapshots of one training; ``scores(data, n)`` are those of its first n iterations."""
    return [Snapshot(n, times[n - 1], lambda data, n=n: scores(data, n)) for n in checkpoints(len(times))]


def refitted(fit: Callable[[int], tuple[Scores, bool]], sizes: Iterable[int], budget: Budget) -> list[Snapshot]:
    """Snapshots of trainings of growing size, until one has converged or the next would be too slow.

    ``fit(n)`` gives the scores of a model of at most n iterations, and whether it converged.
    """
    found: list[Snapshot] = []
    for n in sizes:
        if found and found[-1].seconds * n / found[-1].iterations > budget.seconds:
            break
        start = now()
        scores, final = fit(n)
        found.append(Snapshot(n, now() - start, scores, final))
        if final:
            break
    return found
