"""How many trials per parameter it takes until a mark in a comparison no longer hangs on the seed of the search.

    python benchmarks/experiment_search_seeds.py DIR [--pool 60]

DIR holds ``ohsumed/Fold1 …``, ``mq2007/rows.txt.gz`` and ``clueweb09/S1.txt.gz …``. On one fold of each, with at most
150 training queries, ``lambdamart`` of 60 trees is trained with ``--pool`` random settings of its other parameters. A
search of N trials is the default and N − 1 random ones of them; it takes the best on the validation queries. 2,000
searches for each N are compared with ``ranksvm`` on the test queries (two standard errors, average precision). Printed
is how often two searches give different marks, and the spread of the chosen model's mean between searches beside the
error of the difference.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

HOME = Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path[0] = str(HOME)

import gainful  # noqa: E402
from auto.run import REAL, folds_of  # noqa: E402
from gainful.tuning.search import sobol_draw  # noqa: E402
from gainful.tuning.tune import search_space  # noqa: E402

PER_PARAMETER = (0.5, 1, 2, 3, 5, 8)
SEARCHES = 2000
MEASURE = gainful.metric("map")


def values_of(model: gainful.Ranker, train: gainful.RankingData, *held: gainful.RankingData) -> list[np.ndarray]:
    model.fit(train)
    return [np.nan_to_num(MEASURE.per_query(model.predict(part), part)) for part in held]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path)
    parser.add_argument("--pool", type=int, default=60)
    given = parser.parse_args()
    base = gainful.ranker("lambdamart", n_trees=60, n_jobs=1)
    space = search_space(base, None, {"n_trees"})
    print(f"{len(space)} parameters: {', '.join(space)}", flush=True)
    for name in REAL:
        train, valid, test = next(folds_of(name, given.shared))
        train = train[np.arange(min(150, train.n_queries))]
        rival = values_of(gainful.ranker("ranksvm"), train, valid, test)[1]
        settings = [{}, *(sobol_draw(space, 0, i) for i in range(1, given.pool + 1))]
        tried = [
            values_of(gainful.ranker("lambdamart", n_trees=60, n_jobs=1, **one), train, valid, test) for one in settings
        ]
        on_valid, d = np.array([v.mean() for v, _ in tried]), np.array([t for _, t in tried]) - rival
        error = d.std(axis=1, ddof=1) / np.sqrt(d.shape[1])
        marks = np.where(np.abs(d.mean(axis=1)) > 2 * error, np.sign(d.mean(axis=1)), 0)
        rng = np.random.default_rng(0)
        for share in PER_PARAMETER:
            n = max(1, round(share * len(space)))
            chosen = np.empty(SEARCHES, dtype=int)
            for s in range(SEARCHES):
                drawn = np.append(rng.choice(given.pool, size=min(n - 1, given.pool), replace=False) + 1, 0)
                chosen[s] = drawn[np.argmax(on_valid[drawn])]
            differ = np.mean(marks[chosen[::2]] != marks[chosen[1::2]])
            print(
                f"{name}, {test.n_queries} test queries, {n} trials ({share:g} per parameter): marks differ "
                f"{differ:.3f}, spread {d.mean(axis=1)[chosen].std():.4f}, error {error[chosen].mean():.4f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
