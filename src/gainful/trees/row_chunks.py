"""Data in blocks, seen as one: what is as long as the rows is joined, the feature matrix stays in its chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gainful.data.blocks import LocalBlocks
from gainful.data.dataset import Dataset, RankingData
from gainful.data.rows import Array
from gainful.data.sharded import ShardedData


class ChunkedMatrix:
    """A dense feature matrix (n_rows, n_features) in several arrays, one under the other, that stay apart."""

    def __init__(self, parts: Sequence[Array]):
        self.parts = tuple(parts)
        self.ends = np.cumsum([len(part) for part in self.parts])
        self.shape = (int(self.ends[-1]), int(self.parts[0].shape[1]))
        self.dtype = self.parts[0].dtype

    def __getitem__(self, rows: Array) -> Array:
        """Some rows, by number."""
        place = np.searchsorted(self.ends, rows, side="right")
        taken = np.empty((len(rows), self.shape[1]), dtype=self.dtype)
        for i, part in enumerate(self.parts):
            here = place == i
            taken[here] = part[rows[here] - (self.ends[i] - len(part))]
        return taken


def chunks_of(X: Any) -> tuple[Any, ...]:
    """The parts of X: itself, unless it is in pieces."""
    return X.parts if isinstance(X, ChunkedMatrix) else (X,)


def distinct(X: Any, j: int) -> Array:
    """The values of feature j of a dense matrix, in order."""
    return np.unique(np.concatenate([np.unique(part[:, j]) for part in chunks_of(X)]))


def join_blocks(data: Dataset) -> RankingData:
    """The data of local blocks as one. Grades, queries and ids are joined in memory; so is a sparse matrix."""
    blocks = list(data.blocks())
    if len(blocks) == 1:
        return blocks[0]
    starts = np.cumsum([0] + [block.n_rows for block in blocks])
    return RankingData.trusted(
        X=_stacked([block.X for block in blocks]),
        y=np.concatenate([block.y for block in blocks]),
        offsets=np.concatenate([[0], *(block.offsets[1:] + s for block, s in zip(blocks, starts, strict=False))]),
        query_ids=data.query_ids,
        feature_names=data.feature_names,
        query_weights=data.query_weights,
    )


def _stacked(parts: list[Any]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return ChunkedMatrix(parts)
    from scipy import sparse

    return sparse.vstack(parts, format="csr")


def in_chunks(data: Dataset) -> Dataset:
    """The data as blocks again: one for each piece."""
    if not isinstance(data, RankingData) or not isinstance(data.X, ChunkedMatrix):
        return data
    cuts = np.searchsorted(data.offsets, np.concatenate([[0], data.X.ends]))
    return ShardedData(LocalBlocks([_piece(data, i, *cuts[i : i + 2]) for i in range(len(data.X.parts))]))


def _piece(data: RankingData, i: int, first: int, last: int) -> RankingData:
    weights = data.query_weights
    return RankingData.trusted(
        X=data.X.parts[i],
        y=data.y[data.offsets[first] : data.offsets[last]],
        offsets=data.offsets[first : last + 1] - data.offsets[first],
        query_ids=data.query_ids[first:last],
        feature_names=data.feature_names,
        query_weights=None if weights is None else weights[first:last],
    )
