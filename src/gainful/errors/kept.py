"""Warnings of fits of which not all are kept: noted while many train, shown for those that stay."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from gainful.errors import DataWarning

_notes: ContextVar[list[str] | None] = ContextVar("warnings of this fit", default=None)


@contextmanager
def warnings_withheld() -> Iterator[None]:
    """Show no UserWarning inside; :func:`noted` collects those on data. Set once: threads share the filters."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        show = warnings.showwarning

        def note(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
            notes = _notes.get()
            if not issubclass(category, UserWarning):
                show(message, category, *where, **more)
            elif issubclass(category, DataWarning) and notes is not None and str(message) not in notes:
                notes.append(str(message))

        warnings.showwarning = note
        yield


@contextmanager
def noted() -> Iterator[list[str]]:
    """The warnings on data of the fits that this thread runs inside."""
    notes: list[str] = []
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


def show_kept(what: str, notes: Sequence[str], stacklevel: int) -> None:
    """Warn of what was noted of a fit that is kept."""
    for text in notes:
        warnings.warn(f"{what}: {text}", DataWarning, stacklevel=stacklevel + 1)
