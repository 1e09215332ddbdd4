"""Checkpoints: the state of a long training in a file, from which the same training can resume.

A checkpoint belongs to one training: a class of rankers, its parameters, the data and the version of gainful. It is a
container (:mod:`gainful.persistence.container`), replaced whole each time, and reading it executes no code.
"""

from __future__ import annotations

import math
import os
import time
import warnings
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from gainful.data.dataset import RankingData
from gainful.data.rows import Array
from gainful.errors import FormatError, GainfulError, ParameterError, shorten
from gainful.formats.files import refuse_unwritable
from gainful.persistence.container import LONG_TEXT, Kind, pack, read_container, write_container
from gainful.persistence.jsonable import plain

KIND = Kind("gainful-checkpoint", 1, "checkpoint", level=1)
MAX_BYTES = 1 << 36  # unpacked; the file is the user's own
SAMPLED_ROWS = 1024  # of X, to recognise the data
RARE = ("weights of documents", "initial scores", "preferences", "clicks")  # not among the facts of data without them
MOST_DIFFERENCES = 3  # named in an error


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written; training continues without it."""


class Checkpoint:
    """A file that training writes every few seconds, and from which the same training can resume.

    Pass it, or just a path, as ``fit(..., checkpoint=)``. A training that succeeds deletes it, unless ``keep``.

    A solver asks :meth:`due` after an iteration and then calls :meth:`save` with all it needs to resume. If ``state``
    is not None at the start, it is what the solver saved. A state maps names (letters, digits, _) to arrays of numbers,
    texts and JSON values; numbers keep every bit.

    Parameters
    ----------
    path : the file
    every : seconds between two writes; 0 writes after every iteration
    keep : whether the file stays after a successful training
    """

    def __init__(self, path: str | os.PathLike[str], every: float = 60.0, *, keep: bool = False):
        if not isinstance(path, (str, os.PathLike)):
            raise ParameterError.of("fit", "checkpoint", "a path or a Checkpoint", path)
        if isinstance(every, bool) or not isinstance(every, (int, float, np.number)) or not 0 <= every < math.inf:
            raise ParameterError.of("fit", "checkpoint_every", "a number of seconds ≥ 0", every)
        self.path, self.every, self.keep = Path(path), float(every), keep
        self.state: dict[str, Any] | None = None
        self._training: dict[str, Any] = {}
        self._last = time.monotonic()

    def open(self, training: Mapping[str, Any]) -> None:
        """Begin a training with these facts, or load its ``state``; the file of another training is an error."""
        refuse_unwritable(self.path)
        self._training, self.state, self._last = plain(dict(training)), None, time.monotonic()
        if not os.path.lexists(self.path):
            return
        manifest, state = read_container(KIND, self.path, MAX_BYTES)
        there = manifest.get("training")
        differences = list(_differences(there if isinstance(there, dict) else {}, self._training))
        if differences:
            more = f" and {len(differences) - MOST_DIFFERENCES} more" if len(differences) > MOST_DIFFERENCES else ""
            raise GainfulError(
                f"{self.path} is the checkpoint of another training: "
                f"{'; '.join(differences[:MOST_DIFFERENCES])}{more}. Delete it to start afresh, or name another file"
            )
        with self.restoring():
            self.state = {name: _decode(value) for name, value in state.items()}

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Restore ``state`` inside this block: an error there means that the file is damaged."""
        try:
            yield
        except GainfulError:
            raise
        except Exception as error:
            why = shorten(error.args[0] if error.args else type(error).__name__, 120).strip("'\"")
            raise FormatError(
                f"the checkpoint is damaged ({why}); delete it to start afresh, or name another file", path=self.path
            ) from error

    def due(self) -> bool:
        """Whether it is time to save."""
        return time.monotonic() - self._last >= self.every

    def save(self, state: Mapping[str, Any]) -> None:
        """Replace the file. If that fails, warn and go on: training is worth more than its checkpoint."""
        held = {name: value if _is_member(value) else _encode(value) for name, value in state.items()}
        try:
            write_container(KIND, self.path, pack(KIND, {"training": self._training}, held))
        except FormatError as error:
            warnings.warn(f"the checkpoint is not up to date: {error}", CheckpointWarning, stacklevel=2)
        self._last = time.monotonic()

    def finish(self) -> None:
        """Call when the training has succeeded."""
        if not self.keep:
            self.remove()

    def remove(self) -> None:
        """Delete the file, if it exists."""
        with suppress(FileNotFoundError):
            self.path.unlink()


def _differences(there: Mapping[str, Any], here: Mapping[str, Any], of: str = "") -> Iterator[str]:
    """One line for each difference."""
    for name in sorted({*there, *here}):
        a, b = there.get(name), here.get(name)
        if isinstance(a, dict) and isinstance(b, dict):
            yield from _differences(a, b, "" if name == "params" else f" of the {name}")
        elif a != b:
            yield f"{name}{of} was {shorten(a, 40)} there and is {shorten(b, 40)} here"


# -- exact numbers -----------------------------------------------------------------------------------------------------


def _is_member(value: Any) -> bool:
    return isinstance(value, np.ndarray) or (isinstance(value, str) and len(value) > LONG_TEXT)


def _encode(value: Any) -> Any:
    """A value as JSON, which has no NaN and no infinities."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if isinstance(value, Mapping):
        return {str(name): _encode(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encode(item) for item in value]
    return value


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if isinstance(value, dict):
        if set(value) == {"float"}:
            return float(value["float"])
        return {name: _decode(item) for name, item in value.items()}
    return value


# -- recognising data --------------------------------------------------------------------------------------------------


def data_facts(data: Any) -> dict[str, Any]:
    """Facts that identify data: counts, and checksums of grades, queries, weights and a sample of the rows.

    Blocks compute their checksums where they are.
    """
    facts = {"rows": data.n_rows, "queries": data.n_queries, "features": data.n_features}
    parts = [block_digest(data.whole)] if data.whole is not None else data.map(block_digest)
    columns = {what: [part[what] for part in parts] for what in parts[0]}
    held = {what: found for what, found in columns.items() if what not in RARE or any(found)}
    return facts | {what: zlib.crc32(repr(found).encode()) for what, found in held.items()}


def block_digest(data: RankingData) -> dict[str, int]:
    """Checksums of one block."""
    rows = np.unique(np.linspace(0, data.n_rows - 1, SAMPLED_ROWS).astype(np.int64))
    sample = data.X[rows]
    parts = (sample,) if isinstance(sample, np.ndarray) else (sample.data, sample.indices, sample.indptr)
    return {
        "grades": _crc(data.y),
        "documents of queries": _crc(data.offsets),
        "weights": 0 if data.query_weights is None else _crc(data.query_weights),
        "weights of documents": 0 if data.document_weights is None else _crc(data.document_weights),
        "initial scores": 0 if data.init_scores is None else _crc(data.init_scores),
        "preferences": 0 if data.pairs is None else _crc(data.pairs.better, data.pairs.worse, data.pairs.weight),
        "clicks": 0 if data.click_weights is None else _crc(data.click_weights),
        "values": _crc(*parts),
    }


def _crc(*arrays: Array) -> int:
    crc = 0
    for array in arrays:
        crc = zlib.crc32(np.ascontiguousarray(array).data, zlib.crc32(str(array.dtype).encode(), crc))
    return crc
