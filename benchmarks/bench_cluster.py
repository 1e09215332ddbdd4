"""A local Dask cluster against the same pass in memory: the extra cost of an evaluation, and the bytes it sends.

The data are float32, 100 documents per query, 136 features (20 above 10⁶ rows), in mapped files. A worker has one
thread, and so does the run in memory: two workers use twice as many cores, if there are two.

    python benchmarks/bench_cluster.py                                        # 100,000 rows: part of make bench
    CLUSTER_ROWS=10000000 make bench BENCH=cluster                            # the same with other rows: 1 GB on disk
    python benchmarks/bench_cluster.py --rows 100000,1000000 --workers 1,2    # a table
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import distributed
import numpy as np

import gainful
from gainful.linear.blockwise import linear_risk
from harness import Row

DOCUMENTS, FILES = 100, 4


def features_of(rows: int) -> int:
    """As many as leave room for the files in the memory of a small machine."""
    return 136 if rows <= 1_000_000 else 20


def shards(folder: Path, rows: int) -> None:
    per_block = rows // DOCUMENTS // FILES
    for i in range(FILES):
        data = gainful.make_artificial(per_block, n_docs=DOCUMENTS, n_features=features_of(rows), seed=i)
        ids = np.arange(per_block) + i * per_block
        gainful.write(data.replace(X=data.X.astype(np.float32), query_ids=ids), folder / f"{i}.gnf")


def median_ms(call: Callable[[], object], seconds: float) -> float:
    """The median time of a call, after two warm-up calls."""
    call()
    call()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.median(times))


def evaluation(data: gainful.ShardedData, loss: str) -> tuple[Callable[[], object], Callable[[], object]]:
    """Calls for a pass over the data and for a step along a line."""
    risk = linear_risk(gainful.loss(loss), data)
    w = np.random.default_rng(0).normal(size=data.n_features)
    scores = risk.value_and_gradient(w)[2]
    step = scores - risk.value_and_gradient(w / 2)[2]
    return lambda: risk.value_and_gradient(w)[:2], lambda: risk.along(scores, step, 0.3)


def nothing(data: gainful.RankingData, w: np.ndarray) -> np.ndarray:
    """A pass whose task computes nothing: all its time is the cluster's overhead."""
    return w


@dataclass(frozen=True)
class Measured:
    """Milliseconds of a pass, of a step along a line and of a task that computes nothing; bytes of a pass."""

    where: str
    whole: float
    line: float
    nothing: float | None = None
    sent: int = 0
    received: int = 0

    def __str__(self) -> str:
        there = "" if self.nothing is None else f" {self.nothing:>9.1f} {self.sent:>9,} {self.received:>9,}"
        return f"{self.where:>10} {self.whole:>9.1f} {self.line:>9.1f}{there}"


def measured(rows: int, workers: list[int], loss: str, seconds: float) -> Iterator[Measured]:
    """In memory, then with each number of workers."""
    with tempfile.TemporaryDirectory() as folder:
        shards(Path(folder), rows)
        here = [median_ms(call, seconds) for call in evaluation(gainful.open_shards(folder), loss)]
        yield Measured("memory", *here)
        for n in workers:
            with (
                distributed.LocalCluster(
                    n_workers=n, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.ERROR
                ) as cluster,
                distributed.Client(cluster) as client,
            ):
                data = gainful.open_shards(folder, cluster=client)
                both = evaluation(data, loss)
                there = [median_ms(call, seconds) for call in both]
                sent, received = data.source.bytes_sent, data.source.bytes_received
                both[0]()
                sent, received = data.source.bytes_sent - sent, data.source.bytes_received - received
                w = np.zeros(data.n_features)
                empty = median_ms(partial(data.map, nothing, w), seconds)
                del both, data
                yield Measured(f"{n:>2} workers", *there, empty, sent, received)


def rows() -> Iterator[Row]:
    """The short form: a pass on two workers beside the same in memory."""
    count = int(os.environ.get("CLUSTER_ROWS", "100000"))
    here, there = measured(count, [2], "pairwise-hinge", 1.0)
    yield Row(
        f"a pass on 2 workers, {count:,} × {features_of(count)} mapped", "time", there.whole,
        "in memory, one thread", here.whole, "ms",
        notes={"a task that computes nothing, ms": round(there.nothing or 0.0, 1), "bytes sent": there.sent},
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="100000,1000000")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--loss", default="pairwise-hinge")
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    print(f"{FILES} files, {given.loss}; milliseconds (median) and bytes per pass")
    print(f"{'rows':>9} {'where':>10} {'pass':>9} {'line':>9} {'nothing':>9} {'sent':>9} {'received':>9}")
    for count in map(int, given.rows.split(",")):
        for found in measured(count, [int(n) for n in given.workers.split(",")], given.loss, given.seconds):
            print(f"{count:>9,} {found}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main()
    else:
        import harness

        harness.main(rows)
