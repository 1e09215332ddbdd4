"""``ClickLog``: result pages as they were shown, and what was clicked on them.

Conventions
-----------
A page is one list of results, shown once. Its rows are adjacent and sorted by position. Page ``i`` owns the rows
``offsets[i]:offsets[i + 1]``. Ids are held apart: a code is a place in the array of ids.

==================  =======================  ==================================================================
``offsets``         (n_pages + 1,) int64     starts at 0, strictly increasing
``session``         (n_pages,) int32         codes of ``session_ids``; a session may have several pages
``query``           (n_pages,) int32         codes of ``query_ids``
``document``        (n_rows,) int32          codes of ``document_ids``; distinct on a page
``position``        (n_rows,) int32          from 1, strictly increasing on a page
``clicked``         (n_rows,) bool
``features``        (n_rows, n_features)     or None
``propensity``      (n_rows,) float64        of being examined (click models) or shown here (estimates), or None
``time``            (n_rows,) float64        or None
``dwell``           (n_rows,) float64        time spent on a clicked document, NaN where unknown; or None
``grade``           (n_rows,) float64        human grades, NaN where unknown; or None
==================  =======================  ==================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gainful.clicks.pages import Mended, Runs, assemble, position_codes, tell_apart
from gainful.clicks.training_data import training_data
from gainful.data.dataset import RankingData
from gainful.data.frames import as_features
from gainful.data.rows import Array, as_id_array, check_column, check_names, codes_by_first_appearance, read_only
from gainful.errors import DataError, shorten

NOTHING_MENDED = Mended()
NUMBERS = ("propensity", "time", "dwell", "grade")  # optional columns of rows


@dataclass(frozen=True, eq=False, repr=False)
class ClickLog:
    """Result pages and clicks, checked and read-only. Build it with :meth:`from_rows` or :func:`gainful.read_clicks`.

    ``mended`` counts what was dropped or mended on the way.

    >>> import gainful
    >>> log = gainful.ClickLog.from_rows(
    ...     session=[1, 1, 2, 2], query=["shoes"] * 4, position=[1, 2, 1, 2],
    ...     document=["a", "b", "b", "a"], clicked=[1, 0, 1, 0],
    ... )
    >>> log.n_pages, log.n_clicks, log.clicks_by_position.tolist()
    (2, 2, [2, 0])
    """

    offsets: Array
    session: Array
    query: Array
    document: Array
    position: Array
    clicked: Array
    session_ids: Array | None  # None: sessions are numbered
    query_ids: Array
    document_ids: Array
    features: Any = None
    feature_names: tuple[str, ...] | None = None
    propensity: Array | None = None
    time: Array | None = None
    dwell: Array | None = None
    grade: Array | None = None
    mended: Mended = NOTHING_MENDED

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                object.__setattr__(self, name, read_only(value))

    @classmethod
    def from_rows(
        cls,
        *,
        session: Any,
        query: Any,
        position: Any,
        document: Any,
        clicked: Any,
        page: Any = None,
        features: Any = None,
        feature_names: Sequence[str] | None = None,
        propensity: Any = None,
        time: Any = None,
        dwell: Any = None,
        grade: Any = None,
        repeats: str = "merge",
        holes: str = "keep",
    ) -> ClickLog:
        """A log from columns, one entry per document shown, in any order.

        Parameters
        ----------
        session, query, document : ids, any hashables
        position : from 1, or from 0 if nearly all pages start there; NaN for a document that was clicked but not shown
        clicked : 0, 1 or a number of clicks, which counts as one; NaN counts as no click
        page : tells the pages of one session and query apart; without it they are one page
        features, propensity, time, dwell, grade : optional, one entry per row
        repeats : a document twice on a page: "merge" keeps the first row, with the clicks of both; "drop" drops the
            page
        holes : positions that a page skips: "keep" leaves positions as they are, "close" renumbers them, "drop" drops
            the page

        Whatever is dropped or changed is counted in ``mended``, and a warning says so.
        """
        codes, ids = {}, {}
        for name, column in (("session", session), ("query", query), ("document", document)):
            codes[name], ids[name] = codes_by_first_appearance(as_id_array(column, name))
        n = len(codes["session"])
        for name, column in codes.items():
            if len(column) != n:
                raise DataError(f"{name} has {len(column)} entries for {n} rows")
        if n == 0:
            raise DataError("there are no rows; a click log needs at least one")
        if page is None:
            page = codes["session"] * len(ids["query"]) + codes["query"]
        else:
            page = as_id_array(page, "page")
            if len(page) != n:
                raise DataError(f"page has {len(page)} entries for {n} rows")
            page = tell_apart(codes_by_first_appearance(page)[0], codes["session"], codes["query"])
        more: dict[str, Any] = {}
        for name, column in (("propensity", propensity), ("time", time), ("dwell", dwell), ("grade", grade)):
            if column is not None:
                more[name] = check_column(column, n, name)
        if features is not None:
            more["features"], names = as_features(features, "features")
            if more["features"].shape[0] != n:
                raise DataError(f"features has {more['features'].shape[0]} rows for {n} rows of the log")
            feature_names = feature_names if feature_names is not None else names
        clicks, counts = mend_clicks(check_column(clicked, n, "clicked"))
        made = cls.of_codes(
            runs=Runs.of_rows(page, codes["session"], codes["query"]),
            document=codes["document"].astype(np.int32),
            position=position_codes(check_column(position, n, "position")),
            clicked=clicks,
            session_ids=ids["session"],
            query_ids=ids["query"],
            document_ids=ids["document"],
            more=more,
            feature_names=feature_names,
            repeats=repeats,
            holes=holes,
            counts=counts,
        )
        made.mended.warn("the click log")
        return made

    @classmethod
    def of_codes(
        cls,
        *,
        runs: Runs,
        document: Array,
        position: Array | None,
        clicked: Array,
        session_ids: Array | None,
        query_ids: Array,
        document_ids: Array,
        more: Mapping[str, Any],
        feature_names: Sequence[str] | None = None,
        repeats: str = "merge",
        holes: str = "keep",
        counts: Mapping[str, int] | None = None,
    ) -> ClickLog:
        """A log from columns of codes, which become its own, with the names that they stand for; does not warn."""
        check_propensities(more.get("propensity"))
        found = assemble(runs, position, document, clicked, more, repeats=repeats, holes=holes, counts=counts)
        width = 0 if "features" not in more else more["features"].shape[1]
        return cls(
            offsets=found.offsets,
            session=found.session,
            query=found.query,
            document=found.document,
            position=found.position,
            clicked=found.clicked,
            session_ids=session_ids,
            query_ids=query_ids,
            document_ids=document_ids,
            feature_names=check_names(feature_names, width),
            mended=found.mended,
            **found.more,
        )

    # -- shape ---------------------------------------------------------------------------------------------------------

    @property
    def n_pages(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_rows(self) -> int:
        return len(self.document)

    @property
    def n_queries(self) -> int:
        """The number of different queries."""
        return len(np.unique(self.query))

    @property
    def n_sessions(self) -> int:
        return len(np.unique(self.session))

    @cached_property
    def n_clicks(self) -> int:
        return int(self.clicked.sum())

    @cached_property
    def counts(self) -> Array:
        """The number of documents on each page."""
        return np.diff(self.offsets)

    @cached_property
    def clicks_by_page(self) -> Array:
        """(n_pages,) int64."""
        return np.add.reduceat(self.clicked, self.offsets[:-1], dtype=np.int64)

    @property
    def last_position(self) -> int:
        return int(self.position.max())

    @property
    def shown_by_position(self) -> Array:
        """How many documents were shown in each position, from 1 on."""
        return np.bincount(self.position, minlength=2)[1:]

    @property
    def clicks_by_position(self) -> Array:
        return np.bincount(self.position, weights=self.clicked, minlength=2)[1:].astype(np.int64)

    def __len__(self) -> int:
        """The number of pages."""
        return self.n_pages

    def __repr__(self) -> str:
        return f"ClickLog({self.n_pages:,} pages, {self.n_rows:,} documents shown, {self.n_clicks:,} clicks)"

    # -- parts ---------------------------------------------------------------------------------------------------------

    def pages(self, which: Any) -> ClickLog:
        """The log of some pages: a mask, or their numbers in the order wanted."""
        which = np.asarray(which)
        if not which.size or (which.dtype == bool and not which.any()):
            raise DataError("no page is chosen; a click log needs at least one")
        chosen = np.arange(self.n_pages)[which]
        sizes = self.counts[chosen]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        rows = np.repeat(self.offsets[chosen] - offsets[:-1], sizes) + np.arange(offsets[-1])
        return self.replace(
            offsets=offsets,
            session=self.session[chosen],
            query=self.query[chosen],
            **{name: column[rows] for name, column in self._row_columns().items()},
        )

    def with_clicks(self, clicked: Any) -> ClickLog:
        """The same pages with other clicks, one per row."""
        return self.replace(clicked=check_clicks(check_column(clicked, self.n_rows, "clicked")))

    def replace(self, **changed: Any) -> ClickLog:
        held = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return ClickLog(**(held | changed))

    def _row_columns(self) -> dict[str, Any]:
        names = ("document", "position", "clicked", "features", *NUMBERS)
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    # -- as other things -----------------------------------------------------------------------------------------------

    @property
    def session_names(self) -> Array:
        """The session id of each page."""
        return self.session if self.session_ids is None else self.session_ids[self.session]

    def to_data(
        self, features: RankingData | None = None, *, propensity: Any = None, merge: bool = True
    ) -> RankingData:
        """Ranking data to train on: clicks as grades, and what corrects them for the positions shown.

        Parameters
        ----------
        features : ranking data with the features of the documents, by query id and document id; by default the log's
            own. Documents without features are left out
        propensity : the probability that each row of the log was examined; or a fitted click model, which knows it. By
            default that of the log, if it has one; False leaves it out
        merge : whether pages that differ in clicks only are counted together. The grades are then rates of clicks, and
            the weights of rows impressions; on whole pages, training without a clip is the same as training
            on every page (docs: what merging changes)

        With propensities there is one list for each query: a document counts by all its positions. Without them there
        is one list for each different page, with positions, from which training learns propensities.
        """
        return training_data(self, features, propensity, merge)

    def describe(self) -> dict[str, Any]:
        """What ``gainful clicks info`` prints."""
        clicks = self.clicks_by_page
        shown, clicked = self.shown_by_position, self.clicks_by_position
        return {
            "pages": self.n_pages,
            "sessions": self.n_sessions,
            "queries": self.n_queries,
            "documents": len(np.unique(self.document)),
            "rows": self.n_rows,
            "clicks": self.n_clicks,
            "clicks_per_page": self.n_clicks / self.n_pages,
            "pages_without_clicks": int((clicks == 0).sum()),
            "pages_with_several_clicks": int((clicks > 1).sum()),
            "features": 0 if self.features is None else int(self.features.shape[1]),
            "columns": [name for name in NUMBERS if getattr(self, name) is not None],
            "positions": [
                {"position": i + 1, "shown": int(n), "clicks": int(c), "rate": float(c / n)}
                for i, (n, c) in enumerate(zip(shown, clicked, strict=True))
                if n
            ],
            "mended": self.mended.to_dict(),
        }


def check_clicks(values: Array) -> Array:
    """Clicks as bool; anything but 0 and 1 is refused."""
    wrong = np.flatnonzero(~((values == 0) | (values == 1)))
    if len(wrong):
        raise DataError(f"clicked of row {int(wrong[0])} must be 0 or 1, was {shorten(float(values[wrong[0]]))}")
    return np.asarray(values == 1)


def mend_clicks(values: Array, row: Callable[[int], int] = int) -> tuple[Array, dict[str, int]]:
    """Clicks as bool, and counts for :class:`Mended`: several clicks are one, and a missing value is none.

    ``row`` gives the number of a row that messages name.
    """
    missing = np.isnan(values)
    wrong = np.flatnonzero(~missing & ~((values >= 0) & (values == np.floor(values)) & np.isfinite(values)))
    if len(wrong):
        raise DataError(
            f"clicked of row {row(int(wrong[0]))} must be 0, 1 or a number of clicks, was "
            f"{shorten(float(values[wrong[0]]))}"
        )
    further = int((values[values > 1] - 1).sum())
    return np.asarray(values >= 1), {"missing_clicks": int(missing.sum()), "repeated_clicks": further}


def check_propensities(values: Array | None, row: Callable[[int], int] = int) -> None:
    if values is None:
        return
    wrong = np.flatnonzero(~((values > 0) & (values <= 1)))
    if len(wrong):
        raise DataError(
            f"the propensity of row {row(int(wrong[0]))} must be a probability above 0, was {values[wrong[0]]:g}"
        )
