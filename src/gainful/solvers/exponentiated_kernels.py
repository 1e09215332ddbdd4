"""Compiled marginals of the distribution α_jk ∝ exp(z_k − z_j) over a query's pairs, with α_0 ∝ 1, in O(n)."""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from gainful.compute.compiled import helper, kernel


@kernel
def marginals(z, preferred, c):
    """c_i = Σ_k α_ik − Σ_j α_ji; returns α_0.

    Documents are sorted with preferred ones first. Running logarithms of sums over the places before (of exp(−z)) and
    after (of exp(z)) a document avoid overflow however far apart the z are.
    """
    n = len(z)
    lower = np.empty(n)  # log Σ_{j preferred to k} exp(z_k − z_j)
    done, top, rest = 0, -np.inf, 0.0
    whole_top, whole = 0.0, 1.0  # α_0
    for k in range(n):
        while done < preferred[k]:
            top, rest = _grow(top, rest, -z[done])
            done += 1
        lower[k] = z[k] + top + np.log(rest) if preferred[k] > 0 else -np.inf
        if preferred[k] > 0:
            whole_top, whole = _grow(whole_top, whole, lower[k])
    norm = whole_top + np.log(whole)
    done, top, rest = n, -np.inf, 0.0
    for i in range(n - 1, -1, -1):
        if i == n - 1 or preferred[i] != preferred[i + 1]:  # a new grade: all documents after it are less preferred
            while done > i + 1:
                done -= 1
                top, rest = _grow(top, rest, z[done])
        up = np.exp(top - z[i] + np.log(rest) - norm) if done < n else 0.0
        c[i] = up - np.exp(lower[i] - norm)
    return np.exp(-norm)


@helper
def _grow(top, rest, value):
    """exp(top)·rest + exp(value), in the same form with top the larger exponent."""
    if value > top:
        return value, rest * np.exp(top - value) + 1.0
    return top, rest + np.exp(value - top)
