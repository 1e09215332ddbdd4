"""The model in use, replaced by a new file while requests go on."""

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
from gainful.foreign.loading import load
from gainful.rankers.base import Ranker
from gainful.rankers.scorers import prepare
from gainful.serve.monitoring import log_event

Stamp = tuple[int, int, int]  # inode, time of change, size
TRIES = 3


@dataclass(frozen=True)
class Served:
    """A loaded model. A request uses the same one throughout, whatever is loaded meanwhile."""

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
    """Holds the model of a file; :meth:`reload` replaces it, or keeps the old one if the file is not usable."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._lock = threading.Lock()
        self.current = _load(self.path)
        self._tried = self.current.stamp
        self.refusal: str | None = None  # why the current file is not in use

    def has_changed(self) -> bool:
        """Whether the file differs from the one last tried. If it is gone, the model stays."""
        try:
            return _stamp(self.path) != self._tried
        except OSError:
            return False

    def reload(self, *, if_changed: bool = False) -> Served:
        """Load the file and use it from now on; a GainfulError says why the old model stays."""
        with self._lock:
            if if_changed and not self.has_changed():
                return self.current  # another thread was faster
            try:
                self._tried = _stamp(self.path)
                served = _load(self.path)
            except (GainfulError, OSError, MemoryError) as error:
                self.refusal = str(error) or "not enough memory for this model"
                log_event("model refused", logging.ERROR, error=self.refusal, kept=self.current.version)
                if isinstance(error, GainfulError):
                    raise
                raise FormatError(getattr(error, "strerror", None) or self.refusal, path=self.path) from error
            self._tried, self.refusal = served.stamp, None
            before, self.current = self.current.version, served
            log_event("model loaded", version=served.version, before=before, ranker=served.ranker)
            return served


def _load(path: Path) -> Served:
    """Load the model and make it ready for its first request; the file must not change meanwhile."""
    for _ in range(TRIES):
        try:
            stamp = _stamp(path)
            model = load(path)  # before the digest: it refuses special files, whose bytes might never end
            digest = _digest(path)
            unchanged = stamp == _stamp(path)
        except FileNotFoundError as error:
            raise FormatError("there is no such file", path=path) from error
        except OSError as error:
            raise FormatError(f"cannot be read ({error.strerror})", path=path) from error
        if unchanged:
            _warm(model)
            return Served(model, digest[:16], tuple(feature_names(model)), stamp, time.time())
    raise FormatError("the file keeps changing while it is read; write it elsewhere and move it into place", path=path)


def _warm(model: Ranker) -> None:
    """Score one row, so that no request has to wait for libraries to load or kernels to compile."""
    row = np.zeros((1, model.n_features_in_))
    prepare(model._scorer())
    model.predict(row, group=[1])
    if model._why_no_contributions() is None:
        model.contributions(row)


def _stamp(path: Path) -> Stamp:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
