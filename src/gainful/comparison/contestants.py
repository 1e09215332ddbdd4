"""The rankers to compare: names, names with settings, or estimators, each with its own label."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from gainful.data.dataset import RankingData
from gainful.data.splits import Split
from gainful.errors import ParameterError
from gainful.parameters.constraints import split_outside_brackets
from gainful.rankers.base import Ranker
from gainful.rankers.registry import RANKERS, USEFUL_FEW
from gainful.rankers.specs import ranker_from_spec, ranker_with_settings, settings_of

AUTO_SECONDS = 60.0  # for auto in comparisons
GROUPS = ("few", "all")
__all__ = [
    "contestants",
    "ranker_names",
    "resolve_rankers",
    "ranker_from_spec",
    "ranker_with_settings",
    "within_seconds",
]


def contestants(rankers: Any) -> dict[str, Ranker]:
    """Label → unfitted ranker.

    ``rankers`` is "few" (see ``USEFUL_FEW``), "all", a name, a list of names and estimators, or a mapping from labels
    to these. A name may carry settings: ``"lambdamart:n_trees=100:n_leaves=8"``.
    """
    return {label: model for label, (model, _) in resolve_rankers(rankers).items()}


def refuse_data_as_rankers(rankers: Any, data: Any) -> None:
    """Raise if the data is missing or given in place of the rankers."""
    if data is None:
        raise ParameterError(
            "compare needs rankers and data, as in compare('few', 'train.txt'); one of them is missing"
        )
    is_path = isinstance(rankers, os.PathLike) or (isinstance(rankers, str) and os.path.isfile(rankers))
    if is_path or isinstance(rankers, (RankingData, Split)) or hasattr(rankers, "columns"):
        raise ParameterError("compare takes the rankers first and then the data, as in compare('few', data)")


def resolve_rankers(rankers: Any) -> dict[str, tuple[Ranker, frozenset[str]]]:
    """Label → unfitted ranker, and the parameters that its text sets, which are not tuned."""
    if isinstance(rankers, str):
        rankers = within_seconds(ranker_names(rankers), AUTO_SECONDS) if rankers in GROUPS else ranker_names(rankers)
    if isinstance(rankers, Mapping):
        chosen = {str(label): _ranker(spec) for label, spec in rankers.items()}
    else:
        chosen = {}
        for spec in _as_list(rankers):
            label = spec if isinstance(spec, str) else _label(spec)
            if label in chosen:
                raise ParameterError(f"the ranker {label!r} is given twice; use a mapping to give each a label")
            chosen[label] = _ranker(spec)
    if not chosen:
        raise ParameterError("no ranker to compare; name at least one")
    return chosen


def ranker_names(text: str) -> list[str]:
    """The names in a text: the installed rankers of a group, "few" or "all" (all but blends), or a list with commas."""
    single = tuple(name for name, entry in RANKERS.items() if entry.kind != "blend")
    names = {"few": USEFUL_FEW, "all": single}.get(text)
    if names is None:
        return split_outside_brackets(text, ",")
    return [name for name in names if RANKERS[name].installed]


def within_seconds(specs: Iterable[str], seconds: float) -> dict[str, str]:
    """Label → spec, where ``auto`` gets this time per training unless it names a budget."""
    return {spec: f"{spec}:seconds={seconds:g}" if _needs_budget(spec) else spec for spec in specs}


def _needs_budget(spec: str) -> bool:
    name, *settings = split_outside_brackets(spec, ":")
    return name == "auto" and not any(one.startswith(("seconds=", "trials=")) for one in settings)


def _as_list(rankers: Any) -> Iterable[Any]:
    if isinstance(rankers, Ranker):
        return [rankers]
    if not isinstance(rankers, Iterable):
        raise _not_rankers(rankers)
    return rankers


def _ranker(spec: Any) -> tuple[Ranker, frozenset[str]]:
    if isinstance(spec, str):
        return ranker_from_spec(spec), frozenset(settings_of(spec)[1])
    if isinstance(spec, Ranker):
        return spec, frozenset()
    raise _not_rankers(spec)


def _not_rankers(found: Any) -> ParameterError:
    kind = type(found).__name__
    if isinstance(found, type):
        return ParameterError(f"compare takes estimators, not classes; give {found.__name__}() with its parameters")
    if hasattr(found, "fit"):
        return ParameterError(
            f"compare trains gainful's own rankers, and {kind} is not one of them; to measure another library's model, "
            "give its scores to gainful.metric"
        )
    expected = "'few', 'all', names such as 'regression,lambdamart', estimators, or a mapping from labels to them"
    return ParameterError.of("compare", "rankers", expected, found)


def _label(model: Any) -> str:
    return " ".join(str(model).split())
