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
TEST_NAMES = {"wilcoxon": "Wilcoxon", "t": "paired t", "randomization": "random."}


def means_table(comparison: Comparison) -> Table:
    """One row per ranker, best mean of each metric in bold, significant differences from the baseline marked."""
    names = [comparison.headings[m] for m in comparison.metrics]
    best = {name: np.nanmax([comparison.mean(label, name) for label in comparison.labels]) for name in names}
    table = _table(["ranker", *names, "fit"])
    for label in comparison.labels:
        cells = [Text(label_of(comparison, label))]
        for name in names:
            value, verdict = comparison.mean(label, name), comparison.verdict(label, name)
            style = f"{'bold ' if value >= best[name] else ''}{STYLES[verdict]}".strip()
            cells.append(Text(f"{value:.4f} {MARKS[verdict]}", style=style))
        table.add_row(*cells, Text(seconds(comparison.fit_seconds(label))))
    return table


def differences_table(comparison: Comparison) -> Table:
    """One row per ranker but the baseline: its difference, the queries won and lost, and p-values."""
    table = _table([f"against {comparison.baseline}", *difference_head(comparison)])
    for label in comparison.labels:
        if label != comparison.baseline:
            table.add_row(Text(label), *(Text(cell) for cell in difference_cells(comparison, label)))
    return table


def _table(head: list[str]) -> Table:
    """A table whose first column folds when space is short; figures are never cut."""
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, padding=(0, 1))
    table.add_column(Text(head[0]), overflow="fold", min_width=12)  # Text: a label may look like markup
    for name in head[1:]:
        table.add_column(Text(name), justify="right", overflow="fold", min_width=min(max(len(name), 8), 12))
    return table


def label_of(comparison: Comparison, label: str) -> str:
    return f"{label} (baseline)" if label == comparison.baseline and len(comparison.labels) > 1 else label


def difference_head(comparison: Comparison) -> list[str]:
    return [
        f"Δ {comparison.headings[comparison.headline]}",
        "won/lost",
        *(f"p {TEST_NAMES[test]}" for test in comparison.tests),
    ]


def difference_cells(comparison: Comparison, label: str) -> list[str]:
    """Difference on the headline metric, queries won and lost, and one corrected p-value per test."""
    headline = comparison.paired_tests[label, comparison.headings[comparison.headline]]
    return [
        f"{headline.difference:+.4f}",
        f"{headline.wins}/{headline.losses}",
        *(p_value(measure_of_test(comparison, label, test).p_holm[test]) for test in comparison.tests),
    ]


def measure_of_test(comparison: Comparison, label: str, test: str) -> PairedTest:
    """Wilcoxon looks at the whole top of the list, as Chapelle, Le and Smola do; the others at the headline metric."""
    measure = CURVE_SUM if test == "wilcoxon" else comparison.headings[comparison.headline]
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
        mark = TEST_NAMES[comparison.marking_test or ""].replace("random.", "randomisation")
        lines.append(
            f"▲ better, ▼ worse than {comparison.baseline} at level {comparison.alpha:g} ({mark} test on that metric). "
            f"p-values: {', '.join(_test_note(comparison, test) for test in comparison.tests)}; "
            "Holm-corrected over the rankers."
        )
    lines += comparison.remarks
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
    return f"{names[test]} on {CURVE_SUM if test == 'wilcoxon' else comparison.headings[comparison.headline]}"


def _spread(counts: list[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def renderable(comparison: Comparison) -> Group:
    """Table and notes, for a Rich console."""
    tables = [means_table(comparison)]
    if len(comparison.labels) > 1:
        tables.append(differences_table(comparison))
    return Group(*tables, *(Text(line, style="dim") for line in notes(comparison)))


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
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .7rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #d9dce1; }
th:first-child, td:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 8rem; }
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
    names = [comparison.headings[m] for m in comparison.metrics]
    best = {name: np.nanmax([comparison.mean(label, name) for label in comparison.labels]) for name in names}
    rows = []
    for label in comparison.labels:
        cells = [f"<td>{escape(label_of(comparison, label))}</td>"]
        for name in names:
            value, verdict = comparison.mean(label, name), comparison.verdict(label, name)
            kinds = {"best": value >= best[name], "better": verdict > 0, "worse": verdict < 0}
            classes = " ".join(kind for kind, on in kinds.items() if on)
            cells.append(f'<td class="{classes}">{value:.4f} {MARKS[verdict].strip()}</td>')
        rows.append([*cells, f"<td>{seconds(comparison.fit_seconds(label))}</td>"])
    tables = [_html_table(["ranker", *names, "fit"], rows)]
    if len(comparison.labels) > 1:
        others = [label for label in comparison.labels if label != comparison.baseline]
        rows = [
            [f"<td>{escape(cell)}</td>" for cell in (label, *difference_cells(comparison, label))] for label in others
        ]
        tables.append(_html_table([f"against {comparison.baseline}", *difference_head(comparison)], rows))
    return f"{''.join(tables)}<ul>{''.join(f'<li>{escape(line)}</li>' for line in notes(comparison))}</ul>"


def _html_table(head: list[str], rows: list[list[str]]) -> str:
    names = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return f'<div class="scroll"><table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table></div>'


def html_page(comparison: Comparison) -> str:
    """One page that needs nothing from the network."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Comparison of rankers</title><style>{STYLE}</style></head>"
        f"<body><h1>Comparison of {len(comparison.labels)} rankers</h1>{html_fragment(comparison)}</body></html>\n"
    )
