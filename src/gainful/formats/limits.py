"""Bounds on what a file may ask for: memory, by default what is free, and the length of ids."""

from __future__ import annotations

from gainful.compute.memory import MOST, allowed_memory, is_limit_named, size_text, size_to_type
from gainful.errors import FormatError, option
from gainful.formats.files import PathLike

LONGEST_ID = 1 << 16  # bytes of UTF-8


class MemoryLimit:
    """The memory that reading one file may take: the limit that the user named, or most of the memory that is free."""

    def __init__(self, path: PathLike, max_bytes: int | str | None = None):
        self.path = path
        self.is_named = is_limit_named(max_bytes)
        self.bytes = allowed_memory(max_bytes, share=MOST)

    def check(self, needed: int, what: str, *, instead: str = "", so_far: bool = False) -> None:
        """Raise if ``what`` needs more bytes than the limit; ``instead`` is another remedy than a higher limit.

        ``so_far``: the file has not been read to its end, and may need more.
        """
        if self.bytes is not None and needed > self.bytes:
            raise self.error(needed, what, instead=instead, so_far=so_far)

    def error(self, needed: int, what: str, *, instead: str = "", so_far: bool = False) -> FormatError:
        """The error for ``what``, which needs this many bytes."""
        origin = "" if self.is_named else ", nearly all that is free"
        limit = "" if self.bytes is None else f"; the limit is {size_text(self.bytes)}{origin}"
        remedy = f"{instead}, or raise" if instead else "raise"
        higher = option("max_bytes", size_to_type(2 * needed if so_far else needed))
        takes, enough = ("alone would take", " or more") if so_far else ("would take", "")
        return FormatError(
            f"{what} {takes} {size_text(needed)} of memory{limit}: {remedy} the limit with {higher}{enough}",
            path=self.path,
        )
