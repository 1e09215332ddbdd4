"""The command line: results on stdout, progress and errors on stderr, exit code 2 for a user's mistake."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import typer

from gainful.errors import GainfulError, command_line_words

INTERRUPTED, TERMINATED = 130, 143


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with its code. A user's mistake never ends in a traceback."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """The exit code of one command."""
    with _sigterm_as_ctrl_c() as terminated, command_line_words():
        code = _run(arguments)
        if code == INTERRUPTED:
            complain("interrupted")
    return TERMINATED if terminated else code


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
    except BrokenPipeError:
        # Whoever read our output has gone (`gainful predict … | head`); stdout must not be flushed again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
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
    print(f"gainful: {' '.join(message.split())}", file=sys.stderr)
    return 2
