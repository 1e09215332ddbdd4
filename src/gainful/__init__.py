"""gainful: learning to rank that optimises what you measure.

The stub beside this file lists the public names; each is loaded on first use, so ``import gainful`` costs next to
nothing.
"""

from importlib import import_module as _import_module

__version__ = "0.1.0"


def _read_stub() -> dict[str, str]:
    """Name → module, from the lines ``from MODULE import NAME as NAME`` of the stub."""
    stub = __spec__.loader.get_data(f"{__path__[0]}/__init__.pyi").decode()
    words = (line.split() for line in stub.splitlines() if line.startswith("from "))
    return {name: module for _, module, _, name, _, _ in words}


_MODULE_OF = _read_stub()
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name) or _module_of_ranker(name)
    if module is None:
        raise AttributeError(f"module 'gainful' has no attribute {name!r}")
    value = getattr(_import_module(module), name)
    globals()[name] = value
    return value


def _module_of_ranker(name: str) -> str | None:
    """Where the class of a registered ranker is; the stub lists it for type checkers only."""
    if not name[:1].isupper():
        return None
    entries = _import_module("gainful.rankers.registry").RANKERS.values()
    return next((entry.module for entry in entries if entry.class_name == name), None)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
