"""A comparison as a Rich table, as text and as a page."""

from __future__ import annotations

import io
from collections.abc import Sequence
from html import escape

import numpy as np
from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from gainful.comparison.result import CURVE_SUM, Comparison, PairedTest
from gainful.metrics import Metric

MARKS = {1: "▲", -1: "▼", 0: " "}
STYLES = {1: "green", -1: "red", 0: ""}
TEST_NAMES = {"wilcoxon": "Wilcoxon", "t": "paired t", "randomization": "randomis."}


def rich_table(comparison: Comparison) -> Table:
    """One row per ranker, best mean of each metric in bold, significant differences from the baseline marked."""
    names = [m.name for m in comparison.metrics]
    means = {label: [comparison.mean(label, name) for name in names] for label in comparison.labels}
    best = [np.nanmax([means[label][j] for label in comparison.labels]) for j in range(len(names))]
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    table.add_column("ranker", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    if len(comparison.labels) > 1:
        table.add_column(f"Δ {names[0]}", justify="right", no_wrap=True)
        table.add_column("won/lost", justify="right", no_wrap=True)
        for test in comparison.tests:
            table.add_column(f"p {TEST_NAMES[test]}", justify="right", no_wrap=True)
    table.add_column("fit", justify="right", no_wrap=True)
    for label in comparison.labels:
        cells = [Text(label + (" (baseline)" if label == comparison.baseline and len(comparison.labels) > 1 else ""))]
        for name, value, top in zip(names, means[label], best, strict=True):
            verdict = comparison.verdict(label, name)
            style = f"{'bold ' if value >= top else ''}{STYLES[verdict]}".strip()
            cells.append(Text(f"{value:.4f} {MARKS[verdict]}", style=style))
        if len(comparison.labels) > 1:
            cells += [Text(cell) for cell in difference_cells(comparison, label)]
        cells.append(Text(seconds(comparison.fit_seconds(label))))
        table.add_row(*cells)
    return table


def difference_cells(comparison: Comparison, label: str) -> list[str]:
    """Difference on the headline metric, queries won and lost, and one corrected p-value per test."""
    if label == comparison.baseline:
        return ["", "", *("" for _ in comparison.tests)]
    headline = comparison.paired_tests[label, comparison.headline.name]
    return [
        f"{headline.difference:+.4f}",
        f"{headline.wins}/{headline.losses}",
        *(p_value(measure_of_test(comparison, label, test).p_holm[test]) for test in comparison.tests),
    ]


def measure_of_test(comparison: Comparison, label: str, test: str) -> PairedTest:
    """Wilcoxon looks at the whole top of the list, as Chapelle, Le and Smola do; the others at the headline metric."""
    measure = CURVE_SUM if test == "wilcoxon" else comparison.headline.name
    return comparison.paired_tests[label, measure]


def notes(comparison: Comparison) -> list[str]:
    """What the figures mean: data, conventions, tests, and what went wrong."""
    data = comparison.data
    folds = f"{data['folds']} folds, " if data["folds"] > 1 else ""
    lines = [
        f"{folds}{len(comparison.query_ids):,} test queries, {data['test_documents']:,} documents, "
        f"{data['features']} features; trained on {_spread(data['train_queries'])} queries, "
        f"validated on {_spread(data['validation_queries'])}.",
        f"Conventions: {'; '.join(conventions(comparison.metrics))}.",
    ]
    if len(comparison.labels) > 1 and comparison.tests:
        mark = TEST_NAMES[comparison.marking_test or ""].replace("randomis.", "randomisation")
        lines.append(
            f"▲ better, ▼ worse than {comparison.baseline} at level {comparison.alpha:g} ({mark} test on that metric). "
            f"p-values: {', '.join(_test_note(comparison, test) for test in comparison.tests)}; "
            "Holm-corrected over the rankers."
        )
    lines += [f"{label} failed: {reason}" for label, reason in comparison.failures.items()]
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
    names = {"wilcoxon": "Wilcoxon signed-rank", "t": "paired t", "randomization": "randomisation (10,000 draws)"}
    return f"{names[test]} on {CURVE_SUM if test == 'wilcoxon' else comparison.headline.name}"


def _spread(counts: list[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def renderable(comparison: Comparison) -> Group:
    """Table and notes, for a Rich console."""
    return Group(rich_table(comparison), *(Text(line, style="dim") for line in notes(comparison)))


def plain_text(comparison: Comparison, width: int) -> str:
    """Table and notes as text without colours."""
    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
    console.print(renderable(comparison))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def p_value(p: float) -> str:
    return "< .001" if p < 0.001 else f"{p:.3f}".replace("0.", ".", 1)


def seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


# -- HTML --------------------------------------------------------------------------------------------------------------

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1c1e21; background: #fff; max-width: 62rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.4rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .7rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #d9dce1; }
th:first-child, td:first-child { text-align: left; }
.best { font-weight: 700; }
.better { color: #0a6b2d; }
.worse { color: #a3161a; }
li { margin: .3rem 0; overflow-wrap: anywhere; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e7ea; background: #16181c; } th, td { border-color: #3a3f47; }
  .better { color: #67d08b; } .worse { color: #ff8a8a; }
}
"""


def html_fragment(comparison: Comparison) -> str:
    """The table and its notes, without a page around them."""
    names = [m.name for m in comparison.metrics]
    several = len(comparison.labels) > 1
    head = ["ranker", *names]
    if several:
        head += [f"Δ {names[0]}", "won/lost", *(f"p {TEST_NAMES[test]}" for test in comparison.tests)]
    head.append("fit")
    best = {name: np.nanmax([comparison.mean(label, name) for label in comparison.labels]) for name in names}
    rows = []
    for label in comparison.labels:
        suffix = " (baseline)" if label == comparison.baseline and several else ""
        cells = [f"<td>{escape(label)}{suffix}</td>"]
        for name in names:
            value, verdict = comparison.mean(label, name), comparison.verdict(label, name)
            kinds = [kind for kind, on in (("best", value >= best[name]), ("better", verdict > 0),
                                           ("worse", verdict < 0)) if on]  # fmt: skip
            cells.append(f'<td class="{" ".join(kinds)}">{value:.4f} {MARKS[verdict].strip()}</td>')
        if several:
            cells += [f"<td>{escape(cell)}</td>" for cell in difference_cells(comparison, label)]
        cells.append(f"<td>{seconds(comparison.fit_seconds(label))}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="scroll"><table><thead><tr>{"".join(f"<th>{escape(name)}</th>" for name in head)}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in notes(comparison))}</ul>"
    )


def html_page(comparison: Comparison) -> str:
    """One page that needs nothing from the network."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Comparison of rankers</title><style>{STYLE}</style></head>"
        f"<body><h1>Comparison of {len(comparison.labels)} rankers</h1>{html_fragment(comparison)}</body></html>\n"
    )
