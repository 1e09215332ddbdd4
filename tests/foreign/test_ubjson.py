"""UBJSON: what is written reads back, and no length is believed."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from gainful.foreign.checks import BadModelError
from gainful.foreign.ubjson import Reader, dump


def test_what_is_written_reads_back():
    value = {
        "name": "größe",
        "list": [1, -2, {"a": []}],
        "numbers": np.array([0.5, -1e30], dtype=np.float32),
        "n": 2**40,
    }
    for dtype in (np.int8, np.uint8, np.int16, np.int32, np.int64, np.float64):
        value[str(np.dtype(dtype))] = np.arange(3, dtype=dtype)
    found = Reader(dump(value)).read()
    for key, wanted in value.items():
        if isinstance(wanted, np.ndarray):
            assert found[key].dtype.newbyteorder("=") == wanted.dtype
            assert np.array_equal(found[key], wanted)
        else:
            assert found[key] == wanted


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"[TFZ]", [True, False, None]),
        (b"{U\x01ai\xff}", {"a": -1}),
        (b"[#U\x02I\x01\x00l\x00\x00\x00\x07", [256, 7]),
        (b"D" + struct.pack(">d", 0.1), 0.1),
        (b"SU\x02ab", "ab"),
    ],
)
def test_values_of_the_format(raw, value):
    assert Reader(raw).read() == value


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"{L", "cut short"),
        (b"SL" + struct.pack(">q", 2**60), "cut short"),
        (b"SL" + struct.pack(">q", -1), "cut short"),
        (b"[$d#L" + struct.pack(">q", 2**61), "cut short"),
        (b"[$Z#L" + struct.pack(">q", 5), "cut short"),  # would be a list of any length from nothing
        (b"[#L" + struct.pack(">q", 2**40), "cut short"),
        (b"[$d]", "no length"),
        (b"S[", "not a whole number"),
        (b"[" * 1000, "nested too deeply"),
        (b"{U\x01aT" + b"U\x01aT}", "same name twice"),
        (b"{$T#U\x01", "XGBoost does not write"),
        (b"H", "unknown kind"),
        (b"TT", "follows its end"),
    ],
)
def test_damage_is_refused(raw, message):
    with pytest.raises(BadModelError, match=message):
        Reader(raw).read()
