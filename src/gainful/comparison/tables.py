"""The tables of a comparison, cell by cell, and the notes under them; ``render`` decides how they look."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gainful.comparison.result import CURVE_SUM, Comparison, PairedTest
from gainful.errors import plural
from gainful.metrics import Metric
from gainful.report.parts import Cell, Table
from gainful.statistics.paired import N_FLIPS

TEST_NAMES = {"wilcoxon": "Wilcoxon", "t": "paired t", "randomization": "random."}
FULL_NAMES = {
    "wilcoxon": "Wilcoxon signed-rank",
    "t": "paired t",
    "randomization": f"randomisation ({N_FLIPS:,} sign flips)",
}


def means_table(comparison: Comparison, *, intervals: bool = True) -> Table:
    """One row per ranker, best first: means with marks, the interval of the headline metric, times."""
    names = [comparison.headings[m] for m in comparison.metrics]
    best = {name: _highest([comparison.mean(label, name) for label in comparison.labels]) for name in names}
    spending = (["tuning"] if comparison.tuned else []) + (["fit"] if comparison.trained else [])
    head = [comparison.noun, *names, *spending]
    if intervals:
        head.insert(2, f"{percent(comparison.level)} interval")
    rows = []
    for label in comparison.by_mean:
        cells = [Cell(label_of(comparison, label), label)]
        cells += [mean_cell(comparison, label, name, best[name]) for name in names]
        if intervals:
            low, high = comparison.interval(label, names[0])
            cells.insert(2, Cell(interval_text(low, high), low))
        if comparison.tuned:
            tuned = any(run.trials for run in comparison.runs[label])
            cells.append(spent_cell(comparison.tuning_seconds(label), tuned))
        if comparison.trained:
            cells.append(spent_cell(comparison.fit_seconds(label), comparison.was_trained(label)))
        rows.append(tuple(cells))
    return Table("Means over the test queries", tuple(head), tuple(rows))


def mean_cell(comparison: Comparison, label: str, name: str, best: float = np.inf) -> Cell:
    """The mean of a ranker with its mark; bold if it is the best."""
    value = comparison.mean(label, name)
    text = "–" if np.isnan(value) else f"{value:.4f}"
    return Cell(text, value, value >= best, comparison.mark(label, name))


def spent_cell(value: float, known: bool) -> Cell:
    """A time, or a dash for what did not happen."""
    return Cell(seconds(value), value) if known else Cell("–", 0.0)


def differences_table(comparison: Comparison, *, intervals: bool = True) -> Table:
    """One row per ranker except the baseline, best first: difference on the headline metric, queries won, p-values."""
    head = [f"against {comparison.baseline}", f"Δ {comparison.headings[comparison.headline]}"]
    head += [f"{percent(comparison.level)} interval", "effect"] if intervals else []
    head += ["won/tied/lost", *(_p_heading(test, measure) for test, measure in shown_tests(comparison))]
    rows = []
    for label in comparison.by_mean:
        if label != comparison.baseline:
            t = comparison.paired_tests[label, comparison.headings[comparison.headline]]
            verdict = comparison.verdict(label, t.measure)
            cells = [Cell(label, label), Cell(f"{t.difference:+.4f}", t.difference, verdict=verdict)]
            if intervals:
                cells += [Cell(interval_text(*t.interval, "+"), t.interval[0]), Cell(_effect(t), t.effect_size)]
            cells.append(Cell(f"{t.wins}/{t.ties}/{t.losses}", t.wins - t.losses))
            rows.append((*cells, *(_p_cell(comparison, label, *one) for one in shown_tests(comparison))))
    return Table(f"Differences from {comparison.baseline}", tuple(head), tuple(rows))


def pairs_table(comparison: Comparison) -> Table:
    """One row per pair, the largest difference first."""
    heading = comparison.headings[comparison.headline]
    tests = [test for test in comparison.tests if test == comparison.marking_test]
    columns = (f"p {TEST_NAMES[test]}, Holm" for test in tests)
    head = ("pair", f"Δ {heading}", f"{percent(comparison.level)} interval", "p, all pairs at once", *columns)
    rows = []
    for pair in comparison.all_pairs():
        verdict = 1 if pair.p_joint <= comparison.alpha else 0
        cells = [
            Cell(f"{pair.first} − {pair.second}", pair.first),
            Cell(f"{pair.difference:+.4f}", pair.difference, verdict=verdict),
            Cell(interval_text(*pair.interval, "+"), pair.interval[0]),
            Cell(p_value(pair.p_joint), pair.p_joint),
        ]
        rows.append((*cells, *(Cell(p_value(pair.p_holm[test]), pair.p_holm[test]) for test in tests)))
    return Table("All pairs", head, tuple(rows))


def equalities_table(comparison: Comparison, delta: float) -> Table:
    """One row per ranker except the baseline: is it practically the same?"""
    head = (
        f"against {comparison.baseline}",
        f"Δ {comparison.headings[comparison.headline]}",
        f"within ±{delta:g}",
        "p",
    )
    rows = [
        (
            Cell(one.ranker, one.ranker),
            Cell(f"{one.difference:+.4f}", one.difference),
            Cell("yes" if one.equal else "not proven", float(one.equal)),
            Cell(p_value(one.p_holm), one.p_holm),
        )
        for one in comparison.equalities(delta)
    ]
    return Table("Practically the same", head, tuple(rows))


def segments_table(comparison: Comparison) -> Table:
    """One row per segment and ranker: the headline's mean and the difference from the baseline."""
    heading = comparison.headings[comparison.headline]
    head = ("segment", comparison.noun, "queries", heading, f"{percent(comparison.level)} interval", "Δ", "p")
    rows = []
    for name, part in comparison.segmented.items():
        for label in comparison.by_mean:
            mean, (low, high) = part.mean(label, heading), part.interval(label, heading)
            t = part.paired_tests.get((label, heading))
            p = None if t is None or part.marking_test is None else t.p_holm[part.marking_test]
            rows.append(
                (
                    Cell(name, name),
                    Cell(label, label),
                    Cell(f"{len(part.query_ids):,}", len(part.query_ids)),
                    Cell("–" if np.isnan(mean) else f"{mean:.4f}", mean),
                    Cell(interval_text(low, high), low),
                    Cell("" if t is None else f"{t.difference:+.4f}", None if t is None else t.difference),
                    Cell("" if p is None else p_value(p), p),
                )
            )
    return Table("By segment", head, tuple(rows))


def further_tables(comparison: Comparison, *, segments: bool = True) -> list[Table]:
    """What was chosen beside means and differences from the baseline; segments can be left out."""
    found, choices = [], comparison.choices
    if choices.all_pairs and len(comparison.labels) > 1:
        found.append(pairs_table(comparison))
    if choices.delta is not None and len(comparison.labels) > 1:
        found.append(equalities_table(comparison, choices.delta))
    if segments and choices.segments is not None:
        found.append(segments_table(comparison))
    return found


def further_notes(comparison: Comparison, *, segments: bool = True) -> list[str]:
    """What these tables say."""
    lines, choices = [], comparison.choices
    if choices.all_pairs:
        lines.append(
            f"All pairs at once: how often, in {N_FLIPS:,} random sign flips, the largest difference of any pair, in "
            f"units of its spread, is at least this pair's; ▲ marks p ≤ {comparison.alpha:g}. Holm's correction here "
            "runs over all pairs too."
        )
    if choices.delta is not None:
        lines.append(
            f'Within ±{choices.delta:g}: two one-sided tests, Holm-corrected; "not proven" does not mean different.'
        )
    if segments and choices.segments is not None:
        lines.append(segments_note(comparison))
    return lines


def segments_note(comparison: Comparison) -> str:
    """What the table of segments says."""
    return (
        f"By segment: p-values are corrected over the {comparison.noun}s, not over segments; with many segments, "
        "some difference comes by chance."
    )


def shown_tests(comparison: Comparison) -> list[tuple[str, str]]:
    """(test, measure) of each p-value shown.

    All test the headline metric. If that is an NDCG, Wilcoxon tests the whole top of the list instead, as Chapelle, Le
    and Smola do, or both if it decides the marks.
    """
    heading = comparison.headings[comparison.headline]
    found = []
    for test in comparison.tests:
        sums = test == "wilcoxon" and comparison.headline.kind == "ndcg"
        if not sums or comparison.marking_test == test:
            found.append((test, heading))
        if sums:
            found.append((test, CURVE_SUM))
    return found


def _p_heading(test: str, measure: str) -> str:
    return f"p {TEST_NAMES[test]}{' Σndcg' if measure == CURVE_SUM else ''}"


def _p_cell(comparison: Comparison, label: str, test: str, measure: str) -> Cell:
    p = comparison.paired_tests[label, measure].p_holm[test]
    return Cell(p_value(p), p)


def label_of(comparison: Comparison, label: str) -> str:
    return f"{label} (baseline)" if label == comparison.baseline and len(comparison.labels) > 1 else label


# -- notes -------------------------------------------------------------------------------------------------------------


def notes(comparison: Comparison, best: str = "bold") -> list[str]:
    """The notes: marks, cautions, data, conventions, tests, and what went wrong."""
    compared = len(comparison.labels) > 1 and bool(comparison.tests)
    lines = [legend(comparison, best)] if compared else []
    lines += comparison.cautions
    lines += [data_note(comparison), f"Conventions: {'; '.join(conventions(comparison.metrics))}."]
    if comparison.tuned:
        lines.append(tuning_note(comparison))
    if compared:
        lines.append(tests_note(comparison))
    lines += further_notes(comparison)
    return lines + problems(comparison)


def legend(comparison: Comparison, best: str = "bold") -> str:
    """One line on the marks; ``best`` says how the best mean is marked."""
    mark = FULL_NAMES[comparison.marking_test or ""].partition(" (")[0]
    others = len(comparison.metrics) > 1
    headline = comparison.headings[comparison.headline]
    only = f"; other metrics only for {comparison.noun}s marked on {headline}, and corrected over these metrics too"
    return (
        f"▲ better, ▼ worse than {comparison.baseline} at level {comparison.alpha:g} ({mark} test, Holm-corrected over "
        f"the {comparison.noun}s{only if others else ''}); {best}: best mean."
    )


def tests_note(comparison: Comparison) -> str:
    names = ", ".join(f"{FULL_NAMES[test]} on {measure}" for test, measure in shown_tests(comparison))
    return (
        f"p-values: {names}; Holm-corrected over the {comparison.noun}s. Intervals: {interval_method(comparison)}, not "
        "corrected. Effect: mean difference divided by its standard deviation."
    )


def interval_method(comparison: Comparison) -> str:
    """How the intervals of the headline metric were found, in words."""
    if comparison.is_binary(comparison.headline):
        return "Clopper-Pearson for means of 0 and 1, Student's with a win and a loss added for differences"
    exact = [label for label in comparison.labels if comparison.is_binary(comparison.headline, [label])]
    also = f" (Clopper-Pearson for {', '.join(exact)}, always 0 or 1)" if exact else ""
    return f"studentised bootstrap over the test queries{also}"


def tuning_note(comparison: Comparison) -> str:
    """What the tuning times include, and which rankers trained more models than trials."""
    more = []
    for label in comparison.labels:
        trials = sum(len(run.trials) for run in comparison.runs[label])
        models = comparison.models_tried(label)
        if models > trials:
            more.append(f"{label} trained {plural(models, 'model')} in {plural(trials, 'trial')}")
    note = "Tuning: total time of all trials on all folds; fit: time of the final trainings."
    return f"{note} Trials differ in work: {'; '.join(more)}." if more else note


def data_note(comparison: Comparison) -> str:
    data = comparison.data
    if not comparison.trained:
        judged = f"{data['test_documents']:,} judgments"
        return f"{plural(len(comparison.query_ids), 'query', 'queries')}, {judged}, {data['listed']} documents per run."
    folds = f"{data['folds']} folds, " if data["folds"] > 1 else ""
    by_time = "; divided by time" if "by time" in comparison.protocol.get("division", "") else ""
    return (
        f"{folds}{len(comparison.query_ids):,} test queries, {data['test_documents']:,} documents, "
        f"{data['features']} features; trained on {range_text(data['train_queries'])} queries, "
        f"validated on {range_text(data['validation_queries'])}{by_time}."
    )


def problems(comparison: Comparison) -> list[str]:
    """Remarks, rankers that failed, and an interruption."""
    lines = [*comparison.remarks, *(f"{label} failed: {reason}" for label, reason in comparison.failures.items())]
    if comparison.interrupted:
        lines.append("Interrupted: the table shows what had finished.")
    return lines


def conventions(metrics: Sequence[Metric]) -> list[str]:
    """The conventions of the metrics, grouped: ``ndcg@10, ndcg@5 (gain=exp2, …)``."""
    together: dict[str, list[str]] = {}
    for m in metrics:
        words = "a Python function" if m.kind == "function" else str(m).partition("(")[2].rstrip(")")
        together.setdefault(words, []).append(m.name)
    return [f"{', '.join(names)} ({words})" if words else ", ".join(names) for words, names in together.items()]


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


def range_text(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _highest(values: Sequence[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return max(known, default=np.inf)
