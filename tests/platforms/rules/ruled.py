"""Whom the rules bind: gainful and its tests. Libraries go on as on Linux, which they know to be under them.

On the real system they would take a branch of their own, which is not ours to try.
"""

from __future__ import annotations

import builtins
import importlib
import os
import sys
from collections.abc import Callable, Collection
from types import FrameType, ModuleType
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
OWN = tuple(os.path.join(ROOT, name) + os.sep for name in ("src", "tests", "fuzz", "benchmarks"))
RULES = os.path.dirname(os.path.abspath(__file__)) + os.sep
# these import what a test names (importorskip)
ASK_FOR_OTHERS = tuple(os.sep + name for name in ("_pytest" + os.sep, "pluggy" + os.sep, "importlib" + os.sep))


def is_ours(*, directly: bool = False, through: Collection[str] = ASK_FOR_OTHERS) -> bool:
    """Whether the code that asks is gainful's or a test's, through what ``through`` says.

    Through the standard library too, unless ``directly``.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(RULES) and not any(part in file for part in through):
            if file.startswith(OWN) or file == "<string>":
                return True
            if directly or "site-packages" in file:
                return False
        frame = frame.f_back
    return False


def hide(module: ModuleType, names: Collection[str]) -> None:
    """``module`` lacks these names for us."""
    hidden = {name: module.__dict__.pop(name) for name in names if name in module.__dict__}

    def find(name: str) -> Any:
        if name in hidden and not is_ours(directly=True, through=()):
            return hidden[name]
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r} under these rules")

    module.__getattr__ = find  # type: ignore[method-assign]


def hide_modules(names: Collection[str]) -> None:
    """These modules cannot be imported by us."""

    def unless_hidden(load: Callable[..., Any]) -> Callable[..., Any]:
        def load_unless_hidden(name: str, *rest: Any, **named: Any) -> Any:
            if name in names and is_ours(directly=True):
                raise ModuleNotFoundError(f"No module named {name!r} under these rules", name=name)
            return load(name, *rest, **named)

        return load_unless_hidden

    builtins.__import__ = unless_hidden(builtins.__import__)
    importlib.import_module = unless_hidden(importlib.import_module)


def hide_proc(*functions: tuple[Any, str]) -> None:
    """There is no ``/proc`` for us: neither for ``open`` nor for these functions, each (where it is, name)."""
    for owner, name in functions:
        setattr(owner, name, _without_proc(getattr(owner, name)))


def _without_proc(call: Callable[..., Any]) -> Callable[..., Any]:
    def refuse_proc(path: Any = ".", *rest: Any, **named: Any) -> Any:
        if not isinstance(path, int) and _is_in_proc(path) and is_ours():
            raise FileNotFoundError(2, "No such file or directory", os.fspath(path))
        return call(path, *rest, **named)

    return refuse_proc


def _is_in_proc(path: Any) -> bool:
    text = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else ""
    return text == "/proc" or text.startswith(("/proc/", "/sys/fs/cgroup", "/sys/devices"))
