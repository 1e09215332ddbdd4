"""Model files: a zip of JSON, arrays and texts, written whole or not at all, read without executing anything.

====================  ==================================================================================================
``manifest.json``     format and version, class and parameters of the ranker, fitted numbers, feature names, how it was
                      trained, metrics reached, and the SHA-256 of every other member
``NAME.npy``          one fitted array each
``NAME.txt``          one long fitted text each (LightGBM's model)
====================  ==================================================================================================

Nothing is believed before it is checked: sizes before anything is unpacked, checksums before anything is parsed, the
shapes of arrays against each other, and LightGBM's text by :mod:`gainful.engines.booster_text` before LightGBM gets it.

The version counts changes that an older reader would misread. Every version up to ``VERSION`` is read; keys of the
manifest that are not known are passed over.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import gainful
from gainful.errors import FormatError, GainfulError, ParameterError, shorten
from gainful.formats.files import atomic_write, reason
from gainful.jsonable import plain
from gainful.metrics import metric
from gainful.rankers.base import Ranker
from gainful.rankers.registry import RANKERS

FORMAT, VERSION = "gainful-model", 1
MANIFEST = "manifest.json"
MAX_BYTES = 1 << 30  # unpacked, all members together
LONGEST_MANIFEST, MOST_JSON_VALUES = 64 << 20, 2_000_000
LONGEST_DIRECTORY, MOST_MEMBERS = 1 << 20, 4096
LONG_TEXT = 1000
MOST_FEATURES = 10_000_000  # a row of them is 80 MB
FIXED_DATE = (1980, 1, 1, 0, 0, 0)  # the same model gives the same bytes
UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError, ValueError, LookupError, struct.error,
              TypeError, AttributeError, OverflowError, NotImplementedError)  # fmt: skip

MEMBER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\.(?:npy|txt)")
ARRAY_HEADER = re.compile(
    rb"\{'descr': '([<|](?:f[48]|[iu][1248]|b1))', 'fortran_order': False, "
    rb"'shape': \(((?:[0-9]{1,18}, ?)*[0-9]{0,18})\), \} *\n"
)
ARRAY_MAGIC = b"\x93NUMPY\x01\x00"
END_OF_DIRECTORY = b"PK\x05\x06"


# -- writing -----------------------------------------------------------------------------------------------------------


def save(model: Ranker, path: str | Path, *, metrics: Mapping[str, float] | None = None) -> None:
    """Write a fitted ranker to ``path``. An existing file is replaced only once the new one is complete.

    ``metrics`` are figures to keep with the model, such as ``{"test ndcg@10": 0.47}``. The best value on ``eval_set``
    is kept by itself.
    """
    if not isinstance(model, Ranker):
        raise ParameterError.of("save", "model", "a fitted ranker", model)
    model._check_fitted()
    _refuse_strangers(model)
    state = model._pack()
    members: dict[str, bytes] = {}
    fitted: dict[str, Any] = {}
    for name, value in state.items():
        if isinstance(value, np.ndarray):
            members[f"{name}.npy"] = _array_bytes(value)
        elif isinstance(value, str) and len(value) > LONG_TEXT:
            members[f"{name}.txt"] = value.encode()
        else:
            fitted[name] = value
    manifest = _described(model, metrics)
    manifest |= {
        "fitted": plain(fitted),
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in members.items()},
    }
    text = json.dumps(manifest, indent=1, sort_keys=True, allow_nan=False).encode()
    _rehearse(text, state, path)
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in ({MANIFEST: text} | members).items():
            archive.writestr(zipfile.ZipInfo(name, FIXED_DATE), content, zipfile.ZIP_DEFLATED)


def _refuse_strangers(model: Ranker) -> None:
    cls = type(model)
    if all((entry.class_name, entry.module) != (cls.__name__, cls.__module__) for entry in RANKERS.values()):
        raise ParameterError(
            f"{cls.__name__} is not one of gainful's rankers, and a model file can name no other class; keep it with "
            "joblib or cloudpickle instead"
        )


def _described(model: Ranker, metrics: Mapping[str, float] | None) -> dict[str, Any]:
    """The part of the manifest that a person would ask for."""
    names = getattr(model, "feature_names_in_", None)
    return {
        "format": FORMAT,
        "version": VERSION,
        "gainful": gainful.__version__,
        "class": type(model).__name__,
        "params": plain(model._file_params()),
        "n_features": int(model.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
        "preprocessing": plain(model._preprocessing()),
        "eval_metric": str(model._validation_metric()),
        "training": plain(getattr(model, "training_", {})),
        "metrics": getattr(model, "metrics_", {}) | _checked_metrics(metrics or {}),
        "interrupted": bool(model.interrupted_),
        "n_iter": int(model.n_iter_),
        "history": plain(model.history_),
    }


def _checked_metrics(metrics: Mapping[str, float]) -> dict[str, float | None]:
    if not isinstance(metrics, Mapping):
        raise ParameterError.of("save", "metrics", "a mapping from names to numbers", metrics)
    for name, value in metrics.items():
        if not isinstance(name, str) or isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
            raise ParameterError.of("save", "metrics", "a mapping from names to numbers", metrics)
    return {name: float(value) if math.isfinite(value) else None for name, value in metrics.items()}


def _rehearse(manifest: bytes, state: Mapping[str, Any], path: str | Path) -> None:
    """Rebuild the model as :func:`load` will: what could not be read again is not written."""
    try:
        read = _parsed_manifest(manifest, Path(path))
        large = {
            k: v
            for k, v in state.items()
            if isinstance(v, np.ndarray) or (isinstance(v, str) and k not in read["fitted"])
        }
        _rebuild(read, read["fitted"] | large, Path(path))
    except FormatError as error:
        raise ParameterError(f"this model cannot be written so that it can be read again: {error}") from error


def _array_bytes(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(array.shape)
    np.lib.format.write_array(buffer, little, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


# -- reading -----------------------------------------------------------------------------------------------------------


def load(path: str | Path, *, max_bytes: int = MAX_BYTES) -> Ranker:
    """The ranker that :func:`save` wrote, checked throughout; a file that is anything else raises ``FormatError``.

    ``max_bytes`` bounds what the file may unpack to: larger files are refused before anything of them is unpacked.
    """
    path = Path(path)
    manifest, state = _contents(path, max_bytes, whole=True)
    return _rebuild(manifest, state, path)


def model_info(path: str | Path) -> dict[str, Any]:
    """What a model file says about itself: class, parameters, features, training and metrics, without the model."""
    manifest, _ = _contents(Path(path), MAX_BYTES, whole=False)
    kept = ("version", "gainful", "class", "params", "n_features", "feature_names", "preprocessing", "eval_metric",
            "training", "metrics", "interrupted", "n_iter")  # fmt: skip
    return {name: manifest.get(name) for name in kept}


def _contents(path: Path, max_bytes: int, *, whole: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, (int, np.integer)) or max_bytes < 1:
        raise ParameterError.of("load", "max_bytes", "a number of bytes", max_bytes)
    try:
        if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():  # opening a pipe would wait for a writer
            raise FormatError("is not a regular file, so it is no model file", path=path)
        with open(path, "rb") as file:
            _check_archive(file, path, max_bytes)
            with zipfile.ZipFile(file) as archive:
                sizes = _checked_members(archive, path, max_bytes)
                manifest = _manifest(archive, sizes, path)
                return manifest, _fitted_state(archive, manifest, sizes, path) if whole else {}
    except FileNotFoundError as error:
        raise FormatError("there is no such file", path=path) from error
    except IsADirectoryError as error:
        raise FormatError("this is a folder, not a model file", path=path) from error
    except UNREADABLE as error:
        if isinstance(error, GainfulError):
            raise
        raise FormatError(f"not a readable gainful model file ({shorten(reason(error), 120)})", path=path) from error


def _check_archive(file: Any, path: Path, max_bytes: int) -> None:
    """Size of the file and of its directory, which :mod:`zipfile` reads whole before it can be asked anything."""
    info = os.fstat(file.fileno())
    if not stat.S_ISREG(info.st_mode):
        raise FormatError("is not a regular file, so it is no model file", path=path)
    if info.st_size > max_bytes + LONGEST_DIRECTORY:
        raise _too_large(info.st_size, max_bytes, path)
    file.seek(max(0, info.st_size - 42))
    end = file.read(42)
    if end[-22:-18] != END_OF_DIRECTORY or end[-2:] != b"\0\0":
        raise FormatError("not a readable gainful model file (it is no zip, or cut short)", path=path)
    members, length = struct.unpack("<HI", end[-12:-6])
    large = info.st_size >= 2**32 - 1  # only such a file needs the longer form of a directory
    if members > MOST_MEMBERS or length > LONGEST_DIRECTORY or (end[:4] == b"PK\x06\x07" and not large):
        raise FormatError("not a gainful model file (its directory is too long)", path=path)


def _checked_members(archive: zipfile.ZipFile, path: Path, max_bytes: int) -> dict[str, int]:
    """Unpacked size of each member, by name."""
    sizes: dict[str, int] = {}
    for info in archive.infolist():
        if info.filename in sizes:
            raise FormatError(f"the model file is damaged ({shorten(info.filename)} is there twice)", path=path)
        if info.filename != MANIFEST and not MEMBER.fullmatch(info.filename):
            raise FormatError(f"not a gainful model file (it holds {shorten(info.filename)})", path=path)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FormatError(f"the model file is damaged ({info.filename} is packed in an unknown way)", path=path)
        sizes[info.filename] = info.file_size
    if MANIFEST not in sizes:
        raise FormatError("not a gainful model file (it has no manifest)", path=path)
    if sum(sizes.values()) > max_bytes:
        raise _too_large(sum(sizes.values()), max_bytes, path)
    return sizes


def _too_large(size: int, most: int, path: Path) -> FormatError:
    return FormatError(
        f"the model file claims {size:,} bytes, more than the {most:,} allowed; pass max_bytes= if you trust it",
        path=path,
    )


def _manifest(archive: zipfile.ZipFile, sizes: Mapping[str, int], path: Path) -> dict[str, Any]:
    if sizes[MANIFEST] > LONGEST_MANIFEST:
        raise FormatError("not a gainful model file (its manifest is too long)", path=path)
    return _parsed_manifest(_member(archive, MANIFEST, sizes, path), path)


def _parsed_manifest(text: bytes, path: Path) -> dict[str, Any]:
    if len(text) > LONGEST_MANIFEST or sum(text.count(mark) for mark in (b",", b"[", b"{")) > MOST_JSON_VALUES:
        raise FormatError("the manifest of the model file is too long", path=path)
    manifest = json.loads(text.decode(), parse_constant=_refuse_constant, parse_float=_finite)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise FormatError("not a gainful model file (its manifest is another format's)", path=path)
    version = manifest.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise FormatError("the model file is damaged (it does not say its version)", path=path)
    if version > VERSION:
        raise FormatError(
            f"the model file has version {version}{_written_by(manifest)}, this gainful {gainful.__version__} reads up "
            f"to {VERSION}; upgrade it: pip install -U gainful",
            path=path,
        )
    return manifest


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse_constant(text)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


def _written_by(manifest: Mapping[str, Any]) -> str:
    written = manifest.get("gainful")
    return f" (written by gainful {shorten(written, 20)})" if isinstance(written, str) else ""


def _fitted_state(
    archive: zipfile.ZipFile, manifest: Mapping[str, Any], sizes: Mapping[str, int], path: Path
) -> dict[str, Any]:
    state = dict(manifest["fitted"])
    digests = manifest["sha256"]
    absent, unnamed = set(digests) - set(sizes), set(sizes) - set(digests) - {MANIFEST}
    if absent or MANIFEST in digests:
        raise FormatError(f"the model file is damaged ({shorten(min(absent or {MANIFEST}))} is missing)", path=path)
    if unnamed:
        raise FormatError(f"the model file is damaged ({min(unnamed)} has no checksum)", path=path)
    for name, digest in digests.items():
        content = _member(archive, name, sizes, path)
        if hashlib.sha256(content).hexdigest() != digest:
            raise FormatError(f"the model file is damaged ({name} does not match its checksum)", path=path)
        stem, _, suffix = name.rpartition(".")
        if stem in state:
            raise FormatError(f"the model file is damaged ({stem} is there twice)", path=path)
        state[stem] = _array(content, name, path) if suffix == "npy" else content.decode()
    return state


def _member(archive: zipfile.ZipFile, name: str, sizes: Mapping[str, int], path: Path) -> bytes:
    with archive.open(name) as file:
        content = file.read(sizes[name])
    if len(content) != sizes[name]:
        raise FormatError(f"the model file is damaged ({name} is cut short)", path=path)
    return content


def _array(content: bytes, name: str, path: Path) -> np.ndarray:
    """An array of numbers in NumPy's format, of which only what :func:`save` writes is taken."""
    length = int.from_bytes(content[8:10], "little")
    found = ARRAY_HEADER.fullmatch(content[10 : 10 + length]) if content.startswith(ARRAY_MAGIC) else None
    if found is None:
        raise FormatError(f"the model file is damaged ({name} is not an array of numbers)", path=path)
    dtype = np.dtype(found[1].decode())
    shape = tuple(int(n) for n in found[2].replace(b" ", b"").split(b",") if n)
    if math.prod(shape) * dtype.itemsize != len(content) - 10 - length or len(shape) > 4:
        raise FormatError(f"the model file is damaged ({name} has not the size of its shape)", path=path)
    values = np.frombuffer(content, dtype=dtype, offset=10 + length)
    if dtype.kind == "b" and (np.frombuffer(content, np.uint8, offset=10 + length) > 1).any():
        raise FormatError(f"the model file is damaged ({name} is not an array of truth values)", path=path)
    return values.reshape(shape).copy()


# -- the ranker again --------------------------------------------------------------------------------------------------


def _rebuild(manifest: Mapping[str, Any], state: dict[str, Any], path: Path) -> Ranker:
    model = _unfitted(manifest, path)
    try:
        _restore(model, manifest, state)
    except Exception as error:  # a damaged file may break the rebuilding anywhere
        told = shorten(reason(error), 200)
        raise FormatError(f"the model file is damaged ({type(error).__name__}: {told})", path=path) from error
    return model


def _unfitted(manifest: Mapping[str, Any], path: Path) -> Ranker:
    name, params = manifest.get("class"), manifest.get("params")
    entry = next((entry for entry in RANKERS.values() if entry.class_name == name), None)
    if entry is None:
        raise FormatError(
            f"this gainful {gainful.__version__} has no ranker class {shorten(name)}{_written_by(manifest)}", path=path
        )
    if not isinstance(params, dict):
        raise FormatError("the model file is damaged (it has no parameters)", path=path)
    unknown = sorted(set(params) - set(entry.cls.parameters))
    if unknown:
        raise FormatError(
            f"this gainful {gainful.__version__} has no parameter {shorten(unknown[0])} of {name}"
            f"{_written_by(manifest)}; the file is damaged or of another version",
            path=path,
        )
    try:
        model = entry.cls(**params)
        model._check_parameters()
    except Exception as error:
        raise FormatError(f"the model file is damaged ({shorten(reason(error), 200)})", path=path) from error
    return model


def _restore(model: Ranker, manifest: Mapping[str, Any], state: dict[str, Any]) -> None:
    n_features, names = manifest["n_features"], manifest["feature_names"]
    if isinstance(n_features, bool) or not isinstance(n_features, int) or not 1 <= n_features <= MOST_FEATURES:
        raise ValueError("n_features is no number of features")
    model.n_features_in_ = n_features
    if names is not None:
        if not isinstance(names, list) or len(names) != n_features or not all(isinstance(name, str) for name in names):
            raise ValueError("feature_names are not one name for each feature")
        model.feature_names_in_ = np.array(names, dtype=object)
    history, training, metrics = manifest["history"], manifest.get("training", {}), manifest.get("metrics", {})
    if not isinstance(history, list) or not all(isinstance(row, dict) for row in history):
        raise ValueError("history is no list of iterations")
    if not isinstance(training, dict) or not isinstance(metrics, dict):
        raise ValueError("training and metrics are no mappings")
    if not all(value is None or type(value) in (int, float) for value in metrics.values()):
        raise ValueError("metrics are no numbers")
    metric(manifest["eval_metric"])  # a metric of this version, or the file is not
    model._unpack(state)
    if not math.isfinite(getattr(model, "intercept_", 0.0)):
        raise ValueError("the intercept is no finite number")
    model.history_, model.training_ = history, training
    if metrics:
        model.metrics_ = metrics
    model.n_iter_ = int(manifest["n_iter"])
    model.interrupted_ = bool(manifest["interrupted"])
