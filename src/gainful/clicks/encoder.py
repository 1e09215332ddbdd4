"""Ids become codes and rows become compact columns while a log is read, a part at a time."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from gainful.clicks.log import NUMBERS, ClickLog
from gainful.data.rows import Array
from gainful.errors import DataError
from gainful.formats.ids import check_ids, integers_if_canonical, string_array

MOST_CODES = np.iinfo(np.int32).max


class Codes:
    """A number for each id, in order of first appearance."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.of: dict[str, int] = {}

    def code(self, name: str) -> int:
        found = self.of.setdefault(name, len(self.of))
        if found == MOST_CODES:
            raise DataError(f"the log has more than {MOST_CODES:,} different {self.what} ids")
        return found

    def encode(self, words: Sequence[str], places: Array) -> Array:
        """Codes of ``words[places]``; each word is looked up once."""
        check_ids(words, f"{self.what} id")
        return np.array([self.code(word) for word in words], dtype=np.int32)[places]

    def names(self) -> Array:
        return integers_if_canonical(string_array(list(self.of)))


class ManyCodes:
    """The same for ids of which there may be nearly as many as rows: kept by Arrow, and joined at the end."""

    def __init__(self, what: str) -> None:
        self.what, self.n = what, 0
        self.parts: list[Any] = []

    def encode(self, words: Sequence[str], places: Array) -> Array:
        """Codes that :meth:`finish` turns into final ones."""
        import pyarrow as pa

        check_ids(words, f"{self.what} id")
        codes = np.asarray(places, dtype=np.int64) + self.n
        self.n += len(words)
        if self.n > MOST_CODES:
            raise DataError(f"the log has more than {MOST_CODES:,} different {self.what} ids")
        self.parts.append(pa.array(words, type=pa.large_string()))
        return codes

    def finish(self) -> tuple[Array, Array]:
        """The final code of each code so far, and the ids."""
        import pyarrow as pa
        import pyarrow.compute as pc

        found = pa.concat_arrays(self.parts).dictionary_encode()
        self.parts = []
        names = found.dictionary
        try:
            numbers = names.cast(pa.int64())
            if pc.all(pc.equal(numbers.cast(pa.large_string()), names)).as_py():  # canonical ones
                names = numbers
        except pa.ArrowInvalid:
            pass
        ids = names.to_numpy(zero_copy_only=False)
        return found.indices.to_numpy(), ids if ids.dtype.kind == "i" else string_array(ids.tolist())


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
    """Rows of a log, added in parts; :meth:`build` makes the log."""

    def __init__(self, feature_names: Sequence[str] = ()) -> None:
        self.sessions, self.queries, self.documents = ManyCodes("session"), Codes("query"), Codes("document")
        self.columns = {name: Column("i") for name in ("session", "query", "document")}
        self.columns |= {"position": Column("f"), "clicked": Column("B", 0)}
        self.page = Column("i")
        self.numbers = {name: Column("d") for name in NUMBERS}
        self.feature_names = tuple(feature_names)
        self.features: list[Array] = []
        self.counts: dict[str, int] = {}
        self.numbered_sessions = False
        self.page_is_session = False  # a page is a session and a query; else it has an id
        self.has_positions = True  # else rows are in the order of their positions

    @property
    def n_rows(self) -> int:
        return len(self.columns["query"])

    def add(self, more: dict[str, Array], *, page: Array | None, **columns: Array) -> None:
        """Add rows: all of ``session``, ``query``, ``document``, ``position``, ``clicked``.

        Without ``page``, rows of one session and query are one page.
        """
        before = self.n_rows
        if page is None:
            self.page_is_session = True
        else:
            self.page.extend(page)
        for name, column in self.columns.items():
            column.extend(columns[name])
        for name, part in more.items():
            if name != "features":
                self.numbers[name].fill_to(before)
                self.numbers[name].extend(part)
        if self.feature_names:
            self.features.append(np.asarray(more["features"], dtype=np.float32))

    def count(self, name: str, n: int) -> None:
        if n:
            self.counts[name] = self.counts.get(name, 0) + n

    def build(self, *, repeats: str, holes: str) -> ClickLog:
        if not self.n_rows:
            raise DataError("there are no rows; a click log needs at least one")
        more: dict[str, Any] = {}
        for name, column in self.numbers.items():
            if len(column):
                column.fill_to(self.n_rows)
                more[name] = column.numpy()
        if self.features:
            more["features"] = np.concatenate(self.features)
        made = {name: column.numpy() for name, column in self.columns.items()}
        made["clicked"] = made["clicked"].view(bool)
        session_ids = None
        if not self.numbered_sessions:
            final, session_ids = self.sessions.finish()
            made["session"] = final[made["session"]]
        made["page"] = self.page.numpy()
        if self.page_is_session:
            made["page"] = made["session"].astype(np.int64)
            made["page"] <<= 31
            made["page"] |= made["query"]
        if not self.has_positions:
            made["position"] = _order_in_page(made["page"])
        return ClickLog.of_codes(
            **made,
            session_ids=session_ids,
            query_ids=self.queries.names(),
            document_ids=self.documents.names(),
            more=more,
            feature_names=self.feature_names or None,
            repeats=repeats,
            holes=holes,
            counts=self.counts,
        )


def _order_in_page(page: Array) -> Array:
    """1, 2, … in the order of the rows of each page."""
    order = np.argsort(page, kind="stable")
    grouped = page[order]
    starts = np.concatenate([[0], np.flatnonzero(grouped[1:] != grouped[:-1]) + 1])
    position = np.empty(len(page))
    position[order] = np.arange(len(page)) - np.repeat(starts, np.diff(np.append(starts, len(page)))) + 1
    return position
