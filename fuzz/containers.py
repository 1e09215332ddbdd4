"""Damage to containers (model files, checkpoints): to bytes, to fields of the zip, and inside, with correct sums."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
import struct
import zipfile
from collections.abc import Callable

import numpy as np

from fuzz.cases import Random
from fuzz.damage import below, damage_bytes, damage_json, damage_lines, damage_numbers, pick, write_integer
from gainful.persistence.container import FIXED_DATE, MANIFEST

Damage = Callable[[bytes, Random], bytes]
TREE_DAMAGES: list[Damage] = [damage_numbers, damage_numbers, damage_lines, damage_bytes]
FIELD = re.compile(rb"PK(?:\x01\x02|\x03\x04|\x05\x06)")


def members_of(raw: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pack(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, FIXED_DATE), content, method)
    return buffer.getvalue()


def with_checksums(members: dict[str, bytes]) -> dict[str, bytes]:
    """The members, with a manifest of matching checksums."""
    manifest = json.loads(members[MANIFEST])
    manifest["sha256"] = {n: hashlib.sha256(c).hexdigest() for n, c in members.items() if n != MANIFEST}
    return members | {MANIFEST: json.dumps(manifest).encode()}


def damage_trees(text: bytes, rng: Random) -> bytes:
    """One of LightGBM's trees damaged, and the sizes of the trees corrected."""
    head, _, rest = text.partition(b"\n\n")
    body, end, tail = rest.partition(b"end of trees")
    trees = [b"Tree=" + part for part in body.split(b"Tree=")[1:]]
    if not trees:
        return damage_numbers(text, rng)
    place = below(rng, len(trees))
    damage: Damage = pick(rng, TREE_DAMAGES)
    trees[place] = damage(trees[place], rng)
    sizes = b" ".join(b"%d" % len(tree) for tree in trees)
    head = re.sub(rb"tree_sizes=.*", b"tree_sizes=" + sizes, head)
    return head + b"\n\n" + b"".join(trees) + end + tail


def damage_array(content: bytes, rng: Random) -> bytes:
    """The header or the numbers of an array in NumPy's format."""
    length = 10 + int.from_bytes(content[8:10], "little")
    kind = int(rng.integers(5))
    if kind == 0:
        return damage_numbers(content[:length], rng) + content[length:]
    if kind == 1:
        return damage_bytes(content[:length], rng) + content[length:]
    out = bytearray(content)
    at = length + 8 * below(rng, (len(content) - length) // 8)
    if kind == 2:
        out[at : at + 8] = struct.pack("<d", pick(rng, [np.nan, np.inf, -1e308, 5e-324]))
    elif kind == 3:
        write_integer(rng, out, at, 8)
    else:
        return damage_bytes(content, rng)
    return bytes(out)


def damage_member(raw: bytes, rng: Random) -> bytes:
    """Damage inside one member, with correct checksums."""
    members = members_of(raw)
    name = pick(rng, list(members))
    if name.endswith(".txt"):
        damage: Damage = pick(rng, [damage_trees, damage_trees, *TREE_DAMAGES])
    else:
        damage = damage_json if name == MANIFEST else damage_array
    members[name] = damage(members[name], rng)
    with contextlib.suppress(ValueError, TypeError, AttributeError):  # the manifest may no longer be valid
        members = with_checksums(members)
    return pack(members)


def damage_fields(raw: bytes, rng: Random) -> bytes:
    """Fields of the zip's own records: sizes, methods, flags, counts."""
    out = bytearray(raw)
    at = pick(rng, [found.start() for found in FIELD.finditer(raw)]) + int(rng.integers(4, 46))
    write_integer(rng, out, at, pick(rng, [1, 2, 4]), pick(rng, [0, 1, 12, 14, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF]))
    return bytes(out)
