"""A comparison for a Rich console, as text, as HTML, as Markdown and as LaTeX, all from the same tables."""

from __future__ import annotations

import io
import re

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as RichTable
from rich.text import Text

from gainful.comparison.grid import LossMatrix
from gainful.comparison.result import Comparison
from gainful.comparison.tables import differences_table, further_tables, legend, means_table, notes, percent, problems
from gainful.display import html
from gainful.errors.terminal import make_console, visible
from gainful.report.parts import MARKS, Cell, Table, html_mark

STYLES = {1: "green", -1: "red", 0: ""}
WIDE = 100  # columns of a terminal that is wide enough for the intervals
NARROWEST = 12  # width of the first column
BETWEEN = 3  # blanks between two columns


def tables_of(comparison: Comparison, *, intervals: bool = True) -> list[Table]:
    """The matrix of a grid, the means, and the differences if there is more than one ranker."""
    matrix = LossMatrix.of(comparison)
    found = [] if matrix is None else [matrix.table()]
    found.append(means_table(comparison, intervals=intervals))
    if len(comparison.labels) > 1:
        found.append(differences_table(comparison, intervals=intervals))
    return found + further_tables(comparison)


# -- terminal ----------------------------------------------------------------------------------------------------------


class _Rendering:
    """Tables and notes, laid out for the width of the console."""

    def __init__(self, comparison: Comparison):
        self.comparison = comparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        bold = console.color_system is not None  # a file or a pipe shows no bold; use a star instead
        for table in tables_of(self.comparison, intervals=options.max_width >= WIDE):
            yield rich_table(table, options.max_width, star=not bold)
        cautions = set(self.comparison.cautions)
        for line in notes(self.comparison, best="bold" if bold else "*"):
            yield Text(line, style="yellow" if line in cautions else "dim")


def renderable(comparison: Comparison) -> _Rendering:
    """Tables and notes, for a Rich console."""
    return _Rendering(comparison)


def rich_table(table: Table, width: int | None = None, *, star: bool = False) -> RichTable:
    """A table whose first column wraps between words when space is short; figures are never cut.

    ``width`` is the available width; ``star`` marks the best with a star instead of bold type.
    """
    columns = range(1, len(table.head))
    marked = [any(row[j].verdict for row in table.rows) for j in range(len(table.head))]
    starred = [star and any(row[j].best for row in table.rows) for j in range(len(table.head))]
    body = [[_rich_cell(row[j], marked[j], starred[j]) for j in columns] for row in table.rows]
    least = [max([_longest_word(table.head[j]), 8, *(len(row[j - 1]) for row in body)]) for j in columns]
    whole = max([_longest_line(table.head[0]), *(_longest_line(row[0].text) for row in table.rows)])
    heads, room = list(table.head[1:]), None
    if width is not None:
        spare = width - sum(least) - BETWEEN * len(least) - 2
        room = max(NARROWEST, spare)
        for j, name in enumerate(heads):  # keep a heading on one line if that leaves room for the labels
            spare -= max(0, len(name) - least[j])
            heads[j] = name if spare >= whole else fold(name, least[j])
    shown = RichTable(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, padding=(0, 1))
    shown.add_column(Text(fold(table.head[0], room)), overflow="fold", min_width=NARROWEST)
    for name, most in zip(heads, least, strict=True):
        shown.add_column(Text(name), justify="right", overflow="fold", min_width=most)
    for row, cells in zip(table.rows, body, strict=True):
        shown.add_row(Text(fold(row[0].text, room)), *cells)  # Text: a label may look like markup
    return shown


def _rich_cell(cell: Cell, marked: bool, starred: bool) -> Text:
    text = cell.text + ("*" if cell.best else " ") if starred else cell.text
    text = f"{text} {MARKS[cell.verdict]}" if marked else text
    return Text(text, style=f"{'bold ' if cell.best else ''}{STYLES[cell.verdict]}".strip())


def _longest_word(text: str) -> int:
    return max(map(len, text.split()), default=0)


def _longest_line(text: str) -> int:
    return max(map(len, text.splitlines()), default=0)


def fold(text: str, width: int | None) -> str:
    """Wrap to at most ``width``, after a word, a setting or a part of a name; longer parts keep their own line.

    >>> fold("coordinate-ascent:n_restarts=2", 20).splitlines()
    ['coordinate-ascent:', 'n_restarts=2']
    """
    if width is None or len(text) <= width:
        return text
    lines = [""]
    for piece in re.findall(r"[^ :,/-]*[ :,/-]+|[^ :,/-]+", text):
        if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip(" ") for line in lines)


def plain_text(comparison: Comparison, width: int) -> str:
    """Tables and notes as text without colours."""
    console = make_console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
    console.print(renderable(comparison))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


# -- HTML --------------------------------------------------------------------------------------------------------------


def html_fragment(comparison: Comparison) -> str:
    """The tables for a notebook, with what the marks mean and the cautions; other notes are folded."""
    tables = (_fragment_table(table) for table in tables_of(comparison))
    open_notes = {legend(comparison) if comparison.marking_test else "", *comparison.cautions, *problems(comparison)}
    shown = [line for line in notes(comparison) if line in open_notes]
    others = [line for line in notes(comparison) if line not in open_notes]
    title = f"{len(comparison.labels)} {comparison.noun}s on {len(comparison.query_ids):,} test queries"
    return html.frame(title, *tables, html.lines(shown), html.folded("Data, conventions, tests", html.lines(others)))


def _fragment_table(table: Table) -> html.Markup:
    rows = ([_fragment_cell(cell) for cell in row] for row in table.rows)
    return html.table(table.head, rows, title=table.title)


def _fragment_cell(cell: Cell) -> html.Markup:
    text = html.bold(cell.text) if cell.best else html.escape(cell.text)
    return html.Markup(text + html_mark(cell))


# -- Markdown ----------------------------------------------------------------------------------------------------------

MARKDOWN_MARKS = re.compile(r"([\\`*_\[\]<>|#&~$])")


def markdown(comparison: Comparison) -> str:
    """Tables and notes for a README or an issue."""
    parts = [markdown_table(table) for table in tables_of(comparison)]
    parts.append("\n".join(f"- {markdown_text(line)}" for line in notes(comparison)))
    return "\n\n".join(parts) + "\n"


def markdown_table(table: Table) -> str:
    rule = ["---"] + ["---:"] * (len(table.head) - 1)
    rows = [[markdown_text(text) for text in table.head], rule]
    rows += [[_markdown_cell(cell) for cell in row] for row in table.rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _markdown_cell(cell: Cell) -> str:
    text = markdown_text(cell.text)
    return f"{f'**{text}**' if cell.best else text} {MARKS[cell.verdict]}".strip()


def markdown_text(text: str) -> str:
    return MARKDOWN_MARKS.sub(r"\\\1", visible(" ".join(text.split())))


# -- LaTeX -------------------------------------------------------------------------------------------------------------

LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "[": "{[}", "]": "{]}", "Δ": r"$\Delta$", "–": "--", "−": "$-$",
    "…": r"\ldots{}", "∞": r"$\infty$", "≥": r"$\geq$", "≤": r"$\leq$", "▲": r"$\uparrow$", "▼": r"$\downarrow$",
}  # fmt: skip
LATEX_MARKS = {1: r"\rlap{$^{\uparrow}$}", -1: r"\rlap{$^{\downarrow}$}", 0: ""}


def latex(comparison: Comparison) -> str:
    """The means as a ``table`` with booktabs rules; the caption explains the marks."""
    table = means_table(comparison)
    head = " & ".join(latex_text(text) for text in table.head)
    rows = "\n".join("    " + " & ".join(_latex_cell(cell) for cell in row) + r" \\" for row in table.rows)
    return (
        "% \\usepackage{booktabs}\n\\begin{table}\n  \\centering\n"
        f"  \\caption{{{_latex_caption(comparison)}}}\n"
        f"  \\begin{{tabular}}{{l{'r' * (len(table.head) - 1)}}}\n    \\toprule\n    {head} \\\\\n    \\midrule\n"
        f"{rows}\n    \\bottomrule\n  \\end{{tabular}}\n\\end{{table}}\n"
    )


def _latex_caption(comparison: Comparison) -> str:
    lines = [f"Means over {len(comparison.query_ids):,} test queries, {percent(comparison.level)} intervals."]
    if len(comparison.labels) > 1 and comparison.tests:
        lines.append(legend(comparison))
    return latex_text(" ".join([*lines, *comparison.cautions]))


def _latex_cell(cell: Cell) -> str:
    text = latex_text(cell.text)
    if cell.best:
        text = rf"\textbf{{{text}}}"
    return text + LATEX_MARKS[cell.verdict]


def latex_text(text: str) -> str:
    """Escape every character that LaTeX treats as a command."""
    return "".join(LATEX.get(character, character) for character in " ".join(text.split()))
