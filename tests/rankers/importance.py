"""RSRank's weights of the pairs of one query, by definition."""

from __future__ import annotations

import numpy as np


def importance_weights(grades, ranks):
    """w_ij, (n, n), 0 if g_i ≤ g_j; ``ranks`` count from 1."""
    gain = np.exp2(np.asarray(grades, dtype=np.float64))
    discount = 1.0 / np.log2(1.0 + np.asarray(ranks, dtype=np.float64))
    best = float(np.sort(gain - 1.0)[::-1] @ (1.0 / np.log2(np.arange(2.0, len(gain) + 2.0))))
    higher = np.maximum(gain[:, None] - gain[None, :], 0.0)
    return higher * np.abs(discount[:, None] - discount[None, :]) / (best if best > 0 else 1.0)
