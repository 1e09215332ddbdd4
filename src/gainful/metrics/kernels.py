"""Compiled loops over queries. Loaded on the first evaluation, because it imports the compiler.

Conventions
-----------
``scores`` and ``y`` are float64 of n_rows, ``offsets`` int64 of n_queries + 1; all contiguous and read-only, so every
entry point has one signature. An entry point fills ``out[first:last]``, one value per query, and NaN for a query
without a relevant document; :func:`over_queries` gives each thread a run of queries.

Ranking is a separate stage that all metrics share: ``rank_top`` down to rank INSERTION_DEPTH, by insertion
into a short list, ``rank_all`` for deeper ones, by sorting. ``order[at + r]``, where at = offsets[q] − offsets[first],
is the row at rank r, from 0. ``counts[q − first]`` ranks are filled: more than asked for if a block of equal
scores reaches past the last, because blocks stay whole.

Ties. Every metric is written over *blocks* of consecutive ranks whose documents may stand in any order: runs of equal
scores when ties are averaged, single documents otherwise. The formulas for a block of one document are the textbook
ones; for a longer block they are the expectations of McSherry and Najork, "Computing information retrieval performance
measures efficiently in the presence of tied scores", ECIR 2008.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gainful.compute.compiled import helper, kernel
from gainful.compute.kernels import sort_falling
from gainful.compute.query_loop import run_in_threads, threads_for
from gainful.data.rows import read_only

AVERAGE, INPUT, WORST = 0, 1, 2  # ties
BY_MIN, BY_ALL = 0, 1  # what average precision is divided by

INSERTION_DEPTH = 32  # up to this many ranks, insertion into a short list beats a full sort
ROWS_PER_THREAD = 20_000  # fewer rows than this are not worth a thread
LARGEST_EXPONENT = 1000.0  # grades above it are shifted down in NDCG, where only ratios of gains matter
NEGLIGIBLE = 1e-18
LN2 = math.log(2.0)


def over_queries(
    metric: Any, scores: Any, y: Any, offsets: Any, depth: int, ties: int, *rest: Any, listed: Any = None
) -> Any:
    """One value per query, by the kernel ``metric``; each thread takes a run of queries.

    With ``listed``, only that many rows of each query, those with the highest scores, have a rank.
    """
    n_queries, n_rows = len(offsets) - 1, len(y)
    out = np.empty(n_queries)
    if ties == WORST:  # the stable ranking leaves equal scores in the order of the rows
        worst_first = np.lexsort((y, np.repeat(np.arange(n_queries), np.diff(offsets))))
        scores, y = scores[worst_first], y[worst_first]
    scores, y = (read_only(np.ascontiguousarray(values, dtype=np.float64)) for values in (scores, y))
    offsets = read_only(np.ascontiguousarray(offsets, dtype=np.int64))

    def measure(first: int, last: int) -> None:
        if first == last:
            return
        counts = np.diff(offsets[first : last + 1])
        order = np.empty(offsets[last] - offsets[first], np.int64)
        if depth <= INSERTION_DEPTH:
            rank_top(scores, offsets, first, last, depth, ties, order, counts, np.empty(INSERTION_DEPTH))
        else:
            rank_all(scores, offsets, first, last, order, np.empty(counts.max(), np.int64))
        if listed is not None:
            np.minimum(counts, listed[first:last], out=counts)
        metric(scores, y, offsets, first, last, depth, ties, order, counts, *rest, out)

    run_in_threads(offsets, threads_for(n_rows, per_thread=ROWS_PER_THREAD), measure)
    return out


def shifted_gains(y: Any, offsets: Any) -> Any:
    """2^grade − 1, divided by a power of two for each query whose gains would leave the range of numbers."""
    counts = np.diff(offsets)
    highest = np.zeros(len(counts))
    highest[counts > 0] = np.maximum.reduceat(y, offsets[:-1][counts > 0])
    shift = np.repeat(np.maximum(0.0, highest - LARGEST_EXPONENT), counts)
    return np.exp2(y - shift) - np.exp2(-shift)


# -- ranking -----------------------------------------------------------------------------------------------------------


@kernel
def rank_top(scores, offsets, first, last, depth, ties, order, counts, top):
    """The best ``depth`` rows of each query, best first, ties in row order; ``top`` is room for their scores."""
    base = offsets[first]
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        at, m = lo - base, depth if depth < hi - lo else hi - lo
        lowest = -math.inf
        for i in range(lo, hi):
            s, j = scores[i], i - lo
            if j >= m and s <= lowest:
                continue
            j = j if j < m else m - 1
            while j > 0 and s > top[j - 1]:
                top[j] = top[j - 1]
                order[at + j] = order[at + j - 1]
                j -= 1
            top[j] = s
            order[at + j] = i
            lowest = top[m - 1]
        if ties == AVERAGE and m < hi - lo:
            for i in range(order[at + m - 1] + 1, hi):  # equal scores enter in row order, so those left out come after
                if scores[i] == lowest:
                    order[at + m] = i
                    m += 1
        counts[q - first] = m


@kernel
def rank_all(scores, offsets, first, last, order, spare):
    """All rows of each query, best first, ties in row order; ``spare`` has room for the longest query."""
    base = offsets[first]
    for q in range(first, last):
        lo, n = offsets[q], offsets[q + 1] - offsets[q]
        for i in range(lo, lo + n):
            order[i - base] = i
        sort_falling(scores, 0, order, lo - base, n, spare)


@helper
def _none_positive(y, lo, hi):
    while lo < hi and y[lo] <= 0.0:
        lo += 1
    return lo == hi


@helper
def _block_end(scores, order, a, end, ties):
    """Where the block that starts at position ``a`` ends: documents ``order[a:b]`` may stand in any order."""
    b = a + 1
    if ties == AVERAGE:
        s = scores[order[a]]
        while b < end and scores[order[b]] == s:
            b += 1
    return b


@helper
def _total(y, order, a, b):
    total = 0.0
    for i in range(a, b):
        total += y[order[i]]
    return total


# -- sums of discounted gains: NDCG, DCG, P@k, WTA, RBP ----------------------------------------------------------------


@kernel
def discounted_gain(scores, y, offsets, first, last, depth, ties, order, counts, discounts, exp2, out):
    """Σ_r discounts[r] gain(document at rank r), where the gain is 2^grade − 1 or the grade itself.

    Written without helpers and in one loop over ranks, which closes a block where it ends: nearly every first use of
    the library waits for it to be compiled.
    """
    base = offsets[first]
    for q in range(first, last):
        i, hi = offsets[q], offsets[q + 1]
        at = i - base
        while i < hi and y[i] <= 0.0:
            i += 1
        value = 0.0 if i < hi else math.nan
        end = at + counts[q - first] if i < hi else at
        gain, weight = 0.0, 0.0
        begin, stop = at, at + depth
        for place in range(at, end):
            x = y[order[place]]
            if exp2:
                if x < 53.0 and np.int64(x) == x:
                    x = np.float64((1 << np.int64(x)) - 1)
                elif x > 1.0:
                    x = 2.0**x - 1.0
                else:
                    x = math.expm1(x * LN2)
            gain += x
            if place < stop:
                weight += discounts[place - at]
            after = place + 1
            if ties != AVERAGE or after == end or scores[order[after]] != scores[order[place]]:
                value += gain / (after - begin) * weight
                gain, weight, begin = 0.0, 0.0, after
                if after >= stop:
                    break
        out[q] = value


# -- average precision -------------------------------------------------------------------------------------------------


@helper
def block_precisions(a, t, upto, hits, before):
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


@kernel
def average_precision(scores, y, offsets, first, last, depth, ties, order, counts, k, divisor, out):
    """Σ of the precisions at the relevant documents of the first ranks, divided as ``divisor`` says; y is 0 or 1."""
    base = offsets[first]
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        relevant = 0.0
        for i in range(lo, hi):
            relevant += y[i]
        if relevant == 0.0:
            out[q] = np.nan
            continue
        at, m = lo - base, counts[q - first]
        value, before, a = 0.0, 0.0, 0
        while a < m and a < depth:
            b = _block_end(scores, order, at + a, at + m, ties) - at
            hits = _total(y, order, at + a, at + b)
            value += block_precisions(a, b - a, (b if b < depth else depth) - a, hits, before)
            before += hits
            a = b
        out[q] = value / (k if divisor == BY_MIN and k < relevant else relevant)


# -- reciprocal rank ---------------------------------------------------------------------------------------------------


@kernel
def reciprocal_rank(scores, y, offsets, first, last, depth, ties, order, counts, out):
    """1 / rank of the first relevant document, 0 when that is below rank ``depth``; y is 0 or 1."""
    base = offsets[first]
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        if _none_positive(y, lo, hi):
            out[q] = np.nan
            continue
        at, m = lo - base, counts[q - first]
        value, a = 0.0, 0
        while a < m and a < depth:
            b = _block_end(scores, order, at + a, at + m, ties) - at
            hits = _total(y, order, at + a, at + b)
            if hits > 0.0:
                t = b - a
                chance = hits / t  # that the first relevant document of the block is its j-th
                for j in range(1, (b if b < depth else depth) - a + 1):
                    value += chance / (a + j)
                    if chance < NEGLIGIBLE or t - j < hits:
                        break
                    chance *= (t - j - hits + 1.0) / (t - j)
                break
            a = b
        out[q] = value


# -- expected reciprocal rank ------------------------------------------------------------------------------------------


@helper
def _mean_products(y, order, a, b, upto, means):
    """means[j] = the mean, over all sets of j documents of the block, of Π (1 − y): the chance to read on past j.

    Adding the n-th document: means[j] ← (n − j)/n means[j] + j/n (1 − y_n) means[j − 1].
    """
    means[0] = 1.0
    for j in range(1, upto + 1):
        means[j] = 0.0
    for n in range(1, b - a + 1):
        x = 1.0 - y[order[a + n - 1]]
        for j in range(n if n < upto else upto, 0, -1):
            means[j] = ((n - j) * means[j] + j * x * means[j - 1]) / n


@kernel
def expected_reciprocal_rank(scores, y, offsets, first, last, depth, ties, order, counts, out):
    """Σ_r 1/r P(the reader stops at rank r); y holds the probability of each document to stop the reader."""
    base = offsets[first]
    means = np.empty(depth + 1)
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        if _none_positive(y, lo, hi):
            out[q] = np.nan
            continue
        at, m = lo - base, counts[q - first]
        value, reading, a = 0.0, 1.0, 0
        while a < m and a < depth and reading > NEGLIGIBLE:
            b = _block_end(scores, order, at + a, at + m, ties) - at
            if b == a + 1:
                value += reading * y[order[at + a]] / (a + 1)
                reading *= 1.0 - y[order[at + a]]
            else:
                upto = _readers(_total(y, order, at + a, at + b) / (b - a), (b if b < depth else depth) - a)
                _mean_products(y, order, at + a, at + b, upto, means)
                for j in range(1, upto + 1):
                    value += reading * (means[j - 1] - means[j]) / (a + j)
                reading *= means[upto]
            a = b
        out[q] = value


@helper
def _readers(stop, upto):
    """After how many of ``upto`` tied documents, which stop the reader with mean probability ``stop``, nobody reads on.

    By Maclaurin's inequality means[j] ≤ means[1]^j.
    """
    if stop >= 1.0:
        return 1
    enough = math.log(NEGLIGIBLE) / math.log1p(-stop) if stop > 0.0 else float(upto)
    return int(enough) + 1 if enough < upto else upto


# -- pairs -------------------------------------------------------------------------------------------------------------


def count_right_pairs(scores: Any, grades: Any, offsets: Any, query: Any) -> tuple[Any, Any]:
    """The pairs of different grade of each query in the right order, equal scores counting half; and all its pairs."""
    n_queries = len(offsets) - 1
    right, pairs = np.zeros(n_queries), np.zeros(n_queries)
    rising = np.lexsort((scores, query))
    by_grade = np.lexsort((grades, query))
    new = np.ones(len(grades), dtype=bool)
    new[1:] = (np.diff(grades[by_grade]) != 0.0) | (np.diff(query) != 0)
    level = np.empty(len(grades), dtype=np.int64)
    count = np.cumsum(new)
    level[by_grade] = count - np.concatenate([[0], count])[offsets[:-1]][query]  # from 1 in each query
    longest = int(np.diff(offsets).max(initial=0))
    ends = read_only(np.ascontiguousarray(offsets, dtype=np.int64))
    right_pairs(scores[rising], level[rising], ends, np.zeros(longest + 1), right, pairs)
    return right, pairs


@kernel
def right_pairs(t, level, offsets, tree, right, pairs):
    """For each query, whose documents come by rising score, sums over its documents of those of lower level below it.

    ``tree`` counts documents by level (a Fenwick tree): before those of the same score are added, and after.
    """
    for q in range(len(offsets) - 1):
        lo, hi = offsets[q], offsets[q + 1]
        n = hi - lo
        for node in range(n + 1):
            tree[node] = 0.0
        total, a = 0.0, lo
        while a < hi:
            b = a + 1
            while b < hi and t[b] == t[a]:
                b += 1
            for i in range(a, b):
                total += _fewer(tree, level[i] - 1)
            for i in range(a, b):
                node = level[i]
                while node <= n:
                    tree[node] += 1.0
                    node += node & -node
            for i in range(a, b):
                total += _fewer(tree, level[i] - 1)
            a = b
        right[q], total = 0.5 * total, 0.0
        for i in range(lo, hi):
            total += _fewer(tree, level[i] - 1)
        pairs[q] = total


@helper
def _fewer(tree, node):
    """The number of documents of level 1 to ``node``."""
    found = 0.0
    while node > 0:
        found += tree[node]
        node -= node & -node
    return found
