"""Threads: how many, by what; how they wait; and that nothing is left changed."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array
from threadpoolctl import threadpool_info, threadpool_limits

import gainful
from gainful.compute import threads
from gainful.compute.threads import (
    CallerAlone,
    Pace,
    allowed_cores,
    cpu_quota,
    limit_threads,
    one_blas_thread,
    openmp_threads,
    short_waits,
)

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux' affinity and OpenMP")


def run(code: str, **environ: str) -> str:
    """What a fresh process prints that knows nothing of the variables that set threads."""
    names = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", *threads.WAITING)
    clean = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean | environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def machine(monkeypatch):
    """A machine of eight logical cores on four physical ones, without a quota, and no variable set."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "_affinity", lambda: 8)
    monkeypatch.setattr(threads, "_quota_here", lambda: None)
    monkeypatch.setattr(threads, "_cores_of_affinity", lambda: 4)


# -- cores -------------------------------------------------------------------------------------------------------------


@linux
def test_the_affinity_of_the_process_counts():
    code = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from gainful.compute.threads import allowed_cores, openmp_threads, thread_count
print(allowed_cores(), openmp_threads(None, 99), openmp_threads(-1, 99), thread_count())
"""
    assert run(code) == "1 1 1 1"


@linux
def test_an_affinity_set_after_numba_was_loaded_counts_too():
    code = """
import os, numba
assert numba.config.NUMBA_NUM_THREADS == len(os.sched_getaffinity(0))
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from gainful.compute.threads import thread_count
print(thread_count())
"""
    assert run(code) == "1"


@pytest.mark.parametrize(
    ("groups", "files", "quota"),
    [
        ("0::/", {"cpu.max": "150000 100000"}, 1.5),
        ("0::/", {"cpu.max": "max 100000"}, None),
        ("0::/a/b", {"a/b/cpu.max": "max 100000", "a/cpu.max": "300000 100000", "cpu.max": "800000 100000"}, 3.0),
        ("0::/../of/the/host", {"cpu.max": "50000 100000"}, 0.5),
        ("4:cpu,cpuacct:/x", {"cpu/x/cpu.cfs_quota_us": "250000", "cpu/x/cpu.cfs_period_us": "100000"}, 2.5),
        ("4:cpu,cpuacct:/x", {"cpu,cpuacct/cpu.cfs_quota_us": "-1", "cpu,cpuacct/cpu.cfs_period_us": "100000"}, None),
        ("4:cpuset:/\n2:memory:/", {"cpu/cpu.cfs_quota_us": "10", "cpu/cpu.cfs_period_us": "10"}, None),
        ("0::/", {"cpu.max": "nonsense"}, None),
    ],
)
def test_quotas_of_control_groups(tmp_path, groups, files, quota):
    (tmp_path / "membership").write_text(groups + "\n")
    for name, text in files.items():
        file = tmp_path / "root" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    assert cpu_quota(tmp_path / "membership", tmp_path / "root") == quota


def test_no_control_groups_no_quota(tmp_path):
    assert cpu_quota(tmp_path / "none", tmp_path) is None


@pytest.mark.parametrize(("quota", "cores"), [(None, 8), (2.5, 3), (0.2, 1), (64.0, 8)])
def test_the_quota_bounds_the_cores(machine, monkeypatch, quota, cores):
    monkeypatch.setattr(threads, "_quota_here", lambda: quota)
    assert allowed_cores() == cores


# -- counts ------------------------------------------------------------------------------------------------------------


def test_threads_of_lightgbm(machine, monkeypatch):
    assert [openmp_threads(None, worth) for worth in (0.1, 1.9, 3.2, float("inf"))] == [1, 1, 3, 8]
    assert openmp_threads(5, 0.1) == 5
    assert openmp_threads(-1, 0.1) == 8
    with limit_threads(2):
        assert openmp_threads(None, 99) == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "12,2")
    assert openmp_threads(None, 99) == 12
    assert openmp_threads(None, 1) == 1
    assert openmp_threads(3, 99) == 3


def test_variables_of_numba_win():
    code = "from gainful.compute.threads import thread_count; print(thread_count())"
    assert run(code, NUMBA_NUM_THREADS="7") == "7"


def test_small_data_take_one_thread(machine):
    from gainful.trees.grow import training_threads

    small, large = gainful.make_artificial(10, n_docs=10, n_features=5), gainful.make_artificial(100, n_features=20)
    assert training_threads(None, small) == 1
    assert training_threads(None, large) == 5
    assert training_threads(2, small) == 2


def test_sparse_data_count_by_what_they_store(machine):
    from gainful.trees.grow import training_threads

    dense = gainful.make_artificial(100, n_features=20)
    X = np.zeros((dense.n_rows, 1_000))
    X[:, :20] = dense.X
    sparse = dense.replace(X=csr_array(X))
    assert training_threads(None, sparse) == training_threads(None, dense) == 5


class Torch:
    """PyTorch, as far as its threads go."""

    def __init__(self, n):
        self.n = n

    def get_num_threads(self):
        return self.n

    def set_num_threads(self, n):
        self.n = n


@pytest.mark.parametrize(
    ("own", "quota", "used"),
    [
        (8, None, 8), (8, 3.0, 3), (8, 2.0, 1),  # logical cores
        (4, None, 4), (4, 3.0, 3), (4, 2.0, 1), (4, 6.0, 4),  # physical cores: PyTorch's own number as well
        (5, 3.0, 5),  # the user's
    ],
)  # fmt: skip
def test_threads_of_pytorch(machine, monkeypatch, own, quota, used):
    monkeypatch.setattr(threads, "_quota_here", lambda: quota)
    torch = Torch(own)
    with threads.limit_torch_threads(torch):
        assert torch.n == used
    assert torch.n == own


def test_a_number_by_variable_is_left_to_pytorch(machine, monkeypatch):
    monkeypatch.setattr(threads, "_quota_here", lambda: 2.0)
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    torch = Torch(8)
    with threads.limit_torch_threads(torch):
        assert torch.n == 8


def test_physical_cores_are_counted_by_their_siblings(tmp_path):
    for i, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
        file = tmp_path / f"cpu{i}" / "topology" / "thread_siblings_list"
        file.parent.mkdir(parents=True)
        file.write_text(siblings + "\n")
    assert [threads.physical_cores(some, tmp_path) for some in ({0, 1, 2, 3}, {0, 2}, {1, 2})] == [2, 1, 2]
    assert threads.physical_cores({0, 9}, tmp_path) == 2


# -- waiting -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", threads.WAITING)
def test_who_has_chosen_how_to_wait_is_left_alone(name):
    environ = {name: "active"}
    with short_waits(environ):
        assert environ == {name: "active"}
    assert environ == {name: "active"}


def test_waits_are_short_inside_and_as_before_after():
    environ: dict[str, str] = {}
    waiting = short_waits(environ)
    waiting.__enter__()
    assert environ == {"GOMP_SPINCOUNT": "30000"}
    assert not waiting.__exit__(ImportError, ImportError(), None)
    assert environ == {}


@linux
def test_openmp_sees_the_short_wait_when_lightgbm_is_loaded():
    """GNU's OpenMP prints its settings when it is loaded, where it is asked to."""
    done = subprocess.run(
        [sys.executable, "-c", "import gainful; gainful.LambdaMART(n_trees=1)._lightgbm_params()"],
        env={name: value for name, value in os.environ.items() if name not in threads.WAITING}
        | {"OMP_DISPLAY_ENV": "verbose"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    if "GOMP_SPINCOUNT" not in done.stderr:
        pytest.skip("another OpenMP than GNU's")
    assert "GOMP_SPINCOUNT = '30000'" in done.stderr


STATE = """
import os
import numba, sklearn, torch  # which set variables of their own
before = dict(os.environ)
import gainful
from threadpoolctl import threadpool_info
data = gainful.make_artificial(100, n_features=20)
gainful.LambdaMART(n_trees=1).fit(data)
from gainful.trees.lightgbm_library import native

def state():
    pools = sorted((pool["filepath"], pool["num_threads"]) for pool in threadpool_info())
    return pools, torch.get_num_threads(), native.omp_get_max_active_levels(), native.omp_get_max_threads()

first = state()
gainful.LambdaMART(n_trees=4).fit(data).predict(data)
gainful.NeuralRanker(epochs=2, device="cpu").fit(data)
gainful.ranker("ranknet", max_iter=3).fit(data)
assert state() == first, (first, state())
changed = {name for name in {*os.environ, *before} if os.environ.get(name) != before.get(name)}
assert changed <= {"TORCHINDUCTOR_CACHE_DIR"}, changed  # PyTorch's own optimizers set it
print(numba.np.ufunc.parallel._is_initialized)
"""


@linux
def test_nothing_is_left_changed():
    pytest.importorskip("torch")
    assert run(STATE) == "False"


# -- pace --------------------------------------------------------------------------------------------------------------


class Machine:
    """A machine whose steps take a given time, on a clock of its own."""

    def __init__(self):
        self.wall = self.processor = 0.0
        self.levels = 1
        self.library = SimpleNamespace(omp_get_max_active_levels=lambda: self.levels,
                                       omp_set_max_active_levels=self.set)  # fmt: skip
        self.pace = Pace(CallerAlone(self.library), lambda: self.wall, lambda: self.processor)

    def set(self, levels: int) -> None:
        self.levels = levels

    def steps(self, n: int, *, one: float, together: float, without_core: float = 0.0) -> str:
        """``n`` steps, each taking ``one`` or ``together`` seconds: A for those on all threads, else 1."""
        taken = ""
        for _ in range(n):
            with self.pace.step():
                passed = together if self.levels else one
                taken += "A" if self.levels else "1"
                self.wall += passed
                self.processor += passed * (1.0 - without_core)
            assert self.levels == 1
        return taken


def test_a_quiet_machine_uses_all_threads():
    taken = Machine().steps(300, one=0.011, together=0.006)
    assert taken.startswith("1A")
    assert 1 <= taken[2:].count("1") <= 300 * 0.006 / (30 * 0.011)


def test_a_busy_machine_uses_one():
    assert Machine().steps(300, one=0.03, together=1.0, without_core=0.6) == "1" * 300


def test_work_that_takes_long_tries_all_threads_on_a_busy_machine_too():
    taken = Machine().steps(200, one=3.0, together=2.0, without_core=0.6)
    assert taken[:30] == "1" * 30
    assert taken[50:].count("A") > 140


def test_threads_that_do_not_help_are_dropped():
    machine = Machine()
    taken = machine.steps(600, one=0.01, together=0.02)
    assert taken.count("A") < 40
    assert machine.wall < 1.1 * 600 * 0.01


def test_load_that_comes_and_goes():
    machine = Machine()
    assert machine.steps(50, one=0.011, together=0.006)[-20:] == "A" * 20
    busy = machine.steps(100, one=0.03, together=1.0, without_core=0.6)
    assert busy[5:] == "1" * 95
    assert machine.steps(50, one=0.011, together=0.006)[10:].count("A") > 30


def test_all_threads_are_taken_again_once_they_bring_something():
    machine = Machine()
    machine.steps(200, one=0.01, together=0.02)
    assert machine.steps(200, one=0.01, together=0.006)[100:].count("A") > 90


def test_one_slow_step_changes_nothing():
    machine = Machine()
    machine.steps(20, one=0.011, together=0.006)
    machine.steps(1, one=0.011, together=0.03)
    assert machine.steps(20, one=0.011, together=0.006).count("1") <= 1


def test_a_step_that_fails_puts_the_setting_back():
    machine = Machine()
    step = machine.pace.step()
    step.__enter__()
    assert machine.levels == 0
    assert not step.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert machine.levels == 1


def test_two_at_once_put_the_setting_back():
    machine = Machine()
    alone = CallerAlone(machine.library)
    first, second = alone(), alone()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert machine.levels == 1


def test_a_library_without_openmp_cannot():
    assert not CallerAlone(SimpleNamespace()).possible
    assert not CallerAlone(None).possible


# -- models ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lambdamart", "mcrank", "gbrank"])
def test_trees_are_the_same_however_the_machine_was(name, monkeypatch, artificial):
    """Busy, quiet, or in turns; and the number of threads that was asked for is the one that is used."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "allowed_cores", lambda: 3)
    monkeypatch.setattr("gainful.trees.grow.VALUES_PER_THREAD", 1000)
    seen = []

    def scores(choose):
        def all_threads(self):
            seen.append(choose(len(seen)))
            return seen[-1]

        monkeypatch.setattr(Pace, "all_threads", all_threads)
        return gainful.ranker(name, n_trees=8, n_leaves=6, min_docs_in_leaf=5).fit(artificial).predict(artificial)

    quiet, busy, turns = (scores(choose) for choose in (lambda i: True, lambda i: False, lambda i: i % 2 == 0))
    assert len(seen) == 24
    np.testing.assert_array_equal(quiet, busy)
    np.testing.assert_array_equal(quiet, turns)


@pytest.mark.parametrize(("n_jobs", "environ"), [(2, None), (-1, None), (None, "2")])
def test_a_number_that_was_chosen_is_kept_to(n_jobs, environ, monkeypatch, artificial):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if environ is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", environ)
    monkeypatch.setattr(threads, "allowed_cores", lambda: 2)
    monkeypatch.setattr("gainful.trees.grow.VALUES_PER_THREAD", 1000)
    monkeypatch.setattr(Pace, "all_threads", lambda self: pytest.fail("the number was chosen"))
    model = gainful.LambdaMART(n_trees=2, n_jobs=n_jobs).fit(artificial)
    assert model.booster_.params["num_threads"] == 2


def test_only_one_module_loads_lightgbm():
    home = Path(gainful.__file__).parent
    loads = {p.name for p in home.rglob("*.py") for line in p.read_text().splitlines()
             if line.strip().startswith(("import lightgbm", "from lightgbm"))}  # fmt: skip
    assert loads == {"lightgbm_library.py"}


class OldLibrary:
    """One setting for all threads."""

    levels = 1

    def omp_get_max_active_levels(self):
        return self.levels

    def omp_set_max_active_levels(self, levels):
        self.levels = levels


def test_trainings_in_several_threads_restore_the_setting_together(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    library = OldLibrary()
    one, other = (threads.step_context(library, None, 2)() for _ in range(2))
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(one)
        second.enter_context(other)
        assert library.levels == 0
        first.close()
    assert library.levels == 1


# -- BLAS --------------------------------------------------------------------------------------------------------------


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.fixture
def two_blas_threads():
    """Two threads for BLAS, whatever the machine has."""
    import scipy.linalg  # noqa: F401 - loads its BLAS

    with threadpool_limits(2, user_api="blas"):
        yield blas_threads()


def test_blas_has_one_thread_until_the_last_has_left(two_blas_threads):
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)  # as it may happen in two threads
    assert set(blas_threads()) == {1}
    second.__exit__(None, None, None)
    assert blas_threads() == two_blas_threads
    with pytest.raises(KeyboardInterrupt), one_blas_thread():
        raise KeyboardInterrupt
    assert blas_threads() == two_blas_threads


@pytest.mark.parametrize(
    ("name", "count"), [("listnet", 1), ("ranksvm", 1), ("lambdamart", 1), ("structured-svm-kernel", 2)]
)
def test_blas_keeps_to_one_thread_while_rankers_train(name, count, two_blas_threads):
    """Its threads would spin on the cores that the next pass needs; only kernels have products large enough."""
    seen = []
    data = gainful.make_artificial(10, n_docs=20, n_features=5, seed=0)
    gainful.ranker(name).fit(data, progress=lambda *_, **__: seen.append(set(blas_threads())))
    assert seen
    assert all(one == {count} for one in seen)
    assert blas_threads() == two_blas_threads


@linux
def test_a_fork_while_another_thread_is_inside():
    """The child begins anew: nobody is inside, and the lock is free though it was held."""
    code = """
import os, threading
import scipy.linalg
from threadpoolctl import threadpool_info
from gainful.compute.threads import one_blas_thread

def counts():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}

with one_blas_thread():
    one_blas_thread._lock.acquire()
    child = os.fork()
    if child == 0:
        with one_blas_thread():
            inside = counts()
        os._exit(0 if inside == {1} and one_blas_thread._inside == 0 else 1)
    one_blas_thread._lock.release()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run(code, OPENBLAS_NUM_THREADS="2") == "0"


def test_one_thread_where_two_openmps_would_meet(machine, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr(threads, "find_spec", lambda name: object() if name == "torch" else None)
    assert openmp_threads(None, 99) == 1
    assert gainful.LambdaMART()._lightgbm_params()["num_threads"] == 1
    assert [openmp_threads(4, 99), openmp_threads(-1, 99)] == [4, 8], "what the user chose"
    assert threads.threads_worth(None, 99) == 8, "our own kernels do not use OpenMP"
    monkeypatch.setattr(threads, "find_spec", lambda name: None)
    assert openmp_threads(None, 99) == 8
