"""Every ranker on OHSUMED, beside the figures that its papers publish.

``python benchmarks/experiment_ohsumed.py DIR [NAME …]``: five folds, LETOR 3's measure, each ranker's parameters chosen
on the validation queries by MAP from a small grid, means of the folds' means, standard errors over the queries. The
published figures are from Wu et al. 2009, table 1, from LETOR 3.0's baselines (NDCG@10) and from Sun et al. 2009.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import gainful
from gainful.rankers.specs import ranker_from_spec
from gainful.selection.layout import read_splits

POWERS = [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]
TREES = {"n_trees": [250], "n_leaves": [8], "learning_rate": [0.05], "min_docs_in_leaf": [50, 100]}
GRIDS: dict[str, dict[str, list[Any]]] = {
    "regression": {"alpha": [1.0, 10.0, 100.0, 1000.0]},
    "structured-svm-tight": {"C": POWERS},
    "svmmap": {"C": POWERS},
    "rankmm-1": {"C": POWERS},
    "rankmm-2": {"C": POWERS},
    "rankmm-3": {"C": POWERS},
    "ranksvm": {"loss": ["hinge", "squared-hinge"], "C": [*POWERS, 1e4]},
    "listnet": {"C": [*POWERS, 1e4]},
    "ranknet": {"C": [*POWERS, 1e4]},
    "lambdarank": {"C": [1.0, 10.0, 100.0, 1000.0]},
    "softrank": {"C": [1.0, 10.0, 100.0, 1000.0]},
    "rsrank": {"init": ["regression", "zeros"]},
    "rsrank-sparse": {},
    "ndcg-reduction": {},
    "adarank-map": {},
    "adarank-ndcg": {},
    "rankboost": {"n_thresholds": [20, 255], "pairs": ["all", "query"]},
    "frank": {"n_thresholds": [50, 255]},
    "coordinate-ascent": {},
    "lambdamart": {"n_leaves": [4, 8, 16], "learning_rate": [0.02, 0.05]},
    "lambdamart-plain": TREES,
    "structured-boost": TREES,
    "gbrank": TREES,
    "tree-regression": TREES,
    "mcrank": TREES,
    "mcrank-ordinal": TREES,
    "mcrank-regression": TREES,
    "sdcg": {"n_trees": [250]},
    "sdcg:start_trees=0": {"n_trees": [250]},
    "shf-sdcg": {"n_trees": [250]},
    "reg-shf-sdcg": {"n_trees": [250]},
}
PUBLISHED = {
    "rankboost": (0.4632, 0.4494, 0.4302, 0.4411),
    "ranksvm": (0.4958, 0.4164, 0.4140, 0.4334),
    "frank": (0.5300, 0.4588, np.nan, 0.4439),
    "listnet": (0.5326, 0.4432, 0.4410, 0.4457),
    "adarank-map": (0.5388, 0.4613, 0.4429, 0.4487),
    "adarank-ndcg": (0.5330, 0.4673, np.nan, 0.4498),
    "sdcg": (0.5012, 0.4420, np.nan, 0.4501),
    "shf-sdcg": (0.5409, 0.4598, np.nan, 0.4503),
    "reg-shf-sdcg": (0.5517, 0.4634, np.nan, 0.4506),
    "rsrank": (0.5613, np.nan, np.nan, np.nan),
    "rsrank-sparse": (0.5605, np.nan, np.nan, np.nan),
}
MEASURES = ("ndcg@1", "ndcg@5", "ndcg@10", "map")


def best_on_validation(name: str, part: gainful.Split) -> gainful.Ranker:
    """The setting of the grid with the best validation MAP; early stopping looks at MAP too where there is any."""
    chosen, best = None, -np.inf
    grid = GRIDS[name]
    by_map = {"eval_metric": "map(convention=letor3)"}
    for values in itertools.product(*grid.values()):
        model = ranker_from_spec(name).set_params(**dict(zip(grid, values, strict=True)), **by_map)
        model.fit(part.train, eval_set=part.valid)
        value = gainful.metric("map", convention="letor3")(model.predict(part.valid), part.valid)
        if value > best:
            chosen, best = model, value
    assert chosen is not None
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*", default=list(GRIDS))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    splits = read_splits(arguments.folder)
    measures = [gainful.metric(name, convention="letor3") for name in MEASURES]
    table = Table(box=None, pad_edge=False)
    for heading in ("", *MEASURES, "features", "published", "seconds"):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    console = Console(width=150)
    for name in arguments.names:
        start = time.perf_counter()
        rows, kept, queries = [], [], []
        for part in splits:
            model = best_on_validation(name, part)
            scores = model.predict(part.test)
            rows.append([m(scores, part.test) for m in measures])
            queries.append([m.per_query(scores, part.test) for m in measures])
            kept.append(np.count_nonzero(getattr(model, "coef_", np.nan)) / part.train.n_features)
        share = f"{np.mean(kept):.0%}" if name.startswith("rsrank") else ""
        paper = " ".join("  –  " if np.isnan(v) else f"{v:.4f}" for v in PUBLISHED.get(name, ()))
        seconds = time.perf_counter() - start
        values = np.concatenate(queries, axis=1)
        errors = values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
        cells = [f"{mean:.4f} ± {error:.3f}" for mean, error in zip(np.mean(rows, axis=0), errors, strict=True)]
        table.add_row(name, *cells, share, paper, f"{seconds:.1f}")
        console.print(f"{name} {' '.join(cells)} {seconds:.1f} s", style="dim")
    console.print(table)


if __name__ == "__main__":
    main()
