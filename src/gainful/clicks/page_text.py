"""Two text forms of result pages, which public click logs come in.

``serps``: pages end with a semicolon or a line::

    query<TAB>document,document,… : clicked , clicked;

``lists``: one page per line, with lists of equal length; types are not used, grades may be absent::

    session<TAB>query<TAB>[document, …]<TAB>[type, …]<TAB>[click, …]<TAB>[grade, …]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gainful.errors import FormatError, shorten
from gainful.formats.files import PathLike, check_readable, compression_of, decompress, text_chunks
from gainful.formats.letor.lines import read_number

TEXT_FORMS = ("serps", "lists")
CHUNK_BYTES = 8 << 20
HEAD_BYTES = 1 << 16


class TextPage(NamedTuple):
    """One page: clicks by document for ``serps``, by place for ``lists``."""

    session: str | None
    query: str
    documents: list[str]
    clicked: list[bool]
    grades: list[float] | None
    not_shown: int  # clicks on documents that are not on the page
    repeated: int  # further clicks on a clicked document


def text_form(path: PathLike) -> str:
    """Which of the two forms a file has, by its first line."""
    check_readable(path)
    if compression_of(path) is None:
        with open(path, "rb") as file:
            head = file.read(HEAD_BYTES)
    else:
        head = next(decompress(path), b"")[:HEAD_BYTES]
    first = next((line for line in head.split(b"\n") if line.strip()), b"").decode("utf-8", "replace")
    fields = first.split("\t")
    if len(fields) in (5, 6) and fields[2].strip().startswith("["):
        return "lists"
    if len(fields) >= 2 and ":" in fields[1] and not fields[1].startswith("["):
        return "serps"
    raise FormatError(
        f"is not a click log in text: expected query<TAB>document,… : clicked,…; or "
        f"session<TAB>query<TAB>[documents]<TAB>[types]<TAB>[clicks], found {shorten(first)}",
        path=path,
        line=1,
    )


def read_pages(path: PathLike, form: str) -> Iterator[TextPage]:
    """The pages of a file, one after another; the text is never whole in memory."""
    parse = _parse_serp if form == "serps" else _parse_lists
    for number, line in _lines(path):
        for part in line.split(";") if form == "serps" else (line,):
            if part.strip():
                yield parse(part, path, number)


def _lines(path: PathLike) -> Iterator[tuple[int, str]]:
    number = 0
    for chunk in text_chunks(path, CHUNK_BYTES):
        text = chunk.buf[chunk.start : chunk.stop].tobytes()
        chunk.release()
        lines = text.split(b"\n")
        if not lines[-1]:
            lines.pop()
        for line in lines:
            number += 1
            if not line.strip():
                continue
            try:
                yield number, line.decode("utf-8")
            except UnicodeDecodeError:
                raise FormatError(
                    "the line is not UTF-8 text; save the file as UTF-8", path=path, line=number
                ) from None


def _parse_serp(text: str, path: PathLike, line: int) -> TextPage:
    query, tab, rest = text.strip().partition("\t")
    shown, colon, clicks = rest.partition(":")
    if not tab or not colon:
        raise FormatError(
            f"expected query<TAB>document,… : clicked,…; found {shorten(text.strip())}", path=path, line=line
        )
    documents = _words(shown)
    if not documents:
        raise FormatError(f"a page shows no documents: {shorten(text.strip())}", path=path, line=line)
    listed = _words(clicks)
    seen, on_page = set(listed), set(documents)
    not_shown = sum(one not in on_page for one in listed)
    repeated = len(listed) - not_shown - len(seen & on_page)
    return TextPage(None, query, documents, [one in seen for one in documents], None, not_shown, repeated)


def _parse_lists(text: str, path: PathLike, line: int) -> TextPage:
    fields = text.rstrip("\r\n").split("\t")
    if len(fields) not in (5, 6):
        raise FormatError(f"expected 5 or 6 columns between tabs, found {len(fields)}", path=path, line=line)
    documents, clicks = _list(fields[2], path, line), _list(fields[4], path, line)
    grades = _list(fields[5], path, line) if len(fields) == 6 else None
    for what, values in (("clicks", clicks), ("grades", grades)):
        if values is not None and len(values) != len(documents):
            raise FormatError(f"there are {len(values)} {what} for {len(documents)} documents", path=path, line=line)
    odd = next((one for one in clicks if one not in ("0", "1")), None)
    if odd is not None:
        raise FormatError(f"a click must be 0 or 1, was {shorten(odd)}", path=path, line=line)
    if not documents:
        raise FormatError("the page shows no documents", path=path, line=line)
    numbers = [read_number(one.encode()) for one in grades or ()]
    known = [one for one in numbers if one is not None]
    if len(known) < len(numbers):
        raise FormatError(f"a grade must be a number, was {shorten(fields[5])}", path=path, line=line)
    clicked = [one == "1" for one in clicks]
    return TextPage(fields[0].strip(), fields[1].strip(), documents, clicked, None if grades is None else known, 0, 0)


def _list(text: str, path: PathLike, line: int) -> list[str]:
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        raise FormatError(f"expected a list, [… , …], found {shorten(text)}", path=path, line=line)
    return _words(text[1:-1])


def _words(text: str) -> list[str]:
    return [word for word in (part.strip() for part in text.split(",")) if word]
