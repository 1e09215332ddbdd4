"""Consoles, progress bars and the note on compilation, shared by the commands."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from gainful.jsonable import plain

QUIET_SECONDS = 1.0  # compiling this long is not worth a line
WIDTH_WITHOUT_TERMINAL = 140  # a file or a pipe has no width; tables are not to be wrapped at 80


def stdout() -> Console:
    return Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL, highlight=False)


def stderr() -> Console:
    return Console(stderr=True, highlight=False)


def say(message: str) -> None:
    """A line for the person, kept apart from the results."""
    console = stderr()
    console.print(message, style="dim", soft_wrap=not console.is_terminal, markup=False)


def warn(message: object) -> None:
    """A line about what is likely a mistake."""
    console = stderr()
    console.print(f"warning: {message}", style="yellow", soft_wrap=not console.is_terminal, markup=False)


def json_text(value: Any) -> str:
    return json.dumps(plain(value), indent=1)


def print_json(value: Any) -> None:
    print(json_text(value))


def key_value_table(rows: list[tuple[str, str]]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for label, text in rows:
        table.add_row(Text(label), Text(text))  # Text: a path may look like markup
    return table


@contextmanager
def progress_bars() -> Iterator[Progress]:
    """Bars on stderr that leave no trace once they are done."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
    )
    console = stderr()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        yield bars


def progress_note(event: Any) -> str:
    """What is worth saying of an iteration: the validation metric, or how far from the optimum it may be."""
    if event.validation is not None:
        return f"validation {event.validation:.4f}"
    return "" if event.gap is None else f"gap {100 * event.gap:.2g} %"


@contextmanager
def status(message: str) -> Iterator[None]:
    """A spinner for work of unknown length."""
    with stderr().status(Text(message)):
        yield


@contextmanager
def counting(message: str, what: str) -> Iterator[Callable[[int], None]]:
    """A spinner with a count, for work whose end is not known."""
    with stderr().status(Text(message)) as shown:
        yield lambda n: shown.update(Text(f"{message}: {n:,} {what}"))


def watch_compilation() -> None:
    """Say once, on stderr, that kernels are being compiled, if that takes more than a second."""
    from numba.core import event

    class Notice(event.Listener):
        compiled = told = False
        depth, begun, seconds = 0, 0.0, 0.0

        def on_start(self, compiling: Any) -> None:
            if self.depth == 0:
                self.begun = time.monotonic()
            self.depth += 1
            self.compiled = True
            if not self.told and self.seconds + time.monotonic() - self.begun > QUIET_SECONDS:
                self.told = True
                name = compiling.data["dispatcher"].py_func.__module__.removeprefix("gainful.")
                say(f"compiling kernels ({name} …): once per machine; gainful warm does it ahead of time")

        def on_end(self, _: Any) -> None:
            self.depth -= 1
            if self.depth == 0:
                self.seconds += time.monotonic() - self.begun

    global _notice
    if _notice is None:
        _notice = Notice()
        event.register("numba:compile", _notice)  # type: ignore[no-untyped-call]


_notice: Any = None


def has_compiled() -> bool:
    """Whether kernels were compiled since :func:`watch_compilation`, so that times hold more than training."""
    return _notice is not None and bool(_notice.compiled)


def run_interruptibly(work: Callable[[threading.Event], None], grace_seconds: float = 1.0) -> tuple[bool, bool]:
    """Run ``work`` in a thread so that Ctrl-C is heard even while compiled code is busy.

    Returns (interrupted, stuck). On Ctrl-C the event is set and ``work`` has ``grace_seconds`` to return; if it does
    not, ``stuck`` is True and the caller must leave the process without waiting for it.
    """
    stop, finished = threading.Event(), threading.Event()
    failure: list[BaseException] = []

    def body() -> None:
        try:
            work(stop)
        except BaseException as error:  # handed to the caller's thread
            failure.append(error)
        finally:
            finished.set()

    threading.Thread(target=body, daemon=True).start()
    interrupted = False
    try:
        # An event rather than Thread.join, which an interrupt leaves believing that the thread has ended.
        while not finished.wait(0.05):
            pass
    except KeyboardInterrupt:
        interrupted = True
        stop.set()
        with suppress(KeyboardInterrupt):
            finished.wait(grace_seconds)
    if failure:
        raise failure[0]
    return interrupted, not finished.is_set()
