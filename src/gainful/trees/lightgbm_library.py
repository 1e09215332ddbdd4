"""LightGBM, loaded so that its waiting threads soon sleep and forked children can use it. Imported on use."""

from __future__ import annotations

from typing import Any

from gainful.compute.threads import run_alone_after_fork, short_waits

with short_waits():
    import lightgbm as lgb

native: Any = getattr(lgb.basic, "_LIB", None)  # not public: without it trees always grow on all threads
run_alone_after_fork(native)

__all__ = ["lgb", "native"]
