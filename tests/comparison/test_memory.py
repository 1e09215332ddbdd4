"""Growth of the process against arrays of known size."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gainful.compute.memory import PeakGrowth, available, workers_that_fit

MIB = 2**20


SCRIPT = """
import numpy as np
from gainful.compute.memory import PeakGrowth
for size in {sizes}:
    with PeakGrowth() as growth:
        array = np.ones(size, dtype=np.uint8)
        del array
    print(growth.bytes)
"""


def grown(*sizes: int) -> list[int]:
    """Growth for arrays of these sizes in turn, in a fresh process: an old one has pages to lose meanwhile."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(sizes=sizes)], capture_output=True, text=True, check=True
    )
    if "None" in done.stdout:
        pytest.skip("this system does not tell a process its peak of memory")
    return [int(line) for line in done.stdout.split()]


def is_seen(*sizes: int) -> bool:
    """Whether each size is seen as it is; the system may take pages away in the middle, so it has three tries."""
    return any(grown(*sizes) == pytest.approx(list(sizes), abs=4 * MIB) for _ in range(3))


def test_growth_is_the_highest_point_and_not_the_end():
    assert is_seen(64 * MIB)


def test_every_block_starts_afresh():
    """A smaller block after a larger one is seen as what it is."""
    assert is_seen(96 * MIB, 24 * MIB, 0)


def test_a_system_without_counters_measures_nothing(monkeypatch):
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
    import gainful.compute.memory

    free = available()
    assert free is None or free > MIB
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("700\n")
    (tmp_path / "memory.stat").write_text("anon 100\ninactive_file 50\n")
    assert gainful.compute.memory._free_in_container(tmp_path) == 350
    (tmp_path / "memory.max").write_text("max\n")
    assert gainful.compute.memory._free_in_container(tmp_path) is None
    assert gainful.compute.memory._free_in_container(tmp_path / "absent") is None
