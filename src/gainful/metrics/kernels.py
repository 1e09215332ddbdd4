"""Compiled loops over queries. Loaded on the first evaluation, because it imports the compiler.

Conventions
-----------
``scores`` and ``y`` are float64 of n_rows, ``offsets`` int64 of n_queries + 1; all contiguous and read-only, so every
entry point has one signature. An entry point fills ``out[first:last]``, one value per query, and NaN for a query
without a relevant document; :func:`over_queries` cuts the queries into one piece per thread.

Ties. Every metric is written over *blocks* of consecutive ranks whose documents may stand in any order: runs of equal
scores when ties are averaged, single documents otherwise. The formulas for a block of one document are the textbook
ones; for a longer block they are the expectations of McSherry and Najork, "Computing information retrieval performance
measures efficiently in the presence of tied scores", ECIR 2008.

The compiler's cache looks at this file only, so every helper of an entry point lives here.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit

from gainful.threads import thread_count

AVERAGE, INPUT, WORST = 0, 1, 2  # ties
BY_MIN, BY_ALL = 0, 1  # what average precision is divided by

INSERTION_DEPTH = 32  # up to this many ranks, insertion into a short list beats a full sort
ROWS_PER_THREAD = 20_000  # fewer rows than this are not worth a thread
LARGEST_EXPONENT = 1000.0  # grades above it are shifted down in NDCG, where only ratios of gains matter
NEGLIGIBLE = 1e-18
LN2 = math.log(2.0)


def over_queries(kernel: Any, scores: Any, y: Any, offsets: Any, *rest: Any) -> Any:
    """Run ``kernel`` over all queries, in pieces of about equally many rows, one piece per thread."""
    n_queries, n_rows = len(offsets) - 1, len(y)
    out = np.empty(n_queries)
    scores, y, offsets = _locked(scores, np.float64), _locked(y, np.float64), _locked(offsets, np.int64)
    n_pieces = max(1, min(thread_count(), n_rows // ROWS_PER_THREAD))
    cuts = np.searchsorted(offsets, np.linspace(0, n_rows, n_pieces + 1)).tolist()
    cuts[0], cuts[-1] = 0, n_queries
    pieces = [(scores, y, offsets, a, b, *rest, out) for a, b in pairwise(cuts)]
    if n_pieces == 1:
        kernel(*pieces[0])
        return out
    with ThreadPoolExecutor(n_pieces - 1) as pool:
        waiting = [pool.submit(kernel, *piece) for piece in pieces[1:]]
        kernel(*pieces[0])
        for future in waiting:
            future.result()
    return out


def _locked(array: Any, dtype: Any) -> Any:
    """A contiguous, read-only view: the compiler takes writable and read-only arrays for different types."""
    view = np.ascontiguousarray(array, dtype=dtype).view()
    view.flags.writeable = False
    return view


# -- ranking one query -------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _longest(offsets, first, last):
    longest = 1
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest


@njit(cache=True, nogil=True)
def _none_positive(y, lo, hi):
    while lo < hi and y[lo] <= 0.0:
        lo += 1
    return lo == hi


@njit(cache=True, nogil=True)
def _rank(scores, y, lo, hi, depth, ties, order, spare, top):
    """Put the rows of the first ``depth`` ranks into ``order``, best first; how many rows stand there.

    More than ``depth`` when ties are averaged and a block of equal scores reaches past it: the whole block is given.
    """
    if depth <= INSERTION_DEPTH:
        return _rank_by_insertion(scores, y, lo, hi, depth, ties, order, top)
    _rank_by_merging(scores, y, lo, hi, ties, order, spare)
    n = hi - lo
    m = min(depth, n)
    if ties == AVERAGE:
        while m < n and scores[order[m]] == scores[order[m - 1]]:
            m += 1
    return m


@njit(cache=True, nogil=True)
def _insert(y, i, s, j, ties, order, top):
    """Move row ``i`` with score ``s`` up from position ``j`` to where it belongs."""
    while j > 0 and (s > top[j - 1] or (ties == WORST and s == top[j - 1] and y[i] < y[order[j - 1]])):
        top[j] = top[j - 1]
        order[j] = order[j - 1]
        j -= 1
    top[j] = s
    order[j] = i


@njit(cache=True, nogil=True)
def _rank_by_insertion(scores, y, lo, hi, depth, ties, order, top):
    m = min(depth, hi - lo)
    for j in range(m):
        _insert(y, lo + j, scores[lo + j], j, ties, order, top)
    last = top[m - 1]
    for i in range(lo + m, hi):
        s = scores[i]
        if s > last or (ties == WORST and s == last and y[i] < y[order[m - 1]]):
            _insert(y, i, s, m - 1, ties, order, top)
            last = top[m - 1]
    if ties == AVERAGE and m < hi - lo:
        for i in range(order[m - 1] + 1, hi):  # equal scores enter in row order, so those left out come after
            if scores[i] == last:
                order[m] = i
                m += 1
    return m


@njit(cache=True, nogil=True)
def _rank_by_merging(scores, y, lo, hi, ties, order, spare):
    """Stable merge sort of the rows ``lo:hi`` into ``order``: insertion in runs of 16, then merging."""
    n = hi - lo
    run = 16
    for start in range(0, n, run):
        stop = min(start + run, n)
        for j in range(start, stop):
            i = lo + j
            s = scores[i]
            while j > start:
                other = order[j - 1]
                if not (s > scores[other] or (ties == WORST and s == scores[other] and y[i] < y[other])):
                    break
                order[j] = other
                j -= 1
            order[j] = i
    while run < n:
        for start in range(0, n, 2 * run):
            middle, stop = min(start + run, n), min(start + 2 * run, n)
            spare[start:middle] = order[start:middle]
            a, b, to = start, middle, start
            while a < middle and b < stop:
                left, right = spare[a], order[b]
                s = scores[right]
                if s > scores[left] or (ties == WORST and s == scores[left] and y[right] < y[left]):
                    order[to] = right
                    b += 1
                else:
                    order[to] = left
                    a += 1
                to += 1
            while a < middle:
                order[to] = spare[a]
                a += 1
                to += 1
        run *= 2


@njit(cache=True, nogil=True)
def _block_end(scores, order, a, m, ties):
    """Where the block that starts at position ``a`` ends: documents ``order[a:b]`` may stand in any order."""
    b = a + 1
    if ties == AVERAGE:
        s = scores[order[a]]
        while b < m and scores[order[b]] == s:
            b += 1
    return b


@njit(cache=True, nogil=True)
def _total(y, order, a, b):
    total = 0.0
    for i in range(a, b):
        total += y[order[i]]
    return total


# -- sums of discounted gains: NDCG, DCG, P@k, WTA, RBP ----------------------------------------------------------------


@njit(cache=True, nogil=True)
def _gain(grade, exp2, shift):
    """2^grade − 1 or the grade itself, divided by 2^shift."""
    if not exp2:
        return grade
    if shift > 0.0:
        return 2.0 ** (grade - shift) - 2.0**-shift
    whole = int(grade) if grade < 53.0 else -1
    if whole == grade:
        return float((1 << whole) - 1)
    return 2.0**grade - 1.0 if grade > 1.0 else math.expm1(grade * LN2)


@njit(cache=True, nogil=True)
def discounted_gain(scores, y, offsets, first, last, discounts, ties, exp2, normalise, out):
    """Σ_r discounts[r] gain(document at rank r), over that of the best order where ``normalise``."""
    longest = _longest(offsets, first, last)
    order, spare = np.empty(longest, np.int64), np.empty(longest, np.int64)
    top = np.empty(INSERTION_DEPTH)
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        depth = min(len(discounts), hi - lo)
        if _none_positive(y, lo, hi):
            out[q] = np.nan
            continue
        best, shift = 1.0, 0.0
        if normalise:
            _rank(y, y, lo, hi, depth, INPUT, order, spare, top)
            if exp2:
                shift = max(0.0, y[order[0]] - LARGEST_EXPONENT)
            best = 0.0
            for r in range(depth):
                best += _gain(y[order[r]], exp2, shift) * discounts[r]
        value, a = 0.0, 0
        m = _rank(scores, y, lo, hi, depth, ties, order, spare, top)
        while a < depth:
            b = _block_end(scores, order, a, m, ties)
            gain, weight = 0.0, 0.0
            for i in range(a, b):
                gain += _gain(y[order[i]], exp2, shift)
            for r in range(a, min(b, depth)):
                weight += discounts[r]
            value += gain * weight if b == a + 1 else gain / (b - a) * weight
            a = b
        if normalise:
            value = min(1.0, value / best) if best > 0.0 else np.nan
        out[q] = value


# -- average precision -------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _block_precisions(a, t, upto, hits, before):
    """Expected Σ of precisions at the relevant documents among the first ``upto`` ranks of a block.

    The block follows ``a`` ranks with ``before`` relevant documents, and holds ``t`` documents, ``hits`` of them
    relevant: rank a + j is relevant with probability hits/t, and then 1 + (j − 1)(hits − 1)/(t − 1) of the block's
    relevant documents are expected down to it.
    """
    if hits == 0.0:
        return 0.0
    spread = (hits - 1.0) / (t - 1.0) if t > 1 else 0.0
    total = 0.0
    for j in range(1, upto + 1):
        total += (before + 1.0 + (j - 1) * spread) / (a + j)
    return total * hits / t


@njit(cache=True, nogil=True)
def average_precision(scores, y, offsets, first, last, k, ties, divisor, out):
    """Σ of the precisions at the relevant documents of the first k ranks, divided as ``divisor`` says; y is 0 or 1."""
    longest = _longest(offsets, first, last)
    order, spare = np.empty(longest, np.int64), np.empty(longest, np.int64)
    top = np.empty(INSERTION_DEPTH)
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        depth = min(k, hi - lo)
        relevant = 0.0
        for i in range(lo, hi):
            relevant += y[i]
        if relevant == 0.0:
            out[q] = np.nan
            continue
        m = _rank(scores, y, lo, hi, depth, ties, order, spare, top)
        value, before, a = 0.0, 0.0, 0
        while a < depth:
            b = _block_end(scores, order, a, m, ties)
            hits = _total(y, order, a, b)
            value += _block_precisions(a, b - a, min(b, depth) - a, hits, before)
            before += hits
            a = b
        out[q] = value / (min(relevant, float(k)) if divisor == BY_MIN else relevant)


# -- reciprocal rank ---------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def reciprocal_rank(scores, y, offsets, first, last, k, ties, out):
    """1 / rank of the first relevant document, 0 when that is below rank k; y is 0 or 1."""
    longest = _longest(offsets, first, last)
    order, spare = np.empty(longest, np.int64), np.empty(longest, np.int64)
    top = np.empty(INSERTION_DEPTH)
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        depth = min(k, hi - lo)
        if _none_positive(y, lo, hi):
            out[q] = np.nan
            continue
        m = _rank(scores, y, lo, hi, depth, ties, order, spare, top)
        value, a = 0.0, 0
        while a < depth:
            b = _block_end(scores, order, a, m, ties)
            hits = _total(y, order, a, b)
            if hits > 0.0:
                t = b - a
                chance = hits / t  # that the first relevant document of the block is its j-th
                for j in range(1, min(b, depth) - a + 1):
                    value += chance / (a + j)
                    if chance < NEGLIGIBLE or t - j < hits:
                        break
                    chance *= (t - j - hits + 1.0) / (t - j)
                break
            a = b
        out[q] = value


# -- expected reciprocal rank ------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _mean_products(y, order, a, b, upto, means):
    """means[j] = the mean, over all sets of j documents of the block, of Π (1 − y): the chance to read on past j.

    Adding the n-th document: means[j] ← (n − j)/n means[j] + j/n (1 − y_n) means[j − 1].
    """
    means[0] = 1.0
    means[1 : upto + 1] = 0.0
    for n in range(1, b - a + 1):
        x = 1.0 - y[order[a + n - 1]]
        for j in range(min(n, upto), 0, -1):
            means[j] = ((n - j) * means[j] + j * x * means[j - 1]) / n


@njit(cache=True, nogil=True)
def expected_reciprocal_rank(scores, y, offsets, first, last, k, ties, out):
    """Σ_r 1/r P(the reader stops at rank r); y holds the probability of each document to stop the reader."""
    longest = _longest(offsets, first, last)
    order, spare = np.empty(longest, np.int64), np.empty(longest, np.int64)
    top, means = np.empty(INSERTION_DEPTH), np.empty(longest + 1)
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        depth = min(k, hi - lo)
        if _none_positive(y, lo, hi):
            out[q] = np.nan
            continue
        m = _rank(scores, y, lo, hi, depth, ties, order, spare, top)
        value, reading, a = 0.0, 1.0, 0
        while a < depth and reading > NEGLIGIBLE:
            b = _block_end(scores, order, a, m, ties)
            upto = min(b, depth) - a
            if b == a + 1:
                value += reading * y[order[a]] / (a + 1)
                reading *= 1.0 - y[order[a]]
            else:
                # By Maclaurin's inequality means[j] ≤ means[1]^j: past ``upto`` nobody is left reading.
                stop = _total(y, order, a, b) / (b - a)
                if stop >= 1.0:
                    upto = 1
                elif np.log(NEGLIGIBLE) > upto * np.log1p(-stop):
                    upto = int(np.log(NEGLIGIBLE) / np.log1p(-stop)) + 1
                _mean_products(y, order, a, b, upto, means)
                for j in range(1, upto + 1):
                    value += reading * (means[j - 1] - means[j]) / (a + j)
                reading *= means[upto]
            a = b
        out[q] = value
