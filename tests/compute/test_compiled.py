"""Kernels and helpers: compiled once for each combination of types, and kept on disk."""

from __future__ import annotations

import os
import subprocess
import sys

import numba
import numpy as np

from gainful.compute.compiled import helper, kernel

MOST = 3


@helper
def _first(values, n):
    total = 0.0
    for i in range(n):
        total += values[i]
    return total


@kernel
def first_sums(values, n):
    return _first(values, n) + _first(values, MOST) + _first(values, 2)


def test_a_constant_is_compiled_as_any_other_number():
    compiled_here = numba.njit(first_sums.py_func)  # the kernel itself may come from the disk
    assert compiled_here(np.ones(5), 4) == 9.0
    assert len(_first.signatures) == 1


def test_a_helper_is_compiled_alike_for_every_kernel():
    """numba would compile it by the rules of the first kernel that calls it, and the last digits would follow."""
    assert (_first.targetoptions["fastmath"], _first.targetoptions["error_model"]) == (False, "python")


KERNELS = """
from gainful.compute.compiled import helper, kernel

@helper
def double(x):
    return FACTOR * x

@kernel
def doubled(x):
    return double(x)
"""

USE = """
from numba.core import event

compiled = []

class Listener(event.Listener):
    def on_start(self, compiling):
        compiled.append(compiling.data["dispatcher"].py_func.__name__)

    def on_end(self, _):
        pass

event.register("numba:compile", Listener())
from kernels import doubled

print(doubled(3.0), *compiled)
"""


def test_the_cache_keeps_a_kernel_with_its_helpers(tmp_path):
    def use():
        """What a process of its own gets, and what it has to compile for that."""
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, "-c", USE], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    (tmp_path / "kernels.py").write_text(KERNELS.replace("FACTOR", "2.0"))
    assert use() == ["6.0", "doubled", "double"]
    assert use() == ["6.0"]
    (tmp_path / "kernels.py").write_text(KERNELS.replace("FACTOR", "20.0"))  # another length, whatever the clock says
    assert use() == ["60.0", "doubled", "double"]
