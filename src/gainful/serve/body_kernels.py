"""The lists of numbers in a JSON text, read by compiled code: no Python object is made for a number."""

from __future__ import annotations

import numpy as np

from gainful.compute.compiled import helper, kernel
from gainful.formats.decimal_kernels import (
    DOT,
    GOOD,
    LF,
    MINUS,
    NINE,
    POWERS,
    TENS,
    ZERO,
    byte_at,
    digits,
    exponent_at,
    load1,
    nearest_double,
    word_at,
)

TAB, CR, SPACE, QUOTE, COMMA, LEFT, BACKSLASH, RIGHT, LETTER_E, LETTER_N = 9, 13, 32, 34, 44, 91, 92, 93, 101, 110
MARK = 127  # the control character DEL, which JSON allows in strings; texts that have it are left alone
MARK_ESCAPED = np.uint64(int.from_bytes(rb"\u007f", "little"))
SIX_BYTES = np.uint64((1 << 48) - 1)
LOWER_CASE = np.uint64(0x20 << 40)  # of the sixth byte
NULL, FOUR_BYTES = np.uint64(int.from_bytes(b"null", "little")), np.uint64(0xFFFFFFFF)
ROOM = np.array([10 ** (19 - n) for n in range(9)], dtype=np.uint64)  # a mantissa below it has room for n more digits


@helper
def _skip_space(buf, at):
    while at < buf.size:
        c = load1(buf, at)
        if c != SPACE and c != LF and c != CR and c != TAB:
            break
        at += 1
    return at


@helper(forceinline=True)
def _more_digits(buf, at, mantissa):
    """The mantissa with the digits from ``at`` appended, and the position after them; -1 if it becomes too long."""
    n = 8
    while n == 8:
        n, part = digits(word_at(buf, at))
        if mantissa >= ROOM[n]:
            return mantissa, np.int64(-1)
        mantissa = mantissa * np.uint64(TENS[n]) + np.uint64(part)
        at += n
    return mantissa, at


@helper
def _number(buf, at):
    """The JSON number or null at ``at`` and the position after it; -1 for anything else and for rare numbers."""
    negative = byte_at(buf, at) == MINUS
    if negative:
        at += 1
    elif word_at(buf, at) & FOUR_BYTES == NULL:
        return np.nan, at + 4
    first = at
    mantissa, at = _more_digits(buf, at, np.uint64(0))
    if at <= first or (at > first + 1 and load1(buf, first) == ZERO):
        return 0.0, np.int64(-1)
    power, whole = np.int64(0), True
    c = byte_at(buf, at)
    if c == DOT:
        whole = False
        first = at + 1
        mantissa, at = _more_digits(buf, first, mantissa)
        if at <= first:
            return 0.0, np.int64(-1)
        power = first - at
        c = byte_at(buf, at)
    if c | 32 == LETTER_E:
        whole = False
        scale, at = exponent_at(buf, at + 1)
        if at < 0:
            return 0.0, np.int64(-1)
        power += scale
    status, value = nearest_double(mantissa, power, False)
    if status != GOOD or value == np.inf:
        return 0.0, np.int64(-1)
    if negative and not (whole and mantissa == 0):  # -0 is a whole number, and those have no negative zero
        value = -value
    return value, at


@helper
def _long_fraction(buf, at, mantissa):
    """The number with one digit before the point and eight after it, in ``mantissa``, and more from ``at`` on."""
    n, part = digits(word_at(buf, at))
    m, end = np.int64(0), np.int64(0)
    if n == 8:
        m, end = digits(word_at(buf, at + 8))
    if m > 2:
        return 0.0, at  # more digits than fit; the next byte is one, so the number does not end here
    status, value = nearest_double(np.uint64((mantissa * TENS[n] + part) * TENS[m] + end), -8 - n - m, False)
    return value, (at + n + m if status == GOOD else at)


@helper(forceinline=True)
def _short_number(buf, at):
    """As :func:`_number`, for at most seven digits before the point and eight after it, without an exponent."""
    negative = byte_at(buf, at) == MINUS
    if negative:
        at += 1
    if byte_at(buf, at + 1) == DOT:
        n, mantissa = 1, byte_at(buf, at) - ZERO
        if mantissa < 0 or mantissa > 9:
            return 0.0, np.int64(-1)
    else:
        n, mantissa = digits(word_at(buf, at))
        if n == 0 or n == 8 or (n > 1 and load1(buf, at) == ZERO):
            return 0.0, np.int64(-1)
    at += n
    c = byte_at(buf, at)
    value = np.float64(mantissa)
    if c == DOT:
        m, fraction = digits(word_at(buf, at + 1))
        if m == 0:
            return 0.0, np.int64(-1)
        at += 1 + m
        mantissa = mantissa * TENS[m] + fraction
        value = np.float64(mantissa) / POWERS[m]
        c = byte_at(buf, at)
        if ZERO <= c <= NINE:
            if n > 1:
                return 0.0, np.int64(-1)
            value, at = _long_fraction(buf, at, mantissa)
            c = byte_at(buf, at)
    elif mantissa == 0:
        negative = False  # -0 is a whole number, and those have no negative zero
    if c != COMMA and c != RIGHT:
        return 0.0, np.int64(-1)
    return (-value if negative else value), at


@helper(forceinline=True)
def _numbers(buf, at, out, cell, n):
    """Store the n numbers of the list whose first is at ``at``; the position after the list, or -1."""
    for j in range(n):
        token = at
        value, at = _short_number(buf, token)
        if at < 0:
            value, at = _number(buf, token)
            if at < 0:
                return at
            at = _skip_space(buf, at)
        out[np.uint64(cell + j)] = value
        c = byte_at(buf, at)
        at += 1
        if j == n - 1:
            return at if c == RIGHT else np.int64(-1)
        if c != COMMA:
            return np.int64(-1)
        if byte_at(buf, at) == SPACE:
            at += 1
        if byte_at(buf, at) <= SPACE:
            at = _skip_space(buf, at)
    return np.int64(-1)


@helper
def _copy_string(buf, at, rest, size):
    """Copy the string whose first quote is at ``at``; the positions after it, in the text and in ``rest``, or -1."""
    start = at
    at += 1
    while at < buf.size:
        c = load1(buf, at)
        if c == MARK or (c == BACKSLASH and (word_at(buf, at) & SIX_BYTES) | LOWER_CASE == MARK_ESCAPED):
            return np.int64(-1), size
        at += 1 + (c == BACKSLASH)
        if c == QUOTE:
            break
    if at > buf.size:
        return np.int64(-1), size
    for i in range(start, at):
        rest[size + i - start] = load1(buf, i)
    return at, size + at - start


@kernel
def take_lists(buf, n, out, rest):
    """Move every list of n numbers in a JSON text to ``out``, one after the other; null becomes NaN.

    ``rest`` gets the text with the string MARK in their places. Nothing but lists and strings is looked at: whether the
    text is JSON shows when ``rest`` is parsed, and no other string in it is MARK.

    Returns
    -------
    the number of lists and the size of ``rest``; -1 for both if a list begins as one of numbers and is not, if there is
    no room for it, and for rare texts: those with MARK in a string, with numbers too long, too large or almost zero
    """
    at, size, cell = 0, 0, 0
    while at < buf.size:
        c = load1(buf, at)
        if c == QUOTE:
            at, size = _copy_string(buf, at, rest, size)
            if at < 0:
                return -1, -1
            continue
        if c == LEFT:
            first = _skip_space(buf, at + 1)
            c = byte_at(buf, first)
            if ZERO <= c <= NINE or c == MINUS or c == LETTER_N:  # noqa: SIM109 - compiles faster
                if cell + n > out.size:
                    return -1, -1
                at = _numbers(buf, first, out, cell, n)
                if at < 0:
                    return -1, -1
                cell += n
                rest[size], rest[size + 1], rest[size + 2] = QUOTE, MARK, QUOTE
                size += 3
                continue
        rest[size] = load1(buf, at)
        size += 1
        at += 1
    return cell // n, size
