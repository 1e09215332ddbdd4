"""Pages in the order of their queries, with query-document pairs as numbers: what click models compute on.

Pairs are numbered by query, so that a run of pages has a narrow range of pairs, and sums over a run take little memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from gainful.clicks.log import ClickLog
from gainful.clicks.pages import distinct_pages, gather
from gainful.data.rows import Array, chunks

PART_ROWS = 1 << 20  # of a log that are looked at together
BLOCK_ROWS = 1 << 16  # of pages that are summed together; fixed, so that sums do not depend on the number of threads


@dataclass(frozen=True)
class Pairs:
    """Query-document pairs in order of query: pair i is ``document_ids[document[i]]`` for ``query_ids[query[i]]``."""

    query: Array
    document: Array
    query_ids: Array
    document_ids: Array

    def __len__(self) -> int:
        return len(self.query)

    @classmethod
    def of_log(cls, log: ClickLog) -> tuple[Pairs, Array]:
        """The pairs of a log, and the pair of each of its rows."""
        width = len(log.document_ids)
        cuts = list(pairwise(chunks(log.offsets, 0, log.n_pages, PART_ROWS)))

        def keys(first: int, last: int) -> Array:
            query = np.repeat(log.query[first:last].astype(np.int64) * width, log.counts[first:last])
            return np.asarray(query + log.document[log.offsets[first] : log.offsets[last]])

        known = _union(keys(*cut) for cut in cuts)
        place = np.empty(log.n_rows, dtype=np.int32)
        for first, last in cuts:
            place[log.offsets[first] : log.offsets[last]] = np.searchsorted(known, keys(first, last))
        made = cls((known // width).astype(np.int32), (known % width).astype(np.int32), log.query_ids, log.document_ids)
        return made, place

    def places(self, query_ids: Array, document_ids: Array, query: Array, document: Array) -> Array:
        """The number of each pair ``query_ids[query], document_ids[document]``; unknown ones have ``len(self)``.

        Ids are compared as text, since a file may hold them as numbers and another as text.
        """
        found = []
        for mine, theirs in ((self.query_ids, query_ids), (self.document_ids, document_ids)):
            if np.array_equal(mine, theirs):
                found.append(np.arange(len(mine)))
                continue
            codes = {str(one): i for i, one in enumerate(mine.tolist())}
            found.append(np.array([codes.get(str(one), -1) for one in theirs.tolist()], dtype=np.int64))
        q, d = found[0][query], found[1][document]
        width = len(self.document_ids)
        keys = np.where((q < 0) | (d < 0), -1, q * width + d)
        known = self.query.astype(np.int64) * width + self.document
        place = np.searchsorted(known, keys)
        hit = place < len(known)
        hit[hit] = known[place[hit]] == keys[hit]
        return np.where(hit, place, len(known)).astype(np.int32)


def _union(parts: Iterable[Array]) -> Array:
    """The distinct values of all parts, sorted. They are joined when as many new ones wait as are known."""
    known, waiting, n = np.empty(0, dtype=np.int64), [], 0
    for part in parts:
        waiting.append(np.unique(part))
        n += len(waiting[-1])
        if n > len(known):
            known, waiting, n = np.unique(np.concatenate([known, *waiting])), [], 0
    return np.unique(np.concatenate([known, *waiting])) if waiting else known


def _as_array(names: list[Any]) -> Array:
    if len({type(one) for one in names}) == 1 and isinstance(names[0], (str, int)):
        return np.array(names)
    made = np.empty(len(names), dtype=object)
    made[:] = names
    return made


@dataclass(frozen=True)
class PageIndex:
    """Pages for the loops of click models."""

    offsets: Array
    weight: Array  # of each page: how often it was seen
    position: Array
    pair: Array
    clicked: Array
    n_pairs: int

    @classmethod
    def by_query(cls, log: ClickLog) -> tuple[PageIndex, Pairs]:
        """The pages of a log to be fitted, sorted by query; equal pages are one page that counts several times."""
        pairs, pair = Pairs.of_log(log)
        first, group = distinct_pages(log.offsets, pair, log.position, log.clicked)
        chosen = first[np.argsort(log.query[first], kind="stable")]
        weights = np.empty(log.n_pages)
        weights[first] = np.bincount(group)
        starts, sizes = log.offsets[chosen], log.counts[chosen]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        position, clicked = gather(log.position, starts, sizes), gather(log.clicked, starts, sizes)
        return cls(offsets, weights[chosen], position, gather(pair, starts, sizes), clicked, len(pairs)), pairs

    @classmethod
    def of_known(cls, log: ClickLog, pairs: Pairs) -> PageIndex:
        """The pages of a log as they are, with the pairs of a fitted model; unknown ones are pair ``len(pairs)``."""
        pair = pairs.places(log.query_ids, log.document_ids, np.repeat(log.query, log.counts), log.document)
        return cls(log.offsets, np.ones(log.n_pages), log.position, pair, log.clicked, len(pairs))

    @property
    def n_pages(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def total_weight(self) -> float:
        return float(self.weight.sum())

    @cached_property
    def moving_share(self) -> float:
        """The share of pairs that were shown in two or more positions."""
        return _moving_share(self.pair, self.position, self.n_pairs)

    @cached_property
    def longest(self) -> int:
        return int(np.diff(self.offsets).max())

    @cached_property
    def blocks(self) -> list[tuple[int, int]]:
        """Runs of pages, of about as many rows each."""
        cuts = chunks(self.offsets, 0, self.n_pages, BLOCK_ROWS)
        return list(pairwise(cuts))

    def parts(self) -> Iterator[PageIndex]:
        """Runs of pages as indexes of their own: what is computed for each row then takes little memory."""
        for first, last in pairwise(chunks(self.offsets, 0, self.n_pages, PART_ROWS)):
            rows = slice(int(self.offsets[first]), int(self.offsets[last]))
            yield PageIndex(
                self.offsets[first : last + 1] - self.offsets[first],
                self.weight[first:last],
                self.position[rows],
                self.pair[rows],
                self.clicked[rows],
                self.n_pairs,
            )

    def sum_by_pair(self, values: Callable[[PageIndex], Sequence[Array]]) -> list[Array]:
        """Weighted sums over the rows of each pair, of what ``values`` gives for the rows of a part."""
        totals: list[Array] = []
        for part in self.parts():
            low, n = part.pair_range(0, part.n_pages)
            for i, column in enumerate(values(part)):
                if len(totals) <= i:
                    totals.append(np.zeros(self.n_pairs))
                sums = np.bincount(part.pair - low, weights=part.row_weight * column, minlength=n)
                totals[i][low : low + n] += sums
        return totals

    def pair_range(self, first: int, last: int) -> tuple[int, int]:
        """The lowest pair of a run of pages, and the number of pairs from there on."""
        rows = self.pair[self.offsets[first] : self.offsets[last]]
        low = int(rows.min())
        return low, int(rows.max()) - low + 1

    @cached_property
    def row_weight(self) -> Array:
        return np.repeat(self.weight, np.diff(self.offsets))

    @cached_property
    def _last_click(self) -> Array:
        """The row of the last click of each page; the row before its first if there is none."""
        rows = np.where(self.clicked, np.arange(len(self.clicked)), -1)
        return np.asarray(np.maximum(np.maximum.reduceat(rows, self.offsets[:-1]), self.offsets[:-1] - 1))

    @cached_property
    def surely_examined(self) -> Array:
        """Rows up to the last click of their page; all rows of a page without clicks."""
        last = np.where(self._last_click < self.offsets[:-1], self.offsets[1:] - 1, self._last_click)
        return np.asarray(np.arange(len(self.clicked)) <= np.repeat(last, np.diff(self.offsets)))

    @cached_property
    def is_last_click(self) -> Array:
        return np.asarray(np.arange(len(self.clicked)) == np.repeat(self._last_click, np.diff(self.offsets)))


def moving_share(log: ClickLog) -> float:
    """The share of query-document pairs that were shown in two or more positions."""
    pairs, pair = Pairs.of_log(log)
    return _moving_share(pair, log.position, len(pairs))


def _moving_share(pair: Array, position: Array, n_pairs: int) -> float:
    one = np.empty(n_pairs, dtype=position.dtype)
    one[pair] = position
    moves = np.zeros(n_pairs, dtype=bool)
    moves[pair[one[pair] != position]] = True
    return float(moves.mean())
