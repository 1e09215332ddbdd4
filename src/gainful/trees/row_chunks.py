"""Local blocks as one data set: columns are joined, the feature matrix stays in its chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gainful.data.blocks import LocalBlocks
from gainful.data.dataset import Dataset, RankingData, join_columns
from gainful.data.pairs import join_pairs
from gainful.data.rows import Array, join_optional
from gainful.data.sharded import ShardedData


class ChunkedMatrix:
    """A dense feature matrix (n_rows, n_features) stored as several arrays, one below the other."""

    def __init__(self, chunks: Sequence[Array]):
        self.chunks = tuple(chunks)
        self.ends = np.cumsum([len(chunk) for chunk in self.chunks])
        self.shape = (int(self.ends[-1]), int(self.chunks[0].shape[1]))
        self.dtype = self.chunks[0].dtype

    def __getitem__(self, rows: Array) -> Array:
        """Some rows, by number."""
        place = np.searchsorted(self.ends, rows, side="right")
        taken = np.empty((len(rows), self.shape[1]), dtype=self.dtype)
        for i, chunk in enumerate(self.chunks):
            here = place == i
            taken[here] = chunk[rows[here] - (self.ends[i] - len(chunk))]
        return taken


def chunks_of(X: Any) -> tuple[Any, ...]:
    """The chunks of X: X itself unless it is a ChunkedMatrix."""
    return X.chunks if isinstance(X, ChunkedMatrix) else (X,)


def distinct(X: Any, j: int) -> Array:
    """The values of feature j of a dense matrix, in order."""
    return np.unique(np.concatenate([np.unique(chunk[:, j]) for chunk in chunks_of(X)]))


def join_blocks(data: Dataset) -> RankingData:
    """The data of local blocks as one. Grades, queries and ids are joined in memory; so is a sparse matrix."""
    blocks = list(data.blocks())
    if len(blocks) == 1:
        return blocks[0]
    rows = [block.n_rows for block in blocks]
    starts = np.cumsum([0, *rows])
    return RankingData._build_unchecked(
        X=_stack([block.X for block in blocks]),
        y=np.concatenate([block.y for block in blocks]),
        offsets=np.concatenate([[0], *(block.offsets[1:] + s for block, s in zip(blocks, starts, strict=False))]),
        query_ids=data.query_ids,
        feature_names=data.feature_names,
        query_weights=data.query_weights,
        document_weights=_join_document_weights(blocks),
        pairs=join_pairs([block.pairs for block in blocks], rows),
        **join_columns(blocks),
    )


def _join_document_weights(blocks: Sequence[RankingData]) -> Array | None:
    return join_optional([block.document_weights for block in blocks], [block.n_rows for block in blocks], 1.0)


def _stack(chunks: list[Any]) -> Any:
    if isinstance(chunks[0], np.ndarray):
        return ChunkedMatrix(chunks)
    from scipy import sparse

    return sparse.vstack(chunks, format="csr")


def in_chunks(data: Dataset) -> Dataset:
    """The data as blocks again, one per chunk."""
    if not isinstance(data, RankingData) or not isinstance(data.X, ChunkedMatrix):
        return data
    cuts = np.searchsorted(data.offsets, np.concatenate([[0], data.X.ends]))
    return ShardedData(LocalBlocks([_block_of_chunk(data, i, *cuts[i : i + 2]) for i in range(len(data.X.chunks))]))


def _block_of_chunk(data: RankingData, i: int, first: int, last: int) -> RankingData:
    weights = data.query_weights
    rows = slice(int(data.offsets[first]), int(data.offsets[last]))
    return RankingData._build_unchecked(
        X=data.X.chunks[i],
        y=data.y[rows],
        offsets=data.offsets[first : last + 1] - data.offsets[first],
        query_ids=data.query_ids[first:last],
        feature_names=data.feature_names,
        query_weights=None if weights is None else weights[first:last],
        **data.columns_of_rows(rows),
        pairs=None if data.pairs is None else data.pairs.take(np.arange(first, last), data.offsets),
    )
