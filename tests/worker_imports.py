"""Imported once, by the process that workers of a cluster are forked from."""

from __future__ import annotations

import importlib
import pkgutil

import lightgbm  # noqa: F401

for name in ("cluster", "data", "linear", "losses", "rankers", "trees"):
    package = importlib.import_module(f"gainful.{name}")
    for module in pkgutil.walk_packages(package.__path__, f"gainful.{name}."):
        importlib.import_module(module.name)
