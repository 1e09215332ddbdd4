"""Rankers as text: ``"lambdamart:n_trees=100:n_leaves=8"``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from gainful.compute.estimators import clone
from gainful.errors import UnknownNameError
from gainful.parameters.constraints import parse_setting, split_outside_brackets
from gainful.persistence.jsonable import plain
from gainful.rankers.base import Ranker
from gainful.rankers.registry import RANKERS, ranker, twin_hint


def ranker_from_spec(spec: str) -> Ranker:
    """``"lambdamart:n_trees=100"`` as an estimator."""
    name, settings = settings_of(spec)
    return ranker(name, **settings)


def with_metric(made: Ranker, spec: str, eval_metric: Any) -> Ranker:
    """The ranker of a spec, stopping early by this metric unless the spec names another."""
    named = any(setting.startswith("eval_metric=") for setting in split_outside_brackets(spec, ":"))
    if "eval_metric" in made.parameters and not named:
        return clone(made).set_params(eval_metric=eval_metric)  # type: ignore[no-any-return]
    return made


def ranker_with_settings(name: str, settings: Iterable[str]) -> Ranker:
    """A ranker by name, with parameters as strings: ``["n_trees=100", "gain=linear"]``."""
    return ranker(name, **parse_settings(name, settings))


def settings_of(spec: str) -> tuple[str, dict[str, Any]]:
    """``"lambdamart:n_trees=100"`` as ("lambdamart", {"n_trees": 100})."""
    name, *settings = split_outside_brackets(spec, ":")
    return name, parse_settings(name, settings)


def parse_settings(name: str, settings: Iterable[str]) -> dict[str, Any]:
    """Parameters of the ranker ``name`` from strings such as "n_trees=100", checked."""
    if name not in RANKERS:
        raise UnknownNameError.among("ranker", name, RANKERS)
    table = RANKERS[name].cls.parameters
    return dict(parse_setting(name, table, setting, twin_hint) for setting in settings)


def spec_text(name: str, settings: Mapping[str, Any]) -> str:
    """``"lambdamart:n_trees=100"`` from ("lambdamart", {"n_trees": 100})."""
    return ":".join([name, *(f"{key}={_text(value)}" for key, value in settings.items())])


def spec_of(model: Ranker) -> str:
    """The text of a ranker: the registered name with the fewest settings to add, and these settings."""
    own = {name: _text(value) for name, value in model._file_params().items()}
    specs = []
    for name, entry in RANKERS.items():
        if entry.cls is type(model):
            preset = {key: _text(value) for key, value in entry.create()._file_params().items()}
            specs.append(":".join([name, *(f"{key}={text}" for key, text in own.items() if text != preset[key])]))
    return min(specs, key=lambda spec: spec.count(":"), default=type(model).__name__)


def _text(value: Any) -> str:
    """A value as the command line takes it."""
    value = plain(value)
    return value if isinstance(value, str) else "none" if value is None else json.dumps(value)
