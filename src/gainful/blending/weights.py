"""How much each member of a blend counts, decided by metric values on queries it was not trained on."""

from __future__ import annotations

import numpy as np

from gainful.data.rows import Array

RULES = ("within", "shrunk", "uniform")
WITHIN = 2.0  # standard errors below the best
FARTHEST = 4.0  # standard errors below the best, beyond which a member would count less than a fiftieth of it
CLEARLY = 4.0  # standard errors above it, where fewer queries were scored


def counting(values: Array, weights: Array | None) -> Array:
    """Which values count: those that are no NaN, of queries with a weight above 0."""
    return np.isfinite(values) if weights is None else np.isfinite(values) & (weights > 0.0)


def mean_and_error(values: Array, weights: Array | None = None) -> tuple[float, float]:
    """The mean over queries and its standard error; NaN values and queries of weight 0 do not count."""
    known = counting(values, weights)
    if not known.any():
        return float("nan"), float("nan")
    some = values[known]
    share = np.ones(len(some)) if weights is None else weights[known]
    total = share.sum()
    mean = float(share @ some / total)
    n = len(some)
    if n < 2:
        return mean, float("inf")
    spread = float(np.sqrt(((share * (some - mean)) ** 2).sum() * n / (n - 1)) / total)
    return mean, spread


def errors_below(values: Array, best: Array, weights: Array | None = None) -> float:
    """How many paired standard errors ``values`` lie below ``best``, over the queries that both have."""
    mean, error = mean_and_error(best - values, weights)
    if np.isnan(mean):
        return float("inf")
    if error == 0.0:
        return 0.0 if mean == 0.0 else float(np.copysign(np.inf, mean))
    return mean / error


def best_member(values: Array, weights: Array | None = None) -> int:
    """The member with the highest mean among those with the most queries."""
    counts = counting(values, weights).sum(axis=1)
    means = [
        mean_and_error(row, weights)[0] if n == counts.max() else -np.inf for row, n in zip(values, counts, strict=True)
    ]
    return int(np.nanargmax(np.where(np.isnan(means), -np.inf, means)))


def choose_weights(rule: str, values: Array, query_weights: Array | None = None) -> Array:
    """One weight per member, with sum 1, from their values, (n_members, n_queries); NaN where a query was not scored.

    "uniform": all the same. "within": the same for members at most two paired standard errors below the best, none for
    the others. "shrunk": ∝ exp(−t), t the number of paired standard errors below the best, and none beyond four: most
    members count, good ones more. By these two, members that scored fewer queries than the best do not count: their
    errors are wide.
    """
    if rule == "uniform" or not counting(values, query_weights).any():  # no query was left out
        raw = np.ones(len(values))
    else:
        best = values[_leader(values, query_weights)]
        below = np.array([max(0.0, errors_below(row, best, query_weights)) for row in values])
        raw = (below <= WITHIN).astype(np.float64) if rule == "within" else np.exp(-below) * (below <= FARTHEST)
        raw *= may_count(rule, values, query_weights)
    return np.asarray(raw / raw.sum())


def may_count(rule: str, values: Array, query_weights: Array | None = None) -> Array:
    """Which members have scored as many queries as the best; by "uniform", all."""
    covered = counting(values, query_weights).sum(axis=1)
    if rule == "uniform" or not covered.any():
        return np.ones(len(values), dtype=bool)
    return np.asarray(covered >= covered[_leader(values, query_weights)])


def _leader(values: Array, query_weights: Array | None) -> int:
    """The best of the members with the most queries, unless others with fewer are clearly better.

    So where time ends, the first member that is whole does not win against better ones that are not.
    """
    counts = counting(values, query_weights).sum(axis=1)
    leader = best_member(values, query_weights)
    while True:
        fewer = [i for i, n in enumerate(counts) if n < counts[leader]]
        better = [i for i in fewer if errors_below(values[i], values[leader], query_weights) < -CLEARLY]
        if not better:
            return leader
        leader = better[best_member(values[better], query_weights)]
