"""How many validation queries it takes to choose the number of trees by them.

    python benchmarks/experiment_validation.py DIR

DIR holds ``mq2007/rows.txt.gz`` and ``ohsumed/Fold1``. Trees with default settings grow to the end on training queries;
then ``early_stopping`` is replayed on m validation queries, drawn again and again, and the trees it keeps are measured
on the test queries: the mean of what that adds to NDCG@10 over keeping all trees, and over the best number of trees for
the test queries, and the share of draws in which it loses more than .01 against all trees. Artificial data has no noise
to overfit.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import gainful
from gainful.rankers.specs import ranker_from_spec

SIZES = (3, 5, 8, 12, 20, 30, 50, 100)
SPLITS, DRAWS, PATIENCE = 6, 200, 50
RANKERS = ("lambdamart", "tree-regression:learning_rate=0.1:n_trees=300:n_leaves=31")


def data_sets(folder: Path) -> Iterator[tuple[str, gainful.RankingData, int]]:
    """Name, data and number of training queries."""
    fold = [gainful.read(folder / "ohsumed" / "Fold1" / f"{part}.txt") for part in ("train", "vali", "test")]
    yield "OHSUMED", gainful.RankingData.concatenate(fold), 50
    yield "MQ2007 sample", gainful.read(folder / "mq2007" / "rows.txt.gz")[:700], 200
    yield "artificial", gainful.make_artificial(500, n_docs=30, n_features=20, seed=1), 200


def curves(model: gainful.Ranker, data: gainful.RankingData) -> np.ndarray:
    """NDCG@10 of each query after each tree, (n_trees, n_queries)."""
    measure, scores, found = gainful.metric("ndcg@10"), np.zeros(data.n_rows), []
    for tree in range(model.booster_.current_iteration()):
        scores = scores + model.booster_.predict(data.X, start_iteration=tree, num_iteration=1, num_threads=1)
        found.append(measure.per_query(scores, data))
    return np.array(found)


def stopped(curve: np.ndarray) -> int:
    """The tree that early stopping keeps, from 0."""
    best = 0
    for tree, value in enumerate(curve):
        if value > curve[best]:
            best = tree
        elif tree - best >= PATIENCE:
            break
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    rng = np.random.default_rng(0)
    print("| data | ranker | m | over all trees | below the best | loses > .01 | trees |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for name, data, n_train in data_sets(parser.parse_args().folder):
        for spec in RANKERS:
            found: dict[int, list[tuple[float, float, int]]] = {m: [] for m in SIZES}
            for _ in range(SPLITS):
                order = rng.permutation(data.n_queries)
                model = ranker_from_spec(spec).set_params(early_stopping=None, n_jobs=1)
                each = curves(model.fit(data[np.sort(order[:n_train])]), data[np.sort(order[n_train:])])
                n_pool = each.shape[1] // 2
                for m in (m for m in SIZES if m <= n_pool):
                    for _ in range(DRAWS):
                        mixed = rng.permutation(each.shape[1])
                        test = each[:, mixed[n_pool:]].mean(axis=1)
                        kept = stopped(each[:, mixed[:m]].mean(axis=1))
                        found[m].append((test[kept] - test[-1], test.max() - test[kept], kept + 1))
            for m, rows in found.items():
                if rows:
                    gain, regret, trees = np.array(rows).T
                    print(f"| {name} | {spec.split(':')[0]} | {m} | {gain.mean():+.4f} | {regret.mean():.4f} | "
                          f"{(gain < -0.01).mean():.2f} | {np.median(trees):.0f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
