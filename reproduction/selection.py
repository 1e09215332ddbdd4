"""RSRank and RankMM on OHSUMED with the parameters chosen as in their papers: ``python -m reproduction.selection DIR``.

Agarwal and Collins 2010, section 4: stochastic steps in the dual; C, the first step η0 and the number of steps T from
three lists, by MAP on the validation queries. Sun, Qin, Tao and Wang 2009, section 5.1: fixed steps of 0.001; the
starting point and the number of iterations by validation. They do not name the measure, nor the starting points they
tried: we try several of both. Features are LETOR's, as given. Names after DIR run only these rankers.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

import gainful
from gainful.comparison.protocol import as_splits
from gainful.compute.estimators import ConvergenceWarning
from gainful.data.checks import skip_checks
from gainful.data.rows import Array
from gainful.data.splits import Split
from gainful.formats.layout import read_splits
from gainful.metrics import Metric, metric
from gainful.rankers.base import Ranker
from reproduction.ohsumed import CONVENTION, standard_error

SHOWN = ("ndcg@1", "ndcg@5", "ndcg@10", "map")
RANKMM_C = (0.1, 1.0, 10.0, 100.0, 1000.0)
RANKMM_FIRST_STEP = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
RANKMM_STEPS = 1000
RIDGE_PENALTIES = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5)
RSRANK_ITERATIONS = 300
RANDOM_STARTS = 4
PLAIN, TUNED = "regression without penalty", "regression, 6 penalties"

Candidates = Callable[[Split, Metric], Iterator[Ranker]]


def rankmm(name: str, split: Split, by: Metric) -> Iterator[Ranker]:
    """The paper's C and η0 of one RankMM. Validation chooses T after each pass, not from five values."""
    for C, step in product(RANKMM_C, RANKMM_FIRST_STEP):
        yield gainful.ranker(
            name, solver="stochastic", scale=None, C=C, learning_rate=step, n_steps=RANKMM_STEPS, eval_metric=str(by)
        )


def exact_rankmm(name: str, split: Split, by: Metric) -> Iterator[Ranker]:
    """The minimum of the paper's objective for each of its C."""
    for C in RANKMM_C:
        yield gainful.ranker(name, scale=None, C=C)


def ridge(penalties: Sequence[float], split: Split, by: Metric) -> Iterator[Ranker]:
    for alpha in penalties:
        yield gainful.ranker("regression", alpha=alpha)


def rsrank(starts: Sequence[str], split: Split, by: Metric) -> Iterator[Ranker]:
    """RSRank by fixed steps from each starting point; each keeps its best iterate on the validation queries."""
    rng = np.random.default_rng(0)
    drawn = rng.normal(size=(RANDOM_STARTS, split.train.n_features))
    points: list[Any] = [start for start in starts if start != "random"]
    points += drawn.tolist() if "random" in starts else []
    for start in points:
        yield gainful.ranker(
            "rsrank", scale=None, step="fixed", learning_rate=0.001, truncate_every=1, init=start, eval_metric=str(by),
            max_iter=RSRANK_ITERATIONS, tol=0.0, early_stopping=RSRANK_ITERATIONS,
        )  # fmt: skip


def choose(candidates: Iterator[Ranker], split: Split, by: Metric) -> Ranker:
    """The candidate with the highest mean on the validation queries; the first of equals."""
    best, chosen = -np.inf, None
    for model in candidates:
        model.fit(split.train, eval_set=split.valid)
        value = by(model.predict(split.valid), split.valid)
        if value > best:
            best, chosen = value, model
    assert chosen is not None
    return chosen


def measure(candidates: Candidates, splits: Sequence[Split], by: Metric) -> dict[str, tuple[float, float, Array]]:
    """Measure → mean of the folds' means on the test queries, its standard error over the queries, and their values."""
    found: dict[str, list[Array]] = {name: [] for name in SHOWN}
    for split in splits:
        scores = choose(candidates(split, by), split, by).predict(split.test)
        for name in SHOWN:
            found[name].append(metric(name, convention=CONVENTION).per_query(scores, split.test))
    values = {name: np.concatenate(parts) for name, parts in found.items()}
    return {
        name: (float(np.mean([part.mean() for part in parts])), standard_error(values[name]), values[name])
        for name, parts in found.items()
    }


def rows() -> Iterator[tuple[str, Candidates, str]]:
    """Name, candidates and the measure that chooses, of each line of the table."""
    yield PLAIN, partial(ridge, (0.0,)), "map"
    yield TUNED, partial(ridge, RIDGE_PENALTIES), "map"
    for name in ("rankmm-1", "rankmm-2", "rankmm-3"):
        yield f"{name}, stochastic", partial(rankmm, name), "map"
        yield f"{name}, exact", partial(exact_rankmm, name), "map"
    for by in ("ndcg@10", "ndcg@1", "map"):
        for starts in (("regression",), ("regression", "zeros", "random")):
            yield f"rsrank from {', '.join(starts)}", partial(rsrank, starts), by


def main(folder: str, *only: str) -> None:
    splits = as_splits(read_splits(folder))
    warnings.simplefilter("ignore", ConvergenceWarning)  # a fixed number of steps need not converge
    print(f"| ranker | chosen by | {' | '.join(SHOWN)} | Δ map to plain regression | to tuned regression |")
    print("| --- | --- |" + " ---: |" * (len(SHOWN) + 2))
    precision: dict[str, Array] = {}  # ranker → average precision of each query
    for name, candidates, by in rows():
        if only and not name.startswith(("regression", *only)):
            continue
        with skip_checks():
            found = measure(candidates, splits, metric(by, convention=CONVENTION))
        precision[name] = found["map"][2]
        figures = [f"{mean:.4f} ± {error:.3f}" for mean, error, _ in found.values()]
        for other in (PLAIN, TUNED):
            gain = precision[name] - precision.get(other, precision[name])
            figures.append(f"{gain.mean():+.4f} ± {standard_error(gain):.4f}" if gain.any() else "–")
        print(f"| {name} | {by} | {' | '.join(figures)} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
