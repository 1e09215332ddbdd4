"""Growth of the process against arrays of known size, how much it may still take, and sizes in words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gainful.compute.memory import (
    LIMIT_VARIABLE,
    PeakGrowth,
    _free_in_group,
    _free_in_groups,
    allowed_memory,
    available_memory,
    is_limit_named,
    parse_bytes,
    size_text,
    size_to_type,
    workers_that_fit,
)
from gainful.errors import ParameterError, command_line_words

MIB = 2**20
LIMITED = """
import resource
from gainful.compute.memory import available_memory
resource.setrlimit(resource.{limit}, ({most}, {most}))
print(available_memory())
"""


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
    assert workers_that_fit(4, 300, 899) == 2
    assert workers_that_fit(4, 5000, 1000) == 1
    assert workers_that_fit(4, None, 1000) == workers_that_fit(4, 0, 1000) == workers_that_fit(4, 1, None) == 4


def group(folder: Path, limit: str, used: int, cached: int, version: int = 2) -> Path:
    """The files of a control group, half of whose cached files are in use."""
    folder.mkdir(parents=True, exist_ok=True)
    names = ("memory.max", "memory.current") if version == 2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    prefix = "" if version == 2 else "total_"
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(
        f"anon 100\n{prefix}inactive_file {cached // 2}\n{prefix}active_file {cached // 2}\n"
    )
    return folder


def test_memory_is_left_on_this_machine():
    free = available_memory()
    assert free is None or free > MIB


@pytest.mark.parametrize("version", [1, 2])
def test_a_group_leaves_its_limit_less_its_use_and_files_can_be_dropped(tmp_path, version):
    assert _free_in_group(group(tmp_path / "a", "1000", 700, 50, version)) == 350
    assert _free_in_group(group(tmp_path / "b", "1000", 1200, 0, version)) == 0
    assert _free_in_group(tmp_path / "absent") is None


def test_a_group_without_a_limit_leaves_everything(tmp_path):
    assert _free_in_group(group(tmp_path, "max", 700, 50)) is None


def test_all_groups_around_the_process_count_and_none_beside_it(tmp_path):
    group(tmp_path, "5000", 0, 0)
    group(tmp_path / "job", "3000", 0, 0)
    group(tmp_path / "job" / "step", "max", 0, 0)
    group(tmp_path / "other", "10", 0, 0)
    membership = tmp_path / "membership"
    membership.write_text("0::/job/step\n")
    assert {free for free in _free_in_groups(membership, tmp_path) if free is not None} == {3000, 5000}


def test_a_group_of_the_first_version_is_found(tmp_path):
    group(tmp_path / "memory" / "job", "3000", 1000, 0, version=1)
    membership = tmp_path / "membership"
    membership.write_text("5:cpu,cpuacct:/elsewhere\n4:memory:/job\n0::/\n")
    assert [free for free in _free_in_groups(membership, tmp_path) if free is not None] == [2000]


def test_a_container_that_cannot_see_its_path_reads_the_root(tmp_path):
    group(tmp_path, "5000", 0, 0)
    membership = tmp_path / "membership"
    membership.write_text("0::/docker/0123abc\n")
    assert [free for free in _free_in_groups(membership, tmp_path) if free is not None] == [5000]


@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_limits_of_the_process_count(limit):
    if not Path("/proc/self/status").exists():
        pytest.skip("this system does not tell a process its size")
    code = LIMITED.format(limit=limit, most=600 * MIB)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 300 * MIB < int(done.stdout) < 600 * MIB  # Python itself takes less than half of the limit


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        ("4GB", 4 * 10**9), ("4gb", 4 * 10**9), ("512 MiB", 512 * MIB), ("1.5g", 1_500_000_000), ("7", 7), ("10 B", 10),
        (2_000_000, 2_000_000), (1e9, 10**9), (np.int64(7), 7), (sys.maxsize, 2**63),
        ("1e9", 10**9), ("3KiB", 3072), ("2T", 2 * 10**12), ("10kB", 10_000), ("10KB", 10_000),
    ],
)  # fmt: skip
def test_sizes_are_read(text, n_bytes):
    assert parse_bytes(text) == n_bytes


@pytest.mark.parametrize(
    "text",
    [
        "", "GB", "4 GBs", "-1", "4,5GB", "nan", "inf", "1e999", True, None, 0, "0", "0.0001", 1.5, float("inf"), "٤GB",
        "4\N{KELVIN SIGN}B", "2_000_000", "lots",
    ],
)  # fmt: skip
def test_what_is_not_a_size_gets_one_line(text):
    expected = r" must be a number of bytes, 'off', or a size such as '500MB' or '4GB', was "
    with pytest.raises(ParameterError, match="^max_bytes" + expected):
        parse_bytes(text)
    with command_line_words(), pytest.raises(ParameterError, match="^--memory-limit" + expected):
        parse_bytes(text)


def test_a_limit_that_the_user_named_is_taken_whole(monkeypatch):
    monkeypatch.setattr("gainful.compute.memory.available_memory", lambda: 1000)
    assert (allowed_memory(), allowed_memory(share=0.9)) == (1000, 900)
    assert not is_limit_named()
    for max_bytes, variable in (("2kB", ""), (2000, "off"), (None, "2 kB")):
        monkeypatch.setenv(LIMIT_VARIABLE, variable)
        assert is_limit_named(max_bytes)
        assert allowed_memory(max_bytes, share=0.9) == 2000
    assert allowed_memory("off") is None
    monkeypatch.setenv(LIMIT_VARIABLE, "off")
    assert allowed_memory() is None
    monkeypatch.setenv(LIMIT_VARIABLE, "lots")
    with pytest.raises(ParameterError, match=r"^GAINFUL_MEMORY_LIMIT must be a number of bytes, 'off', or a size"):
        allowed_memory()
    monkeypatch.setenv(LIMIT_VARIABLE, "")
    assert allowed_memory() == 1000
    monkeypatch.setattr("gainful.compute.memory.available_memory", lambda: None)
    assert allowed_memory(share=0.9) is None


@pytest.mark.parametrize("n_bytes", [1, 900, 1001, 999_999, 3_200_000_000, 10**12 + 1, 10**17])
def test_sizes_to_type_can_be_read_and_suffice(n_bytes):
    assert n_bytes <= parse_bytes(size_to_type(n_bytes)) <= 2 * n_bytes + 1000


def test_sizes_are_written_with_three_digits():
    assert [size_text(n) for n in (900, 1_234_567, 1e9, 54.44e9, 3e12)] == [
        "0.9 kB",
        "1.23 MB",
        "1 GB",
        "54.4 GB",
        "3 TB",
    ]
