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
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gainful.errors import ParameterError, shorten, wording

MOST = 0.9  # of the free memory; the rest is for other processes
RESET_PEAK = "5"  # proc(5), /proc/pid/clear_refs
LIMIT_VARIABLE = "GAINFUL_MEMORY_LIMIT"
OFF = "off"  # in place of a size: no limit
CGROUPS = Path("/sys/fs/cgroup")
SIZE = re.compile(r"\s*([0-9]{1,30}(?:\.[0-9]*)?(?:e[0-9]{1,2})?)\s*([kmgt]i?)?b?\s*", re.ASCII | re.IGNORECASE)
UNITS = {"": 1} | {unit + i: base**n for i, base in (("", 1000), ("i", 1024)) for n, unit in enumerate("kmgt", 1)}


class PeakGrowth:
    """``with PeakGrowth() as growth: …``; then ``growth.bytes``, or None if the system does not say."""

    bytes: int | None = None

    def __enter__(self) -> Self:
        with suppress(OSError, AttributeError, TypeError):  # not glibc, or Windows, which has no library without a name
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


def is_limit_named(max_bytes: int | str | None = None) -> bool:
    """Whether the user named a limit: ``max_bytes``, or GAINFUL_MEMORY_LIMIT."""
    return max_bytes is not None or bool(os.environ.get(LIMIT_VARIABLE))


def allowed_memory(max_bytes: int | str | None = None, *, share: float = 1.0) -> int | None:
    """Bytes that a computation may take: ``max_bytes``, else GAINFUL_MEMORY_LIMIT, else ``share`` of what is available.

    A limit that the user named is taken whole. None if the limit is "off", or if the system does not say.
    """
    if not is_limit_named(max_bytes):
        free = available_memory()
        return None if free is None else int(share * free)
    limit, name = (max_bytes, "") if max_bytes is not None else (os.environ[LIMIT_VARIABLE], LIMIT_VARIABLE)
    return None if limit == OFF else parse_bytes(limit, name)


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


def parse_bytes(value: Any, name: str = "") -> int:
    """A limit in bytes, at least 1, with or without a unit: ``"4GB"``, ``"512 MiB"``, ``"1.5g"`` or ``2_000_000``.

    kB, MB, GB and TB are powers of 1000; KiB, MiB, GiB and TiB are powers of 1024. Case and the B do not matter.
    ``name`` is what an error calls the limit; by default the option of the interface in use.
    """
    parts = SIZE.fullmatch(str(value))
    is_number = not isinstance(value, bool) and not (isinstance(value, float) and value % 1)
    size = int(float(parts[1]) * UNITS[(parts[2] or "").lower()]) if parts and is_number else 0
    if size < 1:
        name = name or wording("max_bytes", "--memory-limit")
        expected = f"a number of bytes, {OFF!r}, or a size such as '500MB' or '4GB'"
        raise ParameterError(f"{name} must be {expected}, was {shorten(value)}")
    return size


def size_text(n_bytes: float) -> str:
    """Bytes with three digits, in a suitable unit.

    >>> size_text(2_412_000), size_text(54_400_000_000)
    ('2.41 MB', '54.4 GB')
    """
    unit, size = _unit_of(n_bytes)
    return f"{float(f'{n_bytes / size:.3g}'):,g} {unit}"


def size_to_type(n_bytes: float) -> str:
    """Bytes rounded up to a whole number of units, as :func:`parse_bytes` reads them.

    >>> size_to_type(3_200_000_000)
    '4GB'
    """
    unit, size = _unit_of(n_bytes)
    return f"{math.ceil(n_bytes / size)}{unit}"


def _unit_of(n_bytes: float) -> tuple[str, float]:
    return next((pair for pair in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)) if n_bytes >= pair[1]), ("kB", 1e3))


def workers_that_fit(wanted: int, each: int | None, allowed: int | None) -> int:
    """How many of the ``wanted`` workers fit in the memory allowed if each needs ``each`` bytes; at least one."""
    if not each or allowed is None:
        return wanted
    return max(1, min(wanted, allowed // each))


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
