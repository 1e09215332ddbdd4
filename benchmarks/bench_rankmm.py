"""RankMM: its dual steps at 1,000 documents against plain NumPy over all pairs, and a fit at MSLR-WEB's shape."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import gainful
from gainful.formats.layout import read_splits
from gainful.solvers.dual_projection_kernels import project
from gainful.solvers.exponentiated_kernels import marginals
from harness import Row, best_time, main, peak_memory

N = 1_000
SHARES = (0.5, 0.3, 0.13, 0.05, 0.02)
DOCUMENTS, FEATURES = 120, 136


def preferred_of(n: int) -> np.ndarray:
    """Five grades, few of the best."""
    sizes = (n * np.array(SHARES[::-1])).astype(int)
    return np.repeat(np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes).astype(np.int32)


# -- peers: what one writes with NumPy ---------------------------------------------------------------------------------


def plain_projection(groups: list[np.ndarray], radius: float) -> list[np.ndarray]:
    """Sorts each group, then bisects on the amount every group loses."""
    groups = [np.maximum(0.0, group) for group in groups]
    if sum(group.max() for group in groups) <= radius:
        return groups
    down = [np.sort(group)[::-1] for group in groups]
    sums = [np.cumsum(group) for group in down]
    losses = [s - np.arange(1, len(s) + 1) * v for s, v in zip(sums, down, strict=True)]  # Σ (v − v_i)_+ at each v_i

    def levels(theta: float) -> np.ndarray:
        out = np.empty(len(groups))
        for i, (s, loss) in enumerate(zip(sums, losses, strict=True)):
            count = max(1, int(np.searchsorted(loss, theta)))
            out[i] = max(0.0, (s[count - 1] - theta) / count)
        return out

    low, high = 0.0, max(s[-1] for s in sums)
    for _ in range(60):
        theta = 0.5 * (low + high)
        low, high = (theta, high) if levels(theta).sum() > radius else (low, theta)
    return [np.minimum(group, level) for group, level in zip(groups, levels(high), strict=True)]


def plain_exponentiated(alpha: np.ndarray, t: np.ndarray, rate: float) -> np.ndarray:
    """One multiplicative step of all pairs, (n, n) with zeros where there is none; α_0 is 1 − Σ α."""
    rest = 1.0 - alpha.sum()
    alpha = alpha * np.exp(rate * (t[None, :] - t[:, None]))
    alpha /= alpha.sum() + rest
    alpha.sum(axis=1) - alpha.sum(axis=0)
    return alpha


# -- rows --------------------------------------------------------------------------------------------------------------


def step_rows() -> Iterator[Row]:
    rng, preferred = np.random.default_rng(0), preferred_of(N)
    sizes = preferred[preferred > 0]
    values, gamma = rng.normal(size=int(sizes.sum())), np.empty(len(sizes))
    radius = 0.05 * len(sizes)
    scratch = values.copy()

    def ours() -> None:
        scratch[:] = values
        project(scratch, sizes, radius, gamma)

    ours()
    groups = np.split(values, np.cumsum(sizes)[:-1])
    difference = np.abs(np.concatenate(plain_projection(groups, radius)) - scratch).max()
    yield Row(
        f"l1,∞ projection, {N:,} documents, {len(values):,} pairs", "time", best_time(ours, 9), "NumPy, sorted groups",
        best_time(lambda: plain_projection(groups, radius)), "s", wanted=5.0, notes={"largest difference": difference},
    )  # fmt: skip

    z, c, t = rng.normal(size=N), np.empty(N), rng.normal(size=N)
    marginals(z, preferred, c)
    allowed = np.arange(N)[:, None] < preferred[None, :]
    alpha = allowed * np.exp(z[None, :] - z[:, None])
    alpha /= 1.0 + alpha.sum()

    def step() -> None:
        for _ in range(100):
            marginals(z + 0.1 * t, preferred, c)

    yield Row(
        f"exponentiated step, {N:,} documents", "time", best_time(step) / 100, "NumPy, all pairs",
        best_time(lambda: plain_exponentiated(alpha, t, 0.1)), "s", wanted=100.0,
    )  # fmt: skip


def large(n_queries: int) -> gainful.RankingData:
    """Float32 features with a linear signal and noise."""
    rng = np.random.default_rng(0)
    n_rows = n_queries * DOCUMENTS
    X = rng.random((n_rows, FEATURES), dtype=np.float32)
    signal = X @ rng.standard_normal(FEATURES).astype(np.float32) + rng.standard_normal(n_rows).astype(np.float32)
    y = np.searchsorted(np.quantile(signal, np.cumsum(SHARES)[:-1]), signal).astype(np.float64)
    return gainful.RankingData.from_rows(X, y, np.repeat(np.arange(n_queries), DOCUMENTS))


def fit_rows() -> Iterator[Row]:
    """Whole fits against four products X @ w per pass."""
    data = large(600)
    w = np.ones(FEATURES, dtype=np.float32)
    product = best_time(lambda: data.X @ w, repeat=9)
    for i in (1, 2, 3):
        gainful.ranker(f"rankmm-{i}").fit(large(5))
        start = time.perf_counter()
        model = gainful.ranker(f"rankmm-{i}", C=10.0).fit(data)
        seconds, passes = time.perf_counter() - start, model.n_iter_
        yield Row(
            f"rankmm-{i}, {data.n_rows:,} × {FEATURES}, C = 10", "time", seconds, f"{passes} passes of 4 × (X @ w)",
            4 * passes * product, "s", notes={"NDCG@10": model.score(data), "gap": model.certificate_.relative_gap},
        )  # fmt: skip


def memory_rows() -> Iterator[Row]:
    setup = f"""
        import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
        from bench_rankmm import large
        import gainful
        gainful.RankMM().fit(large(20))
        data = large(3_000)
    """
    size = 3_000 * DOCUMENTS * FEATURES * 4 / 2**20
    peak = peak_memory(setup, "gainful.RankMM(C=10.0).fit(data)")
    yield Row("rankmm-1, 360,000 × 136 float32", "peak memory", peak, "a copy of the features", size, "MiB", wanted=1.0)


def path_rows() -> Iterator[Row]:
    """A path of C on OHSUMED, chosen by validation MAP, beside ridge regression."""
    if "GAINFUL_OHSUMED" not in os.environ:
        return
    splits = read_splits(os.environ["GAINFUL_OHSUMED"])
    average_precision = gainful.metric("map", convention="letor3")
    grid = [10.0**e for e in range(-2, 4)]
    ridge = np.mean(
        [average_precision(gainful.ranker("regression").fit(s.train).predict(s.test), s.test) for s in splits]
    )
    for i in (1, 2, 3):
        start, found = time.perf_counter(), []
        for split in splits:
            model = gainful.ranker(f"rankmm-{i}", C=grid, eval_metric=average_precision)
            model.fit(split.train, eval_set=split.valid)
            found.append(average_precision(model.predict(split.test), split.test))
        yield Row(
            f"rankmm-{i}, OHSUMED, six C", "MAP", float(np.mean(found)), "ridge regression", float(ridge), "",
            wanted=1.0, larger_is_better=True, notes={"seconds, all folds": time.perf_counter() - start},
        )  # fmt: skip


def rows() -> Iterator[Row]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from step_rows()
        yield from fit_rows()
        yield from memory_rows()
        yield from path_rows()


if __name__ == "__main__":
    main(rows)
