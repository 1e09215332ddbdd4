"""How far boosted trees are grown: by the time there is, and by whether early stopping ended earlier ones."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gainful.blending.folds import QueryFolds, smooth
from gainful.blending.members import Member
from gainful.compute.threads import limit_threads
from gainful.data.checks import skip_checks
from gainful.data.dataset import RankingData
from gainful.errors import GainfulError, InterruptedFitWarning
from gainful.rankers.base import Ranker
from gainful.rankers.registry import RANKERS
from gainful.rankers.trees import TreeRanker
from gainful.training.monitor import Progress, part_of_a_fit

MOST_TREES, PATIENCE = 600, 100  # of one model; the metric on one fold is too noisy for less patience
USUAL_TREES = 300  # what early stopping leaves of them
ENOUGH_FITS = 24  # with time for fewer, rankers with a tree per grade are left out
BAGGED_FITS = 12  # with time for fewer, each ranker is trained once: several rankers give more than one on all folds
FEWEST_RANKERS = 4  # that there is to be time for then
FEWEST_ROUNDS = 2  # one after the other, on however many cores
ONCE_RATE = 2.5  # times the usual learning rate, where a model is trained once with all the trees that may be grown
FEWEST_TREES, FASTEST = 30, 0.3  # of one model, and its learning rate
CAPPED = 0.95  # share of the trees allowed beyond which early stopping played no part
PROBE = "tree-regression"
SIZE_LOSS = "centred-squared"
PROBE_TREES = 6
PROBED_SHARE = 0.1  # of the time, for finding out which size of trees suits the data
SIZE_TREES, SIZE_RATE = 150, 0.15  # of the trees grown for that
FEWEST_QUERIES = 50  # to grow them on


@dataclass(frozen=True)
class Pace:
    """Seconds for a boosted model: until its first tree, and per tree."""

    start: float
    tree: float

    def seconds(self, n_trees: float) -> float:
        return self.start + n_trees * self.tree

    def trees_within(self, seconds: float) -> int:
        """How many trees a model can have."""
        return int(min(max((seconds - self.start) / max(self.tree, 1e-9), FEWEST_TREES), MOST_TREES))


@dataclass(frozen=True)
class Growth:
    """At most ``n_trees`` per model, with learning rates ``rate`` times the usual ones.

    ``longer``: how much longer still the steps are than those of earlier members.
    """

    n_trees: int = MOST_TREES
    rate: float = 1.0
    roomy: bool = True  # whether there is time for rankers with a tree per grade
    longer: float = 1.0
    bagged: bool = True  # whether a ranker is trained for every fold, or for the first one alone
    n_leaves: int | None = None  # per tree, where a probe has found out what suits the data

    @classmethod
    def within(cls, seconds: float, pace: Pace, workers: int = 1) -> Growth:
        """What fits into ``seconds``, with as many models side by side as there are ``workers``.

        A model that is cut short is worse than one with fewer trees and larger steps.
        """
        total = workers * seconds
        if total >= ENOUGH_FITS * pace.seconds(USUAL_TREES):
            return cls()
        if total < BAGGED_FITS * pace.seconds(USUAL_TREES):
            return cls.once(seconds, pace, workers)
        return cls(roomy=False)

    @classmethod
    def once(cls, seconds: float, pace: Pace, workers: int = 1, n_leaves: int | None = None) -> Growth:
        """What fits into ``seconds`` if each ranker is trained on one fold; it should learn all it can from it."""
        n_trees = pace.trees_within(min(workers * seconds / FEWEST_RANKERS, seconds / FEWEST_ROUNDS))
        return cls(n_trees, ONCE_RATE * MOST_TREES / n_trees, roomy=False, bagged=False, n_leaves=n_leaves)

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


def find_size(
    folds: QueryFolds, sizes: Sequence[int], settings: Mapping[str, Any], seconds: float, pace: Pace, n_threads: int
) -> tuple[int | None, Pace]:
    """The number of leaves with which trees on some of the queries do best, and their pace.

    None, and the pace given, if it cannot be found out in a tenth of these seconds.
    """
    train, valid = folds.train(0).whole, folds.valid(0)
    share = PROBED_SHARE * seconds / (len(sizes) * pace.seconds(SIZE_TREES))
    n = 0 if train is None else min(train.n_queries, int(share * train.n_queries))
    if train is None or valid is None or n < FEWEST_QUERIES:
        return None, pace
    part = train[np.sort(np.random.default_rng(0).choice(train.n_queries, n, replace=False))]
    own = {"loss": SIZE_LOSS, "learning_rate": SIZE_RATE, "n_trees": SIZE_TREES, "early_stopping": SIZE_TREES}
    found, until = [], time.perf_counter() + 2.0 * PROBED_SHARE * seconds
    try:
        for size in sizes:
            ranker, watch = RANKERS["boosted"].create(**{**settings, **own, "n_leaves": size}), Stopwatch(until)
            _fit_probe(ranker, part, watch, n_threads, valid)
            curve = np.array([row["validation"] for row in ranker.history_], dtype=np.float64)
            if watch.stopped or not np.isfinite(curve).any():
                return None, pace
            tree = watch.per_tree * train.n_rows / part.n_rows / n_threads
            found.append((float(np.nanmax(smooth(curve))), size, tree))
    except GainfulError:
        return None, pace
    _, size, tree = max(found)
    return size, Pace(pace.start, tree)


def _fit_probe(
    ranker: Ranker, data: RankingData, watch: Stopwatch, n_threads: int, valid: RankingData | None = None
) -> None:
    with warnings.catch_warnings(), limit_threads(n_threads), skip_checks(), part_of_a_fit():
        warnings.simplefilter("ignore", InterruptedFitWarning)
        ranker.fit(data, eval_set=valid, progress=watch)
    if ranker.interrupted_ and not watch.stopped:  # by Ctrl-C
        raise KeyboardInterrupt


class Stopwatch:
    """Processor time at each tree; what others do meanwhile says nothing about the next minutes.

    It stops a training that takes longer than ``until``, by the clock on the wall.
    """

    def __init__(self, until: float = float("inf")) -> None:
        self.began, self.times, self.until, self.stopped = time.process_time(), list[float](), until, False

    def __call__(self, _: Progress) -> bool:
        self.times.append(time.process_time())
        self.stopped = time.perf_counter() > self.until
        return self.stopped

    @property
    def per_tree(self) -> float:
        return (self.times[-1] - self.times[0]) / max(1, len(self.times) - 1)


def measure_pace(folds: QueryFolds, n_threads: int, settings: Mapping[str, Any]) -> Pace | None:
    """The pace on the training part of a fold, from a few trees on another part; None if they cannot be grown."""
    part = folds.valid(0)
    assert part is not None
    watch = Stopwatch()
    try:
        _fit_probe(RANKERS[PROBE].create(**{**settings, "n_trees": PROBE_TREES}), part, watch, n_threads)
    except GainfulError:
        return None
    if not watch.times:
        return None
    rows = (folds.data.n_rows - part.n_rows - len(folds.rows(0))) / part.n_rows / n_threads  # times those of the part
    tree = watch.per_tree
    return Pace(max(0.0, watch.times[0] - watch.began - tree) * rows, tree * rows)
