"""A comparison as a Rich table, as text, as HTML, as Markdown and as LaTeX: one set of sheets, five looks."""

from __future__ import annotations

import io
import re
from html import escape

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from gainful.comparison.grid import LossMatrix
from gainful.comparison.result import Comparison
from gainful.comparison.sheets import Cell, Sheet, differences_sheet, legend, means_sheet, notes, percent

MARKS = {1: "▲", -1: "▼", 0: " "}
STYLES = {1: "green", -1: "red", 0: ""}
WIDE = 100  # columns of a terminal from which the intervals are shown


def sheets_of(comparison: Comparison, *, intervals: bool = True) -> list[Sheet]:
    """The matrix of a grid, the means, and the differences where there is something to compare."""
    matrix = LossMatrix.of(comparison)
    found = [] if matrix is None else [matrix.sheet()]
    found.append(means_sheet(comparison, intervals=intervals))
    if len(comparison.labels) > 1:
        found.append(differences_sheet(comparison, intervals=intervals))
    return found


# -- terminal ----------------------------------------------------------------------------------------------------------


class _Shown:
    """Tables and notes, laid out for the width of the console that prints them."""

    def __init__(self, comparison: Comparison):
        self.comparison = comparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for sheet in sheets_of(self.comparison, intervals=options.max_width >= WIDE):
            yield _rich_table(sheet)
        cautions = set(self.comparison.cautions)
        for line in notes(self.comparison):
            yield Text(line, style="yellow" if line in cautions else "dim")


def renderable(comparison: Comparison) -> _Shown:
    """Tables and notes, for a Rich console."""
    return _Shown(comparison)


def _rich_table(sheet: Sheet) -> Table:
    """A table whose first column folds when space is short; figures are never cut."""
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, padding=(0, 1))
    table.add_column(Text(sheet.head[0]), overflow="fold", min_width=12)  # Text: a label may look like markup
    marked = [any(row[j].verdict for row in sheet.rows) for j in range(len(sheet.head))]
    for name in sheet.head[1:]:
        table.add_column(Text(name), justify="right", overflow="fold", min_width=min(max(len(name), 8), 18))
    for row in sheet.rows:
        table.add_row(*(_rich_cell(cell, marked[j]) for j, cell in enumerate(row)))
    return table


def _rich_cell(cell: Cell, marked: bool) -> Text:
    text = f"{cell.text} {MARKS[cell.verdict]}" if marked else cell.text
    return Text(text, style=f"{'bold ' if cell.best else ''}{STYLES[cell.verdict]}".strip())


def plain_text(comparison: Comparison, width: int) -> str:
    """Tables and notes as text without colours."""
    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
    console.print(renderable(comparison))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


# -- HTML --------------------------------------------------------------------------------------------------------------


def html_fragment(comparison: Comparison) -> str:
    """The tables and their notes, without a page around them."""
    tables = "".join(html_table(sheet) for sheet in sheets_of(comparison))
    return f"{tables}<ul>{''.join(f'<li>{escape(line)}</li>' for line in notes(comparison))}</ul>"


def html_table(sheet: Sheet, *, sortable: bool = False, name: str = "") -> str:
    """A table in a box that scrolls sideways by itself; with buttons in the headings where it is sortable."""
    head = "".join(_html_heading(text, sortable) for text in sheet.head)
    body = "".join(_html_row(row) for row in sheet.rows)
    mark = f' id="{escape(name)}"' if name else ""
    kind = ' class="sortable"' if sortable else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(sheet.title)}"><table{mark}{kind}>'
        f"<caption>{escape(sheet.title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _html_heading(text: str, sortable: bool) -> str:
    if not sortable:
        return f'<th scope="col">{escape(text)}</th>'
    return f'<th scope="col" aria-sort="none"><button type="button">{escape(text).replace("/", "/<wbr>")}</button></th>'


def _html_row(row: tuple[Cell, ...]) -> str:
    first, *rest = row
    label = f'<th scope="row"{_value(first)}>{first.picture}{escape(first.text)}</th>'
    return f"<tr>{label}{''.join(_html_cell(cell) for cell in rest)}</tr>"


def _html_cell(cell: Cell) -> str:
    kinds = {"best": cell.best, "better": cell.verdict > 0, "worse": cell.verdict < 0}
    classes = " ".join(kind for kind, on in kinds.items() if on)
    words = {1: "significantly better", -1: "significantly worse"}
    mark = f' <abbr title="{words[cell.verdict]}">{MARKS[cell.verdict]}</abbr>' if cell.verdict else ""
    attribute = f' class="{classes}"' if classes else ""
    return f"<td{attribute}{_value(cell)}>{cell.picture}{escape(cell.text)}{mark}</td>"


def _value(cell: Cell) -> str:
    """What the cell is sorted by, in full: the figure of the JSON behind the rounded one."""
    if cell.value is None or cell.value != cell.value:
        return ""
    return f' data-value="{escape(str(cell.value))}"'


# -- Markdown ----------------------------------------------------------------------------------------------------------

MARKDOWN_MARKS = re.compile(r"([\\`*_\[\]<>|#&~$])")


def markdown(comparison: Comparison) -> str:
    """Tables and notes for a README or an issue."""
    parts = [_markdown_table(sheet) for sheet in sheets_of(comparison)]
    parts.append("\n".join(f"- {_markdown_text(line)}" for line in notes(comparison)))
    return "\n\n".join(parts) + "\n"


def _markdown_table(sheet: Sheet) -> str:
    rule = ["---"] + ["---:"] * (len(sheet.head) - 1)
    rows = [[_markdown_text(text) for text in sheet.head], rule]
    rows += [[_markdown_cell(cell) for cell in row] for row in sheet.rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _markdown_cell(cell: Cell) -> str:
    text = _markdown_text(cell.text)
    return f"{f'**{text}**' if cell.best else text} {MARKS[cell.verdict]}".strip()


def _markdown_text(text: str) -> str:
    return MARKDOWN_MARKS.sub(r"\\\1", " ".join(text.split()))


# -- LaTeX -------------------------------------------------------------------------------------------------------------

LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "[": "{[}", "]": "{]}", "Δ": r"$\Delta$", "–": "--", "−": "$-$",
    "…": r"\ldots{}", "∞": r"$\infty$", "≥": r"$\geq$", "≤": r"$\leq$", "▲": r"$\uparrow$", "▼": r"$\downarrow$",
}  # fmt: skip
LATEX_MARKS = {1: r"\rlap{$^{\uparrow}$}", -1: r"\rlap{$^{\downarrow}$}", 0: ""}


def latex(comparison: Comparison) -> str:
    """The means as a ``table`` with booktabs rules; the caption says what the marks mean."""
    sheet = means_sheet(comparison)
    head = " & ".join(latex_text(text) for text in sheet.head)
    rows = "\n".join("    " + " & ".join(_latex_cell(cell) for cell in row) + r" \\" for row in sheet.rows)
    return (
        "% \\usepackage{booktabs}\n\\begin{table}\n  \\centering\n"
        f"  \\caption{{{_latex_caption(comparison)}}}\n"
        f"  \\begin{{tabular}}{{l{'r' * (len(sheet.head) - 1)}}}\n    \\toprule\n    {head} \\\\\n    \\midrule\n"
        f"{rows}\n    \\bottomrule\n  \\end{{tabular}}\n\\end{{table}}\n"
    )


def _latex_caption(comparison: Comparison) -> str:
    lines = [f"Means over {len(comparison.query_ids):,} test queries, {percent(comparison.level)} bootstrap intervals."]
    if len(comparison.labels) > 1 and comparison.tests:
        lines.append(legend(comparison))
    return latex_text(" ".join([*lines, *comparison.cautions]))


def _latex_cell(cell: Cell) -> str:
    text = latex_text(cell.text)
    if cell.best:
        text = rf"\textbf{{{text}}}"
    return text + LATEX_MARKS[cell.verdict]


def latex_text(text: str) -> str:
    """Text with every character that LaTeX would take for a command spelled out."""
    return "".join(LATEX.get(character, character) for character in " ".join(text.split()))
