"""``read``: the data of a file, or of many, as one RankingData."""

from __future__ import annotations

import re
from typing import Any

from gainful.data.dataset import RankingData
from gainful.errors import FormatError, brief, option
from gainful.formats import columns_of
from gainful.formats.files import PathLike
from gainful.formats.layout import align_features
from gainful.formats.shards import is_many, named_features, read_part, shard_files

MISSING_QUERY = re.compile("which column is the qid|ranking needs a query id")


def read(path: PathLike, format: str | None = None, *, query_per_file: bool = False, **options: Any) -> RankingData:
    """Read ranking data: a file, or a folder or glob pattern such as ``"days/*.csv"``, whose files are joined.

    The files are LETOR/SVMlight text, Parquet, Arrow, CSV, TSV, JSON Lines or gainful's binary. Everything in them is
    checked; a damaged one raises :class:`FormatError`.

    Parameters
    ----------
    format : a name of ``gainful.formats.FORMATS``; by default the suffix decides
    pairs : a CSV file of preferences, which take the place of the grades, with the columns query, better, worse and
        optionally weight. better and worse are document ids if the data has them, otherwise places in the query, from
        1. Pairs of queries that are not in the data are left out
    query_per_file : each file is one query, and its name without the suffix is the query id
    options : those of the format. All of gainful's own take ``max_bytes``: refuse a file that needs more memory, a
        number or text such as "4GB"; by default the limit is what is free
    """
    if not is_many(path):
        return read_part(path, format, query_per_file, options)
    files = shard_files(path, format)
    parts: dict[str, RankingData] = {}
    columns: set[str] = set()  # of the first file
    for file in files:
        names = next((part.feature_names for part in parts.values()), None)
        more = named_features(names, file, format, options)
        try:
            parts[str(file)] = read_part(file, format, query_per_file, options | more)
        except FormatError as error:
            if query_per_file or not MISSING_QUERY.search(str(error)):
                raise
            raise FormatError(f"{error}; if each file is one query, pass {option('query_per_file', True)}") from None
        if more:
            about = options | ({"query_id": "q"} if query_per_file else {})
            columns = columns or _column_names(files[0], format, about)
            _refuse_other_columns(_column_names(file, format, about) - columns, file, files[0])
    _refuse_shared_queries(parts)
    return RankingData.concatenate(list(align_features(parts).values()))


def _column_names(file: PathLike, format: str | None, options: dict[str, Any]) -> set[str]:
    return {column.name for column in columns_of(file, format, **options) or ()}


def _refuse_other_columns(other: set[str], file: PathLike, first: PathLike) -> None:
    """Raise if a file has columns that the first one lacks: their values would be lost."""
    if other:
        raise FormatError(
            f"column {brief(min(other))} is not in {first}; name the columns to read with {option('features')}, or "
            "make the files alike",
            path=file,
        )


def _refuse_shared_queries(parts: dict[str, RankingData]) -> None:
    """Raise if two files have rows of the same query: ids may start again in each file."""
    home: dict[Any, str] = {}
    for file, data in parts.items():
        for query in data.query_ids.tolist():
            other = home.setdefault(query, file)
            if other != file:
                raise FormatError(
                    f"query {brief(query)} is also in {other}; query ids must differ between files", path=file
                )
