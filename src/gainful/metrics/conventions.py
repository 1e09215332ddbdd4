"""What the formulas of metrics leave open: the choices, and which of them each tool makes."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from gainful.errors import ParameterError, UnknownNameError

#: Metric → (what may follow @: "no", "may", "must" be a rank, or "recall", a level; its conventions, in printed order).
KINDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "ndcg": ("may", ("gain", "discount", "ties", "empty", "short", "unjudged")),
    "dcg": ("may", ("gain", "discount", "ties", "empty", "unjudged")),
    "mean-ndcg": ("no", ("gain", "discount", "ties", "empty", "unjudged")),
    "p": ("must", ("ties", "empty", "relevant", "divisor", "unjudged")),
    "map": ("may", ("ties", "empty", "relevant", "divisor", "unjudged")),
    "mrr": ("may", ("ties", "empty", "relevant", "unjudged")),
    "wta": ("no", ("ties", "empty", "relevant", "unjudged")),
    "err": ("may", ("max_grade", "ties", "empty", "unjudged")),
    "nerr": ("may", ("max_grade", "ties", "empty", "unjudged")),
    "rbp": ("may", ("p", "ties", "empty", "relevant", "worth", "unjudged")),
    "rbp-resid": ("no", ("p", "ties")),
    "recall": ("may", ("ties", "empty", "relevant", "unjudged")),
    "hit": ("must", ("ties", "empty", "relevant", "unjudged")),
    "rprec": ("no", ("times", "ties", "empty", "relevant", "unjudged")),
    "iprec": ("recall", ("rounding", "ties", "empty", "relevant", "unjudged")),
    "iprec-avg": ("no", ("rounding", "ties", "empty", "relevant", "unjudged")),
    "bpref": ("no", ("ties", "empty", "relevant")),
    "infap": ("no", ("ties", "empty", "relevant")),
    "judged": ("may", ("ties",)),
    "unj": ("must", ("ties",)),
    "set-p": ("no", ("empty", "relevant", "unjudged")),
    "set-recall": ("no", ("empty", "relevant", "unjudged")),
    "set-f1": ("no", ("empty", "relevant", "unjudged")),
    "set-map": ("no", ("empty", "relevant", "unjudged")),
    "set-relative-p": ("no", ("empty", "relevant", "unjudged")),
    "alpha-ndcg": ("must", ("alpha", "ties", "empty", "relevant", "unjudged")),
    "err-ia": ("must", ("alpha", "ties", "empty", "relevant", "unjudged")),
    "g": ("no", ("ties", "empty", "unjudged")),
    "bin-g": ("no", ("ties", "empty", "relevant", "unjudged")),
    "r-ndcg": ("no", ("ties", "empty", "unjudged")),
    "ndcg-rel": ("no", ("ties", "empty", "unjudged")),
    "pair-accuracy": ("no", ("empty", "unjudged")),
    "auc": ("no", ("empty", "relevant", "unjudged")),
    "utility": ("no", ("relevant", "unjudged")),
    "num-ret": ("no", ()),
    "num-rel": ("no", ("relevant",)),
    "num-rel-ret": ("no", ("relevant",)),
    "num-nonrel-judged-ret": ("no", ("relevant",)),
}
#: Their expectation over the orders of tied documents has no simple form, so ties are broken.
WITHOUT_AVERAGE = ("iprec", "iprec-avg", "infap", "alpha-ndcg", "err-ia", "g", "bin-g", "r-ndcg", "ndcg-rel")
#: Metric → its least and highest value; the others lie between 0 and 1.
BOUNDS: Mapping[str, tuple[float, float]] = {
    "utility": (-math.inf, math.inf),
    **dict.fromkeys(("dcg", "num-ret", "num-rel", "num-rel-ret", "num-nonrel-judged-ret"), (0.0, math.inf)),
}
CHOICES: Mapping[str, tuple[Any, ...]] = {
    "gain": ("exp2", "linear"),
    "discount": ("log2", "letor"),
    "ties": ("average", "input", "worst", "docid", "docid-rising"),
    "empty": (0, 1, "skip"),
    "short": ("use", "zero"),
    "divisor": ("min", "all", "k", "relevant"),
    "unjudged": ("zero", "skip"),
    "rounding": ("up", "nearest"),
    "worth": ("binary", "scaled"),
}
DIVISORS: Mapping[str, tuple[str, ...]] = {"p": ("k", "min", "relevant"), "map": ("min", "all")}
RANGES: Mapping[str, tuple[float, float, str]] = {
    "p": (0.0, math.nextafter(1.0, 0.0), "a number from 0, below 1"),
    "relevant": (math.ulp(0.0), sys.float_info.max, "a number above 0"),
    "max_grade": (math.ulp(0.0), 1000.0, "a number above 0, at most 1000"),
    "recall": (0.0, 1.0, "a number from 0 to 1"),
    "alpha": (0.0, math.nextafter(1.0, 0.0), "a number from 0, below 1"),
    "times": (math.ulp(0.0), 1e6, "a number above 0"),
}
ONLY_WITH_K = ("short", "divisor")  # without a cut-off they change nothing
PRINTED_IF_CHANGED = ("short", "divisor", "unjudged", "times", "worth")
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
    "unjudged": "zero",
    "alpha": 0.5,
    "times": 1.0,
    "rounding": "up",
    "worth": "binary",
}

OWN_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "p": {"divisor": "k"},
    **{kind: {"empty": "skip"} for kind in ("pair-accuracy", "auc")},
}
PAIR_METRIC = "pair-accuracy"  # the one for preferences

_ALL = "all metrics"
_TREC: Mapping[str, Mapping[str, Any]] = {_ALL: {"ties": "docid", "gain": "linear"}, "map": {"divisor": "all"}}

#: Tool → metric → the conventions that differ from the defaults; those of ``all metrics`` hold for every metric, even
#: one that the tool lacks.
CONVENTIONS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "letor3": {_ALL: {"ties": "input", "discount": "letor"}},
    "letor4": {_ALL: {"ties": "input", "discount": "letor", "short": "zero"}},
    "trec_eval-9": _TREC,
    "trec_eval-10": {
        **_TREC,
        **{kind: {"rounding": "nearest"} for kind in ("iprec", "iprec-avg")},
        "rbp": {"p": 0.9, "worth": "scaled"},
        "rbp-resid": {"p": 0.9},
    },
    "ir-measures": {
        **_TREC,
        "rbp": {"ties": "input"},
        **{kind: {"ties": "docid-rising"} for kind in ("judged", "alpha-ndcg", "err-ia")},
    },
    "lightgbm": {_ALL: {"ties": "input"}, "ndcg": {"empty": 1}, "map": {"empty": 1}},
    "xgboost": {_ALL: {"ties": "input"}, "ndcg": {"empty": 1}, "map": {"empty": 1}, "p": {"divisor": "min"}},
    "catboost": {
        _ALL: {"ties": "worst", "gain": "linear"},
        **{kind: {"empty": 1} for kind in ("ndcg", "recall")},
        "p": {"divisor": "min"},
    },
    "sklearn": {_ALL: {"ties": "average", "gain": "linear"}},
}
ALIASES = {"trec": "trec_eval-9"}  # the version that most published figures are of

#: For runs, unless others are named.
RUN_CONVENTION = "trec_eval-9"
RUN_METRICS = ("map", "ndcg@10", "p@10", "recall@1000", "rprec", "bpref", "mrr", "judged@10")
#: What trec_eval prints, without counts.
TREC_METRICS = (
    "map",
    "rprec",
    "bpref",
    "mrr",
    *(f"iprec@{i / 10:g}" for i in range(11)),
    *(f"p@{k}" for k in (5, 10, 15, 20, 30, 100, 200, 500, 1000)),
)


def options_of(kind: str, k: int | None) -> tuple[str, ...]:
    """The conventions that the metric has, in the order they print."""
    return tuple(name for name in KINDS[kind][1] if k is not None or name not in ONLY_WITH_K)


def defaults_of(kind: str) -> dict[str, Any]:
    """The default conventions of the metric ``kind``."""
    own = OWN_DEFAULTS.get(kind, {"ties": "worst"} if kind in WITHOUT_AVERAGE else {})
    return {**DEFAULTS, **own}


def full_name(tool: str) -> str:
    """The name of a tool, with its version where versions differ."""
    name = str(tool).strip().lower()
    name = ALIASES.get(name, name)
    if name not in CONVENTIONS:
        raise UnknownNameError.among("convention", tool, (*CONVENTIONS, *ALIASES))
    return name


def conventions_of(tool: str, kind: str) -> dict[str, Any]:
    """Every convention of ``tool`` for the metric ``kind``."""
    table = CONVENTIONS[full_name(tool)]
    found = {**defaults_of(kind), **table[_ALL], **table.get(kind, {})}
    if kind in WITHOUT_AVERAGE and found["ties"] == "average":
        found["ties"] = "worst"
    return found


# -- one choice --------------------------------------------------------------------------------------------------------


def parse_convention(owner: str, kind: str, name: str, value: Any) -> Any:
    """A user's value for the convention ``name``, checked and in the form that the metric keeps."""
    if name in ("gain", "discount"):
        return _table(owner, name, value)
    if name in RANGES:
        return _number(owner, name, value)
    options = DIVISORS[kind] if name == "divisor" else CHOICES[name]
    if name == "ties" and kind in WITHOUT_AVERAGE:
        options = tuple(option for option in options if option != "average")
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
