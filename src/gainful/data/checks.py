"""Check data before training: what cannot be learned from, and what is probably a mistake.

Checks of features start from a sample of at most ``SAMPLE_ROWS`` rows, spread evenly over the data. Only columns that
look suspicious there are read in full, so that a check costs less than one pass over the matrix. For data in blocks
(:class:`ShardedData`, Dask), one task per block sends a summary of its grades and its share of the sample; what a
sample cannot prove (constant and duplicate features, shuffled row numbers) is not checked.

Queries of weight 0 are ignored, as in training.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from gainful.data.blocks import PerBlock
from gainful.data.dataset import Dataset, RankingData
from gainful.data.frames import CODES
from gainful.data.identifiers import LEAST_ROWS, MOSTLY, is_id_name, is_monotone, is_numbering
from gainful.data.rows import Array, rows_of_queries
from gainful.errors import DataWarning, ParameterError, RedundantFeaturesWarning, wording

SAMPLE_ROWS = 4096
SAMPLE_VALUES = 1 << 22  # in the dense sample of a sparse matrix; a wider matrix gives fewer rows
SAMPLE_QUERIES = 64  # queries whose first and last rows are compared
BLOCK_ROWS = 1 << 15  # rows of a column read at once
MANY_GRADES, MANY_FRACTIONS = 100, 32  # more distinct grades (integers, fractions) than this are scores
HIGH_GRADE = 31  # 2^g − 1 of a higher grade outweighs any number of lower ones
SHARED_QUERIES = 20  # queries with the same id in training and validation data whose rows are compared
NAMED = 3  # features named in a message

TINY = 1e-30  # LightGBM takes what is within ±1e-35 for 0
REDUNDANT = ("constant-features", "duplicate-features")


@dataclass(frozen=True)
class Finding:
    """Something about the data that you should know before training. ``str`` gives it in one line.

    ``code`` names the kind, ``message`` says what was found, ``advice`` what to do. ``features`` are the names of the
    features concerned, or their numbers from 1 if they have no names.
    """

    code: str
    message: str
    advice: str
    features: tuple[str, ...] = ()

    @property
    def category(self) -> type[DataWarning]:
        """The category of warning that ``fit`` issues."""
        return RedundantFeaturesWarning if self.code in REDUNDANT else DataWarning

    def to_dict(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, "advice": self.advice, "features": list(self.features)}

    def __str__(self) -> str:
        return f"{self.message}; {self.advice}"


def check_data(data: Dataset, valid: Dataset | None = None) -> list[Finding]:
    """Problems and probable mistakes in training data; an empty list if there are none.

    ``valid`` is validation data; it is only checked for queries that it shares with the training data. Queries of
    weight 0 are ignored in both.

    >>> import gainful
    >>> data = gainful.make_artificial(50)
    >>> gainful.check_data(data)
    []
    >>> rows = gainful.RankingData.from_rows(data.X, data.y, qid=range(data.n_rows))
    >>> print(gainful.check_data(rows)[0])
    every query has one row, so there is nothing to rank; check the query ids (qid): is it a row number?
    """
    for name, given in (("data", data), ("valid", valid)):
        if not isinstance(given, Dataset) and not (name == "valid" and given is None):
            raise ParameterError.of("check_data", name, "a RankingData or a ShardedData", type(given).__name__)
    glance = _glance(data)
    if glance is None:
        return [Finding("no-weight", "every query has weight 0, so there is nothing to learn", "check the weights")]
    in_one_piece = isinstance(data, RankingData) and (isinstance(data.X, np.ndarray) or hasattr(data.X, "indptr"))
    with np.errstate(over="ignore", invalid="ignore"):  # differences of infinite or nearly infinite values
        findings = list(_query_findings(glance, data.has_pairs))
        findings += [] if data.has_clicks else _grade_findings(glance)  # rates of clicks may have any value
        findings += _feature_findings(glance, _CountedRows(cast(RankingData, data)) if in_one_piece else None)
    if data.has_positions and not data.has_propensities:
        findings += _position_findings(data)
    if valid is not None:
        findings += _shared_query_findings(data, valid)
    return findings


# -- warnings of fit ---------------------------------------------------------------------------------------------------

_checked: ContextVar[bool] = ContextVar("gainful_data_checked", default=False)


@contextmanager
def skip_checks() -> Iterator[None]:
    """Within this block ``fit`` does not check its data: callers that train on it many times have checked it once."""
    before = _checked.set(True)
    try:
        yield
    finally:
        _checked.reset(before)


def skips_checks() -> bool:
    """Whether this is inside :func:`skip_checks`."""
    return _checked.get()


def warn_about_data(data: Any, valid: Any = None, *, stacklevel: int = 3) -> None:
    """Warn once per finding, in one line each; do nothing within :func:`skip_checks`.

    The warning points to the caller of the decorated function that calls this one.
    """
    if _checked.get():
        return
    for finding in check_data(data, valid):
        warnings.warn(str(finding), finding.category, stacklevel=stacklevel + 1)


def warn_about_clicks(measured: Dataset) -> None:
    """Warn if metrics are about to take clicks as grades. Points to the caller as :func:`warn_about_data` does."""
    if measured.has_clicks:
        warnings.warn(
            "metrics take the clicks of the data as grades, uncorrected, and favour the order in which documents were "
            f"shown; measure on data with grades ({wording('test or valid', '--test or --valid')}), or estimate the "
            f"value of a ranker with {wording('gainful.estimate_value', 'gainful clicks evaluate')}",
            DataWarning,
            stacklevel=4,
        )


# -- what the checks look at -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Glance:
    """Counts over all rows, and a sample of the rows in input order."""

    n_rows: int
    n_queries: int
    n_single: int  # queries with one row
    n_mixed: int  # queries with two different grades, or with preferences
    highest: float
    names: tuple[str, ...] | None
    codes: bool  # features are codes of bins
    X: Array  # (sample, n_features), dense; no rows if the matrix is too wide to check
    y: Array

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    def name(self, j: int) -> str:
        return str(j + 1) if self.names is None else self.names[j]


class _CountedRows:
    """The queries of a block whose weight is not 0, and their rows; features are fetched on demand."""

    def __init__(self, data: RankingData):
        self.X, self.is_sparse = data.X, data.is_sparse
        self.y, self.offsets, self.query_ids, self.input_order = data.y, data.offsets, data.query_ids, data.input_order
        self._rows: Array | None = None  # row numbers in X; None for all
        weights = data.query_weights
        if weights is not None and not weights.all():
            queries = np.flatnonzero(weights)
            self._rows = rows_of_queries(data.offsets, queries)
            self.y, self.query_ids = data.y[self._rows], data.query_ids[queries]
            self.offsets = np.concatenate([[0], np.cumsum(data.counts[queries])])
            self.input_order = None if data.input_order is None else data.input_order[self._rows]

    @property
    def n_rows(self) -> int:
        return len(self.y)

    @property
    def n_queries(self) -> int:
        return len(self.query_ids)

    def features(self, rows: Any, columns: Any = slice(None)) -> Array:
        """X of some rows and columns, dense."""
        if self._rows is not None:
            rows = self._rows[rows]
        if isinstance(self.X, np.ndarray):
            both = isinstance(rows, np.ndarray) and not isinstance(columns, slice)
            return np.asarray(self.X[np.ix_(rows, columns)] if both else self.X[rows, columns])
        return _dense(self.X[rows][:, columns])

    def columns(self, columns: Any) -> Any:
        """Whole columns, stored in the form of X."""
        return self.X[:, columns] if self._rows is None else self.X[:, columns][self._rows]

    def column(self, j: int) -> Array:
        return _dense(self.columns([j])).ravel().astype(np.float64)

    def as_given(self, values: Array) -> Array:
        """Values of all rows in input order."""
        return values if self.input_order is None else values[np.argsort(self.input_order)]


def _glance(data: Dataset) -> _Glance | None:
    """None if every query has weight 0."""
    n = SAMPLE_ROWS
    if data.is_sparse:
        n = min(n, SAMPLE_VALUES // max(1, data.n_features))
        n = n if n >= LEAST_ROWS else 0  # too wide to check
    if data.whole is not None:
        return _glance_of_block(data.whole, n)
    shares = np.diff(np.linspace(0, n, data.n_blocks + 1).astype(np.int64)).tolist()
    answers: list[_Glance | None] = data.map(_glance_of_block, PerBlock(tuple(shares)))
    parts = [part for part in answers if part is not None]
    if not parts:
        return None
    return _Glance(
        n_rows=sum(part.n_rows for part in parts),
        n_queries=sum(part.n_queries for part in parts),
        n_single=sum(part.n_single for part in parts),
        n_mixed=sum(part.n_mixed for part in parts),
        highest=max(part.highest for part in parts),
        names=data.feature_names,
        codes=parts[0].codes,
        X=np.concatenate([part.X for part in parts]),
        y=np.concatenate([part.y for part in parts]),
    )


def _glance_of_block(data: RankingData, n: int) -> _Glance | None:
    """The glance at one block, with ``n`` rows for the sample; None if none of its queries counts."""
    counted = _CountedRows(data)
    if counted.n_queries == 0:
        return None
    starts = counted.offsets[:-1]
    if data.pairs is None:
        mixed = np.minimum.reduceat(counted.y, starts) != np.maximum.reduceat(counted.y, starts)
    else:
        mixed = (data.pairs.counts > 0) & (True if data.query_weights is None else data.query_weights > 0.0)
    rows = np.unique(np.linspace(0, counted.n_rows - 1, min(n, counted.n_rows)).astype(np.int64))
    if counted.input_order is not None:
        rows = rows[np.argsort(counted.input_order[rows])]
    return _Glance(
        n_rows=counted.n_rows,
        n_queries=counted.n_queries,
        n_single=int((np.diff(counted.offsets) == 1).sum()),
        n_mixed=int(mixed.sum()),
        highest=float(counted.y.max()),
        names=data.feature_names,
        codes=data.X.dtype in CODES,
        X=counted.features(rows),
        y=counted.y[rows],
    )


# -- queries and grades ------------------------------------------------------------------------------------------------


def _query_findings(seen: _Glance, has_pairs: bool) -> Iterator[Finding]:
    ids = wording("the query ids (qid)", "which column is the query (--read qid=…)")
    grades = wording("the grades (y) and the query ids (qid)", "the columns of grade and query (--read grade=…, qid=…)")
    single = seen.n_single / seen.n_queries
    if seen.n_single == seen.n_queries > 1:
        yield Finding(
            "one-row-queries",
            "every query has one row, so there is nothing to rank",
            f"check {ids}: is it a row number?",
        )
    elif seen.n_mixed == 0 and has_pairs:
        yield Finding(
            "no-pairs",
            "no query has a preference, so there is nothing to learn",
            wording("check the pairs", "check the queries in the file of pairs"),
        )
    elif seen.n_mixed == 0:
        yield Finding(
            "one-grade",
            "no query has rows of two different grades, so there is nothing to learn",
            f"check {grades}",
        )
    elif single >= MOSTLY and seen.n_queries >= LEAST_ROWS:
        yield Finding(
            "one-row-queries",
            f"{seen.n_single:,} of {seen.n_queries:,} queries have one row, and nothing can be learned from them",
            f"check {ids}",
        )


def _position_findings(data: Dataset) -> Iterator[Finding]:
    """Pages under one query id. With propensities they are fine: a document counts by all its positions."""
    repeats = sum(data.map(_queries_with_repeated_positions))
    if repeats:
        yield Finding(
            "repeated-positions",
            f"{repeats:,} of {data.n_queries:,} queries have two rows in the same position, as if several pages were "
            "one list",
            f"give each page a query id of its own {wording('(qid)', '(--read qid=…)')}",
        )


def _queries_with_repeated_positions(data: RankingData) -> int:
    assert data.positions is not None
    shown = np.flatnonzero(data.positions)
    query = np.repeat(np.arange(data.n_queries), data.counts)[shown]
    order = np.lexsort((data.positions[shown], query))
    query, position = query[order], data.positions[shown][order]
    again = (query[1:] == query[:-1]) & (position[1:] == position[:-1])
    return len(np.unique(query[1:][again]))


def _grade_findings(seen: _Glance) -> Iterator[Finding]:
    distinct = np.unique(seen.y)
    whole = bool((distinct == np.floor(distinct)).all())
    if len(distinct) > (MANY_GRADES if whole else MANY_FRACTIONS):
        yield Finding(
            "scores-as-grades",
            f"the grades have at least {len(distinct):,} different values and look like scores",
            "map them to a few grades such as 0 to 4, or measure with a linear gain: ndcg@10(gain=linear)",
        )
    elif seen.highest > HIGH_GRADE:
        yield Finding(
            "high-grades",
            f"the highest grade is {seen.highest:g}, whose gain 2^{seen.highest:g} − 1 outweighs all others",
            "number the grades 0, 1, 2, …, or measure with a linear gain: ndcg@10(gain=linear)",
        )


# -- features ----------------------------------------------------------------------------------------------------------


def _feature_findings(seen: _Glance, data: _CountedRows | None) -> Iterator[Finding]:
    """Findings about columns; ``data`` is given if whole columns can be read."""
    if len(seen.y) < LEAST_ROWS or seen.n_features == 0:
        return
    steady = (_same(seen.X, seen.X[:1])).all(axis=0)
    leaks = [j for j in _grade_copies(seen.X, seen.y) if data is None or _grade_copies(data.column(j)[:, None], data.y)]
    what = "{features} {is} the grade itself, or {rises} or {falls} exactly with it"
    yield from _about(seen, leaks, "leak", what, "leave out what is not known at ranking time")
    others = np.setdiff1d(np.flatnonzero(~steady), leaks)
    yield from _identifiers(seen, data, others)
    yield from _tiny(seen, data, others)
    if data is not None:
        constant = _constant(data, np.flatnonzero(steady))
        what = "{features} {has} the same value in every row and cannot help"
        yield from _about(seen, constant, "constant-features", what, "harmless, but is this intended?")
        yield from _duplicates(seen, _duplicate_pairs(data, seen.X, np.setdiff1d(np.arange(seen.n_features), constant)))


def _identifiers(seen: _Glance, data: _CountedRows | None, columns: Array) -> Iterator[Finding]:
    X = seen.X[:, columns]
    whole = columns[((np.floor(X) == X) | np.isnan(X)).all(axis=0)]
    named = [j for j in whole if is_id_name(seen.name(j)) and len(np.unique(seen.X[:, j])) > 2]
    numbered = [] if seen.codes else _numbering(seen, data, np.setdiff1d(whole, named))
    what = "{features} {looks} like identifiers or row numbers, which say nothing about new documents"
    advice = wording(
        "leave them out of X (in a table, features=[…] names those to keep)",
        "leave them out (of a table: --read features=… names those to keep)",
    )
    yield from _about(seen, sorted({int(j) for j in (*named, *numbered)}), "identifiers", what, advice)


def _tiny(seen: _Glance, data: _CountedRows | None, columns: Array) -> Iterator[Finding]:
    suspects = columns[np.fmax.reduce(np.abs(seen.X[:, columns]), axis=0) < TINY]
    found = [j for j in suspects if data is None or np.fmax.reduce(np.abs(data.column(int(j)))) < TINY]
    what = f"{{features}} {{has}} no value beyond ±{TINY:g}, which trees take for 0"
    yield from _about(seen, found, "tiny-features", what, "multiply such features by a large number")


def _duplicates(seen: _Glance, found: Sequence[tuple[int, int]]) -> Iterator[Finding]:
    if found:
        pairs = ", ".join(f"{seen.name(j)} = {seen.name(first)}" for j, first in found[:NAMED])
        more = ", …" if len(found) > NAMED else ""
        repeats = "feature repeats" if len(found) == 1 else "features repeat"
        yield Finding(
            "duplicate-features",
            f"{len(found):,} {repeats} another in every row ({pairs}{more})",
            "harmless for trees, but a linear ranker splits the weight between them; leave out the copies",
            tuple(seen.name(j) for j, _ in found),
        )


def _about(seen: _Glance, found: Iterable[int], code: str, message: str, advice: str) -> Iterator[Finding]:
    """A finding about these features, if there are any."""
    names = tuple(seen.name(int(j)) for j in found)
    one = len(names) == 1
    listed = ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")
    verbs = {"is": "are", "has": "have", "looks": "look", "rises": "rise", "falls": "fall"}
    features = f"feature {listed}" if one else f"{len(names):,} of {seen.n_features:,} features ({listed})"
    text = message.format(features=features, **{verb: verb if one else plural for verb, plural in verbs.items()})
    if names:
        yield Finding(code, text, advice, names)


def _same(block: Array, row: Array) -> Array:
    """Which values equal those of a row; missing values equal each other."""
    return np.asarray((block == row) | ((block != block) & (row != row)))


def _grade_copies(X: Array, y: Array) -> list[int]:
    """Columns that are strictly monotone functions of the grade, and the grade of them."""
    order = np.argsort(y, kind="stable")
    equal = np.diff(y[order]) == 0
    if equal.all():
        return []
    steps = np.diff(X[order].astype(np.float64), axis=0)
    flat = (steps[equal] == 0).all(axis=0)
    rises, falls = (steps[~equal] > 0).all(axis=0), (steps[~equal] < 0).all(axis=0)
    return [int(j) for j in np.flatnonzero(flat & (rises | falls))]


def _numbering(seen: _Glance, data: _CountedRows | None, columns: Array) -> list[int]:
    """Which integer columns number the rows or the queries."""
    X = seen.X[:, columns]
    if data is None:
        return [int(j) for j in columns[is_monotone(X)]]
    found = [int(j) for j in columns[_all_differ(X)] if is_numbering(data.as_given(data.column(j)))]
    for j in columns[_one_per_query(data, columns)] if data.n_queries >= LEAST_ROWS else ():
        column, starts = data.column(j), data.offsets[:-1]
        low, high = np.minimum.reduceat(column, starts), np.maximum.reduceat(column, starts)
        if np.array_equal(low, high) and (is_numbering(low) or _equal(low, data.query_ids)):
            found.append(int(j))
    return found


def _all_differ(X: Array) -> Array:
    """Columns without repeated or missing values."""
    return np.asarray((np.diff(np.sort(X, axis=0), axis=0) > 0).all(axis=0))


def _one_per_query(data: _CountedRows, columns: Array) -> Array:
    """Columns whose first and last values agree within each of some queries and differ between queries."""
    some = np.unique(np.linspace(0, data.n_queries - 1, min(SAMPLE_QUERIES, data.n_queries)).astype(np.int64))
    first, last = data.features(data.offsets[some]), data.features(data.offsets[some + 1] - 1)
    agree = np.equal(first[:, columns], last[:, columns]).all(axis=0)
    return np.asarray(agree & _all_differ(first[:, columns]))


def _equal(values: Array, ids: Array) -> bool:
    return ids.dtype.kind in "iuf" and np.array_equal(values, ids.astype(np.float64))


# -- whole columns -----------------------------------------------------------------------------------------------------


def _dense(X: Any) -> Array:
    return X if isinstance(X, np.ndarray) else np.asarray(X.toarray())


def _constant(data: _CountedRows, columns: Array) -> Array:
    """Which columns never change. A column of a sparse matrix that is never set is not a feature of the data."""
    if data.is_sparse:
        chosen = data.columns(columns).tocsc()
        full = np.diff(chosen.indptr) == data.n_rows
        kept = [i for i in np.flatnonzero(full) if len(np.unique(chosen[:, [i]].data)) == 1]
        return columns[kept]
    first = data.features(slice(1))
    for start in range(0, data.n_rows, BLOCK_ROWS):
        if len(columns) == 0:
            break
        block = data.features(slice(start, start + BLOCK_ROWS), columns)
        columns = columns[_same(block, first[:, columns]).all(axis=0)]
    return columns


def _duplicate_pairs(data: _CountedRows, sample: Array, columns: Array) -> list[tuple[int, int]]:
    """(column, earlier equal column) pairs: equal in the sample, then in all rows by a hash of each block."""
    if data.is_sparse:  # most columns of a sparse matrix are zero in a sample
        columns = columns[(sample[:, columns] != 0).any(axis=0)]
    keys: dict[int, tuple[int, ...]] = {int(j): (_print(sample[:, j]),) for j in columns}
    for start in range(0, data.n_rows, BLOCK_ROWS):
        chosen = sorted(j for group in _groups(keys) for j in group)
        if not chosen:
            return []
        block = data.features(slice(start, start + BLOCK_ROWS), chosen)
        keys = {j: (*keys[j], _print(block[:, i])) for i, j in enumerate(chosen)}
    return sorted((j, group[0]) for group in _groups(keys) for j in group[1:])


def _groups(keys: dict[int, tuple[int, ...]]) -> list[list[int]]:
    found = defaultdict(list)
    for j, key in keys.items():
        found[key].append(j)
    return [sorted(group) for group in found.values() if len(group) > 1]


def _print(values: Array) -> int:
    return hash(np.ascontiguousarray(values + values.dtype.type(0)).tobytes())  # + 0: −0 is 0


# -- validation data ---------------------------------------------------------------------------------------------------


def _shared_query_findings(data: Dataset, valid: Dataset) -> Iterator[Finding]:
    mine = {query: q for q, query in _counted_ids(data)}
    theirs = _counted_ids(valid)
    shared = [(mine[query], q) for q, query in theirs if query in mine]
    if not shared:
        return
    if _restarts(data.query_ids) or _restarts(valid.query_ids):
        if data.whole is None or valid.whole is None:
            return  # their rows are not in this process
        some = [shared[i] for i in np.unique(np.linspace(0, len(shared) - 1, SHARED_QUERIES).astype(int))]
        same = sum(_rows_of(data.whole[a]) == _rows_of(valid.whole[b]) for a, b in some)
        if same == 0:
            return
        count = f"{len(shared):,}" if same == len(some) else f"at least {same:,}"
    else:
        count = f"{len(shared):,}"
    yield Finding(
        "shared-queries",
        f"{count} of {len(theirs):,} validation queries are also training queries, so validation cannot "
        "detect overfitting",
        wording("split the data by query, as gainful.split does", "split the data by query"),
    )


def _counted_ids(data: Dataset) -> list[tuple[int, Any]]:
    """Number and id of each query whose weight is not 0."""
    ids, weights = data.query_ids.tolist(), data.query_weights
    return [(q, query) for q, query in enumerate(ids) if weights is None or weights[q] > 0.0]


def _restarts(ids: Array) -> bool:
    """Whether ids count from 0 or 1 in each file, so that equal ids do not mean equal queries."""
    return ids.dtype.kind in "iu" and bool(ids.min() >= 0) and int(ids.max()) <= 2 * len(ids)


def _rows_of(query: RankingData) -> list[bytes]:
    return sorted(row.tobytes() for row in _dense(query.X).astype(np.float64))
