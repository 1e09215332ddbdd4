"""TREC files: runs (``query Q0 document rank score tag``) and qrels (``query subtopic document grade``).

Columns are separated by blanks or tabs, as many as there are. As in trec_eval 10, lines that begin with # are comments,
and what follows the tag of a run is not read. PyArrow reads files whose columns have one separator throughout; anything
else, and anything odd, is read again line by line, which accepts it or says what is wrong where.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from gainful.data.judgments import Qrels, Run, as_run
from gainful.data.rows import Array
from gainful.errors import FormatError, ParameterError, shorten
from gainful.formats.files import (
    UTF8_MARK,
    PathLike,
    check_readable,
    compression_of,
    decompress,
    open_compressed,
)
from gainful.formats.ids import encode_all
from gainful.formats.letor.lines import read_number
from gainful.formats.limits import LONGEST_ID, MemoryLimit

MEMORY_PER_BYTE = 6  # of a file: its text, the columns, and the ids as Python's strings
ROWS_AT_ONCE = 100_000  # when writing
COMMENT = b"#"
COMMENTS = re.compile(rb"^#.*\n?", re.MULTILINE)


@dataclass(frozen=True)
class Layout:
    """The columns of a kind of file."""

    what: str
    columns: tuple[str, ...]
    number: str  # the column with a number

    @property
    def shape(self) -> str:
        return " ".join(self.columns)


RUN = Layout("a run", ("query", "Q0", "document", "rank", "score", "tag"), "score")
QRELS = Layout("qrels", ("query", "subtopic", "document", "grade"), "grade")


def read_run(path: PathLike, *, max_bytes: int | str | None = None) -> Run:
    """Read a TREC run, plain or compressed (.gz, .zst): lines ``query Q0 document rank score tag``.

    ``max_bytes``: refuse a file that needs more memory, as in :func:`gainful.read`. Ranks are not used: scores decide
    the order, as in trec_eval. Lines that begin with # are comments, and what follows the tag is not read. A document
    twice in a query, a score that is not finite, text that is not UTF-8 or a missing column is a :class:`FormatError`
    with the line.
    """
    columns = _read(path, RUN, max_bytes)
    run = object.__new__(Run)
    run._group(*columns.queries, columns.documents, columns.numbers)
    run.name = columns.tag
    return run


def read_qrels(path: PathLike, *, max_bytes: int | str | None = None) -> Qrels:
    """Read TREC qrels, plain or compressed (.gz, .zst): lines ``query subtopic document grade``.

    The second column names the subtopic if it has different values; otherwise it means nothing. Lines that begin with #
    are comments. Checked as in :func:`read_run`, but nothing may follow the grade.
    """
    columns = _read(path, QRELS, max_bytes)
    qrels = object.__new__(Qrels)
    qrels._group(*columns.queries, columns.documents, columns.numbers, subtopics=columns.subtopics)
    return qrels


def write_run(run: Mapping[Any, Mapping[Any, float]], path: PathLike, *, name: str | None = None) -> None:
    """Write a TREC run, whole or not at all; compressed if the path ends in .gz or .zst.

    ``run`` is a :class:`~gainful.Run`, or a mapping query → document → score. ``name`` is the tag of its lines.
    """
    run = as_run(run)
    with open_compressed(path) as file:
        for text in run_lines(run, run.name if name is None else name, path):
            file.write(text)


def write_qrels(qrels: Mapping[Any, Mapping[Any, float]], path: PathLike) -> None:
    """Write TREC qrels, whole or not at all; compressed if the path ends in .gz or .zst."""
    qrels = qrels if isinstance(qrels, Qrels) else Qrels(qrels)
    queries = np.repeat(qrels.query_ids, np.diff(qrels.offsets)).tolist()
    subtopics = ["0"] * qrels.n_rows if qrels.subtopics is None else qrels.subtopics.tolist()
    grades = [str(int(one)) if one.is_integer() else repr(one) for one in qrels.grades.tolist()]
    documents = qrels.doc_ids.tolist()
    for what, ids in (("query id", queries), ("subtopic", subtopics), ("document id", documents)):
        _refuse_blanks(ids, what, path)
    lines = map(" ".join, zip(queries, subtopics, documents, grades, strict=True))
    with open_compressed(path) as file:
        for text in _joined(lines, path):
            file.write(text)


def run_lines(run: Run, tag: str, path: PathLike) -> Iterator[bytes]:
    """The lines of a run, best document first in each query; equal scores by falling document id."""
    if not isinstance(tag, str) or not tag or tag.split() != [tag]:
        raise ParameterError.of("write_run", "name", "a word without blanks", tag)
    _refuse_blanks(run.query_ids.tolist(), "query id", path)
    _refuse_blanks(run.doc_ids.tolist(), "document id", path)

    def lines() -> Iterator[str]:
        for query in run:
            ranked = sorted(run[query].items(), key=lambda one: one[0], reverse=True)
            ranked.sort(key=lambda one: one[1], reverse=True)
            for rank, (document, score) in enumerate(ranked, 1):
                yield f"{query} Q0 {document} {rank} {score!r} {tag}"

    return _joined(lines(), path)


def _joined(lines: Iterator[str], path: PathLike) -> Iterator[bytes]:
    some: list[str] = []
    for line in lines:
        some.append(line)
        if len(some) == ROWS_AT_ONCE:
            yield b"\n".join(encode_all(some, "id", path)) + b"\n"
            some = []
    if some:
        yield b"\n".join(encode_all(some, "id", path)) + b"\n"


def _refuse_blanks(ids: list[str], what: str, path: PathLike) -> None:
    for one in ids:
        if one.split() != [one]:
            raise FormatError(f"the {what} {shorten(one)} is empty or has blanks, which separate columns", path=path)
        if what == "query id" and one.startswith("#"):
            raise FormatError(f"the {what} {shorten(one)} begins with #, which begins a comment", path=path)


# -- reading -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Columns:
    """What a file holds: the queries with the number of each row's query, and a value per row."""

    queries: tuple[list[str], Array]
    documents: Array
    numbers: Array
    subtopics: Array | None = None
    tag: str = "run"


def _read(path: PathLike, layout: Layout, max_bytes: int | str | None) -> Columns:
    text = _text_of(path, MemoryLimit(path, max_bytes))
    commented = COMMENT in text and (text.startswith(COMMENT) or b"\n#" in text)  # the first is quick
    columns = _quick_columns(COMMENTS.sub(b"", text) if commented else text, layout)
    if columns is None:
        columns = _careful_columns(text, layout, path)
    _refuse_repeated(columns, text, path)
    return columns


def _text_of(path: PathLike, limit: MemoryLimit) -> bytes:
    what = "this file"
    size = check_readable(path)
    if compression_of(path) is None:
        limit.check(MEMORY_PER_BYTE * size, what)
        with open(path, "rb") as file:
            text = file.read()
    else:
        pieces, size = [], 0
        for piece in decompress(path):
            size += len(piece)
            limit.check(MEMORY_PER_BYTE * size, "the first part of this file", so_far=True)
            pieces.append(piece)
        text = b"".join(pieces)
    return text.removeprefix(UTF8_MARK).replace(b"\r\n", b"\n")


def _quick_columns(text: bytes, layout: Layout) -> Columns | None:
    """The columns of a plain file, by PyArrow; None if anything is odd."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    separator = "\t" if b"\t" in text else " "
    others = b" \r\v\f\0" if separator == "\t" else b"\r\v\f\0"
    if any(other in text for other in others):  # each is a byte
        return None
    kinds = {name: pa.float64() if name == layout.number else pa.string() for name in layout.columns}
    wanted = [name for name in layout.columns if name not in ("Q0", "rank")]
    try:
        table = csv.read_csv(
            pa.BufferReader(text),
            read_options=csv.ReadOptions(column_names=list(layout.columns), use_threads=False, block_size=1 << 24),
            parse_options=csv.ParseOptions(delimiter=separator, quote_char=False, double_quote=False),
            convert_options=csv.ConvertOptions(
                column_types=kinds, include_columns=wanted, null_values=[], strings_can_be_null=False
            ),
        ).combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowKeyError):
        return None
    numbers = table[layout.number].to_numpy()
    if not len(numbers) or not np.isfinite(numbers).all():
        return None
    for name in wanted:
        if name != layout.number:
            sizes = pc.min_max(pc.binary_length(table[name]))
            if sizes["min"].as_py() == 0 or sizes["max"].as_py() > LONGEST_ID:
                return None
    queries = _whole(table["query"]).dictionary_encode()
    subtopics = table["subtopic"] if "subtopic" in wanted else None
    if subtopics is not None and pc.count_distinct(subtopics).as_py() == 1:
        subtopics = None
    return Columns(
        queries=(queries.dictionary.to_pylist(), queries.indices.to_numpy().astype(np.int64)),
        documents=_whole(table["document"]).to_numpy(zero_copy_only=False),
        numbers=numbers,
        subtopics=None if subtopics is None else _whole(subtopics).to_numpy(zero_copy_only=False),
        tag=table["tag"][0].as_py() if "tag" in wanted else "run",
    )


def _whole(column: Any) -> Any:
    """A column as one array."""
    found = column.combine_chunks()
    return found.chunk(0) if hasattr(found, "chunks") else found


def _careful_columns(text: bytes, layout: Layout, path: PathLike) -> Columns:
    """The same columns, line by line."""
    codes: dict[str, int] = {}
    rows: list[int] = []
    documents: list[str] = []
    numbers: list[float] = []
    subtopics: list[str] = []
    tag = ""
    at = layout.columns.index(layout.number)
    for number, line in _lines(text):
        fields = line.split()
        if layout is RUN:
            del fields[len(RUN.columns) :]
        if len(fields) != len(layout.columns):
            raise FormatError(
                f"expected {len(layout.columns)} columns, {layout.shape}, found {len(fields)}", path=path, line=number
            )
        words = [_word(field, path, number) for field in fields]
        value = read_number(fields[at])
        if value is None or not math.isfinite(value):
            raise FormatError(
                f"expected a {layout.number}, a finite number, found {shorten(words[at], 40)}", path=path, line=number
            )
        rows.append(codes.setdefault(words[0], len(codes)))
        documents.append(words[2])
        numbers.append(value)
        subtopics.append(words[1])
        tag = tag or words[-1]
    if not rows:
        raise FormatError(f"there are no lines; {layout.what} has lines {layout.shape}", path=path)
    several = layout is QRELS and len(set(subtopics)) > 1
    return Columns(
        queries=(list(codes), np.array(rows)),
        documents=np.array(documents, dtype=object),
        numbers=np.array(numbers),
        subtopics=np.array(subtopics, dtype=object) if several else None,
        tag=tag,
    )


def _lines(text: bytes) -> Iterator[tuple[int, bytes]]:
    """The lines that are neither blank nor comments, with their numbers from 1."""
    for number, line in enumerate(text.split(b"\n"), 1):
        if line.strip() and not line.lstrip().startswith(COMMENT):
            yield number, line


def _word(field: bytes, path: PathLike, line: int) -> str:
    if len(field) > LONGEST_ID:
        found = shorten(field[:100].decode("utf-8", "replace"), 40)
        raise FormatError(f"a column is longer than {LONGEST_ID:,} bytes: {found}", path=path, line=line)
    if b"\0" in field:
        raise FormatError("a column holds a NUL character", path=path, line=line)
    try:
        return field.decode()
    except UnicodeDecodeError:
        found = shorten(field.decode("utf-8", "replace"), 40)
        raise FormatError(f"expected UTF-8 text, found {found}", path=path, line=line) from None


def _refuse_repeated(columns: Columns, text: bytes, path: PathLike) -> None:
    """Raise if a query has a document twice, or twice for the same subtopic."""
    names, query = columns.queries
    order = np.argsort(query, kind="stable")
    ends = np.cumsum(np.bincount(query))
    for q, (a, b) in enumerate(pairwise([0, *ends.tolist()])):
        rows = order[a:b]
        held: list[Any] = columns.documents[rows].tolist()
        if columns.subtopics is not None:
            held = list(zip(held, columns.subtopics[rows].tolist(), strict=True))
        if len(set(held)) < b - a:
            again = next(i for i, one in enumerate(held) if one in held[:i])
            line = next(number for i, (number, _) in enumerate(_lines(text)) if i == rows[again])
            document, subtopic = held[again], ""
            if columns.subtopics is not None:
                document, subtopic = document[0], f" and subtopic {shorten(document[1], 40)}"
            what = f"document {shorten(document, 40)} is given twice for query {shorten(names[q], 40)}{subtopic}"
            raise FormatError(what, path=path, line=line)
