"""``Comparison``: per-query values of several rankers on the same queries, their means and their paired tests."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gainful.comparison.further import Choices, Equality, PairOfRankers, all_pairs, by_segment, equalities
from gainful.data.dataset import RankingData
from gainful.data.rows import Array
from gainful.data.splits import Split
from gainful.display import plots
from gainful.errors import GainfulError, UnknownNameError
from gainful.metrics import Metric, headings, mean_over_queries
from gainful.statistics.paired import (
    binary_columns,
    detectable,
    difference_intervals,
    effect_size,
    holm,
    least_p,
    mean_intervals,
    p_values,
    smallest_p,
    superiority,
)

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
    n_iter: int  # iterations trained
    params: Mapping[str, Any]
    scores: Array | None = None  # of the test rows, in their order
    history: Sequence[Mapping[str, Any]] = ()  # a row per iteration, as in ``history_``
    memory: int | None = None  # peak growth of the process during training, in bytes; see ``memory.py``
    facts: Mapping[str, Any] = field(default_factory=dict)  # from the ranker; "path" has a row per C or l1
    trials: Sequence[Mapping[str, Any]] = ()  # of the tuning, as in ``TuneResult.trials``
    chosen: Mapping[str, Any] | None = None  # parameters chosen by tuning; None without it
    workers: int | None = None  # trials run at once, if memory allowed fewer than requested
    trained: bool = True  # False for a system that was taken as it is
    kept: int | None = None  # iterations in the model
    explained: Mapping[str, Any] | None = None  # importances and contributions, if asked for; see ``explained.py``


def path_of(model: Any) -> dict[str, Any]:
    """The rows of a ranker that trained with several C or l1, and the value it kept; empty for other rankers."""
    rows = getattr(model, "path_", None)
    return {"path": rows, "kept": getattr(model, "l1_", getattr(model, "C_", None))} if rows else {}


def leaderboard_of(model: Any) -> dict[str, Any]:
    """The leaderboard of a blend; empty for other rankers."""
    board = getattr(model, "leaderboard_", None)
    return {} if board is None else {"leaderboard": board.to_dict()}


@dataclass(frozen=True)
class PairedTest:
    """A ranker against the baseline on one measure: the mean difference, its size and its significance.

    p-values are raw (``p``) and Holm-corrected over the rankers (``p_holm``).
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
    interval: tuple[float, float]  # for the difference
    effect_size: float  # Cohen's d_z
    superiority: float  # probability of being better on a query; ties count half
    smallest_p: float  # the smallest corrected p-value that the marking test could give, whatever the signs
    detectable: float  # difference found in 80 % of cases at this standard deviation


@dataclass(frozen=True)
class Documents:
    """The test rows that the scores belong to: query q has rows ``offsets[q]:offsets[q + 1]``."""

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

    def of_queries(self, kept: Array) -> Documents:
        """The rows of some queries."""
        counts = np.diff(self.offsets)
        rows = np.repeat(kept, counts)
        return Documents(
            offsets=np.concatenate([[0], np.cumsum(counts[kept])]),
            grades=self.grades[rows],
            doc_ids=None if self.doc_ids is None else self.doc_ids[rows],
        )

    def name(self, query: int, place: int) -> str:
        """The id of a document, or its position in the query if there are no ids."""
        return f"#{place + 1}" if self.doc_ids is None else str(self.doc_ids[self.offsets[query] + place])


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of :func:`gainful.compare`. ``print`` it for the table."""

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
    choices: Choices = field(default_factory=Choices)  # what else is shown

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
        notes: Sequence[str] = (),
        **settings: Any,
    ) -> Comparison:
        """Compare the runs on the folds that every ranker has finished. ``notes`` are further remarks."""
        standing = [label for label in labels if label not in failures]
        done = {label: {run.fold: run for run in runs if run.label == label} for label in standing}
        folds = [f for f in range(len(splits)) if standing and all(f in done[label] for label in standing)]
        if not folds:
            # The first fold is incomplete: compare the rankers that finished it.
            standing = [label for label in standing if 0 in done[label]]
            folds = [0]
        if not standing:
            raise GainfulError(_nothing_to_show(failures, interrupted))
        remarks = []
        if baseline is not None and baseline not in standing:
            remarks.append(f"The baseline {baseline} has no result; {standing[0]} replaces it.")
            baseline = None
        tested = [splits[f].test for f in folds]
        weighted = any(part.query_weights is not None for part in tested)
        if weighted:
            remarks.append("Means, differences and tests are weighted by query; queries of weight 0 are left out.")
        fewer = {label: min([run.workers for run in done[label].values() if run.workers] or [0]) for label in standing}
        if any(fewer.values()):
            names = ", ".join(f"{label} ({n})" for label, n in fewer.items() if n)
            remarks.append(f"Memory allowed fewer trials at once than requested: {names}.")
        return cls(
            labels=tuple(standing),
            baseline=baseline or standing[0],
            query_weights=np.concatenate([_weights(part) for part in tested]) if weighted else None,
            remarks=(*remarks, *notes),
            runs={label: tuple(done[label][f] for f in folds) for label in standing},
            query_ids=np.concatenate([part.query_ids for part in tested]),
            fold_of_query=np.repeat(folds, [part.n_queries for part in tested]),
            failures=dict(failures),
            interrupted=interrupted,
            data=_describe_splits([splits[f] for f in folds]) | _describe_test_data(tested),
            documents=Documents.of(tested),
            **settings,
        )

    # -- values --------------------------------------------------------------------------------------------------------

    @property
    def headline(self) -> Metric:
        """The first metric, which differences are reported on."""
        return self.metrics[0]

    def per_query(self, label: str, measure: Metric | str) -> Array:
        """One value per test query (see ``query_ids``); NaN if the metric's convention skips the query."""
        if label not in self.runs:
            raise UnknownNameError.among("ranker", label, self.runs, owner="this comparison")
        if measure == CURVE_SUM:
            return np.asarray(np.sum([self.per_query(label, m) for m in self.curve], axis=0))
        found = self._metric(measure)
        return np.concatenate([run.values[found] for run in self.runs[label]])

    def mean(self, label: str, measure: Metric | str, *, average: str = "queries") -> float:
        """Mean over the test queries, weighted if they have weights; NaN if all are skipped.

        ``average="folds"`` gives the mean of the means of the folds, as LETOR reports.
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
        """The scores of the test rows, fold by fold as in ``documents``; None if they were not kept."""
        parts = [run.scores for run in self.runs[label] if run.scores is not None]
        return np.concatenate(parts) if len(parts) == len(self.runs[label]) else None

    def fit_seconds(self, label: str) -> float:
        """Training time of all folds, without tuning."""
        return sum(run.fit_seconds for run in self.runs[label])

    def was_trained(self, label: str) -> bool:
        """Whether this one was trained for the comparison, rather than taken as it is."""
        return any(run.trained for run in self.runs[label])

    @property
    def trained(self) -> bool:
        """Whether rankers were trained for the comparison; runs from files were not."""
        return "runs" not in self.protocol

    @property
    def noun(self) -> str:
        """What is compared."""
        return "ranker" if self.trained else "run"

    @property
    def tuned(self) -> bool:
        """Whether parameters were chosen in trials."""
        return any(run.trials for runs in self.runs.values() for run in runs)

    def tuning_seconds(self, label: str) -> float:
        """Total time of all trials on all folds, as if run one after the other."""
        return float(sum(row["seconds"] for run in self.runs[label] for row in run.trials))

    def models_tried(self, label: str) -> int:
        """Models trained in all trials; a trial along a path of C or l1 trains one per value."""
        return sum(row.get("models", 1) for run in self.runs[label] for row in run.trials)

    @cached_property
    def headings(self) -> dict[Metric, str]:
        """The name of each metric: the short one, or the full one if two metrics share the short one."""
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

        Holm's correction runs over the rankers, separately for each test and measure; see :meth:`mark` for several
        measures at once.
        """
        found: dict[tuple[str, str], PairedTest] = {}
        others = [label for label in self.labels if label != self.baseline]
        sums = [CURVE_SUM] if self.curve else []
        for measure in [*(self.headings[m] for m in self.metrics), *sums] if others else []:
            pairs = [(label, self.baseline) for label in others]
            differences = self.weighted_differences(pairs, measure)
            raw = {test: p_values(test, differences, self.seed) for test in self.tests}
            corrected = {test: holm(p) for test, p in raw.items()}
            low, high = self.difference_intervals(pairs, measure)
            marking = [1.0] * len(others) if self.marking_test is None else raw[self.marking_test]
            for i, label in enumerate(others):
                d = differences[~np.isnan(differences[:, i]), i]
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
                )
        return found

    def differences(self, label: str, other: str, measure: Metric | str) -> Array:
        """One difference per test query, NaN if skipped. Differences that rounding can explain are 0."""
        ours, theirs = self.per_query(label, measure), self.per_query(other, measure)
        d = ours - theirs
        d[np.abs(d) <= ROUNDING * np.maximum(1.0, np.maximum(np.abs(ours), np.abs(theirs)))] = 0.0
        return np.asarray(d)

    def weighted_differences(self, pairs: Sequence[tuple[str, str]], measure: Metric | str) -> Array:
        """:meth:`differences` of each pair times its query's weight: the plain mean is the weighted one, (n, pairs)."""
        d = np.column_stack([self.differences(first, second, measure) for first, second in pairs])
        if self.query_weights is None:
            return d
        weights = np.where(np.isnan(d), 0.0, (self.query_weights / self.query_weights.max())[:, None])
        total = np.maximum(weights.sum(axis=0), np.finfo(np.float64).tiny)
        return np.asarray(d * weights * (len(d) - np.isnan(d).sum(axis=0)) / total)

    def difference_intervals(self, pairs: Sequence[tuple[str, str]], measure: Metric | str) -> tuple[Array, Array]:
        """Lower and upper ends for the mean difference of each pair, weighted if the queries have weights."""
        return difference_intervals(
            np.column_stack([self.differences(first, second, measure) for first, second in pairs]),
            self.query_weights,
            level=self.level,
            highest=self._highest(measure),
            binary=np.array([self.is_binary(measure, pair) for pair in pairs]),
            seed=self.seed,
        )

    @property
    def level(self) -> float:
        """Level of the intervals: 1 − alpha."""
        return 1.0 - self.alpha

    def interval(self, label: str, measure: Metric | str) -> tuple[float, float]:
        """Interval for :meth:`mean` over other queries like the test queries, with the models fixed.

        Exact where this ranker's values are 0 or 1 on every test query, else by the bootstrap.
        """
        self.per_query(label, measure)  # refuses unknown names
        key = measure if measure == CURVE_SUM else self.headings[self._metric(measure)]
        if key not in self._intervals:
            values = np.column_stack([self.per_query(name, key) for name in self.labels])
            ends = mean_intervals(
                values,
                self.query_weights,
                level=self.level,
                lowest=self._lowest(key),
                highest=self._highest(key),
                seed=self.seed,
            )
            pairs = zip(*(end.tolist() for end in ends), strict=True)
            self._intervals[key] = dict(zip(self.labels, pairs, strict=True))
        return self._intervals[key][label]

    def is_binary(self, measure: Metric | str, labels: Sequence[str] | None = None) -> bool:
        """Whether the measure is at most 1, and 0 or 1 on every test query for these rankers, by default all."""
        values = np.column_stack([self.per_query(label, measure) for label in labels or self.labels])
        return self._highest(measure) == 1 and bool(binary_columns(values).all())

    def _highest(self, measure: Metric | str) -> float:
        """The highest value that the measure can have."""
        if measure == CURVE_SUM:
            return float(len(self.curve))
        return self._metric(measure).bounds[1]

    def _lowest(self, measure: Metric | str) -> float:
        return 0.0 if measure == CURVE_SUM else self._metric(measure).bounds[0]

    @cached_property
    def _intervals(self) -> dict[str, dict[str, tuple[float, float]]]:
        return {}

    @property
    def marking_test(self) -> str | None:
        """The test whose corrected p-value decides whether a difference from the baseline is significant."""
        return next((test for test in ("randomization", "t", "wilcoxon") if test in self.tests), None)

    def verdict(self, label: str, measure: str) -> int:
        """+1 if significantly better than the baseline on this measure, −1 if significantly worse, else 0.

        For one measure that was chosen beforehand: corrected over the rankers only.
        """
        test = self.paired_tests.get((label, measure))
        if test is None or self.marking_test is None or test.p_holm[self.marking_test] > self.alpha:
            return 0
        return 1 if test.difference > 0 else -1

    def mark(self, label: str, measure: str) -> int:
        """The verdict shown in the table, which has several metrics side by side.

        On the headline metric it is :meth:`verdict`. Another metric has a mark only if the headline has one and the
        difference stays significant after Holm's correction over all rankers and all other metrics. So if no ranker
        differs from the baseline, the chance of any mark in the whole table is at most ``alpha``.
        """
        headline = self.headings[self.headline]
        on_headline = self.verdict(label, headline)
        if measure == headline or on_headline == 0:
            return on_headline
        if self._p_over_metrics.get((label, measure), 1.0) > self.alpha:
            return 0
        return 1 if self.paired_tests[label, measure].difference > 0 else -1

    def all_pairs(self, measure: Metric | str | None = None) -> tuple[PairOfRankers, ...]:
        """Every pair of rankers on one measure, the headline by default: differences and p-values over all pairs."""
        return all_pairs(self, self._heading(measure))

    def equalities(self, delta: float, measure: Metric | str | None = None) -> tuple[Equality, ...]:
        """Whether each ranker is practically the same as the baseline: within ±``delta`` in the mean."""
        Choices(delta=delta)
        return equalities(self, self._heading(measure), float(delta))

    def by_segment(self, segments: Any) -> dict[str, Comparison]:
        """The comparison on the queries of each segment; nothing is trained again.

        ``segments`` maps query ids to names (queries without one are "other"), or is a function of the query id.
        """
        return by_segment(self, segments)

    @cached_property
    def segmented(self) -> dict[str, Comparison]:
        """The comparison on each of the segments that were chosen; empty without any."""
        return {} if self.choices.segments is None else self.by_segment(self.choices.segments)

    def _heading(self, measure: Metric | str | None) -> str:
        return self.headings[self._metric(self.headline if measure is None else measure)]

    @cached_property
    def _p_over_metrics(self) -> dict[tuple[str, str], float]:
        """(ranker, metric) → the marking test's p-value, Holm-corrected over rankers × metrics without the headline."""
        if self.marking_test is None:
            return {}
        names = {self.headings[m] for m in self.metrics[1:]}
        keys = [key for key in self.paired_tests if key[1] in names]
        return dict(zip(keys, holm([self.paired_tests[key].p[self.marking_test] for key in keys]), strict=True))

    @cached_property
    def cautions(self) -> tuple[str, ...]:
        """Sentences on what the number of test queries cannot support."""
        from gainful.comparison.cautions import cautions

        return tuple(cautions(self))

    @cached_property
    def created(self) -> str:
        """When the result was first shown or written, in UTC; the same in all files."""
        return datetime.now(UTC).isoformat(timespec="seconds")

    @cached_property
    def importances(self) -> dict[str, dict[str, Any]]:
        """What each feature is worth to each ranker that was explained (``compare(…, explain=True)``)."""
        from gainful.comparison.explained import importances

        return importances(self)

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

    def plot(self, ax: Any = None, *, measure: Metric | str | None = None) -> Any:
        """Draw the mean of each ranker with its interval, the best first; returns the axes.

        ``measure`` is one of the metrics, by default the headline. A dashed line marks the baseline. Needs the extra
        ``plot``.
        """
        heading, shown = self._heading(measure), self.by_mean
        ends = [(self.interval(label, heading), self.mean(label, heading)) for label in shown]
        return plots.intervals(
            ax,
            [f"{label} (baseline)" if label == self.baseline and len(shown) > 1 else label for label in shown],
            [(low, mean, high) for (low, high), mean in ends],
            x=f"{heading} on {len(self.query_ids):,} test queries, with {100 * self.level:.6g} % intervals",
            beside=shown.index(self.baseline) if len(shown) > 1 else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, as :meth:`to_json` writes it."""
        from gainful.comparison.to_dict import to_dict

        return to_dict(self)

    def to_json(self, path: str | Path | None = None) -> str:
        """Means, intervals, tests and per-query values as JSON, also written to ``path`` if given."""
        return _write(json.dumps(self.to_dict(), indent=1), path)

    def to_csv(self, path: str | Path | None = None) -> str:
        """The value of every metric on every query as CSV, one line per ranker and query, also written to ``path``."""
        names = [self.headings[m] for m in self.metrics]
        lines = []
        for label in self.labels:
            values = [self.per_query(label, name).tolist() for name in names]
            folds = (self.fold_of_query + 1).tolist()
            lines += list(zip([label] * len(folds), folds, self.query_ids.tolist(), *values, strict=True))
        return _write(csv_text([self.noun, "fold", "query", *names], lines), path)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """The tables and notes as Markdown, also written to ``path`` if given."""
        from gainful.comparison.render import markdown

        return _write(markdown(self), path)

    def to_latex(self, path: str | Path | None = None) -> str:
        """The table of means as LaTeX (package booktabs), also written to ``path`` if given."""
        from gainful.comparison.render import latex

        return _write(latex(self), path)

    def to_html(self, path: str | Path | None = None) -> str:
        """The report, one self-contained page, also written to ``path`` if given."""
        from gainful.comparison.report.page import page

        return _write(page(self), path)

    def to_report(self, folder: str | Path) -> Path:
        """Write report.html, table.md, table.tex and comparison.json into ``folder``; return the path of the page."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.to_json(folder / "comparison.json")
        self.to_markdown(folder / "table.md")
        self.to_latex(folder / "table.tex")
        self.to_html(folder / "report.html")
        return folder / "report.html"


def csv_text(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV; numbers read back as they were, NaN is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(["" if isinstance(cell, float) and cell != cell else cell for cell in row] for row in rows)
    return text.getvalue()


def _write(text: str, path: str | Path | None) -> str:
    from gainful.formats.files import write_text

    if path is not None:
        write_text(path, text)
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


def _describe_test_data(parts: Sequence[RankingData]) -> dict[str, Any]:
    """Documents per query and grades of all test queries."""
    counts, grades = np.concatenate([part.counts for part in parts]), np.concatenate([part.y for part in parts])
    highest = np.concatenate([np.maximum.reduceat(part.y, part.offsets[:-1]) for part in parts])
    values, rows = np.unique(grades, return_counts=True)
    few = len(values) <= 32
    return {
        "documents_per_query": {"min": counts.min(), "median": np.median(counts), "max": counts.max()},
        "grades": {f"{value:g}": count for value, count in zip(values, rows, strict=True)} if few else None,
        "grade_range": [values[0], values[-1]],
        "queries_without_relevant": 0 if parts[0].has_pairs else int((highest <= 0).sum()),
    }


def _nothing_to_show(failures: Mapping[str, str], interrupted: bool) -> str:
    if interrupted:
        return "interrupted before any ranker had finished"
    return "no ranker could be trained: " + "; ".join(f"{label}: {reason}" for label, reason in failures.items())
