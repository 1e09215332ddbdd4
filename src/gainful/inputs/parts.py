"""Training, validation and test data that a user gives as paths."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from gainful.data.dataset import RankingData
from gainful.data.frames import column_names, is_frame
from gainful.errors import option
from gainful.formats import columns_of, format_of, name_without_suffix
from gainful.formats.files import PathLike
from gainful.formats.layout import align_features, first_file, is_divided, read_splits
from gainful.formats.shards import named_features, shard_files
from gainful.formats.table.reader import columns_of_frame, from_frame
from gainful.inputs.reading import read


def open_parts(
    data: Any,
    *,
    valid: Any = None,
    test: Any = None,
    needs_test: bool = True,
    time: Any = None,
    segments: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """``data`` and the other given parts, with paths and data frames read.

    A path is a file; a folder of train and test files or of folds; or another folder, or a pattern, of files that are
    joined. ``options`` are those of :func:`gainful.read` or :func:`gainful.from_frame`. Files are widened to the same
    number of features. ``time`` is the name of a column that may hold dates, ``segments`` of one that is read
    whatever it looks like and whatever features are named.
    """
    given = {"data": data} | {name: part for name, part in (("valid", valid), ("test", test)) if part is not None}
    for name, part in given.items():
        if is_frame(part):
            known = None if name == "data" else getattr(given["data"], "feature_names", None)
            more = _more_columns([str(one) for one in column_names(part)], time, segments, options)
            named = {} if known is None or "features" in options else {"features": list(known)}
            given[name] = from_frame(part, **(options | more | named))
    paths = [name for name, part in given.items() if isinstance(part, (str, os.PathLike))]
    if "data" in paths and os.path.isdir(given["data"]) and is_divided(Path(given["data"])):
        more = _more_of_file(first_file(Path(given["data"])), None, segments, options)
        return given | {"data": read_splits(given["data"], needs_test=needs_test, **(options | more))}
    for name in paths:  # the training data first: the others have its features
        names = None if name == "data" else getattr(given["data"], "feature_names", None)
        file = shard_files(given[name], options.get("format"))[0]
        more = named_features(names, file, options.get("format"), options)
        more |= _more_of_file(file, time, segments, options)
        given[name] = read(given[name], **(options | more))
    both = all(isinstance(part, RankingData) for part in given.values())
    return dict(align_features(given)) if paths and both else given


def _more_columns(
    names: Collection[str], time: Any, segments: str | None, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Options that also read the columns of times and segments, of those that are there."""
    wanted = {"times": time, "keep": segments}
    return {
        key: [*options.get(key, ()), name] for key, name in wanted.items() if isinstance(name, str) and name in names
    }


def _more_of_file(file: Path | None, time: Any, segments: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """The same for a file; an unknown column of a table is refused when it is read."""
    format = options.get("format")
    if file is None or "times" not in format_of(file, format).options("read"):
        return {}
    given = {one for one in (time, segments) if isinstance(one, str) and (one is segments or not one.isdecimal())}
    return _more_columns(given, time, segments, options)


def columns_of_first(path: PathLike, options: Mapping[str, Any]) -> Any:
    """The columns of a table, or of the first of many; None for other formats. Nothing is said a second time."""
    first = shard_files(path, options.get("format"))[0]
    how = {name: value for name, value in options.items() if name != "query_per_file"}
    if options.get("query_per_file"):
        how["query_id"] = name_without_suffix(first)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said when the data was read
        return columns_of(first, **how, all_rows=True)


def why_absent(data: Any, name: str, options: Mapping[str, Any]) -> str | None:
    """Why a column of a frame or table is not a feature, and what to do; None if there is no such column."""
    if is_frame(data):
        columns = columns_of_frame(data, **options)
    elif isinstance(data, (str, os.PathLike)):
        folder = os.path.isdir(data) and is_divided(Path(data))
        columns = columns_of_first(first_file(Path(data)) if folder else data, options)  # type: ignore[arg-type]
    else:
        return None
    column = next((one for one in columns or () if one.name == name), None)
    if column is None or column.role == "feature":
        return None
    keep = option("keep", [name])
    if column.role == "ignored":
        return f"column {name!r} was left out ({column.why}); to keep it, pass {keep}"
    return f"column {name!r} is the {column.role} ({column.why}); pass {keep} to make it a feature"
