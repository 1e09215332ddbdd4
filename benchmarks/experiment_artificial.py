"""Table 1 of Li, Burges and Wu 2007 on artificial data: NDCG@10 of McRank's three forms beside lambda gradients.

``python benchmarks/experiment_artificial.py`` uses 2,000 / 500 / 2,000 queries of 50 documents; ``--full`` the paper's
10,000 / 5,000 / 10,000. Its settings for this data: shrinkage 0.05, 10 leaves, 1,000 iterations. Every ranker keeps the
iteration that is best on the validation queries. NDCG is the paper's: gain 2^g − 1, discount 1/log2(1 + rank).
"""

from __future__ import annotations

import argparse
import time
from itertools import pairwise

import numpy as np
from rich.console import Console
from rich.table import Table

import gainful

PAPER = {"mcrank-ordinal": 85.0, "mcrank": 83.7, "mcrank-regression": 82.9, "lambdarank": 74.9}
RANKERS = (*PAPER, "lambdamart", "lambdamart-plain")


def parts(sizes: list[int], seed: int, shares: list[float] | None) -> list[gainful.RankingData]:
    """Train, validation and test queries of one problem."""
    data = gainful.make_artificial(sum(sizes), seed=seed, grade_shares=shares)
    ends = np.cumsum([0, *sizes])
    return [data[int(a) : int(b)] for a, b in pairwise(ends)]


def settings(name: str, options: argparse.Namespace) -> dict[str, object]:
    known = gainful.RANKERS[name].cls.parameters
    wanted = {
        "n_trees": options.trees,
        "n_leaves": options.leaves,
        "learning_rate": options.rate,
        "early_stopping": None,
        "n_jobs": options.threads,
    }
    return {key: value for key, value in wanted.items() if key in known} if "n_trees" in known else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--queries", type=int, nargs=3, default=[2000, 500, 2000], metavar=("TRAIN", "VALID", "TEST"))
    parser.add_argument("--full", action="store_true", help="10,000 / 5,000 / 10,000 queries, as the paper")
    parser.add_argument("--rankers", default=",".join(RANKERS))
    parser.add_argument("--trees", type=int, default=1000)
    parser.add_argument("--leaves", type=int, default=10)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shares", type=float, nargs=5, help="probabilities of the five grades; equal without")
    options = parser.parse_args()
    sizes = [10_000, 5_000, 10_000] if options.full else options.queries
    train, valid, test = parts(sizes, options.seed, options.shares)
    ndcg = gainful.metric("ndcg@10")

    table = Table(box=None, pad_edge=False)
    for column in ("ranker", "NDCG@10", "± (s.e.)", "(s.d.)", "paper", "iterations", "seconds"):
        table.add_column(column, justify="left" if column == "ranker" else "right")
    console = Console(width=100)
    console.print(
        f"{sizes[0]:,} / {sizes[1]:,} / {sizes[2]:,} queries, {options.trees} iterations of {options.leaves} leaves, "
        f"shrinkage {options.rate:g}; {ndcg}"
    )
    for name in options.rankers.split(","):
        began = time.perf_counter()
        model = gainful.ranker(name, **settings(name, options)).fit(train, eval_set=valid)
        seconds = time.perf_counter() - began
        values = 100 * ndcg.per_query(model.predict(test), test)
        row = (
            name,
            f"{values.mean():.2f}",
            f"{values.std(ddof=1) / np.sqrt(len(values)):.2f}",
            f"{values.std(ddof=1):.1f}",
            f"{PAPER[name]:.1f}" if name in PAPER else "",
            str(getattr(model, "best_iteration_", model.n_iter_)),
            f"{seconds:.0f}",
        )
        table.add_row(*row)
        console.print(" ".join(row), style="dim")
    console.print(table)


if __name__ == "__main__":
    main()
