"""``RankingData``: queries with their documents, in memory or mapped. ``Dataset``: the interface of all data.

Rankers, metrics and checks take a :class:`Dataset`: blocks of whole queries, wherever they are. A :class:`RankingData`
is a dataset of one block (several if it is mapped from a long file); :class:`~gainful.data.sharded.ShardedData` has
many.

Conventions of RankingData
--------------------------
Rows of one query are adjacent. Query ``q`` owns the rows ``offsets[q]:offsets[q + 1]``.

======================  ============================  ==========================================================
``X``                   (n_rows, n_features)          C-contiguous float32/float64, or CSR; NaN means missing;
                                                      or uint8/uint16 codes of bins
``y``                   (n_rows,) float64             grades, finite and ≥ 0
``offsets``             (n_queries + 1,) int64        starts at 0, strictly increasing
``query_ids``           (n_queries,)                  distinct, in order of first appearance
``doc_ids``             (n_rows,) or None
``feature_names``       n_features strings or None
``query_weights``       (n_queries,) float64 or None  finite and ≥ 0, not all 0
``document_weights``    (n_rows,) float64 or None     finite and ≥ 0; ratios within a query count; None if all are 1
``init_scores``         (n_rows,) float64 or None     finite; the scores that training starts from
``positions``           (n_rows,) int64 or None       where each document was shown, from 1; 0 if it was not shown.
                                                      The grades are clicks then
``propensities``        (n_rows,) float64 or None     probability that each document was examined, in (0, 1]. The
                                                      grades are clicks then
``click_weights``       (n_rows,) float64 or None     clicks over propensities, made by training: document i is the
                                                      relevant one of a list that counts ``click_weights[i]``
``rival_weights``       (n_rows,) float64 or None     weight of each document in the lists where another is relevant
``pairs``               PreferredPairs or None        preferences between documents; all grades are 0 then
``input_order``         (n_rows,) int64 or None       input position of each row; None if no row moved
``categories``          n_features entries or None    the words of features that hold text, see
                                                      :mod:`gainful.data.categories`
======================  ============================  ==========================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from gainful.data.blocks import Blocks, LocalBlocks, PerBlock, Task, in_blocks
from gainful.data.categories import Categories, join_categories, recode
from gainful.data.describe import Description, describe, html_of
from gainful.data.frames import column_to_numpy, features_of, refuse_dask, without_codes
from gainful.data.pairs import PreferredPairs, check_pairs, join_pairs, refuse_pairs_of_others
from gainful.data.rows import (
    Array,
    FeatureFacts,
    as_id_array,
    check_doc_ids,
    check_grades,
    check_init_scores,
    check_names,
    check_positions,
    check_propensities,
    check_query_weights,
    check_row_weights,
    first_duplicate,
    group_rows,
    is_rising,
    join_optional,
    query_of_rows,
    read_only,
    refuse_empty,
    relative_weights,
    rows_of_queries,
    scan_features,
    split_weights,
    stack_matrices,
)
from gainful.errors import DataError, shorten


class Dataset(ABC):
    """Ranking data as blocks of whole queries. Code that works through this interface works on any of them."""

    @property
    @abstractmethod
    def source(self) -> Blocks:
        """The blocks, which run tasks where the data is."""

    @property
    @abstractmethod
    def n_rows(self) -> int: ...

    @property
    @abstractmethod
    def n_queries(self) -> int: ...

    @property
    @abstractmethod
    def n_features(self) -> int: ...

    @property
    @abstractmethod
    def is_sparse(self) -> bool: ...

    @property
    @abstractmethod
    def longest(self) -> int:
        """Number of documents of the longest query."""

    @property
    @abstractmethod
    def longest_query(self) -> Any:
        """The id of that query."""

    @property
    @abstractmethod
    def lowest_grade(self) -> float: ...

    @property
    @abstractmethod
    def highest_grade(self) -> float: ...

    @property
    @abstractmethod
    def feature_facts(self) -> FeatureFacts:
        """What one pass over the feature values finds; an infinite value is an error."""

    @property
    @abstractmethod
    def whole(self) -> RankingData | None:
        """All of it as one RankingData, if it is one."""

    @abstractmethod
    def without_codes(self) -> Self:
        """The same data with uint8 and uint16 as float32, for rankers that compute with numbers."""

    if TYPE_CHECKING:  # attributes of one kind of dataset, properties of another

        @property
        def feature_names(self) -> tuple[str, ...] | None: ...
        @property
        def query_ids(self) -> Array: ...
        @property
        def query_weights(self) -> Array | None: ...  # one per query, or None if all count the same
        @property
        def has_document_weights(self) -> bool: ...
        @property
        def has_init_scores(self) -> bool: ...
        @property
        def has_pairs(self) -> bool: ...
        @property
        def has_positions(self) -> bool: ...
        @property
        def has_propensities(self) -> bool: ...
        @property
        def categories(self) -> Categories | None: ...

    # -- what follows from the above -----------------------------------------------------------------------------------

    @property
    def has_clicks(self) -> bool:
        """Whether the grades are clicks on documents that were shown somewhere."""
        return self.has_positions or self.has_propensities

    @property
    def has_missing(self) -> bool:
        """Whether any feature value is NaN."""
        return self.feature_facts.has_missing

    def __len__(self) -> int:
        """The number of queries."""
        return self.n_queries

    @property
    def total_weight(self) -> float:
        """The sum of the query weights; without weights each query counts 1."""
        return float(self.n_queries) if self.query_weights is None else float(self.query_weights.sum())

    @property
    def is_local(self) -> bool:
        """Whether the blocks are in this process."""
        return isinstance(self.source, LocalBlocks)

    @property
    def n_blocks(self) -> int:
        return len(self.source.data.parts)

    @property
    def queries_by_block(self) -> tuple[int, ...]:
        return tuple(block.n_queries for block in self.source.data.parts)

    @property
    def rows_by_block(self) -> tuple[int, ...]:
        return tuple(block.n_rows for block in self.source.data.parts)

    @property
    def first_rows(self) -> PerBlock:
        """The index of each block's first row, counted over all blocks."""
        return PerBlock(tuple(accumulate(self.rows_by_block[:-1], initial=0)))

    def map(self, task: Task, *arguments: Any) -> list[Any]:
        """The results of ``task(block, *arguments)``, one per block."""
        return self.source.map(task, self.source.data, *arguments)

    def map_resident(self, task: Task, *arguments: Any) -> PerBlock:
        """The same, with each result left where its block is."""
        return self.source.map_resident(task, self.source.data, *arguments)

    def blocks(self) -> Iterator[RankingData]:
        """The data of each block. Blocks on a cluster are fetched one by one."""
        for part in self.source.data.parts:
            yield part if self.is_local else self.source.map(_itself, PerBlock((part,)))[0]


@dataclass(frozen=True, eq=False, repr=False)
class RankingData(Dataset):
    """Query-document feature vectors with graded relevance, grouped by query and read-only.

    Build it with :meth:`from_rows` (one query id per row, any order) or :func:`gainful.read`. The constructor itself
    takes rows that are already grouped. Instead of grades the data may have preferences, ``pairs``.
    """

    X: Any
    y: Array
    offsets: Array
    query_ids: Array
    doc_ids: Array | None = None
    feature_names: tuple[str, ...] | None = None
    query_weights: Array | None = None
    input_order: Array | None = None
    categories: Categories | None = None
    document_weights: Array | None = None
    init_scores: Array | None = None
    pairs: PreferredPairs | None = None
    positions: Array | None = None
    propensities: Array | None = None
    click_weights: Array | None = None
    rival_weights: Array | None = None

    def __post_init__(self) -> None:
        X, names, categories = features_of(self.X)
        n_rows, n_features = X.shape
        refuse_empty(X)
        y = _grades(self.y, self.pairs, n_rows)
        offsets = np.ascontiguousarray(self.offsets, dtype=np.int64)
        if offsets.ndim != 1 or len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != n_rows:
            raise DataError(f"offsets must run from 0 to the number of rows ({n_rows})")
        if not is_rising(offsets):
            raise DataError("offsets must increase strictly; a query has at least one document")
        query_ids = as_id_array(self.query_ids, "query_ids")
        if len(query_ids) != len(offsets) - 1:
            raise DataError(f"there are {len(query_ids)} query ids for {len(offsets) - 1} queries")
        twice = first_duplicate(query_ids)
        if twice is not None:
            raise DataError(f"query id {twice!r} is given twice; for rows in any order use RankingData.from_rows")
        facts = scan_features(X, order=self.input_order)
        query_weights, document_weights = self.query_weights, self.document_weights
        if document_weights is not None:
            rows = check_row_weights(document_weights, n_rows, what="document_weights")
            means, document_weights = split_weights(rows, offsets)
            query_weights = means if query_weights is None else query_weights
        self._fill(
            X=X,
            y=y,
            offsets=offsets,
            query_ids=query_ids,
            doc_ids=check_doc_ids(self.doc_ids, n_rows),
            feature_names=check_names(self.feature_names if self.feature_names is not None else names, n_features),
            query_weights=check_query_weights(query_weights, len(query_ids)),
            document_weights=document_weights,
            init_scores=check_init_scores(self.init_scores, n_rows),
            positions=check_positions(self.positions, n_rows, y),
            propensities=check_propensities(self.propensities, n_rows),
            click_weights=self.click_weights,
            rival_weights=self.rival_weights,
            input_order=self.input_order,
            categories=self.categories if self.categories is not None else categories,
            pairs=check_pairs(self.pairs, offsets, query_ids, self.input_order),
            feature_facts=facts,
        )

    @classmethod
    def from_rows(
        cls,
        X: Any,
        y: Any = None,
        qid: Any = None,
        *,
        group: Any = None,
        doc_ids: Any = None,
        feature_names: Sequence[str] | None = None,
        sample_weight: Any = None,
        init_score: Any = None,
        pairs: Any = None,
        position: Any = None,
        propensity: Any = None,
    ) -> RankingData:
        """Group rows by query. Rows of one query need not be adjacent; the order inside a query is kept.

        ``qid`` has the query id of each row. Instead, ``group`` may have the number of rows of each query, if rows of a
        query are adjacent; the queries are then 0, 1, …. ``sample_weight`` has one weight per row: their mean is the
        weight of the query, their ratios within the query are the weights of its documents. ``init_score`` has the
        score of each row that training starts from. Queries are in order of first appearance. :meth:`to_input_order`
        maps results back to input order.

        ``pairs``, instead of ``y``, has preferences: (better, worse) or (better, worse, weight) for each pair, where
        better and worse are row numbers of X, from 0, of one query; or a frame with these columns. Weights of a pair
        that occurs again are added.

        If ``y`` has clicks, ``position`` says where each document was shown, from 1 (0: it was not), and ``propensity``
        with what probability it was examined. Training then corrects for it.
        """
        columns = {"y": y, "qid": qid, "group": group, "doc_ids": doc_ids, "sample_weight": sample_weight}
        columns |= {"init_score": init_score, "position": position, "propensity": propensity}
        for what, given in columns.items():
            refuse_dask(given, what)
        X, names, categories = features_of(X)
        n_rows = X.shape[0]
        refuse_empty(X)
        grades = _grades(y, pairs, n_rows)
        order, offsets, query_ids = group_rows(query_of_rows(qid, group, n_rows), n_rows)
        ids = check_doc_ids(doc_ids, n_rows)
        weights = None if sample_weight is None else check_row_weights(sample_weight, n_rows)
        by_row = {
            "document_weights": weights,
            "init_scores": check_init_scores(init_score, n_rows),
            "positions": check_positions(position, n_rows, grades),
            "propensities": check_propensities(propensity, n_rows),
        }
        if order is not None:
            X, grades = X[order], grades[order]
            ids = None if ids is None else ids[order]
            by_row = {name: None if column is None else column[order] for name, column in by_row.items()}
        return cls(
            X=X,
            y=grades,
            offsets=offsets,
            query_ids=query_ids,
            doc_ids=ids,
            feature_names=feature_names if feature_names is not None else names,  # type: ignore[arg-type]
            input_order=order,
            categories=categories,
            pairs=pairs,
            **by_row,
        )

    @classmethod
    def _build_unchecked(cls, **fields: Any) -> RankingData:
        """Build without checks, from fields that are known to be valid (slices, gainful's own files)."""
        data = object.__new__(cls)
        data._fill(**(OPTIONAL_FIELDS | fields))
        return data

    def _fill(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, _read_only(value))

    # -- shape ---------------------------------------------------------------------------------------------------------

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    @property
    def n_queries(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def counts(self) -> Array:
        """Number of documents of each query, (n_queries,) int64."""
        return np.diff(self.offsets)

    @property
    def longest(self) -> int:
        """Number of documents of the longest query."""
        return int(self.counts.max())

    @property
    def longest_query(self) -> Any:
        return self.query_ids[int(np.argmax(self.counts))]

    @property
    def lowest_grade(self) -> float:
        return float(self.y.min())

    @property
    def highest_grade(self) -> float:
        return float(self.y.max())

    @cached_property
    def qid(self) -> Array:
        """The query id of each row, (n_rows,)."""
        return np.repeat(self.query_ids, self.counts)

    @property
    def row_weights(self) -> Array | None:
        """The weight of each row, (n_rows,): of its query times that of the document; None if all count the same."""
        if self.query_weights is None:
            return self.relative_weights
        if self.document_weights is not None:
            means, _ = split_weights(self.document_weights, self.offsets)
            if np.array_equal(means, self.query_weights):
                return self.document_weights  # not even rounded
        of_queries = np.repeat(self.query_weights, self.counts)
        return of_queries if self.relative_weights is None else of_queries * self.relative_weights

    @cached_property
    def relative_weights(self) -> Array | None:
        """The weight of each document within its query, (n_rows,), of mean 1 there; None if all count the same."""
        if self.document_weights is None:
            return None
        return read_only(relative_weights(self.document_weights, self.offsets))

    @property
    def has_document_weights(self) -> bool:
        """Whether documents of one query have different weights."""
        return self.document_weights is not None

    def first_mixed_query(self) -> Any:
        """The id of the first query whose documents have different weights, or None."""
        if self.relative_weights is None:
            return None
        row = int(np.argmax(self.relative_weights != 1.0))
        return self.query_ids[int(np.searchsorted(self.offsets, row, side="right")) - 1]

    @property
    def has_init_scores(self) -> bool:
        """Whether training starts from given scores."""
        return self.init_scores is not None

    @property
    def has_pairs(self) -> bool:
        """Whether the data has preferences instead of grades."""
        return self.pairs is not None

    @property
    def has_positions(self) -> bool:
        """Whether it is known where each document was shown."""
        return self.positions is not None

    @property
    def has_propensities(self) -> bool:
        """Whether it is known with what probability each document was examined."""
        return self.propensities is not None

    def columns_of_rows(self, rows: Any) -> dict[str, Array | None]:
        """The optional columns of numbers, for some rows."""
        found = {name: getattr(self, name) for name in ROW_COLUMNS}
        return {name: None if column is None else column[rows] for name, column in found.items()}

    def with_pairs(self, pairs: PreferredPairs) -> RankingData:
        """The same data with preferences instead of its grades."""
        return self.replace(y=np.zeros(self.n_rows), pairs=pairs)

    def add_init_scores(self, scores: Array) -> Array:
        """What ranks the documents: the scores of a model, one per row, added to the initial scores, if any."""
        return scores if self.init_scores is None else np.asarray(self.init_scores + scores)

    @property
    def is_sparse(self) -> bool:
        return not isinstance(self.X, np.ndarray)

    @cached_property
    def feature_facts(self) -> FeatureFacts:
        return scan_features(self.X, order=self.input_order)

    # -- as blocks -----------------------------------------------------------------------------------------------------

    @cached_property
    def source(self) -> LocalBlocks:
        return LocalBlocks(in_blocks(self))

    @property
    def whole(self) -> RankingData:
        return self

    def without_codes(self) -> RankingData:
        X = without_codes(self.X)
        return self if X is self.X else self.replace(X=X)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "source"}

    # -- rows back in input order --------------------------------------------------------------------------------------

    def input_row(self, row: int) -> int:
        """The input position of a row."""
        return row if self.input_order is None else int(self.input_order[row])

    def to_input_order(self, values: Any) -> Array:
        """Values, one per row of this data, put back into the input order of the rows."""
        values = np.asarray(column_to_numpy(values))
        if values.ndim == 0 or len(values) != self.n_rows:
            raise DataError(f"values must have one entry per row ({self.n_rows}), had shape {values.shape}")
        if self.input_order is None:
            return np.asarray(values)
        restored: Array = np.empty_like(values)
        restored[self.input_order] = values
        return restored

    # -- selection -----------------------------------------------------------------------------------------------------

    def __getitem__(self, queries: int | slice | Sequence[int] | Array) -> RankingData:
        """The data of some queries, by position: ``data[3]``, ``data[10:20]``, ``data[[4, 1]]``, ``data[mask]``.

        A slice with step 1 shares memory; anything else copies the rows it takes.
        """
        if isinstance(queries, slice) and queries.step in (None, 1):
            start, stop, _ = queries.indices(self.n_queries)
            rows: Any = slice(int(self.offsets[start]), int(self.offsets[max(start, stop)]))
            chosen = np.arange(start, max(start, stop))
        else:
            chosen = self._positions(queries)
            rows = rows_of_queries(self.offsets, chosen)
        if len(chosen) == 0:
            raise DataError("the selection has no queries")
        known = self.__dict__.get("feature_facts")
        return RankingData._build_unchecked(
            **({"feature_facts": FeatureFacts()} if known is not None and known.is_ordinary else {}),
            X=self.X[rows],
            y=self.y[rows],
            offsets=np.concatenate([[0], np.cumsum(self.counts[chosen])]).astype(np.int64),
            query_ids=self.query_ids[chosen],
            doc_ids=None if self.doc_ids is None else self.doc_ids[rows],
            feature_names=self.feature_names,
            query_weights=None if self.query_weights is None else self.query_weights[chosen],
            categories=self.categories,
            pairs=None if self.pairs is None else self.pairs.take(chosen, self.offsets),
            **self.columns_of_rows(rows),
        )

    def _positions(self, queries: Any) -> Array:
        if isinstance(queries, (int, np.integer)):
            queries = [queries]
        elif isinstance(queries, slice):
            queries = np.arange(self.n_queries)[queries]
        chosen = np.asarray(queries)
        if chosen.dtype == bool:
            if chosen.shape != (self.n_queries,):
                raise DataError(f"a mask over queries needs {self.n_queries} entries, had {chosen.shape}")
            return np.flatnonzero(chosen)
        if chosen.size and chosen.dtype.kind not in "iu":
            raise DataError("select queries by position (integers or a mask); by id use .select(ids)")
        chosen = chosen.astype(np.int64)
        if chosen.size and (chosen.min() < -self.n_queries or chosen.max() >= self.n_queries):
            raise IndexError(f"query position out of range for {self.n_queries} queries")
        chosen = np.where(chosen < 0, chosen + self.n_queries, chosen)
        if len(np.unique(chosen)) != len(chosen):
            raise DataError("a query was selected twice; query ids must stay distinct")
        return chosen

    def select(self, ids: Iterable[Any]) -> RankingData:
        """The data of the queries with these ids, in the order of ``ids``."""
        if isinstance(ids, str) or not isinstance(ids, Iterable):
            raise DataError(f"ids must be a list of query ids, was {ids!r}")
        position = {query: i for i, query in enumerate(self.query_ids.tolist())}
        chosen = []
        for query in ids:
            key = query.item() if isinstance(query, np.generic) else query
            if key not in position:
                raise DataError(f"this data has no query {shorten(key)}")
            chosen.append(position[key])
        return self[chosen]

    def __iter__(self) -> Iterator[RankingData]:
        """One RankingData per query."""
        return (self[q : q + 1] for q in range(self.n_queries))

    @staticmethod
    def concatenate(parts: Sequence[RankingData]) -> RankingData:
        """All queries of all parts, in order. The parts must agree on features and share no query id."""
        if not parts:
            raise DataError("there is nothing to concatenate")
        first = parts[0]
        for i, part in enumerate(parts):
            if part.n_features != first.n_features:
                raise DataError(f"part {i} has {part.n_features} features, part 0 has {first.n_features}")
            if part.feature_names != first.feature_names:
                raise DataError(f"part {i} has different feature names than part 0")
            if (part.has_positions, part.has_propensities) != (first.has_positions, first.has_propensities):
                raise DataError(f"of part {i} and part 0, only one has positions or propensities; give all or none")
            if part.is_sparse != first.is_sparse:
                raise DataError(f"part {i} is {'sparse' if part.is_sparse else 'dense'} and part 0 is not")
        query_ids = as_id_array([query for part in parts for query in part.query_ids.tolist()], "query_ids")
        twice = first_duplicate(query_ids)
        if twice is not None:
            raise DataError(f"query {shorten(twice)} is in two parts; query ids must differ between parts")
        joined = join_categories([part.categories for part in parts])
        rows = join_pieces([part.with_categories(joined) for part in parts])
        return rows.replace(query_ids=query_ids, input_order=_joined_order(parts))

    def with_categories(self, trained: Categories | None, what: str = "the data") -> RankingData:
        """The same data with its words numbered as in ``trained``; a word that is not there is missing."""
        if self.categories is None:
            return self
        X = recode(self.X, self.categories, trained, what, self.feature_names)
        return self if X is self.X else self.replace(X=X, categories=trained)

    def with_n_features(self, n_features: int) -> RankingData:
        """The same data with zero columns added at the end: in LETOR text an absent feature is 0."""
        extra = n_features - self.n_features
        if extra < 0:
            raise DataError(f"the data has {self.n_features} features, more than the {n_features} asked for")
        if extra == 0:
            return self
        if self.feature_names is not None:
            raise DataError(f"the data has {self.n_features} named features, so it cannot be widened to {n_features}")
        if self.is_sparse:
            wider = self.X.copy()
            wider.resize((self.n_rows, n_features))
        else:
            wider = np.zeros((self.n_rows, n_features), dtype=self.X.dtype)
            wider[:, : self.n_features] = self.X
        return self.replace(X=wider)

    def replace(self, **fields: Any) -> RankingData:
        """A copy with some fields replaced; for code that respects the conventions itself.

        Only preferences are checked: they must be those of the queries.
        """
        mine = {name: getattr(self, name) for name in self.__dataclass_fields__}
        data = RankingData._build_unchecked(**(mine | fields))
        if data.pairs is not None and ("offsets" in fields or "pairs" in fields):
            refuse_pairs_of_others(data.pairs, data.offsets)
        return data

    # -- inspection ----------------------------------------------------------------------------------------------------

    def equals(self, other: RankingData) -> bool:
        """Whether arrays, ids, names and weights are equal (NaN equals NaN). Input order is not compared."""
        if self.is_sparse != other.is_sparse or self.X.shape != other.X.shape or self.X.dtype != other.X.dtype:
            return False
        return (
            _same_matrix(self.X, other.X)
            and np.array_equal(self.y, other.y)
            and np.array_equal(self.offsets, other.offsets)
            and _same_optional(self.query_ids, other.query_ids)
            and _same_optional(self.doc_ids, other.doc_ids)
            and _same_optional(self.query_weights, other.query_weights)
            and all(_same_optional(getattr(self, name), getattr(other, name)) for name in ROW_COLUMNS)
            and _same_pairs(self.pairs, other.pairs)
            and self.feature_names == other.feature_names
            and self.categories == other.categories
        )

    def describe(self) -> Description:
        """Counts and ranges that show whether this is the data you expect."""
        return describe(self)

    def __repr__(self) -> str:
        kind = "sparse" if self.is_sparse else "dense"
        return (
            f"RankingData({self.n_queries:,} queries, {self.n_rows:,} documents, {self.n_features:,} features, "
            f"{kind} {self.X.dtype})"
        )

    def _repr_html_(self) -> str:
        return html_of(self)


ROW_COLUMNS = ("document_weights", "init_scores", "positions", "propensities", "click_weights", "rival_weights")
OPTIONAL_FIELDS = {
    field.name: field.default for field in fields(RankingData) if field.default is None
}  # absent unless given


def _grades(y: Any, pairs: Any, n_rows: int) -> Array:
    """The grades; 0 for all rows if there are preferences instead."""
    if pairs is None:
        if y is None:
            raise DataError("y is missing; ranking needs the grade of every row, or preferences (pairs)")
        return check_grades(y, n_rows)
    if y is not None and np.any(column_to_numpy(y)):
        raise DataError("the data has grades (y) and preferences (pairs); give one of them")
    return np.zeros(n_rows)


def _itself(data: RankingData) -> RankingData:
    return data


def _read_only(value: Any) -> Any:
    """A read-only view; the caller's own array is unchanged."""
    if isinstance(value, np.ndarray):
        return read_only(value)
    if hasattr(value, "indptr"):
        parts = (read_only(value.data), read_only(value.indices), read_only(value.indptr))
        frozen = type(value)(parts, shape=value.shape, copy=False)
        frozen.has_canonical_format = True
        return frozen
    return value


def join_pieces(
    pieces: Sequence[RankingData], continues: Sequence[bool] | None = None, dtype: Any = None
) -> RankingData:
    """All rows of pieces with the same features, without checks.

    Where ``continues`` is true, the first query of the piece continues the last one of the previous piece.
    """
    old = [0] * len(pieces) if continues is None else [int(goes_on) for goes_on in continues]
    both = list(zip(pieces, old, strict=True))
    starts = np.cumsum([0] + [piece.n_rows for piece in pieces])
    offsets = [piece.offsets[n:-1] + start for (piece, n), start in zip(both, starts[:-1], strict=True)]
    weights = [None if piece.query_weights is None else piece.query_weights[n:] for piece, n in both]
    rows = [piece.n_rows for piece in pieces]
    joined = RankingData._build_unchecked(
        X=stack_matrices([piece.X for piece in pieces], dtype),
        y=np.concatenate([piece.y for piece in pieces]),
        offsets=np.concatenate([*offsets, starts[-1:]]).astype(np.int64),
        query_ids=np.concatenate([piece.query_ids[n:] for piece, n in both]),
        doc_ids=join_optional([piece.doc_ids for piece in pieces], rows, ""),
        feature_names=pieces[0].feature_names,
        query_weights=join_optional(weights, [piece.n_queries - n for piece, n in both], 1.0),
        categories=pieces[0].categories,
        pairs=join_pairs([piece.pairs for piece in pieces], rows),
        **join_columns(pieces),
    )
    if joined.query_weights is None or not (any(old) or any(piece.has_document_weights for piece in pieces)):
        return joined
    by_row = join_optional([piece.row_weights for piece in pieces], rows, 1.0)
    assert by_row is not None
    means, by_row = split_weights(by_row, joined.offsets)
    return joined.replace(query_weights=means, document_weights=by_row)


def join_columns(pieces: Sequence[RankingData]) -> dict[str, Array | None]:
    """The optional columns of numbers but the weights of documents, for the rows of all pieces."""
    rows = [piece.n_rows for piece in pieces]
    absent = {"init_scores": 0.0, "positions": 0, "propensities": 1.0, "click_weights": 0.0, "rival_weights": 1.0}
    return {
        name: join_optional([getattr(piece, name) for piece in pieces], rows, fill) for name, fill in absent.items()
    }


def _joined_order(parts: Sequence[RankingData]) -> Array | None:
    """The input position of each row if the inputs follow one another; None if no row moved."""
    if all(part.input_order is None for part in parts):
        return None
    orders = [np.arange(part.n_rows) if part.input_order is None else part.input_order for part in parts]
    starts = np.cumsum([0] + [part.n_rows for part in parts[:-1]])
    return np.concatenate([order + start for order, start in zip(orders, starts, strict=True)])


def _same_matrix(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return np.array_equal(a, b, equal_nan=True)
    return (
        np.array_equal(a.data, b.data, equal_nan=True)
        and np.array_equal(a.indices, b.indices)
        and np.array_equal(a.indptr, b.indptr)
    )


def _same_pairs(a: PreferredPairs | None, b: PreferredPairs | None) -> bool:
    return a is b if a is None or b is None else a.equals(b)


def _same_optional(a: Array | None, b: Array | None) -> bool:
    if a is None or b is None:
        return a is b
    return bool(a.tolist() == b.tolist())
