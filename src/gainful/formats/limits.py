"""Bounds on what a file may ask for: memory, by default what is free, and the length of ids."""

from __future__ import annotations

import math
from typing import Any

from gainful.compute.memory import SPARED, allowed_memory, size_text
from gainful.errors import FormatError, ParameterError, option
from gainful.formats.files import PathLike

LONGEST_ID = 1 << 16  # bytes of UTF-8


class MemoryLimit:
    """The memory that reading one file may take: ``max_bytes``, or most of the memory that is free."""

    def __init__(self, path: PathLike, max_bytes: int | str | None = None):
        self.path = path
        self.is_default = max_bytes is None
        free = allowed_memory(None) if max_bytes is None else None
        self.bytes = parse_size(max_bytes) if max_bytes is not None else None if free is None else _most_of(free)

    def check(self, needed: int, what: str, *, instead: str = "") -> None:
        """Raise if ``what`` needs more bytes than the limit; ``instead`` is another remedy than a higher limit."""
        if self.bytes is not None and needed > self.bytes:
            raise self.error(needed, what, instead=instead)

    def error(self, needed: int, what: str, *, instead: str = "") -> FormatError:
        """The error for ``what``, which needs this many bytes."""
        origin = ", nearly all that is free" if self.is_default else ""
        limit = "" if self.bytes is None else f"; the limit is {size_text(self.bytes)}{origin}"
        remedy = f"{instead}, or raise" if instead else "raise"
        higher = option("max_bytes", _rounded_up(needed))
        return FormatError(
            f"{what} would take {size_text(needed)} of memory{limit}: {remedy} the limit with {higher}", path=self.path
        )


def parse_size(value: Any) -> int | None:
    """A number of bytes: an integer, or text such as "500MB", "1.5 GB" or "2GiB"; None for "off"."""
    try:
        size = None if isinstance(value, float) else allowed_memory(value)
    except ParameterError:
        size = 0
    if value is None or isinstance(value, float) or (size is not None and size < 1):
        raise ParameterError.of("read", "max_bytes", "a number of bytes, or a size such as '500MB' or '4GB'", value)
    return size


def _rounded_up(n_bytes: int) -> str:
    """The size as it is typed: "4GB"."""
    unit, size = next(((u, s) for u, s in (("GB", 1e9), ("MB", 1e6)) if n_bytes >= s), ("KB", 1e3))
    return f"{math.ceil(n_bytes / size)}{unit}"


def _most_of(free: int) -> int:
    return int((1 - SPARED) * free)
