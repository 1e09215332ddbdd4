"""Does a training fit in memory? The estimate of a ranker against what the process may take.

Each family of rankers estimates what it needs besides the data (``Ranker._training_bytes``). The estimate is 0.7 to 1.5
times the measured peak (benchmarks/bench_memory.py), which gives the two thresholds. Above 1.5 times the memory there
is, even the smallest peak would not fit: training is refused. Above 0.7 times, the largest would not: training warns.
Without the check the system kills the process, with no word of why.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from gainful.compute.memory import allowed_memory, size_text
from gainful.data.dataset import Dataset, RankingData
from gainful.data.size import DataSize, data_size
from gainful.errors import MemoryLimitError, MemoryWarning, wording

if TYPE_CHECKING:
    from gainful.rankers.base import Ranker

REFUSED, WARNED = 1.5, 0.7  # estimate over memory
SMALL = 100e6  # bytes; below, libraries and compiled code decide
LIST_ROW_BYTES = 56  # of a row in the list of a clicked document: its number, grade, score, gradient and share
SIMPLE = "ranksvm"  # trains with a few numbers per row


def check_memory(ranker: Ranker, data: Dataset, valid: Dataset | None, max_bytes: int | str | None) -> None:
    """Raise if training needs clearly more memory than it may take, warn if it may need more."""
    free = allowed_memory(max_bytes)
    if free is None or not data.is_local:  # the workers of a cluster have memory of their own
        return
    size = data_size(data, valid)
    needed = ranker._training_bytes(size)
    if needed < max(SMALL, WARNED * free):
        return
    ways = "; ".join(ways_to_fit(ranker, size, free))
    text = (
        f"{_name_of(ranker)} needs about {size_text(needed)} of memory for {size.rows:,} rows × {size.features:,} "
        f"features besides the data, and this process may take {size_text(free)}; {ways}"
    )
    if needed > REFUSED * free:
        off = wording('max_bytes="off"', "--memory-limit off")
        raise MemoryLimitError(f"{text}; {off} skips this check")
    warnings.warn(f"{text}; if it takes more, the system may kill it", MemoryWarning, stacklevel=4)  # the caller of fit


def check_click_memory(data: Dataset, copies: bool, max_bytes: int | str | None) -> None:
    """Raise if the lists of clicked documents, not made yet, need clearly more memory than training may take.

    A query with n documents, m of them clicked, has m lists of n rows. ``copies``: the lists have features, too.
    """
    free = allowed_memory(max_bytes)
    if free is None or not data.is_local:
        return
    size, rows = data_size(data, None), sum(data.map(_n_list_rows))
    needed = rows * (LIST_ROW_BYTES + copies * size.value_bytes * size.values / size.rows)
    if needed <= max(SMALL, REFUSED * free):
        return
    off = wording('max_bytes="off"', "--memory-limit off")
    raise MemoryLimitError(
        f"the lists of all clicked documents have {rows:,.0f} rows and need about {size_text(needed)} of memory, and "
        f"this process may take {size_text(free)}; if a query has several pages, give each page a query id of its own; "
        f"{off} skips this check"
    )


def _n_list_rows(data: RankingData) -> float:
    return float(np.add.reduceat(data.y > 0.0, data.offsets[:-1], dtype=np.float64) @ data.counts)


def _name_of(ranker: Ranker) -> str:
    """The class in Python; on the command line, the registered name that comes closest."""
    from gainful.rankers.specs import spec_of

    return wording(type(ranker).__name__, spec_of(ranker).partition(":")[0])


def ways_to_fit(ranker: Ranker, size: DataSize, free: float) -> list[str]:
    """What would fit, each in a few words; never empty."""
    from gainful.rankers.registry import RANKERS

    room = WARNED * free
    found = [text for text, needed in ranker._smaller_trainings(size, room) if needed <= room]
    rows = most_rows(lambda n: ranker._training_bytes(size.with_rows(n)), size.rows, room)
    if rows >= 1:
        found.append(f"about {round_down(rows):,} rows would fit")
    simple = RANKERS[SIMPLE].create()
    needed = simple._training_bytes(size)
    if needed <= room and needed < ranker._training_bytes(size):
        found.append(f"a linear ranker such as {SIMPLE} needs {size_text(needed)}")
    return found or ["train where there is more memory"]


def most_rows(needed: Callable[[float], float], rows: float, room: float) -> float:
    """The most rows, up to ``rows``, whose training needs no more than ``room``; 0 if even one row needs more."""
    low, high = 0.0, float(rows)
    while high - low > max(1.0, 0.005 * high):
        middle = (low + high) / 2
        low, high = (middle, high) if needed(middle) <= room else (low, middle)
    return low


def round_down(count: float) -> int:
    """Two digits of a count, never more than it."""
    unit: int = 10 ** max(0, len(str(int(count))) - 2)
    return int(count) // unit * unit
