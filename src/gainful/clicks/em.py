"""Expectation maximisation for click models: Bernoulli parameters with Beta priors, sums over fixed blocks of pages.

The objective is the log-likelihood plus Σ a log θ + b log(1 − θ) over all parameters, where a and b are pseudo-counts.
Each step maximises its lower bound, θ = (Σ n + a) / (Σ d + a + b), so the objective never falls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from gainful.clicks.index import PageIndex
from gainful.compute.threads import thread_count
from gainful.data.rows import Array

LEAST = 1e-9  # of a probability, and of its complement

Estimates = Mapping[str, Array]


@dataclass(frozen=True)
class Beta:
    """The prior of a parameter: pseudo-counts of successes and failures. ``fixed`` entries keep their value."""

    successes: float
    failures: float
    fixed: Array | None = None

    @classmethod
    def of_mean(cls, mean: float, strength: float, fixed: Array | None = None) -> Beta:
        return cls(mean * strength, (1.0 - mean) * strength, fixed)

    @property
    def mean(self) -> float:
        total = self.successes + self.failures
        return self.successes / total if total else 0.5

    def log_density(self, theta: Array) -> float:
        """Σ a log θ + b log(1 − θ) over the entries that are not fixed."""
        free = theta if self.fixed is None else theta[~self.fixed]
        total = 0.0
        if self.successes:
            total += self.successes * float(np.log(free).sum())
        if self.failures:
            total += self.failures * float(np.log1p(-free).sum())
        return total

    def maximise(self, sums: Array, theta: Array) -> Array:
        """The next θ; entries that nothing is known about keep their value."""
        trials = sums[1] + self.successes + self.failures
        known = trials > 0.0
        found = theta.copy()
        found[known] = np.clip((sums[0][known] + self.successes) / trials[known], LEAST, 1.0 - LEAST)
        if self.fixed is not None:
            found[self.fixed] = theta[self.fixed]
        return found

    def standard_error(self, sums: Array, theta: Array) -> Array:
        """The standard error of each θ from the curvature of the objective, all other parameters held.

        The objective of one page is log of a linear function of θ, whose curvature is the square of its slope,
        (n − dθ) / (θ (1 − θ)). An entry without information has that of a uniform distribution.
        """
        information = sums[2] + self.successes * (1.0 - theta) ** 2 + self.failures * theta**2
        spread = theta * (1.0 - theta)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where(information > 0.0, spread / np.sqrt(information), np.inf)
        found = np.minimum(found, np.sqrt(1.0 / 12.0))
        if self.fixed is not None:
            found[self.fixed] = 0.0
        return found


@dataclass(frozen=True)
class Fitted:
    """The result of EM: parameters, their standard errors, and the objective before each step."""

    theta: dict[str, Array]
    errors: dict[str, Array]
    history: list[float]
    converged: bool


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
    """EM from ``start`` until a step gains less than ``tol``, or ``max_iter`` steps.

    ``expect`` returns the log-likelihood at the parameters and the sums of each.
    """
    theta, history, converged = dict(start), [], False
    while True:
        value, sums = expect(theta)
        history.append(value + sum(prior.log_density(theta[name]) for name, prior in priors.items()))
        if progress is not None:
            progress(len(history) - 1, history[-1])
        converged = len(history) > 1 and history[-1] - history[-2] < tol
        if converged or len(history) > max_iter:
            break
        theta |= {name: prior.maximise(sums[name], theta[name]) for name, prior in priors.items()}
    errors = {name: prior.standard_error(sums[name], theta[name]) for name, prior in priors.items()}
    return Fitted(theta, errors, history, converged)


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
        sums = [np.zeros((3, n_pairs if shape.by_pair else shape.size)) for shape in shapes.values()]
        return task(*block, low, sums), low, sums

    totals = {name: np.zeros((3, index.n_pairs if shape.by_pair else shape.size)) for name, shape in shapes.items()}
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
