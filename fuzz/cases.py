"""A case: the bytes of one input and how to use them. A target makes cases of one kind and uses them."""

from __future__ import annotations

import importlib
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Random = np.random.Generator
Wholes = Mapping[str, bytes]  # undamaged files that took some time to make, by name


@dataclass(frozen=True)
class Input:
    """What a target makes: the content of a file, the end of its name, and how to use it (JSON values)."""

    content: bytes
    suffix: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """One kind of input.

    Parameters
    ----------
    make : an input from random numbers; undamaged, and so to be accepted, if the last argument is True
    use : reads the file and uses what it holds. Returns if all is well; a GainfulError means that it is refused
    prepare : the undamaged files that ``make`` starts from, if they take time to make; called once per run
    warm : loads the libraries that ``use`` will need, so that no case pays for them
    seconds : of processor time that one case may take
    mebibytes : that the address space may grow by during one case
    """

    make: Callable[[Random, Wholes, bool], Input]
    use: Callable[[Path, Mapping[str, Any]], None]
    prepare: Callable[[Path], Mapping[str, bytes]] | None = None
    warm: Callable[[], None] = lambda: None
    seconds: float = 30.0
    mebibytes: int = 2048


WHOLE_SHARE = 0.1  # of the cases are not damaged


@dataclass(frozen=True)
class Case:
    """One input, with the numbers it was made from."""

    target: str
    seed: int
    number: int
    input: Input
    whole: bool = False  # not damaged, so it must be accepted

    @classmethod
    def make(cls, name: str, target: Target, seed: int, number: int, wholes: Wholes) -> Case:
        """The case of this number: always the same, whichever cases ran before."""
        rng = np.random.default_rng([seed, zlib.crc32(name.encode()), number])
        whole = bool(rng.random() < WHOLE_SHARE)
        return cls(name, seed, number, target.make(rng, wholes, whole), whole)

    @property
    def name(self) -> str:
        return f"{self.target.rpartition(':')[2]}-{self.seed}-{self.number}"

    def to_bytes(self, **facts: Any) -> bytes:
        """A file that holds the case: a line of JSON, then the content."""
        head = {"target": self.target, "seed": self.seed, "number": self.number, **facts}
        head |= {"suffix": self.input.suffix, "options": self.input.options, "whole": self.whole}
        return json.dumps(head).encode() + b"\n" + self.input.content

    @classmethod
    def from_bytes(cls, raw: bytes) -> Case:
        line, _, content = raw.partition(b"\n")
        head = json.loads(line)
        made = Input(content, head["suffix"], head["options"])
        return cls(head["target"], head["seed"], head["number"], made, head["whole"])


class WrongResultError(AssertionError):
    """The input was accepted, but what came of it is wrong."""


def expect(holds: bool, what: str) -> None:
    if not holds:
        raise WrongResultError(what)


def find_target(name: str) -> Target:
    """A target by its name in the table, or by ``module:variable``."""
    module, _, variable = name.rpartition(":")
    if module:
        target = getattr(importlib.import_module(module), variable)
    else:
        target = importlib.import_module("fuzz.targets").TARGETS[name]
    assert isinstance(target, Target)
    return target
