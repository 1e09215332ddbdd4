"""What a training costs before it is run: about how many seconds, about how many bytes.

The cost of a ranker is a sum of *terms*, products of the sizes of the data, each times a constant that was measured on
one core: for instance an iteration of RankNet takes c₁·(rows × features) + c₂·(rows × documents a query) seconds. Which
terms a ranker has and the constants are in ``costs.json``, which ``benchmarks/bench_cost.py`` writes.

Amdahl's law gives the time on several cores, with the parallel part that two threads showed; where these were not
measured, nothing is said of cores. Iterations of solvers that stop by themselves are a guess: of a fit whose iterations
are known, a factor of two either way is what to expect of seconds, on a machine like the one measured on.
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

from gainful.errors import GainfulError, UnknownNameError
from gainful.parameters.constraints import Constraint, Maybe, Real, check_parameters
from gainful.rankers.registry import RANKERS

MOST = 1e15  # of anything: beyond, products of sizes are no numbers any more
SIZES: Mapping[str, Constraint] = {
    "rows": Real(low=1, high=MOST, help="documents in all"),
    "features": Real(low=1, high=MOST, help="features of a document"),
    "docs_per_query": Real(low=1, high=MOST, help="documents of a query"),
    "cores": Maybe(inner=Real(low=1, high=MOST), help="of the machine; n_jobs of the ranker means the same"),
    "grades": Real(low=1, high=MOST, help="different ones"),
    "iterations": Maybe(inner=Real(low=1, high=MOST), help="instead of those expected"),
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
    ``iterations`` are trees (of every class), rounds, sweeps, epochs or steps of a solver, whichever the ranker has;
    ``is_guess`` where a solver stops by itself and they are those of an easy set of 10,000 rows. ``note`` says what
    was asked for and is not in the figures.
    """

    ranker: str
    iterations: float
    setup_seconds: float
    iteration_seconds: float
    bytes: float
    data_bytes: float
    is_guess: bool = False
    note: str = ""

    @property
    def seconds(self) -> float:
        return self.setup_seconds + self.iterations * self.iteration_seconds

    def __str__(self) -> str:
        each, once = time_text(self.iteration_seconds), time_text(self.setup_seconds)
        memory = f"{size_text(self.bytes)} beside the data's {size_text(self.data_bytes)}"
        more = f"; {self.note}" if self.note else ""
        if self.is_guess:
            seen = f"{self.iterations:,.0f} iteration{'s' if self.iterations > 1 else ''}"
            return (
                f"{self.ranker}: about {each} an iteration after {once}; how many it takes depends on the data, "
                f"{seen} on an easy set would be {time_text(self.seconds)}; {memory}{more}"
            )
        parts = f"{self.iterations:,.0f} iterations of {each} after {once}" if self.iterations > 1 else "one pass"
        return f"{self.ranker}: about {time_text(self.seconds)} ({parts}), {memory}{more}"


def estimate(
    name: str,
    *,
    rows: float,
    features: float,
    docs_per_query: float = 100,
    cores: float | None = None,
    grades: float = 5,
    iterations: float | None = None,
    **params: Any,
) -> Estimate:
    """About how long ``gainful.ranker(name, **params)`` trains on such data, and what memory it needs for that.

    Parameters
    ----------
    rows, features, docs_per_query : the data; features are dense float32
    cores : of a machine like the one measured on; by default ``n_jobs``, or one. Rankers that were measured on one
        core only are told for one, and ``note`` says so
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
    cost = _cost_of(name)
    most, seen = _most_iterations(problem, cost), float(cost.get("seen", math.inf))
    spread, note = _on_cores(cost["parallel"], _cores(cores, problem))
    return Estimate(
        ranker=name,
        iterations=min(seen, most) if iterations is None else float(iterations),
        setup_seconds=spread * total(cost["setup"], problem),
        iteration_seconds=spread * total(cost["iteration"], problem) * trees_an_iteration(problem),
        bytes=total(cost["bytes"], problem),
        data_bytes=rows * (4.0 * features + 8.0),
        is_guess=iterations is None and seen < most,
        note=note,
    )


def _cost_of(name: str) -> dict[str, Any]:
    if name not in costs():
        raise GainfulError(
            f"the cost of {name} was not measured, so there is no estimate; benchmarks/bench_cost.py measures it"
        )
    return costs()[name]


def _cores(cores: float | None, problem: Problem) -> float:
    """Those that the training uses: all there are, or as many as the ranker may have threads."""
    jobs = problem.given("n_jobs", -1)
    if jobs < 1:
        return 1.0 if cores is None else cores
    return jobs if cores is None else min(cores, jobs)


def _on_cores(parallel: float | None, cores: float) -> tuple[float, str]:
    """The part of one core's time that so many take, and what to say where it is not known."""
    if cores <= 1:
        return 1.0, ""
    if parallel is None:
        return 1.0, "times are those of one core: what more cores bring was not measured for this ranker"
    return 1.0 - parallel + parallel / cores, ""


@cache
def costs() -> dict[str, dict[str, Any]]:
    """Ranker → its terms and constants, as measured."""
    read: dict[str, dict[str, Any]] = json.loads(files("gainful.costs").joinpath("costs.json").read_text())["rankers"]
    return read


def total(constants: Mapping[str, float], problem: Problem) -> float:
    """Σ constant × term."""
    return sum(constant * TERMS[term](problem) for term, constant in constants.items())


def trees_an_iteration(problem: Problem) -> float:
    """McRank grows one tree for each class, or for each border between two, an iteration; others grow one."""
    most = problem.given("max_classes", problem.grades)
    of_mode = {"classification": min(problem.grades, most), "ordinal": max(1.0, min(problem.grades, most) - 1.0)}
    return of_mode.get(problem.params.get("mode", ""), 1.0)


def _most_iterations(problem: Problem, cost: Mapping[str, Any]) -> float:
    """As many as the parameters allow; a solver that stops by itself may take fewer."""
    most = 1.0
    for parameter in cost["counted by"]:
        most *= problem.given(parameter, 1.0)
    return most


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
