"""What the formulas of metrics leave open: the choices, and which of them each tool makes."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from gainful.errors import ParameterError, UnknownNameError

#: Metric → (whether it is cut at a rank: "no", "may", "must"; the conventions it has, in the order they print).
KINDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "ndcg": ("may", ("gain", "discount", "ties", "empty", "short")),
    "dcg": ("may", ("gain", "discount", "ties", "empty")),
    "p": ("must", ("ties", "empty", "relevant", "divisor")),
    "map": ("may", ("ties", "empty", "relevant", "divisor")),
    "mrr": ("may", ("ties", "empty", "relevant")),
    "wta": ("no", ("ties", "empty", "relevant")),
    "err": ("may", ("max_grade", "ties", "empty")),
    "rbp": ("no", ("p", "ties", "empty", "relevant")),
}
CHOICES: Mapping[str, tuple[Any, ...]] = {
    "gain": ("exp2", "linear"),
    "discount": ("log2", "letor"),
    "ties": ("average", "input", "worst", "docid"),
    "empty": (0, 1, "skip"),
    "short": ("use", "zero"),
    "divisor": ("min", "all", "k"),
}
DIVISORS: Mapping[str, tuple[str, ...]] = {"p": ("k", "min"), "map": ("min", "all")}
RANGES: Mapping[str, tuple[float, float, str]] = {
    "p": (0.0, math.nextafter(1.0, 0.0), "a number from 0, below 1"),
    "relevant": (math.ulp(0.0), sys.float_info.max, "a number above 0"),
    "max_grade": (math.ulp(0.0), 1000.0, "a number above 0, at most 1000"),
}
ONLY_WITH_K = ("short", "divisor")  # without a cut-off they change nothing
PRINTED_IF_CHANGED = ("short", "divisor")
#: The defaults.
DEFAULTS: Mapping[str, Any] = {
    "p": 0.8,
    "gain": "exp2",
    "discount": "log2",
    "ties": "average",
    "empty": 0,
    "relevant": 1.0,
    "short": "use",
    "max_grade": 4.0,
    "divisor": "min",
}

_ALL = "all metrics"

#: Tool → metric → the conventions that differ from the defaults; those of ``all metrics`` hold for every metric, even
#: one that the tool lacks.
CONVENTIONS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "letor3": {_ALL: {"ties": "input", "discount": "letor"}},
    "letor4": {_ALL: {"ties": "input", "discount": "letor", "short": "zero"}},
    "trec": {_ALL: {"ties": "docid", "gain": "linear"}, "map": {"divisor": "all"}},
    "lightgbm": {_ALL: {"ties": "input"}, "ndcg": {"empty": 1}, "map": {"empty": 1}},
    "xgboost": {_ALL: {"ties": "input"}, "ndcg": {"empty": 1}, "map": {"empty": 1}, "p": {"divisor": "min"}},
    "catboost": {_ALL: {"ties": "worst", "gain": "linear"}, "ndcg": {"empty": 1}, "p": {"divisor": "min"}},
    "sklearn": {_ALL: {"ties": "average", "gain": "linear"}},
}


def options_of(kind: str, k: int | None) -> tuple[str, ...]:
    """The conventions that the metric has, in the order they print."""
    return tuple(name for name in KINDS[kind][1] if k is not None or name not in ONLY_WITH_K)


def defaults_of(kind: str) -> dict[str, Any]:
    """The default conventions of the metric ``kind``."""
    return {**DEFAULTS, "divisor": "k"} if kind == "p" else dict(DEFAULTS)


def conventions_of(tool: str, kind: str) -> dict[str, Any]:
    """Every convention of ``tool`` for the metric ``kind``."""
    name = str(tool).strip().lower()
    if name not in CONVENTIONS:
        raise UnknownNameError.among("convention", tool, CONVENTIONS)
    table = CONVENTIONS[name]
    return {**defaults_of(kind), **table[_ALL], **table.get(kind, {})}


# -- one choice --------------------------------------------------------------------------------------------------------


def parse_convention(owner: str, kind: str, name: str, value: Any) -> Any:
    """A user's value for the convention ``name``, checked and in the form that the metric keeps."""
    if name in ("gain", "discount"):
        return _table(owner, name, value)
    if name in RANGES:
        return _number(owner, name, value)
    options = DIVISORS[kind] if name == "divisor" else CHOICES[name]
    wanted = value.strip().lower() if isinstance(value, str) else value
    for option in options:
        if np.ndim(wanted) == 0 and (wanted == option or wanted == str(option)):
            return option
    raise ParameterError.of(owner, name, " or ".join(repr(option) for option in options), value)


def _table(owner: str, name: str, value: Any) -> str | tuple[float, ...]:
    """One of the names, or numbers: an array, or text as in ``0|1|3|7``."""
    if isinstance(value, str) and value.strip().lower() in CHOICES[name]:
        return value.strip().lower()
    expected = f"{' or '.join(repr(option) for option in CHOICES[name])} or an array of finite numbers from 0"
    try:
        numbers = np.asarray(value.split("|") if isinstance(value, str) else value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError.of(owner, name, expected, value) from None
    if numbers.ndim != 1 or len(numbers) == 0 or not np.isfinite(numbers).all() or (numbers < 0).any():
        raise ParameterError.of(owner, name, expected, value)
    if name == "discount" and (numbers[0] == 0 or (np.diff(numbers) > 0).any()):
        raise ParameterError.of(owner, name, "above 0 at rank 1 and never increasing", value)
    return tuple((numbers + 0.0).tolist())


def _number(owner: str, name: str, value: Any) -> float:
    low, high, expected = RANGES[name]
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not low <= number <= high:
        raise ParameterError.of(owner, name, expected, value)
    return number


def show(value: Any) -> str:
    """A convention as it is typed: the shortest text that reads back as the same number."""
    if isinstance(value, tuple):
        return "|".join(show(number) for number in value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)
