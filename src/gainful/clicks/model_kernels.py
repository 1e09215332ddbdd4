"""Compiled loops of click models: expected counts for EM, and probabilities of examination and clicks.

A kernel runs over the pages ``first`` to ``last − 1``. Each parameter is a Bernoulli probability θ; what a page says
about it is a number of trials d and of successes n, expected given the clicks. ``sums`` has four rows: Σ n, Σ d, and
Σ (n − dθ)² and Σ (n − dθ)³, which the uncertainty of θ follows from. Sums of pairs start at pair ``base``: a block of
pages has few of all pairs. ``weight`` counts equal pages.

Rows of a page are in the order of positions. ``pair`` is the query-document pair of a row. ``slot`` is where its other
parameter is: a position, a position with that of the last click, or the pair again.
"""
# mypy: ignore-errors

from __future__ import annotations

import math

import numpy as np

from gainful.compute.compiled import helper, kernel


@helper
def _add(sums, at, weight, n, d, theta):
    residual = n - d * theta
    sums[0, at] += weight * n
    sums[1, at] += weight * d
    sums[2, at] += weight * residual * residual
    sums[3, at] += weight * residual * residual * residual


# -- counts: nothing is hidden -----------------------------------------------------------------------------------------


@kernel
def count_clicks(offsets, weight, first, last, pair, slot, clicked, theta, by_pair, base, sums):
    """Clicks and impressions by pair or by slot, and the log-likelihood under ``theta``."""
    total = 0.0
    for page in range(first, last):
        w = weight[page]
        for row in range(offsets[page], offsets[page + 1]):
            at = pair[row] if by_pair else slot[row]
            p = theta[at]
            if clicked[row]:
                total += w * math.log(p)
                _add(sums, at - base, w, 1.0, 1.0, p)
            else:
                total += w * math.log1p(-p)
                _add(sums, at - base, w, 0.0, 1.0, p)
    return total


@kernel
def count_cascade(offsets, weight, first, last, pair, clicked, attraction, slip, base, sums):
    """The same by pair, of rows up to the first click; later rows have clicks with probability ``slip``."""
    total = 0.0
    for page in range(first, last):
        w = weight[page]
        left = False
        for row in range(offsets[page], offsets[page + 1]):
            click = clicked[row]
            if left:
                total += w * (math.log(slip) if click else math.log1p(-slip))
                continue
            p = attraction[pair[row]]
            total += w * (math.log(p) if click else math.log1p(-p))
            _add(sums, pair[row] - base, w, 1.0 if click else 0.0, 1.0, p)
            left = click
    return total


# -- PBM and UBM: a document is clicked if it is examined and attractive -----------------------------------------------


@kernel
def expect_examined(
    offsets, weight, first, last, pair, slot, clicked, attraction, examination, base, pair_sums, slot_sums
):
    """Expected attraction by pair and examination by slot; returns the log-likelihood."""
    total = 0.0
    for page in range(first, last):
        w = weight[page]
        for row in range(offsets[page], offsets[page + 1]):
            p, s = pair[row], slot[row]
            a, e = attraction[p], examination[s]
            if clicked[row]:
                total += w * math.log(a * e)
                _add(pair_sums, p - base, w, 1.0, 1.0, a)
                _add(slot_sums, s, w, 1.0, 1.0, e)
            else:
                none = 1.0 - a * e
                total += w * math.log(none)
                _add(pair_sums, p - base, w, a * (1.0 - e) / none, 1.0, a)
                _add(slot_sums, s, w, e * (1.0 - a) / none, 1.0, e)
    return total


@kernel
def browsing_slots(offsets, position, clicked, depth, out):
    """The slot of position r with the last click in position r' (0 if there is none): r (r − 1) / 2 + r'."""
    for page in range(len(offsets) - 1):
        before = 0
        for row in range(offsets[page], offsets[page + 1]):
            r = min(position[row], depth)
            out[row] = r * (r - 1) // 2 + min(before, r - 1)
            if clicked[row]:
                before = r


@kernel
def examine_browsing(offsets, position, depth, pair, attraction, examination, out):
    """The probability that each row is examined, whatever is clicked above it (UBM)."""
    n_last = depth + 1
    chance = np.empty(n_last)  # that the last click so far was in each position
    for page in range(len(offsets) - 1):
        for i in range(n_last):
            chance[i] = 0.0
        chance[0] = 1.0
        for row in range(offsets[page], offsets[page + 1]):
            r = min(position[row], depth)
            a = attraction[pair[row]]
            seen = 0.0
            click = 0.0
            for i in range(n_last):
                if chance[i] > 0.0:
                    e = examination[r * (r - 1) // 2 + min(i, r - 1)]
                    seen += chance[i] * e
                    click += chance[i] * e * a
                    chance[i] *= 1.0 - e * a
            chance[r] += click
            out[row] = seen


# -- chains: DCM and DBN. The user reads downwards and stops -----------------------------------------------------------


@kernel
def expect_chain(
    offsets, weight, first, last, pair, slot, clicked, attraction, stop, go_on, base, pair_sums, stop_base, stop_sums,
    go_sums, spare,
):  # fmt: skip
    """Expected attraction by pair, stops after a click by slot, and continuation; returns the log-likelihood.

    The first document is examined. After a click the user stops with probability ``stop``; otherwise, and after a
    document that is passed over, the next one is examined with probability ``go_on``. ``spare`` has room for a page and
    one row more.
    """
    total = 0.0
    for page in range(first, last):
        w = weight[page]
        begin, end = offsets[page], offsets[page + 1]
        final = begin - 1  # the last click
        for row in range(begin, end):
            if clicked[row]:
                final = row
        # nothing is clicked from a row on, given that it is examined
        n = end - begin
        spare[n] = 1.0
        for i in range(n - 1, final - begin, -1):
            spare[i] = (1.0 - attraction[pair[begin + i]]) * (1.0 - go_on + go_on * spare[i + 1])
        went, could = 0.0, 0.0  # on, of how often
        for row in range(begin, final + 1):
            a = attraction[pair[row]]
            if clicked[row]:
                total += w * math.log(a)
                _add(pair_sums, pair[row] - base, w, 1.0, 1.0, a)
            else:
                total += w * math.log1p(-a)
                _add(pair_sums, pair[row] - base, w, 0.0, 1.0, a)
            if row < final:
                total += w * math.log(go_on)
                went += 1.0
                could += 1.0
                if clicked[row]:
                    s = stop[slot[row]]
                    total += w * math.log1p(-s)
                    _add(stop_sums, slot[row] - stop_base, w, 0.0, 1.0, s)
        reached = 1.0  # that the row after the last click is examined, given all clicks
        if final < begin:
            total += w * math.log(spare[0])
        elif final < end - 1:
            s = stop[slot[final]]
            rest = spare[final + 1 - begin]
            silence = s + (1.0 - s) * (1.0 - go_on + go_on * rest)
            total += w * math.log(silence)
            _add(stop_sums, slot[final] - stop_base, w, s / silence, 1.0, s)
            reached = (1.0 - s) * go_on * rest / silence
            went += reached
            could += 1.0 - s / silence
        for row in range(final + 1, end):
            a = attraction[pair[row]]
            _add(pair_sums, pair[row] - base, w, 0.0, reached, a)
            if row < end - 1:
                rest = go_on * spare[row + 1 - begin]
                could += reached
                reached *= rest / (1.0 - go_on + rest)
                went += reached
        _add(go_sums, 0, w, went, could, go_on)
    return total


@kernel
def click_chain(offsets, pair, slot, clicked, attraction, stop, go_on, out):
    """The probability of a click on each row, given what is clicked above it."""
    for page in range(len(offsets) - 1):
        seen = 1.0
        for row in range(offsets[page], offsets[page + 1]):
            a = attraction[pair[row]]
            out[row] = seen * a
            if clicked[row]:
                seen = (1.0 - stop[slot[row]]) * go_on
            else:
                seen *= go_on * (1.0 - a) / (1.0 - seen * a)


@kernel
def examine_chain(offsets, pair, slot, attraction, stop, go_on, out):
    """The probability that each row is examined, whatever is clicked above it."""
    for page in range(len(offsets) - 1):
        seen = 1.0
        for row in range(offsets[page], offsets[page + 1]):
            out[row] = seen
            seen *= go_on * (1.0 - attraction[pair[row]] * stop[slot[row]])


# -- simulated users: a click happens where its number of ``draws``, uniform on [0, 1), is below its probability -------


@kernel
def draw_browsing(offsets, position, depth, attraction, examination, draws, out):
    """Clicks of UBM; ``attraction`` is that of each row."""
    for page in range(len(offsets) - 1):
        before = 0
        for row in range(offsets[page], offsets[page + 1]):
            r = min(position[row], depth)
            out[row] = draws[row] < attraction[row] * examination[r * (r - 1) // 2 + min(before, r - 1)]
            if out[row]:
                before = r


@kernel
def draw_chain(offsets, slot, attraction, stop, go_on, draws, out):
    """Clicks of a chain, by the probability of each given those above it; ``attraction`` is that of each row."""
    for page in range(len(offsets) - 1):
        seen = 1.0
        for row in range(offsets[page], offsets[page + 1]):
            a = attraction[row]
            out[row] = draws[row] < seen * a
            if out[row]:
                seen = (1.0 - stop[slot[row]]) * go_on
            else:
                rest = 1.0 - seen * a
                seen = seen * go_on * (1.0 - a) / rest if rest > 0.0 else 0.0
