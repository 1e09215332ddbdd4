"""AdaRank, RankBoost, FRank and coordinate ascent: against fastrank, and how their cost grows.

Uses OHSUMED itself if ``GAINFUL_OHSUMED`` names its folder, otherwise artificial data of that shape. The rows against
fastrank's coordinate ascent (``pip install fastrank``) are skipped if it is not installed. The large problem has
the shape of MSLR-WEB: 6,000 queries of 120 documents, 136 features, float32.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import gainful
from bench_structured import large
from gainful.data.splits import Split
from gainful.formats.layout import read_splits
from harness import Row, main, peak_memory

NAMES = ("adarank-map", "rankboost", "frank", "coordinate-ascent")
SHORT = {
    "adarank-map": {"n_rounds": 10},
    "rankboost": {"n_rounds": 10},
    "frank": {"n_rounds": 5},
    "coordinate-ascent": {"n_restarts": 1, "n_sweeps": 1},
}


def ohsumed() -> list[Split]:
    folder = os.environ.get("GAINFUL_OHSUMED")
    if folder:
        return read_splits(folder)
    data = gainful.make_artificial(106, n_docs=152, n_features=45, seed=0)
    return [Split(*gainful.split(data, (0.6, 0.2, 0.2), seed=0), name="artificial")]


def fastrank_scores(split: Split, metric: str) -> tuple[np.ndarray, float]:
    """fastrank's scores of the test rows with its default settings, and the seconds its training took."""
    import fastrank

    def dataset(data: gainful.RankingData) -> fastrank.CDataset:
        query = np.repeat(np.arange(data.n_queries), data.counts)
        return fastrank.CDataset.from_numpy(np.asarray(data.X, np.float32), data.y, query)

    request = fastrank.TrainRequest.coordinate_ascent()
    request.measure, request.params.quiet, request.params.seed = metric, True, 42
    train = dataset(split.train)
    start = time.perf_counter()
    model = train.train_model(request)
    seconds = time.perf_counter() - start
    found = model.predict_dense_scores(dataset(split.test))
    return np.asarray(found, dtype=np.float64), seconds


def ascent_rows(splits: list[Split]) -> Iterator[Row]:
    if find_spec("fastrank") is None:
        return
    measure = gainful.metric("ndcg@10", convention="letor3")
    gainful.CoordinateAscent(n_restarts=1, n_sweeps=1).fit(splits[0].train[:3])
    ours, theirs = np.zeros((len(splits), 2)), np.zeros((len(splits), 2))
    for f, split in enumerate(splits):
        start = time.perf_counter()
        model = gainful.CoordinateAscent("ndcg@10").fit(split.train, eval_set=split.valid)
        ours[f, 0] = time.perf_counter() - start
        ours[f, 1] = measure(model.predict(split.test), split.test)
        scores, theirs[f, 0] = fastrank_scores(split, "ndcg@10")
        theirs[f, 1] = measure(scores, split.test)
    subject = f"coordinate ascent on NDCG@10, OHSUMED shape, {len(splits)} splits, defaults"
    (seconds, reached), (their_seconds, they_reached) = ours.mean(axis=0), theirs.mean(axis=0)
    yield Row(subject, "time", seconds, "fastrank", their_seconds, "s", wanted=10.0)
    yield Row(subject, "NDCG@10", reached, "fastrank", they_reached, "", wanted=0.99, larger_is_better=True)


def fold_rows(splits: list[Split]) -> Iterator[Row]:
    """Python has no peer for these: seconds per fit beside ridge regression, and the NDCG@10 of both."""
    measure = gainful.metric("ndcg@10", convention="letor3")
    split = splits[0]
    regression = gainful.RegressionRanker()
    start = time.perf_counter()
    regression.fit(split.train)
    seconds = time.perf_counter() - start
    theirs = measure(regression.predict(split.test), split.test)
    for name in NAMES:
        gainful.ranker(name, **SHORT[name]).fit(split.train[:3])
        start = time.perf_counter()
        model = gainful.ranker(name).fit(split.train, eval_set=split.valid)
        notes: dict[str, float | str] = {"seconds": time.perf_counter() - start, "regression's seconds": seconds}
        reached = measure(model.predict(split.test), split.test)
        yield Row(
            f"{name}, OHSUMED shape, one split, {notes['seconds']:.2f} s", "NDCG@10", reached, "ridge regression",
            theirs, "", larger_is_better=True, notes=notes,
        )  # fmt: skip


def growth_rows() -> Iterator[Row]:
    small, data = large(600), large(6_000)
    for name in NAMES:
        seconds = []
        for one in (small, data):
            gainful.ranker(name, **SHORT[name]).fit(small[:5])
            start = time.perf_counter()
            gainful.ranker(name, **SHORT[name]).fit(one)
            seconds.append(time.perf_counter() - start)
        yield Row(
            f"{name}, {SHORT[name]}, 720,000 × 136 float32", "time", seconds[1], "10 × that of 72,000 rows",
            10 * seconds[0], "s", wanted=0.7,
        )  # fmt: skip


def memory_rows() -> Iterator[Row]:
    size = 3_000 * 120 * 136 * 4 / 2**20
    for name in NAMES:
        setup = f"""
            import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
            from bench_structured import large
            import gainful
            gainful.ranker({name!r}, **{SHORT[name]!r}).fit(large(20))
            data = large(3_000)
        """
        body = f"gainful.ranker({name!r}, **{SHORT[name]!r}).fit(data)"
        yield Row(
            f"{name}, 360,000 × 136 float32", "peak memory", peak_memory(setup, body), "a copy of the features", size,
            "MiB", wanted=1.0,
        )  # fmt: skip


def rows() -> Iterator[Row]:
    splits = ohsumed()
    yield from ascent_rows(splits)
    yield from fold_rows(splits)
    yield from growth_rows()
    yield from memory_rows()


if __name__ == "__main__":
    main(rows)
