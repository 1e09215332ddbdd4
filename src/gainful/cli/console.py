"""Consoles, progress bars, and the notice about compilation, shared by the commands."""

from __future__ import annotations

import json
import sys
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from gainful.display.progress import rich_bars
from gainful.errors import DataWarning
from gainful.errors.terminal import make_console
from gainful.persistence.jsonable import plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

QUIET_SECONDS = 1.0  # compilation shorter than this is not reported
WIDTH_WITHOUT_TERMINAL = 140  # of a file or a pipe, so that tables are not wrapped at 80

_displays: list[Console] = []  # that show bars or a spinner; lines printed meanwhile go through the last


def stdout() -> Console:
    return make_console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL, highlight=False)


def stderr() -> Console:
    return make_console(stderr=True, highlight=False)


def say(message: str, style: str = "dim") -> None:
    """Print a line for the user on stderr, where results do not go."""
    console = _displays[-1] if _displays else stderr()
    console.print(message, style=style, soft_wrap=not console.is_terminal, markup=False)


def warn(message: object) -> None:
    """Print a line about what is likely a mistake."""
    say(f"warning: {message}", style="yellow")


@contextmanager
def show_warnings_as_lines() -> Iterator[None]:
    """Show each of Python's warnings once: what is wrong with the data as a warning, anything else as a note."""
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            warn(message) if issubclass(category, DataWarning) else say(f"note: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


def json_text(value: Any) -> str:
    return json.dumps(plain(value), indent=1)


def print_json(value: Any) -> None:
    print(json_text(value))


def key_value_table(rows: Iterable[tuple[str, Any]]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for label, value in rows:
        text = f"{value:.4f}" if isinstance(value, float) else str(value)
        table.add_row(Text(label), Text(text))  # Text: a path may look like markup
    return table


def plain_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in titles:
        table.add_column(title)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def headed_table(head: Sequence[str], left: Collection[int] = (0,)) -> Table:
    """A table with a line under its head, for columns of figures; those ``left`` hold words."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(head):
        table.add_column(name, justify="left" if place in left else "right")
    return table


@contextmanager
def _on_display(console: Console) -> Iterator[None]:
    _displays.append(console)
    try:
        yield
    finally:
        _displays.remove(console)


@contextmanager
def progress_bars() -> Iterator[Progress]:
    """Bars on stderr that disappear at the end."""
    console = stderr()
    with _on_display(console), rich_bars(console) as bars:
        yield bars


def training_bar(bars: Progress, name: str) -> Callable[[Any], bool]:
    """A bar for one training, as its progress callback."""
    task = bars.add_task(name, total=None, note="")

    def show(event: Any) -> bool:
        bars.update(task, completed=event.iteration, total=event.total, note=event.note)
        return False

    return show


@contextmanager
def status(message: str) -> Iterator[None]:
    """A spinner for work of unknown length."""
    console = stderr()
    with _on_display(console), console.status(Text(message)):
        yield


@contextmanager
def count_status(message: str, what: str) -> Iterator[Callable[[int], None]]:
    """A spinner with a count, for work of unknown length."""
    console = stderr()
    with _on_display(console), console.status(Text(message)) as shown:
        yield lambda n: shown.update(Text(f"{message}: {n:,} {what}"))


class CompilationNotice:
    """Reports on stderr that kernels are being compiled, once that has taken more than a second in total.

    On a terminal, a spinner names the kernel until it is ready. If stderr is not a terminal, or shows something else
    already, one plain line is printed once. A timer reports while the kernel is still being compiled.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, timer: Callable[..., Any] = threading.Timer):
        self.count = 0
        self._clock, self._timer = clock, timer
        self._alarm: Any = None
        self._depth, self._begun, self._seconds, self._name = 0, 0.0, 0.0, ""
        self._shown, self._plain, self._spinner = False, False, ExitStack()
        self._lock = threading.Lock()

    def start(self, name: str) -> None:
        """A function begins to be compiled. Inside another one, it counts as part of that one."""
        with self._lock:
            self._depth += 1
            if self._depth > 1:
                return
            self._begun, self._name = self._clock(), name
            self.count += 1
            if self._shown:
                return
            self._alarm = self._timer(max(0.0, QUIET_SECONDS - self._seconds), self._report)
            self._alarm.daemon = True  # does not delay the exit of the process
            self._alarm.start()

    def end(self) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth > 0:
                return
            self._seconds += self._clock() - self._begun
            self._spinner.close()
            self._shown = self._shown and self._plain
            alarm, self._alarm = self._alarm, None
        if alarm is not None:  # without the lock, which the alarm may be waiting for
            alarm.cancel()
            alarm.join()

    def _report(self) -> None:
        with self._lock:
            if self._depth == 0:  # ready in the meantime
                return
            self._shown = True
            self._plain = bool(_displays) or not stderr().is_terminal
            if self._plain:
                say(f"compiling kernels for first use ({self._name} …); gainful warm does it ahead of time")
            else:
                line = f"compiling kernels for first use: {self._name} ({self.count} so far)"
                self._spinner.enter_context(status(line))


def watch_compilation() -> None:
    """From here on, report compilation that takes long, if this numba says when it compiles."""
    try:
        from numba.core import event
    except ImportError:
        return

    class Listener(event.Listener):
        def on_start(self, compiling: Any) -> None:
            notice.start(compiling.data["dispatcher"].py_func.__name__)

        def on_end(self, _: Any) -> None:
            notice.end()

    global _notice
    if _notice is None:
        notice = _notice = CompilationNotice()
        event.register("numba:compile", Listener())  # type: ignore[no-untyped-call]


_notice: CompilationNotice | None = None


def has_compiled() -> bool:
    """Whether kernels were compiled since :func:`watch_compilation`, so that times include more than training."""
    return _notice is not None and _notice.count > 0


def run_interruptibly(work: Callable[[threading.Event], None], grace_seconds: float = 1.0) -> tuple[bool, bool]:
    """Run ``work`` in a thread so that Ctrl-C works even while compiled code is busy.

    Returns (interrupted, stuck). On Ctrl-C the event is set and ``work`` has ``grace_seconds`` to return; if it does
    not, ``stuck`` is True and the caller must exit the process without waiting for it.
    """
    stop, finished = threading.Event(), threading.Event()
    failure: list[BaseException] = []

    def body() -> None:
        try:
            work(stop)
        except BaseException as error:  # raised again in the caller's thread
            failure.append(error)
        finally:
            finished.set()

    threading.Thread(target=body, daemon=True).start()
    interrupted = False
    try:
        # An event rather than Thread.join: after an interrupt, join takes the thread for finished.
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
