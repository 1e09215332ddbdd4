"""What tuning costs beyond the trainings themselves: a trial of gainful.tune against a bare loop of fit and measure."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

from sklearn.base import clone

import gainful
from harness import Row, best_time, main

TRIALS = 20
SAME = {"eval_metric": gainful.Values("ndcg@10")}  # every trial is the same training
CASES: dict[str, dict[str, Any]] = {
    "regression": {},
    "ranksvm": {},
    "lambdamart": {"n_trees": 30, "n_jobs": 1, "early_stopping": None},
}


def rows() -> Iterator[Row]:
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
