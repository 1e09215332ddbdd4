"""Folders of data files: ``Fold1 … FoldN`` with training, validation and test files, as in LETOR and MSLR."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from gainful.data.dataset import RankingData
from gainful.data.splits import Split
from gainful.errors import FormatError
from gainful.formats import known_suffixes, read
from gainful.formats.shards import named_features

PART_NAMES = {
    "train": ("train", "training"),
    "valid": ("vali", "valid", "validation", "dev"),
    "test": ("test", "testing"),
}


def read_splits(folder: str | Path, *, needs_test: bool = True, **options: Any) -> list[Split]:
    """The splits of a folder: one per ``Fold*`` folder in it, or one from its own train and test files.

    The validation file is optional, and without ``needs_test`` so is the test file; reading an absent test part raises.
    LETOR text omits trailing zero features, so all parts are widened to the widest.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FormatError("there is no such folder", path=folder)
    homes = fold_folders(folder)
    if homes:
        return [_read_split(home, home.name, needs_test, options) for home in homes]
    return [_read_split(folder, "", needs_test, options)]


def fold_folders(folder: Path) -> list[Path]:
    """The folders ``Fold1``, ``Fold2``, … of a folder, by number."""
    found = (f for f in folder.iterdir() if f.is_dir() and re.fullmatch(r"(?i)fold[ _-]?\d+", f.name))
    return sorted(found, key=_number)


def first_file(folder: Path) -> Path | None:
    """The training file of a divided folder, or of its first fold."""
    return _find(next(iter(fold_folders(folder)), folder), "train")


def is_divided(folder: Path) -> bool:
    """Whether a folder holds folds, or a training file."""
    return bool(fold_folders(folder)) or _find(folder, "train") is not None


def _read_split(folder: Path, name: str, needs_test: bool, options: dict[str, Any]) -> Split:
    parts = {part: _find(folder, part) for part in PART_NAMES}
    for part in ("train", "test") if needs_test else ("train",):
        if parts[part] is None:
            raise FormatError(f"the folder has no {part} file (such as {part}.txt) and no Fold1, Fold2, …", path=folder)
    format = options.get("format")
    read_parts: dict[str, RankingData] = {}
    for part, path in parts.items():  # the training data first: the others have its features
        if path is not None:
            names = read_parts["train"].feature_names if read_parts else None
            read_parts[part] = read(path, **options, **named_features(names, path, format, options))
    data = align_features(read_parts)

    def absent() -> RankingData:
        raise FormatError("the folder has no test file (such as test.txt)", path=folder)

    return Split(data["train"], data.get("valid"), data.get("test", absent), name=name)


def align_features(parts: dict[str, RankingData]) -> dict[str, RankingData]:
    """The parts; those without feature names are widened to the widest."""
    if any(part.feature_names is not None for part in parts.values()):
        return parts
    width = max(part.n_features for part in parts.values())
    return {name: part.with_n_features(width) for name, part in parts.items()}


def _find(folder: Path, part: str) -> Path | None:
    found = [
        path
        for path in sorted(folder.iterdir())
        if any(path.name.lower().endswith(suffix) for suffix in known_suffixes())
        and _is_called(path.name.lower(), PART_NAMES[part])
    ]
    if len(found) > 1:
        raise FormatError(f"{found[0].name} and {found[1].name} could both be the {part} file; keep one", path=folder)
    return found[0] if found else None


def _is_called(name: str, words: tuple[str, ...]) -> bool:
    """Whether the file is named by one of the words, as train.txt, or has it as its suffix, as rank.train."""
    return name.partition(".")[0] in words or name.endswith(tuple(f".{word}" for word in words))


def _number(folder: Path) -> int:
    return int(re.sub(r"\D", "", folder.name))
