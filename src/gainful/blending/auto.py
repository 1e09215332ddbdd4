"""``auto``: chooses rankers and settings for the data within a budget, and blends the best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gainful.blending.blend import BATCH, BlendedRanker, Candidate, candidate_of
from gainful.blending.folds import Clock, QueryFolds, is_large, worker_count
from gainful.blending.growth import PROBE, USUAL_TREES, Growth, Pace, find_size, measure_pace
from gainful.blending.leaderboard import family_of
from gainful.blending.members import Member
from gainful.blending.portfolio import (
    EARLY,
    MANY_GRADES,
    ORDER,
    TREE_PER_GRADE,
    DataFacts,
    Family,
    centre_of,
    draw,
    families,
    first_guess,
    next_family,
    sizes_of_trees,
    small_trees,
)
from gainful.blending.weights import RULES, best_member, errors_below
from gainful.data.dataset import RankingData
from gainful.data.rows import is_mapped
from gainful.data.size import DataSize
from gainful.errors import DataError, ParameterError, UnknownNameError
from gainful.parameters.constraints import Choice, Integer, ListOf, Maybe, Name, Real, parameter
from gainful.rankers.base import Ranker
from gainful.rankers.registry import RANKERS
from gainful.rankers.specs import spec_text
from gainful.rankers.trees import TreeRanker
from gainful.training.monitor import Monitor

SECONDS = 600.0  # unless the user says otherwise
PATIENCE = 24  # members that do not raise the out-of-fold metric before the search ends
FAILURES = 8  # that end the search if nothing else has been trained


@dataclass(frozen=True)
class Past:
    """What the members so far say about the next."""

    below: dict[str, float]  # by family: standard errors below the best
    centre: dict[str, Any] | None  # the settings of the best trees
    growth: Growth


@dataclass(repr=False, eq=False)
class Auto(BlendedRanker):
    """The best ranking the data can give within a budget: a blend of rankers that it chooses itself.

    It looks at the data (rows, features, grades, missing values), starts with rankers that are good
    and cheap, with settings that suit the size of the data, then draws further settings of those that do well. Each is
    trained on query folds, as in :class:`Blend`; with very little time for the size of the data, once: tested on the
    first fold, validated on the second. The search ends with the budget, or when 24 rankers in a row have not raised
    the out-of-fold metric. Queries of ``eval_set`` are added to the training queries.

    Ctrl-C keeps the blend of what has been trained so far.

    Parameters
    ----------
    seconds : time for training; 600 if neither this nor ``trials`` is given
    trials : number of rankers to try. Alone, it makes the result independent of the machine's speed: the same seed
        gives the same model
    rankers : names of the rankers to choose from; None for all that suit the data
    folds, weights, metric, n_jobs, random_state : as in :class:`Blend`

    Attributes
    ----------
    members_, weights_, leaderboard_, out_of_fold_scores_ : as in :class:`Blend`; scores are NaN for rows of folds that
        were not left out
    """

    drops: ClassVar[bool] = True
    budget_parameters: ClassVar[tuple[str, ...]] = ("seconds", "trials")

    seconds: float | None = parameter(
        None, Maybe(inner=Real(low=0, open_low=True), help="time for training; None: 600, unless trials is given")
    )
    trials: int | None = parameter(None, Maybe(inner=Integer(low=1), help="number of rankers to try"))
    rankers: Any = parameter(
        None,
        Maybe(inner=ListOf(inner=Name()), help="names of the rankers to choose from; None: all that suit the data"),
    )
    weights: Any = parameter("shrunk", Choice(of=RULES, help="how members count"))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.folds is None:
            raise ParameterError.of("Auto", "folds", "an integer ≥ 3", None)
        for name in self.rankers or ():
            if name not in RANKERS:
                raise UnknownNameError.among("ranker", name, RANKERS)
            if RANKERS[name].kind == "blend":
                raise ParameterError(f"rankers of Auto cannot hold {name!r}, which is a blend itself")
        for ranker in self._largest_members():  # trees among them need a library, which is looked for now
            ranker._check_parameters()

    def _training_bytes(self, size: DataSize) -> float:
        # with more grades, rankers with a tree per grade are not tried
        return super()._training_bytes(replace(size, grades=min(size.grades, MANY_GRADES)))

    def _largest_members(self) -> list[Ranker]:
        names = self.rankers or [family.name for family in ORDER]
        trees = [name for name in names if RANKERS[name].kind == "trees"]
        return [RANKERS[name].create() for name in trees or names]

    def _clock(self, monitor: Monitor) -> Clock:
        monitor.total = self.trials
        seconds = SECONDS if self.seconds is None and self.trials is None else self.seconds
        return Clock(None if seconds is None else monitor.started + float(seconds))  # a resumed training has less left

    def _batches(
        self, folds: QueryFolds, members: list[Member], monitor: Monitor, clock: Clock
    ) -> Iterator[list[Candidate]]:
        data = folds.data
        facts = DataFacts.of(data, is_mapped(data.X) and is_large(data))
        if not families(facts, self.rankers):
            raise DataError("none of the rankers to choose from suits this data")
        pace, growth = self._growth(folds, clock, facts)
        trained = [member for member in members if member.models]
        if trained:  # by a training that is resumed: only members with the same folds can be compared
            growth = replace(growth, bagged=any(len(member.models) > 1 for member in trained))
        folds.trained = folds.n if growth.bagged else 1
        chosen = families(facts, self.rankers, growth)
        while self.trials is None or len(members) < self.trials:
            start = len(members)
            if start >= trials_to_meet(len(chosen)) and start - monitor.best_iteration >= PATIENCE:
                return
            if start >= FAILURES and all(member.dropped for member in members):
                return
            n = self._batch_size(folds, growth)
            n = n if self.trials is None else min(n, self.trials - start)
            past = Past(_standing(members, data), centre_of(members, data.query_weights), growth.after(members))
            proposed = (self._propose(start + i, facts, chosen, past) for i in range(n))
            batch = [candidate for candidate in proposed if candidate is not None]
            if pace is not None and members:  # the first ones are tried in any case
                batch = [replace(each, seconds=_expected(each, pace, facts, members)) for each in batch]
            if not batch:  # every ranker has been tried, and none has settings to draw
                return
            yield batch
            if len(members) == start:  # the clock stopped the batch before it began
                return

    def _growth(self, folds: QueryFolds, clock: Clock, facts: DataFacts) -> tuple[Pace | None, Growth]:
        """What trees cost here, if time is limited, and how far to grow them."""
        if clock.deadline is None:
            return None, Growth()
        workers, threads = worker_count(folds.data, self.n_jobs, folds.n)
        pace = measure_pace(folds, threads, first_guess(Family(PROBE, {}), facts, Growth()))
        if pace is None:
            return None, Growth()
        growth = Growth.within(clock.left, pace, workers)
        if growth.bagged or not any(family.trees for family in families(facts, self.rankers, growth)):
            return pace, growth
        settings = small_trees(facts) | {"eval_metric": self._validation_metric().as_parameter()}
        size, pace = find_size(folds, sizes_of_trees(facts), settings, clock.left, pace, threads)
        return pace, Growth.once(clock.left, pace, workers, size)

    def _batch_size(self, folds: QueryFolds, growth: Growth) -> int:
        """With little time, rankers are trained to their end before others begin: as many as keep all cores busy."""
        if growth.roomy:
            return BATCH
        return 1 if growth.bagged else worker_count(folds.data, self.n_jobs, BATCH)[0]

    def _candidate_ranker(self, i: int, spec: str) -> Ranker:
        if self.trials is not None and i >= self.trials:
            raise ValueError("it has more members than trials")
        return candidate_of(spec, None).ranker

    def _propose(self, i: int, facts: DataFacts, chosen: list[Family], past: Past) -> Candidate | None:
        """Trial ``i``; it depends on the seed, the trial's number and the members of earlier batches."""
        generator = np.random.default_rng([self._seed, i])
        guess = place_of_guess(i, len(chosen))
        family = next_family(chosen, past.below, generator) if guess is None else chosen[guess]
        if family is None:
            return None
        if guess is None:
            settings = draw(family, facts, past.growth, generator, past.centre)
        else:
            settings = first_guess(family, facts, past.growth, past.centre)
        if "random_state" in RANKERS[family.name].cls.parameters:
            settings["random_state"] = (self._seed + i) % 2**31
        return candidate_of(spec_text(family.name, settings), self._validation_metric())


def trials_to_meet(n: int) -> int:
    """The trials it takes to have tried ``n`` families once."""
    return max(n, 2 * n - EARLY)


def place_of_guess(i: int, n: int) -> int | None:
    """Which of ``n`` families trial ``i`` tries for the first time; None for further settings of one tried before.

    First some families, then by turns the next one and the leading ones again, until all have been tried.
    """
    if i < min(EARLY, n):
        return i
    place, turn = divmod(i - EARLY, 2)
    return EARLY + place if turn == 1 and EARLY + place < n else None


def _expected(candidate: Candidate, pace: Pace, facts: DataFacts, members: Sequence[Member]) -> float:
    """Seconds of one fit, as far as can be known: by trees, or what the same ranker took before."""
    ranker = candidate.ranker
    if not isinstance(ranker, TreeRanker):
        same = [one for one in members if one.models and family_of(one.spec) == family_of(candidate.spec)]
        return max((one.seconds / len(one.models) for one in same), default=0.0)
    per_step = facts.n_grades if candidate.spec.partition(":")[0] in TREE_PER_GRADE else 1
    return pace.seconds(per_step * min(USUAL_TREES, ranker.n_trees))


def _standing(members: Sequence[Member], data: RankingData) -> dict[str, float]:
    """By family: how many standard errors its best member lies below the best of all."""
    counting = [member for member in members if not member.dropped and np.isfinite(member.kept_values).any()]
    standing: dict[str, float] = {}
    if counting:
        values = np.array([member.kept_values for member in counting])
        best = values[best_member(values, data.query_weights)]
        for member, row in zip(counting, values, strict=True):
            t = max(0.0, errors_below(row, best, data.query_weights))
            key = family_of(member.spec)
            standing[key] = min(t, standing.get(key, np.inf))
    for member in members:
        standing.setdefault(family_of(member.spec), 30.0)
    return standing
