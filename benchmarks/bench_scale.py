"""Linear rankers from 72,000 to 720,000 rows of 136 float32 features: the time of an iteration grows with the rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator

import gainful
from bench_structured import large
from harness import Row, main

SETTINGS: dict[str, dict[str, int]] = {
    "ranksvm": {},
    "rankmm-1": {},
    "rankmm-2": {},
    "rankmm-3": {},
    "listnet": {"max_iter": 20},
    "ranknet": {"max_iter": 20},
    "lambdarank": {"max_iter": 5},
    "softrank": {"max_iter": 3},
    "rsrank": {"max_iter": 10},
    "ndcg-reduction": {"n_rounds": 2},
}


def seconds_per_iteration(name: str, data: gainful.RankingData) -> float:
    start = time.perf_counter()
    model = gainful.ranker(name, **SETTINGS[name]).fit(data)
    return (time.perf_counter() - start) / model.n_iter_


def rows() -> Iterator[Row]:
    warnings.simplefilter("ignore")
    tiny, small, whole = large(20), large(600), large(6_000)
    for name in SETTINGS:
        seconds_per_iteration(name, tiny)  # compiled
        ten_times = 10 * seconds_per_iteration(name, small)
        yield Row(
            f"{name}, one iteration, 720,000 × 136 float32", "time", seconds_per_iteration(name, whole),
            "10 × that of 72,000 rows", ten_times, "s", wanted=0.7,
        )  # fmt: skip


if __name__ == "__main__":
    main(rows)
