"""``Comparison``: per-query values of several rankers on the same queries, their means and their paired tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gainful.comparison.statistics import (
    bootstrap_intervals,
    detectable,
    effect_size,
    holm,
    least_p,
    p_values,
    queries_needed,
    smallest_p,
    superiority,
)
from gainful.data.dataset import RankingData
from gainful.data.rows import Array
from gainful.data.splits import Split
from gainful.errors import GainfulError, UnknownNameError
from gainful.metrics import Metric, headings, mean_over_queries

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
    scores: Array | None = None  # of the test rows, in their order
    history: Sequence[Mapping[str, Any]] = ()  # a row per iteration, as in ``history_``
    memory: int | None = None  # bytes by which the process grew at most while it trained; see ``memory.py``
    facts: Mapping[str, Any] = field(default_factory=dict)  # told by the ranker; "path" has a row per C or l1
    trials: Sequence[Mapping[str, Any]] = ()  # of the tuning, as in ``TuneResult.trials``
    chosen: Mapping[str, Any] | None = None  # parameters that tuning chose; None without tuning
    workers: int | None = None  # trials run at once, where memory allowed fewer than asked for


def path_of(model: Any) -> dict[str, Any]:
    """The rows of a ranker that trained for several C or l1, and the value it kept; nothing of others."""
    rows = getattr(model, "path_", None)
    return {"path": rows, "kept": getattr(model, "l1_", getattr(model, "C_", None))} if rows else {}


@dataclass(frozen=True)
class PairedTest:
    """A ranker against the baseline on one measure: the mean difference, how large and how sure it is.

    p-values are given raw and Holm-corrected over the rankers.
    """

    ranker: str
    measure: str
    difference: float
    n_queries: int
    wins: int
    ties: int
    losses: int
    p: Mapping[str, float]
    p_holm: Mapping[str, float]
    interval: tuple[float, float]  # bootstrap, for the difference
    effect_size: float  # Cohen's d_z
    superiority: float  # probability of being better on a query, ties counted half
    smallest_p: float  # what no pattern of signs could undercut in the marking test, corrected as the others stand
    detectable: float  # difference found in 80 % of cases at this spread
    queries_needed: float  # to find this difference in 80 % of cases


@dataclass(frozen=True)
class Documents:
    """The test rows that scores belong to: query q owns ``offsets[q]:offsets[q + 1]``."""

    offsets: Array
    grades: Array
    doc_ids: Array | None

    @classmethod
    def of(cls, parts: Sequence[RankingData]) -> Documents:
        ids = [part.doc_ids for part in parts]
        known = all(some is not None for some in ids)
        return cls(
            offsets=np.concatenate([[0], np.cumsum(np.concatenate([part.counts for part in parts]))]),
            grades=np.concatenate([part.y for part in parts]),
            doc_ids=np.concatenate([some.astype(str) for some in ids if some is not None]) if known else None,
        )

    def name(self, query: int, place: int) -> str:
        """The id of a document, or its place in the query where there are none."""
        return f"#{place + 1}" if self.doc_ids is None else str(self.doc_ids[self.offsets[query] + place])


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
    documents: Documents
    query_weights: Array | None = None
    remarks: tuple[str, ...] = ()
    protocol: Mapping[str, Any] = field(default_factory=dict)  # how the data was divided and parameters chosen

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
        fewer = {label: min([run.workers for run in done[label].values() if run.workers] or [0]) for label in standing}
        if any(fewer.values()):
            told = ", ".join(f"{label} ({n})" for label, n in fewer.items() if n)
            remarks.append(f"Memory allowed fewer trials at once than asked for: {told}.")
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
            data=_describe_splits([splits[f] for f in folds]) | _describe_tested(tested),
            documents=Documents.of(tested),
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
            raise UnknownNameError.among("ranker", label, self.runs, owner="this comparison")
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

    def scores(self, label: str) -> Array | None:
        """The scores of the test rows, fold after fold as in ``documents``; None where they were not kept."""
        parts = [run.scores for run in self.runs[label] if run.scores is not None]
        return np.concatenate(parts) if len(parts) == len(self.runs[label]) else None

    def fit_seconds(self, label: str) -> float:
        """Training time, all folds together, without tuning."""
        return sum(run.fit_seconds for run in self.runs[label])

    @property
    def tuned(self) -> bool:
        """Whether parameters were chosen in trials."""
        return any(run.trials for runs in self.runs.values() for run in runs)

    def tuning_seconds(self, label: str) -> float:
        """Time of all trials, all folds together, as if one after the other."""
        return float(sum(row["seconds"] for run in self.runs[label] for row in run.trials))

    def models_tried(self, label: str) -> int:
        """Models trained in all trials; a trial that follows a path of C or l1 trains one for each value."""
        return sum(row.get("models", 1) for run in self.runs[label] for row in run.trials)

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
        raise UnknownNameError.among("metric", measure, self.headings.values(), owner="this comparison")

    # -- tests ---------------------------------------------------------------------------------------------------------

    @cached_property
    def paired_tests(self) -> dict[tuple[str, str], PairedTest]:
        """(ranker, measure) → its test against the baseline, over all metrics and the sum of NDCG@1…10.

        Holm's correction runs over the rankers, for each test and measure by itself; see :meth:`mark` for looking at
        several measures at once.
        """
        found: dict[tuple[str, str], PairedTest] = {}
        others = [label for label in self.labels if label != self.baseline]
        for measure in [*(self.headings[m] for m in self.metrics), CURVE_SUM] if others else []:
            columns = [self.differences(label, self.baseline, measure) for label in others]
            raw = {test: p_values(test, columns, self.seed) for test in self.tests}
            corrected = {test: holm(p) for test, p in raw.items()}
            low, high = bootstrap_intervals(np.column_stack(columns), level=self.level, seed=self.seed)
            marking = [1.0] * len(others) if self.marking_test is None else raw[self.marking_test]
            for i, label in enumerate(others):
                d = columns[i][~np.isnan(columns[i])]
                least = least_p(self.marking_test or "", int((d != 0).sum()))
                found[label, measure] = PairedTest(
                    ranker=label,
                    measure=measure,
                    difference=float(d.mean()) if len(d) else 0.0,
                    n_queries=len(d),
                    wins=int((d > 0).sum()),
                    ties=int((d == 0).sum()),
                    losses=int((d < 0).sum()),
                    p={test: raw[test][i] for test in self.tests},
                    p_holm={test: corrected[test][i] for test in self.tests},
                    interval=(float(low[i]), float(high[i])),
                    effect_size=effect_size(d),
                    superiority=superiority(d),
                    smallest_p=smallest_p(marking, i, least),
                    detectable=detectable(d, self.alpha, len(others)),
                    queries_needed=queries_needed(d, self.alpha, len(others)),
                )
        return found

    def differences(self, label: str, other: str, measure: Metric | str) -> Array:
        """One difference per test query, NaN where skipped. What rounding alone can make is no difference."""
        ours, theirs = self.per_query(label, measure), self.per_query(other, measure)
        d = ours - theirs
        d[np.abs(d) <= ROUNDING * np.maximum(1.0, np.maximum(np.abs(ours), np.abs(theirs)))] = 0.0
        return np.asarray(d)

    @property
    def level(self) -> float:
        """Of the bootstrap intervals: 1 − alpha."""
        return 1.0 - self.alpha

    def interval(self, label: str, measure: Metric | str) -> tuple[float, float]:
        """Bootstrap interval for :meth:`mean` over the drawing of test queries, for the models as trained."""
        self.per_query(label, measure)  # refuses what is not here
        key = measure if measure == CURVE_SUM else self.headings[self._metric(measure)]
        if key not in self._intervals:
            values = np.column_stack([self.per_query(name, key) for name in self.labels])
            ends = bootstrap_intervals(values, self.query_weights, level=self.level, seed=self.seed)
            pairs = zip(*(end.tolist() for end in ends), strict=True)
            self._intervals[key] = dict(zip(self.labels, pairs, strict=True))
        return self._intervals[key][label]

    @cached_property
    def _intervals(self) -> dict[str, dict[str, tuple[float, float]]]:
        return {}

    @property
    def marking_test(self) -> str | None:
        """The test whose corrected p-value marks a figure as significantly different from the baseline's."""
        return next((test for test in ("randomization", "t", "wilcoxon") if test in self.tests), None)

    def verdict(self, label: str, measure: str) -> int:
        """+1 significantly better than the baseline on this measure, −1 significantly worse, 0 neither.

        This looks at one measure alone, corrected over the rankers: for a measure that was settled beforehand.
        """
        test = self.paired_tests.get((label, measure))
        if test is None or self.marking_test is None or test.p_holm[self.marking_test] > self.alpha:
            return 0
        return 1 if test.difference > 0 else -1

    def mark(self, label: str, measure: str) -> int:
        """The verdict as the table shows it, where several metrics stand side by side.

        On the headline metric it is :meth:`verdict`. Another metric has a mark only where the headline has one and
        Holm's correction over all rankers and all other metrics together leaves it significant. So where no ranker
        differs from the baseline, the chance of any mark in the whole table is at most ``alpha``.
        """
        headline = self.headings[self.headline]
        on_headline = self.verdict(label, headline)
        if measure == headline or on_headline == 0:
            return on_headline
        if self._p_over_metrics.get((label, measure), 1.0) > self.alpha:
            return 0
        return 1 if self.paired_tests[label, measure].difference > 0 else -1

    @cached_property
    def _p_over_metrics(self) -> dict[tuple[str, str], float]:
        """(ranker, metric) → the marking test's p-value, Holm-corrected over rankers × metrics but the headline."""
        if self.marking_test is None:
            return {}
        names = {self.headings[m] for m in self.metrics[1:]}
        keys = [key for key in self.paired_tests if key[1] in names]
        return dict(zip(keys, holm([self.paired_tests[key].p[self.marking_test] for key in keys]), strict=True))

    @cached_property
    def cautions(self) -> tuple[str, ...]:
        """What the number of test queries cannot support, in sentences."""
        from gainful.comparison.cautions import cautions

        return tuple(cautions(self))

    @cached_property
    def created(self) -> str:
        """When the result was first looked at, in universal time; the same in all that is written of it."""
        return datetime.now(UTC).isoformat(timespec="seconds")

    @property
    def by_mean(self) -> list[str]:
        """The labels from the best mean of the headline metric to the worst; undefined means last."""
        means = {label: self.mean(label, self.headline) for label in self.labels}
        return sorted(self.labels, key=lambda label: -np.inf if np.isnan(means[label]) else means[label], reverse=True)

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

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values: what :meth:`to_json` writes."""
        from gainful.comparison.to_dict import record

        return record(self)

    def to_json(self, path: str | Path | None = None) -> str:
        """Means, intervals, tests and per-query values as JSON, written to ``path`` where one is given."""
        return _written(json.dumps(self.to_dict(), indent=1), path)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """The tables and notes as Markdown, written to ``path`` where one is given."""
        from gainful.comparison.render import markdown

        return _written(markdown(self), path)

    def to_latex(self, path: str | Path | None = None) -> str:
        """The table of means as LaTeX (package booktabs), written to ``path`` where one is given."""
        from gainful.comparison.render import latex

        return _written(latex(self), path)

    def to_html(self, path: str | Path | None = None) -> str:
        """The report: one page that needs nothing else, written to ``path`` where one is given."""
        from gainful.comparison.report.page import page

        return _written(page(self), path)

    def to_report(self, folder: str | Path) -> Path:
        """Write report.html, table.md, table.tex and comparison.json into ``folder``; the path of the page."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.to_json(folder / "comparison.json")
        self.to_markdown(folder / "table.md")
        self.to_latex(folder / "table.tex")
        self.to_html(folder / "report.html")
        return folder / "report.html"


def _written(text: str, path: str | Path | None) -> str:
    from gainful.formats.files import atomic_write

    if path is not None:
        with atomic_write(path) as file:
            file.write(text.encode())
    return text


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


def _describe_tested(parts: Sequence[RankingData]) -> dict[str, Any]:
    """What the test queries of all folds look like together."""
    counts, grades = np.concatenate([part.counts for part in parts]), np.concatenate([part.y for part in parts])
    highest = np.concatenate([np.maximum.reduceat(part.y, part.offsets[:-1]) for part in parts])
    values, rows = np.unique(grades, return_counts=True)
    few = len(values) <= 32
    return {
        "documents_per_query": {"min": counts.min(), "median": np.median(counts), "max": counts.max()},
        "grades": {f"{value:g}": count for value, count in zip(values, rows, strict=True)} if few else None,
        "grade_range": [values[0], values[-1]],
        "queries_without_relevant": int((highest <= 0).sum()),
    }


def _nothing_to_show(failures: Mapping[str, str], interrupted: bool) -> str:
    if interrupted:
        return "interrupted before any ranker had finished"
    return "no ranker could be trained: " + "; ".join(f"{label}: {reason}" for label, reason in failures.items())
