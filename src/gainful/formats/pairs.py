"""Files of preferences: CSV with the columns query, better, worse and, if pairs differ in weight, weight.

``better`` and ``worse`` are document ids if the data has them, otherwise the places of the documents among those of
their query, from 1, in the order of the data file.
"""

from __future__ import annotations

import csv
import os
import re
from typing import Any

import numpy as np

from gainful.data.dataset import RankingData
from gainful.data.pairs import COLUMNS, PreferredPairs, refuse_bad_pairs
from gainful.errors import DataError, FormatError, ParameterError, brief, option, shorten
from gainful.formats.files import PathLike, atomic_write, check_readable, reason
from gainful.formats.limits import MemoryLimit
from gainful.formats.sidecars import WEIGHT

PAIR_BYTES = 10  # of memory for each byte of the file: three Python numbers and their arrays
NUMBER = re.compile(WEIGHT.decode())


def read_pairs(path: Any, data: RankingData) -> PreferredPairs:
    """The preferences in a file about the documents of ``data``; those of queries that the data lacks are left out."""
    if not isinstance(path, (str, os.PathLike)):
        raise ParameterError.of("read", "pairs", "the path of a file of preferences", path)
    MemoryLimit(path).check(PAIR_BYTES * check_readable(path), "the list of pairs")
    documents = _Documents(data)
    better: list[int] = []
    worse: list[int] = []
    weight: list[float] = []
    lines: list[int] = []
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file, strict=True)
            names = rows.fieldnames or []
            if not {"query", *COLUMNS[:2]} <= set(names) or len(set(names)) < len(names):
                found = shorten(", ".join(names))
                expected = "the columns query, better and worse, and optionally weight"
                raise FormatError(f"expected {expected}, found {found}", path=path, line=1)
            for row in rows:
                if None in row or None in row.values():
                    raise FormatError(f"expected {len(names)} columns", path=path, line=rows.line_num)
                query = documents.queries.get(row["query"])
                if query is None:
                    continue
                try:
                    better.append(documents.row(query, row["better"]))
                    worse.append(documents.row(query, row["worse"]))
                    weight.append(_weight(row.get("weight", "1")))
                except DataError as error:
                    raise FormatError(str(error), path=path, line=rows.line_num) from None
                lines.append(rows.line_num)
    except (UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"is not CSV text in UTF-8: {reason(error)}", path=path) from None
    first, second = np.array(better, dtype=np.int64), np.array(worse, dtype=np.int64)
    weights = np.array(weight, dtype=np.float64)
    try:
        refuse_bad_pairs(
            first, second, weights, data.offsets, data.query_ids, lambda p: f"line {lines[p]}", documents.name
        )
    except DataError as error:
        raise FormatError(str(error), path=path) from None
    return PreferredPairs.of_rows(first, second, weights, data.offsets)


def write_pairs(data: RankingData, path: PathLike) -> None:
    """Write the preferences of ``data``, as :func:`read_pairs` reads them."""
    if data.pairs is None:
        raise FormatError("the data has grades, so there are no preferences to write", path=path)
    pairs, documents = data.pairs, _Documents(data)
    weighted = bool((pairs.weight != 1.0).any())
    columns: list[list[Any]] = [
        data.query_ids[pairs.query].tolist(),
        [documents.label(row) for row in pairs.better.tolist()],
        [documents.label(row) for row in pairs.worse.tolist()],
    ]
    with atomic_write(path) as file:
        text = _Encoded(file)
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("query", *COLUMNS) if weighted else ("query", *COLUMNS[:2]))
        writer.writerows(zip(*columns, *([pairs.weight.tolist()] if weighted else []), strict=True))


class _Encoded:
    """A binary file that takes text."""

    def __init__(self, file: Any):
        self._file = file

    def write(self, text: str) -> int:
        return int(self._file.write(text.encode()))


class _Documents:
    """The documents of the data by query and by what a file calls them."""

    def __init__(self, data: RankingData):
        self._data = data
        self.queries = {str(query): q for q, query in enumerate(data.query_ids.tolist())}
        self._rows: dict[int, dict[str, int]] = {}

    def row(self, query: int, name: str) -> int:
        """The row of a document of a query."""
        if query not in self._rows:
            rows = range(int(self._data.offsets[query]), int(self._data.offsets[query + 1]))
            names = [self.label(row) for row in rows]
            twice = next((one for one in names if names.count(one) > 1), None) if len(set(names)) < len(names) else None
            if twice is not None:
                raise DataError(
                    f"query {brief(self._data.query_ids[query])} has two documents {twice!r}, so a pair cannot name "
                    "them; give them different ids, or none"
                )
            self._rows[query] = dict(zip(names, rows, strict=True))
        found = self._rows[query].get(name)
        if found is None:
            n = len(self._rows[query])
            what = f"places from 1 to {n}" if self._data.doc_ids is None else "their ids"
            raise DataError(
                f"query {brief(self._data.query_ids[query])} has no document {shorten(name)}; documents are named by "
                f"{what}"
            )
        return found

    def label(self, row: int) -> str:
        """What a file calls the document of a row."""
        if self._data.doc_ids is not None:
            return str(self._data.doc_ids[row])
        query = int(np.searchsorted(self._data.offsets, row, side="right")) - 1
        return str(row - int(self._data.offsets[query]) + 1)

    def name(self, row: int) -> str:
        """The same in an error."""
        return f"document {shorten(self.label(row))}"


def _weight(text: str) -> float:
    if not NUMBER.fullmatch(text.strip()):
        raise DataError(f"expected a weight, a number from 0, found {shorten(text)}")
    return float(text)


def refuse_pairs(options: dict[str, Any], what: str) -> None:
    """Raise where a file of preferences cannot be used."""
    if options.get("pairs") is not None:
        raise ParameterError(f"{what} cannot use a file of preferences; leave out {option('pairs')}")
