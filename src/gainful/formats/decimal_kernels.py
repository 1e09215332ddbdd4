"""Compiled reading of decimal numbers from bytes, for text formats whose own kernels call these helpers.

A buffer is a read-only uint8 array. Past its end every byte reads as a line feed (``byte_at``) or as zero
(``word_at``): no access leaves the buffer.

Decimal numbers become the nearest double, as Python's ``float`` does: by one exact division or product where mantissa
and power of ten are exact (Clinger, "How to read floating point numbers accurately", 1990), else by a 128-bit product
(Lemire, "Number parsing at a gigabyte per second", 2021). A few in a billion are HARD: their last bit needs more, and
the caller leaves them to Python.
"""

from __future__ import annotations

import sys

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from gainful.compute.compiled import helper

LF = 10
MINUS, PLUS, DOT, ZERO, NINE = 45, 43, 46, 48, 57
GOOD, BAD, HARD = 0, 1, 2

EXACT_MANTISSA = 1 << 53
EXACT_POWER = 22
LOWEST_POWER, HIGHEST_POWER = -342, 308
TENS = 10 ** np.arange(9, dtype=np.int64)
POWERS = np.array([float(10**k) for k in range(EXACT_POWER + 1)])

ONE = np.uint64(1)
ASCII_ZEROS = np.uint64(0x3030303030303030)
OVER_NINE = np.uint64(0x7676767676767676)
HIGH_BITS = np.uint64(0x8080808080808080)
PAIRS = np.uint64(0x000000FF000000FF)
PAIRS_HIGH = np.uint64(100 + (1_000_000 << 32))
PAIRS_LOW = np.uint64(1 + (10_000 << 32))


def _powers_of_five() -> np.ndarray:
    """The leading 128 bits of 5**q for q from -342 to 308, (651, 2) uint64: high and low half.

    They are truncated, except those from -27 to -1, which are rounded up: then the product shows whether a decimal lies
    exactly halfway between two doubles.
    """
    table = np.empty((HIGHEST_POWER - LOWEST_POWER + 1, 2), dtype=np.uint64)
    for row, q in enumerate(range(LOWEST_POWER, HIGHEST_POWER + 1)):
        power = 5 ** abs(q)
        size = power.bit_length()
        if q >= 0:
            bits = power << (128 - size) if size <= 128 else power >> (size - 128)
        else:
            bits = (1 << (size + 127)) // power + (q >= -27)
        table[row] = bits >> 64, bits & 0xFFFFFFFFFFFFFFFF
    return table


FIVES = _powers_of_five()


# -- single instructions -----------------------------------------------------------------------------------------------


@intrinsic
def load1(typing_context, buf, at):
    """The byte at ``at``, which the caller has checked is in the buffer."""

    def generate(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, args[0])
        return builder.load(builder.gep(array.data, [args[1]]))

    return types.uint8(buf, at), generate


@intrinsic
def load8(typing_context, buf, at):
    """The eight bytes from ``at``, little-endian; the caller has checked that they are in the buffer."""

    def generate(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, args[0])
        pointer = builder.bitcast(builder.gep(array.data, [args[1]]), ir.IntType(64).as_pointer())
        word = builder.load(pointer)
        word.align = 1
        return word if sys.byteorder == "little" else builder.bswap(word)

    return types.uint64(buf, at), generate


@intrinsic
def trailing_zeros(typing_context, word):
    def generate(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@intrinsic
def leading_zeros(typing_context, word):
    def generate(context, builder, signature, args):
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@intrinsic
def count_bits(typing_context, word):
    def generate(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), generate


@intrinsic
def high_product(typing_context, a, b):
    """The upper 64 bits of the 128-bit product."""

    def generate(context, builder, signature, args):
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def as_double(typing_context, bits):
    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.uint64), generate


# -- bytes -------------------------------------------------------------------------------------------------------------


@helper
def byte_at(buf, at):
    return np.int64(load1(buf, at)) if at < buf.size else np.int64(LF)


@helper
def word_at(buf, at):
    if at + 8 <= buf.size:
        return load8(buf, at)
    word = np.uint64(0)
    for i in range(buf.size - 1, at - 1, -1):
        word = (word << np.uint64(8)) | np.uint64(load1(buf, i))
    return word


# -- numbers -----------------------------------------------------------------------------------------------------------


@helper
def digits(word):
    """How many of the eight bytes, starting with the lowest, are digits in a row, and the number they form."""
    t = word ^ ASCII_ZEROS
    other = ((t + OVER_NINE) | t) & HIGH_BITS
    n = trailing_zeros(other) >> np.uint64(3)
    half = np.uint64(32) - (n << np.uint64(2))
    t = (t << half) << half  # in two steps: a shift by 64 is undefined
    t = t * np.uint64(10) + (t >> np.uint64(8))
    number = ((t & PAIRS) * PAIRS_HIGH + ((t >> np.uint64(16)) & PAIRS) * PAIRS_LOW) >> np.uint64(32)
    return np.int64(n), np.int64(number)


@helper
def _by_product(mantissa, power):
    """mantissa · 10**power as a double, from the leading bits of the product; HARD if they do not decide it."""
    if power < LOWEST_POWER:
        return GOOD, 0.0
    if power > HIGHEST_POWER:
        return GOOD, np.inf
    shift = leading_zeros(mantissa)
    w = mantissa << shift
    high_five, low_five = FIVES[power - LOWEST_POWER, 0], FIVES[power - LOWEST_POWER, 1]
    high, low = high_product(w, high_five), w * high_five
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        carry = high_product(w, low_five)
        low += carry
        if carry > low:
            high += ONE
    if low == np.uint64(0xFFFFFFFFFFFFFFFF) and (power < -27 or power > 55):
        return HARD, 0.0
    top = high >> np.uint64(63)
    cut = top + np.uint64(9)
    bits = high >> cut
    exponent = ((217706 * power) >> 16) + 63 + np.int64(top) - np.int64(shift) + 1023
    if exponent <= 0:
        return HARD, 0.0  # subnormal numbers are too rare to be worth their rounding rules
    halfway = low <= ONE and -4 <= power <= 23 and (bits & np.uint64(3)) == ONE and (bits << cut) == high
    if halfway:
        bits &= ~ONE
    bits = (bits + (bits & ONE)) >> ONE
    if bits >= np.uint64(1 << 53):
        bits = np.uint64(1 << 52)
        exponent += 1
    if exponent >= 0x7FF:
        return GOOD, np.inf
    return GOOD, as_double((bits & np.uint64((1 << 52) - 1)) | (np.uint64(exponent) << np.uint64(52)))


@helper
def nearest_double(mantissa, power, cut_off):
    """The double nearest to mantissa · 10**power; ``cut_off`` means that more digits followed."""
    if mantissa == 0:
        return GOOD, 0.0
    if not cut_off and mantissa <= np.uint64(EXACT_MANTISSA) and -EXACT_POWER <= power <= EXACT_POWER:
        value = np.float64(np.int64(mantissa))
        return GOOD, (value / POWERS[-power] if power < 0 else value * POWERS[power])
    status, value = _by_product(mantissa, power)
    if cut_off and status == GOOD:
        status, above = _by_product(mantissa + ONE, power)
        if above != value:
            status = HARD
    return status, value


@helper
def exponent_at(buf, at):
    """The exponent after the letter e and its end, or -1 if there is none."""
    negative = byte_at(buf, at) == MINUS
    if negative or byte_at(buf, at) == PLUS:
        at += 1
    first, power = at, 0
    c = byte_at(buf, at)
    while ZERO <= c <= NINE:
        if power < 10**16:
            power = power * 10 + (c - ZERO)
        at += 1
        c = byte_at(buf, at)
    return (-power if negative else power), (at if at > first else np.int64(-1))
