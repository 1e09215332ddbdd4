"""From the arguments of ``fit``, ``score`` and similar functions to a :class:`~gainful.data.dataset.Dataset`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gainful.data.dataset import Dataset, RankingData
from gainful.data.frames import select_columns
from gainful.data.pairs import check_pairs
from gainful.data.rows import Array, check_init_scores, check_positions, check_propensities
from gainful.data.sharded import map_blocks
from gainful.errors import ParameterError, wording
from gainful.formats.shards import is_many, named_features, shard_files
from gainful.inputs.reading import read
from gainful.inputs.shards import open_many, open_shards


def as_dataset(
    X: Any,
    y: Any,
    qid: Any,
    sample_weight: Any,
    what: str,
    group: Any = None,
    names: Sequence[str] | None = None,
    *,
    init_score: Any = None,
    pairs: Any = None,
    position: Any = None,
    propensity: Any = None,
) -> Dataset:
    """The dataset of these arguments: a dataset, a path, Dask collections or arrays. ``what`` names X in errors.

    ``names`` as in :func:`open_path`.
    """
    X = open_path(X, names)
    if isinstance(X, Dataset):
        if any(column is not None for column in (y, qid, sample_weight, group)):
            kind = type(X).__name__
            raise ParameterError(f"{what} is a {kind}, which brings its own y, qid and weights; give it alone")
        if pairs is not None:
            X = add_pairs(X, pairs, what)
        X = X if init_score is None else add_init_scores(X, init_score, what)
        return add_clicks(X, position, propensity, what)
    if is_dask(X):
        if group is not None:
            raise ParameterError(f"{what} is a Dask {type(X).__name__}, whose rows have no order; give qid, not group")
        if init_score is not None:
            raise ParameterError(f"{what} is a Dask {type(X).__name__}, which cannot have init_score; leave it out")
        if pairs is not None:
            raise ParameterError(
                f"{what} is a Dask {type(X).__name__}, whose rows have no numbers; pairs cannot name them"
            )
        from gainful.cluster import from_collections  # needs Dask

        by_model = hasattr(propensity, "examination_")
        given = None if by_model else propensity
        found = from_collections(X, y, qid, sample_weight, position=position, propensity=given, what=what)
        return add_clicks(found, None, propensity, what) if by_model else found
    rows = RankingData.from_rows(
        X, y, qid, group=group, sample_weight=sample_weight, init_score=init_score, pairs=pairs
    )
    return add_clicks(rows, position, propensity, what)


def add_pairs(data: Dataset, pairs: Any, what: str) -> RankingData:
    """The data with preferences, given by input rows, instead of grades."""
    whole = data.whole
    if whole is None:
        raise ParameterError(
            f"{what} is in {data.n_blocks} parts, whose rows pairs cannot name; open the files with pairs=FILE, where "
            "documents are named by query"
        )
    if whole.has_pairs:
        raise ParameterError(f"{what} brings its own preferences; leave out pairs")
    found = check_pairs(pairs, whole.offsets, whole.query_ids, whole.input_order)
    assert found is not None
    return whole.with_pairs(found)


def add_init_scores(data: Dataset, init_score: Any, what: str) -> RankingData:
    """The data with initial scores, one per row in input order."""
    whole = data.whole
    if whole is None:
        raise ParameterError(
            f"{what} is in {data.n_blocks} parts, which {wording('init_score', 'a file of initial scores')} cannot "
            "address; convert it to one file"
        )
    if whole.has_init_scores:
        raise ParameterError(
            f"{what} brings its own initial scores; leave out {wording('init_score', 'the file of initial scores')}"
        )
    scores = check_init_scores(init_score, whole.n_rows)
    assert scores is not None
    return whole.replace(init_scores=scores if whole.input_order is None else scores[whole.input_order])


def add_clicks(data: Dataset, position: Any, propensity: Any, what: str) -> Dataset:
    """The data with the positions and propensities of its rows, in input order; or those of a click model."""
    if hasattr(propensity, "examination_"):
        data = data if position is None else add_clicks(data, position, None, what)
        if not data.has_positions:
            raise ParameterError("propensity is a click model, which has one for each position; give position, too")
        return map_blocks(data, _with_examination, np.asarray(propensity.examination_))
    for name, column in (("position", position), ("propensity", propensity)):
        if column is not None:
            whole, field = data.whole, {"position": "positions", "propensity": "propensities"}[name]
            if whole is None:
                raise ParameterError(
                    f"{what} is in {data.n_blocks} parts, which {wording(name, f'a file of {field}')} cannot address; "
                    "convert it to one file"
                )
            if getattr(whole, field) is not None:
                raise ParameterError(f"{what} brings its own {field}; leave out {wording(name, f'--{name}')}")
            clicks = whole.to_input_order(whole.y)
            checked: Any = (
                check_positions(column, whole.n_rows, clicks)
                if name == "position"
                else check_propensities(column, whole.n_rows)
            )
            data = whole.replace(**{field: checked if whole.input_order is None else checked[whole.input_order]})
    return data


def _with_examination(data: RankingData, examination: Array) -> RankingData:
    """The block with the propensities of its positions."""
    assert data.positions is not None
    last = int(data.positions.max())
    if last > len(examination):
        raise ParameterError(
            f"the click model has propensities of {len(examination)} positions, but position {last} occurs"
        )
    values = np.concatenate([[1.0], examination])[data.positions]
    return data.replace(propensities=check_propensities(values, data.n_rows))


def with_init_scores(eval_set: Any, init_score: Any, by_group: bool, names: Sequence[str] | None) -> Any:
    """``eval_set`` with its initial scores; those of several sets by name."""
    if init_score is None:
        return eval_set
    if eval_set is None:
        raise ParameterError("eval_init_score belongs to eval_set, which is missing")
    if not isinstance(eval_set, Mapping):
        return add_init_scores(as_validation_data(eval_set, by_group, names), init_score, "eval_set")
    if not isinstance(init_score, Mapping) or set(init_score) != set(eval_set):
        raise ParameterError.of(
            "fit", "eval_init_score", "a mapping with the names of eval_set", type(init_score).__name__
        )
    return {name: with_init_scores(one, init_score[name], by_group, names) for name, one in eval_set.items()}


def as_validation_data(eval_set: Any, by_group: bool = False, names: Sequence[str] | None = None) -> Dataset:
    """``eval_set``: ``(X, y, qid)``, or one such tuple in a list, a dataset, a path or paths.

    ``by_group``: the third of the tuple is the sizes of the queries, as for the training data. ``names`` as in
    :func:`open_path`.
    """
    eval_set = open_path(eval_set, names)
    if isinstance(eval_set, list) and len(eval_set) == 1:
        eval_set = eval_set[0]
    if isinstance(eval_set, Dataset):
        return eval_set
    if isinstance(eval_set, (tuple, list)) and len(eval_set) == 3:
        X, y, queries = eval_set
        X = X if is_dask(X) else select_columns(X, names, "eval_set", "the training data has")
        qid, group = (None, queries) if by_group else (queries, None)
        return as_dataset(X, y, qid, None, "eval_set", group)
    third = "group" if by_group else "qid"
    raise ParameterError.of("fit", "eval_set", f"(X, y, {third}), a RankingData or a path", type(eval_set).__name__)


def open_path(X: Any, names: Sequence[str] | None = None) -> Any:
    """The data at a path: a file, mapped where possible, or the blocks of a folder or a list of files.

    ``names`` are the features to read from a table, those of a model; by default all. Anything that is not a path is
    returned unchanged.
    """
    if _is_path(X):
        how = named_features(names, shard_files(X)[0], None, {})
        return open_many(X, **how) if is_many(X) else read(X, **how)
    if isinstance(X, (list, tuple)) and X and all(_is_path(one) for one in X):
        return open_shards(X, **named_features(names, X[0], None, {}))
    return X


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection; does not import Dask."""
    return hasattr(X, "__dask_graph__")


def _is_path(X: Any) -> bool:
    return isinstance(X, (str, os.PathLike))
