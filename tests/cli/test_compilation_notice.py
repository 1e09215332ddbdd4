"""What a person sees while kernels are compiled."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from gainful.cli import console


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def screen(monkeypatch) -> io.StringIO:
    """A terminal of which all that is written is kept."""
    written = io.StringIO()
    monkeypatch.setattr(console, "stderr", lambda: Console(file=written, force_terminal=True, width=120))
    return written


def compile_kernel(notice, clock, name, seconds):
    """A kernel with one helper, whose turn comes after ``seconds``."""
    notice.start(name)
    clock.now += seconds
    notice.start("a_helper")
    notice.end()
    notice.end()


def test_a_terminal_shows_the_kernel_while_it_is_compiled(screen, clock):
    notice = console.CompilationNotice(clock)
    compile_kernel(notice, clock, "quick", 0.9)
    assert screen.getvalue() == ""
    compile_kernel(notice, clock, "slow", 0.9)
    text = screen.getvalue()
    assert "compiling kernels for first use: slow (2 so far)" in text
    assert "\x1b[2K" in text.split("so far")[-1]  # the line is erased
    compile_kernel(notice, clock, "third", 0.1)
    assert "third (3 so far)" in screen.getvalue()
    assert "a_helper" not in screen.getvalue()


def test_without_a_terminal_one_plain_line(capsys, clock):
    notice = console.CompilationNotice(clock)
    for name in ("first", "second", "third"):
        compile_kernel(notice, clock, name, 0.8)
    assert capsys.readouterr().err.splitlines() == [
        "compiling kernels for first use (second …); gainful warm does it ahead of time"
    ]


def test_beside_bars_one_line_above_them(screen, clock):
    notice = console.CompilationNotice(clock)
    with console.progress_bars() as bars:
        bars.add_task("training", total=3, note="")
        for name in ("first", "second"):
            compile_kernel(notice, clock, name, 2.0)
    assert screen.getvalue().count("compiling kernels") == 1
