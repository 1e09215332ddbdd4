"""Targets whose cases fail on purpose, one in each way."""

from __future__ import annotations

import ctypes
import os
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gainful
from fuzz.cases import Input, Random, Target, Wholes, expect


def refuse(text: str) -> None:
    raise gainful.GainfulError(text)


class TwoLinesError(gainful.GainfulError):
    """Says two lines, which GainfulError itself never does."""

    def __str__(self) -> str:
        return "two\nlines"


def refuse_in_two_lines() -> None:
    raise TwoLinesError


FAULTS = {
    "accepted": lambda: None,
    "refused": lambda: refuse("one line"),
    "exception": lambda: {}["nobody"],
    "signal": lambda: ctypes.string_at(0),
    "memory": lambda: bytearray(1 << 40),
    "wrong": lambda: expect(False, "1 is not 2"),
    "warning": lambda: warnings.warn("strange", RuntimeWarning, stacklevel=1),
    "output": lambda: os.write(2, b"a compiled library prints"),
    "message": refuse_in_two_lines,
}
KINDS = list(FAULTS)


def make(rng: Random, wholes: Wholes, whole: bool) -> Input:
    return Input(rng.bytes(8), ".bin", {"kind": KINDS[int(rng.integers(len(KINDS)))]})


def use(path: Path, options: Mapping[str, Any]) -> None:
    FAULTS[options["kind"]]()


def spin(path: Path, options: Mapping[str, Any]) -> None:
    while True:
        pass


def wait(path: Path, options: Mapping[str, Any]) -> None:
    time.sleep(3600)


FAULTY = Target(make, use, seconds=60)
SPINNING = Target(make, spin, seconds=0.2)
WAITING = Target(make, wait)
