"""Kernels and helpers: compiled once for each combination of types, and kept on disk."""

from __future__ import annotations

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


def test_the_cache_keeps_a_kernel_with_helpers():
    first_sums(np.ones(5), 4)
    assert sum(first_sums.stats.cache_hits.values()) + sum(first_sums.stats.cache_misses.values()) == 1
