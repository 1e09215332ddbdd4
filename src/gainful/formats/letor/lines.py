"""One line of LETOR/SVMlight text, read slowly and with good error messages.

The compiled parser says that a line is malformed; this module says where and why. It accepts exactly the lines that the
compiled parser accepts, so tests use it as the reference.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gainful.errors import option, shorten
from gainful.formats.limits import LONGEST_ID

LARGEST_INDEX = 2**31 - 1
NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z")
MISSING = re.compile(rb"([+-]?nan|null)\Z", re.IGNORECASE)
LAST_INDEX = re.compile(rb"[ \t](\d{1,11})\Z")
INFINITE = re.compile(rb"[+-]?inf(inity)?\Z", re.IGNORECASE)
DOCID = re.compile(rb"docid[ \t]*=[ \t]*([^ \t]+)", re.IGNORECASE)


@dataclass(frozen=True)
class Rules:
    """What a line may contain: the first index, the number of features if it is fixed, the type of the values."""

    zero_based: bool = False
    n_features: int | None = None
    single: bool = False
    with_query: bool = True  # the query id follows the grade


@dataclass(frozen=True)
class Line:
    """The contents of a well-formed line."""

    grade: float
    query: str
    features: tuple[tuple[int, float], ...]  # (column from 0, value), as written
    document: str


class MalformedLine(Exception):
    """``column`` counts characters from 1."""

    def __init__(self, message: str, column: int):
        super().__init__(message)
        self.message, self.column = message, column


@dataclass(frozen=True)
class _Token:
    text: bytes
    at: int


class _Reader:
    """Turns positions in the bytes of one line into columns."""

    def __init__(self, line: bytes, rules: Rules):
        self.line, self.rules = line, rules

    def refuse(self, message: str, at: int) -> MalformedLine:
        return MalformedLine(message, len(self.line[:at].decode("utf-8", "replace")) + 1)

    def text(self, token: _Token, what: str) -> str:
        if len(token.text) > LONGEST_ID:
            raise self.refuse(f"the {what} is longer than {LONGEST_ID:,} bytes", token.at)
        if b"\0" in token.text:
            raise self.refuse(f"the {what} holds a NUL byte", token.at + token.text.index(b"\0"))
        try:
            return token.text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.refuse(f"the {what} is not UTF-8 text", token.at + error.start) from None

    def number(self, token: _Token, expected: str) -> float:
        """The number or NaN in a token."""
        if INFINITE.match(token.text):
            raise self.refuse(f"{expected}, found {_show(token.text)}; numbers must be finite", token.at)
        value = read_number(token.text)
        if value is None:
            raise self.refuse(f"{expected}, found {_show(token.text)}", token.at)
        if math.isinf(value):
            raise self.refuse(f"{expected}, found {_show(token.text)}, too large for float64", token.at)
        return value

    def grade(self, token: _Token) -> float:
        expected = "expected a grade (a number, 0 or more) at the start of the line"
        value = self.number(token, expected)
        if math.isnan(value):
            raise self.refuse(f"{expected}, found {_show(token.text)}; a grade cannot be missing", token.at)
        if value < 0:
            raise self.refuse(f"{expected}, found {_show(token.text)}", token.at)
        return value

    def query(self, token: _Token | None, end: int) -> str:
        if token is None or not token.text.startswith(b"qid:"):
            found = _show(token.text) if token else "the end of the line"
            message = (
                f"expected 'qid:' and the query id after the grade, found {found}; ranking needs a query id, or a file "
                "FILE.query beside the data with the number of rows of each query"
            )
            raise self.refuse(message, token.at if token else end)
        if len(token.text) == 4:
            raise self.refuse("expected a query id right after 'qid:', found none", token.at + 4)
        return self.text(_Token(token.text[4:], token.at + 4), "query id")

    def feature(self, token: _Token) -> tuple[int, float]:
        name, colon, value = token.text.partition(b":")
        if not colon:
            raise self.refuse(f"expected 'index:value', found {_show(token.text)}", token.at)
        if not re.fullmatch(rb"\d+", name):
            raise self.refuse(f"expected a feature index before ':', found {_show(name)}", token.at)
        index = self._index(name, token.at)
        expected = f"expected a number after '{index}:'"
        place = _Token(value, token.at + len(name) + 1)
        if not value:
            raise self.refuse(f"{expected}, found nothing", place.at)
        number = self.number(place, expected)
        if self.rules.single and math.isfinite(number) and abs(number) > 1e38:
            with np.errstate(over="ignore"):
                overflows = np.isinf(np.float32(number))
            if overflows:
                raise self.refuse(f"{expected}, found {_show(value)}, too large for float32", place.at)
        return index - (0 if self.rules.zero_based else 1), number

    def _index(self, name: bytes, at: int) -> int:
        index = int(name[-4000:]) if name.strip(b"0") else 0
        first = 0 if self.rules.zero_based else 1
        if index < first:
            raise self.refuse(
                f"feature indices start at 1, found 0; pass {option('zero_based', True)} if they start at 0", at
            )
        if len(name.lstrip(b"0")) > 10 or index > LARGEST_INDEX - 1 + first:
            raise self.refuse(f"feature index {shorten(name.decode())} is too large", at)
        limit = self.rules.n_features
        if limit is not None and index >= limit + first:
            raise self.refuse(f"feature {index} is beyond the {limit} features expected", at)
        return index


def read_number(text: bytes) -> float | None:
    """The number in ``text``, NaN if it means missing, None if it is malformed."""
    if NUMBER.match(text):
        return float(text)
    return math.nan if MISSING.match(text) else None


def is_text(text: bytes) -> bool:
    """Whether the bytes can be an id: UTF-8 without NUL."""
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in text


def read_line(line: bytes, rules: Rules) -> Line | None:
    """The contents of the line, None if it is blank or a comment; raises :class:`MalformedLine`."""
    reader = _Reader(line, rules)
    body, _, comment = line.removesuffix(b"\n").removesuffix(b"\r").partition(b"#")
    if not body.strip(b" \t"):
        return None
    tokens = _tokens(body)
    grade = reader.grade(_until_return(next(tokens)))
    query = ""
    if rules.with_query:
        second = next(tokens, None)
        query = reader.query(None if second is None else _until_return(second), len(body))
    features, seen = [], set()
    for token in tokens:
        if token.text.startswith(b"\r"):
            break
        token = _until_return(token)
        index, value = reader.feature(token)
        if index in seen:
            name = index + (0 if rules.zero_based else 1)
            raise reader.refuse(f"feature {name} is given twice on this line", token.at)
        seen.add(index)
        features.append((index, value))
    if b"\r" in body:
        raise reader.refuse("a carriage return inside the line", body.index(b"\r"))
    return Line(grade, query, tuple(features), _document(reader, comment, len(body) + 1))


def explain(line: bytes, rules: Rules) -> MalformedLine:
    """What is wrong with a line that the compiled parser refused."""
    try:
        read_line(line, rules)
    except MalformedLine as error:
        return error
    return MalformedLine("the line is malformed", 1)


def names_query(line: bytes) -> bool:
    """Whether the second token of a row is a query id."""
    tokens = line.partition(b"#")[0].split(None, 2)
    return len(tokens) > 1 and tokens[1].startswith(b"qid:")


def is_data_line(line: bytes) -> bool:
    """Whether the line is a row, rather than blank or a comment."""
    return bool(line.removesuffix(b"\n").removesuffix(b"\r").partition(b"#")[0].strip(b" \t"))


def _tokens(body: bytes) -> Iterator[_Token]:
    return (_Token(match.group(), match.start()) for match in re.finditer(rb"[^ \t]+", body))


def _until_return(token: _Token) -> _Token:
    """The token up to a carriage return, which is refused separately at the end."""
    return _Token(token.text.partition(b"\r")[0], token.at)


def _document(reader: _Reader, comment: bytes, at: int) -> str:
    start, stop = find_document(comment)
    return reader.text(_Token(comment[start:stop], at + start), "document id")


def find_document(comment: bytes) -> tuple[int, int]:
    """The place of the document id in a comment, which is the text after ``#``."""
    stop = len(comment.rstrip(b" \t\r"))
    start = min(stop, len(comment) - len(comment.lstrip(b" \t")))
    named = DOCID.match(comment, start, stop)
    return named.span(1) if named else (start, stop)


def count_lines(text: bytes) -> tuple[int, int, int, int]:
    """Rows, lines, values (at most) and the largest last index (-1 without features): the compiled ``scan``, slowly."""
    lines = text.removesuffix(b"\n").split(b"\n")
    rows, values, widest = 0, 0, -1
    for line in filter(is_data_line, lines):
        rows += 1
        before, colon, _ = line.partition(b"#")[0].rpartition(b":")
        values += before.count(b":")
        last = LAST_INDEX.search(before[-12:]) if colon else None
        widest = max(widest, int(last.group(1))) if last else widest
    return rows, len(lines), values, widest


def _show(text: bytes) -> str:
    return shorten(text.decode("utf-8", "replace"))
