"""Shared by all tests: the order they run in, what they may not leave behind, and data."""

from __future__ import annotations

import atexit
import gc
import hashlib
import importlib.util
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from ctypes.util import find_library
from pathlib import Path

if "PYTEST_XDIST_WORKER" in os.environ:
    # One worker per core already: OpenMP threads that wait for each other's cores would only spin.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import psutil
import pytest
import sklearn
from hypothesis import HealthCheck, settings

import gainful
from browser import browse  # noqa: F401

# A test is judged by what it computes, never by how long that took: the machine may be busy. The examples are the same
# in every run, so that a change is blamed for what it breaks and for nothing else; --explore tries others, and more.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("gainful", settings.get_profile("explore"), derandomize=True, max_examples=25)
settings.load_profile("gainful")

PYTORCH = importlib.util.find_spec("torch") is not None
WANTS_PYTORCH = re.compile(r"needs PyTorch|\[neural\]|No module named 'torch'")

RULES = Path(__file__).parent / "platforms" / "rules"
OHSUMED = Path(os.environ.get("GAINFUL_OHSUMED", Path(__file__).parents[2] / "shared" / "data" / "ohsumed"))


# -- without OpenMP ----------------------------------------------------------------------------------------------------


def lend_openmp() -> None:
    """Where the system has none: gainful brings LightGBM a copy, and tests that use LightGBM alone need one, too."""
    copies = list((Path(sklearn.__file__).parents[1] / "scikit_learn.libs").glob("libgomp-*"))
    if sys.platform != "linux" or find_library("gomp") or not copies or "PYTEST_XDIST_WORKER" in os.environ:
        return
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shutil.copy(copies[0], Path(folder, "libgomp.so.1"))
    paths = [folder, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(paths)  # for the processes started here
    importlib.import_module("gainful.trees.lightgbm_library")  # for this one


lend_openmp()

# -- order -------------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, help="order of the tests: the same seed, the same order")
    parser.addoption("--explore", action="store_true", help="new examples of Hypothesis, drawn by the seed")
    parser.addoption("--mixed", action="store_true", help="tests that start clusters between the others, not last")
    parser.addoption("--rules", choices=("windows", "macos"), help="lay the rules of this system over Linux")


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """With ``--rules``, the same run in a process that has them from its start, as have the processes it starts."""
    system = config.option.rules
    if system is None or os.environ.get("GAINFUL_RULES") == system:
        return None
    path = os.pathsep.join([str(RULES), *filter(None, [os.environ.get("PYTHONPATH")])])
    rules = {"GAINFUL_RULES": system, "PYTHONPATH": path}
    command = [sys.executable, "-m", "pytest", *config.invocation_params.args]
    return subprocess.run(command, env=os.environ | rules, check=False).returncode


@pytest.hookimpl(tryfirst=True)  # before Hypothesis reads its seed
def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.option.seed = config.workerinput["seed"]
    elif config.option.seed is None:
        config.option.seed = random.SystemRandom().randrange(10**6)
    if config.option.explore:
        settings.load_profile("explore")
        config.option.hypothesis_seed = config.option.hypothesis_seed or config.option.seed


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node) -> None:
    """Workers of pytest-xdist use the seed of the process that starts them."""
    node.workerinput["seed"] = node.config.option.seed


def pytest_report_header(config: pytest.Config) -> list[str]:
    lines = [f"random order: repeat it with --seed {config.option.seed}"]
    return lines if PYTORCH else [*lines, "PyTorch is not installed: what needs it is skipped"]


@pytest.hookimpl(tryfirst=True)  # pytest then brings together what shares a fixture with parameters
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Modules in random order, and the tests within each; those that start clusters last.

    The order of two tests depends on the seed and on their names alone, so that it stays when fewer tests are run.
    """

    def rank(text: str) -> bytes:
        return hashlib.sha256(f"{config.option.seed} {text}".encode()).digest()

    def is_last(item: pytest.Item) -> bool:
        return item.get_closest_marker("cluster") is not None and not config.option.mixed

    items.sort(key=lambda one: (is_last(one), rank(one.nodeid.split("::")[0]), rank(one.nodeid)))


def pytest_collection_finish() -> None:
    """What imports and collection made stays to the end: the garbage collector need not look at it again and again."""
    gc.freeze()


# -- without PyTorch, which brings gigabytes where there is no build for the CPU ---------------------------------------


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    if PYTORCH or collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    return bool(re.search("^import torch", collection_path.read_text(), re.MULTILINE)) or None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo):
    """Rankers are drawn from the registry, so nets are everywhere: what fails for want of PyTorch alone is skipped."""
    report = yield
    if report.failed and not PYTORCH and WANTS_PYTORCH.search(str(call.excinfo.value)):
        path, line, _ = report.location
        report.outcome, report.longrepr = "skipped", (path, line, "Skipped: PyTorch is not installed")
    return report


# -- nothing is left behind --------------------------------------------------------------------------------------------

GRACE = 120.0  # seconds; a busy machine closes connections slowly

# Pools that a library keeps for the life of the process, and that do nothing between calls.
POOLS = ("Dask-Offload", "TCP-Executor", "asyncio_")
TRACKERS = ("resource_tracker", "forkserver")


def running() -> set[threading.Thread | psutil.Process]:
    threads = {one for one in threading.enumerate() if not one.name.startswith(POOLS)}
    return threads | {one for one in psutil.Process().children(recursive=True) if not is_tracker(one)}


def is_tracker(process: psutil.Process) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return True
        ours = process.ppid() == os.getpid()  # what a fork server forks has its command line, but is not our child
        return ours and any(name in " ".join(process.cmdline()) for name in TRACKERS)
    except psutil.NoSuchProcess:
        return True


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left_running():
    """Threads and processes that outlive their module disturb tests that come later, and not every time."""
    before = running()
    yield
    end = time.monotonic() + GRACE
    while (left := running() - before) and time.monotonic() < end:
        gc.collect()  # a pool of threads ends with the object that holds it
        time.sleep(0.05)
    assert not left, f"still running {GRACE:.0f} seconds after the last test of the module: {left}"


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk():
    """What is written need not outlast a loss of power here; that it is flushed at all, tests of a full disk show."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture
def interruptible():
    """Ctrl-C works here and in the processes started here, also where the shell that started pytest ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# -- data --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def ohsumed() -> Path:
    """The folder of LETOR 3.0's OHSUMED, which is not ours to pass on."""
    if not (OHSUMED / "Fold1" / "train.txt").is_file():
        pytest.skip(f"OHSUMED is not at {OHSUMED}; set GAINFUL_OHSUMED to its folder")
    return OHSUMED


@pytest.fixture(scope="session")
def artificial() -> gainful.RankingData:
    """120 queries of 20 documents, 12 features."""
    return gainful.make_artificial(120, n_docs=20, n_features=12, seed=3)


@pytest.fixture(scope="session")
def parts(artificial: gainful.RankingData) -> tuple[gainful.RankingData, ...]:
    """Train, validation and test part of the artificial data."""
    return gainful.split(artificial, (0.6, 0.2, 0.2), seed=1)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)
