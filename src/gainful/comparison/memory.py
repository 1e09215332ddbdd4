"""How much a block of code makes this process grow, as the operating system counts it.

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
from types import TracebackType
from typing import Self

RESET_PEAK = "5"  # proc(5), /proc/pid/clear_refs


class PeakGrowth:
    """``with PeakGrowth() as growth: …``; then ``growth.bytes``, or None where the system does not tell."""

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
