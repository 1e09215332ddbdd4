"""Containers: a zip of JSON, arrays and texts, written whole or not at all. Reading one executes nothing.

====================  ==================================================================================================
``manifest.json``     format and version, what the file says about itself, small values, and the SHA-256 of every other
                      member
``NAME.npy``          one array each
``NAME.txt``          one long text each
====================  ==================================================================================================

Nothing is trusted before it is checked: sizes before anything is unpacked, checksums before anything is parsed. Model
files and checkpoints are containers.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import gainful
from gainful.errors import FormatError, GainfulError, shorten
from gainful.formats.files import atomic_write, reason
from gainful.persistence.jsonable import plain

MANIFEST = "manifest.json"
LONGEST_MANIFEST, MOST_JSON_VALUES = 64 << 20, 2_000_000
LONGEST_DIRECTORY, MOST_MEMBERS = 1 << 20, 4096
LONG_TEXT = 1000
FIXED_DATE = (1980, 1, 1, 0, 0, 0)  # so that the same content gives the same bytes
UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError, ValueError, LookupError, struct.error,
              TypeError, AttributeError, OverflowError, NotImplementedError)  # fmt: skip

MEMBER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\.(?:npy|txt)")
ARRAY_HEADER = re.compile(
    rb"\{'descr': '([<|](?:f[48]|[iu][1248]|b1))', 'fortran_order': False, "
    rb"'shape': \(((?:[0-9]{1,18}, ?)*[0-9]{0,18})\), \} *\n"
)
ARRAY_MAGIC = b"\x93NUMPY\x01\x00"
END_OF_DIRECTORY = b"PK\x05\x06"


@dataclass(frozen=True)
class Kind:
    """A kind of container. The version counts changes that an older reader would misread."""

    format: str  # its name in the manifest
    version: int
    name: str  # its name in messages
    advice: str = ""  # what to do about a file that is too large
    others: str = ""  # what else such a file might have been
    level: int | None = None  # of compression


# -- writing -----------------------------------------------------------------------------------------------------------


def pack(kind: Kind, facts: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, bytes]:
    """The members of a container: the manifest, which holds most of ``state``, then arrays and long texts."""
    members: dict[str, bytes] = {}
    small: dict[str, Any] = {}
    for name, value in state.items():
        if isinstance(value, np.ndarray):
            members[f"{name}.npy"] = _array_bytes(value)
        elif isinstance(value, str) and len(value) > LONG_TEXT:
            members[f"{name}.txt"] = value.encode()
        else:
            small[name] = value
    manifest = {"format": kind.format, "version": kind.version, "gainful": gainful.__version__, **facts}
    manifest |= {
        "fitted": plain(small),
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in members.items()},
    }
    text = json.dumps(manifest, indent=1, sort_keys=True, allow_nan=False).encode()
    return {MANIFEST: text} | members


def write_container(kind: Kind, path: str | Path, members: Mapping[str, bytes]) -> None:
    """Write the members. An existing file is replaced only once the new one is complete."""
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, FIXED_DATE), content, zipfile.ZIP_DEFLATED, kind.level)


def _array_bytes(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(array.shape)
    np.lib.format.write_array(buffer, little, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


# -- reading -----------------------------------------------------------------------------------------------------------


def read_container(
    kind: Kind, path: Path, max_bytes: int, *, whole: bool = True
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The manifest and, with ``whole``, the complete ``state`` that was given to :func:`pack`."""
    try:
        if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():  # opening a pipe would wait for a writer
            raise FormatError(f"is not a regular file, so it cannot be a {kind.name}", path=path)
        with open(path, "rb") as file:
            _check_archive(kind, file, path, max_bytes)
            with zipfile.ZipFile(file) as archive:
                sizes = _check_members(kind, archive, path, max_bytes)
                manifest = _manifest(kind, archive, sizes, path)
                return manifest, _fitted_state(kind, archive, manifest, sizes, path) if whole else {}
    except FileNotFoundError as error:
        raise FormatError("there is no such file", path=path) from error
    except IsADirectoryError as error:
        raise FormatError(f"this is a folder, not a {kind.name}", path=path) from error
    except UNREADABLE as error:
        if isinstance(error, GainfulError):
            raise
        raise FormatError(f"not a readable gainful {kind.name} ({shorten(reason(error), 120)})", path=path) from error


def _check_archive(kind: Kind, file: Any, path: Path, max_bytes: int) -> None:
    """Check the size of the file and of its directory, which :mod:`zipfile` reads whole before anything else."""
    info = os.fstat(file.fileno())
    if not stat.S_ISREG(info.st_mode):
        raise FormatError(f"is not a regular file, so it cannot be a {kind.name}", path=path)
    if info.st_size > max_bytes + LONGEST_DIRECTORY:
        raise _too_large(kind, info.st_size, max_bytes, path)
    file.seek(max(0, info.st_size - 42))
    end = file.read(42)
    if end[-22:-18] != END_OF_DIRECTORY or end[-2:] != b"\0\0":
        raise FormatError(f"not a readable gainful {kind.name} (not a zip file, or cut short{kind.others})", path=path)
    members, length = struct.unpack("<HI", end[-12:-6])
    large = info.st_size >= 2**32 - 1  # only such a file needs the zip64 directory
    if members > MOST_MEMBERS or length > LONGEST_DIRECTORY or (end[:4] == b"PK\x06\x07" and not large):
        raise FormatError(f"not a gainful {kind.name} (its directory is too long)", path=path)


def _check_members(kind: Kind, archive: zipfile.ZipFile, path: Path, max_bytes: int) -> dict[str, int]:
    """Unpacked size of each member, by name."""
    sizes: dict[str, int] = {}
    for info in archive.infolist():
        if info.filename in sizes:
            raise FormatError(f"the {kind.name} is damaged ({shorten(info.filename)} appears twice)", path=path)
        if info.filename != MANIFEST and not MEMBER.fullmatch(info.filename):
            raise FormatError(f"not a gainful {kind.name} (it contains {shorten(info.filename)})", path=path)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FormatError(f"the {kind.name} is damaged ({info.filename} has an unknown compression)", path=path)
        sizes[info.filename] = info.file_size
    if MANIFEST not in sizes:
        raise FormatError(f"not a gainful {kind.name} (it has no manifest)", path=path)
    if sum(sizes.values()) > max_bytes:
        raise _too_large(kind, sum(sizes.values()), max_bytes, path)
    return sizes


def _too_large(kind: Kind, size: int, most: int, path: Path) -> FormatError:
    return FormatError(
        f"the {kind.name} claims {size:,} bytes, more than the {most:,} allowed{kind.advice}",
        path=path,
    )


def _manifest(kind: Kind, archive: zipfile.ZipFile, sizes: Mapping[str, int], path: Path) -> dict[str, Any]:
    if sizes[MANIFEST] > LONGEST_MANIFEST:
        raise FormatError(f"not a gainful {kind.name} (its manifest is too long)", path=path)
    return parse_manifest(kind, _member(kind, archive, MANIFEST, sizes, path), path)


def parse_manifest(kind: Kind, text: bytes, path: Path) -> dict[str, Any]:
    if len(text) > LONGEST_MANIFEST or sum(text.count(mark) for mark in (b",", b"[", b"{")) > MOST_JSON_VALUES:
        raise FormatError(f"the manifest of the {kind.name} is too long", path=path)
    manifest = json.loads(text.decode(), parse_constant=_refuse_constant, parse_float=_finite)
    if not isinstance(manifest, dict) or manifest.get("format") != kind.format:
        raise FormatError(f"not a gainful {kind.name} (its manifest belongs to another format)", path=path)
    version = manifest.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise FormatError(f"the {kind.name} is damaged (it has no version)", path=path)
    if version > kind.version:
        raise FormatError(
            f"the {kind.name} has version {version}{writer_note(manifest)}, this gainful {gainful.__version__} reads "
            f"up to {kind.version}; upgrade it: pip install -U gainful",
            path=path,
        )
    return manifest


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse_constant(text)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def writer_note(manifest: Mapping[str, Any]) -> str:
    written = manifest.get("gainful")
    return f" (written by gainful {shorten(written, 20)})" if isinstance(written, str) else ""


def _fitted_state(
    kind: Kind, archive: zipfile.ZipFile, manifest: Mapping[str, Any], sizes: Mapping[str, int], path: Path
) -> dict[str, Any]:
    state = dict(manifest["fitted"])
    digests = manifest["sha256"]
    absent, unnamed = set(digests) - set(sizes), set(sizes) - set(digests) - {MANIFEST}
    if absent or MANIFEST in digests:
        raise FormatError(f"the {kind.name} is damaged ({shorten(min(absent or {MANIFEST}))} is missing)", path=path)
    if unnamed:
        raise FormatError(f"the {kind.name} is damaged ({min(unnamed)} has no checksum)", path=path)
    for name, digest in digests.items():
        content = _member(kind, archive, name, sizes, path)
        if hashlib.sha256(content).hexdigest() != digest:
            raise FormatError(f"the {kind.name} is damaged ({name} does not match its checksum)", path=path)
        stem, _, suffix = name.rpartition(".")
        if stem in state:
            raise FormatError(f"the {kind.name} is damaged ({stem} appears twice)", path=path)
        state[stem] = _array(kind, content, name, path) if suffix == "npy" else content.decode()
    return state


def _member(kind: Kind, archive: zipfile.ZipFile, name: str, sizes: Mapping[str, int], path: Path) -> bytes:
    with archive.open(name) as file:
        content = file.read(sizes[name])
    if len(content) != sizes[name]:
        raise FormatError(f"the {kind.name} is damaged ({name} is cut short)", path=path)
    return content


def _array(kind: Kind, content: bytes, name: str, path: Path) -> np.ndarray:
    """An array of numbers in NumPy's format; only what :func:`save` writes is accepted."""
    length = int.from_bytes(content[8:10], "little")
    found = ARRAY_HEADER.fullmatch(content[10 : 10 + length]) if content.startswith(ARRAY_MAGIC) else None
    if found is None:
        raise FormatError(f"the {kind.name} is damaged ({name} is not an array of numbers)", path=path)
    dtype = np.dtype(found[1].decode())
    shape = tuple(int(n) for n in found[2].replace(b" ", b"").split(b",") if n)
    if math.prod(shape) * dtype.itemsize != len(content) - 10 - length or len(shape) > 4:
        raise FormatError(f"the {kind.name} is damaged (the size of {name} does not match its shape)", path=path)
    values = np.frombuffer(content, dtype=dtype, offset=10 + length)
    if dtype.kind == "b" and (np.frombuffer(content, np.uint8, offset=10 + length) > 1).any():
        raise FormatError(f"the {kind.name} is damaged ({name} is not an array of truth values)", path=path)
    return values.reshape(shape).copy()
