"""HTML for notebooks: plain elements with inline styles, no script, nothing from the network.

Text keeps the colour of the notebook, so it is readable on light and dark; bars have tones that stand out on both.
Every text is escaped, control characters included, because names of features and documents come from outside.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gainful.errors import brief
from gainful.errors.terminal import visible

MORE, LESS = "#0072b2", "#d55e00"  # after Okabe and Ito (2008): apart with any colour vision, and in grey
HALF = 6.0  # em: the longest bar to one side
MOST_ROWS = 10
FIRST_NAMES = 6
NAME_LENGTH = 40


class Markup(str):
    """HTML that needs no escape, because it was made here."""


def escape(value: Any) -> str:
    """Text for HTML; :class:`Markup` as it is."""
    return value if isinstance(value, Markup) else html.escape(visible(str(value)))


def frame(title: Any, *parts: Any, about: Any = "") -> str:
    """A result: its title in bold, a few words about it, then its parts."""
    head = f"<b>{escape(title)}</b>" + (f" {escape(about)}" if about else "")
    body = "".join(escape(part) for part in parts)
    return f'<div style="font-variant-numeric:tabular-nums"><p style="margin:.3em 0">{head}</p>{body}</div>'


def facts(rows: Iterable[tuple[Any, Any]]) -> Markup:
    """Two columns: what it is, and its value."""
    side = "text-align:left;vertical-align:top"
    lines = (
        f'<tr><th scope="row" style="{side}">{escape(label)}</th><td style="{side}">{escape(value)}</td></tr>'
        for label, value in rows
    )
    return Markup(f"<table><tbody>{''.join(lines)}</tbody></table>")


def table(head: Sequence[Any], rows: Iterable[Sequence[Any]], *, left: Iterable[int] = (0,), title: Any = "") -> Markup:
    """A table of figures; the columns ``left`` hold text."""
    sides = ["left" if j in set(left) else "right" for j in range(len(head))]
    style = {"left": "text-align:left", "right": "text-align:right;white-space:nowrap"}

    def line(tag: str, cells: Sequence[Any]) -> str:
        styled = (
            f'<{tag} style="{style[side]}">{escape(cell)}</{tag}>' for side, cell in zip(sides, cells, strict=True)
        )
        return f"<tr>{''.join(styled)}</tr>"

    caption = f'<caption style="text-align:left">{escape(title)}</caption>' if title else ""
    body = "".join(line("td", row) for row in rows)
    return Markup(f"<table>{caption}<thead>{line('th', head)}</thead><tbody>{body}</tbody></table>")


def bold(text: Any) -> Markup:
    return Markup(f"<b>{escape(text)}</b>")


def bar(share: float, *, colour: str = MORE) -> Markup:
    """A bar of this share of its longest, 0 to 1."""
    width = 0.0 if share != share else 2 * HALF * min(1.0, max(0.0, share))
    style = f"display:inline-block;width:{width:.2f}em;height:.7em;background:{colour}"
    return Markup(f'<span style="{style}"></span>')


def signed_bar(share: float) -> Markup:
    """A bar to the right of zero for a positive share of the longest, −1 to 1, to the left for a negative one."""
    left, right = bar(-share / 2, colour=LESS), bar(share / 2)
    return Markup(
        f'<span style="white-space:nowrap"><span style="display:inline-block;width:{HALF}em;text-align:right">{left}'
        f'</span><span style="display:inline-block;width:{HALF}em;text-align:left;border-left:1px solid">{right}'
        "</span></span>"
    )


def folded(summary: Any, *parts: Any) -> Markup:
    """Parts that a click unfolds."""
    body = "".join(escape(part) for part in parts)
    return Markup(f"<details><summary>{escape(summary)}</summary>{body}</details>")


def lines(texts: Iterable[Any]) -> Markup:
    """Sentences, one below the other; nothing if there is none."""
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return Markup(f"<ul>{items}</ul>" if items else "")


def first_of(names: Sequence[Any]) -> str:
    """The first of some names, each cut to a few words."""
    return ", ".join(brief(name, NAME_LENGTH) for name in names[:FIRST_NAMES]) + (
        " …" if len(names) > FIRST_NAMES else ""
    )


def figure(value: Any) -> str:
    """A value in a cell: four digits after the point are enough to look at."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def mappings(rows: Sequence[Mapping[str, Any]], title: Any) -> str:
    """Mappings with the same keys as a table: the first and the last ones, if there are many."""
    if not rows:
        return frame(title)
    head = [name for name in rows[0] if any(row.get(name) is not None for row in rows)]
    cells = [[figure(row.get(name)) for name in head] for row in rows]
    if len(rows) > MOST_ROWS:
        half = MOST_ROWS // 2
        cells = [*cells[:half], ["…"] * len(head), *cells[-half:]]
    texts = [j for j, name in enumerate(head) if isinstance(rows[-1].get(name), str)]
    return frame(title, table(head, cells, left=texts))
