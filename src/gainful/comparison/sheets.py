"""What the tables of a comparison say, cell by cell, and the notes under them; how they look is ``render``'s matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gainful.comparison.result import CURVE_SUM, Comparison, PairedTest
from gainful.comparison.statistics import N_FLIPS
from gainful.metrics import Metric

TEST_NAMES = {"wilcoxon": "Wilcoxon", "t": "paired t", "randomization": "random."}
FULL_NAMES = {
    "wilcoxon": "Wilcoxon signed-rank",
    "t": "paired t",
    "randomization": f"randomisation ({N_FLIPS:,} sign flips)",
}


@dataclass(frozen=True)
class Cell:
    """One cell: its text, the number or text it is sorted by, and what it stands out for."""

    text: str
    value: float | str | None = None
    best: bool = False
    verdict: int = 0  # +1 significantly better than the baseline, −1 worse
    picture: str = ""  # markup beside the text, made here and therefore trusted


@dataclass(frozen=True)
class Sheet:
    """A table: a title for those who cannot see it, headings, rows of cells; the first column names the row."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def means_sheet(comparison: Comparison, *, intervals: bool = True) -> Sheet:
    """One row per ranker: means with marks, the interval of the headline metric, training time."""
    names = [comparison.headings[m] for m in comparison.metrics]
    best = {name: _highest([comparison.mean(label, name) for label in comparison.labels]) for name in names}
    head = ["ranker", *names, "fit"]
    if intervals:
        head.insert(2, f"{percent(comparison.level)} interval")
    rows = []
    for label in comparison.labels:
        cells = [Cell(label_of(comparison, label), label)]
        for name in names:
            value = comparison.mean(label, name)
            cells.append(Cell(f"{value:.4f}", value, value >= best[name], comparison.verdict(label, name)))
        if intervals:
            low, high = comparison.interval(label, names[0])
            cells.insert(2, Cell(interval_text(low, high), low))
        spent = comparison.fit_seconds(label)
        rows.append((*cells, Cell(seconds(spent), spent)))
    return Sheet("Means over the test queries", tuple(head), tuple(rows))


def differences_sheet(comparison: Comparison, *, intervals: bool = True) -> Sheet:
    """One row per ranker but the baseline: its difference on the headline metric, queries won and lost, p-values."""
    head = [f"against {comparison.baseline}", f"Δ {comparison.headings[comparison.headline]}"]
    head += [f"{percent(comparison.level)} interval", "effect"] if intervals else []
    head += ["won/tied/lost", *(f"p {TEST_NAMES[test]}" for test in comparison.tests)]
    rows = []
    for label in comparison.labels:
        if label != comparison.baseline:
            t = comparison.paired_tests[label, comparison.headings[comparison.headline]]
            verdict = comparison.verdict(label, t.measure)
            cells = [Cell(label, label), Cell(f"{t.difference:+.4f}", t.difference, verdict=verdict)]
            if intervals:
                cells += [Cell(interval_text(*t.interval, "+"), t.interval[0]), Cell(_effect(t), t.effect_size)]
            cells.append(Cell(f"{t.wins}/{t.ties}/{t.losses}", t.wins - t.losses))
            rows.append((*cells, *(_p_cell(comparison, label, test) for test in comparison.tests)))
    return Sheet(f"Differences to {comparison.baseline}", tuple(head), tuple(rows))


def _p_cell(comparison: Comparison, label: str, test: str) -> Cell:
    p = measure_of_test(comparison, label, test).p_holm[test]
    return Cell(p_value(p), p)


def measure_of_test(comparison: Comparison, label: str, test: str) -> PairedTest:
    """Wilcoxon looks at the whole top of the list, as Chapelle, Le and Smola do; the others at the headline metric."""
    measure = CURVE_SUM if test == "wilcoxon" else comparison.headings[comparison.headline]
    return comparison.paired_tests[label, measure]


def label_of(comparison: Comparison, label: str) -> str:
    return f"{label} (baseline)" if label == comparison.baseline and len(comparison.labels) > 1 else label


# -- notes -------------------------------------------------------------------------------------------------------------


def notes(comparison: Comparison) -> list[str]:
    """What the figures mean: marks, what they cannot support, data, conventions, tests, and what went wrong."""
    compared = len(comparison.labels) > 1 and bool(comparison.tests)
    lines = [legend(comparison)] if compared else []
    lines += comparison.cautions
    lines += [data_note(comparison), f"Conventions: {'; '.join(conventions(comparison.metrics))}."]
    if compared:
        lines.append(tests_note(comparison))
    return lines + problems(comparison)


def legend(comparison: Comparison) -> str:
    """The marks, in one line."""
    mark = FULL_NAMES[comparison.marking_test or ""].partition(" (")[0]
    return (
        f"▲ better, ▼ worse than {comparison.baseline} at level {comparison.alpha:g} ({mark} test, Holm-corrected); "
        "bold: best mean."
    )


def tests_note(comparison: Comparison) -> str:
    tested = ", ".join(_test_note(comparison, test) for test in comparison.tests)
    return (
        f"p-values: {tested}; Holm-corrected over the rankers. Intervals: bootstrap over the test queries, each by "
        "itself. Effect: mean difference over its standard deviation."
    )


def data_note(comparison: Comparison) -> str:
    data = comparison.data
    folds = f"{data['folds']} folds, " if data["folds"] > 1 else ""
    return (
        f"{folds}{len(comparison.query_ids):,} test queries, {data['test_documents']:,} documents, "
        f"{data['features']} features; trained on {spread(data['train_queries'])} queries, "
        f"validated on {spread(data['validation_queries'])}."
    )


def problems(comparison: Comparison) -> list[str]:
    """Remarks, rankers that failed, and an interruption."""
    lines = [*comparison.remarks, *(f"{label} failed: {reason}" for label, reason in comparison.failures.items())]
    if comparison.interrupted:
        lines.append("Interrupted: the table holds what was finished.")
    return lines


def conventions(metrics: Sequence[Metric]) -> list[str]:
    """The conventions of each metric, those that share them together: ``ndcg@10, ndcg@5 (gain=exp2, …)``."""
    together: dict[str, list[str]] = {}
    for m in metrics:
        together.setdefault(str(m).partition("(")[2].rstrip(")"), []).append(m.name)
    return [f"{', '.join(names)} ({words})" for words, names in together.items()]


def _test_note(comparison: Comparison, test: str) -> str:
    return f"{FULL_NAMES[test]} on {CURVE_SUM if test == 'wilcoxon' else comparison.headings[comparison.headline]}"


# -- figures as text ---------------------------------------------------------------------------------------------------


def p_value(p: float) -> str:
    return "< .001" if p < 0.001 else f"{p:.3f}".replace("0.", ".", 1)


def interval_text(low: float, high: float, sign: str = "") -> str:
    return "–" if np.isnan(low) else f"[{low:{sign}.3f}, {high:{sign}.3f}]"


def _effect(t: PairedTest) -> str:
    return f"{t.effect_size:+.2f}".replace("inf", "∞")


def percent(share: float) -> str:
    return f"{100 * share:.6g} %"


def seconds(value: float) -> str:
    if value < 0.00995:
        return f"{value * 1000:.1f} ms"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def mebibytes(value: float | None) -> str:
    return "–" if value is None else f"{value / 2**20:,.0f} MiB"


def spread(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _highest(values: Sequence[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return max(known, default=np.inf)
