"""What tuning costs beyond the trainings, and what two jobs save.

A trial of gainful.tune against a bare loop of fit and measure; a comparison and a search with two jobs against one. The
latter use OHSUMED itself if ``GAINFUL_OHSUMED`` names its folder, otherwise artificial data of that shape.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

from sklearn.base import clone

import gainful
from gainful.training.shared_setup import SharedSetup
from harness import Row, best_time, main

TRIALS = 20
SAME = {"eval_metric": gainful.Values("ndcg@10")}  # every trial is the same training
CASES: dict[str, dict[str, Any]] = {
    "regression": {},
    "ranksvm": {},
    "lambdamart": {"n_trees": 30, "n_jobs": 1, "early_stopping": None},
}


COMPARED = ("ranksvm", "ranknet", "structured-svm", "rankboost", "lambdamart-plain:n_trees=100", "mcrank:n_trees=30")


def rows() -> Iterator[Row]:
    yield from overhead()
    yield from shared_setup()
    yield from two_jobs()


def shared_setup() -> Iterator[Row]:
    """Processor time of the same search with and without what its trials share."""
    train, valid = gainful.split(gainful.make_artificial(400, n_docs=50, n_features=50, seed=1), (0.7, 0.3))
    for ranker in ("regression", "ranksvm", "lambdamart:n_trees=50"):

        def seconds(ranker: str = ranker) -> float:
            began = time.process_time()
            gainful.tune(ranker, train, valid=valid, trials=8, refit=False)
            return time.process_time() - began

        seconds()
        together = seconds()
        with patch.object(SharedSetup, "use", lambda _: nullcontext()):
            alone = seconds()
        yield Row(f"{ranker}: 8 trials", "processor time", 1e3 * together, "nothing shared", 1e3 * alone, "ms")


def two_jobs() -> Iterator[Row]:
    """The same comparison and the same search with one job and with two; every fit on one thread."""
    folder = os.environ.get("GAINFUL_OHSUMED")
    if folder:
        names = ("train.txt", "vali.txt", "test.txt")
        parts = gainful.Split(*(gainful.read(Path(folder, "Fold1", name)) for name in names))
    else:
        parts = gainful.Split(*(gainful.make_artificial(60, n_docs=150, n_features=45, seed=seed) for seed in range(3)))
    single = {"lambdamart-plain:n_trees=100": ":n_jobs=1", "mcrank:n_trees=30": ":n_jobs=1"}
    rankers = [name + single.get(name, "") for name in COMPARED]

    def compare(n_jobs: int, **settings: Any) -> None:
        gainful.compare(rankers, parts, n_jobs=n_jobs, **settings)

    def tune(n_jobs: int) -> None:
        gainful.tune("lambdamart:n_trees=50", parts, trials=20, n_jobs=n_jobs, refit=False)

    def tuned(n_jobs: int) -> None:
        compare(n_jobs, tune=4)

    for subject, call in (("compare six rankers", compare), ("compare, four trials each", tuned), ("20 trials", tune)):
        call(2)
        one, two = (1e3 * best_time(lambda n=n, call=call: call(n), repeat=3) for n in (1, 2))
        yield Row(f"{subject}: two jobs", "time", two, "one job", one, "ms")


def overhead() -> Iterator[Row]:
    data = gainful.make_artificial(500, n_docs=40, n_features=30, seed=1)
    train, valid = gainful.split(data, (0.7, 0.3))
    ndcg = gainful.metric("ndcg@10")
    for name, params in CASES.items():
        model = gainful.ranker(name, **params)

        def bare(model: gainful.Ranker = model) -> None:
            for _ in range(TRIALS):
                ndcg(clone(model).fit(train, eval_set=valid).predict(valid), valid)

        def tuned(model: gainful.Ranker = model, **settings: Any) -> None:
            gainful.tune(model, train, valid=valid, space=SAME, trials=TRIALS, refit=False, **settings)

        def stored(tuned: Any = tuned) -> None:
            with tempfile.TemporaryDirectory() as folder:
                tuned(store=folder)

        bare()
        theirs = 1e3 * best_time(bare) / TRIALS
        for subject, call in (("", tuned), (", stored", stored), (", two workers", lambda t=tuned: t(n_jobs=2))):
            ours = 1e3 * best_time(call) / TRIALS
            yield Row(f"{name}: a trial{subject}", "time", ours, "fit and measure", theirs, "ms")


if __name__ == "__main__":
    main(rows)
