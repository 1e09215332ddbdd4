"""The documentation of Python's standard library, gathered by a child process that imports it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gainful.errors import DataError, GainfulError

SCRIPT = Path(__file__).with_name("gather.py")
PATIENCE = 120.0  # seconds; two are usual


@dataclass(frozen=True)
class LibraryObject:
    """A module, class, function or method: its best name, where it is defined, and its docstring."""

    name: str
    kind: str
    module: str
    parent: str  # the class of a method, the module of a class or function
    parameters: tuple[str, ...] | None  # None if Python cannot tell
    members: tuple[str, ...]
    doc: str
    code: tuple[str, ...] = ()  # names that its code uses

    @property
    def short_name(self) -> str:
        return self.name if self.kind == "module" else self.name.rpartition(".")[2]


def gather_library(modules: Sequence[str] | None = None) -> tuple[list[LibraryObject], dict[str, dict[str, int]]]:
    """The objects of the modules, by default of all public ones, and how many source files use what.

    The uses are three counts: ``imports`` by module, ``names`` by dotted name, ``calls`` by name of a method.
    """
    # -I and -S: the standard library alone, whatever else is installed or lies in the current folder
    command = [sys.executable, "-I", "-S", str(SCRIPT), *(modules or ())]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=True)
        found: Mapping[str, Any] = json.loads(done.stdout.decode("utf-8").rstrip("\n").rpartition("\n")[2])
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        last_words = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip().rpartition("\n")[2]
        raise GainfulError(
            "the documentation of the standard library could not be gathered by "
            f"{sys.executable}: {last_words or error}"
        ) from error
    if found["missing"]:
        name = found["missing"][0]
        raise DataError(f"the standard library of this Python has no module {name!r} that can be imported")
    objects = [
        LibraryObject(
            **{
                **one,
                "members": tuple(one["members"]),
                "code": tuple(one["code"]),
                "parameters": None if one["parameters"] is None else tuple(one["parameters"]),
            }
        )
        for one in found["objects"]
    ]
    return objects, dict(found["uses"])
