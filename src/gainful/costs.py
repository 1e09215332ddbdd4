"""What a training costs before it is run: about how many seconds, about how many bytes.

The cost of a ranker is a sum of *terms*, products of the sizes of the data, each times a constant that was measured on
one core: for instance an iteration of RankNet takes c₁·(rows × features) + c₂·(rows × documents a query) seconds. Which
terms a ranker has and the constants are in ``costs.json``, which ``benchmarks/bench_cost.py`` writes.

Amdahl's law gives the time on several cores, with the parallel part that two cores showed. A factor of two either way
is what to expect of seconds, on a machine like the one measured on.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any

from gainful.errors import UnknownNameError
from gainful.parameters import Constraint, Maybe, Real, check_parameters
from gainful.rankers.registry import RANKERS

SIZES: Mapping[str, Constraint] = {
    "rows": Real(low=1, help="documents in all"),
    "features": Real(low=1, help="features of a document"),
    "docs_per_query": Real(low=1, help="documents of a query"),
    "cores": Real(low=1, help="of the machine"),
    "grades": Real(low=1, help="different ones"),
    "iterations": Maybe(inner=Real(low=1), help="instead of those expected"),
}
"""What :func:`estimate` takes beside the parameters of the ranker."""

LONG_LIST = 2500  # documents of a query from which on hinges sort them instead of looking at every pair
BINNED_ROWS = 200_000  # that LightGBM draws to place the borders of its bins


@dataclass(frozen=True)
class Problem:
    """The sizes that a cost depends on; ``params`` are those of the ranker, defaults included."""

    rows: float
    features: float
    docs: float
    grades: float
    params: Mapping[str, Any]

    def given(self, name: str, default: float) -> float:
        value = self.params.get(name)
        return float(default if value is None else value)


def _weights(p: Problem) -> float:
    """Products a row in a net of fully connected layers."""
    sizes = [p.features, *map(float, p.params.get("hidden", ())), 1.0]
    return sum(a * b for a, b in pairwise(sizes))


def _levels(p: Problem) -> float:
    """Levels of a balanced tree, each of which looks at half of the rows again."""
    return math.log2(p.given("n_leaves", 31))


def _landmarks(p: Problem) -> float:
    return min(p.given("n_landmarks", p.rows), p.rows)


TERMS: Mapping[str, Callable[[Problem], float]] = {
    "one": lambda p: 1.0,
    "rows": lambda p: p.rows,
    "values": lambda p: p.rows * p.features,
    "squares": lambda p: p.rows * p.features**2,
    "sorted": lambda p: p.rows * math.log2(max(2.0, p.docs)),
    "sorted values": lambda p: p.rows * p.features * math.log2(max(2.0, p.docs)),
    "pairs": lambda p: p.rows * p.docs,
    "short pairs": lambda p: p.rows * min(p.docs, LONG_LIST),
    "queries": lambda p: p.rows / p.docs,
    "query values": lambda p: p.rows / p.docs * p.features,
    "drawn bins": lambda p: min(p.rows, BINNED_ROWS) * p.features,
    "split values": lambda p: p.rows * p.features * p.given("colsample", 1.0) * _levels(p),
    "split rows": lambda p: p.rows * _levels(p),
    "layers": lambda p: p.rows * _weights(p),
    "landmarks": lambda p: p.rows * _landmarks(p),
    "mapped": lambda p: p.rows * _landmarks(p) * (p.features + _landmarks(p)),
    "drawn values": lambda p: p.given("max_pairs", 50_000) * p.features,
    "drawn squares": lambda p: p.given("max_pairs", 50_000) * p.features**2,
}
"""Name → value of every term that ``costs.json`` may use."""


@dataclass(frozen=True)
class Estimate:
    """About what a training takes: ``str()`` says it in a line.

    ``bytes`` is what the training adds to the data, ``data_bytes`` the features as float32 with a grade a row.
    ``iterations`` are trees (of every class), rounds, sweeps, epochs or steps of a solver, whichever the ranker has.
    """

    ranker: str
    iterations: float
    setup_seconds: float
    iteration_seconds: float
    bytes: float
    data_bytes: float

    @property
    def seconds(self) -> float:
        return self.setup_seconds + self.iterations * self.iteration_seconds

    def __str__(self) -> str:
        each, once = time_text(self.iteration_seconds), time_text(self.setup_seconds)
        parts = f"{self.iterations:,.0f} iterations of {each} after {once}" if self.iterations > 1 else "one pass"
        return (
            f"{self.ranker}: about {time_text(self.seconds)} ({parts}), "
            f"{size_text(self.bytes)} beside the data's {size_text(self.data_bytes)}"
        )


def estimate(
    name: str,
    *,
    rows: float,
    features: float,
    docs_per_query: float = 100,
    cores: float = 1,
    grades: float = 5,
    iterations: float | None = None,
    **params: Any,
) -> Estimate:
    """About how long ``gainful.ranker(name, **params)`` trains on such data, and what memory it needs for that.

    Parameters
    ----------
    rows, features, docs_per_query : the data; features are dense float32
    cores : of a machine like the one measured on
    grades : different ones, which McRank grows a tree each for
    iterations : so many, instead of what the parameters say; for a solver that stops by itself, instead of what it
        took on the data measured
    params : of the ranker; numbers of trees, leaves, rounds, epochs, units, landmarks and the like are taken into
        account, others change nothing

    >>> import gainful
    >>> one, ten = (gainful.estimate("lambdamart", rows=n, features=136) for n in (1e6, 1e7))
    >>> 9 < ten.seconds / one.seconds < 11
    True
    """
    if name not in RANKERS:
        raise UnknownNameError.among("ranker", name, RANKERS)
    given = (rows, features, docs_per_query, cores, grades, iterations)
    check_parameters("the estimate", SIZES, dict(zip(SIZES, given, strict=True)))
    model = RANKERS[name].create(**params)
    model._check_parameters()
    problem = Problem(rows, features, min(docs_per_query, rows), grades, model.get_params(deep=False))
    cost = costs()[name]
    spread = 1.0 - cost["parallel"] + cost["parallel"] / cores
    return Estimate(
        ranker=name,
        iterations=_iterations(problem, cost) if iterations is None else float(iterations),
        setup_seconds=spread * total(cost["setup"], problem),
        iteration_seconds=spread * total(cost["iteration"], problem) * trees_an_iteration(problem),
        bytes=total(cost["bytes"], problem),
        data_bytes=rows * (4.0 * features + 8.0),
    )


@cache
def costs() -> dict[str, dict[str, Any]]:
    """Ranker → its terms and constants, as measured."""
    read: dict[str, dict[str, Any]] = json.loads(files("gainful").joinpath("costs.json").read_text())["rankers"]
    return read


def total(constants: Mapping[str, float], problem: Problem) -> float:
    """Σ constant × term."""
    return sum(constant * TERMS[term](problem) for term, constant in constants.items())


def trees_an_iteration(problem: Problem) -> float:
    """McRank grows one tree for each class, or for each border between two, an iteration; others grow one."""
    most = problem.given("max_classes", problem.grades)
    of_mode = {"classification": min(problem.grades, most), "ordinal": max(1.0, min(problem.grades, most) - 1.0)}
    return of_mode.get(problem.params.get("mode", ""), 1.0)


def _iterations(problem: Problem, cost: Mapping[str, Any]) -> float:
    """As many as the parameters allow, or as were seen where a solver stops by itself."""
    most = 1.0
    for parameter in cost["counted by"]:
        most *= problem.given(parameter, 1.0)
    seen = cost.get("seen")
    return most if seen is None else min(most, float(seen))


def time_text(seconds: float) -> str:
    """Seconds to two digits, in a unit that suits.

    >>> time_text(0.0123), time_text(0.72), time_text(200.0), time_text(1e8)
    ('12 ms', '0.72 s', '3.3 minutes', '1,200 days')
    """
    for unit, size in (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{_rounded(seconds / size, 2)} {unit}"
    return f"{_rounded(seconds, 2)} s" if seconds >= 0.1 else f"{_rounded(1000 * seconds, 2)} ms"


def size_text(count: float) -> str:
    """Bytes to three digits, in a unit that suits."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{_rounded(count / size, 3)} {unit}"
    return f"{_rounded(count / 1e3, 3)} kB"


def _rounded(value: float, digits: int) -> str:
    return f"{float(f'{value:.{digits}g}'):,g}"
