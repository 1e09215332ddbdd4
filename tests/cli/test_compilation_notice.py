"""What a person sees while kernels are compiled."""

from __future__ import annotations

import io
import threading
import time
import types

import pytest
from rich.console import Console

from gainful.cli import console


class Clock:
    """A clock that moves on request, with timers that fire on the way."""

    def __init__(self) -> None:
        self.now, self.timers = 0.0, []

    def __call__(self) -> float:
        return self.now

    def timer(self, seconds, function):
        timer = types.SimpleNamespace(due=self.now + seconds, function=function)
        timer.start = lambda: self.timers.append(timer)
        timer.cancel = lambda: self.timers.remove(timer) if timer in self.timers else None
        timer.join = lambda: None
        return timer

    def sleep(self, seconds) -> None:
        self.now += seconds
        for timer in [timer for timer in self.timers if timer.due <= self.now]:
            self.timers.remove(timer)
            timer.function()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def screen(monkeypatch) -> io.StringIO:
    """A terminal of which all that is written is kept."""
    written = io.StringIO()
    monkeypatch.setattr(console, "stderr", lambda: Console(file=written, force_terminal=True, width=120))
    return written


@pytest.fixture
def notice(clock) -> console.CompilationNotice:
    return console.CompilationNotice(clock, clock.timer)


def compile_kernel(notice, clock, name, seconds):
    """A kernel with one helper."""
    notice.start(name)
    notice.start("a_helper")
    notice.end()
    clock.sleep(seconds)
    notice.end()
    assert not clock.timers


def test_one_long_compilation_is_reported_while_it_lasts(capsys, monkeypatch):
    monkeypatch.setattr(console, "QUIET_SECONDS", 0.01)
    before = set(threading.enumerate())
    notice, shown, started = console.CompilationNotice(), "", time.monotonic()
    notice.start("only")
    while not shown and time.monotonic() < started + 60.0:
        time.sleep(0.01)
        shown = capsys.readouterr().err
    assert shown == "compiling kernels for first use (only …); gainful warm does it ahead of time\n"
    notice.end()
    notice.start("another")
    notice.end()
    assert set(threading.enumerate()) <= before  # others may end meanwhile


def test_a_quick_compilation_leaves_no_timer(capsys):
    before = set(threading.enumerate())
    notice = console.CompilationNotice()
    notice.start("quick")
    notice.end()
    assert set(threading.enumerate()) <= before  # others may end meanwhile
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_the_kernel_while_it_is_compiled(screen, notice, clock):
    compile_kernel(notice, clock, "quick", 0.9)
    assert screen.getvalue() == ""
    compile_kernel(notice, clock, "slow", 0.9)
    text = screen.getvalue()
    assert "compiling kernels for first use: slow (2 so far)" in text
    assert "\x1b[2K" in text.split("so far")[-1]  # the line is erased
    compile_kernel(notice, clock, "third", 0.1)
    assert "third (3 so far)" in screen.getvalue()
    assert "a_helper" not in screen.getvalue()


def test_without_a_terminal_one_plain_line(capsys, notice, clock):
    for name in ("first", "second", "third"):
        compile_kernel(notice, clock, name, 0.8)
    assert capsys.readouterr().err.splitlines() == [
        "compiling kernels for first use (second …); gainful warm does it ahead of time"
    ]


def test_beside_bars_one_line_above_them(screen, notice, clock):
    with console.progress_bars() as bars:
        bars.add_task("training", total=3, note="")
        for name in ("first", "second"):
            compile_kernel(notice, clock, name, 2.0)
    assert screen.getvalue().count("compiling kernels") == 1
