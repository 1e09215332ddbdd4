"""Universal Binary JSON (draft 12), as XGBoost writes models: a reader that trusts no length, and a writer."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from gainful.data.rows import Array
from gainful.foreign.checks import BadModelError

# big-endian, as the format demands
NUMBERS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
INTEGERS = {code: struct.Struct(f">{form}") for code, form in zip(b"iUIlL", "bBhiq", strict=True)}
CODES = {np.dtype(form[1:]): code for code, form in NUMBERS.items()}
CONSTANTS = {b"T": True, b"F": False, b"Z": None}
DEEPEST = 64


class Reader:
    """Reads one value; arrays with a type become arrays of numbers, all else what JSON would give."""

    def __init__(self, raw: bytes):
        self.raw, self.at = raw, 0

    def read(self) -> Any:
        value = self._value(self._take(1), 0)
        if self.raw[self.at :].strip(b"\0\n"):
            raise BadModelError("something follows its end")
        return value

    def _take(self, n: int) -> bytes:
        if n < 0 or self.at + n > len(self.raw):
            raise BadModelError("it is cut short")
        self.at += n
        return self.raw[self.at - n : self.at]

    def _peek(self) -> bytes:
        return self.raw[self.at : self.at + 1]

    def _length(self) -> int:
        code = self._take(1)
        found = INTEGERS.get(code[0])
        if found is None:
            raise BadModelError("a length is not a whole number")
        return int(found.unpack(self._take(found.size))[0])

    def _text(self) -> str:
        return self._take(self._length()).decode()

    def _value(self, code: bytes, depth: int) -> Any:
        if depth > DEEPEST:
            raise BadModelError("it is nested too deeply")
        if code in NUMBERS:
            return np.frombuffer(self._take(np.dtype(NUMBERS[code]).itemsize), NUMBERS[code])[0].item()
        if code in CONSTANTS:
            return CONSTANTS[code]
        if code == b"S":
            return self._text()
        if code == b"[":
            return self._array(depth)
        if code == b"{":
            return self._object(depth)
        raise BadModelError(f"it holds a value of the unknown kind {code!r}")

    def _array(self, depth: int) -> Any:
        kind = self._take(2)[1:] if self._peek() == b"$" else None
        if self._peek() == b"#":
            self._take(1)
            n = self._length()
            if kind is not None and kind in NUMBERS:
                return np.frombuffer(self._take(n * np.dtype(NUMBERS[kind]).itemsize), NUMBERS[kind])
            if not 0 <= n <= len(self.raw) or kind in CONSTANTS:  # constants take no room: any length would fit
                raise BadModelError("it is cut short")
            return [self._value(kind or self._take(1), depth + 1) for _ in range(n)]
        if kind is not None:
            raise BadModelError("a list has a type and no length")
        found = []
        while (code := self._take(1)) != b"]":
            found.append(self._value(code, depth + 1))
        return found

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self._peek() in (b"$", b"#"):
            raise BadModelError("it holds an object of a kind that XGBoost does not write")
        while self._peek() != b"}":
            key = self._text()
            if key in found:
                raise BadModelError("it holds the same name twice")
            found[key] = self._value(self._take(1), depth + 1)
        self._take(1)
        return found


def dump(value: Any) -> bytes:
    """A value of JSON, in which arrays of numbers may be NumPy's, as XGBoost writes it."""
    out: list[bytes] = []
    _write(value, out)
    return b"".join(out)


def _write(value: Any, out: list[bytes]) -> None:
    if isinstance(value, dict):
        out.append(b"{")
        for key, inner in value.items():
            out.append(_text(key))
            _write(inner, out)
        out.append(b"}")
    elif isinstance(value, np.ndarray):
        out += _numbers(value)
    elif isinstance(value, list):
        out += [b"[#L", struct.pack(">q", len(value))]
        for inner in value:
            _write(inner, out)
    elif isinstance(value, str):
        out += [b"S", _text(value)]
    else:
        out += [b"L", struct.pack(">q", value)]


def _text(text: str) -> bytes:
    raw = text.encode()
    return b"L" + struct.pack(">q", len(raw)) + raw


def _numbers(values: Array) -> list[bytes]:
    code = CODES[values.dtype]
    return [b"[$", code, b"#L", struct.pack(">q", len(values)), values.astype(NUMBERS[code]).tobytes()]
