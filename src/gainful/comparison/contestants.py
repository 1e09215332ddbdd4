"""Which rankers are compared: names, names with settings, or estimators, each under a label of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gainful.errors import ParameterError, UnknownNameError
from gainful.parameters import parse_setting, split_outside_brackets
from gainful.rankers.base import Ranker
from gainful.rankers.registry import RANKERS, ranker


def contestants(rankers: Any) -> dict[str, Ranker]:
    """Label → unfitted ranker.

    ``rankers`` is "all", a name, a list of names and estimators, or a mapping from labels to these. A name may carry
    settings: ``"lambdamart:n_trees=100:n_leaves=8"``.
    """
    if isinstance(rankers, str):
        rankers = list(RANKERS) if rankers == "all" else split_outside_brackets(rankers, ",")
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


def ranker_from_spec(spec: str) -> Ranker:
    """``"lambdamart:n_trees=100"`` as an estimator."""
    name, *settings = split_outside_brackets(spec, ":")
    return ranker_with_settings(name, settings)


def ranker_with_settings(name: str, settings: Iterable[str]) -> Ranker:
    """A ranker by name, with parameters given as texts: ``["n_trees=100", "gain=linear"]``."""
    if name not in RANKERS:
        raise UnknownNameError.among("ranker", name, RANKERS)
    table = RANKERS[name].cls.parameters
    return ranker(name, **dict(parse_setting(name, table, setting) for setting in settings))


def _as_list(rankers: Any) -> Iterable[Any]:
    if isinstance(rankers, Ranker):
        return [rankers]
    if not isinstance(rankers, Iterable):
        raise ParameterError.of("compare", "rankers", "names, estimators or a mapping from labels to them", rankers)
    return rankers


def _ranker(spec: Any) -> Ranker:
    if isinstance(spec, str):
        return ranker_from_spec(spec)
    if isinstance(spec, Ranker):
        return spec
    raise ParameterError.of("compare", "rankers", "names, estimators or a mapping from labels to them", spec)


def _label(model: Any) -> str:
    return " ".join(str(model).split())
