"""The private names of LightGBM that trees need, in one place.

If a later LightGBM lacks one, the error names that version and the versions to install. Loads LightGBM, so it is
imported on use. ``native`` in :mod:`gainful.trees.lightgbm_library` is the one private name that may be missing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ctypes import c_char_p, c_int
from functools import reduce
from importlib import import_module, metadata
from typing import Any

from gainful.errors import LibraryError
from gainful.trees.lightgbm_library import lgb


def private(module: str, path: str) -> Any:
    """The object at ``path``, a dotted name, in a module of LightGBM."""
    try:
        return reduce(getattr, path.split("."), import_module(f"lightgbm.{module}"))
    except (ImportError, AttributeError):
        raise LibraryError(
            f"LightGBM {lgb.__version__} has no lightgbm.{module}.{path}, which gainful needs; install a version that "
            f"has it: pip install '{_supported()}'"
        ) from None


def _supported() -> str:
    """The versions of LightGBM that gainful declares, as a requirement."""
    try:
        declared = metadata.requires("gainful") or []
    except metadata.PackageNotFoundError:
        declared = []
    return next((one for one in declared if one.startswith("lightgbm")), "lightgbm==4.7.0")


def parameter_aliases() -> dict[str, list[str]]:
    """LightGBM's parameters, each with its other names; there is no public list."""
    aliases: dict[str, list[str]] = private("basic", "_ConfigAliases._get_all_param_aliases")()
    return aliases


def train_on_dask(**about: Any) -> Any:
    """Run LightGBM on the workers of a cluster: a model, or the future of a part that failed."""
    return private("dask", "_train")(**about)


def connect(network: Mapping[str, Any]) -> None:
    """Join LightGBM's network, in this thread."""
    machines, port = c_char_p(str(network["machines"]).encode()), c_int(int(network["local_listen_port"]))
    about = machines, port, c_int(int(network["time_out"])), c_int(int(network["num_machines"]))
    private("basic", "_safe_call")(private("basic", "_LIB.LGBM_NetworkInit")(*about))


def disconnect() -> None:
    """Leave LightGBM's network, in this thread."""
    private("basic", "_safe_call")(private("basic", "_LIB.LGBM_NetworkFree")())


def set_start(booster: Any, *data_sets: Any) -> None:
    """Let boosters of these data sets start with the trees of another, whose scores are their initial scores.

    Training and validation data of a booster must share one start. LightGBM's only public way to continue
    trees predicts all rows at once.
    """
    private("basic", "Dataset._set_predictor")  # it sets the attribute below: without it there is none
    start = private("basic", "_InnerPredictor.from_booster")(booster=booster, pred_parameter={})
    start.gainful_booster = booster  # it uses the booster, but does not keep it alive
    for data in data_sets:
        data._predictor = start


@contextmanager
def log_to(log: logging.Logger) -> Iterator[None]:
    """Send the messages of ``lightgbm.dask`` to a log instead of standard output."""
    basic: Any = import_module("lightgbm.basic")
    names = "_LOGGER", "_INFO_METHOD_NAME", "_WARNING_METHOD_NAME"
    before = {name: private("basic", name) for name in names}
    lgb.register_logger(log, info_method_name="debug", warning_method_name="warning")
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(basic, name, value)
