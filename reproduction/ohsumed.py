"""OHSUMED of LETOR 3.0 under LETOR's protocol: every ranker tuned alike, next to the papers' figures.

Five folds of 106 queries. Parameters are chosen on the validation queries of each fold, with the same number of trials
per ranker; figures are means of the folds' means on the test queries, with the measure of LETOR 3.0's own script.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gainful.comparison import Comparison, ComparisonJob
from gainful.comparison.compare import CURVE, tuning_plan
from gainful.comparison.contestants import resolve_rankers
from gainful.comparison.job import ProgressCallback, check_comparison
from gainful.comparison.protocol import as_splits, division
from gainful.data.rows import Array
from gainful.data.splits import Split
from gainful.errors import UnknownNameError
from gainful.formats.layout import read_splits
from gainful.metrics import metric
from gainful.persistence.jsonable import plain
from gainful.tuning.store import fingerprint
from reproduction.origin import cache_folder, code_print, origin
from reproduction.published import CLAIMS, OHSUMED, TABLE_1, Claim, Published

CONVENTION = "letor3"
YARDSTICK = "lambdamart"
TESTED = ("map", "ndcg@10")  # measures of the paired tests against the baseline
JUDGED = ("ndcg@1", "ndcg@5", "map")  # measures that decide whether a ranker counts as reproduced
MEASURES = tuple(dict.fromkeys((*TESTED, *JUDGED, *TABLE_1)))
# Not tuned, as in the paper: steps between truncations, and l1 = 0 of the dense form; the sparse one has its own name.
FIXED = {"rsrank": frozenset({"l1", "truncate_every"}), "rsrank-sparse": frozenset({"truncate_every"})}
TRIALS = 16
QUERIES, FEATURES, FOLDS = 106, 45, 5


class Ohsumed:
    """The running experiment. Call :meth:`result` at any time for what is finished so far.

    Parameters
    ----------
    folder : the folder with ``Fold1`` … ``Fold5`` (LETOR 3.0, QueryLevelNorm)
    rankers : as in :func:`gainful.compare`; LambdaMART, the baseline, is added if it is missing
    trials : trials per ranker and fold
    select : measure that chooses the parameters on the validation queries
    jobs : trials run at once; no figure depends on it
    seed : of the search and of the randomisation test
    store : folder for results as they arrive; by default one in the user's cache, named after data, code and settings
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        rankers: Any = "all",
        trials: int = TRIALS,
        select: str = "map",
        jobs: int = 1,
        seed: int = 0,
        store: str | Path | None = None,
    ):
        entered = resolve_rankers(rankers)
        if YARDSTICK not in entered:
            entered |= resolve_rankers(YARDSTICK)
        if select not in MEASURES:
            raise UnknownNameError.among("measure to choose by", select, MEASURES)
        models = {label: model for label, (model, _) in entered.items()}
        names = dict.fromkeys((select, *MEASURES))
        measures = tuple(metric(name, convention=CONVENTION) for name in names)
        check_comparison(models, measures, ("wilcoxon", "t", "randomization"), YARDSTICK, 0.05)
        plan = tuning_plan(measures, trials, None, n_jobs=jobs, seed=seed)
        splits = as_splits(read_splits(folder))
        self.store = Path(store) if store is not None else default_store(splits, select, seed)
        self.job = ComparisonJob(
            models,
            splits,
            metrics=measures,
            curve=tuple(metric(name, convention=CONVENTION) for name in CURVE),
            tests=("wilcoxon", "t", "randomization"),
            baseline=YARDSTICK,
            alpha=0.05,
            seed=seed,
            plan=plan,
            n_jobs=jobs,
            fixed={label: fixed | FIXED.get(label, frozenset()) for label, (_, fixed) in entered.items()},
            store=self.store,
            divided=division(splits),
        )

    def run(self, progress: ProgressCallback | None = None) -> None:
        """Run what is not in the store yet."""
        self.job.run(progress)

    def result(self) -> OhsumedResult:
        return OhsumedResult(self.job.result())


def default_store(splits: Sequence[Split], select: str, seed: int) -> Path:
    """The default folder for results; other data, code or settings get another folder."""
    parts = [part for split in splits for part in (split.train, split.valid, split.test) if part is not None]
    return cache_folder(f"ohsumed-{select}-{seed}-{fingerprint(code_print(), *parts)[:12]}")


@dataclass(frozen=True)
class Figure:
    """Our mean, its standard error over the queries, and the published mean if there is one."""

    mean: float
    error: float
    published: float | None = None

    @property
    def difference(self) -> float | None:
        return None if self.published is None else self.mean - self.published

    @property
    def verdict(self) -> int:
        """−1 if ours is more than one standard error below the published figure, +1 if above, 0 if within."""
        if self.difference is None or abs(self.difference) <= self.error:
            return 0
        return 1 if self.difference > 0 else -1

    def to_dict(self) -> dict[str, Any]:
        values = {"mean": self.mean, "standard_error": self.error}
        if self.published is None:
            return values
        return values | {"published": self.published, "difference": self.difference, "below": self.verdict < 0}


@dataclass(frozen=True)
class OhsumedResult:
    """The outcome, read from a comparison: our figures, the published ones, and tests against the baseline."""

    comparison: Comparison

    @property
    def labels(self) -> list[str]:
        """The rankers, best first by the measure that chose the parameters."""
        return self.comparison.by_mean

    @property
    def published(self) -> dict[str, Published]:
        """The papers' figures for the rankers compared here, in the papers' order."""
        return {label: published for label, published in OHSUMED.items() if label in self.comparison.labels}

    def figure(self, label: str, measure: str) -> Figure:
        values = self.comparison.per_query(label, measure)
        mean = self.comparison.mean(label, measure, average="folds")
        published = OHSUMED.get(label)
        return Figure(mean, standard_error(values), None if published is None else published.values.get(measure))

    def kept(self, label: str) -> float | None:
        """The share of the features that a sparse ranker uses, mean over the folds."""
        shares = []
        for run in self.comparison.runs[label]:
            found = re.fullmatch(r"(\d+) of (\d+)", str(run.facts.get("features kept", "")))
            if found is None:
                return None
            shares.append(int(found[1]) / int(found[2]))
        return float(np.mean(shares))

    def seconds(self, label: str) -> float:
        """Total time of all trials and final trainings of all folds."""
        runs = self.comparison.runs[label]
        return float(sum(run.fit_seconds + sum(row["seconds"] for row in run.trials) for run in runs))

    def behind(self) -> list[str]:
        """The rankers more than one standard error below a published figure of :data:`JUDGED`."""
        return [label for label in self.published if any(self.figure(label, measure).verdict < 0 for measure in JUDGED)]

    def better_than_baseline(self) -> dict[str, list[str]]:
        """Measure → the rankers significantly better than the baseline, after Holm's correction."""
        return {m: [label for label in self.labels if self.comparison.verdict(label, m) > 0] for m in TESTED}

    def claims(self) -> list[tuple[Claim, str, dict[str, tuple[float, float]]]]:
        """(claim, other ranker, measure → our mean difference and its standard error over the queries)."""
        here = set(self.comparison.labels)
        return [
            (claim, other, {m: self._paired_difference(claim.ranker, other, m) for m in TESTED})
            for claim in CLAIMS
            for other in claim.others
            if {claim.ranker, other} <= here
        ]

    def _paired_difference(self, label: str, other: str, measure: str) -> tuple[float, float]:
        d = self.comparison.differences(label, other, measure)
        return float(np.nanmean(d)), standard_error(d)

    @property
    def remarks(self) -> list[str]:
        """What a reader must know: different data, missing folds, rankers that failed."""
        remarks = list(self.comparison.remarks)
        data, n = self.comparison.data, len(self.comparison.query_ids)
        if (n, data["features"], data["folds"]) != (QUERIES, FEATURES, FOLDS):
            remarks.append(
                f"{data['folds']} folds with {n} test queries and {data['features']} features are not the full OHSUMED "
                f"of LETOR 3.0 ({FOLDS}, {QUERIES}, {FEATURES}), for which the figures were published."
            )
        if self.comparison.interrupted:
            remarks.append("Interrupted: only the folds that every ranker has finished.")
        return remarks + [f"{label} could not be trained: {why}." for label, why in self.comparison.failures.items()]

    def to_dict(self, command: str = "") -> dict[str, Any]:
        """Means, errors and tests as plain values; nothing about single queries or rows."""
        comparison = self.comparison
        return plain(  # type: ignore[no-any-return]
            {
                "experiment": "ohsumed",
                "origin": origin(command),
                "protocol": comparison.protocol,
                "measures": {comparison.headings[m]: str(m) for m in comparison.metrics},
                "data": {name: comparison.data[name] for name in ("folds", "features", "test_documents")}
                | {"test_queries": len(comparison.query_ids)},
                "yardstick": comparison.baseline,
                "rankers": {label: self._ranker(label) for label in self.labels},
                "claims": [
                    {"ranker": claim.ranker, "other": other, "says": claim.says, "source": claim.source}
                    | {m: {"difference": d, "standard_error": e} for m, (d, e) in found.items()}
                    for claim, other, found in self.claims()
                ],
                "below_published": self.behind(),
                "better_than_yardstick": self.better_than_baseline(),
                "remarks": self.remarks,
            }
        )

    def _ranker(self, label: str) -> dict[str, Any]:
        comparison, runs = self.comparison, self.comparison.runs[label]
        values: dict[str, Any] = {
            "figures": {m: self.figure(label, m).to_dict() for m in (*MEASURES, *CURVE)},
            "chosen": [run.chosen for run in runs],
            "trials": [len(run.trials) for run in runs],
            "seconds": round(self.seconds(label), 1),
        }
        if label in OHSUMED:
            values["source"] = OHSUMED[label].source
        if self.kept(label) is not None:
            values["features_kept"] = self.kept(label)
            values["published_features_kept"] = OHSUMED[label].kept if label in OHSUMED else None
        tests = {m: comparison.paired_tests.get((label, m)) for m in TESTED}
        values["against_yardstick"] = {
            m: {
                "difference": t.difference,
                "won": t.wins,
                "tied": t.ties,
                "lost": t.losses,
                "p": t.p,
                "p_holm": t.p_holm,
            }
            for m, t in tests.items()
            if t is not None
        }
        return values


def standard_error(values: Array) -> float:
    """The standard error of a mean over queries, without those that the measure skips."""
    known = values[~np.isnan(values)]
    return float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else float("nan")
