"""The private names of LightGBM that growing on a cluster needs, in one place.

If a later LightGBM lacks one, the error names the tested version. Loads LightGBM, so it
is imported on use.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ctypes import c_char_p, c_int
from functools import reduce
from importlib import import_module
from typing import Any

from gainful.errors import GainfulError
from gainful.trees.lightgbm_library import lgb

TESTED = "4.7"


def private(module: str, path: str) -> Any:
    """The object at ``path``, a dotted name, in a module of LightGBM."""
    try:
        return reduce(getattr, path.split("."), import_module(f"lightgbm.{module}"))
    except (ImportError, AttributeError):
        raise GainfulError(
            f"LightGBM {lgb.__version__} has no lightgbm.{module}.{path}, which trees on a cluster need; they are "
            f"tested with LightGBM {TESTED}: install that"
        ) from None


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


def set_start(train: Any, trees: str) -> None:
    """Let boosters of this data set start with these trees, whose scores are its initial scores."""
    private("basic", "Dataset._set_predictor")  # it sets the attribute below: without it there is none
    booster = lgb.Booster(model_str=trees)
    start = private("basic", "_InnerPredictor").from_booster(booster=booster, pred_parameter={})
    start.gainful_booster = booster  # it uses the booster, but does not keep it alive
    train._predictor = start


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
