"""Shared by all benchmarks: rows of ratios, timers, and peak memory measured in a separate process.

A benchmark file defines ``rows()``, an iterator of :class:`Row`, and ends with ``main(rows)``. Both sides of a row are
measured in the same run on the same machine, so the ratio means something where the seconds do not.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Row:
    """One comparison: what gainful needed or reached, and what the peer did in the same run."""

    subject: str  # "read LETOR text, 60,000 × 136"
    measure: str  # "time", "peak memory", "NDCG@10"
    ours: float
    peer: str
    theirs: float
    unit: str
    wanted: float | None = None  # the ratio this row must reach; None for no target
    larger_is_better: bool = False
    notes: dict[str, float | str] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """How many times better than the peer: above 1 is better."""
        return self.ours / self.theirs if self.larger_is_better else self.theirs / self.ours

    def to_dict(self) -> dict[str, object]:
        return asdict(self) | {"ratio": self.ratio}


def best_time(call: Callable[[], object], repeat: int = 3) -> float:
    """The least of ``repeat`` wall-clock times, in seconds. Warm up first if compilation would count."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


# The peak of this process in KiB. Not ru_maxrss, which a child inherits from the parent that started it.
PEAK = """
    def _peak():
        with open("/proc/self/status") as status:
            return int(next(line for line in status if line.startswith("VmHWM")).split()[1])
"""


def peak_memory(setup: str, body: str) -> float:
    """MiB by which running ``body`` raises the peak memory of a fresh process that has run ``setup``."""
    script = (
        textwrap.dedent(PEAK)
        + textwrap.dedent(setup)
        + "\n_before = _peak()\n"
        + textwrap.dedent(body)
        + "\nprint(_peak() - _before)\n"
    )
    out = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    return float(out.split()[-1]) / 1024


def main(rows: Callable[[], Iterable[Row]]) -> None:
    """Print the rows as JSON lines; ``run.py`` collects them from every file."""
    for row in rows():
        print(json.dumps(row.to_dict()), flush=True)
