"""Constraints on parameters: one small vocabulary for checks, messages, command line and documentation.

A ranker declares a field ``C: float = parameter(1.0, Real(low=0, open_low=True, help="…"))``. Its constraint gives the
error for a bad value, parses ``--set C=10``, and appears in the list that ``gainful rankers NAME`` prints.
"""

from __future__ import annotations

import inspect
import json
import math
import numbers
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass
from typing import Any

from gainful.errors import GainfulError, ParameterError, UnknownKeywordError, UnknownNameError
from gainful.errors.other_names import INSTEAD, name_here


@dataclass(frozen=True)
class Constraint:
    """The values one parameter accepts. ``help`` is one line of documentation."""

    help: str = ""

    def accepts(self, value: Any) -> bool:
        raise TypeError(f"{type(self).__name__} does not say what it accepts")

    def expected(self) -> str:
        raise TypeError(f"{type(self).__name__} does not say what it expects")

    def reason(self, value: Any) -> str | None:
        """Why a value is not accepted, if that says more than what is expected."""
        return None

    def parse(self, text: str) -> Any:
        """The value of a command-line text; raises ValueError if the text is not a value."""
        return json.loads(text)


@dataclass(frozen=True)
class Real(Constraint):
    """A finite number in a range; ``open_low`` and ``open_high`` exclude the ends."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def accepts(self, value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            return False
        try:
            value = float(value)
        except OverflowError:  # of a whole number
            return False
        above = math.isfinite(value) and (value > self.low if self.open_low else value >= self.low)
        below = value < self.high if self.open_high else value <= self.high
        return bool(above and below)

    def expected(self) -> str:
        return "a number" + _range(self.low, self.high, self.open_low, self.open_high)

    def parse(self, text: str) -> float:
        return float(text)


@dataclass(frozen=True)
class Integer(Constraint):
    """A whole number in a closed range."""

    low: float = -math.inf
    high: float = math.inf

    def accepts(self, value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            return False
        return self.low <= int(value) <= self.high

    def expected(self) -> str:
        return "an integer" + _range(self.low, self.high, False, False)

    def parse(self, text: str) -> int:
        return int(text)


THREADS = Integer(low=-1, high=1024)  # OpenMP ends the process if it cannot start all of them


@dataclass(frozen=True)
class Flag(Constraint):
    """True or False."""

    def accepts(self, value: Any) -> bool:
        return isinstance(value, bool) or type(value).__name__ == "bool"

    def expected(self) -> str:
        return "True or False"

    def parse(self, text: str) -> bool:
        is_yes = text.lower() in ("true", "yes", "on", "1")
        if not is_yes and text.lower() not in ("false", "no", "off", "0"):
            raise ValueError(text)
        return is_yes


@dataclass(frozen=True)
class Choice(Constraint):
    """One of some names."""

    of: tuple[str, ...] = ()

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.of

    def expected(self) -> str:
        return " or ".join(repr(name) for name in self.of)

    def parse(self, text: str) -> str:
        return text


@dataclass(frozen=True)
class Name(Constraint):
    """A non-empty text."""

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and bool(value)

    def expected(self) -> str:
        return "a name"

    def parse(self, text: str) -> str:
        return text


@dataclass(frozen=True)
class Maybe(Constraint):
    """None, or what ``inner`` accepts."""

    inner: Constraint = Constraint()

    def accepts(self, value: Any) -> bool:
        return value is None or self.inner.accepts(value)

    def expected(self) -> str:
        return f"{self.inner.expected()}, or None"

    def reason(self, value: Any) -> str | None:
        return self.inner.reason(value)

    def parse(self, text: str) -> Any:
        return None if text.lower() == "none" else self.inner.parse(text)


def patience(unit: str) -> Maybe:
    """The constraint of ``early_stopping``, counted in ``unit``."""
    return Maybe(
        inner=Integer(low=1), help=f"{unit} without improvement on eval_set before stopping; None keeps all of them"
    )


@dataclass(frozen=True)
class Either(Constraint):
    """What any of several constraints accepts."""

    of: tuple[Constraint, ...] = ()

    def accepts(self, value: Any) -> bool:
        return any(one.accepts(value) for one in self.of)

    def expected(self) -> str:
        return ", or ".join(one.expected() for one in self.of)

    def reason(self, value: Any) -> str | None:
        return next((found for one in self.of if (found := one.reason(value)) is not None), None)

    def parse(self, text: str) -> Any:
        for one in self.of:
            try:
                value = one.parse(text)
            except ValueError:
                continue
            if one.accepts(value):
                return value
        raise ValueError(text)


@dataclass(frozen=True)
class ListOf(Constraint):
    """A list, tuple or array of one or more values that ``inner`` accepts.

    On the command line ``[1, 10, 100]``; names may also stand without brackets and quotes: ``regression,listnet``.
    """

    inner: Constraint = Constraint()
    empty: bool = False  # whether it may be empty

    def accepts(self, value: Any) -> bool:
        if not isinstance(value, (list, tuple)) and getattr(value, "ndim", None) != 1:
            return False
        values = list(value)
        return (self.empty or len(values) > 0) and all(self.inner.accepts(one) for one in values)

    def expected(self) -> str:
        return f"a list such as [1, 10]{' or []' if self.empty else ''}, each {self.inner.expected()}"

    def parse(self, text: str) -> Any:
        if isinstance(self.inner, Name) and not text.lstrip().startswith("["):
            return split_outside_brackets(text, ",")
        found = json.loads(text)
        if not isinstance(found, list):
            raise ValueError(text)
        return found


@dataclass(frozen=True)
class Function(Constraint):
    """Anything that can be called."""

    def accepts(self, value: Any) -> bool:
        return callable(value)

    def expected(self) -> str:
        return "a function"

    def parse(self, text: str) -> Any:
        raise ValueError(text)


class Spec(Constraint):
    """An object, or a text that names it; ``make`` turns either into the object."""

    def make(self, value: Any) -> Any:
        raise TypeError(f"{type(self).__name__} does not say how to make its object")

    def accepts(self, value: Any) -> bool:
        try:
            self.make(value)
        except GainfulError:
            return False
        return True

    def reason(self, value: Any) -> str | None:
        """Of a text with settings, as in "lambda(metric=map)": the name may be right and a setting wrong."""
        if isinstance(value, str) and "(" in value:
            try:
                self.make(value)
            except GainfulError as error:
                return str(error)
        return None

    def parse(self, text: str) -> str:
        return text


@dataclass(frozen=True)
class MetricSpec(Spec):
    """A metric, or a text that :func:`gainful.metric` understands."""

    def make(self, value: Any) -> Any:
        from gainful.metrics import metric  # metrics stand above

        return metric(value)

    def expected(self) -> str:
        return "a metric such as 'ndcg@10' or 'map'"


@dataclass(frozen=True)
class Settings(Constraint):
    """A mapping from names (or numbers, if ``numbers``) to values, passed on unchanged."""

    numbers: bool = False

    def accepts(self, value: Any) -> bool:
        kinds = (str, numbers.Integral) if self.numbers else str
        return isinstance(value, Mapping) and all(isinstance(name, kinds) for name in value)

    def expected(self) -> str:
        return "a mapping from names to values"


@dataclass(frozen=True)
class Seed(Constraint):
    """What scikit-learn takes as ``random_state``."""

    def accepts(self, value: Any) -> bool:
        return hasattr(value, "randint") or Integer(low=0, high=2**32 - 1).accepts(value)

    def expected(self) -> str:
        return "an integer ≥ 0 or a numpy RandomState"

    def parse(self, text: str) -> int:
        return int(text)


def parameter(default: Any, constraint: Constraint) -> Any:
    """A field of a dataclass estimator: its default, constraint and help, declared in one place."""
    return field(default=default, metadata={"constraint": constraint})


class DeclaredParameters:
    """``cls.parameters``: the constraint of each field made by :func:`parameter`, in the order of the signature.

    A subclass that only changes a default writes ``n_trees: int = 1000`` and keeps the constraint.
    """

    def __get__(self, instance: Any, cls: type) -> dict[str, Constraint]:
        declared = fields(cls) if is_dataclass(cls) else ()
        ordered = sorted(declared, key=lambda one: bool(one.kw_only))
        return {one.name: self._constraint(one, cls) for one in ordered}

    @staticmethod
    def _constraint(declared: Field[Any], cls: type) -> Constraint:
        for base in cls.__mro__:
            found = vars(base).get("__dataclass_fields__", {}).get(declared.name)
            if found is not None and "constraint" in found.metadata:
                constraint: Constraint = found.metadata["constraint"]
                return constraint
        raise TypeError(f"{cls.__name__}.{declared.name} has no constraint; declare it with parameter(default, …)")


def check_parameters(owner: str, table: Mapping[str, Constraint], values: Mapping[str, Any]) -> None:
    """Raise for the first value that its constraint does not accept."""
    for name, value in values.items():
        constraint = table[name]
        if not constraint.accepts(value):
            reason = constraint.reason(value)
            if reason is not None:
                raise ParameterError(f"{name} of {owner}: {reason}")
            raise ParameterError.of(owner, name, constraint.expected(), value)


def parse_setting(
    owner: str, table: Mapping[str, Constraint], setting: str, hint: Callable[[str, str], str] = lambda owner, name: ""
) -> tuple[str, Any]:
    """``"C=10"`` as ("C", 10.0), checked; ``hint`` may give advice on a name that ``owner`` does not have."""
    name, equals, text = setting.partition("=")
    name, text = name.strip(), text.strip()
    if not equals or not name:
        raise ParameterError(f"a setting must read NAME=VALUE, was {setting!r}")
    if name not in table:
        raise UnknownNameError.among("parameter", name, table, owner=owner, hint=hint(owner, name))
    try:
        value = table[name].parse(text)
    except ValueError as error:
        raise ParameterError.of(owner, name, table[name].expected(), text) from error
    check_parameters(owner, table, {name: value})
    return name, value


class InitSignature:
    """``inspect.signature`` of a class that has a ``__new__`` of its own: Python 3.11.2 would take that one's."""

    def __get__(self, instance: Any, owner: type) -> inspect.Signature:
        own = inspect.signature(owner.__init__)  # type: ignore[misc]
        return own.replace(parameters=list(own.parameters.values())[1:])


def refuse_unknown_parameters(cls: type, known: Collection[str], given: Iterable[str]) -> None:
    """Raise for the first name that is not a parameter of a class."""
    for name in given:
        if name not in known:
            raise UnknownKeywordError.among(
                "parameter", name, known, owner=cls.__name__, hint=_advice_for(cls, name, known)
            )


def _advice_for(cls: type, name: str, known: Collection[str]) -> str:
    """Advice for a name that belongs to ``fit``, or to one of its keywords; empty if there is none."""
    if name_here(name, known) is not None:
        return ""
    fit = getattr(cls, "fit", None)
    keywords = () if fit is None else inspect.signature(fit).parameters
    if name in keywords:
        return f"give it to fit: fit(…, {name}=…)"
    subject, advice = INSTEAD.get(name, ("", ""))
    return f"in fit, {advice}" if subject in keywords and subject not in known else ""


def split_outside_brackets(text: str, separator: str) -> list[str]:
    """``text`` cut at ``separator``, but not inside parentheses, brackets or braces; parts are stripped.

    >>> split_outside_brackets("ndcg@10(gain=linear, ties=input), map", ",")
    ['ndcg@10(gain=linear, ties=input)', 'map']
    """
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _range(low: float, high: float, open_low: bool, open_high: bool) -> str:
    if math.isinf(low) and math.isinf(high):
        return ""
    if math.isinf(high):
        return f" {'>' if open_low else '≥'} {low:g}"
    if math.isinf(low):
        return f" {'<' if open_high else '≤'} {high:g}"
    return f" in {'(' if open_low else '['}{low:g}, {high:g}{')' if open_high else ']'}"
