"""Compiled loops over thresholds and critical pairs: RankBoost's and FRank's. Loaded on use."""

# mypy: ignore-errors

from __future__ import annotations

import math

import numpy as np

from gainful.compiled import LOOSE, helper, kernel

REACH = 300.0  # scores further than this from the middle of their query count as this far: exp stays finite


@kernel
def best_thresholds(codes, n_cuts, potentials, first, last, both, sums, places):
    """For the features ``first:last`` the best Σ_i p_i [code_i > t] over t, and that t."""
    most = 0
    for j in range(first, last):
        most = max(most, n_cuts[j])
    histogram = np.empty(most + 1)
    for j in range(first, last):
        for t in range(n_cuts[j] + 1):
            histogram[t] = 0.0
        row = codes[j]
        for i in range(len(potentials)):
            histogram[row[i]] += potentials[i]
        total, best, place = 0.0, 0.0, 0
        for t in range(n_cuts[j] - 1, -1, -1):
            total += histogram[t + 1]
            if (abs(total) > abs(best)) if both else (total > best):
                best, place = total, t
        sums[j], places[j] = best, place


@helper
def _exponentials(scores, order, lo, hi, plus):
    """plus[p] = exp(s − middle of the query's scores) at position p."""
    low, high = scores[order[lo]], scores[order[lo]]
    for p in range(lo, hi):
        low, high = min(low, scores[order[p]]), max(high, scores[order[p]])
    middle = low + (high - low) / 2
    for p in range(lo, hi):
        plus[p - lo] = math.exp(min(REACH, max(-REACH, scores[order[p]] - middle)))


@helper
def _longest(offsets, first, last):
    longest = 1
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest


@kernel
def exponential_potentials(scores, order, below, offsets, shares, first, last, potentials):
    """Σ over pairs of share·exp(s_worse − s_better), and each row's potential: its part as the better document minus
    its part as the worse one. exp factorises, so two running sums over the grades do for all pairs."""
    loss = 0.0
    longest = _longest(offsets, first, last)
    plus, sums = np.empty(longest), np.empty(longest + 1)
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        n = hi - lo
        if shares[q] == 0.0 or below[hi - 1] == 0:
            for p in range(lo, hi):
                potentials[order[p]] = 0.0
            continue
        _exponentials(scores, order, lo, hi, plus)
        sums[0] = 0.0
        for p in range(n):
            sums[p + 1] = sums[p] + plus[p]
        for p in range(n):
            part = shares[q] * sums[below[lo + p]] / plus[p]
            potentials[order[lo + p]] = part
            loss += part
        # From the highest grade down: the sum of exp(−s) over the strictly better ones.
        higher, waiting = 0.0, 0.0
        for p in range(n - 1, -1, -1):
            if p < n - 1 and below[lo + p] != below[lo + p + 1]:
                higher += waiting
                waiting = 0.0
            potentials[order[lo + p]] -= shares[q] * plus[p] * higher
            waiting += 1.0 / plus[p]
    return loss


@helper(fastmath=LOOSE)
def _fidelity_of(i, start, plus, right, wrong, forces):
    """The pairs of the document at position i with the ``start`` ones of lower grade: loss, and the force on i."""
    a, loss, force = plus[i], 0.0, 0.0
    for j in range(start):
        inverse = 1.0 / (a + plus[j])
        P, Q = a * inverse, plus[j] * inverse
        root_P, root_Q = math.sqrt(P), math.sqrt(Q)
        pull = right * Q * root_P - wrong * P * root_Q
        loss += right * root_P + wrong * root_Q
        force += pull
        forces[j] -= pull
    return start - loss, force


@kernel
def fidelity_potentials(scores, order, below, offsets, shares, first, last, right, wrong, potentials):
    """Σ over pairs of share·(1 − right √P − wrong √(1 − P)), and −2 its derivative by each score."""
    loss = 0.0
    longest = _longest(offsets, first, last)
    plus, forces = np.empty(longest), np.empty(longest)
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        if shares[q] == 0.0 or below[hi - 1] == 0:
            for p in range(lo, hi):
                potentials[order[p]] = 0.0
            continue
        _exponentials(scores, order, lo, hi, plus)
        for i in range(hi - lo):
            forces[i] = 0.0
        mine = 0.0
        for i in range(hi - lo):
            if below[lo + i] > 0:
                value, force = _fidelity_of(i, below[lo + i], plus, right, wrong, forces)
                mine += value
                forces[i] += force
        loss += shares[q] * mine
        for p in range(lo, hi):
            potentials[order[p]] = shares[q] * forces[p - lo]
    return loss


@helper(fastmath=LOOSE)
def _sides_of(i, start, plus, right, wrong, other):
    """Σ over j of other_j times both terms of the derivative."""
    a, first, second = plus[i], 0.0, 0.0
    for j in range(start):
        inverse = 1.0 / (a + plus[j])
        P, Q = a * inverse, plus[j] * inverse
        first += other[j] * Q * math.sqrt(P)
        second += other[j] * P * math.sqrt(Q)
    return right * first, wrong * second


@kernel
def fidelity_sides(scores, order, below, offsets, shares, first, last, right, wrong, above):
    """(W₊, W₋) of a binary weak ranker: how much the pairs it tells apart ask for a larger and a smaller weight."""
    more, less = 0.0, 0.0
    longest = _longest(offsets, first, last)
    plus, other = np.empty(longest), np.empty((2, longest))
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        if shares[q] == 0.0 or below[hi - 1] == 0:
            continue
        _exponentials(scores, order, lo, hi, plus)
        n_above = 0
        for p in range(lo, hi):
            h = 1 if above[order[p]] else 0
            other[0, p - lo], other[1, p - lo] = h, 1 - h
            n_above += h
        if n_above == 0 or n_above == hi - lo:
            continue
        for i in range(hi - lo):
            if below[lo + i] > 0:
                h = 1 if above[order[lo + i]] else 0
                a, b = _sides_of(i, below[lo + i], plus, right, wrong, other[h])
                if h == 1:
                    more += shares[q] * a
                    less += shares[q] * b
                else:
                    more += shares[q] * b
                    less += shares[q] * a
    return more, less
