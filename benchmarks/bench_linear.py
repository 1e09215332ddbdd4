"""Linear rankers: RankSVM against LinearSVC on explicit pairs, and the cost of an iteration against X @ w.

The large problem has the shape of MSLR-WEB: 6,000 queries of 120 documents, 136 features, five grades, float32.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.svm import LinearSVC

import gainful
from bench_structured import DOCUMENTS, FEATURES, large
from gainful.data.query_weights import pair_shares
from gainful.linear.risk import LinearRisk
from gainful.losses import loss
from harness import Row, best_time, main, peak_memory

C = 100.0
LOSSES = ("pairwise-hinge", "pairwise-squared-hinge", "ranknet", "listnet", "listmle", "lambda", "weighted-huber")


def ohsumed_shape() -> gainful.RankingData:
    return gainful.make_artificial(106, n_docs=152, n_features=45, n_grades=3, grade_shares=(0.7, 0.16, 0.14), seed=0)


def explicit_pairs(data: gainful.RankingData) -> np.ndarray:
    """x_i − x_j of every pair."""
    rows = []
    for q in range(data.n_queries):
        own = slice(int(data.offsets[q]), int(data.offsets[q + 1]))
        i, j = np.nonzero(data.y[own, None] > data.y[own])
        rows.append(data.X[own][i] - data.X[own][j])
    return np.concatenate(rows)


def objective(D: np.ndarray, w: np.ndarray, squared: bool) -> float:
    short = np.maximum(0.0, 1.0 - D @ w)
    return 0.5 * float(w @ w) + C * float(np.mean(short**2 if squared else short))


def peer_fit(data: gainful.RankingData, name: str) -> tuple[np.ndarray, np.ndarray]:
    """LinearSVC as one would use it: build the pairs, flip every other one, fit."""
    D = explicit_pairs(data)
    sign = np.where(np.arange(len(D)) % 2 == 0, 1.0, -1.0)
    model = LinearSVC(loss=name, C=C / len(D), fit_intercept=False, dual=name == "hinge", tol=1e-3, max_iter=1_000)
    return D, model.fit(D * sign[:, None], sign).coef_[0]


def svm_rows() -> Iterator[Row]:
    data = ohsumed_shape()
    gainful.RankSVM(max_iter=3).fit(gainful.make_artificial(5, n_features=45))
    for ours, theirs in (("squared-hinge", "squared_hinge"), ("hinge", "hinge")):
        squared = ours != "hinge"
        fit = lambda ours=ours: gainful.RankSVM(loss=ours, C=C, tol=1e-4, scale=None).fit(data)  # noqa: E731
        model, kept = fit(), []
        mine = best_time(fit)
        peer = best_time(lambda theirs=theirs, kept=kept: kept.append(peer_fit(data, theirs)), repeat=1)
        D, w = kept[0]
        reached, other = objective(D, model.coef_, squared), objective(D, w, squared)
        assert reached <= other * (1 + 1e-4), (reached, other)
        yield Row(
            f"RankSVM, {ours}, OHSUMED's shape", "time", mine, f"LinearSVC on {len(D):,} pairs", peer, "s", wanted=10.0,
            notes={"objective": reached, "objective of LinearSVC": other, "gap": model.certificate_.relative_gap},
        )  # fmt: skip


def iteration_rows() -> Iterator[Row]:
    data = large(6_000)
    w = np.random.default_rng(1).standard_normal(FEATURES)
    w32 = w.astype(np.float32)
    data.X @ w32
    product = best_time(lambda: data.X @ w32, repeat=7)
    for name in LOSSES:
        risk = LinearRisk.of(loss(name), data, pair_shares(data))
        risk.value_and_gradient(0.1 * w)
        ours = best_time(lambda risk=risk: risk.value_and_gradient(0.1 * w))
        yield Row(
            f"{name}, value and gradient, {data.n_rows:,} × {FEATURES} float32", "time", ours, "X @ w", product, "s"
        )


def memory_rows() -> Iterator[Row]:
    setup = f"""
        import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
        import warnings; warnings.simplefilter("ignore")
        from bench_structured import large
        import gainful
        gainful.RankSVM(max_iter=2).fit(large(20))
        gainful.ranker("lambdarank", max_iter=2).fit(large(20))
        data = large(3_000)
    """
    size = 3_000 * DOCUMENTS * FEATURES * 4 / 2**20
    for name in ("ranksvm", "lambdarank"):
        body = f"gainful.ranker({name!r}, max_iter=10).fit(data)"
        yield Row(
            f"{name}, 360,000 × 136 float32", "peak memory", peak_memory(setup, body), "a copy of the features", size,
            "MiB", wanted=1.0,
        )  # fmt: skip


def rows() -> Iterator[Row]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from svm_rows()
        yield from iteration_rows()
        yield from memory_rows()


if __name__ == "__main__":
    main(rows)
