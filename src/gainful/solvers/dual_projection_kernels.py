"""Compiled steps of gradient projection for one query's pairs.

Documents are sorted with preferred ones first; document k has the pairs (j, k) with j < ``preferred[k]``, whose
variables are contiguous, in the order of the documents. t are the levels: a pair's gradient is t_k − t_j.
"""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from gainful.compute.compiled import LOOSE, helper, kernel

MOST_STEPS = 100


@kernel
def box_steps(levels, rates, preferred, cap, alpha, c):
    """α = clip(α + η (t_k − t_j), 0, cap) for each row of ``levels``; then c, the sums of α by document."""
    for step in range(len(rates)):
        _box_step(levels[step], rates[step], preferred, cap, alpha)
    _sums(preferred, alpha, False, c)


@helper(fastmath=LOOSE)
def _box_step(t, rate, preferred, cap, alpha):
    start = 0
    for k in range(len(t)):
        mine = t[k]
        row = alpha[start : start + preferred[k]]
        for j in range(len(row)):
            a = row[j] + rate * (mine - t[j])
            a = a if a > 0.0 else 0.0
            row[j] = a if a < cap else cap
        start += preferred[k]


@kernel
def ball_steps(levels, rates, preferred, radius, alpha, c):
    """α = projection of α + η (t_k − t_j)/|P_k|, for each row of ``levels``; then c, with the pairs of k over |P_k|."""
    gamma = np.empty(len(preferred))
    for step in range(len(rates)):
        _gradient_step(levels[step], rates[step], preferred, alpha)
        project(alpha, preferred, radius, gamma)
    _sums(preferred, alpha, True, c)


@helper(fastmath=LOOSE)
def _gradient_step(t, rate, preferred, alpha):
    start = 0
    for k in range(len(t)):
        if preferred[k] == 0:
            continue
        mine, eta = t[k], rate / preferred[k]
        row = alpha[start : start + preferred[k]]
        for j in range(len(row)):
            row[j] += eta * (mine - t[j])
        start += preferred[k]


@helper(fastmath=LOOSE)
def _sums(preferred, alpha, by_preferred, c):
    start = 0
    for k in range(len(c)):
        c[k] = 0.0
    for k in range(len(c)):
        scale = 1.0 / preferred[k] if by_preferred and preferred[k] > 0 else 1.0
        row, total = alpha[start : start + preferred[k]], 0.0
        for j in range(len(row)):
            c[j] += scale * row[j]
            total += row[j]
        c[k] -= scale * total
        start += preferred[k]


# -- projection ----------------------------------------------------------------------------------------------------


@kernel
def project(values, sizes, radius, gamma):
    """The nearest point of {0 ≤ v_jk ≤ γ_k, Σ_k γ_k ≤ radius}, in place; ``gamma`` is filled.

    After clipping negatives, groups are cut at γ_k so that each loses the same θ = Σ_j (v_jk − γ_k)_+ or becomes
    zero. Σ_k γ_k is convex and decreasing in θ, and each γ_k in the same way: two nested Newton iterations from
    the left, which end exactly because both functions are piecewise linear.
    """
    total, start, sum_of_means, sum_of_shares = 0.0, 0, 0.0, 0.0
    for k in range(len(sizes)):
        gamma[k] = _clip_negatives(values[start : start + sizes[k]])
        total += gamma[k]
        if gamma[k] > 0.0:
            above, count = _above(values[start : start + sizes[k]], 0.0)
            sum_of_means += above / count
            sum_of_shares += 1.0 / count
        start += sizes[k]
    if total <= radius:
        return 0.0
    # γ_k ≥ (Σ_j v_jk − θ)/count, so θ is at least where the sum of these bounds is the radius.
    theta = max(0.0, (sum_of_means - radius) / sum_of_shares)
    slack = 4.0 * np.finfo(np.float64).eps * radius * max(1.0, np.sqrt(len(sizes)))
    for step in range(MOST_STEPS):
        total, slope, start = 0.0, 0.0, 0
        for k in range(len(sizes)):
            if gamma[k] > 0.0:
                gamma[k], count = _cut(values[start : start + sizes[k]], gamma[k] if step else 0.0, theta)
                if gamma[k] > 0.0:
                    total += gamma[k]
                    slope += 1.0 / count
            start += sizes[k]
        if total - radius <= slack or slope == 0.0:
            break
        further = theta + (total - radius) / slope
        if further == theta:
            break
        theta = further
    if total > radius:  # rounding: stay inside rather than outside
        for k in range(len(sizes)):
            gamma[k] *= radius / total * (1.0 - np.finfo(np.float64).eps)
    start = 0
    for k in range(len(sizes)):
        _cap(values[start : start + sizes[k]], gamma[k])
        start += sizes[k]
    return theta


@helper(fastmath=LOOSE)
def _clip_negatives(row):
    top = 0.0
    for j in range(len(row)):
        row[j] = row[j] if row[j] > 0.0 else 0.0
        top = row[j] if row[j] > top else top
    return top


@helper(fastmath=LOOSE)
def _cap(row, level):
    for j in range(len(row)):
        row[j] = row[j] if row[j] < level else level


@helper
def _cut(row, level, theta):
    """γ with Σ (v − γ)_+ = θ and the number of entries above it, from a first guess; (0, 0) where Σ v ≤ θ.

    A Newton step from either side lands to the left of γ, and later steps increase.
    """
    count = 0.0
    for step in range(MOST_STEPS):
        above, count = _above(row, level)
        if count == 0.0:  # the guess was the largest entry: those equal to it come down first
            above, count = _largest(row)
        new = (above - theta) / count
        if new <= 0.0:
            if level == 0.0:
                return 0.0, 0.0
            new = 0.0  # all positive entries count: if that is still too little, the group becomes zero
        if new == level or (step > 0 and new <= level):  # no further increase: the rest is rounding
            break
        level = new
    return level, count


@helper
def _largest(row):
    """Sum and number of the entries equal to the largest one."""
    top, count = row[0], 0.0
    for j in range(len(row)):
        top = row[j] if row[j] > top else top
    for j in range(len(row)):
        count += 1.0 if row[j] == top else 0.0
    return top * count, count


@helper(fastmath=LOOSE)
def _above(row, level):
    """Sum and number of the entries above the level."""
    total, count = 0.0, 0.0
    for j in range(len(row)):
        on = 1.0 if row[j] > level else 0.0
        total += on * row[j]
        count += on
    return total, count
