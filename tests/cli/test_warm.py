"""``gainful warm``: every kernel is compiled ahead of time, so that nothing is afterwards."""

from __future__ import annotations

import subprocess
import sys

import pytest

# After warming: which kernels were used. Then a line for each form of a kernel that everyday work needs besides.
USE_ALL = """
import gc, importlib, pkgutil
import gainful
from gainful.cli import run
from numba.core.dispatcher import Dispatcher

assert run(["warm"]) == 0
for module in pkgutil.walk_packages(gainful.__path__, "gainful."):
    if module.name.endswith("_kernels"):
        for name, found in vars(importlib.import_module(module.name)).items():
            if isinstance(found, Dispatcher) and found.targetoptions.get("no_cpython_wrapper") is None:
                print("used" if found.signatures else "unused", module.name, name)

def forms():
    found = [one for one in gc.get_objects() if isinstance(one, Dispatcher)]
    return {(one.py_func.__module__, one.py_func.__qualname__, str(form)) for one in found for form in one.signatures}

warmed = forms()
data = gainful.make_artificial(30)
for name in ("ranknet", "rankmm-1", "lambdamart", "coordinate-ascent", "structured-svm", "listnet", "adarank-ndcg"):
    model = gainful.ranker(name, **({"n_trees": 5} if name == "lambdamart" else {})).fit(data, eval_set=data)
    gainful.metric("ndcg@10")(model.predict(data), data.y, qid=data.qid)
for module, name, form in sorted(forms() - warmed):
    print("new", module, name, form)
"""


@pytest.fixture(scope="module")
def warmed() -> subprocess.CompletedProcess[str]:
    """A process of its own: this one may have compiled or loaded what is asked about."""
    return subprocess.run([sys.executable, "-c", USE_ALL], capture_output=True, text=True, check=True)


def test_warm_uses_every_kernel_and_says_so(warmed):
    lines = [line for line in warmed.stdout.splitlines() if not line.startswith("new")]
    assert sum(line.startswith("used") for line in lines) > 50
    assert [line for line in lines if not line.startswith("used")] == []
    assert "kernels are ready" in warmed.stderr


def test_nothing_is_compiled_after_warm(warmed):
    """That a compiled form is found on disk by the next process, tests/compute/test_compiled.py shows."""
    assert [line for line in warmed.stdout.splitlines() if line.startswith("new")] == []
