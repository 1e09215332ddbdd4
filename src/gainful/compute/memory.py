"""How much a block of code makes this process grow, as the operating system counts it, and how much memory is left.

Counted are the pages resident in memory, whoever asked for them: NumPy, compiled kernels, LightGBM and PyTorch alike. A
tracer of Python's allocator would not see the last three. The figure is the highest point inside the block less the
start. Free memory is given back to the system first, or a block could fill it unseen. What is loaded for the first time
(a library, machine code) counts for the block that loads it, so differences of some 10 MiB say nothing.

Linux keeps the highest point itself and lets a process set it back to the present, which costs nothing and misses no
moment. Elsewhere nothing is measured. A process that trains several rankers at once sees the sum of them.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

SPARED = 0.1  # of the free memory, for other processes
RESET_PEAK = "5"  # proc(5), /proc/pid/clear_refs


class PeakGrowth:
    """``with PeakGrowth() as growth: …``; then ``growth.bytes``, or None if the system does not say."""

    bytes: int | None = None

    def __enter__(self) -> Self:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        try:
            with open("/proc/self/clear_refs", "w") as file:
                file.write(RESET_PEAK)
            self._start: int | None = _resident("VmRSS")
        except OSError:
            self._start = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._start is not None:
            self.bytes = max(0, _resident("VmHWM") - self._start)


def _resident(field: str) -> int:
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(field))


def available() -> int | None:
    """Bytes that could be asked for without swapping, within the limit of the container; None if unknown."""
    found = [_free_in_machine(), _free_in_container(Path("/sys/fs/cgroup"))]
    known = [value for value in found if value is not None]
    return min(known) if known else None


def workers_that_fit(wanted: int, each: int | None, free: int | None) -> int:
    """How many of the ``wanted`` workers fit in memory if each needs ``each`` bytes; at least one."""
    if not each or free is None:
        return wanted
    return max(1, min(wanted, int((1 - SPARED) * free / each)))


def size_text(count: float) -> str:
    """Bytes with three digits, in a suitable unit."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{float(f'{count / size:.3g}'):,g} {unit}"
    return f"{float(f'{count / 1e3:.3g}'):,g} kB"


def _free_in_machine() -> int | None:
    with suppress(OSError, ValueError, StopIteration), open("/proc/meminfo") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith("MemAvailable"))
    return None


def _free_in_container(folder: Path) -> int | None:
    """The limit of the control group minus its use; cached files do not count, as they can be dropped."""
    with suppress(OSError, ValueError):
        limit = (folder / "memory.max").read_text().strip()
        used = int((folder / "memory.current").read_text())
        rows = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return None if limit == "max" else max(0, int(limit) - used + int(rows.get("inactive_file", 0)))
    return None
