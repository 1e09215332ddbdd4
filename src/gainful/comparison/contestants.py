"""Which rankers are compared: names, names with settings, or estimators, each under a label of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gainful.errors import ParameterError
from gainful.parameters import split_outside_brackets
from gainful.rankers.base import Ranker
from gainful.rankers.registry import RANKERS
from gainful.rankers.specs import ranker_from_spec, ranker_with_settings, settings_of

__all__ = ["contestants", "entries", "ranker_from_spec", "ranker_with_settings"]


def contestants(rankers: Any) -> dict[str, Ranker]:
    """Label → unfitted ranker.

    ``rankers`` is "all", a name, a list of names and estimators, or a mapping from labels to these. A name may carry
    settings: ``"lambdamart:n_trees=100:n_leaves=8"``.
    """
    return {label: model for label, (model, _) in entries(rankers).items()}


def entries(rankers: Any) -> dict[str, tuple[Ranker, frozenset[str]]]:
    """Label → unfitted ranker, and the parameters that its text sets, which tuning leaves alone."""
    if isinstance(rankers, str):
        installed = [name for name, entry in RANKERS.items() if entry.installed]
        rankers = installed if rankers == "all" else split_outside_brackets(rankers, ",")
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
        raise ParameterError("there is no ranker to compare; name at least one")
    return chosen


def _as_list(rankers: Any) -> Iterable[Any]:
    if isinstance(rankers, Ranker):
        return [rankers]
    if not isinstance(rankers, Iterable):
        raise ParameterError.of("compare", "rankers", "names, estimators or a mapping from labels to them", rankers)
    return rankers


def _ranker(spec: Any) -> tuple[Ranker, frozenset[str]]:
    if isinstance(spec, str):
        return ranker_from_spec(spec), frozenset(settings_of(spec)[1])
    if isinstance(spec, Ranker):
        return spec, frozenset()
    raise ParameterError.of("compare", "rankers", "names, estimators or a mapping from labels to them", spec)


def _label(model: Any) -> str:
    return " ".join(str(model).split())
