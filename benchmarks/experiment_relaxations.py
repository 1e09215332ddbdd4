"""Smooth forms of NDCG from the literature beside λ and smoothed DCG, on the same trees.

    python benchmarks/experiment_relaxations.py --mq2007 FOLDER/rows.txt.gz

ApproxNDCG (Qin, Liu and Li 2010) is ``sdcg(k=None)``: the same sigmoids for ranks, no cut-off; ApproxMRR has the same
ranks in 1/rank. PiRank (Swezey, Grover, Charron and Ermon 2021) puts the relaxed permutation of NeuralSort into DCG;
NeuralNDCG (Pobrotyn and Białobrzeski 2021) first scales it to be doubly stochastic. Without ``--mq2007``, only
artificial data are used. Differences are paired by query, from the first row of their metric.
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
                         "colsample": 1.0, "early_stopping": 150}  # fmt: skip


@numba.njit
def best_dcg(gains, k):  # type: ignore[no-untyped-def]
    best = 0.0
    for r, gain in enumerate(np.sort(gains)[::-1][:k]):
        best += gain / math.log2(r + 2.0)
    return best


@numba.njit
def distances(scores):  # type: ignore[no-untyped-def]
    """Σ_l |s_j − s_l| for each j."""
    apart = np.zeros(len(scores))
    for j in range(len(scores)):
        apart[j] = np.abs(scores[j] - scores).sum()
    return apart


@numba.njit
def add_slopes_of_distances(scores, by_apart, slopes):  # type: ignore[no-untyped-def]
    """From the slopes by the distances to those by the scores."""
    for j in range(len(scores)):
        sign = np.sign(scores[j] - scores)
        slopes[j] += by_apart[j] * sign.sum()
        slopes -= by_apart[j] * sign


def neural_sort_ndcg(tau: float, k: int) -> Callable[..., Any]:
    """1 − NDCG@k with NeuralSort's permutation: row i is softmax_j(((n + 1 − 2i) s_j − Σ_l |s_j − s_l|)/τ)."""

    @numba.njit
    def pirank(scores, grades):  # type: ignore[no-untyped-def]
        n = len(scores)
        gains, slopes = 2.0**grades - 1.0, np.zeros(n)
        best = best_dcg(gains, k)
        if best == 0.0:
            return 0.0, slopes
        apart = distances(scores)
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
        add_slopes_of_distances(scores, by_apart, slopes)
        return 1.0 - reached, slopes

    return pirank


def neural_ndcg(tau: float, k: int, scalings: int = 10) -> Callable[..., Any]:
    """1 − NDCG@k with NeuralSort's permutation after this many scalings of its columns and rows (Sinkhorn)."""

    @numba.njit
    def neural(scores, grades):  # type: ignore[no-untyped-def]
        n = len(scores)
        gains, slopes = 2.0**grades - 1.0, np.zeros(n)
        best = best_dcg(gains, k)
        if best == 0.0:
            return 0.0, slopes
        apart = distances(scores)
        first = np.empty((n, n))
        for r in range(n):
            x = ((n - 1.0 - 2.0 * r) * scores - apart) / tau
            x = np.exp(x - x.max())
            first[r] = x / x.sum()
        after = np.empty((2 * scalings, n, n))
        sums = np.empty((2 * scalings, n))
        P = first.copy()
        for t in range(2 * scalings):
            for a in range(n):
                sums[t, a] = max(P[:, a].sum() if t % 2 == 0 else P[a].sum(), 1e-10)
                if t % 2 == 0:
                    P[:, a] /= sums[t, a]
                else:
                    P[a] /= sums[t, a]
            after[t] = P
        reached, by_P = 0.0, np.zeros((n, n))
        for r in range(min(k, n)):
            weight = 1.0 / (math.log2(r + 2.0) * best)
            reached += weight * (P[r] * gains).sum()
            by_P[r] = -weight * gains
        for t in range(2 * scalings - 1, -1, -1):
            for a in range(n):
                if t % 2 == 0:
                    by_P[:, a] = (by_P[:, a] - (by_P[:, a] * after[t, :, a]).sum()) / sums[t, a]
                else:
                    by_P[a] = (by_P[a] - (by_P[a] * after[t, a]).sum()) / sums[t, a]
        by_apart = np.zeros(n)
        for r in range(n):
            c = first[r] * (by_P[r] - (by_P[r] * first[r]).sum()) / tau
            slopes += (n - 1.0 - 2.0 * r) * c
            by_apart -= c
        add_slopes_of_distances(scores, by_apart, slopes)
        return 1.0 - reached, slopes

    return neural


def approx_mrr(alpha: float, relevant: float) -> Callable[..., Any]:
    """1 − the mean of 1/rank over the relevant documents, with ranks by sigmoids."""

    @numba.njit
    def approximate(scores, grades):  # type: ignore[no-untyped-def]
        n, slopes, reached = len(scores), np.zeros(len(scores)), 0.0
        hits = grades >= relevant
        if not hits.any() or hits.all():
            return 0.0, slopes
        for i in range(n):
            if hits[i]:
                above = 1.0 / (1.0 + np.exp(np.minimum(alpha * (scores[i] - scores), 500.0)))
                above[i] = 0.0
                rank = 1.0 + above.sum()
                reached += 1.0 / rank
                c = above * (1.0 - above) * (alpha / rank**2)
                slopes += c
                slopes[i] -= c.sum()
        return 1.0 - reached / hits.sum(), slopes / hits.sum()

    return approximate


def contestants(measure: str) -> dict[str, Callable[[], gainful.Ranker]]:
    if measure != "ndcg@10":
        relevant = gainful.metric(measure).relevant or 1.0
        return {
            f"lambda(metric={measure})": lambda: gainful.BoostedRanker(loss=f"lambda(metric={measure})", **TREES),
            **{
                f"approx-mrr, alpha={alpha:g}": lambda alpha=alpha: gainful.BoostedRanker(
                    loss=approx_mrr(alpha, relevant), start_trees=5, **TREES
                )
                for alpha in (1.0, 10.0)
            },
        }
    return {
        "lambda(k=10)": lambda: gainful.BoostedRanker(loss="lambda(k=10)", **TREES),
        "lambdamart": lambda: gainful.ranker("lambdamart", **TREES),
        "approx-ndcg: sdcg(k=None, alpha=10)": lambda: gainful.BoostedRanker(
            loss="sdcg(k=None, alpha=10)", step="gradient", start_trees=5, **TREES
        ),
        **{
            f"{name}, τ = {tau}": lambda make=make, tau=tau: gainful.BoostedRanker(loss=make(tau, 10), **TREES)
            for name, make in (("pirank", neural_sort_ndcg), ("neural-ndcg", neural_ndcg))
            for tau in (1.0, 5.0)
        },
        "shf-sdcg": lambda: gainful.ranker("shf-sdcg", **TREES),
        "shf-sdcg, least_spread=0": lambda: gainful.ranker("shf-sdcg", least_spread=0.0, **TREES),
    }


Folds = list[tuple[gainful.RankingData, gainful.RankingData]]


def splits(path: str | None) -> Iterator[tuple[str, str, Folds]]:
    """Name, a metric by the first relevant document for its grades, and training and test queries."""
    artificial = gainful.make_artificial(1_200, seed=0)
    yield "artificial", "mrr(relevant=4)", [(artificial[:600], artificial[600:])]
    if path is not None:
        data = gainful.read(path)
        part = np.random.default_rng(0).permutation(data.n_queries) % 5
        folds = [(data[np.flatnonzero(part != f)], data[np.flatnonzero(part == f)]) for f in range(3)]
        yield "mq2007", "mrr", folds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mq2007", help="rows of MQ2007 as LETOR text")
    for name, by_first, folds in splits(parser.parse_args().mq2007):
        for text in ("ndcg@10", by_first):
            print(f"\n{name}: {text} × 100, its difference ± standard error, processor seconds per training")
            measure, reference = gainful.metric(text), None
            for label, make in contestants(text).items():
                start = time.process_time()
                every = np.concatenate([
                    measure.per_query(make().fit(train).predict(test), test) for train, test in folds
                ])  # fmt: skip
                seconds = (time.process_time() - start) / len(folds)
                reference = every if reference is None else reference
                apart = every - reference
                error = np.nanstd(apart, ddof=1) / math.sqrt(np.isfinite(apart).sum())
                print(
                    f"{label:40s} {100 * np.nanmean(every):6.2f} {100 * np.nanmean(apart):+6.2f} ± {100 * error:.2f} "
                    f"{seconds:7.1f} s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
