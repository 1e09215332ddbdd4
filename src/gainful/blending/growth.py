"""How far boosted trees are grown: by the time there is, and by whether early stopping ended earlier ones."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gainful.blending.folds import QueryFolds
from gainful.blending.members import Member
from gainful.compute.threads import limit_threads
from gainful.data.checks import skip_checks
from gainful.errors import GainfulError
from gainful.rankers.registry import RANKERS
from gainful.rankers.trees import TreeRanker
from gainful.training.monitor import Progress, part_of_a_fit

MOST_TREES, PATIENCE = 600, 40  # of one model
USUAL_TREES = 300  # what early stopping leaves of them
ENOUGH_FITS = 24  # with time for fewer, models get smaller and rankers with a tree per grade are left out
FEWEST_FITS = 6  # with time for fewer, models get smaller still
BAGGED_FITS = 12  # with time for fewer, each ranker is trained once: several rankers give more than one five times
FEWEST_RANKERS = 4  # that there is to be time for then
FEWEST_ROUNDS = 2  # one after the other, on however many cores
FEWEST_TREES, FASTEST = 30, 0.3  # of one model, and its learning rate
CAPPED = 0.95  # share of the trees allowed beyond which early stopping played no part
PROBE = "tree-regression"
PROBE_TREES = 6


@dataclass(frozen=True)
class Pace:
    """Seconds for a boosted model: until its first tree, and per tree."""

    start: float
    tree: float

    def seconds(self, n_trees: float) -> float:
        return self.start + n_trees * self.tree


@dataclass(frozen=True)
class Growth:
    """At most ``n_trees`` per model, with learning rates ``rate`` times the usual ones.

    ``longer``: how much longer still the steps are than those of earlier members.
    """

    n_trees: int = MOST_TREES
    rate: float = 1.0
    roomy: bool = True  # whether there is time for rankers with a tree per grade
    longer: float = 1.0
    bagged: bool = True  # whether a ranker is trained on every fold, or on the first one alone

    @classmethod
    def within(cls, seconds: float, pace: Pace, workers: int = 1) -> Growth:
        """What fits into ``seconds``, with as many models side by side as there are ``workers``.

        A model that is cut short is worse than one with fewer trees and larger steps.
        """
        total = workers * seconds
        if total >= ENOUGH_FITS * pace.seconds(USUAL_TREES):
            return cls()
        bagged = total >= BAGGED_FITS * pace.seconds(USUAL_TREES)
        one = total / FEWEST_FITS if bagged else min(total / FEWEST_RANKERS, seconds / FEWEST_ROUNDS)
        most = (one - pace.start) / max(pace.tree, 1e-9)
        n_trees = int(min(max(most, FEWEST_TREES), MOST_TREES))
        usual = USUAL_TREES if bagged else MOST_TREES  # models that are trained once had better learn all they can
        return cls(n_trees, max(1.0, usual / n_trees), roomy=False, bagged=bagged)

    def after(self, members: Sequence[Member]) -> Growth:
        """Larger steps, where most models so far reached the last tree allowed and could have learned more.

        Steps of models that are trained once are that large from the first.
        """
        if not self.bagged:
            return self
        models = [
            model for member in members if member.complete for model in member.models if isinstance(model, TreeRanker)
        ]
        capped = sum(model.n_iter_ >= CAPPED * model.n_trees for model in models)
        return replace(self, longer=2.0) if 2 * capped > len(models) else self

    def first(self, learning_rate: float) -> dict[str, Any]:
        """The settings for a usual learning rate."""
        return self.next(learning_rate * self.rate)

    def next(self, learning_rate: float) -> dict[str, Any]:
        """The settings for the learning rate of an earlier member."""
        rate = min(FASTEST, learning_rate * self.longer)
        return {"learning_rate": rate, "n_trees": self.n_trees, "early_stopping": min(PATIENCE, self.n_trees)}


def measure_pace(folds: QueryFolds, n_threads: int, settings: Mapping[str, Any]) -> Pace | None:
    """The pace on the training part of a fold, from a few trees on the part left out; None if they cannot be grown."""
    part = folds.valid(0)
    assert part is not None
    began, times = time.process_time(), []  # what others do meanwhile says nothing about the next minutes

    def note(_: Progress) -> bool:
        times.append(time.process_time())
        return False

    try:
        with limit_threads(n_threads), skip_checks(), part_of_a_fit():
            RANKERS[PROBE].create(**{**settings, "n_trees": PROBE_TREES}).fit(part, progress=note)
    except GainfulError:
        return None
    if not times:
        return None
    rows = (folds.data.n_rows - part.n_rows) / part.n_rows / n_threads  # times those of the part left out
    tree = (times[-1] - times[0]) / max(1, len(times) - 1)
    return Pace(max(0.0, times[0] - began - tree) * rows, tree * rows)
