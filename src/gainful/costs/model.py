"""An estimate of what training costs: seconds and bytes.

The cost of a ranker is a sum of *terms*, products of the sizes of the data, each times a constant measured on one core.
For example, an iteration of RankNet takes c₁·(rows × features) + c₂·(rows × documents per query) seconds.
``costs.json`` has the terms and constants of each ranker; ``benchmarks/bench_cost.py`` writes it.

Amdahl's law gives the time on several cores, with the parallel part measured on two threads; where that was not
measured, the estimate is for one core. If a solver decides itself when to stop, the number of iterations is a guess. If
it is known, expect seconds within a factor of two on a machine like the one measured on.
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

from gainful.compute.memory import size_text
from gainful.display import html
from gainful.errors import GainfulError, UnknownNameError
from gainful.parameters.constraints import Constraint, Maybe, Real, check_parameters
from gainful.rankers.registry import RANKERS

MOST = 1e15  # of any size: products of larger ones overflow
SIZES: Mapping[str, Constraint] = {
    "rows": Real(low=1, high=MOST, help="number of documents"),
    "features": Real(low=1, high=MOST, help="number of features"),
    "docs_per_query": Real(low=1, high=MOST, help="documents per query"),
    "cores": Maybe(inner=Real(low=1, high=MOST), help="cores to train on; n_jobs of the ranker means the same"),
    "grades": Real(low=1, high=MOST, help="number of distinct grades"),
    "iterations": Maybe(inner=Real(low=1, high=MOST), help="number of iterations, instead of the expected one"),
}
"""The arguments of :func:`estimate` besides the parameters of the ranker."""

LONG_LIST = 2500  # documents per query from which hinges sort instead of visiting every pair
BINNED_ROWS = 200_000  # rows that LightGBM samples to place the borders of its bins


@dataclass(frozen=True)
class Problem:
    """What a cost depends on: the sizes of the data, and all parameters of the ranker, defaults included."""

    rows: float
    features: float
    docs: float
    grades: float
    params: Mapping[str, Any]

    def given(self, name: str, default: float) -> float:
        value = self.params.get(name)
        return float(default if value is None else value)


def _weights(p: Problem) -> float:
    """Multiplications per row in a net of fully connected layers."""
    sizes = [p.features, *map(float, p.params.get("hidden", ())), 1.0]
    return sum(a * b for a, b in pairwise(sizes))


def _levels(p: Problem) -> float:
    """Levels of a balanced tree; each one visits half of the rows again."""
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
"""Name → value of each term that ``costs.json`` may use."""


@dataclass(frozen=True)
class Estimate:
    """About what training takes; ``str()`` gives it in one line.

    ``bytes`` is what training needs besides the data, ``data_bytes`` the features as float32 with one grade per row.
    ``iterations`` counts trees (per class), rounds, sweeps, epochs or steps of a solver, whichever the ranker has;
    ``is_guess``: the solver decides when to stop, and the number is from an easy set of 10,000 rows. ``note`` says what
    the figures leave out.
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
        memory = f"{size_text(self.bytes)} besides {size_text(self.data_bytes)} of data"
        more = f"; {self.note}" if self.note else ""
        if self.is_guess:
            seen = f"{self.iterations:,.0f} iteration{'s' if self.iterations > 1 else ''}"
            return (
                f"{self.ranker}: about {each} per iteration after {once}; the number of iterations depends on the "
                f"data: {seen}, as on an easy set, would take {time_text(self.seconds)}; {memory}{more}"
            )
        parts = f"{self.iterations:,.0f} iterations of {each} after {once}" if self.iterations > 1 else "one pass"
        return f"{self.ranker}: about {time_text(self.seconds)} ({parts}), {memory}{more}"

    def _repr_html_(self) -> str:
        seen = " on an easy set; the data decides" if self.is_guess else ""
        rows = [
            ("time", f"about {time_text(self.seconds)}"),
            ("iterations", f"{self.iterations:,.0f}{seen}"),
            ("time per iteration", time_text(self.iteration_seconds)),
            ("time before the first", time_text(self.setup_seconds)),
            ("memory", f"{size_text(self.bytes)} besides {size_text(self.data_bytes)} of data"),
        ]
        return html.frame(self.ranker, html.facts(rows), html.lines([self.note] if self.note else []))


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
    """About how long ``gainful.ranker(name, **params)`` trains on data of this size, and how much memory it needs.

    Parameters
    ----------
    rows, features, docs_per_query : the data; features are dense float32
    cores : of a machine like the one measured on; by default ``n_jobs``, or one. For rankers measured on one core
        only, the estimate is for one core, and ``note`` says so
    grades : number of distinct grades; McRank grows a tree for each
    iterations : replaces the number given by the parameters, or, for a solver that decides when to stop, the number
        seen on the measured data
    params : of the ranker; numbers of trees, leaves, rounds, epochs, units, landmarks and so on count, others do not

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
        iteration_seconds=spread * total(cost["iteration"], problem) * trees_per_iteration(problem),
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
    """The cores that training uses: all of them, or as many as the ranker has threads."""
    jobs = problem.given("n_jobs", -1)
    if jobs < 1:
        return 1.0 if cores is None else cores
    return jobs if cores is None else min(cores, jobs)


def _on_cores(parallel: float | None, cores: float) -> tuple[float, str]:
    """The share of one core's time that this many cores take, and a note if it was not measured."""
    if cores <= 1:
        return 1.0, ""
    if parallel is None:
        return 1.0, "times are for one core: the gain from more cores was not measured for this ranker"
    return 1.0 - parallel + parallel / cores, ""


@cache
def costs() -> dict[str, dict[str, Any]]:
    """Ranker → its terms and measured constants."""
    read: dict[str, dict[str, Any]] = json.loads(files("gainful.costs").joinpath("costs.json").read_text())["rankers"]
    return read


def total(constants: Mapping[str, float], problem: Problem) -> float:
    """Σ constant × term."""
    return sum(constant * TERMS[term](problem) for term, constant in constants.items())


def trees_per_iteration(problem: Problem) -> float:
    """McRank grows one tree per class, or per border between two classes; others grow one."""
    most = problem.given("max_classes", problem.grades)
    of_mode = {"classification": min(problem.grades, most), "ordinal": max(1.0, min(problem.grades, most) - 1.0)}
    return of_mode.get(problem.params.get("mode", ""), 1.0)


def _most_iterations(problem: Problem, cost: Mapping[str, Any]) -> float:
    """As many as the parameters allow; a solver may stop earlier."""
    most = 1.0
    for parameter in cost["counted by"]:
        most *= problem.given(parameter, 1.0)
    return most


def time_text(seconds: float) -> str:
    """Seconds with two digits, in a suitable unit.

    >>> time_text(0.0123), time_text(0.72), time_text(200.0), time_text(1e8)
    ('12 ms', '0.72 s', '3.3 minutes', '1,200 days')
    """
    for unit, size in (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{_round(seconds / size, 2)} {unit}"
    return f"{_round(seconds, 2)} s" if seconds >= 0.1 else f"{_round(1000 * seconds, 2)} ms"


def _round(value: float, digits: int) -> str:
    return f"{float(f'{value:.{digits}g}'):,g}"
