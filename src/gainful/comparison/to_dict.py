"""A comparison as plain values: the JSON file, and the source of the report."""

from __future__ import annotations

import platform
from dataclasses import asdict
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np

from gainful.comparison.grid import LossMatrix
from gainful.metrics import mean_over_queries
from gainful.persistence.jsonable import plain
from gainful.statistics.paired import N_FLIPS, N_RESAMPLES

if TYPE_CHECKING:
    from gainful.comparison.result import Comparison, PairedTest

LIBRARIES = ("gainful", "numpy", "scipy", "scikit-learn", "numba", "lightgbm", "torch")
EXTREME_QUERIES = 3  # with the largest gain, and with the largest loss
TOP = 10


def to_dict(comparison: Comparison, *, per_query: bool = True) -> dict[str, Any]:
    """Everything as JSON values. The values of every query are most of it and can be left out."""
    result = {
        "created": comparison.created,
        "versions": versions(),
        "seed": comparison.seed,
        "baseline": comparison.baseline,
        "metrics": {comparison.headings[m]: str(m) for m in comparison.metrics},
        "curve": {comparison.headings[m]: str(m) for m in comparison.curve},
        "tests": {
            "names": comparison.tests,
            "marking": comparison.marking_test,
            "correction": "holm over rankers",
            "marks": "headline: over rankers; others: where the headline is marked, over rankers and other metrics",
            "alpha": comparison.alpha,
            "sign_flips": N_FLIPS,
            "seed": comparison.seed,
        },
        "intervals": {
            "level": comparison.level,
            "method": "studentised bootstrap over queries",
            "resamples": N_RESAMPLES,
            "exact": _exact_intervals(comparison),
        },
        "data": comparison.data,
        "protocol": comparison.protocol,
        "interrupted": comparison.interrupted,
        "failures": comparison.failures,
        "remarks": comparison.remarks,
        "cautions": comparison.cautions,
        "queries": {"id": comparison.query_ids, "fold": comparison.fold_of_query + 1},
        "rankers": {label: _ranker(comparison, label, per_query) for label in comparison.labels},
        "against_baseline": [_test_to_dict(comparison, t) for t in comparison.paired_tests.values()],
        "best_two": best_two(comparison),
        **_further(comparison),
        **({"importances": comparison.importances} if comparison.importances else {}),
    }
    grid = LossMatrix.of(comparison)
    if grid is not None:
        result["grid"] = grid.to_dict()
    return plain(result)  # type: ignore[no-any-return]


def _further(comparison: Comparison) -> dict[str, Any]:
    """What was chosen beside the usual; nothing otherwise."""
    choices = comparison.choices
    found: dict[str, Any] = {}
    if choices.all_pairs:
        found["all_pairs"] = [asdict(pair) for pair in comparison.all_pairs()]
    if choices.delta is not None:
        found["equalities"] = [asdict(one) for one in comparison.equalities(choices.delta)]
    if choices.segments is not None:
        heading = comparison.headings[comparison.headline]
        found["segments"] = {
            name: {
                "queries": part.query_ids,
                "means": {label: part.mean(label, heading) for label in part.labels},
                "against_baseline": [_test_to_dict(part, t) for (_, m), t in part.paired_tests.items() if m == heading],
            }
            for name, part in comparison.segmented.items()
        }
    return found


def _exact_intervals(comparison: Comparison) -> dict[str, list[str]]:
    """The measures that are 0 or 1 on every test query for some rankers, with these rankers."""
    found = {
        name: [label for label in comparison.labels if comparison.is_binary(name, [label])]
        for name in comparison.headings.values()
    }
    return {name: labels for name, labels in found.items() if labels}


def _ranker(comparison: Comparison, label: str, per_query: bool) -> dict[str, Any]:
    names, runs = list(comparison.headings.values()), comparison.runs[label]
    memory = [run.memory for run in runs if run.memory is not None]
    entry = {
        "means": {name: comparison.mean(label, name) for name in names},
        "intervals": {name: comparison.interval(label, name) for name in names},
        "means_of_folds": {name: comparison.mean(label, name, average="folds") for name in names},
        "trained": comparison.was_trained(label),
        "fit_seconds": comparison.fit_seconds(label),
        "tuning_seconds": comparison.tuning_seconds(label),
        "models_tried": comparison.models_tried(label),
        "predict_seconds": sum(run.predict_seconds for run in runs),
        "memory_bytes": max(memory) if memory else None,
        "iterations": [run.n_iter for run in runs],
        "iterations_kept": [run.kept for run in runs],
        "params": runs[0].params,
        "facts": [run.facts for run in runs],
        "history": [_columns(run.history) for run in runs],
    }
    if per_query:
        entry["per_query"] = {name: comparison.per_query(label, name) for name in names}
    for name in ("chosen", "trials"):  # of a tuned ranker
        values = [getattr(run, name, None) for run in runs]
        if any(values):
            entry[name] = values
    return entry


def _columns(history: Any) -> dict[str, list[Any]]:
    """Rows as columns, which take a third of the space on disk; empty columns are left out."""
    names = dict.fromkeys(name for row in history for name in row)
    columns = {name: [row.get(name) for row in history] for name in names}
    return {name: values for name, values in columns.items() if any(value is not None for value in values)}


def _test_to_dict(comparison: Comparison, t: PairedTest) -> dict[str, Any]:
    facts = asdict(t)
    return {
        "queries": facts.pop("n_queries"),
        **facts,
        "significant": comparison.verdict(t.ranker, t.measure) != 0,
        "marked": t.measure in comparison.headings.values() and comparison.mark(t.ranker, t.measure) != 0,
    }


# -- the best two ------------------------------------------------------------------------------------------------------


def best_two(comparison: Comparison) -> dict[str, Any] | None:
    """The two best rankers by the headline metric: per-query differences, and the queries won and lost by most.

    No p-value: it would be too small for two rankers picked because they came out on top.
    """
    if len(comparison.labels) < 2:
        return None
    first, second = comparison.by_mean[:2]
    d = comparison.differences(first, second, comparison.headline)
    known = np.flatnonzero(~np.isnan(d))
    order = known[np.argsort(-d[known], kind="stable")]
    most_won = [q for q in order[:EXTREME_QUERIES] if d[q] > 0]
    most_lost = [q for q in order[::-1][:EXTREME_QUERIES] if d[q] < 0]
    return {
        "first": first,
        "second": second,
        "difference": mean_over_queries(d, comparison.query_weights) if len(known) else 0.0,
        "wins": int((d > 0).sum()),
        "ties": int((d == 0).sum()),
        "losses": int((d < 0).sum()),
        "sorted": {"query": comparison.query_ids[order], "difference": d[order]},
        "won_most": [_query(comparison, first, second, int(q), float(d[q])) for q in most_won],
        "lost_most": [_query(comparison, first, second, int(q), float(d[q])) for q in most_lost],
    }


def _query(comparison: Comparison, first: str, second: str, q: int, difference: float) -> dict[str, Any]:
    """One query, with the documents in the top ten of either ranker."""
    rows = comparison.documents
    begin, end = rows.offsets[q], rows.offsets[q + 1]
    entry = {
        "query": comparison.query_ids[q],
        "fold": int(comparison.fold_of_query[q]) + 1,
        "values": [comparison.per_query(label, comparison.headline)[q] for label in (first, second)],
        "difference": difference,
        "n_documents": int(end - begin),
        "documents": [],
    }
    scores = [comparison.scores(label) for label in (first, second)]
    if scores[0] is None or scores[1] is None:
        return entry
    ours, theirs = scores[0][begin:end], scores[1][begin:end]
    ranks = [ranks_of(ours), ranks_of(theirs)]
    shown = np.flatnonzero(np.minimum(*ranks) <= TOP)
    entry["documents"] = [
        {
            "id": rows.name(q, int(i)),
            "grade": rows.grades[begin + i],
            "ranks": [ranks[0][i], ranks[1][i]],
            "scores": [ours[i], theirs[i]],
        }
        for i in shown[np.lexsort((ranks[1][shown], ranks[0][shown]))]
    ]
    return entry


def ranks_of(scores: Any) -> Any:
    """1 for the highest score; ties keep the order of the rows."""
    ranks = np.empty(len(scores), dtype=np.int64)
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return ranks


def versions() -> dict[str, str]:
    """Versions of Python, this package and the libraries installed."""
    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
