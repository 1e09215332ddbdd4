"""Paired statistics of per-query values: tests, intervals, effect sizes, and what the number of queries can detect.

``benchmarks/error_rates.py`` measures how often each test raises a false alarm and each interval holds.

Conventions
-----------
``differences`` is (n_queries,), or (n_queries, k) for k rankers at once; a query that a metric skips is NaN and left
out. Random functions take a seed and draw the same queries for all rankers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from types import MappingProxyType

import numpy as np

from gainful.data.rows import Array

N_FLIPS = 10_000
N_RESAMPLES = 10_000
BLOCK_VALUES = 1 << 21  # random numbers in memory at a time
ROUNDING = 1e-12
POWER = 0.8
EXACT = 50  # with more queries, Wilcoxon's distribution is approximated
FEW = 20  # queries that differ: with fewer, skewed differences mislead tests and intervals
SKEWED = 0.1  # skewness / √n


# -- tests -------------------------------------------------------------------------------------------------------------


def wilcoxon(differences: Array, seed: int = 0) -> float:
    """Two-sided Wilcoxon signed-rank test; queries without a difference are left out.

    Exact up to 50 differing queries, even with equal differences: the distribution of the rank sum over all signs.
    With more, the normal distribution, its variance corrected for equal differences.
    """
    from scipy.special import ndtr
    from scipy.stats import rankdata

    nonzero = differences[differences != 0]
    n = len(nonzero)
    if n == 0:
        return 1.0
    ranks = rankdata(np.abs(nonzero))
    up = float(ranks[nonzero > 0].sum())
    if n <= EXACT:
        chances = _rank_sums(np.round(2 * ranks).astype(np.int64))
        place = round(2 * up)
        return float(min(1.0, 2 * min(chances[: place + 1].sum(), chances[place:].sum())))
    same = np.unique(ranks, return_counts=True)[1].astype(np.float64)
    variance = n * (n + 1) * (2 * n + 1) / 24 - (same**3 - same).sum() / 48
    return float(2 * ndtr(-abs(up - n * (n + 1) / 4) / math.sqrt(variance)))


def _rank_sums(ranks: Array) -> Array:
    """The probability of each sum of the (integer) ranks with positive sign, (Σ ranks + 1,)."""
    chances = np.zeros(int(ranks.sum()) + 1)
    chances[0] = 1.0
    for rank in ranks:
        chances[rank:] = 0.5 * (chances[rank:] + chances[: len(chances) - rank])
        chances[:rank] *= 0.5
    return chances


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

    The observed signs count as one draw, so that the p-value is never 0 and the test keeps its level.
    """
    return float(randomizations(differences.reshape(-1, 1), seed)[0])


def randomizations(differences: Array, seed: int = 0) -> Array:
    """:func:`randomization` of every column of (n_queries, k), (k,), under the same sign flips."""
    values = np.nan_to_num(differences)  # a skipped query adds nothing with either sign
    observed = np.abs(values.sum(axis=0))
    if len(values) == 0:
        return np.ones(values.shape[1])
    # Sums in another order differ by rounding, which must not decide.
    bound = observed - ROUNDING * np.abs(values).sum(axis=0)
    as_far = np.zeros(values.shape[1], dtype=np.int64)
    for signs in _draw_blocks("draw_signs", len(values), N_FLIPS, seed):
        as_far += (np.abs(signs @ values) >= bound).sum(axis=0)
    return np.asarray((as_far + 1) / (N_FLIPS + 1))


TESTS: MappingProxyType[str, Callable[[Array, int], float]] = MappingProxyType(
    {"wilcoxon": wilcoxon, "t": paired_t, "randomization": randomization}
)


def joint_randomizations(differences: Array, seed: int = 0) -> Array:
    """p-values of all columns of (n_queries, k) that hold for all of them at once, (k,): the largest of k statistics.

    A column's statistic is |Σ d| / √(Σ d²), which orders sign flips as its t does. The signs of a query flip in all
    columns together, 10,000 times; p is how often the largest statistic is at least as far from 0 as the column's own.
    Each column is measured by its own spread, so that one that varies more than others is not called different for it
    (Westfall and Young, "Resampling-based multiple testing", 1993).
    """
    values = np.nan_to_num(differences)
    size = np.sqrt((values**2).sum(axis=0))
    values = values / np.where(size > 0, size, 1.0)
    if values.size == 0:
        return np.ones(values.shape[1])
    blocks = _draw_blocks("draw_signs", len(values), N_FLIPS, seed)
    largest = np.sort(np.concatenate([np.abs(signs @ values).max(axis=1) for signs in blocks]))
    bound = np.abs(values.sum(axis=0)) - ROUNDING * np.abs(values).sum(axis=0)
    as_far = N_FLIPS - np.searchsorted(largest, bound, side="left")
    return np.asarray((as_far + 1) / (N_FLIPS + 1))


def equivalences(
    differences: Array, delta: float, weights: Array | None = None, *, highest: float = math.inf, seed: int = 0
) -> Array:
    """For each column of (n_queries, k), the p-value of "the mean difference is not between −delta and delta", (k,).

    Two one-sided tests (Schuirmann, 1987), each by the studentised bootstrap and by Student's t, of which the larger
    p-value counts: small means that :func:`bootstrap_intervals` at level 1 − 2p lies within ±delta. Where all
    differences are the same, p is the chance that n queries would show no other if the mean were ±delta and none could
    be above ``highest``. With fewer than two queries, 1.
    """
    from scipy import stats

    p = np.ones(differences.shape[1])
    mean, error, n, drawn, enough = _studentised(differences, weights, seed)
    for i, column in enumerate(np.flatnonzero(enough)):
        middle = abs(mean[i])
        if error[i] <= ROUNDING * max(middle, delta):
            unseen = min(1.0, (delta - middle) / (highest - middle)) if middle < delta else 0.0
            p[column] = (1.0 - unseen) ** n[i]
            continue
        above, below = (delta - mean[i]) / error[i], (delta + mean[i]) / error[i]
        beyond = max((drawn[:, i] <= -above).sum(), (drawn[:, i] >= below).sum())
        p[column] = max((beyond + 1) / (len(drawn) + 1), stats.t.sf(min(above, below), n[i] - 1))
    return p


def p_values(test: str, differences: Array, seed: int) -> list[float]:
    """The p-value of each column of differences (NaN for skipped queries)."""
    if test == "randomization":
        return [float(p) for p in randomizations(differences, seed)]
    return [TESTS[test](column[~np.isnan(column)], seed) for column in differences.T]


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


# -- intervals ---------------------------------------------------------------------------------------------------------


def mean_intervals(
    values: Array,
    weights: Array | None = None,
    *,
    level: float = 0.95,
    lowest: float = 0.0,
    highest: float = math.inf,
    seed: int = 0,
) -> tuple[Array, Array]:
    """Lower and upper ends of an interval for the mean of each column of a metric from ``lowest`` to ``highest``.

    Exact for a column whose values are all 0 or 1 if ``highest`` is 1, otherwise by the bootstrap. ``values`` is
    (n_queries, k), NaN if skipped; ``weights`` (n_queries,) makes the means weighted. With fewer than two queries an
    interval is NaN.
    """
    exact = binary_columns(values) & (highest == 1)
    ends = np.empty((2, values.shape[1]))
    ends[:, exact] = exact_intervals(values[:, exact], weights, level=level)
    drawn = bootstrap_intervals(values[:, ~exact], weights, level=level, seed=seed)
    ends[:, ~exact] = np.clip(drawn, lowest, highest)
    return ends[0], ends[1]


def difference_intervals(
    differences: Array,
    weights: Array | None = None,
    *,
    level: float = 0.95,
    highest: float = math.inf,
    binary: Array | bool = False,
    seed: int = 0,
) -> tuple[Array, Array]:
    """The same for mean differences; ``binary`` says which columns are differences of values that are 0 or 1."""
    paired = np.broadcast_to(binary, differences.shape[1])
    ends = np.empty((2, differences.shape[1]))
    ends[:, paired] = paired_binary_intervals(differences[:, paired], weights, level=level)
    drawn = bootstrap_intervals(differences[:, ~paired], weights, level=level, seed=seed)
    ends[:, ~paired] = np.clip(drawn, -highest, highest)
    return ends[0], ends[1]


def binary_columns(values: Array) -> Array:
    """Which columns have only values that are 0, 1 or skipped, (k,)."""
    return np.asarray((np.isnan(values) | (values == 0) | (values == 1)).all(axis=0))


def exact_intervals(values: Array, weights: Array | None = None, *, level: float = 0.95) -> tuple[Array, Array]:
    """Clopper and Pearson's interval (1934) for the mean of values that are 0 or 1: it holds for every true mean.

    Weighted queries count as (Σ w)² / Σ w² queries of equal weight.
    """
    from scipy.special import betaincinv

    share, n = _effective_shares(values, weights)
    mean = (share * np.nan_to_num(values)).sum(axis=0)
    ones, zeros, tail = n * mean, n * (1 - mean), (1 - level) / 2
    low = np.where(ones > 0, betaincinv(np.maximum(ones, ROUNDING), zeros + 1, tail), 0.0)
    high = np.where(zeros > 0, betaincinv(ones + 1, np.maximum(zeros, ROUNDING), 1 - tail), 1.0)
    few = (share > 0).sum(axis=0) < 2
    return np.where(few, np.nan, low), np.where(few, np.nan, high)


def _effective_shares(values: Array, weights: Array | None) -> tuple[Array, Array]:
    """The share of each query in the mean of each column, (n_queries, k), and (Σ w)² / Σ w², (k,)."""
    weight = ~np.isnan(values) * (np.ones(len(values)) if weights is None else weights)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):  # without queries there is no interval
        total = weight.sum(axis=0)
        return weight / total, total**2 / (weight**2).sum(axis=0)


def paired_binary_intervals(
    differences: Array, weights: Array | None = None, *, level: float = 0.95
) -> tuple[Array, Array]:
    """Student's interval for the mean of differences that are −1, 0 or 1, after adding one of each sign to the data.

    The two keep it from being too narrow where few queries differ. Bonett and Price (2012) add them too, but take the
    normal quantile, which is too narrow where nearly all queries differ.
    """
    from scipy import stats

    share, queries = _effective_shares(differences, weights)
    n = np.nan_to_num(queries) + 2
    wins, losses = ((queries * (share * (differences == sign)).sum(axis=0) + 1) / n for sign in (1, -1))
    mean = wins - losses
    half = stats.t.ppf((1 + level) / 2, n - 1) * np.sqrt((wins + losses - mean**2) / (n - 1))
    low, high = np.maximum(mean - half, -1.0), np.minimum(mean + half, 1.0)
    return np.where(n < 4, np.nan, low), np.where(n < 4, np.nan, high)


def bootstrap_intervals(
    values: Array, weights: Array | None = None, *, level: float = 0.95, seed: int = 0
) -> tuple[Array, Array]:
    """Studentised bootstrap interval for the mean of each column, never shorter than Student's on either side.

    Queries are drawn with replacement, 10,000 times. Each resample b gives t_b = (m_b − m) / s_b with its mean m_b and
    its standard error s_b; the ends are m − s max(q, t) and m − s min(q′, −t), where q and q′ are the quantiles
    (1 ± level) / 2 of t_b and t is Student's. s_b² is averaged with s², which counts as one query, because resamples of
    few queries may have no spread at all.
    """
    from scipy import stats

    ends = np.full((2, values.shape[1]), np.nan)
    mean, error, n, drawn, enough = _studentised(values, weights, seed)
    if enough.any():
        quantiles = np.nanquantile if np.isnan(drawn).any() else np.quantile  # nanquantile is far slower
        tails = quantiles(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
        student = stats.t.ppf((1 + level) / 2, n - 1)
        ends[0, enough] = mean - error * np.maximum(tails[1], student)
        ends[1, enough] = mean - error * np.minimum(tails[0], -student)
    return ends[0], ends[1]


def _studentised(values: Array, weights: Array | None, seed: int) -> tuple[Array, Array, Array, Array, Array]:
    """Mean, standard error, number of queries and resampled t of each column with two queries, and which these are.

    A query that is skipped or weighs nothing is left out.
    """
    kept = ~np.isnan(values) if weights is None else ~np.isnan(values) & (weights > 0)[:, None]
    counts = kept.sum(axis=0)
    enough = counts > 1
    values, kept, n = values[:, enough], kept[:, enough], counts[enough]
    weight = kept * (np.ones(len(values)) if weights is None else weights)[:, None]
    mean = (weight * np.nan_to_num(values)).sum(axis=0) / weight.sum(axis=0)
    centred = np.where(kept, values - mean, 0.0)
    error = np.sqrt(n / (n - 1) * ((weight * centred) ** 2).sum(axis=0)) / weight.sum(axis=0)
    drawn = _resampled_t(weight, centred, error, n, seed) if enough.any() else np.empty((0, 0))
    return mean, error, n, drawn, enough


def _resampled_t(weight: Array, centred: Array, error: Array, n: Array, seed: int) -> Array:
    """(m_b − m) / s_b of each column in each resample, (draws, k)."""
    weighted = not binary_columns(weight).all()
    below = weight[:, :1] if (weight == weight[:, :1]).all() else weight  # one column is enough if nothing is skipped
    first = weight * centred
    second, cross = first**2, weight * first
    blocks = []
    with np.errstate(invalid="ignore"):  # a resample with only skipped queries has no mean
        for c in _draw_blocks("draw_counts", len(weight), N_RESAMPLES, seed):
            total, sums = c @ below, c @ first
            shift = sums / total
            middle, squares = (c @ cross, c @ below**2) if weighted else (sums, total)
            spread = n / (n - 1) * np.maximum(c @ second - shift * (2 * middle - shift * squares), 0.0) / total**2
            s = np.sqrt((n * spread + error**2) / (n + 1))
            blocks.append(shift / np.where(s > 0, s, 1.0))
    return np.concatenate(blocks)


def _draw_blocks(kernel: str, n: int, draws: int, seed: int) -> Iterator[Array]:
    """Blocks of random rows of length n, ``draws`` rows in total; each block overwrites the last."""
    from gainful.statistics import resampling_kernels

    draw = getattr(resampling_kernels, kernel)
    state = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
    block = np.empty((max(1, min(draws, BLOCK_VALUES // max(n, 1))), n))
    for first in range(0, draws, len(block)):
        rows = block[: draws - first]
        state = np.uint64(draw(state, rows))
        yield rows


# -- sizes and power ---------------------------------------------------------------------------------------------------


def effect_size(differences: Array) -> float:
    """Cohen's d_z: the mean difference over its standard deviation; 0 without a difference."""
    deviation = differences.std(ddof=1) if len(differences) > 1 else 0.0
    mean = differences.mean() if len(differences) else 0.0
    if deviation > ROUNDING * abs(mean):
        return float(mean / deviation)
    return 0.0 if mean == 0 else math.copysign(math.inf, mean)


def superiority(differences: Array) -> float:
    """The probability that the ranker is better on a random query; ties count half."""
    if len(differences) == 0:
        return 0.5
    return float(((differences > 0).sum() + 0.5 * (differences == 0).sum()) / len(differences))


def least_p(test: str, n_differing: int) -> float:
    """The smallest p-value that a test could give, whatever the signs of the differences, before any correction.

    k differing queries have 2^k patterns of signs, of which the two extreme ones are farthest from 0. The random
    patterns of the randomisation test cannot give less than 1 / 10,001. The t test has no such bound.
    """
    if test == "t":
        return 0.0
    patterns = 2.0 ** (1 - n_differing)
    return min(1.0, max(patterns, 1.0 / (N_FLIPS + 1)) if test == "randomization" else patterns)


def smallest_p(p_values: Sequence[float], i: int, least: float) -> float:
    """The smallest Holm-corrected p-value that ranker i could have, given the p-values of the others.

    Never above its actual corrected p-value: a random draw may fall below what all patterns of signs give.
    """
    best = list(p_values)
    best[i] = min(best[i], least)
    return holm(best)[i]


def detectable(differences: Array, alpha: float, n_rankers: int) -> float:
    """The mean difference that a paired t test finds in 80 % of cases, at the standard deviation observed here.

    (t_{1 − α/2m} + t_{0.8}) s / √n with n − 1 degrees of freedom, at the level of Holm's first step over m rankers.
    """
    from scipy import stats

    n = len(differences)
    if n < 2:
        return math.inf
    quantiles = stats.t.ppf([1 - alpha / (2 * n_rankers), POWER], n - 1)
    return float(quantiles.sum() * differences.std(ddof=1) / np.sqrt(n))


# -- what the queries cannot support -----------------------------------------------------------------------------------


def few_differing(differences: Array) -> Array:
    """Whether fewer than 20 queries differ, for each column: tests and intervals may then err more than they say."""
    return np.asarray(((differences != 0) & ~np.isnan(differences)).sum(axis=0) < FEW)


def skewed(differences: Array) -> Array:
    """Whether a few large differences on one side decide the mean of a column, so that tests of it err more often.

    The distance of a mean from the normal distribution goes with skewness / √n; from .1 on, tests at 5 % err in more
    than 6 %. Some of k columns may be that skewed by chance: the limit is 1 + ln(k) / 5 times as high up to 50 queries,
    and falls to .1 as their number grows.
    """
    n, k = differences.shape
    known = (~np.isnan(differences)).sum(axis=0)
    centred = np.nan_to_num(differences - np.nansum(differences, axis=0) / np.maximum(known, 1))
    limit = SKEWED * max(1.0, (1 + math.log(max(k, 1)) / 5) * min(1.0, 50 / max(n, 1)))
    return np.asarray(np.abs((centred**3).sum(axis=0)) > limit * (centred**2).sum(axis=0) ** 1.5)
