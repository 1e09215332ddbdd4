"""Values of policies from the log of another: the tables of docs/clicks-evaluation.md.

``python benchmarks/off_policy.py DIR`` reads the two logs of the Open Bandit data in DIR (random-men.csv.gz and
bts-men.csv.gz: 10,000 impressions each under a uniformly random policy and under Thompson sampling) and values each
policy from the other's log, beside its own click rate. Then it measures how often 95 % intervals hold the true value,
on simulated logs with the click rates of these items, and on pages of three documents. Without DIR the click rates
are random. ``--trials`` sets the number of simulated logs.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import math
import time
from pathlib import Path

import numpy as np
from scipy import stats

import gainful

METHODS = ("ips", "clipped", "snips", "dr")
IMPRESSIONS = 10_000
PAGES = 2_000
RESAMPLES = 300


def read(path: Path) -> dict[str, np.ndarray]:
    with gzip.open(path, "rt") as file:
        rows = list(csv.DictReader(file))
    return {
        "item": np.array([int(row["item_id"]) for row in rows]),
        "click": np.array([float(row["click"]) for row in rows]),
        "propensity": np.array([float(row["propensity_score"]) for row in rows]),
    }


def print_titles(*titles: str) -> None:
    print(f"| {' | '.join(titles)} |\n|{' --- |' * len(titles)}")


def value_each_other(logs: dict[str, dict[str, np.ndarray]], n_items: int) -> None:
    # Thompson sampling learns as it goes. Its policy here is the share of each item in its log, its mean over time.
    policies = {
        "random": np.full(n_items, 1 / n_items),
        "thompson": np.bincount(logs["thompson"]["item"], minlength=n_items) / len(logs["thompson"]["item"]),
    }
    print_titles("policy", "log", "method", "estimate", "95 %", "effective size", "mean weight")
    for target, shown in (("thompson", "random"), ("random", "thompson")):
        own, log = logs[target]["click"], logs[shown]
        ends = stats.binomtest(int(own.sum()), len(own)).proportion_ci(0.95, method="exact")
        interval = f"{ends.low:.5f} to {ends.high:.5f}"
        print(f"| {target} | its own | click rate | {own.mean():.5f} | {interval} | {len(own):,} | |")
        every = np.broadcast_to(policies[target], (len(log["item"]), n_items))
        for method in METHODS:
            found = gainful.estimate_value(
                log["click"], every, method, propensity=log["propensity"], action=log["item"]
            )
            print(
                f"| {target} | {shown} | {method} | {found.value:.5f} | {found.low:.5f} to {found.high:.5f} | "
                f"{found.effective:,.0f} | {found.mean_weight:.3f} |"
            )


class Held:
    """How often intervals hold the truth."""

    def __init__(self, name: str, truth: float):
        self.name, self.truth, self.rows = name, truth, []

    def add(self, found: gainful.ValueEstimate) -> None:
        self.rows.append((found.low <= self.truth <= found.high, found.value, found.high - found.low))

    def line(self) -> str:
        held, values, widths = np.array(self.rows, dtype=float).T
        error = math.sqrt(held.mean() * (1 - held.mean()) / len(held))
        return (
            f"| {self.name} | {self.truth:.4f} | {values.mean():.4f} | {values.std():.4f} | {widths.mean():.4f} | "
            f"{held.mean():.3f} ± {error:.3f} |"
        )


def cover_single_slots(rate: np.ndarray, shown: np.ndarray, target: np.ndarray, name: str, trials: int) -> None:
    rng = np.random.default_rng(1)
    cases = {
        (method, interval): Held(f"{name}, {method}, {interval}", float(target @ rate))
        for method in ("ips", "snips", "dr")  # clipping has a bias, which no interval covers
        for interval in ("normal", "bootstrap")
    }
    every = np.broadcast_to(target, (IMPRESSIONS, len(rate)))
    for trial in range(trials):
        item = rng.choice(len(rate), size=IMPRESSIONS, p=shown)
        click = (rng.random(IMPRESSIONS) < rate[item]).astype(float)
        for (method, interval), held in cases.items():
            how = {"propensity": shown[item], "action": item, "interval": interval, "resamples": RESAMPLES}
            held.add(gainful.estimate_value(click, every, method, seed=trial, **how))
    print("\n".join(held.line() for held in cases.values()))


def cover_rankings(trials: int) -> None:
    """Pages of three out of five documents, drawn as Plackett and Luce do; users stop at the first click."""
    rng = np.random.default_rng(2)
    pages = np.array(list(itertools.permutations(range(5), 3)))
    appeal = np.array([0.05, 0.1, 0.2, 0.3, 0.1])
    chance = {}
    for name, strength in (("shown", np.array([3.0, 2, 1, 1, 1])), ("target", np.array([1.0, 1, 2, 3, 1]))):
        above = np.hstack([np.zeros((len(pages), 1)), np.cumsum(strength[pages], axis=1)[:, :-1]])
        chance[name] = strength[pages] / (strength.sum() - above)
    reach = np.hstack([np.ones((len(pages), 1)), np.cumprod(1 - appeal[pages], axis=1)[:, :-1]])
    rate = reach * appeal[pages]
    truth = float(chance["target"].prod(axis=1) @ rate.sum(axis=1))
    share = chance["shown"].prod(axis=1)
    cases = {
        (assumption, method): Held(f"pages, {assumption}, {method}, bootstrap", truth)
        for assumption, methods in (("cascade", ("ips", "snips", "dr")), ("list", ("ips", "snips")))
        for method in methods
    }
    strength = np.array([1.0, 1, 2, 3, 1])
    left = np.ones((len(pages), 3, 5))  # documents that are not above
    for k in range(1, 3):
        for above in range(k):
            left[np.arange(len(pages)), k, pages[:, above]] = 0.0
    every = left * strength / (left @ strength)[:, :, None]
    for trial in range(trials):
        page = rng.choice(len(pages), size=PAGES, p=share / share.sum())
        draw = rng.random(PAGES)
        ends = np.cumsum(rate[page], axis=1)
        click = ((draw[:, None] < ends) & (draw[:, None] >= ends - rate[page])).astype(float)
        for (assumption, method), held in cases.items():
            how = {"propensity": chance["shown"][page], "assumption": assumption, "resamples": RESAMPLES}
            policy = chance["target"][page]
            if method == "dr":
                policy, how["action"] = every[page], pages[page]
            held.add(gainful.estimate_value(click, policy, method, seed=trial, **how))
    print("\n".join(held.line() for held in cases.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("dir", nargs="?", type=Path)
    parser.add_argument("--trials", type=int, default=200)
    given = parser.parse_args()
    if given.dir is None:
        rng = np.random.default_rng(0)
        rate, thompson = rng.beta(2, 300, size=34), rng.dirichlet(np.ones(34))
    else:
        files = {"random": "random-men.csv.gz", "thompson": "bts-men.csv.gz"}
        logs = {name: read(given.dir / file) for name, file in files.items()}
        n_items = int(max(log["item"].max() for log in logs.values())) + 1
        value_each_other(logs, n_items)
        item, click = (np.concatenate([log[name] for log in logs.values()]) for name in ("item", "click"))
        # Rates of items are drawn towards the mean: an item without a click would else never be clicked.
        rate = (np.bincount(item, weights=click) + 20 * click.mean()) / (np.bincount(item) + 20)
        thompson = np.bincount(logs["thompson"]["item"], minlength=n_items) / len(logs["thompson"]["item"])
    uniform = np.full(len(rate), 1 / len(rate))
    start = time.process_time()
    print()
    print_titles("simulated", "truth", "mean estimate", "its deviation", "mean length of interval", "held by 95 %")
    cover_single_slots(rate, uniform, thompson, "thompson from random", given.trials)
    cover_single_slots(rate, thompson, uniform, "random from thompson", given.trials)
    cover_rankings(given.trials)
    print(f"\n{time.process_time() - start:.0f} s of processor time")


if __name__ == "__main__":
    main()
