"""``Debias``: how training corrects clicks for the positions in which documents were shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from gainful.errors import ParameterError, UnknownNameError
from gainful.parameters.constraints import Choice, Constraint, Flag, Real, check_parameters, split_outside_brackets

METHODS = ("auto", "ipw", "em", "pairwise", "naive")
SPEC = re.compile(r"\s*([a-z]+)\s*(?:\((.*)\))?\s*", re.DOTALL)
CONSTRAINTS: Mapping[str, Constraint] = {
    "method": Choice(of=METHODS),
    "clip": Real(low=0, high=1, open_high=True),
    "self_normalise": Flag(),
}


@dataclass(frozen=True)
class Debias:
    """How to correct clicks for the position in which a document was shown.

    Parameters
    ----------
    method : "ipw" divides every click by the propensity of its row, the probability that it was examined; "em" learns
        propensities from positions by regression-EM and does the same; "pairwise" learns a ratio for clicked and one
        for unclicked documents of each position; "naive" takes clicks as they are. "auto": "ipw" if the data has
        propensities, otherwise "em"
    clip : least propensity, at least 0 and below 1; lower ones are raised to it. More bias, less variance
    self_normalise : let every query count by its number of clicks, whatever their propensities. More bias, less
        variance

    As text: ``"ipw"``, ``"em(clip=0.05)"``, ``"ipw(clip=0, self_normalise=true)"``.
    """

    method: str = "auto"
    clip: float = 0.01
    self_normalise: bool = False

    def __post_init__(self) -> None:
        check_parameters("Debias", CONSTRAINTS, asdict(self))

    def __str__(self) -> str:
        changed = [f"{one.name}={getattr(self, one.name)!r}" for one in fields(self)[1:]
                   if getattr(self, one.name) != one.default]  # fmt: skip
        return f"{self.method}({', '.join(changed)})" if changed else self.method

    @classmethod
    def of(cls, what: Any) -> Debias:
        """The settings of a text such as "em(clip=0.05)"; None means the defaults."""
        if what is None:
            return cls()
        if isinstance(what, cls):
            return what
        found = SPEC.fullmatch(what) if isinstance(what, str) else None
        if found is None:
            raise ParameterError.of("fit", "debias", "a text such as 'ipw' or 'em(clip=0.05)', or a Debias", what)
        method, inside = found.groups()
        if method not in METHODS:
            raise UnknownNameError.among("method of debiasing", method, METHODS)
        return cls(method, **_parse(inside or ""))


def _parse(inside: str) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for part in split_outside_brackets(inside, ",") if inside.strip() else []:
        name, _, text = (piece.strip() for piece in part.partition("="))
        if name not in CONSTRAINTS or name == "method":
            raise UnknownNameError.among("parameter", name, tuple(CONSTRAINTS)[1:], owner="Debias")
        try:
            settings[name] = CONSTRAINTS[name].parse(text)
        except ValueError:
            raise ParameterError.of("Debias", name, CONSTRAINTS[name].expected(), text) from None
    return settings
