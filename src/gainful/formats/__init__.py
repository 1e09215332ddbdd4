"""Read and write ranking data. The suffix of a file, or ``format=``, selects the module that does it.

To add a format, write a module and add a line to :data:`FORMATS`. The module has

- ``read(path, *, …)``: the data of a file;
- ``open_writer(path, data, *, …)``: a :class:`~gainful.formats.files.FileWriter` for one append of ``data``;
- ``open_source(paths, *, …)``: a :class:`~gainful.formats.sources.Source`, which reads the files in bounded memory.
  Without it, conversion reads each file whole.
- ``columns(path, *, …)``, for tables only: the columns, each with name, role and the reason for the role.

The keyword-only parameters are the format's options; ``open_source`` takes those of ``read``. Modules are imported
on first use.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from gainful.data.categories import named_by_words
from gainful.data.dataset import RankingData
from gainful.data.frames import without_codes
from gainful.errors import FormatError, UnknownNameError, option
from gainful.formats.files import COMPRESSIONS, PathLike, check_readable
from gainful.formats.pairs import read_pairs, write_pairs

__all__ = ["FORMATS", "check_format", "known_suffixes", "read", "write"]


@dataclass(frozen=True)
class Format:
    """One file format: the module with its functions, and the suffixes that mean it."""

    module: str
    suffixes: tuple[str, ...]
    compressible: bool = False
    mapped: bool = False  # reading leaves the values in the file
    holds_text: bool = True  # features of text can be written
    fixed: dict[str, Any] = field(default_factory=dict)  # arguments set by the format, not by the caller

    def function(self, name: str) -> Callable[..., Any] | None:
        """A function of the format's module, or None if the format has no such function."""
        found = getattr(importlib.import_module(f"gainful.formats.{self.module}"), name, None)
        return None if found is None else partial(found, **self.fixed)

    def options(self, name: str) -> list[str]:
        """The options of function ``name``."""
        function = self.function(name)
        parameters = {} if function is None else inspect.signature(function).parameters
        return [p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY and p.name not in self.fixed]

    def check_options(self, name: str, verb: str, options: dict[str, Any]) -> None:
        """Refuse an option that function ``name`` does not have; ``verb`` is what users call it."""
        known = self.options(name)
        for given in options:
            if given not in known:
                raise UnknownNameError.among("option", given, known, owner=f"{verb} for this format")


FORMATS = {
    "letor": Format(
        "letor.format",
        (".txt", ".letor", ".svm", ".svmlight", ".libsvm", ".dat", ".train", ".valid", ".vali", ".test"),
        compressible=True,
        holds_text=False,
    ),
    "parquet": Format("table.format", (".parquet",), fixed={"kind": "parquet"}),
    "arrow": Format("table.format", (".arrow", ".feather", ".ipc"), fixed={"kind": "arrow"}),
    "csv": Format("table.format", (".csv",), compressible=True, fixed={"kind": "csv"}),
    "tsv": Format("table.format", (".tsv",), compressible=True, fixed={"kind": "tsv"}),
    "jsonl": Format("json_lines.format", (".jsonl", ".ndjson"), compressible=True),
    "binary": Format("binary.format", (".gnf",), mapped=True, holds_text=False),
}


def read(path: PathLike, format: str | None = None, *, pairs: PathLike | None = None, **options: Any) -> RankingData:
    """Read the ranking data of one file: LETOR/SVMlight text, Parquet, Arrow, CSV, TSV, JSON Lines, gainful's binary.

    ``format`` is a name of :data:`FORMATS`; by default the suffix decides. ``options`` are those of the format. All of
    gainful's own take ``max_bytes``: refuse a file that needs more memory, a number or text such as "4GB"; by default
    the limit is what is free. Everything in the file is checked; a damaged one raises :class:`FormatError`.

    ``pairs`` is a file of preferences, which take the place of the grades (:mod:`gainful.formats.pairs`).
    """
    check_readable(path)
    chosen = format_of(path, format)
    chosen.check_options("read", "read", options)
    data: RankingData = chosen.function("read")(path, **options)  # type: ignore[misc]
    return data if pairs is None else data.with_pairs(read_pairs(pairs, data))


def columns_of(path: PathLike, format: str | None = None, *, pairs: Any = None, **options: Any) -> Any:
    """The columns of a table, each with name, role and the reason for the role; None for other formats.

    Parameters as in :func:`read`.
    """
    columns = format_of(path, format).function("columns")
    return None if columns is None else columns(path, **options)


def write(
    data: RankingData, path: PathLike, format: str | None = None, *, pairs: PathLike | None = None, **options: Any
) -> None:
    """Write ranking data, whole or not at all; its preferences, if it has any, to the file ``pairs``.

    Parameters as in :func:`read`.
    """
    if not isinstance(data, RankingData):
        raise TypeError(f"write needs a RankingData, was {type(data).__name__}")
    if data.has_pairs and pairs is None:
        raise FormatError("preferences need a file of their own; pass pairs=FILE", path=path)
    chosen = format_of(path, format)
    chosen.check_options("open_writer", "write", options)
    for j in named_by_words(data.categories) if not chosen.holds_text else ():
        name = (data.feature_names or ())[j]
        raise FormatError(
            f"feature {name!r} holds text, which this format cannot; write .parquet, .arrow, .csv or .jsonl", path=path
        )
    data = data.replace(X=without_codes(data.X))
    with chosen.function("open_writer")(path, data, **options) as writer:  # type: ignore[misc]
        writer.append(data)
    if pairs is not None:
        write_pairs(data, pairs)


def check_format(path: PathLike, format: str | None = None) -> None:
    """Refuse a path or format name that :func:`write` would refuse, before the work that leads to writing."""
    format_of(path, format)


def name_without_suffix(path: PathLike) -> str:
    """The name of a file without the suffixes that say its format and compression: "shoes" for shoes.csv.gz."""
    name = Path(path).name
    found = max((suffix for suffix in known_suffixes() if name.lower().endswith(suffix)), key=len, default="")
    return name[: len(name) - len(found)] or name


def known_suffixes() -> tuple[str, ...]:
    """All suffixes that :func:`read` knows, compressed ones included."""
    plain = [suffix for chosen in FORMATS.values() for suffix in chosen.suffixes]
    packed = [
        s + c for chosen in FORMATS.values() if chosen.compressible for s in chosen.suffixes for c in COMPRESSIONS
    ]
    return (*plain, *packed)


def format_of(path: PathLike, format: str | None = None) -> Format:
    """The format of a file, by name or by suffix."""
    if format is None:
        return _by_suffix(path)
    if format not in FORMATS:
        raise UnknownNameError.among("format", format, FORMATS)
    return FORMATS[format]


def _by_suffix(path: PathLike) -> Format:
    name = Path(path).name.lower()
    packed = next((suffix for suffix in COMPRESSIONS if name.endswith(suffix)), "")
    suffix = Path(name.removesuffix(packed)).suffix
    for chosen in FORMATS.values():
        if suffix in chosen.suffixes and (chosen.compressible or not packed):
            return chosen
    known = ", ".join(suffix for chosen in FORMATS.values() for suffix in chosen.suffixes)
    given = f"the suffix {suffix + packed!r} is unknown" if suffix + packed else "the file has no suffix"
    raise FormatError(
        f"cannot infer the format: {given}; the known suffixes are {known} (text also with .gz or .zst), or pass "
        f"{option('format')} with one of {', '.join(FORMATS)}",
        path=path,
    )
