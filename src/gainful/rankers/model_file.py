"""Model files: fitted rankers in a container of JSON, arrays and texts (:mod:`gainful.persistence.container`).

====================  ==================================================================================================
``manifest.json``     format and version, class and parameters of the ranker, fitted numbers, feature names, facts about
                      training, metrics, and the SHA-256 of every other member
``NAME.npy``          one fitted array each
``NAME.txt``          one long fitted text each (LightGBM's model)
====================  ==================================================================================================

Nothing is trusted unchecked: the container checks its members, ``_unpack`` checks shapes, and
:mod:`gainful.trees.booster_text` checks LightGBM's text before LightGBM reads it.

Every version up to the one of ``KIND`` is read; keys of the manifest that are not known are passed over.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

import gainful
from gainful.data.categories import check_categories, stored_categories
from gainful.errors import FormatError, LibraryError, ParameterError, shorten
from gainful.formats.files import reason
from gainful.metrics import metric
from gainful.persistence.container import (
    MANIFEST,
    Kind,
    pack,
    parse_manifest,
    read_container,
    write_container,
    writer_note,
)
from gainful.persistence.jsonable import plain
from gainful.rankers.base import Ranker
from gainful.rankers.registry import IMPORTED, RANKERS, RankerEntry
from gainful.training.history import History

KIND = Kind(
    "gainful-model",
    1,
    "model file",
    advice="; pass max_bytes= if you trust it",
    others=", nor a model of another library that gainful knows",
)
MAX_BYTES = 1 << 30  # unpacked, all members together
MOST_FEATURES = 10_000_000  # a row of them is 80 MB


# -- writing -----------------------------------------------------------------------------------------------------------


def save(model: Ranker, path: str | Path, *, metrics: Mapping[str, float] | None = None) -> None:
    """Write a fitted ranker to ``path``. An existing file is replaced only when the new one is complete.

    ``metrics`` are figures to store with the model, such as ``{"test ndcg@10": 0.47}``. The best value on ``eval_set``
    is stored in any case.
    """
    if not isinstance(model, Ranker):
        raise ParameterError.of("save", "model", "a fitted ranker", model)
    model._check_fitted()
    _refuse_strangers(model)
    state = model._pack()
    members = pack(KIND, _description(model, metrics), state)
    _rehearse(members[MANIFEST], state, path)
    write_container(KIND, path, members)


def _classes() -> Iterator[RankerEntry]:
    """What a model file can hold."""
    return chain(RANKERS.values(), IMPORTED.values())


def _refuse_strangers(model: Ranker) -> None:
    cls = type(model)
    if all((entry.class_name, entry.module) != (cls.__name__, cls.__module__) for entry in _classes()):
        raise ParameterError(
            f"{cls.__name__} is not one of gainful's rankers, and a model file can hold no other class; save it with "
            "joblib or cloudpickle instead"
        )


def _description(model: Ranker, metrics: Mapping[str, float] | None) -> dict[str, Any]:
    """The descriptive part of the manifest."""
    names = getattr(model, "feature_names_in_", None)
    return {
        "class": type(model).__name__,
        "params": plain(model._file_params()),
        "n_features": int(model.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
        "categories": stored_categories(getattr(model, "categories_", None)),
        "preprocessing": plain(model._preprocessing()),
        "eval_metric": str(model._validation_metric()),
        "training": plain(getattr(model, "training_", {})),
        "metrics": getattr(model, "metrics_", {}) | _plain_metrics(metrics or {}),
        "interrupted": bool(model.interrupted_),
        "n_iter": int(model.n_iter_),
        "history": plain(model.history_),
    }


def _plain_metrics(metrics: Mapping[str, float]) -> dict[str, float | None]:
    if not isinstance(metrics, Mapping):
        raise ParameterError.of("save", "metrics", "a mapping from names to numbers", metrics)
    for name, value in metrics.items():
        if not isinstance(name, str) or isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
            raise ParameterError.of("save", "metrics", "a mapping from names to numbers", metrics)
    return {name: float(value) if math.isfinite(value) else None for name, value in metrics.items()}


def pack_model(model: Ranker) -> tuple[dict[str, Any], dict[str, Any]]:
    """The description and the state of a fitted ranker that is part of another, without its history."""
    return _description(model, None) | {"history": [], "feature_names": None, "categories": None}, model._pack()


def unpack_model(description: Mapping[str, Any], state: dict[str, Any], path: Path) -> Ranker:
    """Restore what :func:`pack_model` returned; ``path`` is for errors."""
    return _rebuild(description, state, path)


def _rehearse(manifest: bytes, state: Mapping[str, Any], path: str | Path) -> None:
    """Rebuild the model as :func:`load` will, so that nothing unreadable is written."""
    try:
        read = parse_manifest(KIND, manifest, Path(path))
        large = {
            k: v
            for k, v in state.items()
            if isinstance(v, np.ndarray) or (isinstance(v, str) and k not in read["fitted"])
        }
        _rebuild(read, read["fitted"] | large, Path(path))
    except FormatError as error:
        raise ParameterError(f"this model cannot be saved, since it could not be loaded again: {error}") from error


# -- reading -----------------------------------------------------------------------------------------------------------


def load(path: str | Path, *, max_bytes: int = MAX_BYTES) -> Ranker:
    """The ranker that :func:`save` wrote; any other file raises ``FormatError``.

    ``max_bytes`` limits the unpacked size: larger files are refused before they are unpacked.
    """
    path = Path(path)
    manifest, state = _contents(path, max_bytes, whole=True)
    return _rebuild(manifest, state, path)


def model_info(path: str | Path) -> dict[str, Any]:
    """The description in a model file: class, parameters, features, training and metrics. The model is not loaded."""
    manifest, _ = _contents(Path(path), MAX_BYTES, whole=False)
    return _selected(manifest)


def describe_model(model: Ranker) -> dict[str, Any]:
    """What :func:`model_info` would say if the model were in a file."""
    return _selected(_description(model, None))


def _selected(manifest: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("version", "gainful", "class", "params", "n_features", "feature_names", "categories", "preprocessing",
            "eval_metric", "training", "metrics", "interrupted", "n_iter")  # fmt: skip
    return {name: manifest.get(name) for name in kept}


def _contents(path: Path, max_bytes: int, *, whole: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, (int, np.integer)) or max_bytes < 1:
        raise ParameterError.of("load", "max_bytes", "a number of bytes", max_bytes)
    return read_container(KIND, path, max_bytes, whole=whole)


# -- rebuilding ----------------------------------------------------------------------------------------------------


def _rebuild(manifest: Mapping[str, Any], state: dict[str, Any], path: Path) -> Ranker:
    model = _create_unfitted(manifest, path)
    try:
        _restore(model, manifest, state)
    except LibraryError:
        raise
    except Exception as error:  # a damaged file may fail anywhere
        cause = shorten(reason(error), 200)
        raise FormatError(f"the model file is damaged ({type(error).__name__}: {cause})", path=path) from error
    return model


def _create_unfitted(manifest: Mapping[str, Any], path: Path) -> Ranker:
    name, params = manifest.get("class"), manifest.get("params")
    entry = next((entry for entry in _classes() if entry.class_name == name), None)
    if entry is None:
        raise FormatError(
            f"this gainful {gainful.__version__} has no ranker class {shorten(name)}{writer_note(manifest)}", path=path
        )
    if not isinstance(params, dict):
        raise FormatError("the model file is damaged (it has no parameters)", path=path)
    if "scale" in entry.cls.parameters and "scale" not in params:  # the default would be another problem
        raise FormatError(
            f"this {name} is from before rankers had the parameter scale{writer_note(manifest)}; train it again, with "
            "scale=None where features are to count as given",
            path=path,
        )
    if "gradient_scale" in entry.cls.parameters and "scale" in params:  # what it was called before
        params = {"gradient_scale" if key == "scale" else key: value for key, value in params.items()}
    unknown = sorted(set(params) - set(entry.cls.parameters))
    if unknown:
        raise FormatError(
            f"{name} has no parameter {shorten(unknown[0])} in this gainful {gainful.__version__}"
            f"{writer_note(manifest)}; the file is damaged or from another version",
            path=path,
        )
    try:
        model = entry.cls(**params)
        model._check_parameters()
    except LibraryError:
        raise
    except Exception as error:
        raise FormatError(f"the model file is damaged ({shorten(reason(error), 200)})", path=path) from error
    return model


def _restore(model: Ranker, manifest: Mapping[str, Any], state: dict[str, Any]) -> None:
    n_features, names = manifest["n_features"], manifest["feature_names"]
    if isinstance(n_features, bool) or not isinstance(n_features, int) or not 1 <= n_features <= MOST_FEATURES:
        raise ValueError("n_features is not a number of features")
    model.n_features_in_ = n_features
    if names is not None:
        if not isinstance(names, list) or len(names) != n_features or not all(isinstance(name, str) for name in names):
            raise ValueError("feature_names are not one name per feature")
        model.feature_names_in_ = np.array(names, dtype=object)
    model.categories_ = check_categories(manifest.get("categories"), n_features)
    history, training, metrics = manifest["history"], manifest.get("training", {}), manifest.get("metrics", {})
    if not isinstance(history, list) or not all(isinstance(row, dict) for row in history):
        raise ValueError("history is not a list of iterations")
    if not isinstance(training, dict) or not isinstance(metrics, dict):
        raise ValueError("training and metrics are not mappings")
    if not all(value is None or type(value) in (int, float) for value in metrics.values()):
        raise ValueError("metrics are not numbers")
    metric(manifest["eval_metric"])  # raises if this version does not have the metric
    model._unpack(state)
    model.history_, model.training_ = History(history), training
    if metrics:
        model.metrics_ = metrics
    model.n_iter_ = int(manifest["n_iter"])
    model.interrupted_ = bool(manifest["interrupted"])
