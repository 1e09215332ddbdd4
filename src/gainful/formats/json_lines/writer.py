"""Write JSON Lines: an object per row with qid, grade, those columns of rows that there are, and the features."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

import numpy as np

from gainful.data.categories import words_of_codes
from gainful.data.dataset import RankingData
from gainful.data.rows import row_chunks
from gainful.errors import FormatError
from gainful.formats.files import FileWriter, PathLike, open_compressed
from gainful.formats.ids import encode_all, plain_ids
from gainful.formats.table.writer import WELL_KNOWN, number_columns, refuse_wide

CHUNK_VALUES = 1 << 18


def open_writer(path: PathLike, data: RankingData) -> Writer:
    """A writer of one object per row. Features without names become f1, f2, …; a missing value is null."""
    return Writer(path, data)


class Writer(FileWriter):
    """Writes rows with the fields of ``data``, some at a time."""

    def __init__(self, path: PathLike, data: RankingData):
        super().__init__(path)
        refuse_wide(data, path)
        self.names = list(data.feature_names or (f"f{j + 1}" for j in range(data.n_features)))
        reserved = {name for names in WELL_KNOWN.values() for name in names}
        for name in self.names:
            if name.lower() in reserved:
                raise FormatError(
                    f"a feature is called {name!r}, which is the name of a query, grade, document, weight or initial "
                    "score column, or of one for clicks; rename it",
                    path=path,
                )

    def _open(self, stack: ExitStack) -> None:
        self._file = stack.enter_context(open_compressed(self.path))

    def append(self, data: RankingData) -> None:
        columns: dict[str, Any] = {"qid": plain_ids(data.query_ids, "query id", self.path)[_query_of_rows(data)]}
        columns["grade"] = data.y
        if data.doc_ids is not None:
            columns["doc_id"] = plain_ids(data.doc_ids, "document id", self.path)
        columns |= dict(number_columns(data).values())
        for name in ("qid", "doc_id"):
            if name in columns and columns[name].dtype.kind != "i":
                encode_all(columns[name].tolist(), "id", self.path)  # raises for what is not Unicode
        for rows in row_chunks(data.n_rows, data.n_features, CHUNK_VALUES):
            parts = [column[rows].tolist() for column in columns.values()]
            X = data.X[rows].toarray() if data.is_sparse else data.X[rows]
            for column, words in zip(X.T, data.categories or (None,) * data.n_features, strict=True):
                parts.append(_values(column) if words is None else words_of_codes(column, words))
            names = [*columns, *self.names]
            lines = (dict(zip(names, row, strict=True)) for row in zip(*parts, strict=True))
            text = "".join(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in lines)
            self._file.write(text.encode())


def _values(column: Any) -> list[float | None]:
    return [None if value != value else value for value in column.tolist()]


def _query_of_rows(data: RankingData) -> Any:
    return np.repeat(np.arange(data.n_queries), data.counts)
