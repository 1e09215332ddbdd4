"""The structured SVM: the cost of an iteration against X @ w, how it grows, and a path of C against LightGBM's trees.

The large problem has the shape of MSLR-WEB: 6,000 queries of 120 documents, 136 features, five grades, float32. The
path uses OHSUMED itself if ``GAINFUL_OHSUMED`` names its folder, otherwise artificial data of that shape.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import lightgbm as lgb
import numpy as np

import gainful
from gainful.formats.layout import read_splits
from gainful.linear.risk import LinearRisk
from gainful.solvers.bundle import minimize_bundle
from harness import Row, best_time, main, peak_memory

DOCUMENTS, FEATURES, ITERATIONS = 120, 136, 25
PATH = [float(C) for C in np.logspace(-2, 5, 10)]
SHARES = (0.5, 0.3, 0.13, 0.05, 0.02)


def large(n_queries: int) -> gainful.RankingData:
    """Float32 features with a linear signal and noise."""
    rng = np.random.default_rng(0)
    n_rows = n_queries * DOCUMENTS
    X = rng.random((n_rows, FEATURES), dtype=np.float32)
    signal = X @ rng.standard_normal(FEATURES).astype(np.float32) + rng.standard_normal(n_rows).astype(np.float32)
    y = np.searchsorted(np.quantile(signal, np.cumsum(SHARES)[:-1]), signal).astype(np.float64)
    return gainful.RankingData.from_rows(X, y, np.repeat(np.arange(n_queries), DOCUMENTS))


def seconds_per_iteration(data: gainful.RankingData) -> float:
    risk = LinearRisk.of(gainful.loss("structured-ndcg(k=10)"), data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        minimize_bundle(risk, 10.0, tol=0.0, max_iter=2)
        start = time.perf_counter()
        minimize_bundle(risk, 10.0, tol=0.0, max_iter=ITERATIONS)
    return (time.perf_counter() - start) / ITERATIONS


def iteration_rows() -> Iterator[Row]:
    small = seconds_per_iteration(large(600))
    data = large(6_000)
    w = np.random.default_rng(1).standard_normal(FEATURES).astype(np.float32)
    data.X @ w
    product = best_time(lambda: data.X @ w, repeat=7)
    ours = seconds_per_iteration(data)
    shape = f"{data.n_rows:,} × {FEATURES} float32"
    yield Row(
        f"structured SVM, one bundle iteration, {shape}", "time", ours, "4 × (X @ w)", 4 * product, "s", wanted=1.0,
        notes={"times X @ w": ours / product},
    )  # fmt: skip
    yield Row(f"the same, {shape}", "time", ours, "10 × that of 72,000 rows", 10 * small, "s", wanted=0.8)


def memory_rows() -> Iterator[Row]:
    setup = f"""
        import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
        import warnings; warnings.simplefilter("ignore")
        from bench_structured import large
        import gainful
        gainful.StructuredSVM(max_iter=2).fit(large(20))
        data = large(3_000)
    """
    body = "gainful.StructuredSVM(max_iter=10).fit(data)"
    size = 3_000 * DOCUMENTS * FEATURES * 4 / 2**20
    yield Row(
        "structured SVM, 360,000 × 136 float32", "peak memory", peak_memory(setup, body), "a copy of the features",
        size, "MiB", wanted=1.0,
    )  # fmt: skip


def ohsumed() -> tuple[str, gainful.RankingData, gainful.RankingData, gainful.RankingData]:
    folder = os.environ.get("GAINFUL_OHSUMED")
    if folder and Path(folder, "Fold1").is_dir():
        fold = read_splits(folder)[0]
        return "OHSUMED fold 1", fold.train, fold.valid, fold.test
    data = gainful.make_artificial(106, n_docs=152, n_features=45, n_grades=3, grade_shares=(0.7, 0.16, 0.14), seed=0)
    return "OHSUMED's shape", *gainful.split(data, (0.6, 0.2, 0.2))


def path_rows() -> Iterator[Row]:
    name, train, valid, test = ohsumed()
    ndcg = gainful.metric("ndcg@10", convention="letor3")

    def trees() -> lgb.Booster:
        params = {"objective": "lambdarank", "num_leaves": 31, "verbosity": -1, "num_threads": 2}
        return lgb.train(params, lgb.Dataset(train.X, label=train.y, group=train.counts, params=params), 300)

    def path(**settings: object) -> gainful.StructuredSVM:
        return gainful.StructuredSVM(tol=1e-3, **settings).fit_path(train, C=PATH, eval_set=valid)

    for settings, what in (({}, "structured-svm"), ({"bound": "tight"}, "structured-svm-tight")):
        model, booster = path(**settings), trees()  # warm
        gaps = [row["relative_gap"] for row in model.path_ if "relative_gap" in row]
        assert all(gap <= 1e-3 for gap in gaps)
        yield Row(
            f"{what}, path of ten C from 0.01 to 1e5, {name}", "time", best_time(lambda s=settings: path(**s)),
            "LightGBM, 300 lambdarank trees", best_time(trees), "s", wanted=1.0,
        )  # fmt: skip
        yield Row(
            f"the same, {name}", "test NDCG@10", ndcg(model.predict(test), test), "LightGBM, 300 lambdarank trees",
            ndcg(booster.predict(test.X), test), "", larger_is_better=True, notes={"C": model.C_},
        )  # fmt: skip


def rows() -> Iterator[Row]:
    yield from path_rows()
    yield from iteration_rows()
    yield from memory_rows()


if __name__ == "__main__":
    main(rows)
