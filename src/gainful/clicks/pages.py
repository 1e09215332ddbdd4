"""From logged rows to checked result pages, with a count of everything that was dropped or mended.

A row is a document on a page. Rows come in any order; a page has them by position. What cannot be true on a page is
mended here, in one place, for every source of rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any

import numpy as np

from gainful.data.rows import DEEPEST, Array, chunks, is_rising
from gainful.errors import DataError, DataWarning, ParameterError, option, plural

REPEATS = ("merge", "drop")
HOLES = ("keep", "close", "drop")
ROWS_AT_ONCE = 1 << 18
UNKNOWN = -1  # a position
NEARLY_ALL = 0.9  # of the pages start at 0 where positions are counted from 0
MOST_INT32 = np.iinfo(np.int32).max


def count(words: str, several: str = "", *, lost: bool = True) -> Any:
    """A counter of :class:`Mended`: what it counts in words, and whether it warns."""
    return field(default=0, metadata={"words": (words, several), "lost": lost})


@dataclass(frozen=True)
class Mended:
    """How often each thing was mended or dropped."""

    repeated_documents: int = count(
        "row with a document shown before on the same page was merged with the first",
        "rows with a document shown before on the same page were merged with the first",
    )
    pages_with_repeats: int = count(
        "page that shows a document twice was dropped", "pages that show a document twice were dropped"
    )
    shared_positions: int = count(
        "page with two documents in one position was dropped", "pages with two documents in one position were dropped"
    )
    holes_kept: int = count("page has holes between positions", "pages have holes between positions", lost=False)
    holes_closed: int = count(
        "page with holes between positions was renumbered", "pages with holes between positions were renumbered"
    )
    holes_dropped: int = count(
        "page with holes between positions was dropped", "pages with holes between positions were dropped"
    )
    clicks_not_shown: int = count(
        "click on a document that was not shown was dropped", "clicks on documents that were not shown were dropped"
    )
    rows_without_position: int = count(
        "row without a position and without a click was dropped",
        "rows without a position and without a click were dropped",
    )
    repeated_clicks: int = count(
        "further click on a clicked document was not counted",
        "further clicks on a clicked document were not counted",
        lost=False,
    )
    missing_clicks: int = count(
        "row without a value of clicked was taken as not clicked",
        "rows without a value of clicked were taken as not clicked",
    )
    searches_without_query: int = count("search without a query was dropped", "searches without a query were dropped")
    events_without_page: int = count(
        "event without a page or document was dropped", "events without a page or document were dropped"
    )
    positions_of_zero: int = count(
        "row with position 0 was dropped, since positions are counted from 1 on most pages",
        "rows with position 0 were dropped, since positions are counted from 1 on most pages",
    )
    counted_from_zero: int = count(
        "row has its position counted from 0", "rows have positions counted from 0", lost=False
    )

    def lines(self, *, lost_only: bool = False) -> list[str]:
        """One line for each counter that is not 0."""
        found = []
        for one in fields(self):
            n = getattr(self, one.name)
            if n and (one.metadata["lost"] or not lost_only):
                found.append(plural(n, *one.metadata["words"]))
        return found

    def advice(self) -> list[str]:
        """What to do about documents that share a page or a position."""
        if self.repeated_documents or self.pages_with_repeats or self.shared_positions:
            return [f"if a session repeats a query, name the column that tells its pages apart with {option('page')}"]
        return []

    def to_dict(self) -> dict[str, int]:
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def warn(self, what: str) -> None:
        """Warn about rows and pages that were dropped or changed."""
        lines = self.lines(lost_only=True)
        if lines:
            lines += self.advice()
            warnings.warn(f"{what}: {'; '.join(lines)}", DataWarning, stacklevel=3)


@dataclass(frozen=True)
class Pages:
    """Rows by page and position: what :class:`~gainful.clicks.log.ClickLog` holds, apart from names."""

    offsets: Array
    session: Array
    query: Array
    position: Array
    document: Array
    clicked: Array
    more: dict[str, Array]
    mended: Mended


def check_policies(repeats: str, holes: str) -> None:
    for name, given, known in (("repeats", repeats, REPEATS), ("holes", holes, HOLES)):
        if given not in known:
            raise ParameterError.of("the click log", name, " or ".join(map(repr, known)), given)


@dataclass(frozen=True)
class Runs:
    """Neighbouring rows of one page, for each run: the page (any number), the session, the query, and how many rows.

    A log has far more rows than runs, so what rows of a page share is held once.
    """

    page: Array
    session: Array
    query: Array
    length: Array

    @classmethod
    def of_rows(cls, page: Array, session: Array, query: Array) -> Runs:
        """Runs of rows in which none of the three changes."""
        change = page[1:] != page[:-1]
        for column in (session, query):
            change |= column[1:] != column[:-1]
        starts = np.concatenate([[0], np.flatnonzero(change) + 1])[: len(page)]
        return cls(page[starts], session[starts], query[starts], np.diff(np.append(starts, len(page))))

    def joined(self) -> Runs:
        """Neighbouring runs of one page as one, with the session and query of the first."""
        heads = np.concatenate([[0], np.flatnonzero(self.page[1:] != self.page[:-1]) + 1])[: len(self.page)]
        if len(heads) == len(self.page):
            return self
        return Runs(self.page[heads], self.session[heads], self.query[heads], np.add.reduceat(self.length, heads))


def tell_apart(page: Array, session: Array, query: Array) -> Array:
    """Codes of pages, given codes that may name a page of every session or query; the same array if none does."""
    if is_rising(page):
        return page
    owner = np.empty(int(page.max()) + 1, dtype=np.int32)
    for column in (session, query):
        owner[page] = column
        if not np.array_equal(owner[page], column):
            break
    else:
        return page
    asked = np.unique((session.astype(np.int64) << 31) | query, return_inverse=True)[1]
    return np.asarray((asked.astype(np.int64) << 31) | page)


def gather(column: Array, starts: Array, sizes: Array) -> Array:
    """The rows ``starts[i] : starts[i] + sizes[i]`` of a column, one after another; some at a time, to save memory."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    found = np.empty(int(offsets[-1]), dtype=column.dtype)
    for first, last in pairwise(chunks(offsets, 0, len(sizes), ROWS_AT_ONCE)):
        low, high = int(offsets[first]), int(offsets[last])
        shift = np.repeat(starts[first:last] - offsets[first:last], sizes[first:last])
        found[low:high] = column[shift + np.arange(low, high)]
    return found


def assemble(
    runs: Runs,
    position: Array | None,
    document: Array,
    clicked: Array,
    more: Mapping[str, Any],
    *,
    repeats: str = "merge",
    holes: str = "keep",
    counts: Mapping[str, int] | None = None,
) -> Pages:
    """Group rows by page and sort them by position; mend what cannot be true.

    ``position`` is int32, :data:`UNKNOWN` where it is unknown; None for the order of the rows. ``counts`` are those of
    things that the reader has mended already. ``position``, ``document`` and ``clicked`` are changed in place and
    become the result. Some pages are mended at a time: if rows of a page are neighbours, little more memory is taken
    than they have.
    """
    check_policies(repeats, holes)
    rows = None if not more else np.arange(len(document), dtype=np.int32 if len(document) < MOST_INT32 else np.int64)
    runs = runs.joined()
    order = _by_first_appearance(runs.page)
    if order is not None:
        starts, sizes = (np.cumsum(runs.length) - runs.length)[order], runs.length[order]
        runs = Runs(runs.page[order], runs.session[order], runs.query[order], sizes).joined()
        del order
        document, clicked = gather(document, starts, sizes), gather(clicked, starts, sizes)
        position = None if position is None else gather(position, starts, sizes)
        rows = None if rows is None else gather(rows, starts, sizes)
    counted = dict(counts or {})
    table = _Table(position, document, clicked, rows)
    sizes, kept_pages = table.mend(runs.length, (repeats, holes), counted)
    mended = Mended(**counted)
    if not len(kept_pages):
        if mended.shared_positions or mended.holes_dropped or mended.pages_with_repeats:
            raise DataError(f"no page is left: {'; '.join([*mended.lines(), *mended.advice()])}")
        raise DataError("the click log has no rows with a position; it needs at least one")
    n = int(sizes.sum())
    return Pages(
        offsets=np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]),
        session=runs.session[kept_pages].astype(np.int32),
        query=runs.query[kept_pages].astype(np.int32),
        position=_cut(table.position, n),
        document=_cut(table.document, n),
        clicked=_cut(table.clicked, n),
        more={name: column[_cut(table.rows, n)] for name, column in more.items()} if table.moved else dict(more),
        mended=mended,
    )


def _by_first_appearance(page: Array) -> Array | None:
    """The order that brings runs of one page together, with pages in the order of the log; None if they are."""
    if is_rising(page):
        return None
    order = np.argsort(page, kind="stable")
    grouped = page[order]
    heads = np.concatenate([[0], np.flatnonzero(grouped[1:] != grouped[:-1]) + 1])
    if len(heads) == len(page):
        return None
    del grouped
    sizes = np.diff(np.append(heads, len(page)))
    first = np.argsort(order[heads])
    return gather(order, heads[first], sizes[first])


class _Table:
    """The rows of a log by page. Mending moves rows up, over those that are gone."""

    def __init__(self, position: Array | None, document: Array, clicked: Array, rows: Array | None) -> None:
        self.has_positions = position is not None
        self.position = np.empty(len(document), dtype=np.int32) if position is None else position
        self.document, self.clicked = document, clicked
        self.rows = np.empty(0, dtype=np.int32) if rows is None else rows  # the row of the log that each was
        self.moved = bool(len(self.rows)) and not is_rising(self.rows)

    def mend(self, lengths: Array, policies: tuple[str, str], counted: dict[str, int]) -> tuple[Array, Array]:
        """The numbers of rows of the pages that are left, and the numbers of these pages."""
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        sizes, pages = np.empty(len(lengths), dtype=np.int32), np.empty(len(lengths), dtype=np.int32)
        at = n_pages = 0
        from_zero = self.has_positions and _count_from_zero(self.position, offsets)
        for first, last in pairwise(chunks(offsets, 0, len(lengths), ROWS_AT_ONCE)):
            low, high = int(offsets[first]), int(offsets[last])
            page = np.repeat(np.arange(first, last), lengths[first:last])
            if not self.has_positions:
                self.position[low:high] = np.arange(low, high) - offsets[page] + 1
            rows = np.arange(low, high)
            given = self.position[low:high]
            known = given >= (0 if from_zero else 1)
            if not known.all():
                _count_unknown(self.clicked[rows[given == UNKNOWN]], counted)
                _add(counted, "positions_of_zero", 0 if from_zero else int((given == 0).sum()))
                rows, page = rows[known], page[known]
            place = self.position[rows].astype(np.int64) + from_zero
            if from_zero:
                _add(counted, "counted_from_zero", len(place))
            rows, page, place, click = _mend(page, rows, place, self.document, self.clicked, policies, counted)
            starts = _starts(page)
            among = slice(n_pages, n_pages + len(starts))
            sizes[among], pages[among] = np.diff(np.append(starts, len(page))), page[starts]
            n_pages += len(starts)
            at = self._move(at, rows, place, click)
        return sizes[:n_pages], pages[:n_pages]

    def _move(self, at: int, rows: Array, place: Array, click: Array) -> int:
        """Write rows to the places from ``at`` on, which are not behind them; returns the next place."""
        to = at + len(rows)
        if len(self.rows):
            self.moved |= not np.array_equal(rows, np.arange(at, to))
            self.rows[at:to] = self.rows[rows]
        self.document[at:to] = self.document[rows]
        self.position[at:to], self.clicked[at:to] = place, click
        return to


def _cut(column: Array, n: int) -> Array:
    return column if len(column) == n else column[:n].copy()


def _mend(
    page: Array,
    rows: Array,
    place: Array,
    document: Array,
    clicked: Array,
    policies: tuple[str, str],
    counted: dict[str, int],
) -> tuple[Array, Array, Array, Array]:
    """Rows that stay, in order, with the page, position and click of each."""
    repeats, holes = policies
    order = _by_page(page, place)
    if order is not None:
        rows, page, place = rows[order], page[order], place[order]
    shown, click = document[rows], clicked[rows]
    keep, click = _mend_repeats(page, shown, place, click, repeats, counted)
    keep &= _mend_positions(page, shown, place, holes, counted)
    if not keep.all():
        rows, page, place, click = (one[keep] for one in (rows, page, place, click))
    if holes == "close" and len(page):
        starts = _starts(page)
        sizes = np.diff(np.append(starts, len(page)))
        place = np.repeat(place[starts] - starts, sizes) + np.arange(len(place))
    return rows, page, place, click


def _count_from_zero(position: Array, offsets: Array) -> bool:
    """Whether positions are counted from 0: nearly all pages start there. A stray 0 must not shift the whole log."""
    if position.all():
        return False
    first = np.minimum.reduceat(position.view(np.uint32), offsets[:-1])  # UNKNOWN becomes the largest
    return int((first == 0).sum()) >= NEARLY_ALL * int((first <= DEEPEST).sum())


def _count_unknown(clicked: Array, counted: dict[str, int]) -> None:
    """Count rows without a position."""
    lost = int(clicked.sum())
    _add(counted, "clicks_not_shown", lost)
    _add(counted, "rows_without_position", len(clicked) - lost)


def position_codes(position: Array, row: Callable[[int], int] = int) -> Array:
    """Positions as int32, NaN as :data:`UNKNOWN`; raises for one that is not a whole number, or too large.

    ``row`` gives the number of a row that messages name.
    """
    known = ~np.isnan(position)
    right = (position >= 0) & (position <= DEEPEST) & (position == np.floor(position))
    bad = np.flatnonzero(known & ~right)
    if len(bad):
        raise DataError(
            f"the position of row {row(int(bad[0]))} must be a whole number from 0 to {DEEPEST:,}, was "
            f"{position[bad[0]]:g}"
        )
    return np.where(known, position, UNKNOWN).astype(np.int32)


def _by_page(page: Array, place: Array) -> Array | None:
    """The order of rows by page and position; None if they have it already."""
    step = np.diff(page)
    if (step >= 0).all() and (np.diff(place)[step == 0] >= 0).all():
        return None
    return np.lexsort((place, page))


def _starts(page: Array) -> Array:
    if not len(page):
        return np.empty(0, dtype=np.int64)
    return np.concatenate([[0], np.flatnonzero(page[1:] != page[:-1]) + 1]).astype(np.int64)


def _mend_repeats(
    page: Array, document: Array, place: Array, clicked: Array, repeats: str, counted: dict[str, int]
) -> tuple[Array, Array]:
    """Which rows stay, and the clicks: a document that is shown twice has the clicks of both rows in the first."""
    keep = np.ones(len(page), dtype=bool)
    order = np.lexsort((place, document, page))
    same = (page[order[1:]] == page[order[:-1]]) & (document[order[1:]] == document[order[:-1]])
    if not same.any():
        return keep, clicked
    again = order[1:][same]
    if repeats == "drop":
        bad = np.unique(page[again])
        keep[np.isin(page, bad)] = False
        _add(counted, "pages_with_repeats", len(bad))
        return keep, clicked
    heads = np.concatenate([[True], ~same])
    first = order[heads][np.cumsum(heads) - 1]  # of each row in this order
    clicked = clicked.copy()
    clicked[first[1:][same & clicked[order[1:]]]] = True
    keep[again] = False
    _add(counted, "repeated_documents", len(again))
    return keep, clicked


def _mend_positions(page: Array, document: Array, place: Array, holes: str, counted: dict[str, int]) -> Array:
    """Which rows stay: not those of pages with two documents in one position, nor with holes if these are dropped."""
    keep = np.ones(len(page), dtype=bool)
    inside = page[1:] == page[:-1]
    step = np.diff(place)
    shared = np.unique(page[1:][inside & (step == 0) & (document[1:] != document[:-1])])
    if len(shared):
        keep[np.isin(page, shared)] = False
        _add(counted, "shared_positions", len(shared))
    broken = np.setdiff1d(page[1:][inside & (step > 1)], shared)
    if len(broken):
        _add(counted, {"keep": "holes_kept", "close": "holes_closed", "drop": "holes_dropped"}[holes], len(broken))
        if holes == "drop":
            keep[np.isin(page, broken)] = False
    return keep


def _add(counted: dict[str, int], name: str, n: int) -> None:
    if n:
        counted[name] = counted.get(name, 0) + n


# -- equal pages -------------------------------------------------------------------------------------------------------


def distinct_pages(offsets: Array, pair: Array, position: Array, clicked: Array | None = None) -> tuple[Array, Array]:
    """The first of equal pages, and for each page which of these it equals.

    Equal: the same pairs in the same positions, and the same clicks if they are given. Some pages at a time, to save
    memory.
    """
    counts = np.diff(offsets)
    columns = [pair, position] if clicked is None else [pair, position, clicked]
    sums = np.empty(len(counts), dtype=np.uint64)
    for low, high in pairwise(chunks(offsets, 0, len(counts), ROWS_AT_ONCE)):
        rows = slice(int(offsets[low]), int(offsets[high]))
        place = np.arange(rows.start, rows.stop) - np.repeat(offsets[low:high], counts[low:high])
        content = pair[rows].astype(np.uint64) << np.uint64(1)
        if clicked is not None:
            content |= clicked[rows]
        mixed = _mix(content + _mix((position[rows].astype(np.uint64) << np.uint64(32)) | place.astype(np.uint64)))
        sums[low:high] = np.add.reduceat(mixed, offsets[low:high] - rows.start)
    _, first, group = np.unique(sums, return_index=True, return_inverse=True)
    if len(first) == len(counts):
        return first, group
    strange = np.flatnonzero(~_are_equal(offsets, columns, first[group]))  # equal sums: next to impossible
    group[strange] = len(first) + np.arange(len(strange))
    return np.append(first, strange), group


def _are_equal(offsets: Array, columns: Sequence[Array], other: Array) -> Array:
    """Whether each page equals the page ``other[page]``, row by row."""
    counts = np.diff(offsets)
    same = np.asarray(counts == counts[other])
    for low, high in pairwise(chunks(offsets, 0, len(counts), ROWS_AT_ONCE)):
        starts = offsets[low:high]
        mine = np.arange(starts[0], offsets[high])
        theirs = mine + np.repeat(np.where(same[low:high], offsets[other[low:high]] - starts, 0), counts[low:high])
        differs = np.zeros(len(mine), dtype=bool)
        for column in columns:
            differs |= column[mine] != column[theirs]
        same[low:high] &= ~np.logical_or.reduceat(differs, starts - starts[0])
    return same


def _mix(x: Array) -> Array:
    """The finishing step of splitmix64: every bit of the result depends on every bit of ``x``."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))
