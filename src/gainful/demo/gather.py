"""A script that prints, as JSON, the documentation of Python's standard library and how often it is used.

It runs in a process of its own (see ``library.py``) and needs nothing but Python: importing a module can print, warn,
start threads or fail, and none of that may reach the program that asks.

    python -I -S gather.py [MODULE…]

Without modules it takes all public ones. An object that can be reached by several names is listed once.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import json
import os
import pkgutil
import re
import sys
import types
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

# Modules that act when imported, that hold no documentation of their own, or that many installations lack.
SKIPPED = {
    "__main__", "antigravity", "curses", "dbm.gnu", "dbm.ndbm", "distutils", "encodings", "ensurepip", "genericpath",
    "idlelib", "lib2to3", "msilib", "nis", "ntpath", "nturl2path", "ossaudiodev", "posix", "posixpath", "pydoc_data",
    "readline", "rlcompleter", "site", "spwd", "sre_compile", "sre_constants", "sre_parse", "test", "this", "tkinter",
    "turtle", "turtledemo",
}  # fmt: skip
UNCOUNTED = SKIPPED | {"tests", "site-packages", "dist-packages"}  # folders whose sources do not say what is used
FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, types.ClassMethodDescriptorType)
DOTTED = re.compile(r"\b[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
CALLED = re.compile(r"\.([A-Za-z_]\w*)\(")
IMPORT = re.compile(r"^[ \t]*import[ \t]+([\w.]+(?:[ \t]*,[ \t]*[\w.]+)*)", re.MULTILINE)
FROM = re.compile(r"^[ \t]*from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n#;]+)", re.MULTILINE)


def is_skipped(name: str) -> bool:
    parts = name.split(".")
    if any(part.startswith("_") and part != "__future__" for part in parts):
        return True
    return any(".".join(parts[: i + 1]) in SKIPPED for i in range(len(parts))) or bool({"test", "tests"} & set(parts))


def module_names() -> list[str]:
    """The public modules, with those inside packages, in alphabetical order."""
    found = {name for name in sys.stdlib_module_names if not is_skipped(name)} | {"os.path"}
    for name in sorted(found):
        found.update(inner for inner in submodule_names(name) if not is_skipped(inner))
    return sorted(found)


def submodule_names(package: str) -> Iterator[str]:
    module = imported(package)
    for inner in pkgutil.iter_modules(getattr(module, "__path__", ())):
        name = f"{package}.{inner.name}"
        if is_skipped(name):
            continue
        yield name
        if inner.ispkg:
            yield from submodule_names(name)


def imported(name: str) -> ModuleType | None:
    """The module, or None if it cannot be had here."""
    if name in sys.modules:
        return sys.modules[name]
    try:
        return importlib.import_module(name)
    except BaseException:  # a module may even leave by SystemExit
        return None


def exported(module: ModuleType) -> dict[str, Any]:
    """Name → object, of what the module offers its users."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return {name: getattr(module, name) for name in sorted(set(listed)) if hasattr(module, name)}
    own = {"_" + module.__name__, module.__name__}
    found = {}
    for name, value in sorted(vars(module).items()):
        home = getattr(value, "__module__", None)
        if not name.startswith("_") and isinstance(home, str) and home in own:
            found[name] = value
    return found


def goodness(value: Any, module: str, attribute: str) -> tuple[Any, ...]:
    """The best name of an object comes first: a builtin's, then one in the package it is from, then the shortest."""
    home = getattr(value, "__module__", None)
    same = isinstance(home, str) and home.lstrip("_").split(".")[0] == module.split(".")[0]
    own = getattr(value, "__name__", attribute) == attribute
    return (module != "builtins", not same, module.count("."), not own, module, attribute)


def text_of(value: Any) -> str:
    doc = getattr(value, "__doc__", None)
    return inspect.cleandoc(doc).strip() if isinstance(doc, str) else ""


def parameters_of(value: Any) -> list[str] | None:
    try:
        signature = inspect.signature(value)
    except Exception:  # a default may name what the module lacks, as select.epoll.register does; Python raises as it likes
        return None
    marks: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [marks.get(p.kind, "") + p.name for p in signature.parameters.values() if p.name not in ("self", "cls")]


def code_names(value: Any) -> list[str]:
    """The names that the code of a Python function uses, in alphabetical order; none for compiled functions."""
    found: set[str] = set()
    todo = [getattr(inspect.unwrap(value), "__code__", None)]
    while todo:
        code = todo.pop()
        if code is not None:
            found.update(code.co_names, code.co_varnames)
            todo += [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return sorted(name for name in found if not name.startswith("."))


def methods_of(cls: type) -> Iterator[tuple[str, Any]]:
    """Name → function, of the methods that the class itself defines."""
    for name, value in sorted(vars(cls).items()):
        inner = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if not name.startswith("_") and isinstance(inner, FUNCTIONS):
            yield name, inner


def gather(names: Iterable[str]) -> list[dict[str, Any]]:
    """One entry per module, class, function and method with a docstring, ordered by name."""
    places: dict[int, tuple[tuple[Any, ...], Any]] = {}
    modules: dict[str, ModuleType] = {}
    for name in names:
        module = imported(name)
        if module is None:
            continue
        modules[name] = module
        for attribute, value in exported(module).items():
            if isinstance(value, (type, *FUNCTIONS)):
                place = goodness(value, name, attribute)
                if id(value) not in places or place < places[id(value)][0]:
                    places[id(value)] = (place, value)
    entries: list[dict[str, Any]] = []
    seen: set[int] = set()
    members: dict[str, list[str]] = {name: [] for name in modules}
    for (*_, module, attribute), value in sorted(places.values(), key=lambda one: one[0][-2:]):
        name = attribute if module == "builtins" else f"{module}.{attribute}"
        members[module].append(attribute)
        kind = "class" if isinstance(value, type) else "function"
        methods: list[str] = []
        for method, function in methods_of(value) if kind == "class" else ():
            methods.append(method)
            if id(function) not in seen:  # another name of the same method
                seen.add(id(function))
                entries.append(entry(f"{name}.{method}", "method", module, name, function))
        entries.append(entry(name, kind, module, module, value, methods))
    entries += [entry(name, "module", name, "", module, members[name]) for name, module in modules.items()]
    documented: dict[str, dict[str, Any]] = {}
    for one in entries:
        if one["doc"]:
            documented.setdefault(one["name"], one)  # a package may offer a class by the name of a module
    return [documented[name] for name in sorted(documented)]


def entry(name: str, kind: str, module: str, parent: str, value: Any, members: Sequence[str] = ()) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "module": module,
        "parent": parent,
        "parameters": None if kind == "module" else parameters_of(value),
        "members": list(members),
        "code": code_names(value) if kind in ("function", "method") else [],
        "doc": text_of(value),
    }


def count_uses() -> dict[str, Counter[str]]:
    """How many files of the standard library import each module, name each dotted name, and call each method."""
    imports: Counter[str] = Counter()
    names: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    root = os.path.dirname(os.__file__)
    for folder, inner, files in os.walk(root):
        inner[:] = sorted(one for one in inner if one not in UNCOUNTED)
        for file in sorted(files):
            if file.endswith(".py"):
                with open(os.path.join(folder, file), encoding="utf-8", errors="replace") as stream:
                    count_uses_in(stream.read(), imports, names, calls)
    return {"imports": imports, "names": names, "calls": calls}


def count_uses_in(source: str, imports: Counter[str], names: Counter[str], calls: Counter[str]) -> None:
    used: set[str] = set()
    named = set(DOTTED.findall(source))
    for line in IMPORT.findall(source):
        used.update(one.strip() for one in line.split(","))
    for module, what in FROM.findall(source):
        if not module.startswith("."):
            used.add(module)
            named.update(f"{module}.{one}" for one in re.findall(r"(\w+)(?:\s+as\s+\w+)?", what))
    imports.update(used)
    names.update(named)
    calls.update(set(CALLED.findall(source)))


def main(names: Sequence[str]) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        missing = [name for name in names if imported(name) is None]
        entries = [] if missing else gather(sorted(names) if names else module_names())
        uses = {} if missing else count_uses()
    known = {one["name"] for one in entries}
    last = {one["name"].rpartition(".")[2] for one in entries if one["kind"] == "method"}
    wanted = {"imports": known, "names": known, "calls": last}
    kept = {
        kind: {name: n for name, n in sorted(counts.items()) if name in wanted[kind]} for kind, counts in uses.items()
    }
    text = json.dumps({"objects": entries, "uses": kept, "missing": missing})
    os.write(1, b"\n")  # ends a line that a module may have begun behind Python's back
    with open(1, "w", encoding="utf-8", closefd=False) as stream:
        stream.write(text + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # without waiting for threads or hooks that a module has left behind
