"""``gainful warm``: every kernel is compiled ahead of time, so that nothing is afterwards."""

from __future__ import annotations

import os
import subprocess
import sys

USE_ALL = """
import importlib, pkgutil
import gainful
from gainful.cli import run
from numba.core.dispatcher import Dispatcher

assert run(["warm"]) == 0
for module in pkgutil.walk_packages(gainful.__path__, "gainful."):
    if module.name.endswith("_kernels"):
        for name, found in vars(importlib.import_module(module.name)).items():
            if isinstance(found, Dispatcher) and found.targetoptions.get("no_cpython_wrapper") is None:
                print("used" if found.signatures else "unused", module.name, name)
"""

NAME_COMPILED = """
from numba.core import event

class Listener(event.Listener):
    def on_start(self, compiling):
        print(compiling.data["dispatcher"].py_func.__qualname__)

    def on_end(self, _):
        pass

event.register("numba:compile", Listener())
"""

WARM_TWO = """
from gainful.cli.warm import warm_steps

steps = warm_steps()
steps["ranknet"]()
steps["rankmm-1"]()
"""

USE_TWO = """
import gainful

data = gainful.make_artificial(30)
for name in ("ranknet", "rankmm-1"):
    model = gainful.ranker(name).fit(data, eval_set=data)
    gainful.metric("ndcg@10")(model.predict(data), data.y, qid=data.qid)
"""


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process of its own: this one may have compiled or loaded what is asked about."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ | environment
    )


def test_warm_uses_every_kernel_and_says_so():
    done = run_python(USE_ALL)
    lines = done.stdout.splitlines()
    assert sum(line.startswith("used") for line in lines) > 50
    assert [line for line in lines if not line.startswith("used")] == []
    assert "kernels are ready" in done.stderr


def test_nothing_is_compiled_after_warm(tmp_path):
    own_cache = {"NUMBA_CACHE_DIR": str(tmp_path)}
    assert run_python(NAME_COMPILED + WARM_TWO, **own_cache).stdout != ""
    assert run_python(NAME_COMPILED + USE_TWO, **own_cache).stdout == ""
