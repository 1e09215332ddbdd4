"""Answers that interleave two models, and the log of what was shown.

What is not logged is not interleaved: if the second model cannot score a request, or the log cannot be written, the
answer is that of the first model, without an impression id.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gainful.clicks.impressions import impression_line, request_seed
from gainful.clicks.interleaving import Interleaved, interleave
from gainful.data.rows import Array
from gainful.errors import FormatError, ParameterError
from gainful.formats.files import PathLike, reason
from gainful.serve.model_slot import ModelSlot, Served
from gainful.serve.monitoring import log_event
from gainful.serve.settings import Settings

APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)


class ImpressionLog:
    """A file to which threads, and processes, append lines. Every write is whole or undone."""

    def __init__(self, path: PathLike):
        self.path = Path(path)
        self.counts = {"logged": 0, "failed": 0, "skipped": 0}
        self._lock = threading.Lock()
        self._failing = ""
        try:
            os.close(os.open(self.path, APPEND, 0o666))
        except OSError as error:
            raise FormatError(f"cannot be written: {reason(error)}", path=path) from None

    def append(self, lines: Sequence[str]) -> bool:
        """Write lines; False if that failed, of which the server's log has a line until it works again."""
        try:
            self._write("".join(lines).encode())
        except OSError as error:
            self._not_interleaved("failed", len(lines), f"{self.path}: cannot be written: {reason(error)}")
            return False
        with self._lock:
            self.counts["logged"] += len(lines)
            recovered, self._failing = self._failing, ""
        if recovered:
            log_event("interleaving again", impressions=str(self.path))
        return True

    def skip(self, n: int, why: str) -> None:
        """Count answers that the second model has no part in."""
        self._not_interleaved("skipped", n, why)

    def _not_interleaved(self, result: str, n: int, why: str) -> None:
        with self._lock:
            self.counts[result] += n
            known, self._failing = self._failing == why, why
        if not known:
            log_event("not interleaved", logging.ERROR, error=why)

    def _write(self, content: bytes) -> None:
        """Opened for each write, so that a file that was moved away is begun anew."""
        descriptor = os.open(self.path, APPEND, 0o666)
        try:
            with _locked(descriptor):
                size = os.fstat(descriptor).st_size
                try:
                    written = 0
                    while written < len(content):
                        written += os.write(descriptor, content[written:])
                except OSError:
                    with suppress(OSError):
                        os.ftruncate(descriptor, size)  # half a line would spoil the next one
                    raise
        finally:
            os.close(descriptor)


@contextmanager
def _locked(descriptor: int) -> Iterator[None]:
    """Alone among the threads and processes that write the file; without protection where there are no such locks."""
    with suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield  # closing the file unlocks it


class Interleaver:
    """The second model of a server, and the log of what was shown."""

    def __init__(self, first: Served, settings: Settings):
        assert settings.interleave is not None
        assert settings.impressions is not None
        self.slot = ModelSlot(settings.interleave)
        self.method, self.length = settings.interleave_method, settings.interleave_length
        why = why_not_together(first, self.slot.current)
        if why is not None:
            raise ParameterError(f"{settings.interleave} cannot be interleaved: {why}")
        self.log = ImpressionLog(settings.impressions)

    def experiment(self, first: Served, request: str) -> Experiment:
        return Experiment(self, first, self.slot.current, request)

    def facts(self, first: Served) -> dict[str, Any]:
        second = self.slot.current
        return {
            "model_version": second.version,
            "ranker": second.ranker,
            "method": self.method,
            "length": self.length,
            "impressions": str(self.log.path),
            "refused": self.slot.refusal or why_not_together(first, second),
        }


@dataclass
class Lists:
    """What a request is answered with: for each query the order to show and its impression id, and the lines to log."""

    orders: list[Array] = field(default_factory=list)
    impressions: list[str | None] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Experiment:
    """The interleaving of one request: both models as they were when it arrived."""

    interleaver: Interleaver
    first: Served
    second: Served
    request: str

    def interleave(
        self, ids: Sequence[Sequence[Any]], orders: Sequence[Array], others: Sequence[Array], top: int | None
    ) -> Lists:
        """The lists to show, from the orders of both models.

        The first documents are interleaved; those below are in the order of the first model.
        """
        length = min(self.interleaver.length, top or self.interleaver.length)
        mixed = Lists()
        for number, (names, order, other) in enumerate(zip(ids, orders, others, strict=True)):
            if not len(order):
                mixed.orders.append(order)
                mixed.impressions.append(None)
                continue
            found = interleave(
                order[:length].tolist(),
                other[:length].tolist(),
                self.interleaver.method,
                length=length,
                seed=request_seed(self.request, number),
            )
            shown = Interleaved(tuple(names[i] for i in found.documents), found.credit, found.method)
            impression, line = impression_line(self.request, number, shown, (self.first.version, self.second.version))
            below = order[~np.isin(order, found.documents)]
            mixed.orders.append(np.concatenate([found.documents, below]).astype(np.intp))
            mixed.impressions.append(impression)
            mixed.lines.append(line)
        return mixed

    def log(self, mixed: Lists) -> bool:
        """Log what is about to be shown; False if it cannot be, and must not be shown."""
        return not mixed.lines or self.interleaver.log.append(mixed.lines)

    def skip(self, n: int, why: str) -> None:
        self.interleaver.log.skip(n, why)


def why_not_together(first: Served, second: Served) -> str | None:
    """Why two models cannot answer the same request, or None."""
    if first.names == second.names:
        return None
    if len(first.names) != len(second.names):
        return f"it has {len(second.names)} features, and the first model has {len(first.names)}"
    mine, theirs = next(pair for pair in zip(first.names, second.names, strict=True) if pair[0] != pair[1])
    return f"its features are others: {theirs!r} where the first model has {mine!r}"
