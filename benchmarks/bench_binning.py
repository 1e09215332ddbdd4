"""AdaptiveBinner: NDCG@10 and memory against the number of bins, as in figure 3 of Li, Burges and Wu 2007.

The paper finds that 2^8 bins rank as well as 2^16. ``--queries N`` sets the size of the artificial data.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import gainful
from harness import Row, main, peak_memory

BINS = (2**3, 2**4, 2**5, 2**6, 2**7, 2**8)
FINEST = 2**16
TREES = {"n_trees": 200, "n_leaves": 10, "learning_rate": 0.1, "early_stopping": None}


def parts(n_queries: int) -> list[gainful.RankingData]:
    data = gainful.make_artificial(3 * n_queries, seed=0)
    return [data[:n_queries], data[n_queries:]]


def measured(train: gainful.RankingData, test: gainful.RankingData, n_bins: int) -> tuple[float, float, float]:
    """NDCG@10 on the test queries, bins over all features, and seconds to bin the training data."""
    began = time.perf_counter()
    binner = gainful.AdaptiveBinner(n_bins).fit(train)
    codes = binner.transform(train)
    seconds = time.perf_counter() - began
    model = gainful.ranker("mcrank-regression", bins="exact", **TREES).fit(codes)
    return model.score(binner.transform(test)), float(binner.n_bins_.sum()), seconds


def quality_rows(n_queries: int) -> Iterator[Row]:
    train, test = parts(n_queries)
    best, all_bins, _ = measured(train, test, FINEST)
    for n_bins in BINS:
        found, bins, seconds = measured(train, test, n_bins)
        yield Row(
            f"AdaptiveBinner({n_bins}), mcrank-regression, {n_queries} queries", "NDCG@10", found,
            f"AdaptiveBinner({FINEST})", best, "", wanted=0.98 if n_bins == 2**8 else None, larger_is_better=True,
            notes={"bins, share of the finest": bins / all_bins, "seconds to bin": seconds},
        )  # fmt: skip


def memory_row(n_bins: int, n_rows: int = 200_000, n_features: int = 100) -> Row:
    """Peak memory of the features and a fit: exact codes against float64 with LightGBM's bins."""
    peaks = {}
    for kind, make, bins in (
        ("codes", f"gainful.AdaptiveBinner({n_bins}).fit(X[:20000]).transform(X)", '"exact"'),
        ("floats", "X", "255"),
    ):
        setup = f"""
            import numpy as np, gainful
            rng = np.random.default_rng(0)
            def fit(n):
                X = rng.random((n, {n_features}))
                data = gainful.RankingData.from_rows({make}, rng.integers(0, 5, n), np.arange(n) // 50)
                del X
                return data
            def grow(data):
                gainful.ranker("mcrank-regression", n_trees=2, n_leaves=10, bins={bins}).fit(data)
            grow(fit(500))
            data = fit({n_rows})
            open("/proc/self/clear_refs", "w").write("5")  # the peak counts from here
        """
        size = n_rows * n_features * (8 if kind == "floats" else 1 if n_bins <= 256 else 2) / 2**20
        peaks[kind] = size + peak_memory(setup, "grow(data)")
    return Row(
        f"features and a fit, {n_rows:,} × {n_features}, AdaptiveBinner({n_bins})", "peak memory", peaks["codes"],
        "float64, 255 bins", peaks["floats"], "MiB", wanted=4.0 if n_bins <= 256 else 2.0,
    )  # fmt: skip


def rows(n_queries: int = 400) -> Iterator[Row]:
    yield from quality_rows(n_queries)
    yield memory_row(2**8)
    yield memory_row(2**12)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--queries", type=int, default=400, help="training queries; the test uses twice as many")
    options = parser.parse_args()
    main(lambda: rows(options.queries))
