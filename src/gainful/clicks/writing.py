"""``write_clicks``: a click log as a table, one row per document shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gainful.clicks.judging import Judgments
from gainful.clicks.log import NUMBERS, ClickLog
from gainful.data.rows import Array
from gainful.errors import FormatError, shorten
from gainful.formats.files import PathLike, atomic_write, open_compressed
from gainful.formats.trec import write_qrels

PAGES_AT_ONCE = 1 << 16
TABLES = (".csv", ".csv.gz", ".csv.zst")  # of judgments
SUFFIXES = (*TABLES, ".parquet", ".jsonl", ".jsonl.gz", ".jsonl.zst")


def check_clicks_path(path: PathLike) -> str:
    """The suffix that says the format of a click log to be written."""
    name = Path(path).name.lower()
    found = next((suffix for suffix in SUFFIXES if name.endswith(suffix)), None)
    if found is None:
        raise FormatError(
            f"cannot infer the format of the click log; the suffixes are {', '.join(SUFFIXES)}", path=path
        )
    return found


def write_clicks(log: ClickLog, path: PathLike) -> None:
    """Write a click log as CSV, Parquet or JSON Lines, by the suffix; whole or not at all.

    :func:`gainful.read_clicks` reads it back. A column ``page`` is written if a session has a query twice.
    """
    suffix = check_clicks_path(path)
    if suffix == ".parquet":
        _write_parquet(log, path)
        return
    with open_compressed(path) as file:
        for i, part in enumerate(_tables(log)):
            file.write(_csv(part, header=i == 0) if suffix.startswith(".csv") else _json_lines(part))


def _csv(table: Any, *, header: bool) -> bytes:
    import pyarrow as pa
    from pyarrow import csv

    sink = pa.BufferOutputStream()
    csv.write_csv(table, sink, csv.WriteOptions(include_header=header, quoting_style="needed"))
    text: bytes = sink.getvalue().to_pybytes()
    return text


def _write_parquet(log: ClickLog, path: PathLike) -> None:
    import pyarrow.parquet as pq

    with atomic_write(path) as file:
        writer: Any = None
        for part in _tables(log):
            writer = writer or pq.ParquetWriter(file, part.schema)
            writer.write_table(part)
        writer.close()


def _tables(log: ClickLog) -> Any:
    """The rows as Arrow tables, some pages at a time."""
    import pyarrow as pa

    keys = (log.session.astype(np.int64) << 31) | log.query
    with_page = len(np.unique(keys)) < log.n_pages
    names = log.feature_names
    for first in range(0, log.n_pages, PAGES_AT_ONCE):
        last = min(first + PAGES_AT_ONCE, log.n_pages)
        rows = slice(int(log.offsets[first]), int(log.offsets[last]))
        sizes = log.counts[first:last]
        columns: dict[str, Any] = {"page": np.repeat(np.arange(first, last), sizes)} if with_page else {}
        columns["session"] = np.repeat(log.session_names[first:last], sizes)
        columns["query"] = np.repeat(log.query_ids[log.query[first:last]], sizes)
        columns["position"] = log.position[rows]
        columns["document"] = log.document_ids[log.document[rows]]
        columns["clicked"] = log.clicked[rows].astype(np.int8)
        for name in NUMBERS:
            held = getattr(log, name)
            if held is not None:
                columns[name] = pa.array(held[rows], from_pandas=True)
        if log.features is not None:
            X = log.features[rows]
            X = X if isinstance(X, np.ndarray) else X.toarray()
            for j in range(X.shape[1]):
                columns[names[j] if names else f"f{j + 1}"] = X[:, j]
        yield pa.table(columns)


def _json_lines(table: Any) -> bytes:
    import json

    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist()).encode()


def check_judgments_path(path: PathLike, query_ids: Array, document_ids: Array) -> None:
    """Refuse a path of qrels for ids with blanks, which only a table can hold."""
    if Path(path).name.lower().endswith(TABLES):
        return
    for what, ids in (("query", query_ids), ("document", document_ids)):
        odd = next((one for one in map(str, ids.tolist()) if one.split() != [one]), None)
        if odd is not None:
            table = Path(path).with_suffix(".csv").name
            raise FormatError(
                f"the {what} {shorten(odd)} has blanks, which separate the columns of qrels; write a table, such as "
                f"{table}",
                path=path,
            )


def write_judgments(judged: Judgments, path: PathLike) -> None:
    """Write judgments: a CSV file with relevance, error and confidence if the path ends so, otherwise TREC qrels."""
    check_judgments_path(path, judged.query_ids, judged.document_ids)
    if not Path(path).name.lower().endswith(TABLES):
        write_qrels(judged.to_qrels(), path)
        return
    import pyarrow as pa

    table = pa.table(
        {
            "query": judged.query_ids,
            "document": judged.document_ids,
            "grade": judged.grades.astype(np.int64),
            "relevance": judged.relevance,
            "error": judged.error,
            "confidence": judged.confidence,
        }
    )
    with open_compressed(path) as file:
        file.write(_csv(table, header=True))
