"""Is training on a measure best for that measure? Trained on × measured by, for trees and linear rankers.

    python benchmarks/experiment_measures.py DIR [--data mq2007,clueweb09]

DIR holds the collections. All models differ in nothing but the measure of their λ gradients, which on the validation
queries also decides when trees stop, and C of linear rankers. Trees are those of ``boosted`` (10 leaves, at most 300
trees at 0.05), linear rankers those of ``linear``.
A cell is the mean over the test queries of five folds, and its paired difference from the model that was trained on
the measure of its column, with the standard error of that difference.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HOME = Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path[0] = str(HOME)

import gainful  # noqa: E402
from auto.run import folds_of  # noqa: E402

MEASURES = ("ndcg@10", "map", "mrr", "err@10", "recall@10")
TREES: dict[str, Any] = {"n_trees": 300, "n_leaves": 10, "learning_rate": 0.05, "min_docs_in_leaf": 50,
                         "colsample": 0.5, "early_stopping": 50, "n_jobs": 1}  # fmt: skip
PENALTIES = [1.0, 10.0, 100.0, 1000.0]  # the sizes of the losses differ
MODELS: dict[str, Callable[[str], gainful.Ranker]] = {
    "trees": lambda name: gainful.BoostedRanker(loss=f"lambda(metric={name})", eval_metric=name, **TREES),
    "linear": lambda name: gainful.ranker("linear", loss=f"lambda(metric={name})", eval_metric=name, C=PENALTIES),
}


def values_of(make: Callable[[str], gainful.Ranker], name: str, parts: list[Any]) -> dict[str, Any]:
    """By measure: the value of each test query of all folds."""
    found: dict[str, list[Any]] = {measure: [] for measure in MEASURES}
    for train, valid, test in parts:
        scores = make(name).fit(train, eval_set=valid).predict(test)
        for measure, values in found.items():
            values.append(gainful.metric(measure).per_query(scores, test))
    return {measure: np.concatenate(values) for measure, values in found.items()}


def table(by_trained: dict[str, dict[str, Any]]) -> str:
    lines = [f"| trained on | {' | '.join(MEASURES)} |", "| --- |" + " ---: |" * len(MEASURES)]
    for trained, found in by_trained.items():
        cells = []
        for measure in MEASURES:
            mean = f"{np.mean(found[measure]):.4f}"
            if trained == measure:
                cells.append(f"**{mean}**")
                continue
            d = found[measure] - by_trained[measure][measure]
            error = d.std(ddof=1) / math.sqrt(len(d))
            mark = "" if abs(d.mean()) <= 2 * error else " ▲" if d.mean() > 0 else " ▼"
            cells.append(f"{mean} ({d.mean():+.4f} ± {error:.4f}){mark}")
        lines.append(f"| {trained} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", default="mq2007,clueweb09")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for data in given.data.split(","):
        parts = list(folds_of(data, given.folder))
        for kind, make in MODELS.items():
            found = {name: values_of(make, name, parts) for name in MEASURES}
            print(f"\n{data}, {kind}: {len(found['map']['map']):,} test queries\n\n{table(found)}", flush=True)


if __name__ == "__main__":
    main()
