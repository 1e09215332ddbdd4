"""Keywords that a function does not accept: one line says what to give instead."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from gainful.errors import UnknownKeywordError
from gainful.errors.other_names import INSTEAD, name_here

P = ParamSpec("P")
R = TypeVar("R")


def explain_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate ``function``: an unknown keyword raises an error that says what to give instead."""
    names = list(inspect.signature(function).parameters)
    is_method = names[0] == "self"
    known = names[1:] if is_method else names

    @functools.wraps(function)
    def call(*args: P.args, **given: P.kwargs) -> R:
        for name in given:
            if name not in names:
                of_class = type(args[0]) if is_method else None
                owner = of_class.__name__ if of_class and function.__name__ == "__call__" else function.__name__
                advice = _advice_for(name, known, of_class)
                raise UnknownKeywordError.among("keyword", name, known, owner=owner, hint=advice)
        return function(*args, **given)

    return call


def _advice_for(name: str, known: list[str], of_class: Any) -> str:
    """Advice for a keyword that is a parameter of the class instead, or that has no counterpart here."""
    parameters = getattr(of_class, "parameters", {})
    subject, advice = INSTEAD.get(name, ("", ""))
    if subject in known or subject in parameters:
        return advice
    ours = name if name in parameters else None if name_here(name, known) else name_here(name, parameters)
    return "" if ours is None else f"set {ours} of {of_class.__name__} instead"
