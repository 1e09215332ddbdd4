"""A Dask cluster on this machine beside the same pass in memory: what an evaluation costs more, and what it sends.

Data are float32, 136 features, 100 documents a query, in mapped files. A worker has one thread, and so has memory, so
that two workers have twice its cores where there are two. ``--rows 100000,1000000 --workers 1,2``
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import distributed
import numpy as np

import gainful
from gainful.engines.summed import linear_risk
from gainful.sharded import as_sharded

FEATURES, DOCUMENTS, BLOCKS = 136, 100, 4


def shards(folder: Path, rows: int) -> None:
    per_block = rows // DOCUMENTS // BLOCKS
    for i in range(BLOCKS):
        data = gainful.make_artificial(per_block, n_docs=DOCUMENTS, n_features=FEATURES, seed=i)
        ids = np.arange(per_block) + i * per_block
        gainful.write(data.replace(X=data.X.astype(np.float32), query_ids=ids), folder / f"{i}.gnf")


def median_ms(call: Callable[[], object], seconds: float) -> float:
    """The median time of a call, after two to warm up."""
    call()
    call()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.median(times))


def evaluation(data: gainful.ShardedData, loss: str) -> tuple[Callable[[], object], Callable[[], object]]:
    """Calls of a pass over the data, and of a step along a line."""
    risk = linear_risk(gainful.loss(loss), data)
    w = np.random.default_rng(0).normal(size=FEATURES)
    scores = risk.value_and_gradient(w)[2]
    step = scores - risk.value_and_gradient(w / 2)[2]
    return lambda: risk.value_and_gradient(w)[:2], lambda: risk.along(scores, step, 0.3)


def nothing(data: gainful.RankingData, w: np.ndarray) -> np.ndarray:
    """The task of a pass that computes nothing: what is left is the cluster's own time."""
    return w


def report(rows: int, workers: list[int], loss: str, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shards(Path(folder), rows)
        here = [median_ms(call, seconds) for call in evaluation(as_sharded(gainful.open_shards(folder)), loss)]
        print(f"{rows:>9,} {'memory':>10} {here[0]:>9.1f} {here[1]:>9.1f}", flush=True)
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
                w = np.zeros(FEATURES)
                empty = median_ms(partial(data.source.run, nothing, data.source.data, w), seconds)
                figures = f"{there[0]:>9.1f} {there[1]:>9.1f} {empty:>9.1f} {sent:>9,} {received:>9,}"
                print(f"{rows:>9,} {n:>2} workers {figures}", flush=True)
                del both, data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="100000,1000000")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--loss", default="pairwise-hinge")
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    print(f"{BLOCKS} blocks, {FEATURES} features, {given.loss}; milliseconds (median) and bytes of a pass")
    print(f"{'rows':>9} {'where':>10} {'pass':>9} {'line':>9} {'nothing':>9} {'sent':>9} {'received':>9}")
    for rows in given.rows.split(","):
        report(int(rows), [int(n) for n in given.workers.split(",")], given.loss, given.seconds)


if __name__ == "__main__":
    main()
