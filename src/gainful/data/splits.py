"""Training, validation and test parts that never split a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from gainful.data.dataset import RankingData
from gainful.data.rows import Array
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


def split(data: RankingData, sizes: Sequence[float] = (0.6, 0.2, 0.2), *, seed: int = 0) -> tuple[RankingData, ...]:
    """Split the queries at random into ``len(sizes)`` parts.

    ``sizes`` are shares (their sum at most 1) or numbers of queries. Each part keeps the order of the data; shares that
    add up to 1 use every query.

    >>> import gainful
    >>> train, valid, test = gainful.split(gainful.make_artificial(10), (0.6, 0.2, 0.2), seed=0)
    >>> len(train), len(valid), len(test)
    (6, 2, 2)
    """
    counts = _counts(sizes, data.n_queries)
    order = _shuffle(data.n_queries, seed, "split")
    borders = np.concatenate([[0], np.cumsum(counts)])
    return tuple(data[np.sort(order[a:b])] for a, b in pairwise(borders))


def folds(data: RankingData, n_folds: int = 5, *, seed: int = 0) -> list[Split]:
    """Cross-validation by query, arranged as LETOR does.

    The queries are split at random into ``n_folds`` parts of (nearly) equal size. Fold i tests on part i, validates on
    part i − 1 and trains on the others; every query is tested once.
    """
    if not isinstance(n_folds, (int, np.integer)) or isinstance(n_folds, bool) or n_folds < 3:
        raise ParameterError.of("folds", "n_folds", "an integer ≥ 3 (train, validation and test part)", n_folds)
    if n_folds > data.n_queries:
        raise DataError(f"{data.n_queries} queries cannot make {n_folds} folds")
    order = _shuffle(data.n_queries, seed, "folds")
    parts = [np.sort(part) for part in np.array_split(order, n_folds)]
    result = []
    for i in range(n_folds):
        train = np.sort(np.concatenate([parts[j] for j in range(n_folds) if j not in (i, (i - 1) % n_folds)]))
        one, two, three = (partial(data.__getitem__, queries) for queries in (train, parts[i - 1], parts[i]))
        result.append(Split(one, two, three, name=f"fold {i + 1}"))
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
