"""The command line: results on stdout, progress and errors on stderr, exit code 2 for a user's mistake."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import typer

from gainful.errors import GainfulError, command_line_words
from gainful.errors.terminal import visible

INTERRUPTED, TERMINATED = 130, 143


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with its code. A user's mistake never ends in a traceback."""
    _open_closed_streams()
    try:
        code = run(arguments)
    except KeyboardInterrupt:  # a second Ctrl-C, after the command
        code = INTERRUPTED
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to interrupt
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """The exit code of one command."""
    with _sigterm_as_ctrl_c() as terminated, command_line_words(), _stderr_that_never_fails():
        code = _run(arguments)
        if code == INTERRUPTED:
            complain("interrupted")
    return TERMINATED if terminated else code


# -- streams -----------------------------------------------------------------------------------------------------------


def _open_closed_streams() -> None:
    """Open standard streams that the caller closed (``>&-``) on the null device.

    Otherwise the next file opened, say a model, would become standard output, and libraries would print into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 (open until the process ends)
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115


class _NeverFailing:
    """A text stream whose errors are ignored: nobody reads it any more, or the disk is full."""

    def __init__(self, inner: Any):
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._inner.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._inner.flush()


@contextmanager
def _stderr_that_never_fails() -> Iterator[None]:
    """A training must not end because nobody reads its progress (``2>&1 | head``)."""
    before = sys.stderr
    sys.stderr = _NeverFailing(before)
    try:
        yield
    finally:
        sys.stderr.flush()
        sys.stderr = before


def _why_stdout_fails() -> OSError | None:
    """What is wrong with standard output, if anything; then it is not written to again, not even at exit."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return error
    return None


# -- signals -----------------------------------------------------------------------------------------------------------


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[list[int]]:
    """SIGTERM ends a command like Ctrl-C: temporary files are removed, and training keeps its best model so far.

    The list yielded is empty until SIGTERM arrives. A handler that somebody else has set stays.
    """
    received: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield received
        return
    signal.signal(signal.SIGTERM, stop)
    try:
        yield received
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _run(arguments: Sequence[str] | None) -> int:
    from gainful.cli.app import command, refuse_values_of_flags

    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):  # a terminal without Unicode shows "?" rather than an error
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        made = command()
        refuse_values_of_flags(made, given)
        code = made.main(given or ["--help"], "gainful", standalone_mode=False)
        sys.stdout.flush()
    except GainfulError as error:
        return complain(str(error))
    except typer.Exit as leaving:
        return int(leaving.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:  # whoever read our output has gone (`gainful predict … | head`)
        _why_stdout_fails()
        return 0
    except MemoryError:
        return complain("the data does not fit into memory")
    except OSError as error:
        where = error.filename or ("standard output" if _why_stdout_fails() else None)
        return complain(f"{where}: {error.strerror or error}" if where else f"{error.strerror or error}")
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        return complain(error.format_message())  # a wrong option or argument, in the parser's words
    return code if isinstance(code, int) else 0


def complain(message: str) -> int:
    """Print one line on stderr and return the exit code of a user's mistake."""
    print(f"gainful: {visible(' '.join(message.split()))}", file=sys.stderr)
    return 2
