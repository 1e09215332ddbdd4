"""Growth of the process against arrays of known size."""

from __future__ import annotations

import numpy as np
import pytest

from gainful.memory import PeakGrowth, available, workers_that_fit

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


def test_workers_are_as_many_as_there_is_room_for():
    assert workers_that_fit(4, 100, 1000) == 4
    assert workers_that_fit(4, 300, 1000) == 3
    assert workers_that_fit(4, 300, 990) == 2  # a tenth is left to others
    assert workers_that_fit(4, 5000, 1000) == 1
    assert workers_that_fit(4, None, 1000) == workers_that_fit(4, 0, 1000) == workers_that_fit(4, 1, None) == 4


def test_free_memory_keeps_to_the_limit_of_a_container(tmp_path, monkeypatch):
    import gainful.memory

    free = available()
    assert free is None or free > MIB
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("700\n")
    (tmp_path / "memory.stat").write_text("anon 100\ninactive_file 50\n")
    assert gainful.memory._free_in_container(tmp_path) == 350
    (tmp_path / "memory.max").write_text("max\n")
    assert gainful.memory._free_in_container(tmp_path) is None
    assert gainful.memory._free_in_container(tmp_path / "absent") is None
