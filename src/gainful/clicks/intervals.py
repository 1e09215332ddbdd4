"""Intervals of shares: clicks per impression, wins per impression."""

from __future__ import annotations

from typing import Any

import numpy as np

from gainful.data.rows import Array


def share_intervals(successes: Any, trials: Any, level: float) -> tuple[Array, Array]:
    """Clopper and Pearson's interval of each share, which holds for every true share; 0 to 1 without trials.

    >>> low, high = share_intervals([8, 0], [9, 0], 0.95)
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.5175, 0.0], [0.9972, 1.0])
    """
    from scipy.special import betaincinv

    up, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    down, tail = n - up, 0.5 - level / 2
    low = np.where(up > 0, betaincinv(np.maximum(up, 1e-9), down + 1, tail), 0.0)
    high = np.where(down > 0, betaincinv(up + 1, np.maximum(down, 1e-9), 1.0 - tail), 1.0)
    return low, high
