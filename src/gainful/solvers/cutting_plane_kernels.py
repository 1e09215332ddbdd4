"""Compiled dual ascent for cutting planes with one slack per query.

    maximise  b·α − ½‖w‖²,  w = Σ α_i v_i,   over  α ≥ 0, Σ_{columns of q} α ≤ cap_q

Conventions
-----------
Column i is ``V[i]`` (d,), ``b[i]``, with weight ``alpha[i]``. The columns of query q form a chain: ``head[q]``, then
``link[i]``, and −1 at its end. ``load[q]`` is the sum of its weights; cap − load is the weight of a column of zeros,
which every query has for free. ``asleep[i]`` excludes a column. Its *slope* b_i − w·v_i is how far it is violated.

One step moves weight between two columns of one query, from the lowest slope in use to the highest, by the exact
optimum. While a cap does not bind, one of the two is the column of zeros and the step is a coordinate step.

The compiler's cache checks this file only, so every helper of an entry point lives here.
"""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from gainful.compute.compiled import helper, kernel

NONE = -1


@helper
def _slope(V, b, w, i):
    total = b[i]
    for k in range(w.shape[0]):
        total -= w[k] * V[i, k]
    return total


@helper
def _improve(q, V, b, alpha, head, link, asleep, active_set, caps, load, w, tol, max_steps):
    """Steps within one query; returns what it contributed to the gap before them."""
    first_gap = 0.0
    for step in range(max_steps):
        slack = caps[q] - load[q]
        up, down = NONE, NONE
        top, low = 0.0, 0.0 if slack > 0.0 else np.inf
        earned = 0.0
        i = head[q]
        while i != NONE:
            if alpha[i] > 0.0 or not (active_set and asleep[i]):
                s = _slope(V, b, w, i)
                earned += alpha[i] * s
                if s > top:
                    up, top = i, s
                if alpha[i] > 0.0 and s < low:
                    down, low = i, s
            i = link[i]
        gap = caps[q] * top - earned
        if step == 0:
            first_gap = gap
        if not (gap > tol and top > low):
            break
        curvature = 0.0
        for k in range(w.shape[0]):
            x = V[up, k] if up >= 0 else 0.0
            if down >= 0:
                x -= V[down, k]
            curvature += x * x
        held = alpha[down] if down >= 0 else slack
        move = held
        if top - low < held * curvature:
            move = (top - low) / curvature
        if not move > 0.0:
            break
        if up >= 0:
            alpha[up] += move
            load[q] += move
            for k in range(w.shape[0]):
                w[k] += move * V[up, k]
        if down >= 0:
            load[q] -= move
            if move == held:
                alpha[down] = 0.0
                asleep[down] = True
            else:
                alpha[down] -= move
            for k in range(w.shape[0]):
                w[k] -= move * V[down, k]
        elif move == held:
            load[q] = caps[q]
        load[q] = load[q] if load[q] > 0.0 else 0.0
        load[q] = load[q] if load[q] < caps[q] else caps[q]
    return first_gap


@kernel
def admit(queries, found, offsets, w, V, b, head, link, asleep, caps, least):
    """Whether each column found is new: its slope exceeds that of its query's columns at w by more than ``least``.

    Otherwise wakes the known column that is as good. Also returns Σ cap_q·L_q(w) over these queries.
    """
    news = np.zeros(queries.shape[0], dtype=np.bool_)
    total = 0.0
    for r in range(queries.shape[0]):
        q = queries[r]
        violation = _slope(found, offsets, w, r)
        total += caps[q] * violation if violation > 0.0 else 0.0
        known, top = NONE, -np.inf
        i = head[q]
        while i != NONE:
            s = _slope(V, b, w, i)
            if s > top:
                known, top = i, s
            i = link[i]
        if violation > (top if top > 0.0 else 0.0) + least:
            news[r] = caps[q] > 0.0
        elif known != NONE and top > 0.0:
            asleep[known] = False
    return news, total


@kernel
def improve_queries(queries, V, b, alpha, head, link, asleep, active_set, caps, load, w):
    """One exact step for each of these queries."""
    for r in range(queries.shape[0]):
        _improve(queries[r], V, b, alpha, head, link, asleep, active_set, caps, load, w, 0.0, 1)


@kernel
def ascend(V, b, alpha, head, link, asleep, active_set, caps, load, w, tol, max_sweeps, order):
    """Sweep over all queries until their contributions to the gap sum to at most ``tol``; returns (gap, sweeps).

    A query that contributes almost nothing is visited only every eighth sweep.
    """
    m = head.shape[0]
    share = tol / m
    last = np.full(m, np.inf)
    gap = np.inf
    for sweep in range(max_sweeps):
        full = sweep % 8 == 0
        gap = 0.0
        for r in range(m):
            q = order[r]
            if head[q] != NONE and (full or last[q] > 0.1 * share):
                last[q] = _improve(q, V, b, alpha, head, link, asleep, active_set, caps, load, w, 0.1 * share, 4)
            elif head[q] == NONE:
                last[q] = 0.0
            gap += last[q]
        if gap <= tol:
            return gap, sweep + 1
    return gap, max_sweeps
