"""All losses by name. One entry makes a loss available to ``LinearRanker``, to the tests and to the documentation."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from gainful.errors import ParameterError, UnknownNameError
from gainful.losses.base import Loss, LossEntry, with_parameters
from gainful.losses.custom import PREFIX, custom_loss, missing_loss
from gainful.losses.listwise import LISTWISE
from gainful.losses.margins import MARGINS
from gainful.losses.pairwise import PAIRWISE
from gainful.losses.smooth_dcg import SMOOTH_DCG
from gainful.losses.structured.bounds import STRUCTURED
from gainful.losses.weighted import WEIGHTED
from gainful.parameters.constraints import Spec, split_outside_brackets

LOSSES: MappingProxyType[str, LossEntry] = MappingProxyType(
    {entry.name: entry for entry in (*PAIRWISE, *MARGINS, *LISTWISE, *WEIGHTED, *SMOOTH_DCG, *STRUCTURED)}
)
"""Every loss by name, a read-only mapping; an entry has formula, parameters, and whether it is convex or smooth."""

SPEC = re.compile(r"\s*([a-z][a-z0-9-]*)\s*(?:\((.*)\))?\s*", re.DOTALL)


def loss(what: str | Loss | Callable[..., Any], **params: Any) -> Loss:
    """A loss: by name with parameters, from a string such as ``"lambda(k=10)"``, or from a function.

    A function takes the scores and grades of one query and returns value and gradient; ``convex=True`` and
    ``smooth=True`` declare its properties (see :func:`gainful.losses.custom.custom_loss`).

    >>> import gainful
    >>> gainful.loss("lambda", k=10)
    loss('lambda(k=10)')
    >>> gainful.loss("lambda(k=10)") == gainful.loss("lambda", k=10)
    True
    """
    if isinstance(what, Loss):
        return with_parameters(what.entry, dict(what.values) | params) if params else what
    if callable(what):
        return custom_loss(what, **params)
    if not isinstance(what, str):
        raise ParameterError.of("loss", "what", "a name such as 'ranknet' or 'lambda(k=10)', or a function", what)
    if what.startswith(PREFIX):
        return missing_loss(what)
    found = SPEC.fullmatch(what)
    if found is None:
        raise ParameterError.of("loss", "what", "a name such as 'ranknet' or 'lambda(k=10)', or a function", what)
    name, inside = found.groups()
    if name not in LOSSES:
        raise UnknownNameError.among("loss", name, LOSSES)
    return with_parameters(LOSSES[name], _settings(LOSSES[name], inside or "") | params)


def loss_text(what: str | Loss | Callable[..., Any]) -> str:
    """A loss as a model file stores it: as text. A function cannot be stored, only named."""
    return what if isinstance(what, str) else str(loss(what))


def _settings(entry: LossEntry, inside: str) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for part in split_outside_brackets(inside, ",") if inside.strip() else []:
        name, _, text = (piece.strip() for piece in part.partition("="))
        if name not in entry.parameters:
            raise UnknownNameError.among("parameter", name, entry.parameters, owner=f"the loss {entry.name}")
        constraint = entry.parameters[name].constraint
        try:
            settings[name] = constraint.parse(text)
        except ValueError:
            raise ParameterError.of(entry.name, name, constraint.expected(), text) from None
    return settings


class LossSpec(Spec):
    """A loss, a string that :func:`gainful.loss` understands, or a function."""

    def make(self, value: Any) -> Loss:
        return loss(value)

    def expected(self) -> str:
        return f"a loss ({', '.join(LOSSES)}), or a function of scores and grades"
