"""What goes wrong, said in one line.

Every mistake a user can make is a :class:`GainfulError`: what was wrong, where, what was expected and what to do. The
command line prints the message and exits with 2; nothing else in the package prints or exits.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Self

from gainful.errors.other_names import HANDED_ON, bare, called_here


class GainfulError(Exception):
    """Base of all errors that are about the caller's input rather than about gainful."""


class ParameterError(GainfulError, ValueError):
    """A parameter has a value it cannot have."""

    @classmethod
    def of(cls, owner: str, name: str, expected: str, found: object, hint: str = "") -> ParameterError:
        """The one template: ``{name} of {owner} must be {expected}, was {found}``."""
        text = f"{name} of {owner} must be {expected}, was {shorten(found)}"
        return cls(f"{text}; {hint}" if hint else text)


class UnknownNameError(ParameterError):
    """A name that is not among those that exist; the message gives what it is called here, or the nearest."""

    @classmethod
    def among(cls, kind: str, name: object, known: Iterable[str], *, owner: str = "", hint: str = "") -> Self:
        """The one template: ``{owner} has no {kind} {name}; {what to do}``.

        Without an owner, ``there is no {kind} {name}``. What to do is the ``hint``, or what the known names suggest.
        """
        subject = f"{owner} has" if owner else "there is"
        return cls(f"{subject} no {kind} {name!r}; {hint or _suggestion(name, list(known))}")


class UnknownKeywordError(UnknownNameError, TypeError):
    """A keyword that a class or method does not take; a TypeError, as for any other call in Python."""


def _suggestion(name: object, known: list[str]) -> str:
    plain = {bare(one): one for one in reversed(known)}
    if bare(name) in plain:
        return f"did you mean {plain[bare(name)]!r}?"
    ours = called_here(name, known)
    if ours is not None:
        return f"it is called {ours!r} here"
    if name in HANDED_ON and "engine_params" in known:
        return f"engine_params={{{name!r}: …}} hands it to LightGBM"
    near = difflib.get_close_matches(bare(name), plain, n=1, cutoff=0.5)
    return f"did you mean {plain[near[0]]!r}?" if near else f"choose from {', '.join(known)}"


class DataError(GainfulError, ValueError):
    """Arrays, frames or rows that cannot be ranking data."""


class FormatError(DataError):
    """A file that does not hold what its format says. ``path``, ``line`` and ``column`` (from 1) where known."""

    def __init__(self, message: str, *, path: object = None, line: int | None = None, column: int | None = None):
        self.path, self.line, self.column = path, line, column
        place = [str(path)] if path is not None else []
        if line is not None:
            place.append(f"line {line}")
        if column is not None:
            place.append(f"column {column}")
        super().__init__(f"{', '.join(place)}: {message}" if place else message)


class MissingExtraError(GainfulError, ImportError):
    """An optional dependency is not installed; the message says which extra brings it."""

    @classmethod
    def of(cls, what: str, package: str, extra: str) -> MissingExtraError:
        return cls(f"{what} needs {package}, which is not installed; run: {install_command(extra)}")


def install_command(extra: str) -> str:
    """What to type for an extra, where gainful came from: a checkout, a wheel or an index."""
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
    """A fitted attribute that this model does not have; ``hasattr`` says so too."""


class ClusterError(GainfulError):
    """A cluster that is not there, cannot do what is asked, or has been lost while it computed."""


class ExportError(GainfulError):
    """A model that a format cannot hold, or an export that does not score as the model does."""


class InterruptedFitWarning(UserWarning):
    """Training was interrupted; the model kept is the best one until then."""


class DataWarning(UserWarning):
    """Data that nothing can be learned from, or that is likely a mistake; see :func:`gainful.check_data`."""


class RedundantFeaturesWarning(DataWarning):
    """Constant or duplicate features: they do no harm and cannot help, but may hint at a mistake upstream."""


# -- the words of the interface in use ---------------------------------------------------------------------------------

_on_command_line = False  # of the process, not of a thread: readers raise their errors from threads of their own


@contextmanager
def command_line_words() -> Iterator[None]:
    """Within this block messages name the options of the command line instead of Python's keywords."""
    global _on_command_line
    before, _on_command_line = _on_command_line, True
    try:
        yield
    finally:
        _on_command_line = before


def worded(python: str, command_line: str) -> str:
    """The text for the interface in use."""
    return command_line if _on_command_line else python


OWN_OPTIONS = ("format", "merge")  # options of readers that the command line has by these names; others follow --read


def option(name: str, value: object = ...) -> str:
    """How to set an option of a reader: ``sparse=True`` in Python, ``--read sparse=true`` on the command line.

    Without a value, ``qid=…`` or ``--read qid=…``.
    """
    if value is ...:
        python = shell = "…"
    else:
        python = repr(value)
        shell = str(value).lower() if isinstance(value, bool) else str(value)
    if name not in OWN_OPTIONS:
        setting = f"{name}={shell}"
        plain = setting.replace("…", "")  # a gap to fill in needs no quotes
        return worded(f"{name}={python}", f"--read {setting if shlex.quote(plain) == plain else shlex.quote(setting)}")
    return worded(f"{name}={python}", f"--{name}" if value is True else f"--{name} {shell}")


def shorten(value: object, limit: int = 60) -> str:
    """``repr`` on one line, cut to ``limit`` characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
