"""Tests and intervals of a comparison: how often they are wrong, on populations whose truth is known.

For each number of test queries and each population of per-query values, thousands of samples are drawn. The first table
has the share of 95 % intervals that hold the true mean, of the intervals that ``compare`` prints and of the usual
alternatives. The second has the share of samples in which a test calls a mean difference of 0 significant at 5 %.

    python benchmarks/experiment_statistics.py [--samples 2000] [--queries 5,10,20,50,200] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from gainful.statistics.paired import (
    difference_intervals,
    mean_intervals,
    paired_t,
    randomizations,
    wilcoxon,
)

Array = np.ndarray
Draw = Callable[[np.random.Generator, tuple[int, int]], Array]
Interval = Callable[[Array], tuple[Array, Array]]
Sizes = tuple[int, ...]
Found = dict[str, Any]  # one share: how many queries, of which interval or test
LEVEL = 0.95
QUERIES = (5, 10, 20, 50, 200)
TRUTH = 1_000_000  # draws that give the true mean of a population
COLUMNS = 500  # samples at a time, to bound the memory


# -- populations -------------------------------------------------------------------------------------------------------


def binary(p: float) -> Draw:
    return lambda rng, size: (rng.random(size) < p).astype(np.float64)


def ndcg(zeros: float, ones: float, a: float, b: float) -> Draw:
    """NDCG-like: some queries without a hit, some perfect, the others beta-distributed."""

    def draw(rng: np.random.Generator, size: tuple[int, int]) -> Array:
        u = rng.random(size)
        return np.where(u < zeros, 0.0, np.where(u > 1 - ones, 1.0, rng.beta(a, b, size)))

    return draw


def rounded(draw: Draw, steps: int) -> Draw:
    """As precision at ``steps`` documents."""
    return lambda rng, size: np.round(steps * draw(rng, size)) / steps


MEANS: Mapping[str, Draw] = {
    "0/1, true mean .5": binary(0.5),
    "0/1, true mean .8": binary(0.8),
    "0/1, true mean .95": binary(0.95),
    "NDCG-like": ndcg(0.1, 0.15, 2, 2),
    "NDCG-like, mostly high": ndcg(0.0, 0.4, 5, 2),
    "NDCG-like, mostly low": ndcg(0.5, 0.0, 1, 3),
    "rounded, as P@10": rounded(ndcg(0.0, 0.0, 1.5, 3), 10),
    "rounded, as P@3": rounded(ndcg(0.0, 0.0, 2, 1.5), 3),
}


def signs(loss: float, win: float) -> Draw:
    """Differences of two 0/1 metrics."""
    return lambda rng, size: rng.choice([-1.0, 0.0, 1.0], p=[loss, 1 - loss - win, win], size=size)


def symmetric(shift: float) -> Draw:
    """Heavy-tailed differences, 30 % of the queries equal."""

    def draw(rng: np.random.Generator, size: tuple[int, int]) -> Array:
        return np.where(rng.random(size) < 0.3, 0.0, np.clip(0.1 * rng.standard_t(4, size), -0.9, 0.9) + shift)

    return draw


def skewed(equal: float, shift: float) -> Draw:
    """Where queries differ, many small losses and few large wins: exponential, cut at 1, with mean ``shift``."""
    mean = 0.12 * (1 - math.exp(-1 / 0.12))

    def draw(rng: np.random.Generator, size: tuple[int, int]) -> Array:
        values = np.minimum(rng.exponential(0.12, size), 1.0) - mean + shift
        return np.where(rng.random(size) < equal, 0.0, values)

    return draw


def tenths(shift: float) -> Draw:
    return lambda rng, size: np.round(rng.normal(shift, 0.12, size), 1)


#: With their true means.
DIFFERENCES: Mapping[str, tuple[Draw, float]] = {
    "0/1, 5 % won, none lost": (signs(0.0, 0.05), 0.05),
    "0/1, 15 % won, 5 % lost": (signs(0.05, 0.15), 0.1),
    "0/1, 30 % won, 20 % lost": (signs(0.2, 0.3), 0.1),
    "NDCG-like, symmetric": (symmetric(0.02), 0.014),
    "NDCG-like, skewed": (skewed(0.2, 0.05), 0.04),
    "NDCG-like, skewed, 70 % equal": (skewed(0.7, 0.05), 0.015),
    "rounded to .1": (tenths(0.1), 0.1),
}
NO_DIFFERENCE: Mapping[str, Draw] = {
    "0/1, 10 % of queries differ": signs(0.05, 0.05),
    "0/1, half of the queries differ": signs(0.25, 0.25),
    "NDCG-like, symmetric": symmetric(0.0),
    "NDCG-like, skewed": skewed(0.2, 0.0),
    "NDCG-like, skewed, 70 % equal": skewed(0.7, 0.0),
    "rounded to .1": tenths(0.0),
}


# -- intervals ---------------------------------------------------------------------------------------------------------


def student(values: Array) -> tuple[Array, Array]:
    n = len(values)
    half = stats.t.ppf((1 + LEVEL) / 2, n - 1) * values.std(axis=0, ddof=1) / math.sqrt(n)
    return values.mean(axis=0) - half, values.mean(axis=0) + half


def widened_percentile(values: Array) -> tuple[Array, Array]:
    """Quantiles of resampled means, farther out for few queries (Hesterberg 2015)."""
    n = len(values)
    rng = np.random.default_rng(0)
    counts = rng.multinomial(n, np.full(n, 1 / n), size=2000).astype(np.float64)
    tail = stats.norm.cdf(-math.sqrt(n / (n - 1)) * stats.t.ppf((1 + LEVEL) / 2, n - 1))
    low, high = np.quantile(counts @ values / n, [tail, 1 - tail], axis=0)
    return low, high


def printed_mean(values: Array) -> tuple[Array, Array]:
    return mean_intervals(values, level=LEVEL, highest=1.0)


def printed_difference(values: Array) -> tuple[Array, Array]:
    return difference_intervals(values, level=LEVEL, highest=1.0)


def printed_binary_difference(values: Array) -> tuple[Array, Array]:
    return difference_intervals(values, level=LEVEL, highest=1.0, binary=True)


def hold_and_length(interval: Interval, values: Array, truth: float) -> tuple[float, float]:
    """The share of samples (columns) whose interval holds the truth, and the mean length."""
    held, lengths = [], []
    for first in range(0, values.shape[1], COLUMNS):
        low, high = interval(values[:, first : first + COLUMNS])
        held.append((low <= truth + 1e-12) & (high >= truth - 1e-12))
        lengths.append(high - low)
    return float(np.concatenate(held).mean()), float(np.concatenate(lengths).mean())


def coverages(draw: Draw, truth: float, printed: Interval, sizes: Sizes, samples: int, seed: int) -> list[Found]:
    rng = np.random.default_rng(seed)
    found: list[Found] = []
    for n in sizes:
        values = draw(rng, (n, samples))
        for name, interval in (("printed", printed), ("widened percentile", widened_percentile), ("Student", student)):
            held, length = hold_and_length(interval, values, truth)
            found.append({"queries": n, "interval": name, "held": held, "length": length})
    return found


# -- tests -------------------------------------------------------------------------------------------------------------


def false_alarms(draw: Draw, sizes: Sizes, samples: int, seed: int) -> list[Found]:
    rng = np.random.default_rng(seed)
    found: list[Found] = []
    for n in sizes:
        values = draw(rng, (n, samples))
        p = {
            "randomization": randomizations(values),
            "t": np.array([paired_t(column) for column in values.T]),
            "wilcoxon": np.array([wilcoxon(column) for column in values.T]),
        }
        found += [{"queries": n, "test": test, "alarms": float(np.mean(q <= 1 - LEVEL))} for test, q in p.items()]
    return found


# -- tables ------------------------------------------------------------------------------------------------------------


def measure(sizes: Sizes, samples: int) -> dict[str, dict[str, list[Found]]]:
    means, differences = {}, {}
    for seed, (name, draw) in enumerate(MEANS.items()):
        truth = float(draw(np.random.default_rng(1), (TRUTH, 1)).mean())
        truth = round(truth, 2) if name.startswith("0/1") else truth
        means[name] = coverages(draw, truth, printed_mean, sizes, samples, seed)
    for seed, (name, (draw, truth)) in enumerate(DIFFERENCES.items()):
        printed = printed_binary_difference if name.startswith("0/1") else printed_difference
        differences[name] = coverages(draw, truth, printed, sizes, samples, seed)
    tests = {name: false_alarms(draw, sizes, samples, seed) for seed, (name, draw) in enumerate(NO_DIFFERENCE.items())}
    return {"means": means, "differences": differences, "tests": tests}


def table(title: str, rows: Mapping[str, list[Found]], column: str, value: str, sizes: Sizes) -> str:
    """One line per population and interval or test, one cell per number of queries."""
    head = f"| {title} | {column} | " + " | ".join(f"n = {n}" for n in sizes) + " |"
    lines = [head, "| --- | --- |" + " ---: |" * len(sizes)]
    for name, found in rows.items():
        for which in dict.fromkeys(entry[column] for entry in found):
            cells = [f"{entry[value]:.3f}".removeprefix("0") for entry in found if entry[column] == which]
            lines.append(f"| {name} | {which} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--queries", default=",".join(map(str, QUERIES)))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    sizes = tuple(int(n) for n in options.queries.split(","))
    started = time.process_time()
    found = measure(sizes, options.samples)
    noise = 2 * math.sqrt(LEVEL * (1 - LEVEL) / options.samples)
    print(f"{options.samples} samples each; Monte Carlo error at .95 and .05: ± {noise:.3f} (two standard errors)\n")
    print(table("mean of", found["means"], "interval", "held", sizes) + "\n")
    print(table("mean difference", found["differences"], "interval", "held", sizes) + "\n")
    print(table("no mean difference", found["tests"], "test", "alarms", sizes) + "\n")
    print(f"{time.process_time() - started:.0f} s of processor time")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
