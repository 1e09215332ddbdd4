"""Values from a file that somebody else wrote, each checked before it is used."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gainful.data.rows import Array

LARGEST_SINGLE = np.finfo(np.float32).max
MOST_CATEGORIES = 1 << 24  # XGBoost's limit: above, float32 does not have every whole number
MOST_COVER = 1e30  # of a leaf; sums of them must stay finite
MOST_FEATURES = 10_000_000


class BadModelError(ValueError):
    """A model that is damaged, or that gainful could not score as its maker does; the text says why."""


def member(values: Any, name: str, kind: type | tuple[type, ...] = object) -> Any:
    """``values[name]`` of a JSON object, of this type."""
    if not isinstance(values, Mapping) or name not in values:
        raise BadModelError(f"it has no {name}")
    if not isinstance(values[name], kind):
        raise BadModelError(f"its {name} is not of the right type")
    return values[name]


def numbers(values: Any, name: str, dtype: Any, size: int | None = None) -> Array:
    """A list of finite numbers as an array; whole numbers if ``dtype`` is."""
    found = np.asarray(values)
    if found.ndim != 1 or (len(found) and found.dtype.kind not in "iufb"):
        raise BadModelError(f"{name} is not a list of numbers")
    if size is not None and len(found) != size:
        raise BadModelError(f"{name} has {len(found):,} values instead of {size:,}")
    with np.errstate(over="ignore", invalid="ignore"):
        made = found.astype(dtype)
    if made.dtype.kind == "f" and not np.isfinite(made).all():
        raise BadModelError(f"{name} holds numbers that are missing or too large")
    if made.dtype.kind != "f" and not np.array_equal(made, found):
        raise BadModelError(f"{name} holds numbers that are not whole, or out of range")
    return made


def count(value: Any, name: str, low: int, high: int) -> int:
    """A whole number in a range, as a number or as text."""
    text = str(value)
    if isinstance(value, (bool, float)) or not text.isascii() or not text.isdigit() or len(text) > 18:
        raise BadModelError(f"{name} is not a whole number")
    if not low <= int(text) <= high:
        raise BadModelError(f"{name} is {int(text):,}, not from {low:,} to {high:,}")
    return int(text)


def real(value: Any, name: str) -> float:
    """A finite number, as a number or as text."""
    plain = not isinstance(value, str) or (value.isascii() and "_" not in value)  # Python reads more as numbers
    try:
        found = float(value if plain else "")
    except (TypeError, ValueError):
        raise BadModelError(f"{name} is not a number") from None
    if isinstance(value, bool) or not math.isfinite(found):
        raise BadModelError(f"{name} is not a finite number")
    return found


def feature_names(values: Any, n_features: int, *defaults: str) -> tuple[str, ...] | None:
    """Names of all features; None where there are none, or only those that the maker made up (``"f{}"``: f0, f1, …)."""
    if not isinstance(values, Sequence) or isinstance(values, str) or not all(isinstance(one, str) for one in values):
        raise BadModelError("its feature names are not a list of names")
    if not values:
        return None
    if len(values) != n_features:
        raise BadModelError(f"it has {len(values):,} names for {n_features:,} features")
    for default in defaults:
        if all(name == default.format(j) for j, name in enumerate(values)):
            return None
    if len(set(values)) < len(values):
        raise BadModelError("two of its features have the same name")
    return tuple(values)


def parse_json(raw: bytes) -> Any:
    """JSON, no name twice in an object. XGBoost may write NaN and infinity where they do not count."""
    return json.loads(raw.decode(), object_pairs_hook=without_repeats)


def without_repeats(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The pairs as a dictionary; none may have the name of another."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise BadModelError("it holds the same name twice")
    return found
