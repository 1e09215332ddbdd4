"""Seconds a tree: one process with several threads beside as many workers of a local cluster with one thread each.

python benchmarks/bench_cluster_trees.py [--queries 2000] [--docs 120] [--features 136] [--workers 2] [--trees 50]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import gainful
from gainful.engines import cluster_trees

CASES = {"lambdamart": {}, "lambdamart-plain": {}, "tree-regression": {}}


def seconds_a_tree(model, data, **fit) -> tuple[float, float]:
    """Of the trees after the first half, and of the whole training: the first ones share it with binning."""
    started = time.perf_counter()
    model.fit(data, **fit)
    whole = time.perf_counter() - started
    seconds = [row["seconds"] for row in model.history_]
    half = len(seconds) // 2
    return (seconds[-1] - seconds[half - 1]) / (len(seconds) - half), whole


def main() -> None:
    from distributed import Client, LocalCluster

    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("queries", 2000), ("docs", 120), ("features", 136), ("workers", 2), ("trees", 50)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    data = gainful.make_artificial(given.queries, n_docs=given.docs, n_features=given.features, seed=0)
    test = gainful.make_artificial(200, n_docs=given.docs, n_features=given.features, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        step = -(-data.n_queries // (2 * given.workers))
        for i, first in enumerate(range(0, data.n_queries, step)):
            gainful.write(data[first : first + step], Path(folder) / f"part-{i:02}.gnf")
        with (
            LocalCluster(n_workers=given.workers, threads_per_worker=1, processes=True) as made,
            Client(made) as client,
        ):
            shards = gainful.open_shards(folder, cluster=client)
            gainful.ranker("lambdamart-plain", n_trees=2).fit(shards)  # imports and compiled loops
            gainful.ranker("lambdamart-plain", n_trees=2, n_jobs=given.workers).fit(data)
            for name, more in CASES.items():
                settings = {"n_trees": given.trees, "min_docs_in_leaf": 50, **more}
                here = gainful.ranker(name, n_jobs=given.workers, **settings)
                there = gainful.ranker(name, **settings)
                a, whole_a = seconds_a_tree(here, data)
                b, whole_b = seconds_a_tree(there, shards)
                row = {
                    "ranker": name,
                    "rows": data.n_rows,
                    "trees": given.trees,
                    "trees a round": cluster_trees.ROUND_TREES,
                    "seconds a tree, threads": round(a, 4),
                    "seconds a tree, workers": round(b, 4),
                    "ratio": round(b / a, 2),
                    "whole, threads": round(whole_a, 2),
                    "whole, workers": round(whole_b, 2),
                    "ndcg@10, threads": round(here.score(test), 4),
                    "ndcg@10, workers": round(there.score(test), 4),
                }
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
