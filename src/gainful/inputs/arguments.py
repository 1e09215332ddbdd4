"""From the arguments of ``fit``, ``score`` and similar functions to a :class:`~gainful.data.dataset.Dataset`."""

from __future__ import annotations

import os
from typing import Any

from gainful.data.dataset import Dataset, RankingData
from gainful.errors import DataError, ParameterError
from gainful.formats import read
from gainful.inputs.shards import open_shards


def as_dataset(X: Any, y: Any, qid: Any, sample_weight: Any, what: str) -> Dataset:
    """The dataset of these arguments: a dataset, a path, Dask collections or arrays. ``what`` names X in errors."""
    X = open_path(X)
    if isinstance(X, Dataset):
        if any(column is not None for column in (y, qid, sample_weight)):
            kind = type(X).__name__
            raise ParameterError(f"{what} is a {kind}, which brings its own y, qid and weights; give it alone")
        return X
    if is_dask(X):
        from gainful.cluster import from_collections  # needs Dask

        return from_collections(X, y, qid, sample_weight, what=what)
    if y is None:
        raise DataError("y is missing; ranking needs the grade of every row")
    return RankingData.from_rows(X, y, qid, sample_weight=sample_weight)


def as_validation_data(eval_set: Any) -> Dataset:
    """``eval_set``: ``(X, y, qid)``, or one such tuple in a list, a dataset, a path or paths."""
    eval_set = open_path(eval_set)
    if isinstance(eval_set, list) and len(eval_set) == 1:
        eval_set = eval_set[0]
    if isinstance(eval_set, Dataset):
        return eval_set
    if isinstance(eval_set, (tuple, list)) and len(eval_set) == 3:
        X, y, qid = eval_set
        return as_dataset(X, y, qid, None, "eval_set") if is_dask(X) else RankingData.from_rows(X, y, qid)
    raise ParameterError.of("fit", "eval_set", "(X, y, qid), a RankingData or a path", type(eval_set).__name__)


def open_path(X: Any) -> Any:
    """The data at a path: a file, mapped where possible, or the blocks of a folder or a list of files.

    Anything that is not a path is returned unchanged.
    """
    if _is_path(X):
        return open_shards(X) if os.path.isdir(X) else read(X)
    if isinstance(X, (list, tuple)) and X and all(_is_path(one) for one in X):
        return open_shards(X)
    return X


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection; does not import Dask."""
    return hasattr(X, "__dask_graph__")


def _is_path(X: Any) -> bool:
    return isinstance(X, (str, os.PathLike))
