"""How many threads there are to use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_MOST: ContextVar[int | None] = ContextVar("most threads", default=None)


@contextmanager
def at_most(n: int) -> Iterator[None]:
    """No more than so many threads inside, for those who run several computations at once."""
    before = _MOST.set(n)
    try:
        yield
    finally:
        _MOST.reset(before)


def thread_count() -> int:
    """As many as numba may use, by ``NUMBA_NUM_THREADS`` or ``numba.set_num_threads``; fewer inside :func:`at_most`.

    Asking numba itself would start its own pool, which the kernels here never run on; where that pool is OpenMP's, the
    count of every other user of OpenMP in the process, PyTorch for one, would change with it.
    """
    import numba
    from numba.np.ufunc import parallel

    started = getattr(parallel, "_is_initialized", True)  # set_num_threads starts it, so its limit is seen
    config: Any = numba.config
    count = int(numba.get_num_threads() if started else config.NUMBA_NUM_THREADS)
    most = _MOST.get()
    return count if most is None else min(count, most)
