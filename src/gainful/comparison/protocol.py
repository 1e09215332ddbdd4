"""What is trained on and what is tested on: one split, folds made here, or parts that the caller brings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gainful.data import RankingData
from gainful.errors import DataError, ParameterError
from gainful.selection.splits import Split, folds, split


def as_splits(
    data: Any,
    *,
    n_folds: int | None = None,
    valid: RankingData | None = None,
    test: RankingData | None = None,
    sizes: Sequence[float] = (0.6, 0.2, 0.2),
    seed: int = 0,
) -> list[Split]:
    """The splits to run, checked.

    ``data`` is a RankingData (divided here, unless ``test`` is given), a :class:`Split`, or a list of Splits.
    """
    if isinstance(data, Split):
        data = [data]
    if isinstance(data, (list, tuple)) and data and all(isinstance(part, Split) for part in data):
        if n_folds is not None or valid is not None or test is not None:
            raise ParameterError("data is divided already; leave out folds, valid and test")
        splits = list(data)
    elif not isinstance(data, RankingData):
        raise ParameterError.of("compare", "data", "a RankingData, a Split or a list of Splits", type(data).__name__)
    elif test is not None:
        if n_folds is not None:
            raise ParameterError("give test data or folds, not both")
        splits = [Split(data, valid, test)]
    elif valid is not None:
        raise ParameterError("valid is given without test; give both, or neither and the data is divided")
    elif n_folds is not None:
        splits = folds(data, n_folds, seed=seed)
    else:
        splits = [_one_split(data, sizes, seed)]
    for part in splits:
        _check(part)
    return splits


def _one_split(data: RankingData, sizes: Sequence[float], seed: int) -> Split:
    if len(sizes) == 2:
        train, test = split(data, sizes, seed=seed)
        return Split(train, None, test)
    if len(sizes) != 3:
        raise ParameterError.of("compare", "sizes", "the shares of train, validation and test", sizes)
    train, valid, test = split(data, sizes, seed=seed)
    return Split(train, valid, test)


def _check(part: Split) -> None:
    parts = {"validation": part.valid, "test": part.test}
    for name, other in parts.items():
        if other is None:
            continue
        if other.n_features != part.train.n_features:
            raise DataError(
                f"the {name} data has {other.n_features} features, the training data has {part.train.n_features}"
            )
    train_ids = set(part.train.query_ids.tolist())
    shared = [query for query in part.test.query_ids.tolist() if query in train_ids]
    if shared and _same_documents(part.train, part.test, shared[0]):
        raise DataError(f"query {shared[0]!r} is in the training and in the test data; figures on it would be too good")


def _same_documents(train: RankingData, test: RankingData, query: Any) -> bool:
    """Ids may be numbered anew in each file; only the same rows under the same id are a leak."""
    a, b = train.select([query]), test.select([query])
    return a.equals(b)
