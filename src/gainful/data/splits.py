"""Training, validation and test parts that never split a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from gainful.data.dataset import RankingData
from gainful.data.rows import Array
from gainful.data.times import consecutive_parts, take_times
from gainful.errors import DataError, ParameterError

Part = RankingData | Callable[[], RankingData]


class Split:
    """One way to split data: ``train``, ``valid`` (or None) and ``test``.

    A part may be a function, which is called each time the part is needed: cross-validation then holds one fold at a
    time in memory.
    """

    def __init__(self, train: Part, valid: Part | None, test: Part, name: str = ""):
        self._train, self._valid, self._test = train, valid, test
        self.name = name

    @property
    def train(self) -> RankingData:
        return _load_part(self._train)

    @property
    def valid(self) -> RankingData | None:
        return None if self._valid is None else _load_part(self._valid)

    @property
    def test(self) -> RankingData:
        return _load_part(self._test)

    def __repr__(self) -> str:
        return f"Split({self.name!r})" if self.name else "Split()"


def first_look(
    data: RankingData | Split | Sequence[Split], valid: RankingData | None = None
) -> tuple[RankingData, RankingData | None]:
    """Training and validation data to check before many trainings: the given data, or the parts of the first split."""
    if isinstance(data, RankingData):
        return data, valid
    first = data if isinstance(data, Split) else data[0]
    return first.train, first.valid


def _load_part(part: Part) -> RankingData:
    return part if isinstance(part, RankingData) else part()


def split(
    data: RankingData, sizes: Sequence[float] = (0.6, 0.2, 0.2), *, seed: int = 0, time: Any = None
) -> tuple[RankingData, ...]:
    """Split the queries into ``len(sizes)`` parts, at random or by time.

    ``sizes`` are shares (their sum at most 1) or numbers of queries. Each part keeps the order of the data; shares that
    add up to 1 use every query.

    ``time``: the first part has the earliest queries, the last the latest. It is a feature with the time of the query,
    by name or number, which the parts then do not have; or a mapping from query ids to times, or an array with one time
    per query. Queries of the same time stay together, so parts may be larger or smaller than ``sizes``. If ``sizes``
    leave out queries, those are the earliest.

    >>> import gainful
    >>> train, valid, test = gainful.split(gainful.make_artificial(10), (0.6, 0.2, 0.2), seed=0)
    >>> len(train), len(valid), len(test)
    (6, 2, 2)
    """
    counts = _counts(sizes, data.n_queries)
    if time is not None:
        data, times = take_times(data, time)
        unused = data.n_queries - int(counts.sum())
        parts = consecutive_parts(times, np.concatenate([[unused], counts]) if unused else counts)
        return tuple(data[part] for part in parts[-len(counts) :])
    order = _shuffle(data.n_queries, seed, "split")
    borders = np.concatenate([[0], np.cumsum(counts)])
    return tuple(data[np.sort(order[a:b])] for a, b in pairwise(borders))


def folds(data: RankingData, n_folds: int = 5, *, seed: int = 0, time: Any = None) -> list[Split]:
    """Cross-validation by query, arranged as LETOR does; with ``time``, folds that roll forward.

    The queries are split at random into ``n_folds`` parts of (nearly) equal size. Fold i tests on part i, validates on
    part i − 1 and trains on the others; every query is tested once.

    ``time`` as in :func:`split`: the queries are divided by time into ``n_folds`` + 2 parts. Fold i trains on the parts
    up to i, validates on the next and tests on the one after it. So training never sees the future; the queries of the
    first two parts are not tested.
    """
    least, needs = (3, " (train, validation and test part)") if time is None else (1, "")
    if not isinstance(n_folds, (int, np.integer)) or isinstance(n_folds, bool) or n_folds < least:
        raise ParameterError.of("folds", "n_folds", f"an integer ≥ {least}{needs}", n_folds)
    n_parts = n_folds if time is None else n_folds + 2
    if n_parts > data.n_queries:
        by_time = "" if time is None else f" by time, which need {n_parts} parts"
        raise DataError(f"{data.n_queries} queries cannot make {n_folds} folds{by_time}")
    if time is not None:
        data, times = take_times(data, time)
        sizes = [len(part) for part in np.array_split(np.arange(data.n_queries), n_parts)]
        parts = consecutive_parts(times, np.array(sizes))
        chosen = [(np.sort(np.concatenate(parts[: i + 1])), parts[i + 1], parts[i + 2]) for i in range(n_folds)]
    else:
        parts = [np.sort(part) for part in np.array_split(_shuffle(data.n_queries, seed, "folds"), n_folds)]
        held = [(i, (i - 1) % n_folds) for i in range(n_folds)]
        rest = [np.sort(np.concatenate([p for j, p in enumerate(parts) if j not in pair])) for pair in held]
        chosen = [(rest[i], parts[i - 1], parts[i]) for i in range(n_folds)]
    result = []
    for i, three in enumerate(chosen):
        train, valid, test = (partial(data.__getitem__, queries) for queries in three)
        result.append(Split(train, valid, test, name=f"fold {i + 1}"))
    return result


def _shuffle(n_queries: int, seed: int, owner: str) -> Array:
    if not isinstance(seed, (int, np.integer)) or isinstance(seed, bool) or seed < 0:
        raise ParameterError.of(owner, "seed", "an integer ≥ 0", seed)
    return np.random.default_rng(seed).permutation(n_queries)


def _counts(sizes: Sequence[float], n_queries: int) -> Array:
    try:
        values = np.asarray(sizes, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError.of("split", "sizes", "shares or numbers of queries, all > 0", sizes) from error
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all() or (values <= 0).any():
        raise ParameterError.of("split", "sizes", "shares or numbers of queries, all > 0", sizes)
    if (values >= 1).all() and np.array_equal(values, np.round(values)) and not (len(values) == 1 and values[0] == 1):
        counts = values.astype(np.int64)
    else:
        if values.sum() > 1 + 1e-9:
            raise ParameterError.of("split", "sizes", "shares whose sum is at most 1, or whole numbers", sizes)
        borders = np.round(np.cumsum(values) * n_queries).astype(np.int64)
        counts = np.diff(np.concatenate([[0], borders]))
    if counts.sum() > n_queries or (counts == 0).any():
        raise DataError(f"{n_queries} queries cannot be divided into parts of {', '.join(f'{s:g}' for s in values)}")
    return counts
