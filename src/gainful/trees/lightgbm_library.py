"""LightGBM, loaded so that its waiting threads soon sleep and forked children can use it. Imported on use."""

from __future__ import annotations

from typing import Any

from gainful.compute.threads import run_alone_after_fork, short_waits
from gainful.errors import LibraryError, brief

try:
    with short_waits():
        import lightgbm as lgb
except OSError as error:  # the loader's: its wheels do not bring OpenMP
    raise LibraryError(
        f"LightGBM, which grows and scores trees, cannot be loaded ({brief(error, 200)}); it needs OpenMP: apt install "
        "libgomp1 (Debian, Ubuntu), dnf install libgomp (Fedora), brew install libomp (macOS), or the Visual C++ "
        "Redistributable (Windows)"
    ) from None

native: Any = getattr(lgb.basic, "_LIB", None)  # not public: without it trees always grow on all threads
run_alone_after_fork(native)

__all__ = ["lgb", "native"]
