"""What makes single members of ``auto`` better: trees that start from a linear model, and one end for all folds.

    python benchmarks/auto/members.py --shared DIR --data mq2007

Each ranker is trained on query folds of the training and validation queries, and its models are averaged, as in
``auto``. Columns: where every model ends with the best iteration of its own validation fold, after a patience of 40 or
100 trees; and where all end with the iteration that is best on the validation queries of all. NDCG@10 over the test
queries.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

HOME = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(HOME)

import gainful  # noqa: E402
from auto.run import NDCG, REAL, Parts, folds_of  # noqa: E402
from gainful.blending.folds import FOLDS, QueryFolds, smooth  # noqa: E402
from gainful.data.checks import skip_checks  # noqa: E402
from gainful.data.rows import Array  # noqa: E402
from gainful.rankers.specs import ranker_from_spec  # noqa: E402

TREES = "learning_rate=0.055:n_leaves=15:min_docs_in_leaf=45:colsample=0.5:subsample=0.7:l2=1.7:n_trees=600:n_jobs=1"
SPECS = {
    "lambdamart": "lambdamart", "lambdamart, init=listnet": "lambdamart:init=listnet",
    "xendcg": "boosted:loss=xendcg", "xendcg, init=listnet": "boosted:loss=xendcg:init=listnet",
    "ranknet": "boosted:loss=ranknet", "ranknet, init=listnet": "boosted:loss=ranknet:init=listnet",
    "tree-regression": "tree-regression", "tree-regression, init=regression": "tree-regression:init=regression",
}  # fmt: skip
ENDS = ("own, patience 40", "own, patience 100", "together")
PATIENCE = (40, 100)


def values_of(spec: str, parts: Parts) -> list[Array]:
    """NDCG@10 of each test query, for each way to end the models."""
    train, valid, test = parts
    folds = QueryFolds(gainful.RankingData.concatenate([train, valid]), FOLDS, 0)
    models, curves = [], []
    for fold in range(FOLDS):
        model = ranker_from_spec(f"{spec}:{TREES}:early_stopping={max(PATIENCE)}")
        model._keeps_all_trees = True
        with warnings.catch_warnings(), skip_checks():
            warnings.simplefilter("ignore")
            model.fit(folds.train(fold), eval_set=folds.valid(fold))
        models.append(model)
        curves.append(np.array([row["validation"] for row in model.history_]))
    shortest = min(map(len, curves))
    together = int(np.argmax(smooth(np.mean([curve[:shortest] for curve in curves], axis=0))))
    ends = [[own_end(curve, patience) for curve in curves] for patience in PATIENCE] + [[together] * FOLDS]
    return [NDCG.per_query(bagged_scores(models, each, folds, test), test) for each in ends]


def own_end(curve: Array, patience: int) -> int:
    best = 0
    for i, value in enumerate(curve):
        if value > curve[best]:
            best = i
        elif i - best >= patience:
            break
    return best


def bagged_scores(models: Sequence[gainful.Ranker], ends: Sequence[int], folds: QueryFolds, test: object) -> Array:
    """The mean over models of their scores, each divided by its spread on its validation queries."""
    scores = []
    for fold, (model, end) in enumerate(zip(models, ends, strict=True)):
        model._end_with(end + 1, cut=False)
        valid = folds.valid(fold)
        out = model.predict(valid)
        means = np.repeat(np.add.reduceat(out, valid.offsets[:-1]) / valid.counts, valid.counts)
        scores.append(model.predict(test) / np.sqrt(np.mean((out - means) ** 2)))
    return np.mean(scores, axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shared", type=Path, required=True, help="folder of the real collections")
    parser.add_argument("--data", default=",".join(REAL))
    given = parser.parse_args()
    for name in given.data.split(","):
        parts = list(folds_of(name, given.shared))
        print(f"\n## {name}\n\n| | {' | '.join(ENDS)} | together − own, 40 | ± s.e. |\n|---|{'---:|' * 5}")
        for title, spec in SPECS.items():
            found = [np.concatenate(one) for one in zip(*(values_of(spec, one) for one in parts), strict=True)]
            gain = found[-1] - found[0]
            error = gain.std(ddof=1) / np.sqrt(len(gain))
            figures = " | ".join(f"{one.mean():.4f}" for one in found)
            print(f"| {title} | {figures} | {gain.mean():+.4f} | {error:.4f} |", flush=True)


if __name__ == "__main__":
    main()
