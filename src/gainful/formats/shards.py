"""A folder of shards, or one long file, as blocks of whole queries."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gainful.compute.memory import allowed_memory, size_text, size_to_type
from gainful.data.blocks import LocalBlocks, in_blocks
from gainful.data.dataset import RankingData
from gainful.data.sharded import ShardedData
from gainful.errors import DataError, FormatError, ParameterError, option
from gainful.formats import format_of, known_suffixes, name_without_suffix, read
from gainful.formats.files import PathLike, check_readable, room_for_files

MOST_OF_MEMORY = 0.5  # share of what is free that shards may take if they cannot be mapped
EXPANDED = 4.0  # rough growth of compressed values


def open_local_shards(
    path: PathLike | Iterable[PathLike], *, format: str | None = None, query_per_file: bool = False, **options: Any
) -> ShardedData:
    """The blocks of a folder of shards, a list of files or one file, in this process."""
    files = shard_files(path, format)
    _refuse_too_much(files, format, options.get("max_bytes"))
    room_for_files(sum(format_of(file, format).mapped for file in files))
    blocks: list[RankingData] = []
    names: list[str] = []
    for file in files:
        more = named_features(blocks[0].feature_names if blocks else None, file, format, options)
        parts = in_blocks(read_part(file, format, query_per_file, options | more))
        blocks += parts
        names += [str(file)] if len(parts) == 1 else [f"{file} (part {i + 1})" for i in range(len(parts))]
    return ShardedData(LocalBlocks(blocks), names)


def is_many(path: PathLike) -> bool:
    """Whether a path stands for several files: a folder, or a pattern such as ``days/*.csv``."""
    return os.path.isdir(path) or (not os.path.exists(path) and glob.has_magic(os.fspath(path)))


def read_part(file: PathLike, format: str | None, query_per_file: bool, options: dict[str, Any]) -> RankingData:
    """The data of one file of many; ``query_per_file``: it is one query, with the name of the file as id."""
    if not isinstance(query_per_file, bool):
        raise ParameterError.of("read", "query_per_file", "True or False", query_per_file)
    if not query_per_file:
        return read(file, format, **options)
    return read(file, format, **options, query_id=name_without_suffix(file))


def named_features(
    names: Sequence[str] | None, file: PathLike, format: str | None, options: dict[str, Any]
) -> dict[str, Any]:
    """The option ``features`` that reads just these columns, if the format has named columns and none are named."""
    if names is None or "features" in options or "features" not in format_of(file, format).options("read"):
        return {}
    return {"features": [str(name) for name in names]}


def shard_files(path: PathLike | Iterable[PathLike], format: str | None = None) -> list[Path]:
    """The files: those of a folder in order of name, without hidden ones; of a pattern or a list; the file itself."""
    if not isinstance(path, (str, Path)) and isinstance(path, Iterable):
        files = [Path(one) for one in path]
        for file in files:
            check_readable(file)
    elif Path(path).is_dir():
        suffixes = known_suffixes() if format is None else None
        files = sorted(
            (
                file
                for file in Path(path).iterdir()
                if file.is_file() and not file.name.startswith((".", "_"))
                and (suffixes is None or file.name.lower().endswith(suffixes))
            ),
            key=_order,
        )  # fmt: skip
        if not files:
            raise FormatError("the folder holds no data files that gainful knows by their suffix", path=path)
    elif is_many(path):
        files = sorted((Path(name) for name in glob.glob(os.fspath(path)) if os.path.isfile(name)), key=_order)
        if not files:
            raise FormatError("no file matches this pattern", path=path)
    else:
        check_readable(path)
        files = [Path(path)]
    if not files:
        raise DataError("there are no files to open")
    return files


def _order(file: Path) -> tuple[list[tuple[int, str]], str]:
    """Sort key: the name, with numbers in it by value, so that part-99999 comes before part-100000."""
    parts = re.split(r"(\d+)", file.name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts], file.name


def _refuse_too_much(files: list[Path], format: str | None, max_bytes: int | str | None = None) -> None:
    """Raise if files that must be read whole are larger than memory, or than the limit that was given."""
    held = [file for file in files if not format_of(file, format).mapped]
    limit = allowed_memory(max_bytes, share=MOST_OF_MEMORY)
    size = sum(file.stat().st_size for file in held)
    needed = EXPANDED * size
    if limit is not None and needed > limit:
        higher = option("max_bytes", size_to_type(needed))
        raise DataError(
            f"{len(held)} files of {size_text(size)} must be read whole, which may take {size_text(needed)} of memory; "
            f"the limit is {size_text(limit)}: gainful data convert writes them as .gnf, which is mapped; or raise the "
            f"limit with {higher}"
        )
