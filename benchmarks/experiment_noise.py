"""λ gradients averaged over noise beside plain ones, on the same trees.

    python benchmarks/experiment_noise.py DIR

DIR holds ``mq2007/rows.txt.gz``. Five folds by query; trees stop early on validation queries. Differences are paired
by query, ± their standard error; time is processor time, relative to the first row.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

HOME = Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path[0] = str(HOME)

import gainful  # noqa: E402
from auto.run import folds_of  # noqa: E402

LOSSES = ("lambda", "lambda(noise=0.3, draws=4)", "lambda(noise=1, draws=4)")
MEASURES = ("ndcg@10", "map")
TREES: dict[str, Any] = {"n_trees": 300, "n_leaves": 16, "learning_rate": 0.05, "min_docs_in_leaf": 50, "n_jobs": 1}


def measured(loss: str, parts: list[Any]) -> tuple[dict[str, np.ndarray], float]:
    """The value of each test query by measure, and the seconds of all trainings."""
    found: dict[str, list[np.ndarray]] = {measure: [] for measure in MEASURES}
    start = time.process_time()
    for train, valid, test in parts:
        scores = gainful.BoostedRanker(loss=loss, **TREES).fit(train, eval_set=valid).predict(test)
        for measure, values in found.items():
            values.append(gainful.metric(measure).per_query(scores, test))
    return {measure: np.concatenate(values) for measure, values in found.items()}, time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    warnings.simplefilter("ignore")
    parts = list(folds_of("mq2007", parser.parse_args().folder))
    first: tuple[dict[str, np.ndarray], float] | None = None
    for loss in LOSSES:
        found, seconds = measured(loss, parts)
        first = first or (found, seconds)
        cells = []
        for measure, values in found.items():
            apart = values - first[0][measure]
            error = apart.std(ddof=1) / math.sqrt(len(apart))
            cells += [f"{100 * values.mean():.2f}", f"{100 * apart.mean():+.2f} ± {100 * error:.2f}"]
        print(f"| `{loss}` | {' | '.join(cells)} | {seconds / first[1]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
