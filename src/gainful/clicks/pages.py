"""From logged rows to checked result pages, with a count of everything that was dropped or mended.

A row is a document on a page. Rows come in any order; a page has them by position. What cannot be true on a page is
mended here, in one place, for every source of rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from gainful.data.rows import Array, codes_by_first_appearance
from gainful.errors import DataError, DataWarning, ParameterError, plural

REPEATS = ("merge", "drop")
HOLES = ("keep", "close", "drop")
ROWS_AT_ONCE = 1 << 18
DEEPEST = 1_000_000  # a larger position is a mistake, such as a time


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

    def to_dict(self) -> dict[str, int]:
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def warn(self, what: str) -> None:
        """Warn about rows and pages that were dropped or changed."""
        lines = self.lines(lost_only=True)
        if lines:
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


def assemble(
    page: Array,
    session: Array,
    query: Array,
    position: Array,
    document: Array,
    clicked: Array,
    more: Mapping[str, Array],
    *,
    repeats: str = "merge",
    holes: str = "keep",
    counts: Mapping[str, int] | None = None,
) -> Pages:
    """Group rows by ``page`` (any numbers) and sort them by position; mend what cannot be true.

    ``position`` has NaN where it is unknown. ``counts`` are those of things that the reader has mended already. Some
    pages are mended at a time, so that temporary arrays are short.
    """
    check_policies(repeats, holes)
    counted = dict(counts or {})
    refuse_positions(position)
    order = None
    if (page[1:] < page[:-1]).any():
        page = codes_by_first_appearance(page)[0]  # pages stay in the order of the log
        order = np.argsort(page, kind="stable")
        page = page[order]
    from_zero = bool((position == 0).any())
    n = len(page)
    rows_kept = np.empty(n, dtype=np.int32 if n < np.iinfo(np.int32).max else np.int64)
    places, clicks = np.empty(n, dtype=np.int32), np.empty(n, dtype=bool)
    sizes, at, any_known = [], 0, False
    for first, last in _runs_of_pages(page):
        rows = np.arange(first, last) if order is None else order[first:last]
        known = ~np.isnan(position[rows])
        _count_unknown(clicked[rows[~known]], counted)
        place = position[rows[known]].astype(np.int64) + from_zero
        if from_zero:
            _add(counted, "counted_from_zero", len(place))
        if len(place):
            any_known = True
            part = _mend(page[first:last][known], rows[known], place, document, clicked, (repeats, holes), counted)
            to = at + len(part[0])
            rows_kept[at:to], places[at:to], clicks[at:to] = part[0], part[2], part[3]
            sizes.append(part[1])
            at = to
    if not any_known:
        raise DataError("the click log has no rows with a position; it needs at least one")
    if at == 0:
        raise DataError(f"no page is left: {'; '.join(Mended(**counted).lines())}")
    kept = rows_kept[:at]
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64)
    heads = kept[offsets[:-1]]
    return Pages(
        offsets=offsets,
        session=session[heads].astype(np.int32),
        query=query[heads].astype(np.int32),
        position=places if at == n else places[:at].copy(),
        document=document[kept].astype(np.int32),
        clicked=clicks if at == n else clicks[:at].copy(),
        more={name: column[kept] for name, column in more.items()},
        mended=Mended(**counted),
    )


def _runs_of_pages(page: Array) -> Iterator[tuple[int, int]]:
    """First and last row of runs of whole pages, of about :data:`ROWS_AT_ONCE` rows."""
    first = 0
    while first < len(page):
        last = min(first + ROWS_AT_ONCE, len(page))
        while last < len(page) and page[last] == page[last - 1]:
            last += 1
        yield first, last
        first = last


def _mend(
    page: Array,
    rows: Array,
    place: Array,
    document: Array,
    clicked: Array,
    policies: tuple[str, str],
    counted: dict[str, int],
) -> tuple[Array, Array, Array, Array]:
    """Rows of the log that stay, the number of rows of each page, and the position and click of each row."""
    repeats, holes = policies
    order = _by_page(page, place)
    if order is not None:
        rows, page, place = rows[order], page[order], place[order]
    shown, click = document[rows], clicked[rows]
    keep, click = _mend_repeats(page, shown, place, click, repeats, counted)
    keep &= _mend_positions(page, shown, place, holes, counted)
    rows, page, place, click = (one[keep] for one in (rows, page, place, click))
    starts = _starts(page)
    sizes = np.diff(np.append(starts, len(page)))
    if holes == "close":
        place = np.repeat(place[starts] - starts, sizes) + np.arange(len(place))
    return rows, sizes, place, click


def _count_unknown(clicked: Array, counted: dict[str, int]) -> None:
    """Count rows without a position."""
    lost = int(clicked.sum())
    _add(counted, "clicks_not_shown", lost)
    _add(counted, "rows_without_position", len(clicked) - lost)


def refuse_positions(position: Array, first_row: int = 0) -> None:
    """Raise for a position that is not a whole number, or too large; NaN is unknown."""
    for start in range(0, len(position), ROWS_AT_ONCE):
        some = position[start : start + ROWS_AT_ONCE]
        right = (some >= 0) & (some <= DEEPEST) & (some == np.floor(some))
        bad = np.flatnonzero(~(right | np.isnan(some)))
        if len(bad):
            raise DataError(
                f"the position of row {first_row + start + int(bad[0])} must be a whole number from 0 to "
                f"{DEEPEST:,}, was {some[bad[0]]:g}"
            )


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


def distinct_pages(offsets: Array, content: Array, position: Array) -> tuple[Array, Array]:
    """The first of equal pages, and for each page which of these it equals.

    Equal: the same ``content``, an unsigned number per row, in the same positions.
    """
    counts = np.diff(offsets)
    place = np.arange(len(content)) - np.repeat(offsets[:-1], counts)
    content = content.astype(np.uint64)
    mixed = _mix(content + _mix((position.astype(np.uint64) << np.uint64(32)) | place.astype(np.uint64)))
    sums = np.add.reduceat(mixed, offsets[:-1])
    _, first, group = np.unique(sums, return_index=True, return_inverse=True)
    if len(first) == len(counts):
        return first, group
    other = first[group]
    same = counts == counts[other]
    rows = np.repeat(np.where(same, offsets[other] - offsets[:-1], 0), counts) + np.arange(len(content))
    differs = (content[rows] != content) | (position[rows] != position)
    same &= ~np.logical_or.reduceat(differs, offsets[:-1])
    strange = np.flatnonzero(~same)  # equal sums of different pages, which is next to impossible
    group[strange] = len(first) + np.arange(len(strange))
    return np.append(first, strange), group


def _mix(x: Array) -> Array:
    """The finishing step of splitmix64: every bit of the result depends on every bit of ``x``."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))
