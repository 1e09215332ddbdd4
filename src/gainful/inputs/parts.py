"""Training, validation and test data that a user gives as paths."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gainful.data.dataset import Dataset, RankingData
from gainful.formats import format_of
from gainful.formats.layout import align_features, is_divided, read_splits
from gainful.formats.shards import named_features, shard_files
from gainful.formats.table.reader import from_frame
from gainful.inputs.reading import read


def open_parts(
    data: Any, *, valid: Any = None, test: Any = None, needs_test: bool = True, time: Any = None, **options: Any
) -> dict[str, Any]:
    """``data`` and the other given parts, with paths and data frames read.

    A path is a file; a folder of train and test files or of folds; or another folder, or a pattern, of files that are
    joined. ``options`` are those of :func:`gainful.read` or :func:`gainful.from_frame`. Files are widened to the same
    number of features. ``time`` is the name of a column that may hold dates.
    """
    given = {"data": data} | {name: part for name, part in (("valid", valid), ("test", test)) if part is not None}
    for name, part in given.items():
        if is_frame(part):
            known = None if name == "data" else getattr(given["data"], "feature_names", None)
            given[name] = from_frame(part, **options, **_frame_options(part, known, time, options))
    paths = [name for name, part in given.items() if isinstance(part, (str, os.PathLike))]
    if "data" in paths and os.path.isdir(given["data"]) and is_divided(Path(given["data"])):
        return given | {"data": read_splits(given["data"], needs_test=needs_test, **options)}
    for name in paths:  # the training data first: the others have its features
        names = None if name == "data" else getattr(given["data"], "feature_names", None)
        file = shard_files(given[name], options.get("format"))[0]
        more = named_features(names, file, options.get("format"), options)
        given[name] = read(given[name], **options, **more, **_dates(time, file, options))
    both = all(isinstance(part, RankingData) for part in given.values())
    return dict(align_features(given)) if paths and both else given


def is_frame(part: Any) -> bool:
    """Whether this is a pandas, polars or Arrow frame."""
    return hasattr(part, "columns") and not isinstance(part, Dataset)


def _frame_options(frame: Any, features: Sequence[str] | None, time: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options that read the given features of a frame, those of the training data, and a column that may hold dates."""
    found: dict[str, Any] = {}
    if features is not None and "features" not in options:
        found["features"] = list(features)
    names = frame.column_names if hasattr(frame, "column_names") else frame.columns  # Arrow's columns are arrays
    if isinstance(time, str) and time in list(names):
        found["times"] = [time]
    return found


def _dates(time: Any, file: Path, options: dict[str, Any]) -> dict[str, Any]:
    """The option that reads the dates in a column of a table as numbers."""
    format = options.get("format")
    is_table = isinstance(time, str) and not time.isdecimal() and "times" in format_of(file, format).options("read")
    return {"times": [time]} if is_table else {}
