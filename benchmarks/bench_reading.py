"""Reading LETOR text: time against scikit-learn's loader, peak memory against the resulting arrays. Converting it to
binary: time and peak memory against reading and writing the whole file. Reading CSV and JSON Lines beside PyArrow and
polars. What it costs to check tables and .gnf, and to read text without rows. TREC runs and qrels
against the readers of pytrec_eval and, if it is installed, ranx.

The file resembles MSLR-WEB: 136 features, of which a third are whole numbers and the rest decimals with six places, a
few of them tiny. Both readers must give the same values, to the last bit.
"""

from __future__ import annotations

import gzip
import importlib.util
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars
import pytrec_eval
from pyarrow import csv as arrow_csv
from pyarrow import json as arrow_json
from sklearn.datasets import load_svmlight_file

import gainful
from gainful.data.synthetic import make_artificial
from gainful.formats import read, write
from gainful.formats.convert import convert
from gainful.formats.table import reader as table_reader
from harness import Row, best_time, main, peak_memory

N_ROWS, N_FEATURES, PER_QUERY = 75_000, 136, 120
N_THREADS = 2


def write_file(path: Path) -> None:
    """About 110 MB of text."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 3, N_FEATURES)
    with path.open("w") as file:
        for row in range(N_ROWS):
            values, whole = rng.random(N_FEATURES), rng.integers(0, 300, N_FEATURES)
            cells = []
            for j, kind in enumerate(kinds):
                if kind == 0:
                    text = str(whole[j])
                elif values[j] < 0.02:
                    text = f"{values[j] * 1e-4:.6g}"
                else:
                    text = f"{values[j] * (10 if kind == 2 else 1):.6f}"
                cells.append(f"{j + 1}:{text}")
            file.write(f"{rng.integers(0, 5)} qid:{row // PER_QUERY + 1} {' '.join(cells)}\n")


def pack(plain: Path, packed: Path) -> None:
    with plain.open("rb") as source, gzip.open(packed, "wb", compresslevel=1) as sink:
        shutil.copyfileobj(source, sink, 1 << 20)


def assert_same(path: Path) -> None:
    data = read(path, n_threads=N_THREADS)
    X, y, qid = load_svmlight_file(str(path), query_id=True)
    assert np.array_equal(data.X, X.toarray())
    assert np.array_equal(data.y, y)
    assert np.array_equal(data.qid, qid)


def time_row(path: Path, what: str, wanted: float | None) -> Row:
    read(path, n_threads=N_THREADS)  # compiled, and in the system's cache
    return Row(
        subject=f"read LETOR text{what}, {N_ROWS:,} × {N_FEATURES}",
        measure="time",
        ours=best_time(lambda: read(path, n_threads=N_THREADS), repeat=5),
        peer="scikit-learn load_svmlight_file",
        theirs=best_time(lambda: load_svmlight_file(str(path), query_id=True), repeat=1),
        unit="s",
        wanted=wanted,
        notes={"threads": N_THREADS, "MB": path.stat().st_size / 1e6},
    )


def memory_row(path: Path, what: str, dtype: str) -> Row:
    small = path.parent / "small.txt"
    small.write_text("0 qid:1 1:0.5 #docid = 1\n" * 3)
    setup = f"from gainful.formats import read\nread({str(small)!r}, n_threads=2)\nimport pyarrow"
    arrays = (N_ROWS * N_FEATURES * np.dtype(dtype).itemsize + 8 * N_ROWS) / 2**20
    return Row(
        subject=f"read LETOR text{what}, {dtype}, {N_ROWS:,} × {N_FEATURES}",
        measure="peak memory",
        ours=peak_memory(setup, f"data = read({str(path)!r}, dtype={dtype!r}, n_threads={N_THREADS})"),
        peer="3 × resulting arrays",
        theirs=3 * arrays,
        unit="MiB",
        wanted=1,
        notes={"arrays MiB": arrays},
    )


def convert_rows(path: Path, what: str) -> Iterator[Row]:
    target, small = path.parent / "target.gnf", path.parent / "small.txt"
    one, other = (f"convert({str(path)!r}, {str(target)!r})", f"write(read({str(path)!r}), {str(target)!r})")
    setup = (
        "from gainful.formats import read, write\nfrom gainful.formats.convert import convert\nimport pyarrow\n"
        f"convert({str(small)!r}, {str(target)!r})"
    )
    subject = f"convert LETOR text{what} to .gnf, {N_ROWS:,} × {N_FEATURES}"
    ours = best_time(lambda: convert(path, target), repeat=3)
    theirs = best_time(lambda: write(read(path), target), repeat=3)
    assert read(target).equals(read(path))
    speed = path.stat().st_size / 1e6 / ours
    yield Row(subject, "time", ours, "read, then write", theirs, "s", notes={"MB/s": speed})
    yield Row(subject, "peak memory", peak_memory(setup, one), "read, then write", peak_memory(setup, other), "MiB")


def checks_row(folder: Path, suffix: str, wanted: float | None) -> Row:
    """Reading a table with every text and offset checked, against reading it unchecked."""
    data = make_artificial(2000, n_docs=100, n_features=20, seed=0)
    documents = [f"document-{i}" for i in range(data.n_rows)]
    path = folder / f"checked{suffix}"
    write(data.replace(query_ids=np.array([f"query-{q}" for q in range(2000)]), doc_ids=np.array(documents)), path)
    checked, unchecked = interleaved(lambda: read(path), lambda: read_unchecked(path))
    return Row(
        subject=f"read {suffix} with text ids, {data.n_rows:,} × {data.n_features}",
        measure="processor time",
        ours=checked,
        peer="the same without validation",
        theirs=unchecked,
        unit="s",
        wanted=wanted,
    )


def read_unchecked(path: Path) -> None:
    with patch.object(table_reader, "check_table", lambda table: None):
        read(path)


def binary_row(folder: Path) -> Row:
    data = make_artificial(2000, n_docs=100, n_features=136, seed=0)
    path = folder / "checked.gnf"
    write(data, path)
    checked, unchecked = interleaved(lambda: read(path).X.sum(), lambda: read(path, verify=False).X.sum())
    return Row(
        subject=f"open .gnf and go through it once, {data.n_rows:,} × {data.n_features}",
        measure="processor time",
        ours=checked,
        peer="verify=False",
        theirs=unchecked,
        unit="s",
        notes={"GB": data.X.nbytes / 1e9},
    )


def blank_rows(folder: Path) -> Iterator[Row]:
    """Text without rows against text of short rows of the same size."""
    size = 30_000_000
    row = b"1 qid:1 1:2 2:3\n"
    for suffix in (".txt", ".txt.gz"):
        data = folder / f"data{suffix}"
        _write_text(data, row * (size // len(row)))
        for what, line in (("blank lines", b"\n"), ("comments", b"#abc\n")):
            path = folder / f"blank{suffix}"
            _write_text(path, line * (size // len(line)) + row)
            ours, theirs = interleaved(lambda p=path: read(p), lambda p=data: read(p))  # type: ignore[misc]
            yield Row(
                f"read 30 MB of {what}, {suffix}", "processor time", ours, "30 MB of short rows", theirs, "s", 0.5
            )


def _write_text(path: Path, text: bytes) -> None:
    path.write_bytes(gzip.compress(text, 1) if path.suffix == ".gz" else text)


def interleaved(one: Callable[[], object], other: Callable[[], object], repeat: int = 5) -> tuple[float, float]:
    """The least processor time of each; they take turns, so that both see the same machine."""
    times: list[list[float]] = [[], []]
    for _ in range(repeat):
        for call, taken in zip((one, other), times, strict=True):
            start = time.process_time()
            call()
            taken.append(time.process_time() - start)
    return min(times[0]), min(times[1])


def table_rows(folder: Path) -> Iterator[Row]:
    """CSV and JSON Lines as ranking data, against what PyArrow and polars need for the same matrix."""
    data = make_artificial(600, n_docs=100, n_features=50, seed=0)
    names = ["qid", "grade", *(f"f{j + 1}" for j in range(data.n_features))]
    for suffix, by_arrow, by_polars in (
        (".csv", lambda path: arrow_csv.read_csv(path), lambda path: polars.read_csv(path)),
        (".jsonl", lambda path: arrow_json.read_json(path), lambda path: polars.read_ndjson(path)),
    ):
        path = folder / f"table{suffix}"
        write(data, path)
        for peer, load in (
            ("PyArrow", lambda p=path, f=by_arrow: _stack(f(p))),
            ("polars", lambda p=path, f=by_polars: f(p).select(names).to_numpy()),
        ):
            assert np.array_equal(load()[:, -data.n_features :], read(path).X)
            ours, theirs = interleaved(lambda p=path: read(p), load)  # type: ignore[misc]
            yield Row(
                subject=f"read {suffix}, {data.n_rows:,} × {data.n_features}",
                measure="processor time",
                ours=ours,
                peer=f"{peer}, as a matrix",
                theirs=theirs,
                unit="s",
                notes={"MB": path.stat().st_size / 1e6},
            )


def _stack(table: Any) -> Any:
    return np.column_stack([column.to_numpy() for column in table.columns])


def trec_rows(folder: Path) -> Iterator[Row]:
    """A run of 500 queries with 1,000 documents each, and qrels of the same size."""
    rng = np.random.default_rng(0)
    documents = [f"FBIS3-{i:06d}" for i in rng.integers(0, 10**6, 3000)]
    documents = list(dict.fromkeys(documents))[:1000]
    run, qrels = folder / "x.trec", folder / "x.qrels"
    with run.open("w") as ranked, qrels.open("w") as judged:
        for query in range(300, 800):
            for rank, (document, score) in enumerate(zip(documents, rng.normal(size=1000), strict=True), 1):
                ranked.write(f"{query}\tQ0\t{document}\t{rank}\t{score:.6f}\ttag\n")
                judged.write(f"{query} 0 {document} {rank % 3}\n")
    yield from _trec_rows("TREC run", run, lambda: gainful.read_run(run), pytrec_eval.parse_run, "Run")
    yield from _trec_rows("TREC qrels", qrels, lambda: gainful.read_qrels(qrels), pytrec_eval.parse_qrel, "Qrels")


def _trec_rows(what: str, path: Path, ours: Callable[[], Any], peer: Callable[[Any], Any], name: str) -> Iterator[Row]:
    def theirs() -> Any:
        with path.open() as file:
            return peer(file)

    read_back = ours()
    assert {query: dict(read_back[query]) for query in read_back} == theirs()
    subject = f"read {what}, 500,000 lines"
    mine, other = interleaved(ours, theirs, repeat=3)
    yield Row(subject, "processor time", mine, "pytrec_eval", other, "s", wanted=1.5)
    if importlib.util.find_spec("ranx") is not None:
        reader = getattr(importlib.import_module("ranx"), name).from_file
        mine, other = interleaved(ours, lambda: reader(str(path), kind="trec"), repeat=3)
        yield Row(subject, "processor time", mine, "ranx", other, "s")


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        yield from table_rows(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        yield from trec_rows(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        for suffix in (".arrow", ".parquet"):
            yield checks_row(Path(folder), suffix, wanted=1 / 1.3)
        yield binary_row(Path(folder))
        yield from blank_rows(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        plain, packed = Path(folder) / "train.txt", Path(folder) / "train.txt.gz"
        write_file(plain)
        pack(plain, packed)
        assert_same(plain)
        yield time_row(plain, "", wanted=20)
        yield time_row(packed, ", .gz", wanted=None)
        yield memory_row(plain, "", "float64")
        yield memory_row(plain, "", "float32")
        yield memory_row(packed, ", .gz", "float64")
        yield from convert_rows(plain, "")
        yield from convert_rows(packed, ", .gz")


if __name__ == "__main__":
    main(rows)
