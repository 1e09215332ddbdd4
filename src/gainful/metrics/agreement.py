"""How far two rankings agree, whatever is relevant."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from gainful.data.rows import Array
from gainful.errors import DataError, ParameterError, UnknownNameError, shorten

VARIANTS = ("b", "ap")


def rbo(first: Any, second: Any, *, p: float = 0.9) -> float:
    """Rank-biased overlap of two rankings, from 0 (nothing in common) to 1 (the same order).

    ``first`` and ``second`` hold documents, best first, or map them to scores, as ``run[query]`` does; equal scores
    stand by falling document id. They may hold different documents and differ in length. ``p`` is the chance that a
    reader goes on to the next rank: the first 1/(1 − p) ranks have most of the weight.

    This is the extrapolated value RBO_ext, equation 32 of Webber, Moffat and Zobel, "A similarity measure for
    indefinite rankings", 2010.

    >>> import gainful
    >>> gainful.rbo(["a", "b", "c"], ["a", "b", "c"])
    1.0
    """
    if isinstance(p, bool) or not isinstance(p, (int, float)) or not 0 < p < 1:
        raise ParameterError.of("rbo", "p", "a number between 0 and 1", p)
    short, long = sorted((_documents(first), _documents(second)), key=len)
    s, n = len(short), len(long)
    if s == 0:
        return 1.0 if n == 0 else 0.0
    common = _overlaps(short, long)  # X_d for d = 1, …, n
    depths = np.arange(1.0, n + 1.0)
    total = (common / depths * p**depths).sum()
    beyond = depths[s:]
    total += (common[s - 1] * (beyond - s) / (s * beyond) * p**beyond).sum()
    last = (common[n - 1] - common[s - 1]) / n + common[s - 1] / s
    return float((1.0 - p) / p * total + last * p**n)


def kendall_tau(first: Any, second: Any, *, variant: str = "b") -> float:
    """Kendall's τ of two orders of the same things, from −1 (reversed) to 1 (the same).

    ``first`` and ``second`` hold the things, best first, or map them to scores, as ``run[query]`` does. ``variant``
    "b": τ_b, which allows equal scores; "ap": τ_AP, where the top of ``first`` counts more. τ_AP asks of each thing but
    the best of ``first`` which share of those above it ``second`` has above it too (Yilmaz, Aslam and Robertson, 2008).
    It is not symmetric: ``second`` is the truth. Equal scores stand by falling id.

    >>> import gainful
    >>> [round(gainful.kendall_tau(["b", "a", "c"], ["a", "b", "c"], variant=one), 3) for one in ("b", "ap")]
    [0.333, 0.0]
    """
    if variant not in VARIANTS:
        raise UnknownNameError.among("variant", variant, VARIANTS, owner="kendall_tau")
    ours, theirs = (_scores(one) for one in (first, second))
    if ours.keys() != theirs.keys():
        only = next(iter(ours.keys() ^ theirs.keys()))
        raise DataError(
            f"{shorten(only)} is in only one of the rankings; τ needs the same things in both, rbo does not"
        )
    if len(ours) < 2:
        raise DataError(f"τ needs at least two things to rank, had {len(ours)}")
    if variant == "ap":
        return _tau_ap(_documents(first), _documents(second))
    from scipy.stats import kendalltau

    return float(kendalltau(list(ours.values()), [theirs[one] for one in ours]).statistic)


def _tau_ap(ours: Sequence[Hashable], theirs: Sequence[Hashable]) -> float:
    place = {one: i for i, one in enumerate(theirs)}
    truth = np.array([place[one] for one in ours])
    n = len(truth)
    shares = [(truth[:i] < truth[i]).mean() for i in range(1, n)]
    return float(2.0 * np.sum(shares) / (n - 1) - 1.0)


def _overlaps(short: Sequence[Hashable], long: Sequence[Hashable]) -> Array:
    """The number of documents that the first d of both have in common, for d = 1, …, len(long)."""
    place = {one: i for i, one in enumerate(short)}
    met = np.zeros(len(long))
    for j, one in enumerate(long):
        if one in place:
            met[max(j, place[one])] += 1.0
    return np.cumsum(met)


def _documents(ranking: Any) -> list[Hashable]:
    """The documents, best first."""
    if isinstance(ranking, Mapping):
        ranked = sorted(ranking.items(), key=lambda one: str(one[0]), reverse=True)
        ranked.sort(key=lambda one: one[1], reverse=True)
        return [document for document, _ in ranked]
    if isinstance(ranking, (str, bytes)) or not hasattr(ranking, "__iter__"):
        raise DataError(f"a ranking holds documents, best first, or maps them to scores; was {shorten(ranking)}")
    documents = list(np.asarray(ranking).tolist() if isinstance(ranking, np.ndarray) else ranking)
    if len(set(documents)) < len(documents):
        twice = next(one for i, one in enumerate(documents) if one in documents[:i])
        raise DataError(f"{shorten(twice)} is twice in a ranking")
    return documents


def _scores(ranking: Any) -> dict[Hashable, float]:
    if isinstance(ranking, Mapping):
        return dict(ranking)
    documents = _documents(ranking)
    return {document: float(-i) for i, document in enumerate(documents)}
