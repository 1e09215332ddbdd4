"""Comment lines ``# gainful KEY = JSON`` at the top of a text file: what the rows cannot express.

Other readers skip them as comments. The writer adds only those needed to read back the same data.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gainful.data.rows import is_unicode
from gainful.errors import FormatError, shorten
from gainful.formats.files import Bytes, PathLike
from gainful.formats.letor.lines import LARGEST_INDEX

NO_ROWS = re.compile(rb"[ \t\r\n]*+(?:#[^\n]*+\n[ \t\r\n]*+)*+(?:#[^\n]*+)?")  # blank lines and comments
KEYWORD = re.compile(rb"gainful[ \t]+[a-z_]+[ \t]*=")
ENTRY = re.compile(rb"#[ \t]*gainful[ \t]+([a-z_]+)[ \t]*=[ \t]*(.*)\Z", re.DOTALL)


@dataclass
class Header:
    """The contents of these lines; None for absent ones."""

    feature_names: tuple[str, ...] | None = None
    query_weights: npt.NDArray[np.float64] | None = None
    document_weights: npt.NDArray[np.float64] | None = None
    n_features: int | None = None
    dtype: str | None = None
    sparse: bool | None = None
    query_ids: str | None = None
    doc_ids: str | None = None

    def columns(self, path: PathLike) -> int | None:
        """The number of features, if the header gives it."""
        named = None if self.feature_names is None else len(self.feature_names)
        if named is not None and self.n_features not in (None, named):
            raise FormatError(f"{named} feature names are given for {self.n_features} features", path=path)
        return self.n_features if named is None else named

    def weights(self, path: PathLike, n_queries: int) -> npt.NDArray[np.float64] | None:
        if self.query_weights is not None and len(self.query_weights) != n_queries:
            raise FormatError(
                f"{len(self.query_weights)} query weights are given for {n_queries} queries; the file was edited after "
                "it was written: remove the line '# gainful query_weights'",
                path=path,
            )
        return self.query_weights

    def row_weights(self, path: PathLike, n_rows: int) -> npt.NDArray[np.float64] | None:
        """The weight of each row, in the order of the lines."""
        if self.document_weights is not None and len(self.document_weights) != n_rows:
            raise FormatError(
                f"{len(self.document_weights)} weights of documents are given for {n_rows} rows; the file was edited "
                "after it was written: remove the line '# gainful document_weights'",
                path=path,
            )
        return self.document_weights


def end_of_header(buf: Bytes, start: int, stop: int) -> int:
    """Where the blank lines and comments at the start of ``buf[start:stop]`` end."""
    found = NO_ROWS.match(buf.data, start, stop)
    return found.end() if found else start


def read_header(path: PathLike, text: bytes, line: int, header: Header) -> None:
    """Add the comments in ``text``, which has no rows, to ``header``; ``line`` lines precede it."""
    at = counted = 0
    while keyword := KEYWORD.search(text, at):  # line by line in Python, millions of blank lines would take minutes
        start, at = text.rfind(b"\n", 0, keyword.start()) + 1, text.find(b"\n", keyword.end())
        at = len(text) if at < 0 else at
        line += text.count(b"\n", counted, start)
        counted = start
        entry = ENTRY.match(text[start:at].strip())
        if entry:
            _take(path, line + 1, header, entry.group(1).decode(), entry.group(2))


def _take(path: PathLike, line: int, header: Header, key: str, text: bytes) -> None:
    if key not in header.__dataclass_fields__:
        return  # an ordinary comment, or one from a later version
    try:
        value = _check_value(key, json.loads(_decode(text)))
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        message = f"the comment '# gainful {key}' is malformed: {shorten(str(error))}"
        raise FormatError(message, path=path, line=line) from None
    setattr(header, key, value)


def _decode(text: bytes) -> str:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 text at byte {error.start + 1} of the value") from None


def _check_value(key: str, value: Any) -> Any:
    if key == "feature_names":
        if not (isinstance(value, list) and all(isinstance(name, str) for name in value)):
            raise ValueError("expected a list of strings")
        if len(set(value)) < len(value):
            raise ValueError("a name is given twice")
        if not all(map(is_unicode, value)):
            raise ValueError("a name is not valid Unicode text")
        return tuple(value)
    if key in ("query_weights", "document_weights"):
        if not (isinstance(value, list) and all(type(weight) in (int, float) for weight in value)):
            raise ValueError("expected a list of numbers")
        weights = np.array(value, dtype=np.float64)
        if not np.isfinite(weights).all() or (weights < 0).any():  # in a shard, all may be 0
            raise ValueError("weights must be finite and not negative")
        return weights
    allowed: dict[str, Any] = {
        "dtype": ("float32", "float64"),
        "sparse": (True, False),
        "query_ids": ("int", "str"),
        "doc_ids": ("int", "str"),
    }
    if key == "n_features":
        if type(value) is not int or not 0 <= value <= LARGEST_INDEX:
            raise ValueError("expected a number of features")
    elif not any(value is option or (isinstance(value, str) and value == option) for option in allowed[key]):
        raise ValueError(f"expected one of {', '.join(json.dumps(option) for option in allowed[key])}")
    return value
