"""What became of a case: accepted, refused in one line, or one of the ways to fail."""

from __future__ import annotations

import re
import signal
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import gainful
from fuzz.cases import WrongResultError

FINE = ("refused", "accepted")
FAILURES = ("exception", "signal", "timeout", "memory", "wrong", "warning", "output", "message")
LONGEST_MESSAGE = 1000
PACKAGE = Path(gainful.__file__).parent
FRAME = re.compile(r'File "(?P<file>[^"]+)", line \d+ in (?P<function>\S+)')  # as faulthandler writes it


@dataclass(frozen=True)
class Outcome:
    """``kind`` is one of FINE or FAILURES; ``cause`` is equal for failures that probably have one reason."""

    kind: str
    cause: str = ""
    detail: str = ""

    @property
    def fails(self) -> bool:
        return self.kind not in FINE

    def __str__(self) -> str:
        return f"{self.kind}: {self.cause}: {self.detail}" if self.fails else self.kind


def of_error(error: BaseException) -> Outcome:
    """A refusal if the error is one of gainful's with a message of one line."""
    text = str(error)
    where = innermost((frame.filename, frame.name) for frame in traceback.extract_tb(error.__traceback__))
    cause = f"{type(error).__name__} in {where}"
    if isinstance(error, gainful.GainfulError):
        if len(text.splitlines()) != 1:
            return Outcome("message", cause, f"a message of several lines or none: {text[:200]!r}")
        if len(text) > LONGEST_MESSAGE:
            return Outcome("message", cause, f"a message of {len(text)} characters: {text[:200]!r}")
        return Outcome("refused", cause, text)
    if isinstance(error, WrongResultError):
        return Outcome("wrong", _without_numbers(text.partition("{")[0])[:80], text[:300])
    if isinstance(error, MemoryError):
        return Outcome("memory", cause, text[:300])
    if isinstance(error, TimeoutError):
        return Outcome("timeout", cause, text[:300])
    return Outcome("exception", cause, _one_line(text))


def of_refusal(refused: Outcome) -> Outcome:
    """The outcome where nothing was wrong with what was refused."""
    return Outcome("wrong", f"an undamaged input is refused: {refused.cause}", refused.detail)


def of_warning(category: type[Warning], text: str, stack: traceback.StackSummary) -> Outcome:
    where = innermost((frame.filename, frame.name) for frame in stack)
    return Outcome("warning", f"{category.__name__} in {where}", _one_line(text))


def of_output(text: str) -> Outcome:
    return Outcome("output", _without_numbers(_one_line(text))[:80], _one_line(text))


def of_exit(code: int | None, log: str, *, killed: bool) -> Outcome:
    """The outcome of a case whose process ended; ``log`` is what faulthandler wrote."""
    found = [(one["file"], one["function"]) for one in FRAME.finditer(log)]
    where = innermost(reversed(found))  # faulthandler starts with the innermost
    if killed or code == -signal.SIGPROF:
        return Outcome("timeout", f"in {where}", "waited for something" if killed else "computed for too long")
    name = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
    return Outcome("signal", f"{name} in {where}", _one_line(log))


def innermost(frames: Iterable[tuple[str, str]]) -> str:
    """``module:function`` of the last frame inside gainful."""
    inside = [(Path(file), function) for file, function in frames if Path(file).is_relative_to(PACKAGE)]
    if not inside:
        return "no frame of gainful"
    file, function = inside[-1]
    return f"{file.relative_to(PACKAGE).with_suffix('').as_posix()}:{function}"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]


def _without_numbers(text: str) -> str:
    return re.sub(r"[-+]?\d[\d.e+-]*", "N", text)
