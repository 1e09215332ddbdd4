"""Compare runs that exist, by judgments that exist: nothing is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gainful.comparison.compare import CURVE
from gainful.comparison.further import Choices
from gainful.comparison.job import check_settings
from gainful.comparison.result import Comparison, Documents
from gainful.comparison.result import Run as Tested
from gainful.data.judgments import JudgedRun, Qrels, Run, as_run
from gainful.errors import ParameterError, plural
from gainful.formats.trec import read_qrels, read_run
from gainful.metrics import Metric, metric
from gainful.metrics.conventions import RUN_CONVENTION, RUN_METRICS, TREC_METRICS, full_name
from gainful.parameters.constraints import split_outside_brackets
from gainful.statistics.paired import TESTS

TOP = 10  # documents whose share of unjudged ones is reported


def compare_runs(
    runs: Any,
    qrels: Any,
    *,
    metrics: str | Sequence[Any] = RUN_METRICS,
    convention: str | None = RUN_CONVENTION,
    queries: str = "all",
    tests: Sequence[str] = tuple(TESTS),
    baseline: str | None = None,
    alpha: float = 0.05,
    seed: int = 0,
    all_pairs: bool = False,
    delta: float | None = None,
    segments: Any = None,
) -> Comparison:
    """Compare runs query by query: means, intervals and paired tests, as :func:`gainful.compare` gives for rankers.

    Parameters
    ----------
    runs : a mapping from labels to runs, or a list of them. A run is a :class:`gainful.Run`, the path of a TREC run, or
        a mapping query → document → score; in a list it is labelled with its tag
    qrels : a :class:`gainful.Qrels`, the path of TREC qrels, or a mapping query → document → grade
    metrics : as in :func:`gainful.compare`; "trec" for those that trec_eval prints
    convention : whose conventions metrics given as text follow: those of version 9 of trec_eval by default
    queries : "all": every query of the qrels; one that a run lacks counts as an empty list. "run": queries that no run
        has are left out
    tests, baseline, alpha, seed, all_pairs, delta, segments : as in :func:`gainful.compare`
    """
    choices = Choices(all_pairs, delta, segments)
    measures = parse_measures(metrics, convention)
    judgments = as_qrels(qrels)
    named = label_runs(runs)
    check_settings(named, measures, tests, baseline, alpha, seed)
    if queries not in ("all", "run"):
        raise ParameterError.of("compare_runs", "queries", "'all' or 'run'", queries)
    wanted = set(judgments if queries == "all" else (query for run in named.values() for query in run))
    judged = {label: judgments.judge(run, queries=wanted) for label, run in named.items()}
    curve = tuple(metric(name, convention=convention) for name in CURVE)
    first = next(iter(judged.values()))
    return Comparison(
        labels=tuple(judged),
        metrics=measures,
        curve=curve,
        baseline=baseline or next(iter(judged)),
        tests=tuple(tests),
        alpha=alpha,
        seed=seed,
        runs={label: (_tested(label, run, (*measures, *curve)),) for label, run in judged.items()},
        query_ids=first.query_ids,
        fold_of_query=np.zeros(first.n_queries, dtype=np.int64),
        failures={},
        interrupted=False,
        data=_describe(judged, judgments, first.query_ids.tolist()),
        documents=_documents(judgments, first.query_ids.tolist()),
        remarks=tuple(remarks(judged, measures, convention)),
        choices=choices,
        protocol={"runs": list(judged), "queries": queries},
    )


def parse_measures(metrics: str | Sequence[Any], convention: str | None) -> tuple[Metric, ...]:
    """Metrics for runs; those given as text follow ``convention``."""
    specs: Sequence[Any] = metrics if not isinstance(metrics, str) else split_outside_brackets(metrics, ",")
    specs = [one for spec in specs for one in (TREC_METRICS if spec == "trec" else (spec,))]
    found = [one if isinstance(one, Metric) else metric(one, convention=convention) for one in specs]
    return tuple(dict.fromkeys(found))


def as_qrels(qrels: Any) -> Qrels:
    """Qrels, from a path or a mapping too."""
    if isinstance(qrels, (str, Path)):
        return read_qrels(qrels)
    return qrels if isinstance(qrels, Qrels) else Qrels(qrels)


def label_runs(runs: Any) -> dict[str, Run]:
    """The runs by label; a tag that two runs share is followed by a number."""
    if isinstance(runs, Run) or not isinstance(runs, (Mapping, Sequence)) or isinstance(runs, str) or not runs:
        raise ParameterError.of("compare_runs", "runs", "a list of runs, or a mapping from labels to them", runs)
    if isinstance(runs, Mapping):
        return {str(label): _open(run) for label, run in runs.items()}
    found: dict[str, Run] = {}
    for run in map(_open, runs):
        label, n = run.name, 2
        while label in found:
            label, n = f"{run.name} {n}", n + 1
        found[label] = run
    return found


def remarks(judged: Mapping[str, JudgedRun], measures: Sequence[Metric], convention: str | None) -> list[str]:
    """What a reader of the means must know: whose figures they are, documents not judged, queries missing."""
    lines = [] if convention is None else [f"Metrics follow {full_name(convention)} where they name no conventions."]
    top = metric(f"judged@{TOP}")
    unjudged = {label: 1.0 - float(top.per_query(run)[run.listed > 0].mean()) for label, run in judged.items()}
    if any(m.unjudged == "zero" for m in measures) and max(unjudged.values()) > 0.0:
        shares = ", ".join(f"{100 * share:.2g} % of {label}" for label, share in unjudged.items() if share > 0.0)
        lines.append(f"Not judged among the top {TOP}, and counted as not relevant (unjudged=zero): {shares}.")
    for label, run in judged.items():
        if run.missing:
            n = plural(len(run.missing), "query", "queries")
            lines.append(f"{label} has no documents for {n}, which count as empty lists.")
        if run.ignored:
            n = plural(len(run.ignored), "query", "queries")
            lines.append(f"{label} has {n} that the qrels lack; they are left out.")
    return lines


def _open(run: Any) -> Run:
    return read_run(run) if isinstance(run, (str, Path)) else as_run(run)


def _tested(label: str, run: JudgedRun, measures: Sequence[Metric]) -> Tested:
    values = {m: m.per_query(run) for m in dict.fromkeys(measures)}
    return Tested(label, 0, values, fit_seconds=0.0, predict_seconds=0.0, n_iter=0, params={})


def _documents(qrels: Qrels, queries: Sequence[str]) -> Documents:
    """The judged documents, which the pages of queries name."""
    held = [qrels[query] for query in queries]
    return Documents(
        offsets=np.concatenate([[0], np.cumsum([len(one) for one in held])]).astype(np.int64),
        grades=np.array([grade for one in held for grade in one.values()]),
        doc_ids=np.array([document for one in held for document in one], dtype=object),
    )


def _describe(judged: Mapping[str, JudgedRun], qrels: Qrels, queries: Sequence[str]) -> dict[str, Any]:
    grades = [np.array(list(qrels[query].values())) for query in queries]
    sizes = np.array([len(one) for one in grades])
    values, rows = np.unique(np.concatenate(grades), return_counts=True)
    listed = [run.n_listed for run in judged.values()]
    few, most = min(listed), max(listed)
    return {
        "folds": 1,
        "test_queries": [len(queries)],
        "test_documents": int(sizes.sum()),
        "listed": f"{most:,}" if few == most else f"{few:,} to {most:,}",
        "documents_per_query": {"min": sizes.min(), "median": np.median(sizes), "max": sizes.max()},
        "grades": {f"{value:g}": count for value, count in zip(values, rows, strict=True)}
        if len(values) <= 32
        else None,
        "grade_range": [values[0], values[-1]],
        "queries_without_relevant": sum(int((one > 0).sum() == 0) for one in grades),
    }
