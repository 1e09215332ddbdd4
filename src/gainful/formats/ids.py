"""Query and document ids in files: 64-bit integers or strings."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gainful.data.rows import Array
from gainful.errors import DataError, FormatError, shorten
from gainful.formats.files import PathLike
from gainful.formats.limits import LONGEST_ID


def plain_ids(ids: Array, what: str, path: PathLike) -> Array:
    """The ids as int64 or strings (a NumPy string array, or objects that are all str); raises for anything else."""
    if ids.dtype.kind == "U":
        return ids
    if ids.dtype.kind in "iu":
        if ids.dtype == np.uint64 and len(ids) and ids.max() > np.iinfo(np.int64).max:
            raise FormatError(
                f"the {what} {ids.max()} does not fit into a signed 64-bit integer; use strings", path=path
            )
        return ids.astype(np.int64, copy=False)
    if ids.dtype == object:
        odd = next((value for value in ids.tolist() if not isinstance(value, str)), None)
        if odd is None:
            return ids
    else:
        odd = ids[:1].tolist()[0]
    raise FormatError(
        f"files hold integers or strings as {what}s, not {type(odd).__name__} such as {shorten(odd)}; turn them into "
        "strings first",
        path=path,
    )


def check_ids(texts: Iterable[str | None], what: str) -> None:
    """Refuse ids that are too long, and NULs, which NumPy drops at the end of a text."""
    for text in texts:
        if text is not None and (len(text) > LONGEST_ID // 4 or "\0" in text):
            if "\0" in text:
                raise DataError(f"the {what} holds a NUL character: {shorten(text)}")
            if len(text.encode()) > LONGEST_ID:
                raise DataError(f"the {what} is longer than {LONGEST_ID:,} bytes: {shorten(text[:100])}")


def encode(text: str, what: str, path: PathLike) -> bytes:
    """UTF-8 bytes of an id."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise FormatError(f"the {what} {shorten(text)} is not valid Unicode text", path=path) from None


def encode_all(texts: list[str], what: str, path: PathLike) -> list[bytes]:
    """UTF-8 bytes of each id."""
    try:
        return list(map(str.encode, texts))  # half the time of a call of ours per id
    except UnicodeEncodeError:
        return [encode(text, what, path) for text in texts]  # raises for the first bad one


def string_array(texts: list[str]) -> Array:
    """Strings as a NumPy array.

    All strings of a NumPy array are as wide as the widest, and lose trailing NULs. If that would be mostly padding, or
    lose something, they stay objects.
    """
    width = max(map(len, texts), default=0)
    total = sum(map(len, texts))
    if width * len(texts) > 8 * total + (1 << 20) or any(text.endswith("\0") for text in texts):
        objects = np.empty(len(texts), dtype=object)
        objects[:] = texts
        return objects
    return np.array(texts, dtype=f"U{max(width, 1)}")


def integers_if_canonical(ids: Array) -> Array:
    """Strings as int64 if each is the canonical decimal form of one, else unchanged."""
    try:
        numbers = ids.astype(np.int64)
    except (ValueError, OverflowError):
        return ids
    return numbers if [str(number) for number in numbers.tolist()] == ids.tolist() else ids
