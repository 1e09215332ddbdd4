"""Does a comparison call rankers different that are not?"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import stats

import gainful
from gainful.comparison import result
from gainful.parameters.constraints import Seed
from gainful.rankers.base import LinearScores, Ranker

RUNS, LEVEL = 100, 0.05


class RandomWeights(LinearScores, Ranker):
    """Weights from nothing but the seed: as good as any other seed on data without a signal."""

    parameters: ClassVar = {"random_state": Seed(help="seed")}

    def __init__(self, random_state=0):
        self.random_state = random_state

    def _fit(self, data, monitor):
        self.coef_, self.intercept_ = np.random.default_rng(self.random_state).normal(size=data.n_features), 0.0
        monitor.step()


def noise(seed: int) -> gainful.RankingData:
    """Grades and features that know nothing of each other; a few queries have no relevant document."""
    rng = np.random.default_rng(seed)
    return gainful.RankingData.from_rows(
        rng.normal(size=(320, 3)), rng.integers(0, 3, 320) * (rng.random(320) < 0.5), np.repeat(np.arange(40), 8)
    )


def no_intervals(values, *_, **__):
    """In place of intervals, which decide nothing here and take most of the time."""
    return np.zeros(values.shape[1]), np.zeros(values.shape[1])


def test_two_seeds_on_pure_noise_are_rarely_called_different(monkeypatch):
    """A ranker against itself under other seeds: any mark is a false alarm.

    At a level of 5 % the number of false alarms in 100 runs is at most Binomial(100, 0.05), whose mean is 5. The bound
    is its 99 % quantile, 11; more would mean that the level is not kept. It fails for a correct test once in a hundred
    choices of the seeds, and these are fixed.
    """
    monkeypatch.setattr(result, "difference_intervals", no_intervals)
    pairs = several = anything = 0
    for run in range(RUNS):
        rankers = {f"seed {i}": RandomWeights(random_state=10 * run + i) for i in range(4)}
        found = gainful.compare(rankers, noise(run), sizes=(0.1, 0.9), tests=["randomization"])
        # One seed against another: with one ranker besides the baseline there is nothing to correct.
        pairs += found.paired_tests["seed 1", "ndcg@10"].p["randomization"] <= LEVEL
        # Against three others, where only the correction keeps the level.
        several += any(found.verdict(label, "ndcg@10") for label in found.labels)
        # Any mark of the default table with its four metrics.
        anything += any(found.mark(label, found.headings[m]) for label in found.labels for m in found.metrics)
    bound = stats.binom.ppf(0.99, RUNS, LEVEL)
    assert anything <= bound
    assert pairs <= bound
    assert several <= bound
    assert min(pairs, several) > 0  # a test that never speaks proves nothing
