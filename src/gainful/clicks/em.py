"""Expectation maximisation for click models: Bernoulli parameters with Beta priors, sums over fixed blocks of pages.

The objective is the log-likelihood plus Σ a log θ + b log(1 − θ) over all parameters, where a and b are pseudo-counts.
Each step maximises its lower bound, θ = (Σ n + a) / (Σ d + a + b), so the objective never falls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gainful.clicks.index import PageIndex
from gainful.compute.threads import thread_count
from gainful.data.rows import Array

LEAST = 1e-9  # of a probability, and of its complement
LEAST_STRENGTH = 0.1  # of a prior that is learned
MOST_CHANGE = 4.0  # of its strength at a time
ROUNDS = 10  # of learning priors
PLAIN_STEPS = 10  # before the first long one

Estimates = Mapping[str, Array]


@dataclass(frozen=True)
class Beta:
    """The prior of a parameter: pseudo-counts of successes and failures. ``fixed`` entries keep their value.

    ``shift`` counts of each entry are successes instead of failures, which makes a mode a mean; see :meth:`learned`.
    """

    successes: float
    failures: float
    fixed: Array | None = None
    shift: Array | float = 0.0

    @classmethod
    def of_mean(cls, mean: float, strength: float) -> Beta:
        return cls(mean * strength, (1.0 - mean) * strength)

    @property
    def strength(self) -> float:
        return self.successes + self.failures

    @property
    def mean(self) -> float:
        return self.successes / self.strength if self.strength else 0.5

    @property
    def deviation(self) -> float:
        """The standard deviation of a parameter that nothing else is known of."""
        return math.sqrt(self.mean * (1.0 - self.mean) / (self.strength + 1.0))

    def is_close(self, other: Beta) -> bool:
        same = math.isclose(self.strength, other.strength, rel_tol=0.05)
        return same and abs(self.mean - other.mean) < 0.05 * self.deviation

    def learned(self, sums: Array, theta: Array) -> Beta:
        """The prior that explains how the θ of its entries differ (empirical Bayes), one step towards it.

        The variance of a prior is that of the estimates and the mean of theirs, so an entry tells of it as far as it is
        surer than the prior alone. One entry more, known and of strength 1, keeps few entries that happen to agree from
        being taken for equal. Where something is hidden, the maximum of the objective is not the posterior mean, but
        off by a third derivative (Tierney and Kadane, 1986); ``shift`` takes that back.
        """
        spread = theta * (1.0 - theta)
        information = sums[2] + self.successes * (1.0 - theta) ** 2 + self.failures * theta**2
        sure = float((spread**2 / (information + spread)).sum())
        known = max(len(theta) - sure / self.deviation**2, 0.0)
        mean = self.mean + float((theta - self.mean).sum()) / (known + 1.0)
        mean = min(max(mean, 0.5 * self.mean), 0.5 + 0.5 * self.mean)
        variance = (float(((theta - mean) ** 2).sum()) + 0.5 * mean * (1.0 - mean)) / (known + 1.0)
        strength = mean * (1.0 - mean) / variance - 1.0
        strength = min(max(strength, self.strength / MOST_CHANGE, LEAST_STRENGTH), self.strength * MOST_CHANGE)
        made = self.of_mean(mean, strength)
        third = sums[3] + self.successes * (1.0 - theta) ** 3 - self.failures * theta**3
        shift = np.clip(third / information - 1.0 + 2.0 * theta, -0.5 * made.successes, 0.5 * made.failures)
        return replace(made, shift=shift)

    @property
    def counts(self) -> tuple[Array | float, Array | float]:
        return self.successes + self.shift, self.failures - self.shift

    def log_density(self, theta: Array) -> float:
        """Σ a log θ + b log(1 − θ) over the entries that are not fixed."""
        free = theta if self.fixed is None else theta[~self.fixed]
        up, down = self.counts
        return float((up * np.log(free) + down * np.log1p(-free)).sum()) if self.strength else 0.0

    def maximise(self, sums: Array, theta: Array) -> Array:
        """The next θ; entries that nothing is known about keep their value."""
        trials = sums[1] + self.strength
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where(trials > 0.0, np.clip((sums[0] + self.counts[0]) / trials, LEAST, 1.0 - LEAST), theta)
        if self.fixed is not None:
            found[self.fixed] = theta[self.fixed]
        return found

    def standard_error(self, sums: Array, theta: Array) -> Array:
        """The standard error of each θ from the curvature of the objective, all other parameters held.

        The objective of one page is log of a linear function of θ, whose curvature is the square of its slope,
        (n − dθ) / (θ (1 − θ)). An entry without information has that of a uniform distribution.
        """
        up, down = self.counts
        information = sums[2] + up * (1.0 - theta) ** 2 + down * theta**2
        spread = theta * (1.0 - theta)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where(information > 0.0, spread / np.sqrt(information), np.inf)
        found = np.minimum(found, np.sqrt(1.0 / 12.0))
        if self.fixed is not None:
            found[self.fixed] = 0.0
        return found


@dataclass(frozen=True)
class Fitted:
    """The result of EM: parameters, what the pages say about each there, and the objective before each step."""

    theta: dict[str, Array]
    sums: dict[str, Array]
    priors: dict[str, Beta]
    history: list[float]
    converged: bool

    @cached_property
    def errors(self) -> dict[str, Array]:
        """The standard error of each parameter."""
        return {name: prior.standard_error(self.sums[name], self.theta[name]) for name, prior in self.priors.items()}


Expect = Callable[[Estimates], tuple[float, dict[str, Array]]]


def maximise(
    expect: Expect,
    start: Estimates,
    priors: Mapping[str, Beta],
    *,
    max_iter: int,
    tol: float,
    progress: Callable[[int, float], Any] | None = None,
) -> Fitted:
    """EM from ``start`` until three steps gain less than ``tol`` together, or ``max_iter`` steps.

    ``expect`` returns the log-likelihood at the parameters and the sums of each. From the tenth step on, each two steps
    are followed by a long one in their direction, which is taken back if the objective falls (SQUAREM; Varadhan and
    Roland, 2008): where few clicks tell examination from attractiveness, EM alone takes hundreds of steps.
    """
    theta, history, converged = dict(start), list[float](), False
    path: list[dict[str, Array]] = []  # the steps since the last long one
    back: dict[str, Array] | None = None  # where to go on if the long step taken is a bad one
    while True:
        value, sums = expect(theta)
        value += sum(prior.log_density(theta[name]) for name, prior in priors.items())
        if back is not None and not value >= history[-1]:
            theta, back = back, None
            continue
        history.append(value)
        back = None
        if progress is not None:
            progress(len(history) - 1, value)
        converged = len(history) > 3 and history[-1] - history[-4] < tol
        if converged or len(history) > max_iter:
            break
        path.append(theta)
        theta = theta | {name: prior.maximise(sums[name], theta[name]) for name, prior in priors.items()}
        if len(path) == 2 and len(history) >= PLAIN_STEPS:
            back, theta, path = theta, _long_step(path[0], path[1], theta), []
        path = path[-1:]
    return Fitted(theta, sums, dict(priors), history, converged)


def maximise_all(
    expect: Expect,
    start: Estimates,
    priors: Mapping[str, Beta],
    learned: Sequence[str],
    max_iter: int,
    tol: float,
    progress: Callable[[int, float], Any] | None = None,
) -> Fitted:
    """EM, and again with the priors ``learned`` from the result, until they hardly change."""
    found = maximise(expect, start, priors, max_iter=max_iter, tol=tol, progress=progress)
    for _ in range(ROUNDS if max_iter else 0):
        done = len(found.history)
        again = {name: found.priors[name].learned(found.sums[name], found.theta[name]) for name in learned}
        left = max_iter - done if max_iter > 1 else 1  # counts need one step, with every prior
        if left < 1 or all(one.is_close(found.priors[name]) for name, one in again.items()):
            break
        more = None if progress is None else lambda step, value, done=done: progress(done + step, value)
        history = found.history if max_iter > 1 else []
        found = maximise(expect, found.theta, found.priors | again, max_iter=left, tol=tol, progress=more)
        found.history[:0] = history
    return found


def _long_step(first: Estimates, second: Estimates, third: Estimates) -> dict[str, Array]:
    """The parameters where three steps of EM point to, and at most three quarters of the way to 0 or 1."""
    step = {name: second[name] - first[name] for name in first}
    turn = {name: third[name] - second[name] - step[name] for name in first}
    bend = sum(float(one @ one) for one in turn.values())
    reach = max(1.0, (sum(float(one @ one) for one in step.values()) / bend) ** 0.5) if bend > 0.0 else 1.0
    found = {name: first[name] + 2.0 * reach * step[name] + reach**2 * turn[name] for name in first}
    low, high = ({name: 0.25 * one + end for name, one in third.items()} for end in (LEAST, 0.75 - LEAST))
    return {n: np.where(third[n] < 1.0, np.clip(one, low[n], high[n]), third[n]) for n, one in found.items()}


@dataclass(frozen=True)
class Shape:
    """Sums of one kind of parameter: by pair, or all of ``size`` in every block."""

    by_pair: bool
    size: int = 0


Task = Callable[[int, int, int, list[Array]], float]  # (first page, last page, lowest pair, sums) → log-likelihood


def sum_blocks(index: PageIndex, shapes: Mapping[str, Shape], task: Task) -> tuple[float, dict[str, Array]]:
    """Run ``task`` on every block of pages in threads, and add the results in the order of the blocks."""

    def run(block: tuple[int, int]) -> tuple[float, int, list[Array]]:
        low, n_pairs = index.pair_range(*block)
        sums = [np.zeros((4, n_pairs if shape.by_pair else shape.size)) for shape in shapes.values()]
        return task(*block, low, sums), low, sums

    totals = {name: np.zeros((4, index.n_pairs if shape.by_pair else shape.size)) for name, shape in shapes.items()}
    value = 0.0
    for part, low, sums in _in_order(run, index.blocks):
        value += part
        for (name, shape), one in zip(shapes.items(), sums, strict=True):
            if shape.by_pair:
                totals[name][:, low : low + one.shape[1]] += one
            else:
                totals[name] += one
    return value, totals


def _in_order(run: Callable[[tuple[int, int]], Any], blocks: list[tuple[int, int]]) -> Any:
    n_threads = min(thread_count(), len(blocks))
    if n_threads <= 1:
        yield from map(run, blocks)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        waiting = [pool.submit(run, block) for block in blocks[: 2 * n_threads]]
        for i in range(len(blocks)):
            found = waiting[i].result()
            waiting[i] = None  # type: ignore[call-overload]
            if len(waiting) < len(blocks):  # a few at a time: the sums of all blocks need not fit into memory
                waiting.append(pool.submit(run, blocks[len(waiting)]))
            yield found
