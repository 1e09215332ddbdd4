"""Compiled parser of LETOR/SVMlight text: bytes in, arrays out.

``scan`` counts the contents of a chunk of whole lines, ``parse`` fills the arrays. Rare cases have their own kernels,
which run afterwards: compiling everything at first use would take three times as long. All kernels run without the
interpreter lock on part of a buffer, so the driver runs chunks in parallel threads.

Buffers and numbers are those of ``formats.decimal_kernels``; the few numbers that are HARD are read by the driver. The
kernels only say *that* and *where* a line is malformed; ``letor.lines`` says why.
"""

from __future__ import annotations

import numpy as np

from gainful.compute.compiled import helper, kernel
from gainful.formats.decimal_kernels import (
    BAD,
    DOT,
    EXACT_MANTISSA,
    GOOD,
    HARD,
    HIGH_BITS,
    LF,
    MINUS,
    NINE,
    ONE,
    PLUS,
    POWERS,
    TENS,
    ZERO,
    byte_at,
    count_bits,
    digits,
    exponent_at,
    load1,
    nearest_double,
    trailing_zeros,
    word_at,
)

CR, TAB, SPACE, HASH, COLON, EQUALS = 13, 9, 32, 35, 58, 61
FLAGS, QUERY, QUERY_SIZE, COMMENT, VALUES = range(5)  # columns of a row's marks; COMMENT is 0 for a row without one
N_MARKS = 5
NEW_QUERY, OUT_OF_ORDER, ODD_QUERY = 1, 2, 4  # FLAGS: the query differs from the row before, …, is not plain ASCII

ENDS_TOKEN = np.uint64(1 << LF | 1 << CR | 1 << TAB | 1 << SPACE | 1 << HASH)
EXPECTED_INDICES = 1024

LOW_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
LINE_FEEDS = np.uint64(LF * 0x0101010101010101)
HASHES = np.uint64(HASH * 0x0101010101010101)
COLONS = np.uint64(COLON * 0x0101010101010101)
QID_WORD, QID_BYTES = np.uint64(int.from_bytes(b"qid:", "little")), np.uint64(0xFFFFFFFF)


def _index_prefixes() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`` 1:``, `` 2:``, … as words, with the mask of the bytes that count and their number.

    Most lines list every feature in order. Comparing with the expected text lets the processor start on the value
    before it knows where the index ends.
    """
    texts = [f" {index}:".encode() for index in range(EXPECTED_INDICES)]
    words = [int.from_bytes(text, "little") for text in texts]
    masks = [(1 << 8 * len(text)) - 1 for text in texts]
    return np.array(words, np.uint64), np.array(masks, np.uint64), np.array([len(text) for text in texts])


PREFIXES, PREFIX_MASKS, PREFIX_SIZES = _index_prefixes()


# -- bytes -------------------------------------------------------------------------------------------------------------


@helper
def _bytes_equal(word, pattern):
    """The high bit of every byte of ``word`` that equals the repeated byte of ``pattern``."""
    differs = word ^ pattern
    return ~(((differs & LOW_BITS) + LOW_BITS) | differs) & HIGH_BITS


@helper
def _ends_token(c):
    return c <= HASH and ((ENDS_TOKEN >> np.uint64(c)) & ONE) != 0


@helper
def _skip_blanks(buf, at):
    while at < buf.size:
        c = load1(buf, at)
        if c != SPACE and c != TAB:
            break
        at += 1
    return at


@helper
def _token_end(buf, at):
    while not _ends_token(byte_at(buf, at)):
        at += 1
    return at


@helper
def _line_end(buf, at):
    """The position of the line feed, or the end of the buffer."""
    while at < buf.size:
        found = _bytes_equal(word_at(buf, at), LINE_FEEDS)
        if found != 0:
            return at + np.int64(trailing_zeros(found) >> np.uint64(3))
        at += 8
    return np.int64(buf.size)


@helper
def _is_empty_line(buf, at):
    """Whether the line is empty or only a comment from ``at``, its first byte that is not blank."""
    c = byte_at(buf, at)
    if c == HASH:
        return True
    if c == CR:
        c = byte_at(buf, at + 1)
    return c == LF


# -- numbers -----------------------------------------------------------------------------------------------------------


@helper
def _short_number(buf, at):
    """The decimal at ``at`` and its end, if it has at most eight digits before and after the point.

    Otherwise the second value is ``~at``, a negative number, where ``at`` is the last position read.
    """
    negative = byte_at(buf, at) == MINUS
    if negative:
        at += 1
    n, mantissa = digits(word_at(buf, at))
    at += n
    c = byte_at(buf, at)
    value = np.float64(mantissa)
    if c == DOT:
        m, fraction = digits(word_at(buf, at + 1))
        at += 1 + m
        n += m
        c = byte_at(buf, at)
        mantissa = mantissa * TENS[m] + fraction
        value = np.float64(mantissa) / POWERS[m]
    if n == 0 or mantissa > EXACT_MANTISSA or not _ends_token(c):
        return 0.0, ~at
    return (-value if negative else value), at


@helper
def _is_word(buf, at, a, b, c, d):
    """Whether the letters (given in lower case; d is 0 for three letters) are at ``at``, in any case."""
    return (
        (byte_at(buf, at) | 32) == a
        and (byte_at(buf, at + 1) | 32) == b
        and (byte_at(buf, at + 2) | 32) == c
        and (d == 0 or (byte_at(buf, at + 3) | 32) == d)
    )


@helper
def _number(buf, at):
    """Any decimal number, NULL or nan at ``at``: (status, value)."""
    negative = byte_at(buf, at) == MINUS
    signed = negative or byte_at(buf, at) == PLUS
    if signed:
        at += 1
    start = at
    mantissa, n_digits, power = np.uint64(0), 0, 0
    seen, cut_off, after_point = False, False, False
    while True:
        c = byte_at(buf, at)
        if ZERO <= c <= NINE:
            seen = True
            if n_digits < 19:
                mantissa = mantissa * np.uint64(10) + np.uint64(c - ZERO)
                n_digits += mantissa != 0
                power -= after_point
            else:
                cut_off |= c != ZERO
                power += not after_point
        elif c == DOT and not after_point:
            after_point = True
        else:
            break
        at += 1
    if not seen:
        if at == start and _is_word(buf, at, 110, 97, 110, 0) and _ends_token(byte_at(buf, at + 3)):
            return GOOD, np.nan
        if at == start and not signed and _is_word(buf, at, 110, 117, 108, 108) and _ends_token(byte_at(buf, at + 4)):
            return GOOD, np.nan
        return BAD, 0.0
    if c | 32 == 101:
        scale, at = exponent_at(buf, at + 1)
        if at < 0:
            return BAD, 0.0
        power += scale
    if not _ends_token(byte_at(buf, at)):
        return BAD, 0.0
    status, value = nearest_double(mantissa, power, cut_off)
    return status, (-value if negative else value)


@helper
def _index(buf, at):
    """The feature index at ``at`` and the start of its value, or -1 if there is no ``digits:``."""
    n, index = digits(word_at(buf, at))
    if n == 8:
        c = byte_at(buf, at + n)
        while ZERO <= c <= NINE:
            if index < 1 << 40:
                index = index * 10 + (c - ZERO)
            n += 1
            c = byte_at(buf, at + n)
    if n == 0 or byte_at(buf, at + n) != COLON:
        return index, np.int64(-1)
    return index, at + n + 1


# -- ids and comments --------------------------------------------------------------------------------------------------


@helper
def _document(buf, at, end):
    """Start and length of the document id in the comment ``buf[at:end]``."""
    at = _skip_blanks(buf, at)
    while end > at:
        c = byte_at(buf, end - 1)
        if c != SPACE and c != TAB and c != CR:
            break
        end -= 1
    if at >= end:
        return at, np.int64(0)
    if end - at > 6 and _is_word(buf, at, 100, 111, 99, 105) and (byte_at(buf, at + 4) | 32) == 100:
        mark = _skip_blanks(buf, at + 5)
        if mark < end and byte_at(buf, mark) == EQUALS:
            first = _skip_blanks(buf, mark + 1)
            last = first
            while last < end and byte_at(buf, last) != SPACE and byte_at(buf, last) != TAB:
                last += 1
            if last > first:
                return first, last - first
    return at, end - at


@helper
def _same(buf, a, a_size, b, b_size):
    if a_size != b_size:
        return False
    for i in range(a_size):  # noqa: SIM110 - all() over a generator does not compile
        if load1(buf, a + i) != load1(buf, b + i):
            return False
    return True


# -- entry points ------------------------------------------------------------------------------------------------------


@helper
def _last_index(buf, first, end):
    """The index of the last feature of ``buf[first:end]``, -1 if there is none."""
    at = end - 1
    while at > first and load1(buf, at) != COLON:
        at -= 1
    index, scale = np.int64(0), np.int64(1)
    at -= 1
    while at > first and ZERO <= load1(buf, at) <= NINE and scale < 10**11:
        index += (np.int64(load1(buf, at)) - ZERO) * scale
        scale *= 10
        at -= 1
    if at <= first or (load1(buf, at) != SPACE and load1(buf, at) != TAB):
        return np.int64(-1)
    return index


@kernel
def scan(buf, start, stop):
    """Rows, lines, values (at most) and the largest last index (-1 without features) of ``buf[start:stop]``.

    A row's values are counted by its colons: one belongs to the query id, and more may.
    """
    rows, lines, values, widest = 0, 0, 0, -1
    at = start
    while at < stop:
        lines += 1
        at = _skip_blanks(buf, at)
        if not _is_empty_line(buf, at):
            rows += 1
            first, colons = at, 0
            while at < buf.size:
                word = word_at(buf, at)
                ends = _bytes_equal(word, LINE_FEEDS) | _bytes_equal(word, HASHES)
                found = _bytes_equal(word, COLONS)
                if ends != 0:
                    found &= (ends & (~ends + ONE)) - ONE  # those before the first end
                    colons += np.int64(count_bits(found))
                    at += np.int64(trailing_zeros(ends) >> np.uint64(3))
                    break
                colons += np.int64(count_bits(found))
                at += 8
            if at > buf.size:
                at = np.int64(buf.size)
            if colons > 1:
                values += colons - 1
            last = _last_index(buf, first, at)
            if last > widest:
                widest = last
        at = _line_end(buf, at) + 1
    return rows, lines, values, widest


@kernel
def parse(buf, start, stop, n_features, limit, base, dense, with_query, y, out, columns, marks, later):
    """Fill the arrays of one chunk, the whole lines ``buf[start:stop]``. Arrays are this chunk's own slices.

    This handles only what almost every line needs. Numbers that are not short are left to ``read_numbers``, comments to
    ``find_documents``, features out of order to ``sort_rows`` or ``first_repeat``, query ids that are not ASCII to the
    driver: each is compiled when a file first needs it.

    Parameters
    ----------
    n_features, limit : indices from ``n_features`` on are not stored (dense), and from ``limit`` on are malformed
    base : the index of the first feature in the text, 0 or 1
    dense : 1 if values go to row · n_features + index
    with_query : 1 if the query id follows the grade; 0 if the features follow it
    y : (rows,) grades
    out, columns : values (rows · n_features, or as many as were counted) and, if sparse, their columns
    marks : (rows, 5) int64, see ``FLAGS`` and the others
    later : (rows + counted values, 2) int64, (cell of ``out`` or -1 - row for a grade, position) of numbers left

    Returns
    -------
    start of the first malformed line or -1, rows, values, numbers left, columns needed
    """
    row, slot, n_later, widest = 0, 0, 0, 0
    bad = np.int64(-1)
    at = start
    while at < stop and row < y.size:
        line = at
        at = _skip_blanks(buf, at)
        if not _is_empty_line(buf, at):
            first_slot = slot
            column, flags = np.int64(-1), 0
            cell = row * n_features
            while True:  # the grade, whose column is -1, then the features
                token = at
                value, at = _short_number(buf, token)
                target = -1 - row
                if column >= 0:
                    target = slot
                    if dense:
                        target = cell + column if column < n_features else out.size
                    elif slot < columns.size:
                        columns[slot] = column
                    if target < out.size:
                        out[target] = value
                    slot += 1
                if at < 0:
                    n, _ = digits(word_at(buf, ~at))  # most of what remains, in one step
                    at = _token_end(buf, ~at + n)
                    later[n_later, 0], later[n_later, 1] = target, token
                    n_later += 1
                if column < 0:
                    if value < 0.0:
                        bad = line
                        break
                    y[row] = value
                    token = at
                    if with_query:
                        at = _skip_blanks(buf, at)
                        if word_at(buf, at) & QID_BYTES != QID_WORD:
                            bad = line
                            break
                        token = at + 4
                        at = token
                        c = byte_at(buf, at)
                        while not _ends_token(c):
                            if c == 0 or c >= 128:
                                flags = ODD_QUERY
                            at += 1
                            c = byte_at(buf, at)
                        if at == token:
                            bad = line
                            break
                    marks[row, QUERY], marks[row, QUERY_SIZE] = token, at - token
                    if row == 0 or not _same(buf, marks[row - 1, QUERY], marks[row - 1, QUERY_SIZE], token, at - token):
                        flags |= NEW_QUERY
                previous = column
                following = previous + 1 + base
                if (
                    following < EXPECTED_INDICES
                    and word_at(buf, at) & PREFIX_MASKS[following] == PREFIXES[following]
                    and previous + 1 < limit
                ):
                    column = previous + 1
                    at += PREFIX_SIZES[following]
                else:
                    at = _skip_blanks(buf, at)
                    c = byte_at(buf, at)
                    if c == LF or c == HASH or c == CR:  # noqa: SIM109 - compiles faster
                        break
                    column, at = _index(buf, at)
                    column -= base
                    if at < 0 or column < 0 or column >= limit:
                        bad = line
                        break
                    if column <= previous:
                        flags |= OUT_OF_ORDER
                if column >= widest:
                    widest = column + 1
            if bad < 0 and c == CR and byte_at(buf, at + 1) != LF:
                bad = line
            if bad >= 0:
                break
            marks[row, FLAGS], marks[row, VALUES] = flags, slot - first_slot
            marks[row, COMMENT] = at + 1 if c == HASH else np.int64(0)
            row += 1
        at = _line_end(buf, at) + 1
    return bad, row, slot, n_later, widest


# -- entry points for what few files need ------------------------------------------------------------------------------


@kernel
def read_numbers(buf, later, y, out):
    """Read and store the numbers that ``parse`` left, in any form.

    Those whose last bit only Python's ``float`` can determine are moved to the front of ``later``.

    Returns
    -------
    position of the first malformed number or -1, how many were moved to the front
    """
    n_hard = 0
    for i in range(later.shape[0]):
        cell, at = later[i, 0], later[i, 1]
        status, value = _number(buf, at)
        if status == HARD:
            later[n_hard, 0], later[n_hard, 1] = cell, at
            n_hard += 1
        elif status == BAD or value == np.inf or value == -np.inf:
            return at, n_hard
        elif cell < 0:
            if not value >= 0.0:
                return at, n_hard
            y[-1 - cell] = value
        elif cell < out.size:
            out[cell] = value
            if value == value and np.isinf(out[cell]):  # in single precision
                return at, n_hard
    return np.int64(-1), n_hard


@kernel
def sort_rows(columns, out, marks):
    """Sort sparse rows that are out of order by column (Shell sort). The first row with a column twice, or -1."""
    stop = np.int64(0)
    for row in range(marks.shape[0]):
        start = stop
        stop += marks[row, VALUES]
        if marks[row, FLAGS] & OUT_OF_ORDER == 0:
            continue
        gap = 1
        while gap < (stop - start) // 3:
            gap = 3 * gap + 1
        while gap > 0:
            for i in range(start + gap, stop):
                column, value = columns[i], out[i]
                j = i
                while j >= start + gap and columns[j - gap] > column:
                    columns[j], out[j] = columns[j - gap], out[j - gap]
                    j -= gap
                columns[j], out[j] = column, value
            gap //= 3
        for i in range(start + 1, stop):
            if columns[i] == columns[i - 1]:
                return row
    return -1


@kernel
def first_repeat(buf, marks, stamps):
    """The first row that is out of order and names a feature twice, or -1. The rows are well-formed.

    ``stamps`` is (n_features + 1,) int64, all -1: indices start at 0 or 1.
    """
    for row in range(marks.shape[0]):
        if marks[row, FLAGS] & OUT_OF_ORDER == 0:
            continue
        at = marks[row, QUERY] + marks[row, QUERY_SIZE]
        while True:
            at = _skip_blanks(buf, at)
            if _ends_token(byte_at(buf, at)):
                break
            index, at = _index(buf, at)
            if index < stamps.size:
                if stamps[index] == row:
                    return row
                stamps[index] = row
            at = _token_end(buf, at)
    return -1


@kernel
def find_documents(buf, marks, starts, sizes):
    """Find the document ids in the comments. True if all of them are ASCII without NUL."""
    plain = True
    for row in range(marks.shape[0]):
        at = marks[row, COMMENT]
        if at > 0:
            starts[row], sizes[row] = _document(buf, at, _line_end(buf, at))
            for i in range(starts[row], starts[row] + sizes[row]):
                c = load1(buf, i)
                if c == 0 or c >= 128:
                    plain = False
    return plain


@kernel
def gather(buf, at, size, out):
    """Copy the tokens at ``at`` into the rows of ``out``, (n, width) uint8, initially zero. True if all are ASCII."""
    seen = np.uint8(0)
    for i in range(at.size):
        for j in range(size[i]):
            c = load1(buf, at[i] + j)
            out[i, j] = c
            seen |= c
    return seen < 128
