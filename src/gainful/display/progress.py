"""Progress bars for ``progress=True``: HTML in a notebook, Rich on a terminal, nothing in a file or a pipe.

A notebook needs no widgets: IPython's display handles replace a piece of HTML.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from gainful.display.html import Markup, bar, escape
from gainful.errors import ParameterError
from gainful.errors.terminal import make_console

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

REDRAW_SECONDS = 0.1


@dataclass(frozen=True)
class Bar:
    """How far something is; ``total`` is None where nobody knows."""

    name: str
    done: int
    total: int | None
    note: str = ""


class Event(Protocol):
    """What a progress callback gets."""

    def bars(self) -> Sequence[Bar]:
        """From the whole to the part."""
        ...


class Display(Protocol):
    """Where bars are drawn."""

    def draw(self, bars: Sequence[Bar]) -> None: ...

    def close(self, succeeded: bool) -> None: ...


@contextmanager
def callback_of(progress: Any, owner: str) -> Iterator[Callable[[Any], object] | None]:
    """The callback that ``progress`` stands for: the function given, bars for True, none for None and False."""
    if progress is None or progress is False:
        yield None
    elif progress is True:
        display = choose_display()
        succeeded = False
        try:
            yield None if display is None else lambda event: display.draw(event.bars())
            succeeded = True
        finally:
            if display is not None:
                display.close(succeeded)
    elif callable(progress):
        yield progress
    else:
        raise ParameterError.of(owner, "progress", "a function, or True for a bar", progress)


def choose_display() -> Display | None:
    if in_notebook():
        return NotebookDisplay()
    console = make_console(stderr=True, highlight=False)
    return TerminalDisplay(console) if console.is_terminal else None


def in_notebook() -> bool:
    """Whether an IPython kernel runs this, as in Jupyter, VS Code and Colab; a terminal's IPython has none."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


class NotebookDisplay:
    """Bars below the cell, replaced by one line at the end."""

    def __init__(self) -> None:
        from IPython.display import HTML, display

        self._html, self._began = HTML, time.monotonic()
        self._handle = display(HTML(""), display_id=True)
        self._drawn = float("-inf")

    def draw(self, bars: Sequence[Bar]) -> None:
        now = time.monotonic()
        if now - self._drawn >= REDRAW_SECONDS:  # a fit may report a thousand times a second
            self._drawn = now
            self._show(html_of_bars(bars))

    def close(self, succeeded: bool) -> None:
        word = "done in" if succeeded else "stopped after"
        self._show(Markup(f"<small>{word} {time.monotonic() - self._began:.1f} s</small>"))

    def _show(self, text: str) -> None:
        if self._handle is not None:
            self._handle.update(self._html(text))


def html_of_bars(bars: Sequence[Bar]) -> Markup:
    rows = []
    for one in bars:
        of = "" if one.total is None else f" of {one.total:,}"
        picture = "" if not one.total else bar(one.done / one.total)
        side = "text-align:left"
        rows.append(
            f'<tr><td style="{side}">{escape(one.name)}</td><td style="{side};width:12em">{picture}</td>'
            f'<td style="{side}">{one.done:,}{of}</td><td style="{side}">{escape(one.note)}</td></tr>'
        )
    return Markup(f"<table><tbody>{''.join(rows)}</tbody></table>")


class TerminalDisplay:
    """Bars on stderr that disappear at the end."""

    def __init__(self, console: Console):
        self._shown = rich_bars(console)
        self._shown.start()
        self._tasks: list[Any] = []

    def draw(self, bars: Sequence[Bar]) -> None:
        while len(self._tasks) < len(bars):
            self._tasks.append(self._shown.add_task("", total=None, note=""))
        for i, task in enumerate(self._tasks):
            if i < len(bars):
                one = bars[i]
                self._shown.update(
                    task, description=one.name, completed=one.done, total=one.total, note=one.note, visible=True
                )
            else:
                self._shown.update(task, visible=False)

    def close(self, succeeded: bool) -> None:
        self._shown.stop()


def rich_bars(console: Console) -> Progress:
    """Bars with a name, a count, a note and the time left; none if the console is not a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
    )
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
