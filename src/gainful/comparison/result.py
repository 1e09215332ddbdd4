"""``Comparison``: per-query values of several rankers on the same queries, their means and their paired tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gainful.comparison.statistics import TESTS, holm
from gainful.data import RankingData
from gainful.errors import GainfulError, UnknownNameError
from gainful.metrics import Metric, headings, mean_over_queries
from gainful.rows import Array
from gainful.selection.splits import Split

CURVE_SUM = "sum of ndcg@1…10"
ROUNDING = 1e-11


@dataclass(frozen=True)
class Run:
    """One ranker trained and tested on one fold."""

    label: str
    fold: int
    values: Mapping[Metric, Array]
    fit_seconds: float
    predict_seconds: float
    n_iter: int
    params: Mapping[str, Any]


@dataclass(frozen=True)
class PairedTest:
    """A ranker against the baseline on one measure: mean difference and p-values, raw and Holm-corrected."""

    ranker: str
    measure: str
    difference: float
    n_queries: int
    wins: int
    losses: int
    p: Mapping[str, float]
    p_holm: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Comparison:
    """What :func:`gainful.compare` found. ``print`` it for the table."""

    labels: tuple[str, ...]
    metrics: tuple[Metric, ...]
    curve: tuple[Metric, ...]
    baseline: str
    tests: tuple[str, ...]
    alpha: float
    seed: int
    runs: Mapping[str, tuple[Run, ...]]
    query_ids: Array
    fold_of_query: Array
    failures: Mapping[str, str]
    interrupted: bool
    data: Mapping[str, Any]
    query_weights: Array | None = None
    remarks: tuple[str, ...] = ()

    @classmethod
    def from_runs(
        cls,
        runs: Sequence[Run],
        splits: Sequence[Split],
        *,
        failures: Mapping[str, str],
        interrupted: bool,
        labels: tuple[str, ...],
        baseline: str | None,
        **settings: Any,
    ) -> Comparison:
        """Gather runs into columns over the same queries: the folds that every ranker has finished."""
        standing = [label for label in labels if label not in failures]
        done = {label: {run.fold: run for run in runs if run.label == label} for label in standing}
        folds = [f for f in range(len(splits)) if standing and all(f in done[label] for label in standing)]
        if not folds:
            # Ended within the first fold: compare those that finished it.
            standing = [label for label in standing if 0 in done[label]]
            folds = [0]
        if not standing:
            raise GainfulError(_nothing_to_show(failures, interrupted))
        remarks = []
        if baseline is not None and baseline not in standing:
            remarks.append(f"The baseline {baseline} has no result; {standing[0]} stands in for it.")
            baseline = None
        tested = [splits[f].test for f in folds]
        weighted = any(part.query_weights is not None for part in tested)
        if weighted:
            remarks.append("Means are weighted by query; the paired tests count every query once.")
        return cls(
            labels=tuple(standing),
            baseline=baseline or standing[0],
            query_weights=np.concatenate([_weights(part) for part in tested]) if weighted else None,
            remarks=tuple(remarks),
            runs={label: tuple(done[label][f] for f in folds) for label in standing},
            query_ids=np.concatenate([part.query_ids for part in tested]),
            fold_of_query=np.repeat(folds, [part.n_queries for part in tested]),
            failures=dict(failures),
            interrupted=interrupted,
            data=_describe_splits([splits[f] for f in folds]),
            **settings,
        )

    # -- values --------------------------------------------------------------------------------------------------------

    @property
    def headline(self) -> Metric:
        """The first metric, on which differences are reported."""
        return self.metrics[0]

    def per_query(self, label: str, measure: Metric | str) -> Array:
        """One value per test query (see ``query_ids``); NaN where the metric's convention skips the query."""
        if label not in self.runs:
            raise UnknownNameError.among("ranker in this comparison", label, self.runs)
        if measure == CURVE_SUM:
            return np.asarray(np.sum([self.per_query(label, m) for m in self.curve], axis=0))
        found = self._metric(measure)
        return np.concatenate([run.values[found] for run in self.runs[label]])

    def mean(self, label: str, measure: Metric | str, *, average: str = "queries") -> float:
        """Mean over the test queries, by their weights where they have any; NaN where all are skipped.

        With ``average="folds"`` it is the mean of the folds' means, as LETOR reports.
        """
        values = self.per_query(label, measure)
        if average == "queries":
            return mean_over_queries(values, self.query_weights)
        if average != "folds":
            raise UnknownNameError.among("average", average, ("queries", "folds"))
        means = []
        for fold in np.unique(self.fold_of_query):
            inside = self.fold_of_query == fold
            weights = None if self.query_weights is None else self.query_weights[inside]
            means.append(mean_over_queries(values[inside], weights))
        return float(np.mean(means))

    def fit_seconds(self, label: str) -> float:
        """Training time, all folds together."""
        return sum(run.fit_seconds for run in self.runs[label])

    @cached_property
    def headings(self) -> dict[Metric, str]:
        """How each metric is called here: by its short name, or in full where two share it."""
        names = headings(self.metrics)
        for m in self.curve:
            names.setdefault(m, str(m) if m.name in names.values() else m.name)
        return names

    def _metric(self, measure: Metric | str) -> Metric:
        for known, heading in self.headings.items():
            if measure in (known, heading, str(known)):
                return known
        raise UnknownNameError.among("metric in this comparison", measure, self.headings.values())

    # -- tests ---------------------------------------------------------------------------------------------------------

    @cached_property
    def paired_tests(self) -> dict[tuple[str, str], PairedTest]:
        """(ranker, measure) → its test against the baseline, over all metrics and the sum of NDCG@1…10.

        Holm's correction runs over the rankers, for each test and measure by itself.
        """
        found: dict[tuple[str, str], PairedTest] = {}
        others = [label for label in self.labels if label != self.baseline]
        for measure in [*(self.headings[m] for m in self.metrics), CURVE_SUM]:
            differences = {label: self._differences(label, measure) for label in others}
            raw = {test: [TESTS[test](differences[label], self.seed) for label in others] for test in self.tests}
            corrected = {test: holm(p) for test, p in raw.items()}
            for i, label in enumerate(others):
                d = differences[label]
                found[label, measure] = PairedTest(
                    ranker=label,
                    measure=measure,
                    difference=float(d.mean()) if len(d) else 0.0,
                    n_queries=len(d),
                    wins=int((d > 0).sum()),
                    losses=int((d < 0).sum()),
                    p={test: raw[test][i] for test in self.tests},
                    p_holm={test: corrected[test][i] for test in self.tests},
                )
        return found

    def _differences(self, label: str, measure: str) -> Array:
        """Per-query differences to the baseline. What rounding alone can make is no difference."""
        ours, theirs = self.per_query(label, measure), self.per_query(self.baseline, measure)
        d = ours - theirs
        d[np.abs(d) <= ROUNDING * np.maximum(1.0, np.maximum(np.abs(ours), np.abs(theirs)))] = 0.0
        return np.asarray(d[~np.isnan(d)])

    @property
    def marking_test(self) -> str | None:
        """The test whose corrected p-value marks a figure as significantly different from the baseline's."""
        return next((test for test in ("randomization", "t", "wilcoxon") if test in self.tests), None)

    def verdict(self, label: str, measure: str) -> int:
        """+1 significantly better than the baseline on this measure, −1 significantly worse, 0 neither."""
        test = self.paired_tests.get((label, measure))
        if test is None or self.marking_test is None or test.p_holm[self.marking_test] > self.alpha:
            return 0
        return 1 if test.difference > 0 else -1

    # -- showing it ----------------------------------------------------------------------------------------------------

    def table(self, width: int = 120) -> str:
        """The result as text."""
        from gainful.comparison.render import plain_text

        return plain_text(self, width)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"Comparison({', '.join(self.labels)}; {len(self.query_ids)} test queries)"

    def _repr_html_(self) -> str:
        from gainful.comparison.render import html_fragment

        return html_fragment(self)

    def to_html(self, path: str | Path) -> None:
        """Write the result as one self-contained page."""
        from gainful.comparison.render import html_page
        from gainful.formats.files import atomic_write

        with atomic_write(path) as file:
            file.write(html_page(self).encode())

    def to_json(self, path: str | Path) -> None:
        """Write means, tests and per-query values as JSON."""
        from gainful.formats.files import atomic_write

        with atomic_write(path) as file:
            file.write(json.dumps(self.to_dict(), indent=1).encode())

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values: what :meth:`to_json` writes."""
        from gainful.jsonable import plain

        names = list(self.headings.values())
        result: dict[str, Any] = {
            "baseline": self.baseline,
            "metrics": {self.headings[m]: str(m) for m in self.metrics},
            "tests": {"names": self.tests, "correction": "holm over rankers", "alpha": self.alpha, "seed": self.seed},
            "data": self.data,
            "interrupted": self.interrupted,
            "failures": self.failures,
            "remarks": self.remarks,
            "queries": {"id": self.query_ids, "fold": self.fold_of_query + 1},
            "rankers": {
                label: {
                    "means": {name: self.mean(label, name) for name in names},
                    "means_of_folds": {name: self.mean(label, name, average="folds") for name in names},
                    "fit_seconds": self.fit_seconds(label),
                    "predict_seconds": sum(run.predict_seconds for run in self.runs[label]),
                    "iterations": [run.n_iter for run in self.runs[label]],
                    "params": self.runs[label][0].params,
                    "per_query": {name: self.per_query(label, name) for name in names},
                }
                for label in self.labels
            },
            "against_baseline": [
                {
                    "ranker": t.ranker,
                    "measure": t.measure,
                    "difference": t.difference,
                    "queries": t.n_queries,
                    "wins": t.wins,
                    "losses": t.losses,
                    "p": t.p,
                    "p_holm": t.p_holm,
                    "significant": self.verdict(t.ranker, t.measure) != 0,
                }
                for t in self.paired_tests.values()
            ],
        }
        return plain(result)  # type: ignore[no-any-return]


def _weights(part: RankingData) -> Array:
    return np.ones(part.n_queries) if part.query_weights is None else part.query_weights


def _describe_splits(splits: Sequence[Split]) -> dict[str, Any]:
    first = splits[0]
    return {
        "folds": len(splits),
        "features": first.train.n_features,
        "train_queries": [part.train.n_queries for part in splits],
        "validation_queries": [0 if part.valid is None else part.valid.n_queries for part in splits],
        "test_queries": [part.test.n_queries for part in splits],
        "test_documents": sum(part.test.n_rows for part in splits),
    }


def _nothing_to_show(failures: Mapping[str, str], interrupted: bool) -> str:
    if interrupted:
        return "interrupted before any ranker had finished"
    return "no ranker could be trained: " + "; ".join(f"{label}: {reason}" for label, reason in failures.items())
