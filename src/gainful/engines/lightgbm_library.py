"""LightGBM, loaded so that its threads soon sleep when they wait. Imported on use."""

from __future__ import annotations

from gainful.threads import short_waits

with short_waits():
    import lightgbm as lgb

__all__ = ["lgb"]
