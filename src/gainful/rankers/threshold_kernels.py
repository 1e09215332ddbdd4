"""Compiled loops over thresholds and critical pairs: RankBoost's and FRank's. Loaded on use."""

# mypy: ignore-errors

from __future__ import annotations

import math

from gainful.compute.compiled import LOOSE, helper, kernel

REACH = 300.0  # scores further than this from the middle of their query count as this far: exp stays finite


@kernel
def best_thresholds(codes, n_cuts, potentials, first, last, both, histogram, sums, places):
    """For the features ``first:last`` the best Σ_i p_i [code_i > t] over t, and that t.

    ``histogram`` is a workspace with room for all codes of a feature.
    """
    for j in range(first, last):
        for t in range(n_cuts[j] + 1):
            histogram[t] = 0.0
        for i in range(len(potentials)):
            histogram[codes[j, i]] += potentials[i]
        total, best, place = 0.0, 0.0, 0
        for t in range(n_cuts[j] - 1, -1, -1):
            total += histogram[t + 1]
            if total > abs(best) or (both and -total > abs(best)):
                best, place = total, t
        sums[j], places[j] = best, place


# The workspaces have rows as long as the longest query plus 1, by position in the query.


@helper
def _exponentials(scores, order, lo, n, work):
    """work[0, p] = exp(s − middle of the query's scores) at position p."""
    low = high = scores[order[lo]]
    for p in range(n):
        s = scores[order[lo + p]]
        low = s if s < low else low
        high = s if s > high else high
    middle = low + (high - low) / 2
    for p in range(n):
        s = scores[order[lo + p]] - middle
        s = s if s > -REACH else -REACH
        work[0, p] = math.exp(s if s < REACH else REACH)


@helper
def _weight(own, p):
    """The weight of the document at position p; ``own`` is None if all are 1, which is known at compile time."""
    return 1.0 if own is None else own[p]


@kernel
def exponential_potentials(scores, order, below, offsets, shares, own, first, last, work, potentials):
    """Σ over pairs of share·exp(s_worse − s_better), and each row's potential: its part as the better document minus
    its part as the worse one. exp factorises, so two running sums over the grades do for all pairs.

    work: exponentials (0) and their running sums (1).
    """
    loss = 0.0
    for q in range(first, last):
        lo, n = offsets[q], offsets[q + 1] - offsets[q]
        if shares[q] == 0.0 or below[lo + n - 1] == 0:
            for p in range(n):
                potentials[order[lo + p]] = 0.0
            continue
        _exponentials(scores, order, lo, n, work)
        work[1, 0] = 0.0
        for p in range(n):
            work[1, p + 1] = work[1, p] + _weight(own, lo + p) * work[0, p]
        for p in range(n):
            part = shares[q] * _weight(own, lo + p) * work[1, below[lo + p]] / work[0, p]
            potentials[order[lo + p]] = part
            loss += part
        # From the highest grade down: the sum of exp(−s) over the strictly better ones.
        higher, waiting = 0.0, 0.0
        for p in range(n - 1, -1, -1):
            if p < n - 1 and below[lo + p] != below[lo + p + 1]:
                higher += waiting
                waiting = 0.0
            potentials[order[lo + p]] -= shares[q] * _weight(own, lo + p) * work[0, p] * higher
            waiting += _weight(own, lo + p) / work[0, p]
    return loss


@kernel(fastmath=LOOSE)
def fidelity_potentials(scores, order, below, offsets, shares, own, first, last, right, wrong, work, potentials):
    """Σ over pairs of share·(1 − right √P − wrong √(1 − P)), and −2 its derivative by each score.

    work: exponentials (0) and forces (1).
    """
    loss = 0.0
    for q in range(first, last):
        lo, n = offsets[q], offsets[q + 1] - offsets[q]
        for p in range(n):
            work[1, p] = 0.0
        if shares[q] != 0.0 and below[lo + n - 1] > 0:
            _exponentials(scores, order, lo, n, work)
            for i in range(n):
                a, mine, cost, force = work[0, i], _weight(own, lo + i), 0.0, 0.0
                for j in range(below[lo + i]):
                    pair = mine * _weight(own, lo + j)
                    inverse = 1.0 / (a + work[0, j])
                    P, Q = a * inverse, work[0, j] * inverse
                    root_P, root_Q = math.sqrt(P), math.sqrt(Q)
                    pull = pair * (right * Q * root_P - wrong * P * root_Q)
                    cost += pair * (1.0 - (right * root_P + wrong * root_Q))
                    force += pull
                    work[1, j] -= pull
                work[1, i] += force
                loss += shares[q] * cost
        for p in range(n):
            potentials[order[lo + p]] = shares[q] * work[1, p]
    return loss


@kernel(fastmath=LOOSE)
def fidelity_sides(scores, order, below, offsets, shares, own, first, last, right, wrong, above, work):
    """(W₊, W₋) of a binary weak ranker: how much the pairs it tells apart ask for a larger and a smaller weight.

    work: exponentials (0), 1 for the documents above (1) and for those that are not (2).
    """
    more, less = 0.0, 0.0
    for q in range(first, last):
        lo, n = offsets[q], offsets[q + 1] - offsets[q]
        if shares[q] == 0.0 or below[lo + n - 1] == 0:
            continue
        n_above = 0.0
        for p in range(n):
            h = 1.0 if above[order[lo + p]] else 0.0
            work[1, p], work[2, p] = h, 1.0 - h
            n_above += h
        if n_above == 0.0 or n_above == n:
            continue
        _exponentials(scores, order, lo, n, work)
        for i in range(n):
            other = 2 if work[1, i] > 0.0 else 1
            a, with_P, with_Q = work[0, i], 0.0, 0.0
            for j in range(below[lo + i]):
                inverse = 1.0 / (a + work[0, j])
                P, Q = a * inverse, work[0, j] * inverse
                counts = work[other, j] * _weight(own, lo + j)
                with_P += counts * Q * math.sqrt(P)
                with_Q += counts * P * math.sqrt(Q)
            with_P *= right * shares[q] * _weight(own, lo + i)
            with_Q *= wrong * shares[q] * _weight(own, lo + i)
            more += with_P if other == 2 else with_Q
            less += with_Q if other == 2 else with_P
    return more, less
