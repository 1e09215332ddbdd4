"""Results stored as they arrive: one file of JSON lines per ranker and fold, safe against a kill at any moment.

The first line says what the results belong to: fingerprints of the data, the ranker and everything else they depend on.
A file with results of anything else is refused. Each further line is one result, flushed to disk before the next work
begins. A line cut short by a kill is dropped. Every line ends with a checksum of itself; a line that does not match it
is an error, since a changed number or label would change the results unseen.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np

from gainful.data.dataset import ROW_COLUMNS, RankingData
from gainful.errors import FormatError
from gainful.formats.files import reason
from gainful.losses import Loss
from gainful.persistence.jsonable import plain

FORMAT = 3
WHAT = {
    "format": "a newer or older layout",
    "version": "another version of gainful",
    "libraries": "another version of Python, or of a library that training uses",
    "data": "other data, or another division of it",
    "metric": "another metric",
    "ranker": "another ranker, or other parameters of it",
    "space": "another search space",
    "search": "another search",
    "seed": "another seed",
    "pruning": "another choice of pruning",
}


SUMMED = re.compile(rb'(\{.*), "sum": "([0-9a-f]{16})"\}', re.DOTALL)  # a line: its row, and the checksum of that
RESERVED = re.compile(r"con|prn|aux|nul|(com|lpt)[0-9]")  # name devices on Windows, with any suffix
DAMAGED = "is damaged; remove this line to compute its result again, or the file to compute all of them again"
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "lightgbm", "torch")


class StoreError(FormatError):
    """A file of results that cannot be read or written, or holds other results; not the fault of a ranker."""


def libraries() -> dict[str, str]:
    """The versions of Python, which compiles a user's functions, and of the libraries that a result may depend on."""
    found = {"python": f"{sys.version_info.major}.{sys.version_info.minor}"}
    for name in LIBRARIES:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def version() -> str:
    """The version of gainful; imported late, because the package itself imports this module."""
    return str(import_module("gainful").__version__)


def fingerprint(*values: Any) -> str:
    """A short hash of data sets and JSON values; equal contents have equal fingerprints."""
    digest = hashlib.blake2b(digest_size=12)
    for value in values:
        if isinstance(value, RankingData):
            _digest_data(digest, value)
        else:
            text = json.dumps(plain(_describe(value)), sort_keys=True, ensure_ascii=True)
            digest.update(re.sub(r" at 0x[0-9a-f]+", "", text).encode())
        digest.update(b"\0")
    return digest.hexdigest()


def _describe(value: Any) -> Any:
    """``value`` with functions replaced by their code, since different functions may share a name (all lambdas do)."""
    if isinstance(value, Mapping):
        return {name: _describe(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_describe(item) for item in value]
    if isinstance(value, partial):
        return [_describe(value.func), _describe(value.args), _describe(value.keywords)]
    if isinstance(value, Loss):
        return [str(value), _describe(value.entry.bind)]
    function = getattr(value, "py_func", value)  # if numba compiled it
    if not inspect.isfunction(function):
        return value
    held = [one for cell in function.__closure__ or () if (one := cell.cell_contents) is not function]
    return [
        function.__module__,
        function.__qualname__,
        _describe([held, function.__defaults__]),
        _code(function.__code__),
    ]


def _code(code: Any) -> list[Any]:
    """What a function does, independent of its position in the file."""
    inner = [_code(one) if inspect.iscode(one) else plain(one) for one in code.co_consts]
    return [code.co_code.hex(), list(code.co_names), inner]


def _digest_data(digest: Any, data: RankingData) -> None:
    X = [data.X] if not data.is_sparse else [data.X.data, data.X.indices, data.X.indptr]
    pairs = () if data.pairs is None else (data.pairs.better, data.pairs.worse, data.pairs.weight)
    columns = (getattr(data, name) for name in ROW_COLUMNS)
    for array in (*X, data.y, data.offsets, data.query_weights, *columns, *pairs):
        if array is not None:
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
    digest.update(f"{data.X.shape}{data.feature_names}{data.query_ids.tolist()}".encode())


class Store:
    """One file of results. ``key`` says what they belong to; ``rows`` holds all results so far, in order."""

    def __init__(self, path: str | Path, key: Mapping[str, Any]):
        self.path = Path(path)
        self._key = plain({"format": FORMAT, **key})
        self._append_lock = threading.Lock()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self.path, "a+b", buffering=0)  # noqa: SIM115  (closed by close)
        except OSError as error:
            raise StoreError(f"cannot be written: {reason(error)}", path=self.path) from None
        try:
            self._lock()
            self.rows = self._read()
        except BaseException:
            self._file.close()
            raise

    @staticmethod
    def check(path: str | Path, key: Mapping[str, Any]) -> None:
        """Refuse a file that ``Store(path, key)`` would refuse, without keeping it open."""
        path = Path(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not os.access(path if path.exists() else path.parent, os.W_OK):
                raise StoreError("cannot be written: permission denied", path=path)
            head = b""
            if path.exists():
                with open(path, "rb") as file:
                    head = file.readline()
        except OSError as error:
            raise StoreError(f"cannot be written: {reason(error)}", path=path) from None
        if head.endswith(b"\n"):
            _refuse_other_key(path, _parse_head(path, head), plain({"format": FORMAT, **key}))

    def append(self, row: Mapping[str, Any]) -> None:
        """Write one result; it is on disk when this returns."""
        text = json.dumps(row)
        with self._append_lock:
            self._write(_line(text))
            self.rows.append(json.loads(text))

    def damage(self, row: int) -> StoreError:
        """The error for a row, by its number in ``rows``, that lacks something or holds the wrong thing."""
        return StoreError(DAMAGED, path=self.path, line=row + 2)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _write(self, line: bytes) -> None:
        size = os.fstat(self._file.fileno()).st_size
        try:
            written = 0
            while written < len(line):
                written += self._file.write(line[written:]) or 0
            os.fsync(self._file.fileno())
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(size)  # half a row is of no use
            raise StoreError(f"cannot be written: {reason(error)}", path=self.path) from None

    def _lock(self) -> None:
        """Refuse a file that another run is writing."""
        with suppress(ImportError):  # systems without this lock have no protection
            import fcntl

            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                message = "another run is writing it; give this one its own folder"
                raise StoreError(message, path=self.path) from None

    def _read(self) -> list[dict[str, Any]]:
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):  # a kill cut the last line short
            self._file.truncate(whole)
        lines = content[:whole].splitlines()
        if not lines:
            self._write(_line(json.dumps({"gainful": "results", **self._key})))
            return []
        _refuse_other_key(self.path, _parse_head(self.path, lines[0]), self._key)
        return [_parse(self.path, number, line) for number, line in enumerate(lines[1:], start=2)]


def _line(text: str) -> bytes:
    """A JSON object as a line with its checksum."""
    row = text.encode()[:-1]
    return b'%s, "sum": "%s"}\n' % (row, _sum(row))


def _sum(row: bytes) -> bytes:
    return hashlib.blake2b(row, digest_size=8).hexdigest().encode()


def _parse(path: Path, number: int, line: bytes) -> dict[str, Any]:
    """The JSON object of a line that matches its checksum."""
    row = _checked_row(line)
    if row is None:
        raise StoreError(DAMAGED, path=path, line=number)
    return row


def _checked_row(line: bytes) -> dict[str, Any] | None:
    """The JSON object of a line; None if it does not match its checksum, or is not JSON."""
    found = SUMMED.fullmatch(line)
    if found is None or _sum(found[1]) != found[2]:
        return None
    row: dict[str, Any] | None = _parse_json(found[1] + b"}")
    return row


def _parse_json(text: bytes) -> Any:
    """The value of a JSON text; None if it is not JSON, or nested too deeply."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _parse_head(path: Path, line: bytes) -> dict[str, Any]:
    """The first line. That of another file or layout may have no checksum, and is refused for what it is."""
    row = _parse_json(line)
    if isinstance(row, dict) and (row.get("gainful") != "results" or row.get("format") != FORMAT):
        return row
    head = _checked_row(line.rstrip(b"\n"))
    if head is None:
        raise StoreError("is damaged; remove the file to compute its results again", path=path, line=1)
    return head


def _refuse_other_key(path: Path, head: Mapping[str, Any], key: Mapping[str, Any]) -> None:
    if head.get("gainful") != "results":
        raise StoreError("does not hold gainful results; give another folder", path=path)
    for name in (*WHAT, *key):
        if head.get(name) != key.get(name):
            raise StoreError(
                f"holds results of {WHAT.get(name, f'another {name}')}; give another folder, or remove the file",
                path=path,
            )


def file_name(label: str, part: str = "") -> str:
    """A readable file name, different for different labels, also where names that differ by case are one."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", label).strip("-")[:40] or "ranker"
    is_plain = re.fullmatch(r"[a-z0-9-]{1,40}", label) and not re.fullmatch(RESERVED, label)
    tail = "" if is_plain else f"-{fingerprint(label)[:8]}"
    return f"{words}{tail}{'.' + part if part else ''}.jsonl"
