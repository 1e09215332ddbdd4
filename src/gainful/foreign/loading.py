"""``gainful.load``: model files of gainful and of other makers, told apart by their content.

A file of another maker is held to the same standard as our own: nothing in it is executed, its size is checked before
it is read, every number before it is used, and what is wrong with it is one line. A model that gainful could not score
as its maker does is refused as well.
"""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError

import numpy as np

from gainful.errors import FormatError, ParameterError, shorten
from gainful.foreign import catboost_json, lightgbm_text, linear_text, ranklib_text, xgboost_model
from gainful.foreign.checks import BadModelError, parse_json
from gainful.formats.files import UTF8_MARK, check_readable, reason
from gainful.formats.limits import MemoryLimit
from gainful.rankers import model_file
from gainful.rankers.base import Ranker
from gainful.trees.booster_text import BadBoosterText

HEAD = 4096  # bytes that tell a maker's file from another's
OBJECT_BYTES = 40  # a number of JSON in Python, with its place in a list
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError, ExpatError, csv.Error)
MAKERS = "LightGBM (text), XGBoost (JSON, UBJSON), CatBoost (JSON), RankLib, SVMrank, LIBLINEAR, or a list of weights"

# How files begin that their makers can write in another form: what they are, and what to do
OTHER_FORMS = {
    b"CBM1": ("CatBoost's own binary form", 'save it as JSON: model.save_model(path, format="json")'),
    b"binf": ("XGBoost's old binary form", "save it again with a newer XGBoost: booster.save_model('model.json')"),
    b"\x80": ("a pickle, which executes what it holds", "save the model in its maker's own format"),
}


def load(path: str | Path, *, max_bytes: int = model_file.MAX_BYTES) -> Ranker:
    """The ranker in a model file: one that :func:`save` wrote, or a model of another maker, recognised by its content.

    Read are LightGBM's text, XGBoost's JSON and UBJSON, CatBoost's JSON, RankLib's files, SVMrank's and LIBLINEAR's,
    and lists of weights (``{"bm25": 0.7, …}`` in JSON, or ``name,weight`` in CSV). They become an
    :class:`ImportedTrees` or :class:`ImportedLinear`, which scores as its maker does. Anything else raises
    ``FormatError``.

    ``max_bytes`` limits the size, unpacked: larger files are refused before they are read.
    """
    path = Path(path)
    maker = recognise(path)
    return model_file.load(path, max_bytes=max_bytes) if maker is None else _import(path, maker, max_bytes)


def load_booster(model: Any) -> Ranker | None:
    """The ranker of a ``Booster`` of LightGBM or XGBoost, which scores as that does; None for anything else."""
    maker = type(model).__module__.partition(".")[0]
    if type(model).__name__ != "Booster" or maker not in ("lightgbm", "xgboost"):
        return None
    try:
        if maker == "lightgbm":
            return READERS["LightGBM"](model.model_to_string().encode())
        return READERS["JSON"](bytes(model.save_raw("json")))
    except (BadModelError, BadBoosterText) as error:
        raise ParameterError(f"this {maker}.Booster cannot be used: {error}") from error


def model_info(path: str | Path) -> dict[str, Any]:
    """The description in a model file: class, parameters, features, training and metrics. The model is not loaded.

    A model of another maker has no description; it is loaded, and ``training`` holds what it says about itself.
    """
    path = Path(path)
    maker = recognise(path)
    if maker is None:
        return model_file.model_info(path)
    return model_file.describe_model(_import(path, maker, model_file.MAX_BYTES))


def is_model(path: Path) -> bool:
    """Whether a file is a model, ours or another maker's, rather than data or scores."""
    is_own = path.suffix == ".gainful" or (path.is_file() and zipfile.is_zipfile(path))
    return is_own or recognise(path) is not None


def recognise(path: Path) -> str | None:
    """The maker of a model file, a key of ``READERS``; None for our own files, and for all that is not a model."""
    if path.suffix == ".gainful" or not path.is_file():
        return None
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD)
    except OSError:
        return None
    head = head.removeprefix(UTF8_MARK)
    if head.startswith((b"tree\n", b"tree\r\n")):
        return "LightGBM"
    if head[:1] == b"{" and head[1:2] in b"LlIiU" and len(head) > 1:
        return "XGBoost (UBJSON)"
    if head.lstrip()[:1] in (b"{", b"["):
        return "JSON"
    if head.startswith(b"## "):
        return "RankLib"
    if head.startswith(b"SVM-light Version"):
        return "SVM-light"
    if head.startswith(b"solver_type "):
        return "LIBLINEAR"
    if head.startswith(tuple(OTHER_FORMS)):
        return "another form"
    return "list of weights" if linear_text.ROW.match(head) else None


def _import(path: Path, maker: str, max_bytes: int) -> Ranker:
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, (int, np.integer)) or max_bytes < 1:
        raise ParameterError.of("load", "max_bytes", "a number of bytes", max_bytes)
    size = check_readable(path)
    if size > max_bytes:
        raise FormatError(
            f"the model has {size:,} bytes, more than the {max_bytes:,} allowed; pass max_bytes= if you trust it",
            path=path,
        )
    limit = MemoryLimit(path)
    limit.check(size, "the model")
    raw = path.read_bytes().removeprefix(UTF8_MARK)
    limit.check(size + OBJECT_BYTES * (raw.count(b",") + raw.count(b" ")), "the model")
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # products of large numbers are checked when all is read
            return READERS[maker](raw)
    except (BadModelError, BadBoosterText) as error:
        raise FormatError(f"this {_called(maker)} cannot be read: {error}", path=path) from error
    except UNREADABLE as error:
        cause = shorten(reason(error), 120)
        raise FormatError(f"this {_called(maker)} is damaged ({type(error).__name__}: {cause})", path=path) from error


def _called(maker: str) -> str:
    return maker if maker == "list of weights" else "model" if maker in ("JSON", "another form") else f"{maker} model"


def _read_json(raw: bytes) -> Ranker:
    """Several makers write JSON; the names at the top tell them apart."""
    model = parse_json(raw)
    if isinstance(model, dict) and "learner" in model:
        return xgboost_model.read_model(model)
    if isinstance(model, dict) and "features_info" in model:
        return catboost_json.read_model(model)
    if isinstance(model, dict) and "tree_info" in model:
        raise BadModelError("it is LightGBM's dump; save the text instead: booster.save_model(path)")
    if isinstance(model, list):
        raise BadModelError(
            "it is a list; if it is XGBoost's dump, save the model instead: booster.save_model('model.json')"
        )
    if isinstance(model, dict) and model and all(isinstance(value, (int, float)) for value in model.values()):
        return linear_text.of_mapping(model)
    raise BadModelError(f"it is not a model of {MAKERS}")


def _refuse_form(raw: bytes) -> Ranker:
    what, instead = next(words for start, words in OTHER_FORMS.items() if raw.startswith(start))
    raise BadModelError(f"it is {what}; {instead}")


READERS: dict[str, Callable[[bytes], Ranker]] = {
    "LightGBM": lightgbm_text.read,
    "XGBoost (UBJSON)": xgboost_model.read_ubjson,
    "JSON": _read_json,
    "RankLib": ranklib_text.read,
    "SVM-light": linear_text.read_svm_light,
    "LIBLINEAR": linear_text.read_liblinear,
    "list of weights": linear_text.read_csv,
    "another form": _refuse_form,
}
