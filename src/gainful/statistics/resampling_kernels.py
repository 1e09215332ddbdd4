"""Compiled random signs and resamples of queries. Loaded on the first test: it imports the compiler.

Both fill a block of rows, one row a draw, and leave the sums to one matrix product with the values of all rankers: a
draw is made once, however many rankers there are. The generator is splitmix64 (Steele, Lea and Flood, 2014), one word a
step from a counter, so that a seed gives the same draws on every machine and with every version of the compiler.
"""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from gainful.compute.compiled import helper, kernel

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
S30, S27, S31, S32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32)
ONE = np.uint64(1)
LOW = np.uint64(0xFFFFFFFF)


@helper
def _mixed(state):
    z = (state ^ (state >> S30)) * MIX_1
    z = (z ^ (z >> S27)) * MIX_2
    return z ^ (z >> S31)


@kernel
def draw_signs(state, out):
    """Fill ``out`` with −1 and +1, each with probability ½; the state after it."""
    rows, n = out.shape
    for b in range(rows):
        i = 0
        while i < n:
            state += GOLDEN
            word = _mixed(state)
            for j in range(i, min(n, i + 64)):
                out[b, j] = 1.0 if word & ONE else -1.0
                word >>= ONE
            i += 64
    return state


@kernel
def draw_counts(state, out):
    """Fill each row of ``out`` with how often n draws with replacement hit each of n queries; the state after it.

    An index is the high half of a 32-bit number times n; its probability is off by less than n / 2^32.
    """
    rows, n = out.shape
    size = np.uint64(n)
    for b in range(rows):
        for j in range(n):
            out[b, j] = 0.0
        i = 0
        while i < n:
            state += GOLDEN
            word = _mixed(state)
            out[b, ((word >> S32) * size) >> S32] += 1.0
            if i + 1 < n:
                out[b, ((word & LOW) * size) >> S32] += 1.0
            i += 2
    return state
