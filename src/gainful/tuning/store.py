"""Results on disk as they come: a file of JSON lines for each ranker and fold, which survives a kill at any moment.

The first line says what the file belongs to: a fingerprint of the data, of the ranker and of everything else that a
result depends on. A file that belongs to something else is refused, never mixed in. Each further line is one result,
written and flushed to the disk before the next piece of work begins. A line that a kill cut short is dropped.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from gainful.data import RankingData
from gainful.errors import FormatError
from gainful.formats.files import reason
from gainful.jsonable import plain

FORMAT = 1
WHAT = {
    "format": "a newer or older layout",
    "version": "another version of gainful",
    "data": "other data, or of another division of it",
    "metric": "another metric",
    "ranker": "another ranker, or other parameters of it",
    "space": "another search space",
    "search": "another search",
    "seed": "another seed",
    "pruning": "another choice of pruning",
}


def version() -> str:
    """The version of gainful; asked for by name, since the package itself imports from here."""
    return str(import_module("gainful").__version__)


def fingerprint(*values: Any) -> str:
    """A short hash of data sets and of what JSON can hold; equal contents have equal fingerprints."""
    digest = hashlib.blake2b(digest_size=12)
    for value in values:
        if isinstance(value, RankingData):
            _digest_data(digest, value)
        else:
            text = json.dumps(plain(value), sort_keys=True, ensure_ascii=True)
            digest.update(re.sub(r" at 0x[0-9a-f]+", "", text).encode())  # a function is known by its name
        digest.update(b"\0")
    return digest.hexdigest()


def _digest_data(digest: Any, data: RankingData) -> None:
    X = [data.X] if not data.is_sparse else [data.X.data, data.X.indices, data.X.indptr]
    for array in (*X, data.y, data.offsets, data.query_weights):
        if array is not None:
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
    digest.update(f"{data.X.shape}{data.feature_names}{data.query_ids.tolist()}".encode())


class Store:
    """One file of results. ``key`` says what they belong to; ``rows`` holds those that were there, in order."""

    def __init__(self, path: str | Path, key: Mapping[str, Any]):
        self.path = Path(path)
        self._key = plain({"format": FORMAT, **key})
        self._lock = threading.Lock()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self.path, "a+b")  # noqa: SIM115  (closed by close)
        except OSError as error:
            raise FormatError(f"cannot be written: {reason(error)}", path=self.path) from None
        try:
            self._refuse_company()
            self.rows = self._read()
        except BaseException:
            self._file.close()
            raise

    def append(self, row: Mapping[str, Any]) -> None:
        """Write one result; it is on the disk when this returns."""
        line = json.dumps(row).encode() + b"\n"
        with self._lock:
            self._write(line)
            self.rows.append(json.loads(line))

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _write(self, line: bytes) -> None:
        try:
            self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise FormatError(f"cannot be written: {reason(error)}", path=self.path) from None

    def _refuse_company(self) -> None:
        """Two runs that write one file would each lose track of it."""
        with suppress(ImportError):  # where there is no such lock the user has to take care
            import fcntl

            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                message = "another run is writing it; give this one a folder of its own"
                raise FormatError(message, path=self.path) from None

    def _read(self) -> list[dict[str, Any]]:
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):  # a kill cut the last line short
            self._file.truncate(whole)
        lines = content[:whole].splitlines()
        if not lines:
            self._write(json.dumps({"gainful": "results", **self._key}).encode() + b"\n")
            return []
        rows = []
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError("no object")
            except ValueError:
                raise FormatError(
                    "is damaged; remove the file and its results are computed anew", path=self.path, line=number
                ) from None
            rows.append(row)
        self._refuse_other_key(rows[0])
        return rows[1:]

    def _refuse_other_key(self, head: Mapping[str, Any]) -> None:
        if head.get("gainful") != "results":
            raise FormatError("does not hold results of gainful; give another folder", path=self.path)
        for name in (*WHAT, *self._key):
            if head.get(name) != self._key.get(name):
                raise FormatError(
                    f"holds results of {WHAT.get(name, f'another {name}')}; give another folder, or remove the file",
                    path=self.path,
                )


def file_name(label: str, part: str = "") -> str:
    """A file name for a label: readable, and different for different labels."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", label).strip("-")[:40] or "ranker"
    tail = "" if re.fullmatch(r"[A-Za-z0-9-]{1,40}", label) else f"-{fingerprint(label)[:8]}"
    return f"{words}{tail}{'.' + part if part else ''}.jsonl"
