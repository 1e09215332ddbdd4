"""Memory and time of reading and fitting a long click log: the figures of docs/clicks.md.

``python benchmarks/click_memory.py --pages 10000000`` writes a log of pages of ten documents, a part at a time, and
reads it in a process of its own, whose memory is measured: what the log keeps, the peak while it is read, and the peak
of ten steps of PBM. ``--format`` is parquet (one row per document), csv, or ubi (searches and events of OpenSearch).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

DOCUMENTS = 10  # on a page
PART_PAGES = 100_000
QUERIES, POOL = 20_000, 30  # and the documents that each has


def write_log(folder: Path, pages: int, form: str) -> None:
    """Pages of simulated users (position-based, η = 1)."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import csv

    rng = np.random.default_rng(1)
    examined = 1.0 / np.arange(1, DOCUMENTS + 1)
    writers: dict[str, Any] = {}
    for start in range(0, pages, PART_PAGES):
        n = min(PART_PAGES, pages - start)
        query = rng.zipf(1.3, n) % QUERIES
        place = rng.random((n, POOL)).argpartition(DOCUMENTS, axis=1)[:, :DOCUMENTS]
        document = query[:, None] * POOL + place
        clicked = rng.random((n, DOCUMENTS)) < examined * (document * 7919 % 97 / 100)
        page = np.arange(start, start + n)
        if form == "ubi":
            hits = pa.ListArray.from_arrays(
                np.arange(0, n * DOCUMENTS + 1, DOCUMENTS).astype(np.int32),
                pa.array(document.ravel()).cast(pa.string()),
            )
            tables = {
                "searches.parquet": pa.table({"query_id": page, "user_query": query, "query_response_hit_ids": hits}),
                "events.parquet": pa.table(
                    {
                        "query_id": np.repeat(page, DOCUMENTS)[clicked.ravel()],
                        "object_id": document[clicked],
                        "action_name": ["click"] * int(clicked.sum()),
                    }
                ),
            }
        else:
            rows = {
                "session": np.repeat(page, DOCUMENTS),
                "query": np.repeat(query, DOCUMENTS),
                "position": np.tile(np.arange(1, DOCUMENTS + 1), n),
                "document": document.ravel(),
                "clicked": clicked.ravel().astype(np.int8),
            }
            tables = {f"log.{form}": pa.table(rows)}
        for name, table in tables.items():
            if name not in writers:
                make = csv.CSVWriter if name.endswith("csv") else pq.ParquetWriter
                writers[name] = make(folder / name, table.schema)
            writers[name].write_table(table)
    for writer in writers.values():
        writer.close()


def measure(folder: Path, form: str, steps: int) -> dict[str, Any]:
    """Read the log and fit it, in this process."""
    import gainful

    def read(where: Path) -> gainful.ClickLog:
        if form == "ubi":
            return gainful.read_clicks(where / "searches.parquet", events=where / "events.parquet", max_bytes="off")
        return gainful.read_clicks(where / f"log.{form}", max_bytes="off")

    gainful.click_model("pbm", max_iter=1).fit(read(folder / "small"))  # libraries and kernels
    before, begin = rss(), time.process_time()
    log = read(folder)
    found: dict[str, Any] = {"read_seconds": time.process_time() - begin, "read_peak": peak() - before}
    arrays = [value for value in vars(log).values() if isinstance(value, np.ndarray)]
    found |= {"pages": log.n_pages, "rows": log.n_rows, "kept": sum(one.nbytes for one in arrays)}
    if steps:
        begin = time.process_time()
        gainful.click_model("pbm", max_iter=steps, tol=0.0).fit(log)
        found |= {"fit_seconds": time.process_time() - begin, "fit_peak": peak() - before}
    return found


def rss() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run(pages: int, form: str, steps: int) -> dict[str, Any]:
    """Write a log, and measure it in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "small").mkdir()
        write_log(folder / "small", 1000, form)
        write_log(folder, pages, form)
        command = [sys.executable, __file__, "--measure", name, "--format", form, "--steps", str(steps)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--format", choices=("parquet", "csv", "ubi"), default="parquet")
    parser.add_argument("--steps", type=int, default=10, help="of EM; 0 only reads")
    parser.add_argument("--measure", metavar="FOLDER", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(Path(given.measure), given.format, given.steps)))
        return
    found = run(given.pages, given.format, given.steps)
    gib = 2**30
    print(f"{given.format}: {found['pages']:,} pages, {found['rows']:,} rows")
    print(f"kept {found['kept'] / gib:.3f} GiB")
    print(
        f"reading: {found['read_seconds']:.1f} s of processor time, peak {found['read_peak'] / gib:.3f} GiB, "
        f"{found['read_peak'] / found['kept']:.2f} times what is kept"
    )
    if given.steps:
        print(
            f"{given.steps} steps of PBM: {found['fit_seconds']:.1f} s of processor time, peak "
            f"{found['fit_peak'] / gib:.3f} GiB, {found['fit_peak'] / found['kept']:.2f} times what is kept"
        )


if __name__ == "__main__":
    main()
