"""Chapelle, Le and Smola's experiment at a small size: NDCG@1 … NDCG@10 of the two bounds and the baselines.

``python benchmarks/experiment_margins.py`` runs on artificial data; with ``--ohsumed DIR`` also on the five folds of
OHSUMED (LETOR 3.0) under LETOR's measure; there the paper found that the convex bound gives w = 0 and the tight one
does not. Features are used as given, as in the paper. C is chosen from powers of ten by NDCG@10 on validation queries.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from rich.console import Console
from rich.table import Table

import gainful
from gainful.formats.layout import read_splits

GRID = [0.1, 1.0, 10.0, 100.0, 1000.0]
CURVE = [f"ndcg@{k}" for k in range(1, 11)]


def contestants() -> dict[str, gainful.Ranker]:
    return {
        "regression": gainful.RegressionRanker(alpha=1.0, scale=None),
        "structured-svm": gainful.StructuredSVM(C=GRID, scale=None),
        "structured-svm, A = 1/√r": gainful.StructuredSVM(C=GRID, scale=None, position_weights="sqrt"),
        "the start of the tight bound": gainful.StructuredSVM(C=1e-12, scale=None, bound="tight"),
        "structured-svm-tight": gainful.StructuredSVM(C=GRID, scale=None, bound="tight"),
        "structured-svm-tight, cccp": gainful.StructuredSVM(C=GRID, scale=None, bound="tight", tight_method="cccp"),
        "svmmap": gainful.StructuredSVM(C=GRID, scale=None, metric="map"),
        "lambdamart": gainful.LambdaMART(n_trees=200, n_leaves=8, learning_rate=0.05),
    }


def curves(splits: list[gainful.Split], convention: str | None) -> Table:
    """Mean over the folds of NDCG@1 … 10 and MAP on the test queries, and the norm of the weights."""
    table = Table(box=None, pad_edge=False)
    for name in ("", *CURVE, "map", "‖w‖"):
        table.add_column(name, justify="left" if not name else "right")
    measures = [gainful.metric(name, convention=convention) for name in (*CURVE, "map")]
    for label, template in contestants().items():
        values, norms = [], []
        for part in splits:
            model = type(template)(**template.get_params())
            model.fit(part.train, eval_set=part.valid)
            scores = model.predict(part.test)
            values.append([m(scores, part.test) for m in measures])
            norms.append(np.linalg.norm(getattr(model, "coef_", np.nan)))
        norm = "" if np.isnan(norms).any() else f"{np.mean(norms):.2g}"
        table.add_row(label, *(f"{value:.4f}" for value in np.mean(values, axis=0)), norm)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ohsumed", help="folder of OHSUMED with Fold1 … Fold5")
    parser.add_argument("--queries", type=int, default=500, help="queries of the artificial data")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    console = Console(width=150)
    data = gainful.make_artificial(arguments.queries, n_docs=40, n_features=30, seed=0)
    console.print(f"artificial data, {arguments.queries} queries", style="bold")
    console.print(curves([gainful.Split(*gainful.split(data, (0.6, 0.2, 0.2)))], None))
    if arguments.ohsumed:
        console.print("OHSUMED, mean of the folds, LETOR 3's measure", style="bold")
        console.print(curves(read_splits(arguments.ohsumed), "letor3"))


if __name__ == "__main__":
    main()
