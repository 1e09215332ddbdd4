"""MLflow: log the parameters, training history, metrics and model file of a fitted ranker to the active run.

MLflow is not a dependency of gainful; it is imported when a function here is called.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import gainful
from gainful.errors import GainfulError, MissingExtraError, ParameterError, shorten
from gainful.rankers.base import Ranker
from gainful.rankers.model_file import save
from gainful.training.monitor import AFTER_FIT

LONGEST_VALUE = 250  # accepted by every version of MLflow's stores
FILE_NAME = "model.gainful"


def log_fit(model: Ranker, *, metrics: Mapping[str, float] | None = None, model_file: bool = True) -> None:
    """Log a fitted ranker to MLflow's active run; starts one if there is none.

    Logs the parameters; objective, gap and validation of each iteration, by step; the size of the training data; your
    own ``metrics``; and the model file as the artifact ``model.gainful``. MLflow allows no ``@`` in names, so
    ``ndcg@10`` is logged as ``ndcg_at_10``.
    """
    mlflow = _mlflow()
    if not isinstance(model, Ranker):
        raise ParameterError.of("log_fit", "model", "a fitted ranker", model)
    model._check_fitted()
    mlflow.set_tags({"gainful.version": gainful.__version__, "gainful.class": type(model).__name__})
    mlflow.log_params({name: shorten(value, LONGEST_VALUE) for name, value in model.get_params(deep=False).items()})
    for row in model.history_:
        values = {_name(name): row.get(name) for name in ("objective", "gap", "validation")}
        finite = {name: float(value) for name, value in values.items() if value is not None and np.isfinite(value)}
        if finite:
            mlflow.log_metrics(finite, step=int(row["iteration"]))
    mlflow.log_metrics(_figures(model) | {_name(name): float(value) for name, value in (metrics or {}).items()})
    if model_file:
        _log_file(mlflow, model, metrics)


@contextmanager
def autolog(*, model_file: bool = True) -> Iterator[None]:
    """Within the block, log every ``fit`` of a ranker in this process to MLflow, each in its own run.

    If a run is active, these runs are nested in it. Worker processes of a search log nothing. A ranker that cannot be
    saved to a model file, such as one of your own classes, is logged without it, with a warning.
    """
    mlflow = _mlflow()

    def log(model: Ranker) -> None:
        with mlflow.start_run(run_name=type(model).__name__, nested=mlflow.active_run() is not None):
            log_fit(model, model_file=False)
            if model_file:
                try:
                    _log_file(mlflow, model, None)
                except GainfulError as error:  # the fitted model must not be lost because its file is
                    warnings.warn(f"logged to MLflow without the model file: {error}", stacklevel=2)

    AFTER_FIT.append(log)
    try:
        yield
    finally:
        AFTER_FIT.remove(log)


def _log_file(mlflow: Any, model: Ranker, metrics: Mapping[str, float] | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder) / FILE_NAME, metrics=metrics)
        mlflow.log_artifact(str(Path(folder) / FILE_NAME))


def _figures(model: Ranker) -> dict[str, float]:
    facts = getattr(model, "training_", {})
    found = {f"training {name}": facts.get(name) for name in ("queries", "rows")}
    found |= {"iterations": model.n_iter_, "best validation": facts.get("validation", {}).get("best")}
    return {_name(name): float(value) for name, value in found.items() if value is not None}


def _name(text: str) -> str:
    """``test ndcg@10`` as ``test_ndcg_at_10``."""
    return re.sub(r"[^\w./:-]+", "_", text.replace("@", "_at_"))


def _mlflow() -> Any:
    try:
        return import_module("mlflow")
    except ImportError as error:
        raise MissingExtraError(
            "logging to MLflow needs mlflow, which is not installed; run: pip install mlflow"
        ) from error
