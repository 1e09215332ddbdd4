"""The systems to compare: rankers by name or as estimators, and baselines of any origin, each with its own label."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

from gainful.comparison.baselines import Baseline, Fixed, baseline_from_function, baseline_from_text, numbers_of
from gainful.comparison.estimators import OtherEstimator, is_estimator
from gainful.data.dataset import RankingData
from gainful.data.splits import Split
from gainful.errors import ParameterError
from gainful.foreign.loading import is_model, load_booster
from gainful.foreign.rankers import Imported
from gainful.metrics import Metric
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


def contestants(rankers: Any) -> dict[str, Ranker | Baseline]:
    """Label → unfitted ranker, or another system.

    ``rankers`` is "few" (see ``USEFUL_FEW``), "all", a name, a list of these and of estimators, or a mapping from
    labels to them. A name may carry settings: ``"lambdamart:n_trees=100:n_leaves=8"``.
    """
    return {label: model for label, (model, _) in resolve_rankers(rankers).items()}


def refuse_data_as_rankers(rankers: Any, data: Any) -> None:
    """Raise if the data is missing or given in place of the rankers."""
    if data is None:
        raise ParameterError(
            "compare needs rankers and data, as in compare('few', 'train.txt'); one of them is missing"
        )
    is_path = isinstance(rankers, os.PathLike) or (isinstance(rankers, str) and os.path.isfile(rankers))
    is_data = is_path and not is_model(Path(rankers))
    if is_data or isinstance(rankers, (RankingData, Split)) or hasattr(rankers, "columns"):
        raise ParameterError("compare takes the rankers first and then the data, as in compare('few', data)")


def resolve_rankers(
    rankers: Any, headline: Metric | None = None
) -> dict[str, tuple[Ranker | Baseline, frozenset[str]]]:
    """Label → unfitted ranker or another system, and the parameters that its text sets, which are not tuned.

    ``auto`` and blends that are given by name optimise ``headline``, unless their text names another metric.
    """
    if isinstance(rankers, str):
        rankers = split_outside_brackets(rankers, ",")
    if isinstance(rankers, Mapping):
        chosen = {str(label): _contestant(spec, headline) for label, spec in rankers.items()}
    else:
        chosen = {}
        for spec in _with_groups(_as_list(rankers)):
            label, system = spec if _is_named(spec) else (_label(spec, chosen), spec)
            if label in chosen:
                raise ParameterError(f"the ranker {label!r} is given twice; use a mapping to give each a label")
            chosen[label] = _contestant(system, headline)
    if not chosen:
        raise ParameterError("no ranker to compare; name at least one")
    return chosen


def ranker_names(text: str) -> list[str]:
    """The names in a text with commas; "few" and "all" (all but blends) stand for installed rankers."""
    return [one if isinstance(one, str) else one[0] for one in _with_groups(split_outside_brackets(text, ","))]


def _with_groups(specs: Iterable[Any]) -> Iterator[Any]:
    """The specs, with the rankers of a group in its place as pairs, but for those that are named themselves."""
    given = list(specs)
    named = {spec for spec in given if isinstance(spec, str)}
    for spec in given:
        if isinstance(spec, str) and spec in GROUPS:
            names = USEFUL_FEW if spec == "few" else [name for name, one in RANKERS.items() if one.kind != "blend"]
            others = (name for name in names if RANKERS[name].installed and name not in named)
            yield from within_seconds(others, AUTO_SECONDS).items()
        else:
            yield spec


def within_seconds(specs: Iterable[str], seconds: float) -> dict[str, str]:
    """Label → spec, where ``auto`` gets this time per training unless it names a budget."""
    return {spec: f"{spec}:seconds={seconds:g}" if _needs_budget(spec) else spec for spec in specs}


def _needs_budget(spec: str) -> bool:
    name, *settings = split_outside_brackets(spec, ":")
    return name == "auto" and not any(one.startswith(("seconds=", "trials=")) for one in settings)


def _as_list(rankers: Any) -> Iterable[Any]:
    if isinstance(rankers, (Ranker, os.PathLike)) or is_estimator(rankers) or _is_function(rankers):
        return [rankers]
    if not isinstance(rankers, Iterable):
        raise _not_rankers(rankers)
    return rankers


def _is_named(spec: Any) -> bool:
    """Whether this is a pair of a label and a system."""
    return isinstance(spec, tuple) and len(spec) == 2 and isinstance(spec[0], str)


def _contestant(spec: Any, headline: Metric | None) -> tuple[Ranker | Baseline, frozenset[str]]:
    if isinstance(spec, os.PathLike):
        spec = f"model:{os.fspath(spec)}"
    if not isinstance(spec, str):
        return as_system(spec), frozenset()
    found = None if spec.partition(":")[0] in RANKERS else baseline_from_text(spec)
    if found is not None:
        return found, frozenset()
    ranker, given = ranker_from_spec(spec), frozenset(settings_of(spec)[1])
    if ranker.joins_validation and headline is not None and "metric" not in given:
        ranker.set_params(metric=headline.as_parameter())
    return ranker, given


def as_system(found: Any) -> Ranker | Baseline:
    """What a comparison can use: a ranker as it is, anything else that scores rows as a baseline."""
    found = load_booster(found) or found
    if isinstance(found, Imported):
        return Fixed(found.predict)  # it cannot be trained
    if isinstance(found, (Ranker, Baseline)):
        return found
    if is_estimator(found):
        return OtherEstimator(found)
    if not isinstance(found, type) and hasattr(found, "predict"):
        return Fixed(lambda data: found.predict(numbers_of(data)))
    if _is_function(found):
        return baseline_from_function(found)
    raise _not_rankers(found)


def _is_function(found: Any) -> bool:
    return callable(found) and not isinstance(found, type) and not isinstance(found, Iterable)


def _not_rankers(found: Any) -> ParameterError:
    if isinstance(found, type):
        return ParameterError(f"compare takes estimators, not classes; give {found.__name__}() with its parameters")
    expected = (
        "'few', 'all', names such as 'regression,lambdamart', estimators, functions of X, or a mapping from labels to "
        "them"
    )
    return ParameterError.of("compare", "rankers", expected, found)


def _label(spec: Any, taken: Collection[str]) -> str:
    """The name of a system: its text, a ranker with its parameters, or else the name of its class or function."""
    if isinstance(spec, str):
        return spec
    if isinstance(spec, os.PathLike):
        return f"model:{os.fspath(spec)}"
    if isinstance(spec, Ranker) and not isinstance(spec, Imported):
        return " ".join(str(spec).split())
    if hasattr(spec, "predict") or not hasattr(spec, "__name__"):
        name = type(spec).__name__
    elif hasattr(spec, "__self__") and not isinstance(spec.__self__, ModuleType):
        name = f"{type(spec.__self__).__name__}.{spec.__name__}"
    else:
        name = "function" if spec.__name__ == "<lambda>" else spec.__name__
    numbered = (f"{name} {n}" if n > 1 else name for n in count(1))
    return next(label for label in numbered if label not in taken)
