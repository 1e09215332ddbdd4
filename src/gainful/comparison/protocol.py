"""Training and test data: one split, folds, or the parts that the caller gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gainful.data.dataset import RankingData
from gainful.data.splits import Split, folds, split
from gainful.data.times import take_times
from gainful.errors import DataError, ParameterError, wording
from gainful.tuning.store import fingerprint

LIKELY = np.log(1e6)  # orders: documents in the same order of as many are the same


def as_splits(
    data: Any,
    *,
    n_folds: int | None = None,
    valid: RankingData | None = None,
    test: RankingData | None = None,
    sizes: Sequence[float] = (0.6, 0.2, 0.2),
    seed: int = 0,
    time: Any = None,
) -> list[Split]:
    """The splits to run, after checking them.

    ``data`` is a RankingData (which is divided, unless ``test`` is given), a :class:`Split`, or a list of Splits.
    ``time`` has one time per query, or is None to divide at random.
    """
    if isinstance(data, Split):
        data = [data]
    if isinstance(data, (list, tuple)) and data and all(isinstance(part, Split) for part in data):
        if n_folds is not None or valid is not None or test is not None:
            others = wording("folds, valid and test", "--folds, --valid and --test")
            raise ParameterError(f"data is already divided; leave out {others}")
        splits = list(data)
    elif not isinstance(data, RankingData):
        raise _not_data(data)
    elif test is not None:
        if n_folds is not None:
            raise ParameterError("give test data or folds, not both")
        splits = [Split(data, valid, test)]
    elif valid is not None:
        given = wording("valid is given without test", "--valid is given without --test")
        raise ParameterError(f"{given}; give both, or neither to divide the data")
    elif n_folds is not None:
        splits = folds(data, n_folds, seed=seed, time=time)
    else:
        splits = [_one_split(data, sizes, seed, time)]
    for part in splits:
        _check(part)
    if not isinstance(data, RankingData):  # our own folds test every query once
        _refuse_tested_twice(splits)
    return splits


def take_times_out(data: Any, test: Any, time: Any) -> tuple[Any, Any]:
    """The data without the feature that holds the times, and one time per query; nothing changes without ``time``."""
    if time is None:
        return data, None
    if test is not None or not isinstance(data, RankingData):
        raise ParameterError(
            f"the data is already divided; leave out {wording('time', '--time')}, or give one data set to divide"
        )
    return take_times(data, time)


def _not_data(data: Any) -> ParameterError:
    expected = "a path, a data frame, a RankingData, a Split or a list of Splits"
    return ParameterError.of("compare", "data", expected, type(data).__name__)


def division(
    data: Any,
    *,
    n_folds: int | None = None,
    test: Any = None,
    sizes: Sequence[float] = (),
    seed: int = 0,
    time: Any = None,
    **_: Any,
) -> dict[str, Any]:
    """How the data was divided, as plain values."""
    if not isinstance(data, RankingData):
        return {"division": "as given", "folds": 1 if isinstance(data, Split) else len(data)}
    if test is not None:
        return {"division": "as given", "folds": 1}
    if time is not None:
        named = {"time": time} if isinstance(time, str | int) else {}
        if n_folds is not None:
            return {"division": "rolling folds by time", "folds": n_folds, **named}
        return {"division": "one split by time", "folds": 1, "sizes": list(sizes), **named}
    if n_folds is not None:
        return {"division": "folds by query", "folds": n_folds, "seed": seed}
    return {"division": "one split by query", "folds": 1, "sizes": list(sizes), "seed": seed}


def _one_split(data: RankingData, sizes: Sequence[float], seed: int, time: Any) -> Split:
    if len(sizes) == 2:
        train, test = split(data, sizes, seed=seed, time=time)
        return Split(train, None, test)
    if len(sizes) != 3:
        raise ParameterError.of("compare", "sizes", "the shares of train, validation and test", sizes)
    train, valid, test = split(data, sizes, seed=seed, time=time)
    return Split(train, valid, test)


def without_idle_queries(split: Split) -> Split:
    """The split without the test queries of weight 0, which count nowhere."""

    def test() -> RankingData:
        data = split.test
        if data.query_weights is None or data.query_weights.all():
            return data
        if not data.query_weights.any():
            raise DataError(
                f"every test query{f' of {split.name}' if split.name else ''} has weight 0; give some weight"
            )
        return data[data.query_weights > 0]

    return Split(split._train, split._valid, test, name=split.name)


def _check(split: Split) -> None:
    train, valid, test = split.train, split.valid, split.test
    for name, other in (("validation", valid), ("test", test)):
        if other is not None and other.n_features != train.n_features:
            raise DataError(
                f"the {name} data has {other.n_features} features, the training data has {train.n_features}"
            )
    for name, other in (("training", train), ("validation", valid)):
        leaked = None if other is None else _shared_query(other, test)
        if leaked is not None:
            query, how = leaked
            raise DataError(
                f"query {query!r} is in the {name} and in the test data{how}; results on it would be too good"
            )


def _refuse_tested_twice(splits: Sequence[Split]) -> None:
    """The paired tests need independent queries: one that is tested in two splits would count twice."""
    if len(splits) < 2:
        return
    where: dict[Any, list[int]] = {}
    for i, part in enumerate(splits):
        for query in part.test.query_ids.tolist():
            where.setdefault(query, []).append(i)
    prints: dict[tuple[Any, str], int] = {}
    for i, part in enumerate(splits):
        test = part.test
        for q, query in enumerate(test.query_ids.tolist()):
            if len(where[query]) > 1:
                first = prints.setdefault((query, fingerprint(test[q])), i)
                if first != i:
                    raise DataError(
                        f"query {query!r} is in the test data of {_name(splits, first)} and of {_name(splits, i)} with "
                        "the same rows; the tests would count it twice, so test every query once"
                    )


def _name(splits: Sequence[Split], i: int) -> str:
    return splits[i].name or f"split {i + 1}"


def _shared_query(part: RankingData, test: RankingData) -> Any:
    """A query with the same id and the same rows in both, or None, and in words whether they were rescaled.

    The id alone may be reused in another file.
    """
    places = {query: q for q, query in enumerate(part.query_ids.tolist())}
    for q, query in enumerate(test.query_ids.tolist()):
        there = places.get(query)
        if there is None:
            continue
        if part[there].equals(test[q]):
            return query, ""
        if _is_rescaled(part[there], test[q]):
            return query, " with rescaled features: the same grades, and the same order of documents in every feature"
    return None


def _is_rescaled(one: RankingData, other: RankingData) -> bool:
    """Whether two queries have equal grades and every feature orders their documents alike, beyond chance."""
    from scipy.special import gammaln
    from scipy.stats import rankdata

    if one.X.shape != other.X.shape or not np.array_equal(one.y, other.y):
        return False
    dense = (np.asarray(data.X.toarray() if data.is_sparse else data.X) for data in (one, other))
    first, second = (rankdata(np.nan_to_num(X, nan=np.inf), method="dense", axis=0) for X in dense)
    # The orders that the features could have had, as if those that differ were independent.
    return np.array_equal(first, second) and bool(gammaln(np.unique(first, axis=1).max(axis=0) + 1).sum() > LIKELY)
