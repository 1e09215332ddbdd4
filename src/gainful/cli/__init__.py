"""The command line: results on stdout, progress and errors on stderr, exit code 2 for a user's mistake."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import typer

from gainful.errors import FormatError, GainfulError, command_line_words
from gainful.errors.terminal import PLAIN, visible

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
    with _sigterm_as_ctrl_c() as terminated, command_line_words(), _streams_in_our_words():
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


class _ReaderGoneError(Exception):
    """Whoever read standard output has gone (``gainful predict … | head``). Not an OSError: Typer would exit with 1."""


class _Stream:
    """A text stream that hands its errors to ``fail``, and is then silent."""

    def __init__(self, inner: Any, fail: Callable[[OSError], None]):
        self._inner, self._fail = inner, fail

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write(self, text: str) -> int:
        return int(self._try(self._inner.write, text) or 0)

    def flush(self) -> None:
        self._try(self._inner.flush)

    def _try(self, call: Callable[..., Any], *given: Any) -> Any:
        try:
            return call(*given)
        except OSError as error:
            with suppress(OSError):  # what is left in its buffer would fail again at exit
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._inner.fileno())
            self._fail(error)


def _fail_stdout(error: OSError) -> None:
    if isinstance(error, BrokenPipeError) or error.errno == errno.EINVAL:  # what Windows says of a closed pipe
        raise _ReaderGoneError
    raise FormatError(f"cannot be written: {error.strerror}", path="standard output")


@contextmanager
def _streams_in_our_words() -> Iterator[None]:
    """Standard output fails in one line. Standard error never does: a training is worth more than its progress."""
    before: tuple[Any, Any] = sys.stdout, sys.stderr
    sys.stdout = _Stream(before[0], _fail_stdout)
    sys.stderr = _Stream(before[1], lambda error: None)
    try:
        yield
    finally:
        sys.stderr.flush()
        sys.stdout, sys.stderr = before


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
    for stream in (sys.stdout, sys.stderr):  # where there is no Unicode
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=PLAIN)
    try:
        made = command()
        refuse_values_of_flags(made, given)
        try:
            code = made.main(given or ["--help"], "gainful", standalone_mode=False)
        except typer.Exit as leaving:
            code = leaving.exit_code
        sys.stdout.flush()
    except GainfulError as error:
        return complain(str(error))
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except _ReaderGoneError:
        return 0
    except MemoryError:
        return complain("the data does not fit into memory")
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return complain(f"{where}{error.strerror or error}")
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        from gainful.cli.app import explain_unknown_option

        message = explain_unknown_option(error, given)
        return complain(message or error.format_message())  # otherwise in the parser's words
    return code if isinstance(code, int) else 0


def complain(message: str) -> int:
    """Print one line on stderr and return the exit code of a user's mistake."""
    print(f"gainful: {visible(' '.join(message.split()))}", file=sys.stderr)
    return 2
