"""Which parameters to try, in which order: grid, random draws, or Optuna's TPE.

A search depends only on the seed, the trial's number and the results it is shown. It keeps no state, so a killed run,
or one with more workers, tries the same parameters. Trial 0 is always the ranker as given, so tuning never ends below
the defaults on the validation data.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from gainful.errors import MissingExtraError, ParameterError, UnknownNameError
from gainful.parameters.space import Dimension, IntRange, Range, Space, Values
from gainful.persistence.jsonable import plain

Params = dict[str, Any]
SEARCHES = ("random", "grid", "optuna")
DRAWS = "sobol"  # kind of random draws; part of the key of stored trials
STARTUP = 8  # random draws before TPE has enough to learn from


@dataclass(frozen=True)
class Search:
    """The parameters to try. ``first`` are the ranker's own; ``most`` bounds the size of a grid."""

    kind: str
    space: Space
    first: Mapping[str, Any]
    seed: int = 0
    most: int | None = None
    _grid: list[Params] = field(init=False, repr=False, default_factory=list)

    def __post_init__(self) -> None:
        if self.kind not in SEARCHES:
            raise UnknownNameError.among("search", self.kind, SEARCHES)
        if self.kind == "grid":
            if self.most is None:
                raise ParameterError("a grid needs a number of trials, which limits how fine it is; give trials")
            object.__setattr__(self, "_grid", grid(self.space, self.first, self.most))
        if self.kind == "optuna":
            _optuna()

    @property
    def size(self) -> int | None:
        """The number of different trials, or None if there is no limit."""
        if self.kind == "grid":
            return len(self._grid)
        return None if self.space else 1

    @property
    def unvaried(self) -> list[str]:
        """The parameters for which a grid of this size has the ranker's own value alone."""
        tried = {name: {repr(row[name]) for row in self._grid} for name in self.space}
        return [name for name, values in tried.items() if self._grid and len(values) == 1]

    def propose(self, i: int, finished: Sequence[tuple[Mapping[str, Any], float]] = ()) -> Params:
        """The parameters of trial ``i``, given (parameters, value) of the earlier trials it may use."""
        if i == 0:
            return dict(self.first)
        if self.kind == "grid":
            return self._grid[i]
        if self.kind == "optuna" and i > STARTUP and finished:
            return _tpe(self.space, finished, self.seed, i)
        return sobol_draw(self.space, self.seed, i)

    def may_propose(self, i: int, params: Mapping[str, Any]) -> bool:
        """Whether :meth:`propose` may have returned ``params``, which were stored as JSON, for trial ``i``."""
        if set(params) != set(self.space):
            return False
        if i == 0:  # the ranker's own, which need not be plain
            return True
        if self.size is not None and i >= self.size:
            return False
        if self.kind == "optuna" and i > STARTUP:
            return all(_could_be_drawn(dimension, params[name]) for name, dimension in self.space.items())
        # a grid may hold the ranker's own value, which need not be plain either
        proposed = {name: plain(value) for name, value in self.propose(i).items() if _is_plain(value)}
        return all(type(params[name]) is type(value) and params[name] == value for name, value in proposed.items())


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, np.generic))


def sobol_draw(space: Space, seed: int, i: int) -> Params:
    """Draw ``i`` ≥ 1 of a scrambled Sobol sequence: uniform like independent draws, with fewer gaps and clusters.

    The first 2^m draws put one into each of 2^m equal intervals of every dimension, and cover pairs of dimensions
    nearly as evenly, which matters with only a dozen trials.
    """
    if not space:
        return {}
    shares = _sobol(len(space), seed, i.bit_length())[i - 1]
    return {name: dimension.at(float(u)) for (name, dimension), u in zip(space.items(), shares, strict=True)}


@lru_cache(maxsize=64)
def _sobol(n_dimensions: int, seed: int, exponent: int) -> Any:
    """The first 2^exponent points, (2^exponent, n_dimensions); a smaller exponent gives the first of them."""
    from scipy.stats import qmc

    return qmc.Sobol(n_dimensions, scramble=True, seed=np.random.default_rng(seed)).random_base2(exponent)


def grid(space: Space, first: Mapping[str, Any], most: int) -> list[Params]:
    """``first``, then all combinations of points that cover each dimension: ``most`` trials, or one more.

    Every dimension starts with its value in ``first``. In turn, each gets one more point (two at first; all values of a
    :class:`Values`) while the trials stay within the budget. Values whose combinations fill it are all tried, and
    ``first`` is one more if it is none of them.
    """
    points: dict[str, list[Any]] = {name: [first[name]] for name in space}
    counts = dict.fromkeys(space, 1)
    growing = True
    while growing:
        growing = False
        for name, dimension in space.items():
            if isinstance(dimension, Values) and counts[name] > 1:
                continue
            finer = dimension.points(counts[name] + 1)
            tried = points | {name: finer}
            combinations = math.prod(map(len, tried.values()))
            if not isinstance(dimension, Values):
                combinations = len(_combinations(tried, first))
            if finer != points[name] and combinations <= most:
                points, growing = tried, True
                counts[name] += 1
    return _combinations(points, first)


def _combinations(points: Mapping[str, list[Any]], first: Mapping[str, Any]) -> list[Params]:
    rows = [dict(zip(points, values, strict=True)) for values in itertools.product(*points.values())]
    return [dict(first), *(row for row in rows if row != dict(first))]


# -- Optuna ------------------------------------------------------------------------------------------------------------


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise MissingExtraError.of("the search 'optuna'", "optuna", "tune") from None
    return optuna


def _tpe(space: Space, finished: Sequence[tuple[Mapping[str, Any], float]], seed: int, i: int) -> Params:
    """What Optuna's tree-structured Parzen estimator tries next after exactly these trials."""
    optuna = _optuna()
    distributions = {name: _distribution(optuna, dimension) for name, dimension in space.items()}
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        sampler = optuna.samplers.TPESampler(
            seed=int(np.random.default_rng([seed, i]).integers(2**31)), n_startup_trials=1
        )
        study = optuna.create_study(direction="maximize", sampler=sampler)
        for params, value in finished:
            coded = {name: _code(dimension, params[name]) for name, dimension in space.items()}
            if all(_inside(space[name], coded[name]) for name in space):  # a default may lie outside the range
                study.add_trial(
                    optuna.trial.create_trial(params=coded, distributions=distributions, value=float(value))
                )
        asked = study.ask(distributions).params
    finally:
        optuna.logging.set_verbosity(verbosity)
    return {name: _decode(dimension, asked[name]) for name, dimension in space.items()}


def _distribution(optuna: Any, dimension: Dimension) -> Any:
    if isinstance(dimension, Range):
        whole = isinstance(dimension, IntRange)
        kind = optuna.distributions.IntDistribution if whole else optuna.distributions.FloatDistribution
        return kind(dimension.low, dimension.high, log=dimension.log)
    assert isinstance(dimension, Values)
    # By index: Optuna treats 1, 1.0 and True as the same category.
    return optuna.distributions.CategoricalDistribution(tuple(range(len(dimension.of))))


def _code(dimension: Dimension, value: Any) -> Any:
    if not isinstance(dimension, Values):
        return value
    places = [i for i, one in enumerate(dimension.of) if type(one) is type(value) and one == value]
    return places[0] if places else None


def _inside(dimension: Dimension, coded: Any) -> bool:
    if isinstance(dimension, Range):
        return isinstance(coded, int | float) and dimension.low <= coded <= dimension.high
    return coded is not None


def _could_be_drawn(dimension: Dimension, value: Any) -> bool:
    if not isinstance(dimension, Range):
        return _code(dimension, value) is not None
    return type(value) is (int if isinstance(dimension, IntRange) else float) and _inside(dimension, value)


def _decode(dimension: Dimension, coded: Any) -> Any:
    if isinstance(dimension, Range):
        return dimension.tidy(coded)
    assert isinstance(dimension, Values)
    return dimension.of[coded]
