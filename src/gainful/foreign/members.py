"""Tables of the members that makers write: a file is read whole, or refused for the first member that no table knows.

A table says what becomes of each member of an object: it is read, has no meaning for scores (or none that is not read
elsewhere), may have one of a few values only (a tuple), or holds objects, which have a table of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gainful.errors import shorten
from gainful.foreign.checks import BadModelError

Table = dict[str, Any]
READ, NO_MEANING = "read", "no meaning"
ANY = "*"  # names that the users of a maker choose

# The newest version of each maker whose files were tried
TRIED = {"XGBoost": "3.4.1", "CatBoost": "1.2.10", "SVM-light": "6.20"}


def table(read: str, no_meaning: str = "", **others: Any) -> Table:
    """A table from names, separated by spaces, and its other rules."""
    return dict.fromkeys(read.split(), READ) | dict.fromkeys(no_meaning.split(), NO_MEANING) | others


def check_members(maker: str, values: Any, known: Table, where: str = "the model") -> None:
    """Raise for a member that its table does not know, at any depth, and for one with a value that it may not have."""
    todo = [(values, known, where)]
    while todo:
        inside, known, where = todo.pop()
        if isinstance(inside, list):
            todo += [(each, known, where) for each in inside]
        for name, value in inside.items() if isinstance(inside, Mapping) else ():
            rule = known.get(name, known.get(ANY))
            if rule is None:
                newest = f" {TRIED[maker]}, the newest" if maker in TRIED else ""
                raise BadModelError(
                    f"gainful does not know {shorten(name, 40)} in {where}, and could score wrongly without it: the "
                    f"file was changed, or its {maker} is newer than{newest or ' those'} that gainful was tried with"
                )
            if isinstance(rule, tuple) and not any(type(value) is type(only) and value == only for only in rule):
                allowed = shorten(rule[0], 40) if rule[0] else "empty"
                raise BadModelError(f"{name} in {where} is not {allowed}, all that gainful can score")
            if isinstance(rule, dict):
                todo.append((value, rule, name if where == "the model" else f"{where}.{name}"))


def notes_on_version(maker: str, version: str) -> list[str]:
    """A note if the version that wrote the file is newer than those that were tried."""
    parts, newest = ([int(part) for part in re.findall(r"\d{1,9}", text)] for text in (version, TRIED[maker]))
    note = f"written by {maker} {version}, newer than {TRIED[maker]}, the newest that was tried"
    return [note] if parts > newest else []
