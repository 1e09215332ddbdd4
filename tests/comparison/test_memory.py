"""Growth of the process against arrays of known size."""

from __future__ import annotations

import numpy as np
import pytest

from gainful.comparison.memory import PeakGrowth

MIB = 2**20


def grown(bytes_: int) -> int:
    with PeakGrowth() as growth:
        array = np.ones(bytes_, dtype=np.uint8)
        del array
    if growth.bytes is None:
        pytest.skip("this system does not tell a process its peak of memory")
    return growth.bytes


def test_growth_is_the_highest_point_and_not_the_end():
    assert grown(64 * MIB) == pytest.approx(64 * MIB, abs=4 * MIB)


def test_every_block_starts_afresh():
    """A smaller block after a larger one is seen as what it is."""
    grown(96 * MIB)
    assert grown(24 * MIB) == pytest.approx(24 * MIB, abs=4 * MIB)
    assert grown(0) < 4 * MIB


def test_a_system_that_does_not_tell_measures_nothing(monkeypatch):
    def refuse(*args, **kwargs):
        raise FileNotFoundError("/proc/self/clear_refs")

    monkeypatch.setattr("builtins.open", refuse)
    with PeakGrowth() as growth:
        pass
    monkeypatch.undo()
    assert growth.bytes is None
