"""Memory: how much a block of code makes this process grow, and how much the process may still take.

Growth counts the pages resident in memory, whoever asked for them: NumPy, compiled kernels, LightGBM and PyTorch alike.
A tracer of Python's allocator would not see the last three. The figure is the highest point inside the block less the
start. Free memory is given back to the system first, or a block could fill it unseen. What is loaded for the first time
(a library, machine code) counts for the block that loads it, so differences of some 10 MiB say nothing.

Linux keeps the highest point itself and lets a process set it back to the present, which costs nothing and misses no
moment. Elsewhere nothing is measured. A process that trains several rankers at once sees the sum of them.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from gainful.errors import ParameterError

SPARED = 0.1  # of the free memory, for other processes
RESET_PEAK = "5"  # proc(5), /proc/pid/clear_refs
LIMIT_VARIABLE = "GAINFUL_MEMORY_LIMIT"
OFF = "off"  # in place of a size: no limit
CGROUPS = Path("/sys/fs/cgroup")
UNITS = {"": 1} | {unit + i: base**n for i, base in (("", 1000), ("i", 1024)) for n, unit in enumerate("kmgt", 1)}


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


def available_memory() -> int | None:
    """Bytes that this process may still take without swapping; None if the system does not say.

    The least of what the machine has free, what each control group around the process has left (containers, systemd,
    batch systems), and what the limits of the process allow (``ulimit -v``, ``ulimit -d``).
    """
    found = [_free_in_machine(), *_free_in_groups(Path("/proc/self/cgroup"), CGROUPS), *_free_in_process()]
    return min((value for value in found if value is not None), default=None)


def allowed_memory(max_bytes: int | str | None = None) -> int | None:
    """Bytes that a computation may take: ``max_bytes`` if given, else GAINFUL_MEMORY_LIMIT, else what is available.

    None if the system does not say, or if the limit is "off".
    """
    limit = os.environ.get(LIMIT_VARIABLE) if max_bytes is None else max_bytes
    if limit is None or limit == "":
        return available_memory()
    return None if limit == OFF else parse_bytes(limit)


@contextmanager
def memory_limit(max_bytes: int | str | None) -> Iterator[None]:
    """Inside this block, ``max_bytes`` limits every computation that has no limit of its own; None changes nothing.

    Threads and processes started inside follow it too.
    """
    if max_bytes is None:
        yield
        return
    allowed_memory(max_bytes)  # refuse what is not a size
    before = os.environ.get(LIMIT_VARIABLE)
    os.environ[LIMIT_VARIABLE] = str(max_bytes)
    try:
        yield
    finally:
        del os.environ[LIMIT_VARIABLE]
        if before is not None:
            os.environ[LIMIT_VARIABLE] = before


def parse_bytes(text: str | float) -> int:
    """A number of bytes with or without a unit: ``"4GB"``, ``"512 MiB"``, ``"1.5g"`` or ``2_000_000``.

    kB, MB, GB and TB are powers of 1000; KiB, MiB, GiB and TiB are powers of 1024. Case and the B do not matter.
    """
    parts = re.fullmatch(r"\s*(\d{1,18}(?:\.\d*)?(?:e\d\d?)?)\s*([kmgt]i?)?b?\s*", str(text).lower().replace("_", ""))
    if parts is None or isinstance(text, bool):
        raise ParameterError(f"a size in bytes must be a number such as 4GB, 512MiB or 2000000, was {text!r}")
    return int(float(parts[1]) * UNITS[parts[2] or ""])


def size_text(n_bytes: float) -> str:
    """Bytes with three digits, in a suitable unit.

    >>> size_text(2_412_000), size_text(54_400_000_000)
    ('2.41 MB', '54.4 GB')
    """
    unit, size = next((pair for pair in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)) if n_bytes >= pair[1]), ("kB", 1e3))
    return f"{float(f'{n_bytes / size:.3g}'):,g} {unit}"


def workers_that_fit(wanted: int, each: int | None, free: int | None) -> int:
    """How many of the ``wanted`` workers fit in memory if each needs ``each`` bytes; at least one."""
    if not each or free is None:
        return wanted
    return max(1, min(wanted, int((1 - SPARED) * free / each)))


def _free_in_machine() -> int | None:
    with suppress(OSError, ValueError, StopIteration), open("/proc/meminfo") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith("MemAvailable"))
    return None


def _free_in_process() -> Iterator[int]:
    """What the limits on address space and on data of this process leave; nothing where there are none."""
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return
    for limit, used in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        most = resource.getrlimit(limit)[0]
        if most != resource.RLIM_INFINITY:
            with suppress(OSError, StopIteration):
                yield max(0, most - _resident(used))


def _free_in_groups(membership: Path, mounted: Path) -> Iterator[int | None]:
    """What each control group around this process leaves, for both versions of control groups.

    A container may see its own group as the root of the tree, under a path that it cannot see.
    """
    with suppress(OSError):
        for line in membership.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                roots = [mounted, mounted / "unified"]
            elif "memory" in controllers.split(","):
                roots = [mounted / "memory"]
            else:
                continue
            for root in roots:
                group = root / path.strip("/")
                folders = [group, *group.parents] if group.is_dir() else [root]
                yield from (_free_in_group(folder) for folder in folders if folder == root or root in folder.parents)


def _free_in_group(folder: Path) -> int | None:
    """The limit of a control group minus its use; cached files do not count, as they can be dropped."""
    for limit, use, prefix in (
        ("memory.max", "memory.current", ""),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    ):
        with suppress(OSError, ValueError):
            most = (folder / limit).read_text().strip()
            used = int((folder / use).read_text())
            rows = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            cached = sum(int(rows.get(f"{prefix}{kind}_file", 0)) for kind in ("inactive", "active"))
            return None if most == "max" else max(0, int(most) - used + cached)
    return None
