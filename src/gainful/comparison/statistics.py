"""Paired tests on per-query differences, and Holm's correction for comparing several rankers at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType

import numpy as np

from gainful.rows import Array

N_FLIPS = 10_000
BLOCK_FLIPS = 250


def wilcoxon(differences: Array, seed: int = 0) -> float:
    """Two-sided Wilcoxon signed-rank test; queries without a difference are left out."""
    from scipy import stats

    nonzero = differences[differences != 0]
    if len(nonzero) == 0:
        return 1.0
    return float(stats.wilcoxon(nonzero).pvalue)


def paired_t(differences: Array, seed: int = 0) -> float:
    """Two-sided paired t test."""
    from scipy import stats

    n = len(differences)
    mean = differences.mean() if n else 0.0
    if n < 2 or mean == 0:
        return 1.0
    error = differences.std(ddof=1) / np.sqrt(n)
    if error <= 1e-12 * abs(mean):
        return 0.0
    return float(2.0 * stats.t.sf(abs(mean) / error, n - 1))


def randomization(differences: Array, seed: int = 0) -> float:
    """Two-sided randomisation test: how often random signs give a mean at least as far from 0 (10,000 draws).

    The observed signs count as one of the draws, so that the p-value is never 0 and the test keeps its level.
    """
    n = len(differences)
    observed = abs(differences.sum())
    if n == 0 or observed == 0:
        return 1.0
    rng = np.random.default_rng(seed)
    as_far = 0
    bound = observed * (1.0 - 1e-12)
    for _ in range(N_FLIPS // BLOCK_FLIPS):
        flips = np.unpackbits(rng.integers(0, 256, size=(BLOCK_FLIPS, -(-n // 8)), dtype=np.uint8), axis=1)[:, :n]
        as_far += int((np.abs((flips * 2.0 - 1.0) @ differences) >= bound).sum())
    return (as_far + 1) / (N_FLIPS + 1)


TESTS: MappingProxyType[str, Callable[[Array, int], float]] = MappingProxyType(
    {"wilcoxon": wilcoxon, "t": paired_t, "randomization": randomization}
)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values: rejecting those ≤ α keeps the chance of any false alarm ≤ α.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    adjusted = np.empty(len(p))
    order = np.argsort(p)
    running = 0.0
    for i, place in enumerate(order):
        running = max(running, min(1.0, (len(p) - i) * p[place]))
        adjusted[place] = running
    return [float(value) for value in adjusted]
