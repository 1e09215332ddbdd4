"""Damage to bytes, texts and JSON that knows nothing of the format around them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, TypeVar

from fuzz.cases import Random

T = TypeVar("T")

INTEGERS = [0, 1, 2, -1, -2, 7, 127, 128, 255, 256, 32767, 65535, 65536, 10**6, 10**8, 2**31 - 1, 2**31, -(2**31),
            2**32 - 1, 2**32, 10**12, 2**62, 2**63 - 1, -(2**63), 2**64 - 1]  # fmt: skip
NUMBERS = [b"-1", b"0", b"1", b"2", b"-2", b"127", b"128", b"65536", b"2147483647", b"-2147483648", b"4294967295",
           b"99999999999999999999", b"1e308", b"1e309", b"-1e999", b"5e-324", b"nan", b"inf", b"", b" ", b"1 1",
           b"0x10", b"1_0", b"\xff", b"9" * 5000, b"0." + b"0" * 400 + b"1", "١٢".encode()]  # fmt: skip
VALUES: list[Any] = [None, True, -1, 0, 1, 2**31, 2**63, 10**30, 1e308, 0.5, "", "x", "a" * 10000, [], {}, [[[]]],
                     "\ud800", "os.system", "../x", "a\nb", [0] * 1000, {"a": 1}, "\x1b[31m"]  # fmt: skip
NUMBER = re.compile(rb"-?[0-9][-+.0-9e]*")


def pick(rng: Random, choices: Sequence[T]) -> T:
    return choices[int(rng.integers(len(choices)))]


def below(rng: Random, stop: int) -> int:
    """A number from 0 to ``stop`` − 1, or 0."""
    return int(rng.integers(max(1, stop)))


def write_integer(rng: Random, out: bytearray, at: int, size: int, value: int | None = None) -> None:
    """Overwrite ``size`` bytes by an integer, by default one that programs often get wrong."""
    chosen = pick(rng, INTEGERS) if value is None else value
    out[at : at + size] = (chosen & (256**size - 1)).to_bytes(size, "little")


def damage_bytes(raw: bytes, rng: Random, other: bytes = b"", start: int = 0, stop: int | None = None) -> bytes:
    """Some bytes of ``raw[start:stop]`` changed, removed, inserted, repeated, or followed by the end of ``other``."""
    out = bytearray(raw)
    for _ in range(int(rng.integers(1, 4))):
        end = len(out) if stop is None else min(stop, len(out))
        at, many = start + below(rng, end - start), int(rng.integers(1, 9))
        kind = int(rng.integers(9))
        if kind == 0 and at < len(out):
            out[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            out[at : at + many] = rng.bytes(many)
        elif kind == 2:
            write_integer(rng, out, at, pick(rng, [1, 2, 4, 8]))
        elif kind == 3:
            write_integer(rng, out, at - at % 4, pick(rng, [4, 8]))
        elif kind == 4:
            del out[at : at + many]
        elif kind == 5:
            out[at:at] = rng.bytes(many)
        elif kind == 6:
            first = below(rng, len(out))
            out[at:at] = out[first : first + below(rng, 64)]
        elif kind == 7 and stop is None:
            del out[at:]
        elif kind == 8 and other:
            out = out[:at] + other[below(rng, len(other)) :]
    return bytes(out)


def nudge_bytes(raw: bytes, rng: Random) -> bytes:
    """Some bytes made a little larger or smaller, so that short numbers and lengths stay plausible."""
    out = bytearray(raw)
    for _ in range(int(rng.integers(1, 4))):
        at = below(rng, len(out))
        out[at] = (out[at] + int(rng.integers(-4, 5))) % 256
    return bytes(out)


def damage_numbers(text: bytes, rng: Random) -> bytes:
    """Some of the numbers of a text replaced by others."""
    for _ in range(int(rng.integers(1, 3))):
        places = [found.span() for found in NUMBER.finditer(text)] or [(0, 0)]
        start, stop = pick(rng, places)
        new = pick(rng, NUMBERS) if rng.random() < 0.7 else b"%d" % rng.integers(-9, 9)
        text = text[:start] + new + text[stop:]
    return text


def damage_lines(text: bytes, rng: Random) -> bytes:
    """A line removed, doubled, swapped with another or cut."""
    lines = text.split(b"\n")
    a, b = below(rng, len(lines)), below(rng, len(lines))
    kind = int(rng.integers(4))
    if kind == 0:
        del lines[a]
    elif kind == 1:
        lines.insert(b, lines[a])
    elif kind == 2:
        lines[a], lines[b] = lines[b], lines[a]
    else:
        lines[a] = lines[a][: below(rng, len(lines[a]) + 1)]
    return b"\n".join(lines)


def insert_pieces(text: bytes, rng: Random, pieces: Sequence[bytes]) -> bytes:
    out = bytearray(text)
    for _ in range(int(rng.integers(1, 5))):
        at = below(rng, len(out) + 1)
        out[at:at] = pick(rng, pieces)
    return bytes(out)


def damage_text(text: bytes, rng: Random, other: bytes, pieces: Sequence[bytes]) -> bytes:
    """Damage of any kind to a text format that ``pieces`` belong to; ``other`` is another file of it."""
    draw = rng.random()
    if draw < 0.35:
        return damage_bytes(text, rng, other)
    if draw < 0.7:
        return insert_pieces(text, rng, pieces)
    if draw < 0.8:
        return damage_numbers(text, rng)
    if draw < 0.9:
        return damage_lines(text, rng)
    return b"".join(pick(rng, pieces) for _ in range(int(rng.integers(1, 25))))


def damage_json(text: bytes, rng: Random) -> bytes:
    """One value of a JSON text, at any depth, replaced or removed."""
    whole: Any = json.loads(text)
    inside = whole
    while isinstance(inside, (dict, list)) and inside:
        keys: list[Any] = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
        key = pick(rng, keys)
        if isinstance(inside[key], (dict, list)) and inside[key] and rng.random() < 0.7:
            inside = inside[key]
            continue
        if rng.random() < 0.2:
            del inside[key]
        elif type(inside[key]) is int and rng.random() < 0.5:
            inside[key] = inside[key] + int(rng.integers(-3, 4)) if rng.random() < 0.5 else pick(rng, INTEGERS)
        else:
            inside[key] = pick(rng, VALUES)
        break
    return json.dumps(whole).encode()


def damage_table(content: bytes, rng: Random, pieces: Sequence[bytes]) -> bytes:
    """Damage text of one record per line: its bytes, numbers or lines, or pieces put in."""
    draw = rng.random()
    if draw < 0.4:
        return damage_bytes(content, rng)
    if draw < 0.75:
        return insert_pieces(content, rng, pieces)
    return damage_numbers(content, rng) if draw < 0.9 else damage_lines(content, rng)
