"""Training, validation and test data that a user gives as paths."""

from __future__ import annotations

import os
from typing import Any

from gainful.data.dataset import RankingData
from gainful.formats import read
from gainful.formats.layout import align_features, read_splits


def open_parts(
    data: Any, *, valid: Any = None, test: Any = None, needs_test: bool = True, **options: Any
) -> dict[str, Any]:
    """``data`` and the other given parts, with paths read: a file, or a folder of train and test files or of folds.

    ``options`` are those of :func:`gainful.read`. Files are widened to the same number of features.
    """
    given = {"data": data} | {name: part for name, part in (("valid", valid), ("test", test)) if part is not None}
    paths = [name for name, part in given.items() if isinstance(part, (str, os.PathLike))]
    if "data" in paths and os.path.isdir(given["data"]):
        return given | {"data": read_splits(given["data"], needs_test=needs_test, **options)}
    for name in paths:
        given[name] = read(given[name], **options)
    both = all(isinstance(part, RankingData) for part in given.values())
    return dict(align_features(given)) if paths and both else given
