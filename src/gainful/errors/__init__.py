"""Errors and warnings, each a single line.

Every mistake in the user's input is a :class:`GainfulError`: what is wrong, where, what was expected and what to do.
The command line prints the message and exits with 2; nothing else in the package prints or exits.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Self

from gainful.errors.other_names import INSTEAD, PASSED_ON, bare, name_here

LINE_BREAKS = {ord(one): ascii(one)[1:-1] for one in "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"}  # to escapes


LONGEST_MESSAGE = 1000


class GainfulError(Exception):
    """Base of all errors in the caller's input, as opposed to faults of gainful. Its text is always one short line."""

    def __str__(self) -> str:
        """The message; names from files may hold line breaks, and may be of any length."""
        text = super().__str__().translate(LINE_BREAKS)
        if len(text) <= LONGEST_MESSAGE:
            return text
        half = LONGEST_MESSAGE // 2 - 2  # where it went wrong stands first, what to do last
        return f"{text[:half]} … {text[-half:]}"


class ParameterError(GainfulError, ValueError):
    """A parameter has an invalid value."""

    @classmethod
    def of(cls, owner: str, name: str, expected: str, found: object, hint: str = "") -> ParameterError:
        """The one template: ``{name} of {owner} must be {expected}, was {found}``."""
        text = f"{name} of {owner} must be {expected}, was {shorten(found)}"
        return cls(f"{text}; {hint}" if hint else text)


class UnknownNameError(ParameterError):
    """A name that does not exist; the message gives its name here, or the closest one."""

    @classmethod
    def among(cls, kind: str, name: object, known: Iterable[str], *, owner: str = "", hint: str = "") -> Self:
        """The one template: ``{owner} has no {kind} {name}; {what to do}``.

        Without an owner, ``there is no {kind} {name}``. What to do is the ``hint``, or what the known names suggest.
        """
        subject = f"{owner} has" if owner else "there is"
        return cls(f"{subject} no {kind} {name!r}; {hint or _suggestion(name, list(known))}")


class UnknownKeywordError(UnknownNameError, TypeError):
    """A keyword that a class or function does not accept; a TypeError, as for any call in Python."""


def _suggestion(name: object, known: list[str]) -> str:
    plain: dict[str, list[str]] = {}
    for one in known:
        plain.setdefault(bare(one), []).append(one)
    if bare(name) in plain:
        return _did_you_mean(plain[bare(name)])
    ours = name_here(name, known)
    if ours is not None:
        return f"it is called {ours!r} here"
    if name in PASSED_ON and "engine_params" in known:
        return f"engine_params={{{name!r}: …}} passes it to LightGBM"
    subject, advice = INSTEAD.get(str(name), ("", ""))
    if subject in known:
        return advice
    near = difflib.get_close_matches(bare(name), plain, n=1, cutoff=0.5)
    return _did_you_mean(plain[near[0]]) if near else f"choose from {', '.join(known)}"


def _did_you_mean(names: list[str]) -> str:
    return f"did you mean {' or '.join(map(repr, names))}?"


class DataError(GainfulError, ValueError):
    """Arrays, frames or rows that cannot be ranking data."""


class FormatError(DataError):
    """A file that does not follow its format. ``path``, ``line`` and ``column`` (from 1) where known."""

    def __init__(self, message: str, *, path: object = None, line: int | None = None, column: int | None = None):
        self.path, self.line, self.column = path, line, column
        place = [str(path)] if path is not None else []
        if line is not None:
            place.append(f"line {line}")
        if column is not None:
            place.append(f"column {column}")
        super().__init__(f"{', '.join(place)}: {message}" if place else message)


class LibraryError(GainfulError, ImportError):
    """A library that gainful needs cannot be used as it is installed; the message says what to install."""


class MissingExtraError(LibraryError):
    """An optional dependency is not installed; the message says which extra installs it."""

    @classmethod
    def of(cls, what: str, package: str, extra: str) -> MissingExtraError:
        return cls(f"{what} needs {package}, which is not installed; run: {install_command(extra)}")


def install_command(extra: str) -> str:
    """The command that installs an extra, from where gainful came: a checkout, a wheel or an index."""
    import json
    from importlib import metadata
    from pathlib import Path
    from urllib.parse import unquote, urlsplit

    here = f"pip install '.[{extra}]' in a checkout of gainful"
    try:
        origin = json.loads(metadata.distribution("gainful").read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:
        return here
    if not origin:
        return f"pip install 'gainful[{extra}]'"
    if "dir_info" not in origin:
        return f"pip install 'gainful[{extra}] @ {origin['url']}'"
    folder = Path(unquote(urlsplit(origin["url"]).path))
    return f"pip install '{folder}[{extra}]'" if (folder / "pyproject.toml").is_file() else here


class NoAttributeError(GainfulError, AttributeError):
    """A fitted attribute that this model does not have; ``hasattr`` is False for it."""


class ClusterError(GainfulError):
    """A cluster is not available, cannot do what was asked, or was lost during a computation."""


class MemoryLimitError(GainfulError, MemoryError):
    """A computation would take clearly more memory than the process may have."""


class ExportError(GainfulError):
    """A format cannot represent a model, or an export does not score as the model does."""


class MemoryWarning(UserWarning):
    """A computation may take more memory than the process may have."""


class InterruptedFitWarning(UserWarning):
    """Training was interrupted; the model is the best one until then."""


class DataWarning(UserWarning):
    """Data that gives nothing to learn, or that looks like a mistake; see :func:`gainful.check_data`."""


class ValidationWarning(UserWarning):
    """Training that validation data would have shortened had none, or too few queries of it."""


class RedundantFeaturesWarning(DataWarning):
    """Constant or duplicate features: harmless and useless, but they may point to a mistake upstream."""


# -- the words of the interface in use ---------------------------------------------------------------------------------

_on_command_line = False  # per process, not per thread: readers raise errors from their own threads
_as_read_options = False


@contextmanager
def command_line_words() -> Iterator[None]:
    """Inside this block, messages name command-line options instead of Python keywords."""
    global _on_command_line
    before, _on_command_line = _on_command_line, True
    try:
        yield
    finally:
        _on_command_line = before


@contextmanager
def read_options_words() -> Iterator[None]:
    """Inside this block, readers' options are those of a function that takes them as ``read_options``."""
    global _as_read_options
    before, _as_read_options = _as_read_options, True
    try:
        yield
    finally:
        _as_read_options = before


def wording(python: str, command_line: str) -> str:
    """The text for the interface in use."""
    return command_line if _on_command_line else python


# reader options that are command-line options too; others follow --read
OWN_OPTIONS = {"format": "--format", "merge": "--merge", "max_bytes": "--memory-limit", "pairs": "--pairs"}


def option(name: str, value: object = ...) -> str:
    """How to set an option of a reader: ``sparse=True`` in Python, ``--read sparse=true`` on the command line.

    Without a value, ``qid=…`` or ``--read qid=…``.
    """
    if value is ...:
        python = shell = "…"
    else:
        python = repr(value)
        shell = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        shell = shell.lower() if isinstance(value, bool) else shell
    if name not in OWN_OPTIONS:
        setting = f"{name}={shell}"
        plain = setting.replace("…", "")  # a placeholder needs no quotes
        return wording(
            _keyword(name, python), f"--read {setting if shlex.quote(plain) == plain else shlex.quote(setting)}"
        )
    return wording(_keyword(name, python), OWN_OPTIONS[name] if value is True else f"{OWN_OPTIONS[name]} {shell}")


def _keyword(name: str, value: str) -> str:
    return f"read_options={{{name!r}: {value}}}" if _as_read_options else f"{name}={value}"


def plural(n: int, one: str, several: str = "") -> str:
    """A count and what is counted: "1 row", "2,000 rows"."""
    return f"{n:,} {one if n == 1 else several or one + 's'}"


def brief(value: object, limit: int = 60) -> str:
    """``str``, cut to ``limit`` characters: ids come from outside and may be of any length."""
    text = str(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def shorten(value: object, limit: int = 60) -> str:
    """``repr`` on one line, cut to ``limit`` characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
