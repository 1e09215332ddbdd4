"""Data and models that several test modules of exports share."""

from __future__ import annotations

import numpy as np

TREES = {"n_trees": 25, "n_leaves": 15, "min_docs_in_leaf": 5, "n_jobs": 1}


def awkward(missing: bool, seed: int = 0):
    """Features of very different sizes, whole numbers, many zeros, both signs; missing values where asked for."""
    rng = np.random.default_rng(seed)
    n = 800
    X = np.stack(
        [
            rng.normal(size=n) * 1e-20,
            rng.normal(size=n),
            rng.integers(-3, 4, n) / 2,
            rng.exponential(size=n) * 1e6,
            np.where(rng.random(n) < 0.5, 0, rng.normal(size=n)),
            rng.integers(0, 30, n),
        ],
        axis=1,
    )
    y = X[:, 1] + X[:, 2] + (X[:, 0] > 1e-21) + np.log1p(X[:, 3]) / 10 + X[:, 4] + (X[:, 5] % 5 == 1)
    if missing:
        X[rng.random(X.shape) < 0.15] = np.nan
    return X, np.clip(np.round(y), 0, 4), np.repeat(np.arange(n // 20), 20)
