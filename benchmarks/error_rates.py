"""How often every test and interval that the library prints is wrong, where the truth is known: docs/error-rates.md.

    python benchmarks/error_rates.py [--kinds "randomization;t"] [--sizes 10,50] [--jobs 8] [--minutes 30] [--write]

A cell is a kind of test or interval, a population and a size. For each, thousands of samples are drawn under the null
hypothesis that this kind tests: equal means for tests of means, symmetry for Wilcoxon's, a difference of exactly δ for
practical equality, users who click by position alone for interleaving, grades at random for blends. Counted are tests
that reject at 5 % and 95 % intervals that miss the truth, of all samples and of those without a warning, and, as power,
how often the same samples, moved by what a t test finds in 80 % of normal samples, are found different. A cell of 2,000
repetitions that is above 5.5 % then is repeated five times as often.

Every batch of repetitions is kept in docs/results/error-rates.json, so that a stopped run resumes. The cell that is
furthest from its number comes first. The whole takes hours of processor time; paired tests take minutes. ``--write``
writes the page from what is there and measures nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import time
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy import stats

import gainful
from gainful.compute.threads import limit_threads
from gainful.errors import DataWarning, GainfulError
from gainful.statistics.paired import (
    FEW,
    binary_columns,
    difference_intervals,
    equivalences,
    few_differing,
    holm,
    joint_randomizations,
    mean_intervals,
    p_values,
    randomizations,
    skewed,
)

Array = np.ndarray
Random = np.random.Generator
Draw = Callable[[Random, tuple[int, ...]], Array]
HOME = Path(__file__).resolve().parents[1]
RESULTS = HOME / "docs" / "results" / "error-rates.json"
PAGE = HOME / "docs" / "error-rates.md"
LEVEL, ALPHA = 0.95, 0.05
MOST_WRONG = {"test": 0.06, "interval": 0.07}  # type I error at 5 %, and 1 − coverage at 95 %
SUSPECT = 0.055  # from here on, a cell is repeated more often
MORE = 5
SURE = 0.002  # a Monte Carlo error that needs no more repetitions
FEW_SAMPLES = 0.008  # a Monte Carlo error above this is marked
COLUMNS = 500  # samples whose intervals are found at once, to bound the memory


@dataclass(frozen=True)
class Outcome:
    """Of each repetition: was it wrong, was there a warning, and was the difference found (also by the t test)?"""

    wrong: Array
    warned: Array
    found: Array | None = None
    t_found: Array | None = None


@dataclass(frozen=True)
class Kind:
    """A test or an interval: ``measure`` repeats it on new samples of a population."""

    name: str
    is_interval: bool
    populations: Mapping[str, object]
    sizes: tuple[int, ...]
    measure: Callable[[object, int, int, Random], Outcome]
    repetitions: int | Mapping[int, int] = 2000  # of all sizes, or by size
    batches: int = 1
    group: str = "paired"

    def planned(self, n: int) -> int:
        return self.repetitions if isinstance(self.repetitions, int) else self.repetitions[n]

    @property
    def most_wrong(self) -> float:
        return MOST_WRONG["interval" if self.is_interval else "test"]


# -- populations -------------------------------------------------------------------------------------------------------


def normal(rng: Random, size: tuple[int, ...]) -> Array:
    return rng.normal(size=size)


def exponential(rng: Random, size: tuple[int, ...]) -> Array:
    """Skewness 2."""
    return rng.exponential(size=size) - 1.0


def lognormal(rng: Random, size: tuple[int, ...]) -> Array:
    """Skewness 6.2."""
    return (np.exp(rng.normal(size=size)) - math.exp(0.5)) / math.sqrt(math.e * (math.e - 1.0))


def zero_inflated(rng: Random, size: tuple[int, ...]) -> Array:
    """70 % zeros; the others are skewed."""
    return np.where(rng.random(size) < 0.7, 0.0, exponential(rng, size) / math.sqrt(0.3))


def tied(rng: Random, size: tuple[int, ...]) -> Array:
    """Normal, rounded: about a third are 0."""
    return np.round(1.2 * rng.normal(size=size)) / 1.2


def heteroscedastic(rng: Random, size: tuple[int, ...]) -> Array:
    """Each query has its own spread."""
    return rng.normal(size=size) * np.exp(rng.normal(size=size)) / math.e


DIFFERENCES: Mapping[str, Draw] = {
    "normal": normal,
    "skewed": exponential,
    "very skewed": lognormal,
    "zero-inflated": zero_inflated,
    "tied": tied,
    "heteroscedastic": heteroscedastic,
}


def symmetric(draw: Draw) -> Draw:
    """The same sizes with random signs: the null hypothesis of Wilcoxon's test."""
    return lambda rng, size: draw(rng, size) * rng.choice([-1.0, 1.0], size=size)


def unequal(rng: Random, size: tuple[int, ...]) -> Array:
    """Of k rankers, the last varies ten times as much as the others."""
    values = rng.normal(size=size)
    values[..., -1] *= 10.0
    return values


def binary(p: float) -> Draw:
    return lambda rng, size: (rng.random(size) < p).astype(np.float64)


def signs(loss: float, win: float) -> Draw:
    """Differences of two metrics that are 0 or 1."""
    return lambda rng, size: rng.choice([-1.0, 0.0, 1.0], p=[loss, 1 - loss - win, win], size=size)


def ndcg(zeros: float, ones: float, a: float, b: float) -> Draw:
    """NDCG-like: some queries without a hit, some perfect, the others beta-distributed."""

    def draw(rng: Random, size: tuple[int, ...]) -> Array:
        u = rng.random(size)
        return np.where(u < zeros, 0.0, np.where(u > 1 - ones, 1.0, rng.beta(a, b, size)))

    return draw


#: With their true means.
MEANS: Mapping[str, tuple[Draw, float]] = {
    "0/1, mean .5": (binary(0.5), 0.5),
    "0/1, mean .8": (binary(0.8), 0.8),
    "0/1, mean .95": (binary(0.95), 0.95),
    "NDCG-like": (ndcg(0.1, 0.15, 2, 2), 0.15 + 0.75 * 0.5),
    "mostly high": (ndcg(0.0, 0.4, 5, 2), 0.4 + 0.6 * 5 / 7),
    "mostly low": (ndcg(0.5, 0.0, 1, 3), 0.5 * 0.25),
}
SIGNS: Mapping[str, tuple[Draw, float]] = {
    "0/1, none lost": (signs(0.0, 0.05), 0.05),
    "0/1, few lost": (signs(0.05, 0.15), 0.10),
    "0/1, half differ": (signs(0.2, 0.3), 0.10),
}


# -- paired tests and intervals ----------------------------------------------------------------------------------------


def shift(n: int) -> float:
    """The mean of normal differences of spread 1 that a t test finds in 80 % of samples."""
    return float(stats.t.ppf([1 - ALPHA / 2, 0.8], n - 1).sum() / math.sqrt(n))


def t_finds(values: Array) -> Array:
    """Whether the t test of each column rejects."""
    error = values.std(axis=0, ddof=1) / math.sqrt(len(values))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.abs(values.mean(axis=0)) / error > stats.t.ppf(1 - ALPHA / 2, len(values) - 1))


def is_warned(values: Array) -> Array:
    """Whether a comparison of each column with the baseline has a caution on few or skewed differences."""
    return few_differing(values) | np.array([bool(skewed(column[:, None])[0]) for column in values.T])


def paired(test: str) -> Callable[[object, int, int, Random], Outcome]:
    def measure(draw: object, n: int, repetitions: int, rng: Random) -> Outcome:
        assert callable(draw)
        d = draw(rng, (n, repetitions))
        moved = d + shift(n)
        wrong, found = (np.array(p_values(test, values, 0)) <= ALPHA for values in (d, moved))
        return Outcome(wrong, is_warned(d), found, t_finds(moved))

    return measure


RANKERS = 5


def each_sample(p_of: Callable[[Array, int], Array], pairs: Sequence[tuple[int, int]]) -> Callable[..., Outcome]:
    """A test over several pairs of rankers: wrong if any of its p-values rejects."""

    def measure(draw: object, n: int, repetitions: int, rng: Random) -> Outcome:
        assert callable(draw)
        first, second = np.array(pairs).T
        wrong, warned = np.empty(repetitions, dtype=bool), np.empty(repetitions, dtype=bool)
        for i in range(repetitions):
            values = draw(rng, (n, RANKERS))
            d = values[:, first] - values[:, second]
            wrong[i] = p_of(d, i).min() <= ALPHA
            warned[i] = few_differing(d).any() or skewed(d).any()
        return Outcome(wrong, warned)

    return measure


def holm_randomizations(d: Array, seed: int) -> Array:
    return np.array(holm(randomizations(d, seed).tolist()))


def equality(draw: object, n: int, repetitions: int, rng: Random) -> Outcome:
    """δ is such that two one-sided t tests prove equality in 80 % of normal samples without any difference."""
    assert callable(draw)
    delta = float(stats.t.ppf([1 - ALPHA, 0.9], n - 1).sum() / math.sqrt(n))
    d = draw(rng, (n, repetitions))
    at_delta = np.where(d == 0, 0.0, d + delta / np.mean(d != 0))  # queries without a difference keep none
    claims = [
        np.concatenate([equivalences(part, delta, seed=1) <= ALPHA for part in in_parts(values)])
        for values in (at_delta, d)
    ]
    room = (delta - np.abs(d.mean(axis=0))) / (d.std(axis=0, ddof=1) / math.sqrt(n) + 1e-300)
    return Outcome(claims[0], is_warned(at_delta), claims[1], room > stats.t.ppf(1 - ALPHA, n - 1))


def in_parts(values: Array) -> list[Array]:
    return [values[:, first : first + COLUMNS] for first in range(0, values.shape[1], COLUMNS)]


def misses(ends: Sequence[tuple[Array, Array]], truth: float) -> Array:
    low, high = (np.concatenate([one[i] for one in ends]) for i in (0, 1))
    return np.asarray((low > truth + 1e-12) | (high < truth - 1e-12))


def interval_of_differences(draw: object, n: int, repetitions: int, rng: Random) -> Outcome:
    assert callable(draw)
    d = draw(rng, (n, repetitions))
    ends = [difference_intervals(part, level=LEVEL, seed=1) for part in in_parts(d)]
    return Outcome(misses(ends, 0.0), is_warned(d), misses(ends, -shift(n)), t_finds(d + shift(n)))


def interval_of_signs(population: object, n: int, repetitions: int, rng: Random) -> Outcome:
    draw, truth = population  # type: ignore[misc]
    ends = [difference_intervals(draw(rng, (n, repetitions)), level=LEVEL, highest=1.0, binary=True)]
    return Outcome(misses(ends, truth), np.zeros(repetitions, dtype=bool))


def interval_of_means(population: object, n: int, repetitions: int, rng: Random) -> Outcome:
    draw, truth = population  # type: ignore[misc]
    values = draw(rng, (n, repetitions))
    ends = [mean_intervals(part, level=LEVEL, highest=1.0, seed=1) for part in in_parts(values)]
    return Outcome(misses(ends, truth), ~binary_columns(values) & (n < FEW))


# -- clicks ------------------------------------------------------------------------------------------------------------

LISTS: Mapping[str, tuple[list[str], list[str]]] = {
    "one promoted": ([f"d{i}" for i in range(10)], ["d9", *(f"d{i}" for i in range(9))]),
    "reversed": ([f"d{i}" for i in range(10)], [f"d{9 - i}" for i in range(10)]),
    "unequal length": ([f"d{i}" for i in range(10)], ["d5", "d0", "e1", "e2"]),
}


def interleaving(method: str, test: str) -> Callable[[object, int, int, Random], Outcome]:
    def measure(population: object, n: int, repetitions: int, rng: Random) -> Outcome:
        a, b = population  # type: ignore[misc]
        wrong, warned = np.empty(repetitions, dtype=bool), np.empty(repetitions, dtype=bool)
        for i in range(repetitions):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                outcomes = []
                for _ in range(n):
                    shown = gainful.interleave(a, b, method, seed=rng)
                    chance = 1.0 / np.arange(2, len(shown.documents) + 2)  # of a click, by position alone
                    outcomes.append(float((rng.random(len(chance)) < chance) @ np.array(shown.credit)))
                try:
                    wrong[i] = gainful.analyse_interleaving(outcomes, test=test).p_value <= ALPHA
                    warned[i] = bool(caught)
                except GainfulError:  # refused: nothing is claimed
                    wrong[i], warned[i] = False, True
        return Outcome(wrong, warned)

    return measure


def click_model(name: object, n: int, repetitions: int, rng: Random) -> Outcome:
    """Of each log, the share of attractions whose 95 % interval misses the truth."""
    data = gainful.make_artificial(20, n_docs=10, seed=1)
    truth = gainful.make_click_model(str(name), data)
    known, inside = truth.pairs_, truth.attractiveness_ < 0.95
    wrong, warned = np.empty(repetitions), np.empty(repetitions, dtype=bool)
    for i in range(repetitions):
        seed = int(rng.integers(2**31))
        log = gainful.simulate_clicks(data, str(name), sessions=n, temperature=1e6, seed=seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = gainful.click_model(str(name)).fit(log)
        place = model.pairs_.places(known.query_ids, known.document_ids, known.query, known.document)
        off = np.abs(model.theta_["attractiveness"][place] - truth.attractiveness_)
        wrong[i] = np.mean(off[inside] > 1.96 * model.errors_["attractiveness"][place][inside])
        warned[i] = bool(caught)
    return Outcome(wrong, warned)


def examination(name: object, n: int, repetitions: int, rng: Random) -> Outcome:
    """Of each report on a log, the share of positions from 2 on whose interval of examination misses the truth."""
    data = gainful.make_artificial(20, n_docs=10, seed=1)
    wrong, warned = np.empty(repetitions), np.empty(repetitions, dtype=bool)
    for i in range(repetitions):
        seed = int(rng.integers(2**31))
        log = gainful.simulate_clicks(data, str(name), sessions=n, temperature=1e6, seed=seed)
        truth = (np.bincount(log.position, weights=log.propensity)[1:] / log.shown_by_position)[1:]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = gainful.report_clicks(log, [str(name)], seed=seed).models[0]
        wrong[i] = np.mean((model.examination_low[1:] > truth) | (model.examination_high[1:] < truth))
        warned[i] = bool(caught)
    return Outcome(wrong, warned)


#: Method, interval; the log is of a uniformly random policy.
POLICIES: Mapping[str, tuple[str, str]] = {
    f"{method}, {interval}": (method, interval)
    for method in ("ips", "snips", "dr")
    for interval in ("normal", "bootstrap")
}


def off_policy(population: object, n: int, repetitions: int, rng: Random) -> Outcome:
    method, interval = population  # type: ignore[misc]
    rate, target = np.random.default_rng(0).beta(2, 20, size=20), np.random.default_rng(1).dirichlet(np.ones(20))
    truth, every = float(rate @ target), np.broadcast_to(target, (n, 20))
    wrong, warned = np.empty(repetitions, dtype=bool), np.empty(repetitions, dtype=bool)
    for i in range(repetitions):
        item = rng.integers(20, size=n)
        click = (rng.random(n) < rate[item]).astype(float)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DataWarning)
            found = gainful.estimate_value(
                click, every, method, propensity=np.full(n, 0.05), action=item, interval=interval, seed=i
            )
        wrong[i], warned[i] = not found.low <= truth <= found.high, bool(caught)
    return Outcome(wrong, warned)


# -- expected quality --------------------------------------------------------------------------------------------------


def random_grades(n: int, rng: Random) -> gainful.RankingData:
    """Features that say nothing about the grades."""
    return gainful.RankingData.from_rows(
        rng.normal(size=(10 * n, 5)), rng.integers(0, 3, 10 * n), np.repeat(np.arange(n), 10)
    )


def expected_quality(ranker: object, n: int, repetitions: int, rng: Random) -> Outcome:
    """Whether the expected NDCG@10 ± 1.96 errors of a blend misses that of a random order, which is what it reaches."""
    name, settings = ranker  # type: ignore[misc]
    anyone = random_grades(5000, rng)
    truth = gainful.metric("ndcg@10")(rng.random(anyone.n_rows), anyone)
    wrong, warned = np.empty(repetitions, dtype=bool), np.empty(repetitions, dtype=bool)
    for i in range(repetitions):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = gainful.ranker(str(name), n_jobs=1, random_state=i, **settings).fit(random_grades(n, rng))
        blend = model.leaderboard_.blend
        wrong[i], warned[i] = abs(blend.mean - truth) > 1.96 * blend.error, bool(caught)
    return Outcome(wrong, warned)


# -- the table of kinds ------------------------------------------------------------------------------------------------

QUERIES = (10, 25, 50, 200)
EXAMINED = ("pbm", "cascade", "dcm", "sdbn", "dbn", "ubm")  # the click models that know examination
ALL_PAIRS = tuple(combinations(range(RANKERS), 2))
WITH_BASELINE = tuple((0, i) for i in range(1, RANKERS))
SYMMETRIC = {name: symmetric(draw) for name, draw in DIFFERENCES.items()}
SEVERAL = {**DIFFERENCES, "heteroscedastic": unequal}
KINDS = (
    Kind("randomization", False, DIFFERENCES, QUERIES, paired("randomization")),
    Kind("t", False, DIFFERENCES, QUERIES, paired("t")),
    Kind("wilcoxon", False, SYMMETRIC, QUERIES, paired("wilcoxon")),
    Kind("marks against a baseline", False, SEVERAL, QUERIES, each_sample(holm_randomizations, WITH_BASELINE)),
    Kind("all pairs at once", False, SEVERAL, QUERIES, each_sample(joint_randomizations, ALL_PAIRS)),
    Kind("practical equality", False, DIFFERENCES, QUERIES, equality),
    Kind("interval of a difference", True, DIFFERENCES, QUERIES, interval_of_differences),
    Kind("interval of a 0/1 difference", True, SIGNS, QUERIES, interval_of_signs),
    Kind("interval of a mean", True, MEANS, QUERIES, interval_of_means),
    *(  # the sign test is refused where credits are not whole numbers
        Kind(
            f"interleaving {method}, {test}",
            False,
            LISTS,
            (1_000, 10_000, 100_000),
            interleaving(method, test),
            repetitions={1_000: 2000, 10_000: 400, 100_000: 40},
            batches=20,
            group="clicks",
        )
        for method, test in (("team-draft", "sign"), ("team-draft", "t"), ("probabilistic", "t"), ("optimised", "t"))
    ),
    Kind(
        "click model",
        True,
        {name: name for name in gainful.CLICK_MODELS if name != "ctr"},
        (1_000, 10_000, 100_000),
        click_model,
        repetitions={1_000: 2000, 10_000: 2000, 100_000: 200},
        batches=20,
        group="clicks",
    ),
    Kind(
        "examination",
        True,
        {name: name for name in EXAMINED},
        (1_000, 10_000, 100_000),
        examination,
        repetitions={1_000: 400, 10_000: 100, 100_000: 40},
        batches=20,
        group="clicks",
    ),
    Kind(
        "off-policy value",
        True,
        POLICIES,
        (200, 1_000, 10_000, 100_000),
        off_policy,
        repetitions={200: 2000, 1_000: 2000, 10_000: 2000, 100_000: 400},
        batches=20,
        group="clicks",
    ),
    Kind(
        "expected quality",
        True,
        {
            "blend": ("blend", {"members": ["regression", "listnet"]}),
            "auto, 6 trials": ("auto", {"trials": 6}),
        },
        (100,),
        expected_quality,
        repetitions=100,
        batches=50,
        group="blends",
    ),
)


# -- cells -------------------------------------------------------------------------------------------------------------


def key_of(kind: Kind, population: str, n: int) -> str:
    return f"{kind.name} | {population} | {n}"


def run_cell(kind: Kind, population: str, n: int, known: dict[str, float], repetitions: int) -> dict[str, float]:
    """One more batch: means over all repetitions so far."""
    done = int(known.get("repetitions", 0))
    seed = [zlib.crc32(key_of(kind, population, n).encode()), done]
    outcome = kind.measure(kind.populations[population], n, repetitions, np.random.default_rng(seed))
    wrong = outcome.wrong.astype(np.float64)
    values = {
        "wrong": wrong.mean(),
        "square": (wrong**2).mean(),
        "warned": outcome.warned.mean(),
        "unwarned": (wrong * ~outcome.warned).mean(),
    }
    if outcome.found is not None and outcome.t_found is not None:
        values |= {"power": outcome.found.mean(), "t_power": outcome.t_found.mean()}
    total = done + repetitions
    means = {name: (done * known.get(name, 0.0) + repetitions * float(value)) / total for name, value in values.items()}
    return {"repetitions": total} | means


def target(kind: Kind, n: int, cell: Mapping[str, float], most: int | None) -> int:
    """The repetitions that the cell should have. One that has more than planned was suspect before."""
    planned, done = kind.planned(n), cell.get("repetitions", 0)
    if most is not None and most < planned:
        return most
    suspect = done > planned or (done == planned and cell["wrong"] > SUSPECT and error_of(cell) > SURE)
    return planned * (MORE if suspect and planned >= 2000 else 1)


def error_of(cell: Mapping[str, float]) -> float:
    """The Monte Carlo error of the share of wrong repetitions."""
    return math.sqrt(max(cell["square"] - cell["wrong"] ** 2, 0.0) / cell["repetitions"])


def verdict(kind: Kind, cell: Mapping[str, float]) -> str:
    """ "" if the cell holds, "warned" if what is wrong beyond that comes with a warning, "WRONG" otherwise."""
    room = kind.most_wrong + 2 * error_of(cell)
    return "" if cell["wrong"] <= room else "warned" if cell["unwarned"] <= room else "WRONG"


def run_alone(name: str, population: str, n: int, known: dict[str, float], repetitions: int) -> dict[str, float]:
    """:func:`run_cell` on one thread, in a process that knows kinds by name."""
    kind = next(kind for kind in KINDS if kind.name == name)
    began = time.process_time()
    with limit_threads(1):
        cell = run_cell(kind, population, n, known, repetitions)
    return cell | {"seconds": time.process_time() - began}


def measure(
    results: Path,
    names: Sequence[str],
    sizes: Sequence[int] | None = None,
    most: int | None = None,
    jobs: int = 1,
    minutes: float = math.inf,
) -> None:
    """Measure what is missing, ``jobs`` batches at a time, and start none after so many ``minutes``."""
    cells: dict[str, dict[str, float]] = json.loads(results.read_text()) if results.exists() else {}
    results.parent.mkdir(parents=True, exist_ok=True)
    known = {
        key_of(kind, population, n): (kind, population, n)
        for kind in KINDS
        if kind.name in names or kind.group in names
        for population in kind.populations
        for n in kind.sizes
        if sizes is None or n in sizes
    }
    ends, waiting, running = time.monotonic() + 60.0 * minutes, set(known), dict[Future[dict[str, float]], str]()
    seconds, repetitions = dict.fromkeys(known, 0.0), dict.fromkeys(known, 0)

    def share(key: str) -> float:
        cell = cells.get(key, {})
        return cell.get("repetitions", 0) / target(known[key][0], known[key][2], cell, most)

    def start() -> None:
        key = min((key for key in known if key in waiting), key=share)
        kind, population, n = known[key]
        cell = cells.get(key, {})
        size = max(1, math.ceil(kind.planned(n) / kind.batches))
        size = min(size, target(kind, n, cell, most) - int(cell.get("repetitions", 0)))
        running[pool.submit(run_alone, kind.name, population, n, cell, size)] = key
        waiting.remove(key)
        repetitions[key] += size

    with executor(jobs) as pool:
        while True:
            waiting -= {key for key in waiting if share(key) >= 1.0}
            while waiting and len(running) < jobs and time.monotonic() < ends:
                start()
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                key, cell = running.pop(future), future.result()
                seconds[key] += cell.pop("seconds")
                cells[key] = cell
                waiting.add(key)
            results.write_text(json.dumps(cells, indent=1) + "\n")
    for key, (kind, _, _) in known.items():
        if repetitions[key]:
            each = f"{cells[key]['repetitions']:,.0f} repetitions, {1e3 * seconds[key] / repetitions[key]:.1f} ms each"
            print(f"{key}: {describe(kind, cells[key])} ({each})", flush=True)


def executor(jobs: int) -> ThreadPoolExecutor | ProcessPoolExecutor:
    """One thread of this process, or processes that compute on one thread each."""
    if jobs == 1:
        return ThreadPoolExecutor(1)
    os.environ |= {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    return ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))


# -- the page ----------------------------------------------------------------------------------------------------------


def figure(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def describe(kind: Kind, cell: Mapping[str, float]) -> str:
    """Type I error or coverage, the share warned about, and the power beside that of the t test."""
    shown = 1 - cell["wrong"] if kind.is_interval else cell["wrong"]
    marks = {"": "", "warned": " ⚠", "WRONG": " ✗"}[verdict(kind, cell)]
    power = f" / {figure(cell['power'])} ({figure(cell['t_power'])})" if "power" in cell else ""
    few = "°" if max(error_of(cell), 1.0 / cell["repetitions"]) > FEW_SAMPLES else ""
    return f"{figure(shown)}{few}{marks} / {figure(cell['warned'])}{power}"


def page(cells: Mapping[str, Mapping[str, float]]) -> str:
    lines = [HEAD]
    for kind in KINDS:
        known = {key_of(kind, name, n): (name, n) for name in kind.populations for n in kind.sizes}
        sizes = [n for n in kind.sizes if any(key in cells and n == at for key, (_, at) in known.items())]
        if not sizes:
            continue
        what = "coverage" if kind.is_interval else "type I error"
        unit = "n" if kind.group == "paired" else {"blends": "queries", "clicks": "observations"}[kind.group]
        power = ", power (of the t test)" if any("power" in cells.get(key, {}) for key in known) else ""
        lines.append(f"\n**{kind.name[0].upper()}{kind.name[1:]}**: {what}, share warned about{power}\n")
        lines.append("| population | " + " | ".join(f"{unit} = {n:,}" for n in sizes) + " |")
        lines.append("| --- |" + " --- |" * len(sizes))
        for name in kind.populations:
            found = [cells.get(key_of(kind, name, n)) for n in sizes]
            lines.append(
                f"| {name} | " + " | ".join("" if one is None else describe(kind, one) for one in found) + " |"
            )
    return "\n".join(lines) + "\n"


HEAD = """# Error rates

How often each test and interval that gainful prints is wrong, on populations whose truth is known. This page is written
by `python benchmarks/error_rates.py`, which measures what is not in `results/error-rates.json` yet; a table that is
missing here has not been measured.

Each test is tried under its own null hypothesis at 5 %: equal means, symmetry for Wilcoxon's, a difference of exactly δ
for practical equality, users who click by position alone for interleaving. Intervals are of 95 %. There are 2,000
samples per cell, 10,000 where the first 2,000 are wrong in more than 5.5 %; the Monte Carlo error is then about .005
and .002. Where a sample is a whole log of clicks, there are fewer of the long ones: of click models 200 at 100,000
sessions, of examination 400, 100 and 40, of interleaving 400 at 10,000 impressions and 40 at 100,000, of off-policy
values 400 at 100,000 pages; of blends there are 100. A type I error should not be above .06, nor a coverage below .93,
by more than two Monte Carlo errors.

- **⚠**: beyond that bound, but within it on samples that gainful does not warn about: the errors come with a caution
  under the table, that fewer than 20 queries differ or that differences are skewed; of clicks, with a warning.
- **✗**: beyond it without a warning.
- **°**: few samples: the Monte Carlo error is above .008.
- **Power** is measured at a difference that a t test finds in 80 % of normal samples; for practical equality, without
  any difference, at the δ at which two one-sided t tests prove equality in 80 % of normal samples.

Populations of differences: normal; skewed (exponential, skewness 2); very skewed (lognormal, 6.2); zero-inflated (70 %
are 0, the others skewed); tied (rounded, a third are 0); heteroscedastic (each query has its own spread, or, where five
rankers are compared, one of them varies ten times as much as the others).

Clicks: users of interleaving click in position r with probability 1 / (r + 1), whatever is there. Team draft takes both
tests; for the other methods, the sign test is refused. A click model is fitted to logs that it made itself, with 20
queries of 10 documents in random order; of each log, the coverage is the share of the attractions below .95 that lie
within 1.96 of their standard errors, and, for examination, the share of the positions from 2 on whose interval in the
report of the log holds. Off-policy values are of one document of 20 per page, shown at random; the policy valued
prefers some of them, and clicks are rare (about 8 %). Blends learn grades that are drawn at random, so that every
ranker has the quality of a random order."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", help="names, or the groups paired, clicks, blends; by default all")
    parser.add_argument("--sizes", help="only these")
    parser.add_argument("--repetitions", type=int, help="of a cell, at most those planned")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--minutes", type=float, default=math.inf, help="start nothing after this many")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--write", action="store_true", help="write the page and measure nothing")
    given = parser.parse_args()
    if not given.write:
        names = [kind.name for kind in KINDS] if given.kinds is None else given.kinds.split(";")
        sizes = None if given.sizes is None else [int(n) for n in given.sizes.split(",")]
        measure(given.results, names, sizes, given.repetitions, given.jobs, given.minutes)
    given.page.write_text(page(json.loads(given.results.read_text())))


if __name__ == "__main__":
    main()
