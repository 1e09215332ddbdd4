"""Ids become codes and rows become compact columns while a log is read, a part at a time."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from gainful.clicks.log import NUMBERS, ClickLog
from gainful.clicks.pages import Runs, tell_apart
from gainful.data.rows import Array, codes_by_first_appearance, is_rising
from gainful.errors import DataError, option
from gainful.formats.ids import check_ids, integers_if_canonical, string_array

MOST_CODES = np.iinfo(np.int32).max
# What a row, a run of rows, a number, an id and a letter of it take while the log is built, at its peak.
ROW_BYTES, RUN_BYTES, NUMBER_BYTES, ID_BYTES, LETTER_BYTES = 12, 64, 24, 200, 4


class Codes:
    """A number for each id, in order of first appearance."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.of: dict[str, int] = {}
        self.letters = 0

    @property
    def bytes_needed(self) -> int:
        return ID_BYTES * len(self.of) + LETTER_BYTES * self.letters

    def code(self, name: str) -> int:
        n = len(self.of)
        found = self.of.setdefault(name, n)
        if found == n:
            self.letters += len(name)
            if n == MOST_CODES:
                raise DataError(f"the log has more than {MOST_CODES:,} different {self.what} ids")
        return found

    def encode(self, words: Sequence[str], places: Array) -> Array:
        """Codes of ``words[places]``; each word is looked up once."""
        check_ids(words, f"{self.what} id")
        return np.array([self.code(word) for word in words], dtype=np.int32)[places]

    def names(self) -> Array:
        return integers_if_canonical(string_array(list(self.of)))


class ManyCodes:
    """The same for ids of which there may be nearly as many as rows: kept as numbers or by Arrow, joined at the end."""

    def __init__(self, what: str) -> None:
        self.what, self.n = what, 0
        self.parts: list[Any] = []  # int64 arrays of NumPy as long as all ids are whole numbers, else texts of Arrow
        self.are_numbers = True

    @property
    def bytes_needed(self) -> int:
        stored = sum(int(one.nbytes) for one in self.parts)
        return LETTER_BYTES * stored + (0 if self.are_numbers else ID_BYTES * self.n)

    def encode(self, words: Sequence[str], places: Array) -> Array:
        """Codes that :meth:`finish` turns into final ones."""
        import pyarrow as pa

        check_ids(words, f"{self.what} id")
        codes = np.asarray(places, dtype=np.int64) + self.n
        self.n += len(words)
        if self.n > MOST_CODES:
            raise DataError(f"the log has more than {MOST_CODES:,} different {self.what} ids")
        texts = pa.array(words, type=pa.large_string())
        numbers = _canonical_numbers(texts) if self.are_numbers else None
        if self.are_numbers and numbers is None:
            self.parts = [pa.array(one).cast(pa.large_string()) for one in self.parts]
            self.are_numbers = False
        self.parts.append(texts if numbers is None else numbers)
        return codes

    def finish(self) -> tuple[Array, Array]:
        """The final code of each code so far, and the ids."""
        import pyarrow as pa

        parts, self.parts = self.parts, []
        if not parts:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        if self.are_numbers:
            numbers = np.concatenate(parts)
            if is_rising(numbers):
                return np.arange(len(numbers), dtype=np.int32), numbers
            codes, ids = codes_by_first_appearance(numbers)
            return codes.astype(np.int32), ids
        found = pa.concat_arrays(parts).dictionary_encode()
        return found.indices.to_numpy(), string_array(found.dictionary.to_pylist())


def _canonical_numbers(texts: Any) -> Array | None:
    """The whole numbers that texts of Arrow are the usual form of, or None."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        numbers = texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    same = pc.all(pc.equal(numbers.cast(pa.large_string()), texts)).as_py()
    return np.array(numbers) if same is not False else None


class Column:
    """A column that grows by parts; parts that it missed are ``missing``."""

    def __init__(self, kind: str, missing: float = np.nan) -> None:
        self.values, self.missing = array(kind), missing

    def __len__(self) -> int:
        return len(self.values)

    def extend(self, part: Array) -> None:
        self.values.frombytes(np.ascontiguousarray(part, dtype=self.values.typecode).tobytes())

    def fill_to(self, n: int) -> None:
        if len(self) < n:
            self.extend(np.full(n - len(self), self.missing))

    def numpy(self) -> Array:
        return np.frombuffer(self.values, dtype=self.values.typecode)


class LogBuilder:
    """Rows of a log, added in parts; :meth:`build` makes the log.

    What the rows of a page share is kept once per run of neighbouring rows.
    """

    def __init__(self, feature_names: Sequence[str] = ()) -> None:
        self.sessions, self.pages = ManyCodes("session"), ManyCodes("page")
        self.queries, self.documents = Codes("query"), Codes("document")
        self.runs = {"page": Column("q"), "session": Column("i"), "query": Column("i"), "length": Column("i")}
        self.columns = {"document": Column("i"), "position": Column("i"), "clicked": Column("B", 0)}
        self.numbers = {name: Column("d") for name in NUMBERS}
        self.feature_names = tuple(feature_names)
        self.features = Column("f")
        self.counts: dict[str, int] = {}
        self.numbered_sessions = False
        self.page_is_session = False  # a page is a session and a query; else it has an id
        self.clicks_are_events = False  # they refer to pages by their ids
        self.has_positions = True  # else rows are in the order of their positions

    @property
    def n_rows(self) -> int:
        return len(self.columns["document"])

    @property
    def bytes_needed(self) -> int:
        """About what it takes to build the log of the rows so far."""
        numbers = sum(map(len, self.numbers.values())) + len(self.features)
        ids = sum(one.bytes_needed for one in (self.sessions, self.pages, self.queries, self.documents))
        return ROW_BYTES * self.n_rows + RUN_BYTES * len(self.runs["length"]) + NUMBER_BYTES * numbers + ids

    def add(
        self,
        more: dict[str, Array],
        *,
        page: Array | None,
        session: Array,
        query: Array,
        document: Array,
        position: Array,
        clicked: Array,
    ) -> None:
        """Add rows. Without ``page``, rows of one session and query are one page. Positions are codes."""
        before = self.n_rows
        self.page_is_session |= page is None
        runs = Runs.of_rows(session if page is None else page, session, query)
        for name, column in self.runs.items():
            if name != "page" or page is not None:
                column.extend(getattr(runs, name))
        for name, part in (
            ("document", document),
            ("position", position),
            ("clicked", clicked),
        ):
            self.columns[name].extend(part)
        for name, part in more.items():
            if name != "features":
                self.numbers[name].fill_to(before)
                self.numbers[name].extend(part)
        if self.feature_names:
            self.features.extend(more["features"])

    def count(self, name: str, n: int) -> None:
        if n:
            self.counts[name] = self.counts.get(name, 0) + n

    def finish_pages(self) -> Array:
        """Give pages their final codes; returns the final code of each code so far."""
        final = self.pages.finish()[0]
        page = self.runs["page"].numpy()
        page[:] = final[page]
        return final

    def build(self, *, repeats: str, holes: str) -> ClickLog:
        if not self.n_rows:
            raise DataError("there are no rows; a click log needs at least one")
        more: dict[str, Any] = {}
        for name, column in self.numbers.items():
            if len(column):
                column.fill_to(self.n_rows)
                more[name] = column.numpy()
        if self.feature_names:
            more["features"] = self.features.numpy().reshape(self.n_rows, len(self.feature_names))
        page, session, query, length = (column.numpy() for column in self.runs.values())
        session_ids = None
        if not self.numbered_sessions:
            final, session_ids = self.sessions.finish()
            session[:] = final[session]
            del final
        if self.page_is_session:
            page = session.astype(np.int64)
            page <<= 31
            page |= query
        else:
            apart = tell_apart(page, session, query)
            if self.clicks_are_events and apart is not page:
                raise DataError(
                    "a page id is used by several sessions or queries, so it is unknown which page a click event is "
                    f"on; name a column of unique ids with {option('page')}"
                )
            page = apart
        made = {name: column.numpy() for name, column in self.columns.items()}
        return ClickLog.of_codes(
            runs=Runs(page, session, query, length),
            document=made["document"],
            position=made["position"] if self.has_positions else None,
            clicked=made["clicked"].view(bool),
            session_ids=session_ids,
            query_ids=self.queries.names(),
            document_ids=self.documents.names(),
            more=more,
            feature_names=self.feature_names or None,
            repeats=repeats,
            holes=holes,
            counts=self.counts,
        )
