"""Parts of pages: tables with cells, folded details, switches of lines. Text from outside goes through ``escape``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from gainful.report import plots

LONG_TEXT = 90  # characters, beyond which a text is folded away
MARKS = {1: "▲", -1: "▼", 0: " "}
# Where a name may go on in the next line, as in explorer.js.
JOINTS = re.compile(r"(?<=[_:=/])(?=\w)|(?<=\.)(?=[^\W\d])")


@dataclass(frozen=True)
class Cell:
    """One cell: its text, its sort key, and whether it is best or significant."""

    text: str
    value: float | str | None = None
    best: bool = False
    verdict: int = 0  # +1 significantly better than the baseline, −1 worse
    picture: str = ""  # markup next to the text, trusted because it is our own
    folded: bool = False  # whether a long text is folded away


@dataclass(frozen=True)
class Table:
    """A title for screen readers, headings, and rows of cells; the first column names the row."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def html_table(table: Table, *, sortable: bool = False, name: str = "", highest_first: int | None = None) -> str:
    """A table that scrolls sideways within its box; a sortable one has buttons in its headings.

    ``highest_first`` is the column that its rows are sorted by already, if any.
    """
    head = "".join(
        _heading(text, sortable, "descending" if i == highest_first else "none") for i, text in enumerate(table.head)
    )
    body = "".join(_row(row) for row in table.rows)
    mark = f' id="{escape(name)}"' if name else ""
    kind = ' class="sortable"' if sortable else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title)}"><table{mark}{kind}>'
        f"<caption>{escape(table.title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _heading(text: str, sortable: bool, order: str) -> str:
    if not sortable:
        return f'<th scope="col">{escape(text)}</th>'
    button = f'<button type="button">{escape(text).replace("/", "/<wbr>")}</button>'
    return f'<th scope="col" aria-sort="{order}">{button}</th>'


def _row(row: tuple[Cell, ...]) -> str:
    first, *rest = row
    label = f'<th scope="row"{_value(first)}>{first.picture}{html_name(first.text)}</th>'
    return f"<tr>{label}{''.join(_cell(cell) for cell in rest)}</tr>"


def html_name(text: str) -> str:
    """A name such as ``lambdamart:n_trees=30``, which a narrow column breaks at its joints."""
    return "<wbr>".join(escape(part) for part in JOINTS.split(text))


def _cell(cell: Cell) -> str:
    kinds = {"best": cell.best, "better": cell.verdict > 0, "worse": cell.verdict < 0}
    classes = " ".join(kind for kind, on in kinds.items() if on)
    attribute = f' class="{classes}"' if classes else ""
    return f"<td{attribute}{_value(cell)}>{cell.picture}{_text(cell)}{html_mark(cell)}</td>"


def _text(cell: Cell) -> str:
    return folded(cell.text) if cell.folded else escape(cell.text)


def folded(text: str) -> str:
    """A text, of which only the beginning shows until the reader opens it if it is long."""
    if len(text) <= LONG_TEXT:
        return escape(text)
    start = text[:LONG_TEXT].rsplit(", ", 1)[0]
    summary = f'<span class="start">{escape(start)} …</span><span class="less">less</span>'
    return f'<details class="long"><summary>{summary}</summary>{escape(text)}</details>'


def html_mark(cell: Cell) -> str:
    """The sign of a significant difference; nothing for others."""
    words = {1: "significantly better", -1: "significantly worse"}
    return f' <abbr title="{words[cell.verdict]}">{MARKS[cell.verdict]}</abbr>' if cell.verdict else ""


def _value(cell: Cell) -> str:
    """The sort key of the cell: the exact figure, as in the JSON."""
    if cell.value is None or cell.value != cell.value:
        return ""
    return f' data-value="{escape(str(cell.value))}"'


def details(title: str, html: str, opened: bool = False) -> str:
    return f"<details{' open' if opened else ''}><summary>{escape(title)}</summary>{html}</details>"


def figure(picture: str, caption: str) -> str:
    return f"<figure>{picture}<figcaption>{escape(caption)}</figcaption></figure>"


def definitions(rows: Mapping[str, str]) -> str:
    """Names and what they are; those without a text are left out."""
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{folded(text)}</dd></div>" for name, text in rows.items() if text)
    return f"<dl>{items}</dl>"


def notices(lines: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<ul class="notices">{items}</ul>' if items else ""


def toggles(lines: Sequence[plots.Line], what: str) -> str:
    """Switches that put lines into colour; they are the legend too."""

    def order(line: plots.Line) -> tuple[bool, int]:
        return line.slot is None, line.slot or 0

    boxes = "".join(
        f'<label class="toggle {"off" if line.slot is None else f"on c{line.slot}"}" data-key="{line.key}">'
        f'<input type="checkbox"{"" if line.slot is None else " checked"}>'
        f'<svg class="swatch" viewBox="0 0 24 8" aria-hidden="true"><path class="stroke" d="M1 4H23"/></svg>'
        f"<span>{html_name(line.name)}</span></label>"
        for line in sorted(lines, key=order)
    )
    return f'<fieldset class="toggles"><legend>{what} in colour (at most {plots.SLOTS})</legend>{boxes}</fieldset>'
