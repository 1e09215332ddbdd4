"""Training, validation and test data that a user gives as paths."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gainful.data.dataset import RankingData
from gainful.formats.layout import align_features, is_divided, read_splits
from gainful.formats.shards import named_features, shard_files
from gainful.inputs.reading import read


def open_parts(
    data: Any, *, valid: Any = None, test: Any = None, needs_test: bool = True, **options: Any
) -> dict[str, Any]:
    """``data`` and the other given parts, with paths read.

    A path is a file; a folder of train and test files or of folds; or another folder, or a pattern, of files that are
    joined. ``options`` are those of :func:`gainful.read`. Files are widened to the same number of features.
    """
    given = {"data": data} | {name: part for name, part in (("valid", valid), ("test", test)) if part is not None}
    paths = [name for name, part in given.items() if isinstance(part, (str, os.PathLike))]
    if "data" in paths and os.path.isdir(given["data"]) and is_divided(Path(given["data"])):
        return given | {"data": read_splits(given["data"], needs_test=needs_test, **options)}
    for name in paths:  # the training data first: the others have its features
        names = None if name == "data" else getattr(given["data"], "feature_names", None)
        file = shard_files(given[name], options.get("format"))[0]
        given[name] = read(given[name], **options, **named_features(names, file, options.get("format"), options))
    both = all(isinstance(part, RankingData) for part in given.values())
    return dict(align_features(given)) if paths and both else given
