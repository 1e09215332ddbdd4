"""Seconds per tree: one process with several threads against as many one-thread workers of a local cluster.

python benchmarks/bench_cluster_trees.py                                # 60,000 rows, two rankers: part of make bench
python benchmarks/bench_cluster_trees.py --queries 2000 --trees 50      # three; also --docs, --features, --workers
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gainful
from gainful.trees.cluster import train as cluster_trees
from harness import Row

CASES = ("lambdamart", "lambdamart-plain", "tree-regression")


def seconds_a_tree(model, data, **fit) -> tuple[float, float]:
    """Seconds per tree after the first round, which includes the binning, and of the whole training.

    A cluster reports all trees of a round at its end, so a single round is measured as a whole.
    """
    started = time.perf_counter()
    model.fit(data, **fit)
    whole = time.perf_counter() - started
    seconds = [row["seconds"] for row in model.history_]
    first = cluster_trees.ROUND_TREES
    if len(seconds) <= first:
        return whole / max(1, len(seconds)), whole
    return (seconds[-1] - seconds[first - 1]) / (len(seconds) - first), whole


def measured(
    names: Sequence[str], queries: int, docs: int, features: int, workers: int, trees: int
) -> Iterator[dict[str, Any]]:
    from distributed import Client, LocalCluster

    data = gainful.make_artificial(queries, n_docs=docs, n_features=features, seed=0)
    test = gainful.make_artificial(200, n_docs=docs, n_features=features, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        step = -(-data.n_queries // (2 * workers))
        for i, first in enumerate(range(0, data.n_queries, step)):
            gainful.write(data[first : first + step], Path(folder) / f"part-{i:02}.gnf")
        with (
            LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.ERROR
            ) as made,
            Client(made) as client,
        ):
            shards = gainful.open_shards(folder, cluster=client)
            gainful.ranker("lambdamart-plain", n_trees=2).fit(shards)  # imports and compiled loops
            gainful.ranker("lambdamart-plain", n_trees=2, n_jobs=workers).fit(data)
            for name in names:
                settings = {"n_trees": trees, "min_docs_in_leaf": 50}
                here = gainful.ranker(name, n_jobs=workers, **settings)
                there = gainful.ranker(name, **settings)
                a, whole_a = seconds_a_tree(here, data)
                b, whole_b = seconds_a_tree(there, shards)
                yield {
                    "ranker": name,
                    "rows": data.n_rows,
                    "trees": trees,
                    "trees per round": cluster_trees.ROUND_TREES,
                    "seconds per tree, threads": round(a, 4),
                    "seconds per tree, workers": round(b, 4),
                    "ratio": round(b / a, 2),
                    "whole, threads": round(whole_a, 2),
                    "whole, workers": round(whole_b, 2),
                    "ndcg@10, threads": round(here.score(test), 4),
                    "ndcg@10, workers": round(there.score(test), 4),
                }


def rows() -> Iterator[Row]:
    """The short form: the second round on two workers beside two threads of one process."""
    for found in measured(("lambdamart", "tree-regression"), 500, 120, 50, 2, 2 * cluster_trees.ROUND_TREES):
        yield Row(
            f"a tree of {found['ranker']} on 2 workers, {found['rows']:,} × 50", "time",
            found["seconds per tree, workers"], "2 threads of one process", found["seconds per tree, threads"], "s",
            notes={name: found[name] for name in ("ndcg@10, threads", "ndcg@10, workers")},
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("queries", 2000), ("docs", 120), ("features", 136), ("workers", 2), ("trees", 50)):
        parser.add_argument(f"--{name}", type=int, default=default)
    for found in measured(CASES, **vars(parser.parse_args())):
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main()
    else:
        import harness

        harness.main(rows)
