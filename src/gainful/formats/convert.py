"""Data larger than memory: blocks of whole queries from files, and conversion to gainful's binary format.

Memory holds one piece of the rows, some tens of MiB, and about a hundred bytes per query.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gainful.data.dataset import RankingData, join_pieces
from gainful.errors import FormatError, ParameterError
from gainful.formats import FORMATS, format_of, write
from gainful.formats.binary.reader import BinaryFile
from gainful.formats.binary.stream import BinarySource
from gainful.formats.binary.writer import Queries, Writer
from gainful.formats.files import PathLike, check_readable, errors_of, real_path, reason, refuse_unwritable
from gainful.formats.pairs import refuse_pairs
from gainful.formats.shards import read_part, shard_files
from gainful.formats.sources import Layout, Piece, Source, StartOver, WholeSource
from gainful.formats.temporary import NAME, new_folder

BLOCK_ROWS = 1 << 16
BINARY = FORMATS["binary"]
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Converted:
    """What was written: the files and their total counts."""

    paths: tuple[Path, ...]
    n_queries: int
    n_rows: int
    n_features: int


# -- sources -----------------------------------------------------------------------------------------------------------


def open_source(path: PathLike, format: str | None = None, *, query_per_file: bool = False, **options: Any) -> Source:
    """A file, or a folder of files of one format, as a source of rows. Options are those of ``gainful.read``."""
    refuse_pairs(options, "reading in parts")
    files = shard_files(path, format)
    chosen = format_of(files[0], format)
    for file in files:
        check_readable(file)
        if format_of(file, format) is not chosen:
            raise FormatError(
                f"has a different format from {files[0].name}; all files of a folder must have one format", path=file
            )
    chosen.check_options("read", "read", options)
    open_chosen = chosen.function("open_source")
    if open_chosen is None or query_per_file:
        return WholeSource(files, lambda file: read_part(file, format, query_per_file, options))
    source: Source = open_chosen(files, **options)
    return source


# -- blocks ------------------------------------------------------------------------------------------------------------


def iter_blocks(
    path: PathLike, format: str | None = None, *, rows: int = BLOCK_ROWS, **options: Any
) -> Iterator[RankingData]:
    """The data of a file, or of a folder of shards, in blocks of whole queries of about ``rows`` rows.

    Together the blocks equal what :func:`gainful.read` returns. Text is read once before the first block, as its width
    and the kind of its ids depend on all of it. If rows of a query are not adjacent, the blocks come from a binary file
    in the folder for temporary files.
    """
    if not isinstance(rows, int) or rows < 1:
        raise ParameterError.of("iter_blocks", "rows", "an integer from 1", rows)
    return _blocks(open_source(path, format, **options), rows)


def _blocks(source: Source, rows: int) -> Iterator[RankingData]:
    source.settle()
    if source.queries is None:
        yield from _join_blocks(source, rows)
        return
    with tempfile.TemporaryDirectory() as folder:
        grouped = Path(folder) / "grouped.gnf"
        write_binary(source, grouped)
        yield from _join_blocks(BinarySource([grouped]), rows)


def _join_blocks(source: Source, rows: int) -> Iterator[RankingData]:
    held: list[RankingData] = []
    continued: list[bool] = []
    dtype = source.layout().dtype
    for data, continues, is_new in cut(source.pieces(), rows):
        if is_new and held:
            yield join_pieces(held, continued, dtype)
            held, continued = [], []
        held.append(data)
        continued.append(continues)
    if held:
        yield join_pieces(held, continued, dtype)


def cut(pieces: Iterable[Piece], rows: int) -> Iterator[tuple[RankingData, bool, bool]]:
    """The pieces cut at block ends: (data, continues the previous one, is the first of a block).

    A block ends with the first query that brings it to ``rows`` rows.
    """
    size, is_new = 0, True
    for data, continues, _ in pieces:
        first = 0
        ends = data.offsets[1:].tolist()
        while first < data.n_queries:
            if size >= rows and not (continues and first == 0):
                size, is_new = 0, True
            start = int(data.offsets[first])
            last = first + 1
            while last < data.n_queries and size + ends[last - 1] - start < rows:
                last += 1
            part = data if last - first == data.n_queries else data[first:last]
            yield part, continues and first == 0, is_new
            size, is_new = size + part.n_rows, False
            first = last


# -- conversion --------------------------------------------------------------------------------------------------------


def convert(
    source: PathLike,
    target: PathLike,
    *,
    format: str | None = None,
    to: str | None = None,
    shard_rows: int | None = None,
    read_options: dict[str, Any] | None = None,
    write_options: dict[str, Any] | None = None,
    progress: Progress | None = None,
) -> Converted:
    """Write the data of a file or a folder of shards in another format, in bounded memory.

    Parameters
    ----------
    format, to : formats of the source and the target, by default those of the suffixes
    shard_rows : write a folder of files of whole queries, each with about this many rows; ``to`` then defaults to
        "binary"
    progress : called with the number of rows read so far in this pass
    """
    how = write_options or {}
    if shard_rows is not None and (not isinstance(shard_rows, int) or shard_rows < 1):
        raise ParameterError.of("convert", "shard_rows", "an integer from 1", shard_rows)
    if shard_rows is not None:
        to = to or "binary"
    chosen = format_of(target, to)
    chosen.check_options("open_writer", "write", how)
    if shard_rows is None:
        refuse_unwritable(target)
    rows = open_source(source, format, **(read_options or {}))
    if shard_rows is not None and to is not None:
        return _write_shards(rows, Path(target), to, shard_rows, how, progress)
    if chosen is BINARY:
        write_binary(rows, Path(target), progress)
        return _summary([Path(target)], BinaryFile(target))
    folder = real_path(target).parent
    with _name_in_errors(target, folder), _as_one_binary(rows, folder, progress) as path:
        opened = BinaryFile(path)
        write(opened.part(0, opened.n_queries), target, to, **how)
        done = _summary([Path(target)], opened)
        del opened  # no longer mapped: Windows would not remove it
    return done


def _summary(paths: Sequence[Path], opened: BinaryFile) -> Converted:
    return Converted(tuple(paths), opened.n_queries, opened.shape.n_rows, opened.shape.n_features)


def write_binary(source: Source, path: Path, progress: Progress | None = None) -> None:
    """Write the rows of a source to one binary file; passes are repeated until one had the right assumptions."""
    while True:
        try:
            with _writer(source.layout(), path, source.queries) as writer:
                for data, continues, at in source.pieces():
                    with errors_of(source.place):
                        if at is None:
                            writer.append(data, continues=continues)
                        else:
                            writer.place(data, at)
                    if progress is not None:
                        progress(writer.n_rows)
            return
        except StartOver:
            continue


def _writer(layout: Layout, path: Path, queries: Queries | None = None) -> Writer:
    return Writer(
        path,
        layout.n_features,
        dtype=layout.dtype,
        feature_names=layout.feature_names,
        sparse=layout.sparse,
        queries=queries,
        text_integers=layout.text_integers,
        distinct=True,
    )


@contextmanager
def _as_one_binary(source: Source, folder: Path, progress: Progress | None) -> Iterator[Path]:
    """The source as one binary file: itself, or a temporary one that exists until the block ends."""
    if isinstance(source, BinarySource) and len(source.paths) == 1:
        yield source.paths[0]
        return
    with new_folder(folder) as inside:
        write_binary(source, inside / "all.gnf", progress)
        yield inside / "all.gnf"


# -- shards ------------------------------------------------------------------------------------------------------------


def _write_shards(
    source: Source, target: Path, to: str, rows: int, how: dict[str, Any], progress: Progress | None
) -> Converted:
    suffix = FORMATS[to].suffixes[0]
    with _new_folder(target) as folder:
        source.settle()
        if source.queries is None and to == "binary":
            return _stream_shards(source, folder, target, rows, progress)
        with _as_one_binary(source, folder, progress) as path:
            names: list[str] = []
            for block in _join_blocks(BinarySource([path]), rows):
                names.append(_shard_name(len(names), suffix))
                write(block, folder / names[-1], to, **how)
                del block  # no longer mapped: Windows would not remove it
            return _summary([target / name for name in names], BinaryFile(path))


def _stream_shards(source: Source, folder: Path, target: Path, rows: int, progress: Progress | None) -> Converted:
    """Write binary shards straight from a source whose layout is known and whose queries are adjacent."""
    layout = replace(source.layout(), text_integers=())  # ids already have their final form, the same in all shards
    names: list[str] = []
    n_rows = n_queries = 0
    parts = cut(source.pieces(), rows)
    part = next(parts, None)
    while part is not None:
        names.append(_shard_name(len(names), ".gnf"))
        with _writer(layout, folder / names[-1]) as writer:
            while part is not None and (writer.n_rows == 0 or not part[2]):
                with errors_of(source.place):
                    writer.append(part[0], continues=part[1])
                if progress is not None:
                    progress(n_rows + writer.n_rows)
                part = next(parts, None)
        n_rows, n_queries = n_rows + writer.n_rows, n_queries + writer.n_queries
    return Converted(tuple(target / name for name in names), n_queries, n_rows, layout.n_features or 0)


def _shard_name(number: int, suffix: str) -> str:
    """part-00000.gnf, …; names after part-99999 have more digits, and shards are ordered by number."""
    return f"part-{number:05}{suffix}"


@contextmanager
def _new_folder(target: Path) -> Iterator[Path]:
    """A folder that gets its name when the block succeeds, and leaves no trace otherwise."""
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise FormatError("already exists; write shards to a new or empty folder", path=target)
    parent = real_path(target).parent
    if not parent.is_dir():
        raise FormatError(f"the folder {parent} does not exist; create it first", path=target)
    with _name_in_errors(target, parent), new_folder(parent) as folder:
        yield folder
        with suppress(FileNotFoundError):
            os.rmdir(real_path(target))  # Windows replaces no folder, not even an empty one
        os.replace(folder, real_path(target))


@contextmanager
def _name_in_errors(target: PathLike, folder: Path) -> Iterator[None]:
    """Name ``target`` in errors about temporary files in ``folder``, whose names mean nothing to the user."""
    try:
        yield
    except FormatError as error:
        parts = Path(str(error.path)).parts[len(folder.parts) :] if error.path is not None else ()
        if not parts or not NAME.fullmatch(parts[0]):
            raise
        raise FormatError(str(error).removeprefix(f"{error.path}: "), path=target) from None
    except OSError as error:
        raise FormatError(f"cannot be written: {reason(error)}", path=target) from error
