"""LightGBM, loaded so that its waiting threads soon sleep and forked children can use it. Imported on use."""

from __future__ import annotations

import ctypes
import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gainful.compute.threads import run_alone_after_fork, short_waits
from gainful.errors import LibraryError, brief

OPENMP = b"libgomp.so.1"


def load() -> None:
    """Import LightGBM. Its wheels do not bring OpenMP, which may have to be borrowed."""
    try:
        import_module("lightgbm")
    except OSError as error:  # the loader's
        try:
            borrow_openmp()
            import_module("lightgbm")
        except (OSError, AttributeError, IndexError):
            raise LibraryError(
                f"LightGBM, which grows and scores trees, cannot be loaded ({brief(error, 200)}); it needs OpenMP: apt "
                "install libgomp1 (Debian, Ubuntu), dnf install libgomp (Fedora), brew install libomp (macOS), or the "
                "Visual C++ Redistributable (Windows)"
            ) from None


def borrow_openmp() -> None:
    """Load the OpenMP in scikit-learn's wheels for Linux, for containers and small systems that have none.

    The loader goes by the name inside the library, which those wheels change; a copy in memory gets it back.
    """
    package = find_spec("sklearn")
    for path in Path(str(package and package.origin)).parents[1].glob("scikit_learn.libs/libgomp-*.so*"):
        name = path.name.encode() + b"\0"
        with open(os.memfd_create("libgomp"), "wb", buffering=0) as copy:
            copy.write(path.read_bytes().replace(name, OPENMP.ljust(len(name), b"\0")))
            ctypes.CDLL(f"/proc/self/fd/{copy.fileno()}", ctypes.RTLD_GLOBAL)


with short_waits():
    load()
    import lightgbm as lgb

native: Any = getattr(lgb.basic, "_LIB", None)  # not public: without it trees always grow on all threads
run_alone_after_fork(native)

__all__ = ["lgb", "native"]
