"""How many threads there are to use."""

from __future__ import annotations

from typing import Any


def thread_count() -> int:
    """As many as numba may use, by ``NUMBA_NUM_THREADS`` or ``numba.set_num_threads``.

    Asking numba itself would start its own pool, which the kernels here never run on; where that pool is OpenMP's, the
    count of every other user of OpenMP in the process, PyTorch for one, would change with it.
    """
    import numba
    from numba.np.ufunc import parallel

    started = getattr(parallel, "_is_initialized", True)  # set_num_threads starts it, so its limit is seen
    config: Any = numba.config
    return int(numba.get_num_threads() if started else config.NUMBA_NUM_THREADS)
