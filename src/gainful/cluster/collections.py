"""Dask arrays and frames as ranking data: every partition is a block on the worker that computed it.

Nothing is computed in this process: the partitions stay on the cluster, and Dask can rebuild each from its graph.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import dask
import dask.array as da
import numpy as np

from gainful.cluster.blocks import DaskBlocks, gather
from gainful.cluster.clients import current_client, first_line
from gainful.data.dataset import RankingData
from gainful.data.frames import as_features, select_columns
from gainful.data.rows import Array, first_duplicate
from gainful.data.sharded import BlockFacts, ShardedData
from gainful.errors import DataError, GainfulError, ParameterError

GRADE, QUERY, WEIGHT, PLACE = "gainful:grade", "gainful:qid", "gainful:weight", "gainful:place"
POSITION, PROPENSITY = "gainful:position", "gainful:propensity"

CALLED = {
    GRADE: "y", QUERY: "qid", WEIGHT: "sample_weight", POSITION: "position", PROPENSITY: "propensity"
}  # fmt: skip


class ShuffledWarning(UserWarning):
    """Rows were moved between partitions, so that each query is in one partition."""


def is_collection(X: Any) -> bool:
    """Whether X is a Dask array or frame."""
    return isinstance(X, da.Array) or _is_frame(X)


def _is_frame(X: Any) -> bool:
    return dask.is_dask_collection(X) and hasattr(X, "columns") and hasattr(X, "map_partitions")


def from_collections(
    X: Any,
    y: Any,
    qid: Any,
    sample_weight: Any = None,
    *,
    position: Any = None,
    propensity: Any = None,
    what: str = "X",
) -> ShardedData:
    """Ranking data from Dask arrays with the same rows, a frame and series, or a frame and its column names."""
    client = current_client()
    if y is None:
        raise DataError("y is missing; ranking needs the grade of every row")
    if qid is None:
        raise DataError("qid is missing; ranking needs the query id of every row, qid=…")
    columns = {"y": y, "qid": qid, "sample_weight": sample_weight, "position": position, "propensity": propensity}
    if _is_frame(X):
        return _from_frame(client, X, columns, what)
    if not isinstance(X, da.Array):
        raise DataError(f"{what} must be a Dask array or frame where y or qid is one, was {type(X).__name__}")
    return _from_arrays(client, X, columns, what)


# -- blocks ------------------------------------------------------------------------------------------------------------


def _load(client: Any, parts: Sequence[Any]) -> tuple[list[Any], list[BlockFacts], list[int]]:
    """The partitions that have rows: futures, facts, and partition numbers."""
    futures = client.compute(list(parts))
    facts = gather(client, client.map(_facts, futures, pure=False))
    kept = [i for i, one in enumerate(facts) if one is not None]
    if not kept:
        raise DataError("there are no rows; ranking data needs at least one query with one document")
    return [futures[i] for i in kept], [facts[i] for i in kept], kept


def _split_query(facts: Sequence[BlockFacts]) -> Any:
    """A query with rows in two blocks, or None."""
    return first_duplicate(np.concatenate([one.query_ids for one in facts])) if len(facts) > 1 else None


def _make_sharded(
    client: Any, futures: list[Any], facts: list[BlockFacts], numbers: list[int], what: str
) -> ShardedData:
    return ShardedData(DaskBlocks(client, futures), [f"partition {i} of {what}" for i in numbers], facts)


def _facts(block: RankingData | None) -> BlockFacts | None:
    return None if block is None else BlockFacts.of(block)


# -- arrays ------------------------------------------------------------------------------------------------------------


def _from_arrays(client: Any, X: Any, columns: dict[str, Any], what: str) -> ShardedData:
    if X.ndim != 2:
        raise DataError(f"{what} must have two dimensions (rows, features), had {X.ndim}")
    X = _whole_rows(X)
    columns = {name: _align(column, X, name) for name, column in columns.items() if column is not None}
    futures, facts, numbers = _load(client, _array_parts(X, columns, what))
    if _split_query(facts) is not None:
        lengths = _lengths(facts, numbers, X.numblocks[0])
        X, columns = (
            _with_lengths(X, lengths),
            {name: _with_lengths(column, lengths) for name, column in columns.items()},
        )
        ends = _query_ends(client, X, columns["qid"])
        if ends != X.chunks[0]:
            del futures
            X = X.rechunk({0: ends})
            columns = {name: column.rechunk((ends,)) for name, column in columns.items()}
            futures, facts, numbers = _load(client, _array_parts(X, columns, what))
    split = _split_query(facts)
    if split is not None:
        places = [i for i, one in zip(numbers, facts, strict=True) if (one.query_ids == split).any()]
        raise DataError(
            f"query {split!r} has rows in chunks {places[0]} and {places[1]} of {what}; a query must not be split: "
            "sort the rows by qid, or give a Dask frame, whose rows gainful moves by qid"
        )
    return _make_sharded(client, futures, facts, numbers, what)


def _lengths(facts: Sequence[BlockFacts], numbers: Sequence[int], count: int) -> tuple[int, ...]:
    """The number of rows of every chunk, empty ones included."""
    rows = dict(zip(numbers, (one.n_rows for one in facts), strict=True))
    return tuple(rows.get(i, 0) for i in range(count))


def _with_lengths(array: Any, lengths: tuple[int, ...]) -> Any:
    """The array with these chunk lengths: an array made from a frame does not know its own."""
    if array.chunks[0] == lengths:
        return array
    return da.Array(array.dask, array.name, (lengths, *array.chunks[1:]), dtype=array.dtype, meta=array._meta)


def _whole_rows(X: Any) -> Any:
    """X with all columns of a row in one chunk."""
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def _align(column: Any, X: Any, name: str) -> Any:
    """One value per row, in the chunks of X."""
    if _is_frame(column) or hasattr(column, "to_dask_array"):
        column = column.to_dask_array()
    if not isinstance(column, da.Array):
        if np.isnan(X.chunks[0]).any():
            raise DataError(
                f"{name} must be a Dask array with the chunks of X, whose lengths are not known; or call "
                "X.compute_chunk_sizes() first"
            )
        column = np.asarray(column)
        if column.shape != X.shape[:1]:
            raise DataError(f"{name} must have one value per row ({X.shape[0]}), had shape {column.shape}")
        return da.from_array(column, chunks=(X.chunks[0],))
    if column.ndim != 1:
        raise DataError(f"{name} must have one dimension, had {column.ndim}")
    unknown = np.isnan(X.chunks[0]).any() or np.isnan(column.chunks[0]).any()
    if unknown and column.numblocks[0] != X.numblocks[0]:
        raise DataError(
            f"{name} has {column.numblocks[0]} chunks, X has {X.numblocks[0]}, and their lengths are not known; call "
            "compute_chunk_sizes() on both, or cut them alike"
        )
    if unknown or column.chunks[0] == X.chunks[0]:
        return column
    if column.shape != X.shape[:1]:
        raise DataError(f"{name} has {column.shape[0]} values for {X.shape[0]} rows")
    return column.rechunk((X.chunks[0],))


def _array_parts(X: Any, columns: dict[str, Any], what: str) -> list[Any]:
    rows = dask.delayed(_rows, pure=False)
    cut = {name: column.to_delayed(optimize_graph=False) for name, column in columns.items()}
    return [
        rows(
            f"chunk {i} of {what}",
            block,
            **{name: column[i] for name, column in cut.items()},
        )
        for i, block in enumerate(X.to_delayed(optimize_graph=False)[:, 0])
    ]


def _query_ends(client: Any, X: Any, qid: Any) -> tuple[int, ...]:
    """Chunk lengths close to the current ones, such that every chunk ends at the end of a query."""
    edges = gather(client, client.map(_edges, client.compute(list(qid.to_delayed(optimize_graph=False))), pure=False))
    lengths = list(X.chunks[0])
    last: Any = None
    at = -1  # the chunk whose last query may continue in the next one
    for i, edge in enumerate(edges):
        if edge is None:
            continue
        first, leading, end = edge
        if at >= 0 and first == last:
            lengths[at] += leading
            lengths[i] -= leading
        if lengths[i] > 0:
            at = i
        last = end
    return tuple(length for length in lengths if length > 0)


def _edges(qid: Any) -> tuple[Any, int, Any] | None:
    """The first query of a chunk, its number of leading rows, and the last query."""
    ids = np.asarray(qid)
    if not len(ids):
        return None
    other = np.flatnonzero(ids != ids[0])
    return ids[0], int(other[0]) if len(other) else len(ids), ids[-1]


def _rows(name: str, X: Any, **columns: Any) -> RankingData | None:
    """A partition as a block; None if it is empty."""
    if not X.shape[0]:
        return None
    for column, values in columns.items():
        if len(values) != X.shape[0]:
            raise DataError(
                f"{name}: {column} has {len(values)} values for {X.shape[0]} rows; call compute_chunk_sizes() on X, y "
                "and qid, so that they can be cut alike"
            )
    try:
        return RankingData.from_rows(X, **columns)
    except DataError as error:
        raise DataError(f"{name}: {error}") from None


# -- frames ------------------------------------------------------------------------------------------------------------


def _from_frame(client: Any, X: Any, columns: dict[str, Any], what: str) -> ShardedData:
    frame, names = _one_frame(X, {role: columns[name] for role, name in CALLED.items()}, what)
    features = [name for name in frame.columns if name not in names.values()]
    as_features(frame._meta[features], what)  # raises for columns that are not numeric before anything is computed
    try:
        futures, facts, numbers = _load(client, _frame_parts(frame, names, features, what))
    except ValueError as error:
        if isinstance(error, GainfulError):
            raise
        raise DataError(
            f"y and qid cannot be joined to {what} by their index: {first_line(error)}; put them into one frame and "
            "give the names of the columns"
        ) from error
    if _split_query(facts) is not None:
        n_split = len(_ids_in_several(facts))
        del futures
        warnings.warn(
            f"{n_split:,} queries have rows in several partitions of {what}; rows are moved so that each query is in "
            "one (partition the frame by qid to avoid this)",
            ShuffledWarning,
            stacklevel=5,
        )
        meta = frame._meta.assign(**{PLACE: np.int64(0)})
        numbered = frame.map_partitions(_number_rows, meta=meta)
        moved = numbered.shuffle(on=names[QUERY])
        futures, facts, numbers = _load(client, _frame_parts(moved, names | {PLACE: PLACE}, features, what))
    return _make_sharded(client, futures, facts, numbers, what)


def _one_frame(X: Any, columns: dict[str, Any], what: str) -> tuple[Any, dict[str, str]]:
    """One frame with all columns, and its names of the grade, query and weight columns."""
    columns = {role: column for role, column in columns.items() if column is not None}
    names = {role: column if isinstance(column, str) else role for role, column in columns.items()}
    for column in columns.values():
        if isinstance(column, str) and column not in X.columns:
            raise DataError(f"{what} has no column {column!r}; its columns are {', '.join(map(str, X.columns))}")
    given = {role: column for role, column in columns.items() if not isinstance(column, str)}
    for role, column in given.items():
        if not (dask.is_dask_collection(column) and hasattr(column, "map_partitions")):
            expected = f"a Dask series beside {what}, or the name of a column"
            raise ParameterError.of("fit", CALLED[role], expected, type(column))
    return (_join(X, given, what) if given else X), names


def _join(X: Any, given: dict[str, Any], what: str) -> Any:
    """The frame with these columns: row by row if the numbers of partitions agree, else by the index."""
    if all(column.npartitions == X.npartitions for column in given.values()):
        meta = X._meta.assign(**{role: column._meta.to_numpy() for role, column in given.items()})
        return X.map_partitions(
            _add_columns, *given.values(), roles=tuple(given), what=what, meta=meta, align_dataframes=False
        )
    odd = next(role for role, column in given.items() if column.npartitions != X.npartitions)
    counts = f"{CALLED[odd]} has {given[odd].npartitions} partitions, {what} has {X.npartitions}"
    if not all(one.known_divisions for one in (X, *given.values())):
        raise DataError(f"{counts}; cut them alike, or put them into one frame and give the names of the columns")
    return X.assign(**given)


def _add_columns(part: Any, *columns: Any, roles: tuple[str, ...], what: str) -> Any:
    for role, column in zip(roles, columns, strict=True):
        if len(column) != len(part):
            raise DataError(
                f"{CALLED[role]} has {len(column)} values in a partition where {what} has {len(part)} rows; cut them "
                "alike, or put them into one frame and give the names of the columns"
            )
    return part.assign(**{role: column.to_numpy() for role, column in zip(roles, columns, strict=True)})


def _frame_parts(frame: Any, names: dict[str, str], features: list[str], what: str) -> list[Any]:
    rows = dask.delayed(_rows_from_frame, pure=False)
    return [rows(f"partition {i} of {what}", part, names, features) for i, part in enumerate(frame.to_delayed())]


def _rows_from_frame(name: str, part: Any, names: dict[str, str], features: list[str]) -> RankingData | None:
    if PLACE in names:
        part = part.sort_values(names[PLACE], kind="stable")
    absent = [column for column in (*names.values(), *features) if column not in part.columns]
    if absent:
        raise DataError(f"{name} has no column {absent[0]!r}, which other partitions have")
    return _rows(name, part[features], **{CALLED[role]: part[names[role]] for role in names if role in CALLED})


def _number_rows(part: Any, partition_info: Any = None) -> Any:
    """The rows with their positions, so that the rows of a query can be put back into their original order."""
    number = 0 if partition_info is None else int(partition_info["number"])
    return part.assign(**{PLACE: (number << 40) + np.arange(len(part), dtype=np.int64)})


def _ids_in_several(facts: Sequence[BlockFacts]) -> set[Any]:
    seen: set[Any] = set()
    several: set[Any] = set()
    for one in facts:
        ids = set(one.query_ids.tolist())
        several |= seen & ids
        seen |= ids
    return several


# -- prediction --------------------------------------------------------------------------------------------------------


def predict_lazily(model: Any, X: Any) -> Any:
    """The scores of a Dask array or frame, as a Dask array with the same chunks; computed on demand."""
    if isinstance(X, da.Array):
        X = _whole_rows(X)
        model._check_columns(X.shape[1], None)
        lengths, parts = X.chunks[0], X.to_delayed(optimize_graph=False)[:, 0]
    else:
        X = select_columns(X, model._trained_names(), "X", model._use_of_features())
        model._check_columns(len(X.columns), tuple(str(name) for name in X.columns))
        parts = X.to_delayed()
        lengths = (np.nan,) * len(parts)
    held = dask.delayed(model, traverse=False, pure=False)
    score = dask.delayed(_scores, pure=False)
    scores = [
        da.from_delayed(score(held, part), shape=(n,), dtype=np.float64) for n, part in zip(lengths, parts, strict=True)
    ]
    return da.concatenate(scores, allow_unknown_chunksizes=True)


def _scores(model: Any, part: Any) -> Array:
    scores: Array = model.predict(part) if part.shape[0] else np.empty(0)
    return scores
