"""Reading and writing ranking data. The suffix of a file, or ``format=``, says which module does it.

Adding a format is one entry of :data:`FORMATS` and a module with ``read(path, …)`` and ``write(data, path, …)``. The
keyword-only parameters of these two are the format's options. Modules are imported when they are first needed.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gainful.data.dataset import RankingData
from gainful.data.frames import without_codes
from gainful.errors import FormatError, UnknownNameError, option
from gainful.formats.files import COMPRESSIONS, PathLike, check_readable

__all__ = ["FORMATS", "check_format", "known_suffixes", "read", "write"]


@dataclass(frozen=True)
class Format:
    """One file format: where its functions are, what they are called with, and the suffixes that mean it."""

    module: str
    suffixes: tuple[str, ...]
    compressible: bool = False
    fixed: dict[str, Any] = field(default_factory=dict)  # arguments that the format sets, not the caller


FORMATS = {
    "letor": Format("letor", (".txt", ".letor", ".svm", ".svmlight", ".libsvm", ".dat"), compressible=True),
    "parquet": Format("table", (".parquet",), fixed={"kind": "parquet"}),
    "arrow": Format("table", (".arrow", ".feather", ".ipc"), fixed={"kind": "arrow"}),
    "csv": Format("table", (".csv",), compressible=True, fixed={"kind": "csv"}),
    "tsv": Format("table", (".tsv",), compressible=True, fixed={"kind": "tsv"}),
    "binary": Format("binary", (".gnf",)),
}


def read(path: PathLike, format: str | None = None, **options: Any) -> RankingData:
    """Read ranking data: LETOR/SVMlight text, Parquet, Arrow, CSV, TSV or gainful's binary.

    ``format`` is a name of :data:`FORMATS`; by default the suffix decides. ``options`` are those of the format.
    """
    check_readable(path)
    call = function_of("read", path, format, options)
    data: RankingData = call(path, **options)
    return data


def columns_of(path: PathLike, format: str | None = None, **options: Any) -> dict[str, list[str]] | None:
    """Which columns of a table play which role (query, grade, document, weight, feature); None for other formats.

    Parameters as in :func:`read`.
    """
    chosen = format_of(path, format)
    if chosen.module != "table":
        return None
    from gainful.formats.table import reader as table

    return table.columns(path, **options, **chosen.fixed)


def write(data: RankingData, path: PathLike, format: str | None = None, **options: Any) -> None:
    """Write ranking data, whole or not at all. Parameters as in :func:`read`."""
    if not isinstance(data, RankingData):
        raise TypeError(f"write needs a RankingData, was {type(data).__name__}")
    data = data.replace(X=without_codes(data.X))
    function_of("write", path, format, options)(data, path, **options)


def check_format(path: PathLike, format: str | None = None) -> None:
    """Refuse a path or format name that :func:`write` would refuse, before the work that leads to writing."""
    format_of(path, format)


def known_suffixes() -> tuple[str, ...]:
    """All suffixes that :func:`read` knows, compressed ones included."""
    plain = [suffix for chosen in FORMATS.values() for suffix in chosen.suffixes]
    packed = [
        s + c for chosen in FORMATS.values() if chosen.compressible for s in chosen.suffixes for c in COMPRESSIONS
    ]
    return (*plain, *packed)


def format_of(path: PathLike, format: str | None = None) -> Format:
    """The format of a file, by name or by suffix."""
    return _by_suffix(path) if format is None else _by_name(format)


def function_of(name: str, path: PathLike, format: str | None, options: dict[str, Any]) -> Callable[..., Any]:
    """``read`` or ``write`` of a file's format; an option that it does not have is refused."""
    chosen = format_of(path, format)
    function = getattr(importlib.import_module(f"gainful.formats.{chosen.module}.reader"), name)
    parameters = inspect.signature(function).parameters.values()
    known = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in chosen.fixed]
    for given in options:
        if given not in known:
            raise UnknownNameError.among("option", given, known, owner=f"{name} for this format")

    def call(*arguments: Any, **given: Any) -> Any:
        return function(*arguments, **given, **chosen.fixed)

    return call


def _by_name(name: str) -> Format:
    if name not in FORMATS:
        raise UnknownNameError.among("format", name, FORMATS)
    return FORMATS[name]


def _by_suffix(path: PathLike) -> Format:
    name = Path(path).name.lower()
    packed = next((suffix for suffix in COMPRESSIONS if name.endswith(suffix)), "")
    suffix = Path(name.removesuffix(packed)).suffix
    for chosen in FORMATS.values():
        if suffix in chosen.suffixes and (chosen.compressible or not packed):
            return chosen
    known = ", ".join(suffix for chosen in FORMATS.values() for suffix in chosen.suffixes)
    given = repr(suffix + packed) if suffix + packed else "no suffix"
    raise FormatError(
        f"the format cannot be told from {given}; the suffixes known are {known} (text also with .gz or .zst), "
        f"or pass {option('format')} with one of {', '.join(FORMATS)}",
        path=path,
    )
