"""``read_clicks``: a click log from a table, JSON Lines, a frame or text, in parts of bounded size."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from gainful.clicks.columns import UBI_PAGE, Named, Roles, as_roles, check_roles, is_named
from gainful.clicks.encoder import Codes, LogBuilder, ManyCodes
from gainful.clicks.log import ClickLog, check_propensities, mend_clicks
from gainful.clicks.page_text import TEXT_FORMS, read_pages
from gainful.clicks.pages import ROWS_AT_ONCE, check_policies, position_codes
from gainful.clicks.tables import FORMATS, ClickTable, format_of
from gainful.data.rows import Array, chunks
from gainful.errors import DataError, UnknownNameError, option, shorten
from gainful.formats.files import PathLike, errors_of, reason
from gainful.formats.letor.lines import read_number
from gainful.formats.limits import MemoryLimit

CLICKS = ("click", "item_click", "product_click", "result_click")  # actions of OpenSearch's events
SHOWN = ("impression", "item_impression", "product_impression", "shown")
PAGES_AT_ONCE = 1 << 14
TRUTH = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}


def read_clicks(
    source: Any,
    format: str | None = None,
    *,
    session: Named = None,
    query: Named = None,
    position: Named = None,
    document: Named = None,
    clicked: Named = None,
    page: Named = None,
    propensity: Named = None,
    time: Named = None,
    dwell: Named = None,
    grade: Named = None,
    action: Named = None,
    features: Sequence[str] = (),
    events: Any = None,
    repeats: str = "merge",
    holes: str = "keep",
    sep: str | None = None,
    max_bytes: int | str | None = None,
) -> ClickLog:
    """Read a click log: CSV, TSV, Parquet, JSON Lines, a frame, or one of two text forms.

    A table has one row per document shown. Only columns with a role are read, so that personal fields stay where they
    are. A file is read in parts; what is kept are codes and names.

    Parameters
    ----------
    source : a path, or a pandas, polars or Arrow frame
    format : csv, tsv, parquet, jsonl, serps or lists (:mod:`gainful.clicks.page_text`); by default the suffix decides,
        and the first line for text
    session, query, position, document, clicked, page, propensity, time, dwell, grade : names of columns; by default
        well-known names, OpenSearch's UBI fields among them. False means that there is none. Rows of one session and
        query are one page, or several if ``page`` tells them apart. Without positions, rows are in their order
    action : the column of events that says whether a row is an impression or a click, instead of ``clicked``
    features : names of feature columns
    events : with a file of OpenSearch's searches (``query_response_hit_ids``), the file of events that has the clicks
    repeats, holes : as in :meth:`ClickLog.from_rows`
    sep : for CSV: the separator of columns
    max_bytes : refuse to take more memory than this, a number or text such as "4GB"; by default what is free

    Whatever is dropped or changed is counted in ``mended`` of the log, and a warning says so.
    """
    check_policies(repeats, holes)
    given = as_roles(locals())
    if format is not None and format not in FORMATS:
        raise UnknownNameError.among("format of click logs", format, FORMATS)
    is_path = isinstance(source, (str, os.PathLike))
    where: Any = source if is_path else None
    limit = MemoryLimit("the click log" if where is None else where, max_bytes)
    with errors_of(where):
        if is_path and format_of(where, format) in TEXT_FORMS:
            builder = _read_text(where, format_of(where, format), limit)
        else:
            table = ClickTable.open(source, format, given, tuple(features), sep)
            check_roles(table.roles, table.names, events is not None)
            clicks = None if events is None else ClickTable.open(events, None, _of_events(given), (), sep)
            path = events if isinstance(events, (str, os.PathLike)) else None
            builder = _read_table(table, clicks, path, limit)
        log = builder.build(repeats=repeats, holes=holes)
    log.mended.warn("the click log" if where is None else os.fspath(where))
    return log


# -- text --------------------------------------------------------------------------------------------------------------


def _read_text(path: PathLike, form: str, limit: MemoryLimit) -> LogBuilder:
    builder = LogBuilder()
    builder.numbered_sessions = form == "serps"
    held = []
    n_pages = 0
    for page in read_pages(path, form):
        held.append(page)
        if len(held) == PAGES_AT_ONCE:
            n_pages = _add_text(builder, held, n_pages, limit)
            held = []
    _add_text(builder, held, n_pages, limit)
    return builder


def _add_text(builder: LogBuilder, held: list[Any], n_pages: int, limit: MemoryLimit) -> int:
    """Add pages of text, the first of which has the number ``n_pages``; returns the number of the next."""
    sizes = np.array([len(one.documents) for one in held], dtype=np.int64)
    number = np.repeat(np.arange(n_pages, n_pages + len(held)), sizes)
    session = number
    if not builder.numbered_sessions:
        session = np.repeat(builder.sessions.encode([one.session for one in held], np.arange(len(held))), sizes)
    more = {}
    if any(one.grades is not None for one in held):
        nothing = [[np.nan] * len(one.documents) if one.grades is None else one.grades for one in held]
        more["grade"] = np.array([grade for grades in nothing for grade in grades])
    code = builder.documents.code
    builder.add(
        more,
        page=number,
        session=session,
        query=np.repeat([builder.queries.code(one.query) for one in held], sizes),
        document=np.array([code(name) for one in held for name in one.documents], dtype=np.int32),
        position=np.concatenate([np.arange(1, n + 1) for n in sizes]) if len(sizes) else np.empty(0, dtype=np.int32),
        clicked=np.array([click for one in held for click in one.clicked], dtype=bool),
    )
    builder.count("clicks_not_shown", sum(one.not_shown for one in held))
    builder.count("repeated_clicks", sum(one.repeated for one in held))
    limit.check(builder.bytes_needed, "the first part of the log", so_far=True)
    return n_pages + len(held)


def _of_events(given: Mapping[str, Named]) -> dict[str, Named]:
    """Columns named for the searches are not those of the events, but for what joins them."""
    return {role: given[role] for role in ("page", "document", "action") if role in given}


# -- rows --------------------------------------------------------------------------------------------------------------


class _Clicks:
    """Clicks that came as events: page and document of each."""

    def __init__(self) -> None:
        self.pages: list[Array] = []
        self.documents: list[Array] = []

    def add(self, pages: Array, documents: Array) -> None:
        self.pages.append(pages.astype(np.int64))
        self.documents.append(documents.astype(np.int64))

    def mark(self, builder: LogBuilder, final: Array) -> None:
        """Mark the rows that were clicked; clicks on what was not shown are counted. ``final`` codes are of pages."""
        if not self.pages:
            return
        clicks = _join(final[np.concatenate(self.pages)], np.concatenate(self.documents))
        distinct, n = np.unique(clicks, return_counts=True)
        shown = np.zeros(len(distinct), dtype=bool)
        page, length = builder.runs["page"].numpy(), builder.runs["length"].numpy()
        document, clicked = (builder.columns[name].numpy() for name in ("document", "clicked"))
        offsets = np.concatenate([[0], np.cumsum(length)])
        for first, last in pairwise(chunks(offsets, 0, len(length), ROWS_AT_ONCE)):
            rows = slice(int(offsets[first]), int(offsets[last]))
            wanted = _join(np.repeat(page[first:last], length[first:last]), document[rows].astype(np.int64))
            place = np.minimum(np.searchsorted(distinct, wanted), len(distinct) - 1)
            hit = distinct[place] == wanted
            shown[place[hit]] = True
            clicked[rows] |= hit.astype(np.uint8)
        builder.count("clicks_not_shown", int(n[~shown].sum()))
        builder.count("repeated_clicks", int(n[shown].sum() - shown.sum()))


def _join(first: Array, second: Array) -> Array:
    return (first.astype(np.int64) << 31) | second


def _read_table(
    table: ClickTable, events: ClickTable | None, events_path: PathLike | None, limit: MemoryLimit
) -> LogBuilder:
    roles = table.roles
    builder = LogBuilder(roles.features)
    builder.has_positions = "position" in roles or "hits" in roles
    clicks, row = _Clicks(), 1
    for part in table.parts():
        reader = _Part(part, roles, row)
        if "hits" in roles:
            _add_hits(builder, reader)
        elif "action" in roles and "clicked" not in roles:
            _add_events(builder, reader, clicks)
        else:
            _add_rows(builder, reader)
        row += part.num_rows
        limit.check(builder.bytes_needed, "the first part of the log", so_far=True)
    if events is not None:
        with errors_of(events_path):
            _read_events(builder, events, clicks)
    elif "action" in roles and "clicked" not in roles and not builder.n_rows:
        raise DataError(
            f"no event is an impression ({', '.join(SHOWN)}), so it is unknown what was shown; read the file of "
            f"searches (query_response_hit_ids), and give this one with {option('events')}"
        )
    builder.clicks_are_events = bool(clicks.pages)
    if builder.pages.n:
        clicks.mark(builder, builder.finish_pages())
    return builder


class _Part:
    """Some rows of a table, by role. Messages name rows from 1; ``first`` is the first, ``rows`` are those chosen."""

    def __init__(self, table: Any, roles: Roles, first: int, rows: Array | None = None) -> None:
        self.table, self.roles, self.first, self.rows = table, roles, first, rows

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def filter(self, rows: Array) -> _Part:
        chosen = rows if self.rows is None else self.rows[rows]
        return self if len(rows) == len(self) else _Part(self.table.take(rows), self.roles, self.first, chosen)

    def row(self, i: int) -> int:
        """The number of a row that messages name."""
        return self.first + (i if self.rows is None else int(self.rows[i]))

    def having(self, *roles: str) -> _Part:
        """The rows in which none of these roles is missing."""
        keep = np.ones(len(self), dtype=bool)
        for role in roles:
            words, places = self.words(role, required=False)
            if "" in words:
                keep &= places != words.index("")
        return self.filter(np.flatnonzero(keep))

    def words(self, role: str, *, required: bool = True) -> tuple[list[str], Array]:
        """The distinct texts of a column, and the place of each row's among them; "" where missing."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = self.table.column(self.roles[role])
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_floating(column.type) and pc.all(pc.equal(column, pc.floor(column))).as_py():
            largest = pc.max(pc.abs(column)).as_py() or 0.0
            if largest >= 2.0**63:
                raise DataError(
                    f"column {self.roles[role]!r} holds {largest:g}, too large for an id; store ids as text"
                )
            column = column.cast(pa.int64())  # a column of whole numbers in which some are missing
        if required and column.null_count:
            raise self._missing(role, int(np.argmax(pc.is_null(column).to_numpy(zero_copy_only=False))))
        try:
            found = pc.dictionary_encode(pc.fill_null(column.cast(pa.string()), "")).combine_chunks()
        except pa.ArrowException as error:
            raise DataError(f"column {self.roles[role]!r} does not hold ids: {reason(error)[:100]}") from None
        found = found.chunk(0) if hasattr(found, "chunks") and found.num_chunks else found
        if not len(found):
            return [], np.empty(0, dtype=np.int64)
        words, places = found.dictionary.to_pylist(), found.indices.to_numpy(zero_copy_only=False)
        if required and "" in words:
            raise self._missing(role, int(np.argmax(places == words.index(""))))
        return words, places

    def texts(self, role: str, *, required: bool = True) -> list[str]:
        words, places = self.words(role, required=required)
        return [words[i] for i in places.tolist()]

    def _missing(self, role: str, row: int) -> DataError:
        return DataError(f"the {role} of row {self.row(row)} is missing (column {self.roles[role]!r})")

    def codes(self, role: str, into: Codes | ManyCodes) -> Array:
        return into.encode(*self.words(role))

    def numbers(self, role: str) -> Array:
        """A column as float64, NaN where missing; truth values count as 0 and 1."""
        import pyarrow as pa

        name = self.roles[role]
        column = self.table.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_temporal(column.type):
            column = column.cast(pa.timestamp("us")).cast(pa.int64())
            return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False)) / 1e6
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            words, places = self.words(role, required=False)
            found = [self._number(word, role) for word in words]
            if None in found:
                at = found.index(None)
                row = self.row(int(np.argmax(places == at)))
                expected = "times" if role == "time" else "0 or 1" if role == "clicked" else "numbers"
                raise DataError(f"column {name!r} must hold {expected}, holds {shorten(words[at])} in row {row}")
            return np.array(found, dtype=np.float64)[places]
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        try:
            return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False))
        except pa.ArrowException:
            raise DataError(f"column {name!r} must hold numbers, holds {column.type}") from None

    @staticmethod
    def _number(word: str, role: str) -> float | None:
        """The number in a text, NaN in an empty one; None if it holds something else."""
        if not word:
            return np.nan
        if word.lower() in TRUTH:
            return TRUTH[word.lower()]
        found = read_number(word.strip().encode())
        if found is None and role == "time":
            try:
                return float(np.datetime64(word.strip().removesuffix("Z"), "us").astype(np.int64)) / 1e6
            except ValueError:
                pass
        return found

    def more(self) -> dict[str, Array]:
        found = {role: self.numbers(role) for role in ("propensity", "time", "dwell", "grade") if role in self.roles}
        if self.roles.features:
            columns = [
                _Part(self.table, Roles({"feature": name}), self.first, self.rows) for name in self.roles.features
            ]
            found["features"] = np.column_stack([one.numbers("feature") for one in columns])
        check_propensities(found.get("propensity"), self.row)
        return found

    def positions(self) -> Array:
        if "position" not in self.roles:
            return np.ones(len(self), dtype=np.int32)
        return position_codes(self.numbers("position"), self.row)

    def clicks(self, builder: LogBuilder) -> Array:
        found, counts = mend_clicks(self.numbers("clicked"), self.row)
        for name, n in counts.items():
            builder.count(name, n)
        return found


def _add_rows(builder: LogBuilder, part: _Part, clicked: Array | None = None) -> None:
    if not len(part):
        return
    roles = part.roles
    query = part.codes("query", builder.queries)
    page = part.codes("page", builder.pages) if "page" in roles else None
    session = part.codes("session" if "session" in roles else "page", builder.sessions)
    builder.add(
        part.more(),
        page=page,
        session=session,
        query=query,
        document=part.codes("document", builder.documents),
        position=part.positions(),
        clicked=part.clicks(builder) if clicked is None else clicked,
    )


def _add_events(builder: LogBuilder, part: _Part, clicks: _Clicks) -> None:
    """Impressions become rows; clicks are kept until all rows are known."""
    if "page" not in part.roles:
        raise DataError(f"events need a column that tells pages apart, such as query_id; name it with {option('page')}")
    shown, clicked = (part.filter(_of_action(part, actions)) for actions in (SHOWN, CLICKS))
    shown = _joinable(builder, shown)
    _add_rows(builder, shown, np.zeros(len(shown), dtype=bool))
    _keep_clicks(builder, clicked, clicks)


def _joinable(builder: LogBuilder, part: _Part) -> _Part:
    """The events that name their page and document; the others are counted."""
    kept = part.having("page", "document")
    builder.count("events_without_page", len(part) - len(kept))
    return kept


def _keep_clicks(builder: LogBuilder, part: _Part, clicks: _Clicks) -> None:
    part = _joinable(builder, part)
    if len(part):
        clicks.add(part.codes("page", builder.pages), part.codes("document", builder.documents))


def _of_action(part: _Part, actions: tuple[str, ...]) -> Array:
    words, places = part.words("action", required=False)
    wanted = np.array([word.lower() in actions for word in words], dtype=bool)
    return np.flatnonzero(wanted[places]) if len(words) else np.empty(0, dtype=np.int64)


def _read_events(builder: LogBuilder, events: ClickTable, clicks: _Clicks) -> None:
    roles, row = _roles_of_events(events, ("page", "document", "action")), 1
    for part in events.parts():
        reader = _Part(part, roles, row)
        _keep_clicks(builder, reader.filter(_of_action(reader, CLICKS)), clicks)
        row += part.num_rows


def read_click_events(source: Any, given: Mapping[str, Named]) -> Iterator[tuple[str, str, str]]:
    """Page, document and session of each click in a table of clicks; the session is "" where it is unknown.

    A column ``clicked`` or ``action`` tells clicks from other rows; without either, every row is a click.
    """
    is_path = isinstance(source, (str, os.PathLike))
    with errors_of(source if is_path else None):
        table = ClickTable.open(source, None, given, (), None)
        roles, row = _roles_of_events(table, ("page", "document")), 1
        for part in table.parts():
            reader = _Part(part, roles, row)
            row += part.num_rows
            if "clicked" in roles:
                reader = reader.filter(np.flatnonzero(mend_clicks(reader.numbers("clicked"), reader.row)[0]))
            elif "action" in roles:
                reader = reader.filter(_of_action(reader, CLICKS))
            pages, documents = reader.texts("page"), reader.texts("document")
            sessions = reader.texts("session", required=False) if "session" in roles else [""] * len(reader)
            yield from zip(pages, documents, sessions, strict=True)


def _roles_of_events(events: ClickTable, needed: Sequence[str]) -> Roles:
    """The roles of a table of events, in which ``query_id`` names the page."""
    columns = dict(events.roles.columns)
    if "page" not in columns and is_named(columns.get("query"), UBI_PAGE):
        columns["page"] = columns.pop("query")
    absent = next((role for role in needed if role not in columns), None)
    if absent is not None:
        listed = ", ".join(events.names[:20])
        raise DataError(f"no field of the events is the {absent}; name it with {option(absent)}; they have {listed}")
    return Roles(columns)


def _add_hits(builder: LogBuilder, part: _Part) -> None:
    """Searches with a list of hits: the list is the page. Those without hits show nothing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = part.table.column(part.roles["hits"])
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        raise DataError(f"column {part.roles['hits']!r} must hold lists of document ids, holds {column.type}")
    full = part.filter(np.flatnonzero(pc.fill_null(pc.list_value_length(column), 0).to_numpy()))
    part = full.having("query")
    builder.count("searches_without_query", len(full) - len(part))
    column = part.table.column(part.roles["hits"]).combine_chunks()
    column = column.chunk(0) if hasattr(column, "chunks") else column
    sizes = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    documents = _Part(pa.table({"document": pc.list_flatten(column)}), Roles({"document": "document"}), part.first)
    if not len(documents):
        return
    page, query = part.codes("page", builder.pages), part.codes("query", builder.queries)
    session = part.codes("session" if "session" in part.roles else "page", builder.sessions)
    n = int(sizes.sum())
    builder.add(
        {},
        page=np.repeat(page, sizes),
        session=np.repeat(session, sizes),
        query=np.repeat(query, sizes),
        document=documents.codes("document", builder.documents),
        position=np.arange(n) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1,
        clicked=np.zeros(n, dtype=bool),
    )
