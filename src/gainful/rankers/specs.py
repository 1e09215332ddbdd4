"""Rankers as text: ``"lambdamart:n_trees=100:n_leaves=8"``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gainful.errors import UnknownNameError
from gainful.parameters.constraints import parse_setting, split_outside_brackets
from gainful.rankers.base import Ranker
from gainful.rankers.registry import RANKERS, ranker


def ranker_from_spec(spec: str) -> Ranker:
    """``"lambdamart:n_trees=100"`` as an estimator."""
    name, settings = settings_of(spec)
    return ranker(name, **settings)


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
    return dict(parse_setting(name, table, setting) for setting in settings)
