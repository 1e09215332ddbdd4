"""Model files: a zip of JSON, arrays and texts, written whole or not at all, read without executing anything.

====================  ==================================================================================================
``manifest.json``     format and version, class and parameters of the ranker, fitted numbers, feature names, checksums
``NAME.npy``          one fitted array each
``NAME.txt``          one long fitted text each (LightGBM's model)
====================  ==================================================================================================
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from gainful.errors import FormatError, GainfulError, ParameterError
from gainful.formats.files import atomic_write
from gainful.jsonable import plain
from gainful.rankers.base import Ranker
from gainful.rankers.registry import known_classes

FORMAT, VERSION = "gainful-model", 1
MANIFEST = "manifest.json"
LONGEST_MANIFEST = 64 << 20
LARGEST_MEMBER = 4 << 30
LONG_TEXT = 1000
FIXED_DATE = (1980, 1, 1, 0, 0, 0)  # the same model gives the same bytes


def save(model: Ranker, path: str | Path) -> None:
    """Write a fitted ranker to ``path``. An existing file is replaced only once the new one is complete."""
    if not isinstance(model, Ranker):
        raise ParameterError.of("save", "model", "a fitted ranker", model)
    model._check_fitted()
    members: dict[str, bytes] = {}
    fitted: dict[str, Any] = {}
    for name, value in model._pack().items():
        if isinstance(value, np.ndarray):
            members[f"{name}.npy"] = _array_bytes(value)
        elif isinstance(value, str) and len(value) > LONG_TEXT:
            members[f"{name}.txt"] = value.encode()
        else:
            fitted[name] = value
    names = getattr(model, "feature_names_in_", None)
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "class": type(model).__name__,
        "params": plain(model._file_params()),
        "n_features": model.n_features_in_,
        "feature_names": None if names is None else [str(name) for name in names],
        "eval_metric": str(model._validation_metric()),
        "interrupted": bool(model.interrupted_),
        "n_iter": model.n_iter_,
        "history": plain(model.history_),
        "fitted": plain(fitted),
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in members.items()},
    }
    members = {MANIFEST: json.dumps(manifest, indent=1, sort_keys=True).encode()} | members
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, FIXED_DATE), content, zipfile.ZIP_DEFLATED)


def load(path: str | Path) -> Ranker:
    """The ranker that :func:`save` wrote."""
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = _manifest(archive, path)
            state = _fitted_state(archive, manifest, path)
    except FileNotFoundError as error:
        raise FormatError("there is no such file", path=path) from error
    except IsADirectoryError as error:
        raise FormatError("this is a folder, not a model file", path=path) from error
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError, ValueError, LookupError) as error:
        if isinstance(error, GainfulError):
            raise
        raise FormatError(f"not a readable gainful model file ({error})", path=path) from error
    return _rebuild(manifest, state, path)


def _rebuild(manifest: dict[str, Any], state: dict[str, Any], path: Path) -> Ranker:
    classes = known_classes()
    if manifest.get("class") not in classes:
        raise FormatError(f"this version of gainful has no ranker class {manifest.get('class')!r}", path=path)
    try:
        model = classes[manifest["class"]](**manifest["params"])
        model._check_parameters()
        model._unpack(state)
        model.n_features_in_ = int(manifest["n_features"])
        if manifest["feature_names"] is not None:
            model.feature_names_in_ = np.array(manifest["feature_names"], dtype=object)
        model.history_ = manifest["history"]
        model.n_iter_ = int(manifest["n_iter"])
        model.interrupted_ = bool(manifest["interrupted"])
    except Exception as error:  # a damaged file may break the rebuilding anywhere
        raise FormatError(f"the model file is damaged ({type(error).__name__}: {error})", path=path) from error
    return model


def _manifest(archive: zipfile.ZipFile, path: Path) -> dict[str, Any]:
    if MANIFEST not in archive.namelist():
        raise FormatError("not a gainful model file (it has no manifest)", path=path)
    manifest = json.loads(_member(archive, MANIFEST, LONGEST_MANIFEST, path))
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise FormatError("not a gainful model file (its manifest is another format's)", path=path)
    if manifest.get("version") != VERSION:
        raise FormatError(
            f"the model file has version {manifest.get('version')}, this gainful reads version {VERSION}; upgrade it",
            path=path,
        )
    return manifest


def _fitted_state(archive: zipfile.ZipFile, manifest: dict[str, Any], path: Path) -> dict[str, Any]:
    state = dict(manifest["fitted"])
    for name, digest in manifest["sha256"].items():
        content = _member(archive, name, LARGEST_MEMBER, path)
        if hashlib.sha256(content).hexdigest() != digest:
            raise FormatError(f"the model file is damaged ({name} does not match its checksum)", path=path)
        stem, _, suffix = name.rpartition(".")
        state[stem] = (
            np.lib.format.read_array(io.BytesIO(content), allow_pickle=False) if suffix == "npy" else content.decode()
        )
    return state


def _member(archive: zipfile.ZipFile, name: str, most: int, path: Path) -> bytes:
    try:
        size = archive.getinfo(name).file_size
    except KeyError as error:
        raise FormatError(f"the model file is damaged ({name} is missing)", path=path) from error
    if size > most:
        raise FormatError(f"{name} claims {size:,} bytes, more than the {most:,} allowed", path=path)
    with archive.open(name) as file:
        return file.read(size)


def _array_bytes(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()
