"""Use of data files: read them, in blocks too, convert them, write what was read and read that again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import gainful
from fuzz.cases import Random, expect
from fuzz.damage import pick
from fuzz.rows import Rows
from gainful.formats import columns_of
from gainful.formats.convert import convert, iter_blocks

MOST_CELLS = 1 << 20  # of a matrix that is compared value by value
WAYS = ["read", "read", "blocks", "convert", "rewrite"]
REWRITE_AS = [".gnf", ".txt", ".csv", ".parquet", ".arrow", ".txt.gz", ".jsonl"]


def use_options(rng: Random, whole: bool, rows: Rows, **read: Any) -> dict[str, Any]:
    """How a case reads its file, and what an undamaged file must hold."""
    options: dict[str, Any] = {"way": pick(rng, WAYS), "to": pick(rng, REWRITE_AS), "read": read}
    if whole:
        options["rows"], options["queries"] = len(rows.y), rows.n_queries
    return options


def use(path: Path, options: Mapping[str, Any]) -> None:
    """Read the file in the way that the options name."""
    way, read = options["way"], options["read"]
    if way == "blocks":
        blocks = list(iter_blocks(path, rows=7, **read))
        n_rows, n_queries = sum(block.n_rows for block in blocks), sum(block.n_queries for block in blocks)
        for block in blocks:
            _look_at(block)
    elif way == "convert":
        target = path.with_name("converted.gnf")
        done = convert(path, target, read_options=read)
        n_rows, n_queries = done.n_rows, done.n_queries
        _look_at(gainful.read(target))
    else:
        columns_of(path, **{k: v for k, v in read.items() if k != "mmap"})
        data = gainful.read(path, **read)
        n_rows, n_queries = data.n_rows, data.n_queries
        _look_at(data)
        if way == "rewrite":
            _rewrite(data, path.with_name(f"rewritten{options['to']}"))
    if "rows" in options:
        expect((n_rows, n_queries) == (options["rows"], options["queries"]), "the counts are not those of the file")


def _look_at(data: gainful.RankingData) -> None:
    """Touch all that the data holds, as training and ``gainful data info`` would."""
    expect(len(data.y) == data.n_rows == data.X.shape[0] == data.offsets[-1], "the sizes do not agree")
    expect(bool(np.isfinite(data.y).all()), "a grade is not finite")
    expect(len(data.query_ids) == data.n_queries, "the query ids do not agree with the offsets")
    data.query_ids.tolist()
    if data.doc_ids is not None:
        expect(len(data.doc_ids) == data.n_rows, "the document ids do not agree with the rows")
        data.doc_ids.tolist()
    gainful.check_data(data)
    if data.is_sparse:
        with np.errstate(over="ignore"):  # finite values may have an infinite sum
            data.X.sum()


def _rewrite(data: gainful.RankingData, path: Path) -> None:
    gainful.write(data, path)
    again = gainful.read(path)
    expect(again.n_queries == data.n_queries, f"written as {path.suffix}, it reads back with other queries")
    expect(np.array_equal(again.y, data.y), f"written as {path.suffix}, it reads back with other grades")
    if data.n_rows * data.n_features <= MOST_CELLS and again.n_features == data.n_features:
        values = _dense(data.X)
        same = np.array_equal(_dense(again.X).astype(values.dtype), values, equal_nan=True)  # CSV has no types
        expect(same, f"written as {path.suffix}, it reads back with other values")


def _dense(X: Any) -> Any:
    return X if isinstance(X, np.ndarray) else X.toarray()
