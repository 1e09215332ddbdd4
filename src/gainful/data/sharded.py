"""``ShardedData``: ranking data in blocks of whole queries that need not be in memory together.

The blocks may be mapped from files, read from a folder of shards, or be on the workers of a cluster.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gainful.data.blocks import Blocks, Task
from gainful.data.categories import named_by_words
from gainful.data.dataset import Dataset, RankingData
from gainful.data.frames import without_codes
from gainful.data.rows import Array, FeatureFacts, first_duplicate, join_optional
from gainful.errors import DataError, option, shorten, wording


class TextInBlocksError(DataError):
    """A feature holds text, whose words are known only once all blocks are read."""


@dataclass(frozen=True)
class BlockFacts:
    """What is known about a block without reading it again."""

    n_rows: int
    n_features: int
    feature_names: tuple[str, ...] | None
    query_ids: Array
    longest: int
    longest_query: Any
    lowest_grade: float
    highest_grade: float
    query_weights: Array | None
    dtype: str
    is_sparse: bool
    has_document_weights: bool = False
    has_init_scores: bool = False
    has_pairs: bool = False
    has_positions: bool = False
    has_propensities: bool = False

    @classmethod
    def of(cls, data: RankingData) -> BlockFacts:
        if data.categories is not None:
            name = (data.feature_names or ())[named_by_words(data.categories)[0]]
            one = wording("read the files into one with gainful.read(FOLDER)", "join the files into one")
            rest = option("features")
            raise TextInBlocksError(
                f"feature {name!r} holds text, which data in several blocks cannot; {one}, encode the feature as "
                f"numbers, or name the other features with {rest}"
            )
        return cls(
            data.n_rows,
            data.n_features,
            data.feature_names,
            np.array(data.query_ids),
            data.longest,
            data.longest_query,
            float(data.y.min()),
            float(data.y.max()),
            None if data.query_weights is None else np.array(data.query_weights),
            str(data.X.dtype),
            data.is_sparse,
            data.has_document_weights,
            data.has_init_scores,
            data.has_pairs,
            data.has_positions,
            data.has_propensities,
        )


class ShardedData(Dataset):
    """Blocks of whole queries. Open a folder of shards with :func:`gainful.open_shards`.

    ``names`` identify the blocks in errors. ``blocks`` decides where tasks run.
    """

    def __init__(self, blocks: Blocks, names: Sequence[str] | None = None, facts: Sequence[BlockFacts] | None = None):
        self._source = blocks
        self.facts: tuple[BlockFacts, ...] = tuple(self.map(BlockFacts.of) if facts is None else facts)
        self.names = tuple(names) if names is not None else tuple(f"block {i}" for i in range(len(self.facts)))
        self._check()

    def _check(self) -> None:
        first = self.facts[0]
        for name, one in zip(self.names, self.facts, strict=True):
            if one.n_features != first.n_features:
                raise DataError(
                    f"{name} has {one.n_features} features, {self.names[0]} has {first.n_features}; all shards need "
                    "the same features (gainful data convert ensures this)"
                )
            if one.feature_names != first.feature_names:
                raise DataError(f"{name} has different feature names than {self.names[0]}")
            if one.has_pairs != first.has_pairs:
                have, lack = (name, self.names[0]) if one.has_pairs else (self.names[0], name)
                raise DataError(f"{have} has preferences and {lack} has grades; give all shards the same")
            for column in ("positions", "propensities"):
                if getattr(one, f"has_{column}") != getattr(first, f"has_{column}"):
                    raise DataError(f"of {name} and {self.names[0]}, only one has {column}; give all shards the same")
            if one.is_sparse != first.is_sparse or one.dtype != first.dtype:
                raise DataError(f"{name} stores its features differently from {self.names[0]}; convert both alike")
        if self.total_weight == 0:
            where = self.names[0] if len(self.names) == 1 else f"{self.names[0]} to {self.names[-1]}"
            raise DataError(f"all queries have weight 0 ({where}); at least one needs a positive weight")
        if len(self.facts) == 1:
            return
        twice = first_duplicate(np.concatenate([one.query_ids for one in self.facts]))
        if twice is not None:
            places = [name for name, one in zip(self.names, self.facts, strict=True) if (one.query_ids == twice).any()]
            raise DataError(
                f"query {shorten(twice)} has rows in {' and '.join(places[:2])}; a query must not be split: gainful "
                "data convert FOLDER NEW --shard-rows N puts its rows together"
            )

    @property
    def source(self) -> Blocks:
        return self._source

    # -- shape ---------------------------------------------------------------------------------------------------------

    @cached_property
    def n_rows(self) -> int:
        return sum(one.n_rows for one in self.facts)

    @cached_property
    def n_queries(self) -> int:
        return sum(len(one.query_ids) for one in self.facts)

    @property
    def n_features(self) -> int:
        return self.facts[0].n_features

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        return self.facts[0].feature_names

    @property
    def categories(self) -> None:
        """None: blocks with features of text are refused."""

    @property
    def is_sparse(self) -> bool:
        return self.facts[0].is_sparse

    @property
    def longest(self) -> int:
        """Number of documents of the longest query."""
        return max(one.longest for one in self.facts)

    @property
    def longest_query(self) -> Any:
        return max(self.facts, key=lambda one: one.longest).longest_query

    @property
    def lowest_grade(self) -> float:
        return min(one.lowest_grade for one in self.facts)

    @property
    def highest_grade(self) -> float:
        return max(one.highest_grade for one in self.facts)

    @cached_property
    def query_ids(self) -> Array:
        return np.concatenate([one.query_ids for one in self.facts])

    @cached_property
    def query_weights(self) -> Array | None:
        """The weight of each query, or None if all count the same."""
        return join_optional([one.query_weights for one in self.facts], self.queries_by_block, 1.0)

    @property
    def has_document_weights(self) -> bool:
        """Whether documents of one query have different weights."""
        return any(one.has_document_weights for one in self.facts)

    @property
    def has_init_scores(self) -> bool:
        """Whether training starts from given scores."""
        return any(one.has_init_scores for one in self.facts)

    @property
    def has_pairs(self) -> bool:
        """Whether the data has preferences instead of grades."""
        return self.facts[0].has_pairs

    @property
    def has_positions(self) -> bool:
        """Whether it is known where each document was shown."""
        return self.facts[0].has_positions

    @property
    def has_propensities(self) -> bool:
        """Whether it is known with what probability each document was examined."""
        return self.facts[0].has_propensities

    @cached_property
    def feature_facts(self) -> FeatureFacts:
        """What one pass over the feature values finds; an infinite value is an error."""
        found = self.map(_feature_facts, self.first_rows)
        too_large = next((one.too_large for one in found if one.too_large is not None), None)
        return FeatureFacts(any(one.has_missing for one in found), too_large, sum(one.squares for one in found))

    # -- blocks --------------------------------------------------------------------------------------------------------

    @property
    def whole(self) -> RankingData | None:
        """The only block, if there is just one and it is in this process."""
        return self.source.data.parts[0] if self.is_local and self.n_blocks == 1 else None

    @property
    def queries_by_block(self) -> tuple[int, ...]:
        return tuple(len(one.query_ids) for one in self.facts)

    @property
    def rows_by_block(self) -> tuple[int, ...]:
        return tuple(one.n_rows for one in self.facts)

    def without_codes(self) -> ShardedData:
        """The same data with uint8 and uint16 as float32, for rankers that compute with numbers."""
        if self.facts[0].dtype not in ("uint8", "uint16"):
            return self
        source: Any = copy.copy(self.source)
        source.data = self.map_resident(_without_codes)
        return ShardedData(source, self.names, [replace(one, dtype="float32") for one in self.facts])

    def __repr__(self) -> str:
        return (
            f"ShardedData({self.n_blocks:,} blocks, {self.n_queries:,} queries, {self.n_rows:,} documents, "
            f"{self.n_features:,} features)"
        )


def map_blocks(data: Dataset, task: Task, *arguments: Any) -> Dataset:
    """The data with every block replaced by ``task(block, *arguments)``, where it is."""
    if data.whole is not None:
        replaced: RankingData = task(data.whole, *arguments)
        return replaced
    source: Any = copy.copy(data.source)
    source.data = data.map_resident(task, *arguments)
    return ShardedData(source, getattr(data, "names", None))


# -- tasks -------------------------------------------------------------------------------------------------------------


def _feature_facts(data: RankingData, first_row: int) -> FeatureFacts:
    facts = data.feature_facts
    if facts.too_large is None:
        return facts
    row, column, value = facts.too_large
    return replace(facts, too_large=(first_row + row, column, value))


def _without_codes(data: RankingData) -> RankingData:
    return data.replace(X=without_codes(data.X))
