"""Table 1 of Li, Burges and Wu 2007 on artificial data: McRank's three modes, lambda gradients and smoothed DCG.

The paper's settings for this data: 1,000 iterations, 10 leaves, shrinkage 0.05; every ranker keeps its best iteration
on the validation queries. NDCG is the paper's: gain 2^g − 1, discount 1 / log2(1 + rank). The paper does not say how
the target was cut into grades; by default all are equally likely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from gainful.comparison import Comparison, ComparisonJob
from gainful.comparison.compare import CURVE
from gainful.comparison.contestants import resolve_rankers
from gainful.comparison.job import ProgressCallback, check_comparison
from gainful.data.splits import Split
from gainful.data.synthetic import make_artificial
from gainful.errors import ParameterError
from gainful.metrics import metric
from gainful.parameters.constraints import check_parameters
from gainful.persistence.jsonable import plain
from gainful.rankers.base import Ranker
from gainful.tuning.store import fingerprint
from reproduction.ohsumed import YARDSTICK, Figure, standard_error
from reproduction.origin import cache_folder, code_print, origin
from reproduction.published import ARTIFICIAL

HEADLINE = "ndcg@10"
SIZES = (2_000, 500, 2_000)
FULL = (10_000, 5_000, 10_000)
RANKERS = (
    "mcrank-ordinal,mcrank,mcrank-regression,lambdarank,lambdarank-net,lambdamart,lambdamart-plain,"
    "sdcg,shf-sdcg,reg-shf-sdcg"
)
TREES, LEAVES, RATE = 1_000, 10, 0.05


class Artificial:
    """The running experiment. Call :meth:`result` at any time for what is finished so far.

    Parameters
    ----------
    sizes : numbers of train, validation and test queries
    rankers : as in :func:`gainful.compare`; a parameter set in a name overrides the paper's
    trees, leaves, rate : iterations, leaves and shrinkage of boosted trees
    shares : probabilities of the five grades, lowest first; equal by default
    threads : of each training; LightGBM's trees depend on it
    seed : of the data and of the randomisation test
    store : folder for results as they arrive; by default one in the user's cache, named after code and settings
    """

    def __init__(
        self,
        sizes: Sequence[int] = SIZES,
        *,
        rankers: Any = RANKERS,
        trees: int = TREES,
        leaves: int = LEAVES,
        rate: float = RATE,
        shares: Sequence[float] | None = None,
        threads: int = 1,
        seed: int = 0,
        store: str | Path | None = None,
    ):
        entered = resolve_rankers(rankers)
        wanted = {"n_trees": trees, "n_leaves": leaves, "learning_rate": rate}
        models = {}
        for label, (model, fixed) in entered.items():
            if not isinstance(model, Ranker):
                raise ParameterError(f"{label} is not a ranker that this can train")
            known = model.parameters
            papers = {name: value for name, value in wanted.items() if name in known} if "n_trees" in known else {}
            papers |= {"n_jobs": threads} if "n_jobs" in known else {}
            models[label] = model.set_params(**{name: v for name, v in papers.items() if name not in fixed})
            if "n_trees" in known and "early_stopping" in known and "early_stopping" not in fixed:
                grown = model.get_params()["n_trees"]
                check_parameters(type(model).__name__, {"n_trees": known["n_trees"]}, {"n_trees": grown})
                model.set_params(early_stopping=grown)  # to the end, and then the best iteration
        names = dict.fromkeys((HEADLINE, "ndcg@1", "ndcg@5"))
        measures = tuple(metric(name) for name in names)
        baseline = YARDSTICK if YARDSTICK in models else None
        check_comparison(models, measures, ("wilcoxon", "t", "randomization"), baseline, 0.05)
        if len(sizes) != 3 or any(not isinstance(n, (int, np.integer)) or n < 1 for n in sizes):
            raise ParameterError.of("artificial", "sizes", "three numbers of queries ≥ 1", tuple(sizes))
        self.settings = {
            "queries": list(sizes), "trees": trees, "leaves": leaves, "rate": rate,
            "shares": None if shares is None else list(shares), "threads": threads, "seed": seed,
        }  # fmt: skip
        name = f"artificial-{fingerprint(code_print(), self.settings)[:12]}"
        self.store = Path(store) if store is not None else cache_folder(name)
        self.job = ComparisonJob(
            models,
            [self._split(sizes, seed, shares)],
            metrics=measures,
            curve=tuple(metric(name) for name in CURVE),
            tests=("wilcoxon", "t", "randomization"),
            baseline=baseline,
            alpha=0.05,
            seed=seed,
            store=self.store,
            divided={"division": "artificial", "folds": 1} | self.settings,
        )

    @staticmethod
    def _split(sizes: Sequence[int], seed: int, shares: Sequence[float] | None) -> Split:
        """Train, validation and test queries of one problem."""
        data = make_artificial(int(sum(sizes)), seed=seed, grade_shares=shares)
        train, valid, test = (data[int(a) : int(b)] for a, b in pairwise(np.cumsum([0, *sizes])))
        return Split(train, valid, test)

    def run(self, progress: ProgressCallback | None = None) -> None:
        """Run what is not in the store yet."""
        self.job.run(progress)

    def result(self) -> ArtificialResult:
        return ArtificialResult(self.job.result())


@dataclass(frozen=True)
class ArtificialResult:
    """The outcome, read from a comparison: NDCG@10 next to the published figure."""

    comparison: Comparison

    @property
    def labels(self) -> list[str]:
        return self.comparison.by_mean

    def figure(self, label: str) -> Figure:
        values = self.comparison.per_query(label, HEADLINE)
        published = ARTIFICIAL.get(label)
        mean = self.comparison.mean(label, HEADLINE)
        return Figure(mean, standard_error(values), None if published is None else published.values[HEADLINE])

    def deviation(self, label: str) -> float:
        """Standard deviation over the queries, which the paper gives instead of a standard error."""
        return float(np.nanstd(self.comparison.per_query(label, HEADLINE), ddof=1))

    def iterations(self, label: str) -> int:
        """The iteration kept: the best on the validation queries."""
        run = self.comparison.runs[label][0]
        scored = [-np.inf if row.get("validation") is None else row["validation"] for row in run.history]
        return int(np.argmax(scored)) + 1 if np.isfinite(scored).any() else run.n_iter

    @property
    def remarks(self) -> list[str]:
        remarks = list(self.comparison.remarks)
        remarks += ["Interrupted: only the rankers that are finished."] if self.comparison.interrupted else []
        return remarks + [f"{label} could not be trained: {why}." for label, why in self.comparison.failures.items()]

    def to_dict(self, command: str = "") -> dict[str, Any]:
        """Means, errors and tests as plain values."""
        comparison = self.comparison
        return plain(  # type: ignore[no-any-return]
            {
                "experiment": "artificial",
                "origin": origin(command),
                "protocol": comparison.protocol,
                "measures": {comparison.headings[m]: str(m) for m in comparison.metrics},
                "yardstick": comparison.baseline,
                "rankers": {label: self._ranker(label) for label in self.labels},
                "remarks": self.remarks,
            }
        )

    def _ranker(self, label: str) -> dict[str, Any]:
        t = self.comparison.paired_tests.get((label, HEADLINE))
        published = ARTIFICIAL.get(label)
        return {
            HEADLINE: self.figure(label).to_dict() | {"standard_deviation": self.deviation(label)},
            "published_standard_deviation": None if published is None else published.deviations.get(HEADLINE),
            "iterations": self.iterations(label),
            "seconds": round(self.comparison.fit_seconds(label), 1),
            "against_yardstick": None if t is None else {"difference": t.difference, "p": t.p, "p_holm": t.p_holm},
        }
