"""Files beside a data file, as LightGBM and XGBoost use them: ``train.txt.query`` beside ``train.txt``.

====================  ==================================================================================================
``FILE.query``        the number of rows of each query, one per line, in the order of the rows (LightGBM)
``FILE.group``        the same (XGBoost)
``FILE.weight``       one weight per line: of each row (LightGBM) or of each query (XGBoost)
``FILE.init``         the score of each row that training starts from, one per line (LightGBM)
``FILE.base_margin``  the same (XGBoost)
``FILE.position``     positions of clicks: not read by itself, with a warning
====================  ==================================================================================================

Beside ``train.txt.gz``, both ``train.txt.gz.query`` and ``train.txt.query`` count.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gainful.data.rows import Array, check_query_weights, split_weights
from gainful.errors import DataError, DataWarning, FormatError, ParameterError, option, plural, shorten, wording
from gainful.formats.files import UTF8_MARK, PathLike, check_readable, compression_of
from gainful.formats.ids import check_ids
from gainful.formats.limits import MemoryLimit

SIZES = (".query", ".group")
WEIGHTS = (".weight",)
INIT_SCORES = (".init", ".base_margin")
POSITIONS = (".position",)
SIZE = rb"0*+[1-9]\d{0,14}"
WEIGHT = rb"\+?(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?"
SCORE = rb"[+-]?(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?"
LINE_BYTES = 100  # of a number as a Python object and in an array


@dataclass(frozen=True)
class Sidecars:
    """What stands beside a data file: sizes of the queries, weights, initial scores; or one query id for all rows."""

    path: PathLike
    sizes: Array | None = None
    sizes_path: Path | None = None
    weights: Array | None = None
    weights_path: Path | None = None
    init: Array | None = None
    init_path: Path | None = None
    query_id: str | None = None

    @property
    def name_queries(self) -> bool:
        """Whether rows need no query id of their own."""
        return self.sizes is not None or self.query_id is not None

    def ids(self, first: int, n: int) -> Array:
        """The query ids of ``n`` rows from row ``first``: 0, 1, … by size, or the one id."""
        if self.query_id is not None:
            return np.full(n, self.query_id)
        assert self.sizes is not None
        return np.searchsorted(np.cumsum(self.sizes), np.arange(first, first + n), side="right").astype(np.int64)

    def check_rows(self, n_rows: int) -> None:
        """Refuse sizes that do not add up to the rows of the file, and initial scores that are too few or too many."""
        self.init_by_row(n_rows)
        if self.sizes is not None and self.sizes.sum() != n_rows:
            raise FormatError(
                f"the sizes add up to {plural(int(self.sizes.sum()), 'row')}, but {self.path} has {n_rows:,}",
                path=self.sizes_path,
            )

    def check_queries(self, offsets: Array) -> None:
        """Refuse sizes that contradict the query ids in the rows."""
        if self.sizes is not None and not np.array_equal(self.sizes, np.diff(offsets)):
            n = plural(len(offsets) - 1, "query", "queries")
            raise FormatError(
                f"the sizes contradict the query ids in {self.path}, which has {n} of other sizes; pass "
                f"{option('sidecars', False)} to ignore the files beside it",
                path=self.sizes_path,
            )

    def weights_by_row(self, offsets: Array, order: Array | None = None) -> Array | None:
        """The weight of each row; ``order[i]`` is the line in the file of row i, if rows moved."""
        if self.weights is None:
            return None
        n_queries, n_rows = len(offsets) - 1, int(offsets[-1])
        if len(self.weights) not in (n_queries, n_rows):
            raise FormatError(
                f"there are {plural(len(self.weights), 'weight')} for {plural(n_rows, 'row')} of "
                f"{plural(n_queries, 'query', 'queries')}; one weight per row or per query is needed",
                path=self.weights_path,
            )
        if len(self.weights) == n_queries:
            weights = np.repeat(self.weights, np.diff(offsets))
        else:
            weights = self.weights if order is None else self.weights[order]
        try:
            check_query_weights(split_weights(weights, offsets)[0], n_queries)
        except DataError as error:
            raise FormatError(str(error), path=self.weights_path) from None
        return weights

    def init_by_row(self, n_rows: int, order: Array | None = None) -> Array | None:
        """The initial score of each row; ``order`` as above."""
        if self.init is None:
            return None
        if len(self.init) != n_rows:
            raise FormatError(
                f"there are {plural(len(self.init), 'score')}, but {self.path} has {plural(n_rows, 'row')}",
                path=self.init_path,
            )
        return self.init if order is None else self.init[order]

    def init_of_part(self, first: int, n: int) -> Array | None:
        """The initial scores of ``n`` rows from row ``first``, for a file that is read in parts."""
        if self.init is not None and len(self.init) < first + n:
            raise FormatError(f"there are {plural(len(self.init), 'score')}, fewer than rows", path=self.init_path)
        return None if self.init is None else self.init[first : first + n]

    def row_weights(self, first: int, n: int) -> Any:
        """The weights of ``n`` rows from row ``first``, for a file that is read in parts."""
        if self.weights is None:
            return None
        weights = self.weights
        if self.sizes is not None and len(weights) == len(self.sizes) < self.sizes.sum():
            weights = np.repeat(weights, self.sizes)
        if len(weights) < first + n:
            raise FormatError(
                f"there are {plural(len(weights), 'weight')}, fewer than rows; a file that is read in parts needs one "
                "per row, or the sizes of the queries beside it",
                path=self.weights_path,
            )
        return weights[first : first + n]


def find_sidecars(path: PathLike, wanted: bool = True, query_id: Any = None) -> Sidecars:
    """The contents of the files beside ``path``; ``wanted=False`` looks for none."""
    if query_id is not None:
        query_id = check_query_id(query_id)
    if not isinstance(wanted, bool):
        raise ParameterError.of("read", "sidecars", "True or False", wanted)
    if not wanted:
        return Sidecars(path, query_id=query_id)
    sizes_path, weights_path, init_path = (_beside(path, suffixes) for suffixes in (SIZES, WEIGHTS, INIT_SCORES))
    if query_id is not None and sizes_path is not None:
        raise FormatError(
            f"gives the sizes of queries, but query_id says that all rows are query {query_id!r}; leave out query_id",
            path=sizes_path,
        )
    found = _beside(path, POSITIONS)
    if found is not None:
        how = wording("fit(…, position=…)", f"--position {found}")
        warnings.warn(f"{found} is ignored; if the grades are clicks, train with {how}", DataWarning, stacklevel=2)
    return Sidecars(
        path,
        sizes=None if sizes_path is None else _numbers(sizes_path, SIZE, "the size of a query").astype(np.int64),
        sizes_path=sizes_path,
        weights=None if weights_path is None else _numbers(weights_path, WEIGHT, "a weight"),
        weights_path=weights_path,
        init=None if init_path is None else _numbers(init_path, SCORE, "a score"),
        init_path=init_path,
        query_id=query_id,
    )


def files_beside(path: PathLike) -> dict[Path, str]:
    """The files beside ``path``, and what they hold."""
    held: dict[tuple[str, ...], str] = {
        SIZES: "sizes of the queries",
        WEIGHTS: "weights",
        INIT_SCORES: "initial scores",
        POSITIONS: "positions of clicks, not read by itself",
    }
    found = {_beside(path, suffixes): what for suffixes, what in held.items()}
    return {file: what for file, what in found.items() if file is not None}


def check_query_id(query_id: Any) -> str:
    """One query id for all rows of a file, as text."""
    if isinstance(query_id, bool) or not isinstance(query_id, (str, int, np.integer)) or query_id == "":
        raise ParameterError.of("read", "query_id", "the id of the one query in the file", query_id)
    check_ids([str(query_id)], "query_id")
    return str(query_id)


def _beside(path: PathLike, suffixes: tuple[str, ...]) -> Path | None:
    """The file beside ``path`` with one of these suffixes added, if there is one."""
    whole = Path(path)
    homes = [whole] if compression_of(path) is None else [whole, whole.with_suffix("")]
    found = [beside for home in homes for suffix in suffixes if (beside := Path(f"{home}{suffix}")).is_file()]
    if len(found) > 1:
        raise FormatError(f"has the same role as {found[0].name}; keep one of them", path=found[1])
    return found[0] if found else None


def _numbers(path: Path, number: bytes, what: str) -> Array:
    """The numbers of a file, one per line."""
    MemoryLimit(path).check(LINE_BYTES * check_readable(path), "the list of numbers")
    text = path.read_bytes().removeprefix(UTF8_MARK).rstrip()
    lines = re.compile(rb"(?:[ \t]*+" + number + rb"[ \t\r]*+(?:\n|\Z))*+").match(text)
    end = lines.end() if lines else 0
    if end < len(text) or not text:
        end = text.rfind(b"\n", 0, end) + 1  # Python 3.11.2 stops inside the line
        found = shorten(text[end : end + 80].split(b"\n")[0].decode("utf-8", "replace").strip(), 40)
        raise FormatError(f"expected {what}, found {found}", path=path, line=text.count(b"\n", 0, end) + 1)
    numbers = np.array(text.split()).astype(np.float64)
    if not np.isfinite(numbers).all():
        raise FormatError(f"{what} is too large", path=path, line=int(np.argmax(~np.isfinite(numbers))) + 1)
    return numbers
