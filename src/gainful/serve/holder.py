"""The model in use, and its exchange for a new file while requests go on."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gainful.errors import FormatError, GainfulError
from gainful.explanation.explain import feature_names
from gainful.rankers.base import Ranker
from gainful.rankers.model_file import load
from gainful.serve.monitoring import tell

Stamp = tuple[int, int, int]  # inode, time of change, size
TRIES = 3


@dataclass(frozen=True)
class Served:
    """A loaded model. A request takes the one in use once and keeps it to its end, whatever is loaded meanwhile."""

    model: Ranker
    version: str  # the start of the file's SHA-256
    names: tuple[str, ...]
    stamp: Stamp
    loaded_at: float

    @property
    def ranker(self) -> str:
        return type(self.model).__name__

    @property
    def why_no_contributions(self) -> str | None:
        return self.model._why_no_contributions()


class ModelSlot:
    """Holds the model of a file; :meth:`reload` exchanges it, or keeps the old one where the file is no good."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._lock = threading.Lock()
        self.current = _load(self.path)
        self._tried = self.current.stamp
        self.refusal: str | None = None  # why the file as it stands now is not in use

    def changed(self) -> bool:
        """Whether the file is another one than was last tried. A file that is gone is no news: the model stays."""
        try:
            return _stamp(self.path) != self._tried
        except OSError:
            return False

    def reload(self, *, if_changed: bool = False) -> Served:
        """Load the file and use it from now on; a GainfulError says why the old model stays."""
        with self._lock:
            if if_changed and not self.changed():
                return self.current  # someone else was quicker
            try:
                self._tried = _stamp(self.path)
                served = _load(self.path)
            except (GainfulError, OSError, MemoryError) as error:
                self.refusal = str(error) or "there is not enough memory for this model"
                tell("model refused", logging.ERROR, error=self.refusal, kept=self.current.version)
                if isinstance(error, GainfulError):
                    raise
                raise FormatError(getattr(error, "strerror", None) or self.refusal, path=self.path) from error
            self._tried, self.refusal = served.stamp, None
            before, self.current = self.current.version, served
            tell("model loaded", version=served.version, before=before, ranker=served.ranker)
            return served


def _load(path: Path) -> Served:
    """The model of the file, ready for its first request; the file must hold still meanwhile."""
    for _ in range(TRIES):
        try:
            stamp = _stamp(path)
            model = load(path)  # first: it refuses what is no regular file, whose bytes might never end
            digest = _digest(path)
            held_still = stamp == _stamp(path)
        except FileNotFoundError as error:
            raise FormatError("there is no such file", path=path) from error
        except OSError as error:
            raise FormatError(f"cannot be read ({error.strerror})", path=path) from error
        if held_still:
            _warm(model)
            return Served(model, digest[:16], tuple(feature_names(model)), stamp, time.time())
    raise FormatError("the file changes while it is read; move a finished file into its place", path=path)


def _warm(model: Ranker) -> None:
    """Let the model score once: libraries are loaded and kernels compiled before a request has to wait for them."""
    row = np.zeros((1, model.n_features_in_))
    model.predict(row)
    if model._why_no_contributions() is None:
        model.contributions(row)


def _stamp(path: Path) -> Stamp:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
