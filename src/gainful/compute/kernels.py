"""Helpers that kernels of several folders share."""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from numpy import uint64

from gainful.compute.compiled import helper

WIDTH = 8  # numbers in the longest vectors of today's processors


@helper
def round_up(n):
    """n rounded up to whole vectors, so that the compiler leaves no numbers to be done one at a time."""
    return (uint64(n) + uint64(WIDTH - 1)) // uint64(WIDTH) * uint64(WIDTH)


@helper
def sort_falling(values, base, rows, at, n, spare):
    """Sort rows[at : at + n] by falling values[base + row], stably: insertion in runs of 16, then merging.

    ``spare`` has room for n rows.
    """
    run, end = 16, at + n
    for start in range(at, end, run):
        for place in range(start, start + run if start + run < end else end):
            row, to = rows[place], place
            x = values[base + row]
            while to > start and x > values[base + rows[to - 1]]:
                rows[to] = rows[to - 1]
                to -= 1
            rows[to] = row
    while run < n:
        for start in range(at, end - run, 2 * run):
            b, to = start + run, start
            stop = b + run if b + run < end else end
            for a in range(run):
                spare[a] = rows[start + a]
            a = 0
            left, right = values[base + spare[0]], values[base + rows[b]]
            while True:
                if right > left:
                    rows[to] = rows[b]
                    b += 1
                    if b == stop:
                        break
                    right = values[base + rows[b]]
                else:
                    rows[to] = spare[a]
                    a += 1
                    if a == run:
                        break
                    left = values[base + spare[a]]
                to += 1
            to += 1
            while a < run:
                rows[to] = spare[a]
                a += 1
                to += 1
        run *= 2


# -- functions that the compiler can vectorise: no calls, no branches, no tables ---------------------------------------

LOWEST_EXPONENT = -708.0  # exp of less is below the smallest normal number, and counts as 0
HALF_TAIL_REACH = 27.0  # past it, exp(−x²) counts as 0
TAIL_CENTRE = 3.75
TO_INTEGER = 6755399441055744.0  # 1.5 · 2^52: adding it rounds to an integer, which is in the lowest bits
LOG_2_FIRST, LOG_2_REST = 0.6931471803691238, 1.9082149292705877e-10  # the first has 32 bits, their sum 85


# Their error bounds are proven in tests/compute/test_error_bounds.py, with exact fractions.


@helper(fastmath={"contract"})
def exp_below_one(x):
    """exp(x) for x ≤ 0, less than 1e-14 off by proof (4e-16 found); 0 below LOWEST_EXPONENT, NaN for NaN.

    exp(x) = 2^k exp(r) with |r| ≤ ½ log 2.
    """
    y = LOWEST_EXPONENT if x < LOWEST_EXPONENT else x
    shifted = y * 1.4426950408889634 + TO_INTEGER
    k = shifted - TO_INTEGER
    r = (y - k * LOG_2_FIRST) - k * LOG_2_REST
    power = np.int64((np.float64(shifted).view(np.int64) + 1023) << 52).view(np.float64)
    return 0.0 if x < LOWEST_EXPONENT else exp_polynomial(r) * power


@helper(fastmath={"contract"})
def exp_polynomial(r):
    """Interpolates exp at eleven Chebyshev points of |r| ≤ ½ log 2 (2e-16 off)."""
    p = 2.7626495546432196e-07 * r + 2.76403468261385e-06
    p = p * r + 2.4801504014426906e-05
    p = p * r + 0.00019841169871202734
    p = p * r + 0.0013888888932751
    p = p * r + 0.008333333385982784
    p = p * r + 0.04166666666657239
    p = p * r + 0.16666666666553503
    p = p * r + 0.5000000000000006
    p = p * r + 1.0000000000000069
    return p * r + 1.0


@helper(fastmath={"contract"}, error_model="numpy")
def half_tail(x, bell):
    """½ erfc(x) for x ≥ 0 where ``bell`` = exp(−x²), less than 3e-13 off by proof (1e-13 found).

    Past HALF_TAIL_REACH no more than ``bell``.
    """
    x = HALF_TAIL_REACH if x > HALF_TAIL_REACH else x
    return bell * tail_polynomial((x - TAIL_CENTRE) / (x + TAIL_CENTRE))


@helper(fastmath={"contract"})
def tail_polynomial(y):
    """Interpolates exp(x²) ½ erfc(x), y = (x − 3.75)/(x + 3.75), at 22 Chebyshev points (5e-15 off).

    Even and odd terms are separate, so that two chains run side by side.
    """
    z = y * y
    even = -1.635921500011436e-09 * z + 1.4803848126247084e-08
    even = even * z - 9.107926838550202e-08
    even = even * z + 3.740178221925545e-07
    even = even * z + 1.7919249172792037e-06
    even = even * z - 7.623134404794162e-05
    even = even * z + 0.0009014812096914267
    even = even * z + 0.012071611986127918
    even = even * z + 0.05130215601610295
    even = even * z + 0.11300403345831064
    even = even * z + 0.07279486063751928
    odd = -6.258922370837013e-10 * z + 4.88909352791559e-09
    odd = odd * z - 3.685357760499668e-08
    odd = odd * z + 3.3016393797046934e-07
    odd = odd * z - 3.0919163348021742e-06
    odd = odd * z + 2.3949446051937876e-05
    odd = odd * z - 1.2767674796847258e-05
    odd = odd * z - 0.004110310576172329
    odd = odd * z - 0.027401163347533262
    odd = odd * z - 0.08178594776196113
    odd = odd * z - 0.13671096574771324
    return odd * y + even
