"""How many threads to use, and how they wait: one place for numba, OpenMP (LightGBM), BLAS and PyTorch.

Environment variables and OpenMP's settings are always restored.
"""

from __future__ import annotations

import math
import os
import platform
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SPINS = 30_000  # about 0.1 ms of waiting before a thread sleeps; libgomp's own 300,000 stall a busy machine
WAITING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "KMP_BLOCKTIME")  # a user who sets one has chosen how threads wait

_MOST: ContextVar[int | None] = ContextVar("most threads", default=None)
_SHARED: ContextVar[bool] = ContextVar("cores are shared", default=False)


@contextmanager
def limit_threads(n: int) -> Iterator[None]:
    """Use at most ``n`` threads inside, for callers that run several computations at once."""
    before = _MOST.set(n)
    try:
        yield
    finally:
        _MOST.reset(before)


class OneBlasThread:
    """Inside, BLAS computes on the calling thread.

    Its other threads spin for up to 25 ms after each product, even of 40 × 40 numbers, on the cores that the next pass
    over the data needs. The setting is one for all threads of the process: the last to leave restores it.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._limit: Any = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        libraries = _blas_libraries()
        with self._lock:
            if self._inside == 0:
                self._limit = libraries.limit(limits=1)
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0 and self._limit is not None:
                    self._limit.restore_original_limits()

    def _forget(self) -> None:
        """In a forked child: another thread may have held the lock, and BLAS begins anew with all its threads."""
        self._lock, self._inside, self._limit = threading.Lock(), 0, None


one_blas_thread = OneBlasThread()


@cache
def _blas_libraries() -> Any:
    """Those of NumPy and SciPy."""
    import scipy.linalg  # noqa: F401 - loads its BLAS
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@contextmanager
def share_cores() -> Iterator[None]:
    """Trainings inside run beside others: steps of OpenMP stay on the calling thread, and results keep every bit."""
    before = _SHARED.set(True)
    try:
        yield
    finally:
        _SHARED.reset(before)


def _cap(count: int) -> int:
    most = _MOST.get()
    return count if most is None else min(count, most)


# -- cores -------------------------------------------------------------------------------------------------------------


def allowed_cores() -> int:
    """The cores this process may use: its affinity, or the quota of its control group if that is smaller."""
    quota = _quota_here()
    return _affinity() if quota is None else max(1, min(_affinity(), math.ceil(quota)))


def _affinity() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cores_of_affinity() -> int:
    """The physical cores behind the logical ones of the affinity."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(_affinity()))
    return physical_cores(allowed, Path("/sys/devices/system/cpu"))


def physical_cores(logical: Collection[int], root: Path) -> int:
    """The number of physical cores behind these logical ones; the same number if ``root`` does not say."""
    try:
        return len({(root / f"cpu{i}" / "topology" / "thread_siblings_list").read_text().strip() for i in logical})
    except OSError:
        return len(logical)


@cache
def _quota_here() -> float | None:
    return cpu_quota(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))


def cpu_quota(membership: Path, root: Path) -> float | None:
    """The number of processors that the control groups allow, the smallest on the way up; None without a limit.

    ``membership`` lists the groups of the process, as in /proc/self/cgroup; their files lie under ``root``. Inside a
    container the listed path may be the host's, and the group's own files then lie at the root.
    """
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return None
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":  # version 2
            found += [_quota_v2(folder) for folder in _up_from(root, path)]
        elif "cpu" in controllers.split(","):
            for mount in (root / "cpu", root / controllers):
                found += [_quota_v1(folder) for folder in _up_from(mount, path)]
    limits = [quota for quota in found if quota is not None]
    return min(limits, default=None)


def _up_from(root: Path, path: str) -> Iterator[Path]:
    folder = root / path.strip("/")
    yield folder
    while folder != root and root in folder.parents:
        folder = folder.parent
        yield folder


def _quota_v2(folder: Path) -> float | None:
    try:
        quota, period = (folder / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _quota_v1(folder: Path) -> float | None:
    try:
        quota = int((folder / "cpu.cfs_quota_us").read_text())
        return None if quota <= 0 else quota / int((folder / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError, ZeroDivisionError):
        return None


# -- counts ------------------------------------------------------------------------------------------------------------


def thread_count() -> int:
    """Threads for our own kernels: the cores this process may use; fewer inside :func:`limit_threads`.

    ``NUMBA_NUM_THREADS`` and ``numba.set_num_threads`` win over the cores. Asking numba itself would start its own
    pool, which the kernels here never run on; where that pool is OpenMP's, the count of every other user of OpenMP in
    the process, PyTorch for one, would change with it.
    """
    import numba

    config: Any = numba.config
    most = int(config.NUMBA_NUM_THREADS)
    started = True  # set_num_threads starts it, so its limit is seen
    with suppress(ImportError):  # of a numba whose inner names are others
        from numba.np.ufunc import parallel

        started = getattr(parallel, "_is_initialized", True)
    count = int(numba.get_num_threads()) if started else most
    chosen = "NUMBA_NUM_THREADS" in os.environ or count != most
    return _cap(count if chosen else min(count, allowed_cores()))


def openmp_threads(n_jobs: int | None, worth: float) -> int:
    """Threads for LightGBM and XGBoost: :func:`threads_worth`; unless the user chose, one on macOS (ARM) with PyTorch.

    There, PyTorch and LightGBM each bring an OpenMP of their own, and the threads of two may crash in one process.
    """
    free = _is_count_free(n_jobs) and sys.platform == "darwin" and platform.machine() == "arm64"
    return 1 if free and find_spec("torch") is not None else threads_worth(n_jobs, worth)


def threads_worth(n_jobs: int | None, worth: float) -> int:
    """Threads for work that keeps ``worth`` threads busy.

    A positive ``n_jobs`` is used as it is, -1 means all cores this process may use. None means ``worth``, but at most
    these cores, or ``OMP_NUM_THREADS`` if that is set. The present load must not matter: sums over rows are split into
    one part per thread, and have to round the same every time.
    """
    if n_jobs is not None:
        return n_jobs if n_jobs > 0 else allowed_cores()
    return _cap(max(1, int(min(_openmp_setting() or allowed_cores(), worth))))


def _is_count_free(n_jobs: int | None) -> bool:
    """Whether the user left the number of threads to gainful."""
    return n_jobs is None and _openmp_setting() is None


def _openmp_setting() -> int | None:
    setting = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(setting) if setting.isdigit() and int(setting) > 0 else None


@contextmanager
def limit_torch_threads(torch: Any) -> Iterator[None]:
    """Train a net on as many of PyTorch's threads as help, and restore their number.

    The last digits of the weights depend on that number, so load does not matter here: all allowed cores, but one
    thread if there are only two cores, which was faster than two with every net tried. A number that the user chose, by
    ``OMP_NUM_THREADS`` or any other than PyTorch's default, is not changed. That default is the number of logical
    cores, or of physical ones if PyTorch is built with MKL.
    """
    before, cores = int(torch.get_num_threads()), allowed_cores()
    wanted = 1 if cores <= 2 else cores
    chosen = _openmp_setting() is not None or before not in (_affinity(), _cores_of_affinity())
    if chosen or wanted >= before:
        yield
        return
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# -- forks -------------------------------------------------------------------------------------------------------------
#
# A forked child inherits OpenMP's list of waiting threads, but not the threads: the first parallel loop on all of them
# waits for ever. The list belongs to the thread that forked; threads that the child starts begin with an empty one.


@cache
def run_alone_after_fork(library: Any) -> None:
    """Let a forked child run the loops of this OpenMP library on its first thread alone; results keep every bit."""
    alone = _caller_alone(library)
    if alone.possible and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=alone.stay)


@cache
def limit_torch_after_fork(torch: Any) -> None:
    """Let a forked child use one of PyTorch's threads; the last digits of a net trained there may differ."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


# -- waiting -----------------------------------------------------------------------------------------------------------


@contextmanager
def short_waits(environ: Any = os.environ) -> Iterator[None]:
    """Import a library that uses OpenMP inside this block, and its waiting threads spin only briefly before they sleep.

    GNU's OpenMP reads its settings once, when it is loaded. If it is loaded already, or the user has set how threads
    wait, nothing changes.
    """
    if any(name in environ for name in WAITING):
        yield
        return
    environ["GOMP_SPINCOUNT"] = str(SPINS)
    try:
        yield
    finally:
        environ.pop("GOMP_SPINCOUNT", None)


class CallerAlone:
    """Runs the parallel loops of an OpenMP library on the calling thread alone, one part after the other.

    The loops are split into the same parts as ever, so results are those of all threads to the last bit. ``library`` is
    a ctypes library linked with OpenMP; if its OpenMP cannot do this, ``possible`` is False.
    """

    def __init__(self, library: Any):
        self._get = getattr(library, "omp_get_max_active_levels", None)
        self._set = getattr(library, "omp_set_max_active_levels", None)
        self.possible = self._get is not None and self._set is not None
        self._lock, self._inside, self._before = threading.Lock(), 0, 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        assert self._get is not None
        assert self._set is not None
        with self._lock:
            before = int(self._get())
            if before == 0 and self._inside:  # old libraries share one setting: another thread set it to 0
                before = self._before
            self._before = before
            self._inside += 1
            self._set(0)
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                self._set(before)

    def stay(self) -> None:
        """From here on, this thread always works alone. For a child process, in which no other thread lives yet."""
        assert self._set is not None
        self._lock, self._inside = threading.Lock(), 0  # another thread may have held the lock at the fork
        self._set(0)


_caller_alone = cache(CallerAlone)  # one per library: trainings in several threads share the value to restore

Clock = Callable[[], float]


class Pace:
    """Chooses before each step whether it runs on all threads or on one, by the duration of recent steps.

    In every parallel loop all threads wait for the slowest. On a busy machine one of them often has no core, and a step
    on all threads may take twenty times as long as on one. The slower way is tried again after ``PATIENCE`` times its
    own duration. Steps on one thread also show whether the machine is busy: then wall clock and processor time of the
    thread differ. When that changes, the comparison starts over.
    """

    PATIENCE = 30.0
    BUSY, QUIET = 0.3, 0.1  # share of time without a core: above BUSY the machine is busy, below QUIET quiet again
    JUDGED = 3  # steps on all threads before judging them on a quiet machine: the first wakes the threads
    STALL = 0.5  # seconds that a first step on all threads may lose on a busy machine: hundreds of loops, a slice each

    def __init__(self, alone: CallerAlone, wall: Clock = time.perf_counter, processor: Clock = time.thread_time):
        self._alone, self._wall, self._processor = alone, wall, processor
        self._busy = False
        self._passed, self._worked = 0.0, 0.0  # recent seconds of steps on one thread: wall clock, processor
        self._recent: dict[bool, deque[float]] = {}  # seconds of the last steps on all threads (True) and on one
        self._waited: dict[bool, float] = {}  # since a way was last taken

    @contextmanager
    def step(self) -> Iterator[None]:
        """Around one step."""
        together = self.all_threads()
        wall, processor = self._wall(), self._processor()
        with nullcontext() if together else self._alone():
            yield
        self._learn(together, self._wall() - wall, self._processor() - processor)

    def all_threads(self) -> bool:
        """Whether the next step uses all threads."""
        seconds = {way: statistics.median(recent) for way, recent in self._recent.items()}
        if False not in seconds:
            return False
        if True not in seconds:
            return not self._busy or self._is_due(True, seconds[False] + self.STALL)
        if not self._busy and len(self._recent[True]) < self.JUDGED:
            return True
        faster = seconds[True] < seconds[False]
        return not faster if self._is_due(not faster, seconds[not faster]) else faster

    def _is_due(self, way: bool, cost: float) -> bool:
        return self._waited.get(way, 0.0) >= self.PATIENCE * cost

    def _learn(self, together: bool, passed: float, worked: float) -> None:
        if not together:
            self._notice_load(passed, worked)
        recent = self._recent.setdefault(together, deque(maxlen=5))
        if self._waited.get(together, 0.0) > 0.0:  # measured before the other way ran: out of date
            recent.clear()
        recent.append(passed)
        self._waited[together] = 0.0
        self._waited[not together] = self._waited.get(not together, 0.0) + passed

    def _notice_load(self, passed: float, worked: float) -> None:
        self._passed, self._worked = self._passed / 2 + passed, self._worked / 2 + worked
        missed = 1.0 - self._worked / self._passed if self._passed > 0.0 else 0.0
        busy = missed > (self.QUIET if self._busy else self.BUSY)
        if busy != self._busy:
            self._busy = busy
            self._recent.clear()
            self._waited.clear()


def step_context(library: Any, n_jobs: int | None, n_threads: int) -> Callable[[], AbstractContextManager[None]]:
    """Makes the context of each step of a training.

    A :class:`Pace` if gainful may choose the number of threads; the caller alone within :func:`share_cores`.
    """
    alone = _caller_alone(library)
    if n_threads == 1 or not _is_count_free(n_jobs) or not alone.possible:
        return nullcontext
    return alone if _SHARED.get() else Pace(alone).step
