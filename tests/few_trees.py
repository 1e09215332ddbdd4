"""``auto`` with boosted models of few trees, for tests that ask about everything else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from gainful.blending import auto
from gainful.blending.growth import Growth


@dataclass(frozen=True)
class FewTrees(Growth):
    n_trees: int = 40


@contextmanager
def few_trees() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auto, "Growth", FewTrees)
        yield
