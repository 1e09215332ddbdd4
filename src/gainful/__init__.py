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
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'gainful' has no attribute {name!r}")
    value = getattr(_import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
