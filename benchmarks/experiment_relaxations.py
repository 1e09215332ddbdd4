"""Smooth forms of NDCG from the literature beside λ and smoothed DCG, on the same trees.

    python benchmarks/experiment_relaxations.py --mq2007 FOLDER/rows.txt.gz

ApproxNDCG (Qin, Liu and Li 2010) is ``sdcg(k=None)``: the same sigmoids for ranks, no cut-off. PiRank (Swezey, Grover,
Charron and Ermon 2021) and NeuralNDCG (Pobrotyn and Białobrzeski 2021) put NeuralSort's relaxed permutation into DCG;
NeuralNDCG scales it to be doubly stochastic first, which is left out here. Without ``--mq2007`` only artificial data
are used.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numba
import numpy as np

import gainful

TREES: dict[str, Any] = {"n_trees": 150, "n_leaves": 10, "learning_rate": 0.1, "min_docs_in_leaf": 20, "n_jobs": 1,
                         "colsample": 1.0, "early_stopping": None}  # fmt: skip


def neural_sort_ndcg(tau: float, k: int) -> Callable[..., Any]:
    """1 − NDCG@k with NeuralSort's permutation: row i is softmax_j(((n + 1 − 2i) s_j − Σ_l |s_j − s_l|)/τ)."""

    @numba.njit
    def pirank(scores, grades):  # type: ignore[no-untyped-def]
        n = len(scores)
        gains, slopes = 2.0**grades - 1.0, np.zeros(n)
        best = 0.0
        for r, gain in enumerate(np.sort(gains)[::-1][:k]):
            best += gain / math.log2(r + 2.0)
        if best == 0.0:
            return 0.0, slopes
        apart = np.zeros(n)
        for j in range(n):
            apart[j] = np.abs(scores[j] - scores).sum()
        reached, by_apart = 0.0, np.zeros(n)
        for r in range(min(k, n)):
            steep = n - 1.0 - 2.0 * r
            x = (steep * scores - apart) / tau
            p = np.exp(x - x.max())
            p /= p.sum()
            mean = (p * gains).sum()
            weight = 1.0 / (math.log2(r + 2.0) * best)
            reached += weight * mean
            c = -weight * p * (gains - mean) / tau
            slopes += steep * c
            by_apart -= c
        for j in range(n):
            sign = np.sign(scores[j] - scores)
            slopes[j] += by_apart[j] * sign.sum()
            slopes -= by_apart[j] * sign
        return 1.0 - reached, slopes

    return pirank


def contestants() -> dict[str, Callable[[], gainful.Ranker]]:
    return {
        "lambda(k=10)": lambda: gainful.BoostedRanker(loss="lambda(k=10)", **TREES),
        "lambdamart": lambda: gainful.ranker("lambdamart", **TREES),
        "approx-ndcg: sdcg(k=None, alpha=10)": lambda: gainful.BoostedRanker(
            loss="sdcg(k=None, alpha=10)", step="gradient", start_trees=5, **TREES
        ),
        **{
            f"pirank, τ = {tau}": lambda tau=tau: gainful.BoostedRanker(loss=neural_sort_ndcg(tau, 10), **TREES)
            for tau in (1.0, 5.0)
        },
        "shf-sdcg": lambda: gainful.ranker("shf-sdcg", **TREES),
        "shf-sdcg, least_spread=0": lambda: gainful.ranker("shf-sdcg", least_spread=0.0, **TREES),
    }


def splits(path: str | None) -> Iterator[tuple[str, list[tuple[gainful.RankingData, gainful.RankingData]]]]:
    artificial = gainful.make_artificial(1_200, seed=0)
    yield "artificial", [(artificial[:600], artificial[600:])]
    if path is not None:
        data = gainful.read(path)
        part = np.random.default_rng(0).permutation(data.n_queries) % 5
        yield "mq2007", [(data[np.flatnonzero(part != f)], data[np.flatnonzero(part == f)]) for f in range(3)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mq2007", help="rows of MQ2007 as LETOR text")
    measure = gainful.metric("ndcg@10")
    for name, folds in splits(parser.parse_args().mq2007):
        print(f"\n{name}: NDCG@10 × 100 ± standard error over queries, processor seconds per training")
        for label, make in contestants().items():
            values, start = [], time.process_time()
            for train, test in folds:
                values.append(measure.per_query(make().fit(train).predict(test), test))
            every = np.concatenate(values)
            error = np.nanstd(every, ddof=1) / math.sqrt(np.isfinite(every).sum())
            seconds = (time.process_time() - start) / len(folds)
            print(f"{label:40s} {100 * np.nanmean(every):6.2f} ± {100 * error:.2f} {seconds:7.1f} s", flush=True)


if __name__ == "__main__":
    main()
