"""Artificial ranking data with a known, noise-free target (Li, Burges and Wu 2007, section 6; from Burges et al. 2006).

Features are uniform on [−1, 1]. The target of a document is the mean of three terms, each scaled to zero mean and unit
variance over the data::

    x·v        Σ_i x_i x_P(i)        Σ_i x_i x_P(i) x_Q(i)

with one random vector v and two random permutations P and Q for the whole data set. A linear ranker can learn the first
term only; trees and nets can learn all three.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gainful.data.dataset import RankingData
from gainful.errors import ParameterError

BLOCK_ROWS = 100_000
MOST_VALUES = 1 << 40


def make_artificial(
    n_queries: int,
    *,
    n_docs: int = 50,
    n_features: int = 50,
    n_grades: int = 5,
    seed: int = 0,
    grade_shares: Sequence[float] | None = None,
) -> RankingData:
    """``n_queries`` queries of ``n_docs`` documents, grades 0 … n_grades − 1.

    The target is cut into grades at its quantiles over the whole data: all grades equally likely, or with the
    probabilities ``grade_shares`` (lowest grade first). The papers do not say how they cut it. For training and test
    data of one problem, split the result of one call with :func:`gainful.split`.

    >>> data = make_artificial(4, n_docs=10, seed=1)
    >>> data.n_queries, data.n_rows, data.n_features
    (4, 40, 50)
    """
    for name, value, least in (
        ("n_queries", n_queries, 1),
        ("n_docs", n_docs, 1),
        ("n_features", n_features, 1),
        ("n_grades", n_grades, 1),
        ("seed", seed, 0),
    ):
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
            raise ParameterError.of("make_artificial", name, f"an integer ≥ {least}", value)
    if n_queries * n_docs * n_features > MOST_VALUES:
        raise ParameterError(
            f"make_artificial: {n_queries * n_docs * n_features:,} values are more than memory can hold"
        )
    shares = _check_shares(grade_shares, n_grades)
    rng = np.random.default_rng(seed)
    v = rng.standard_normal(n_features)
    P, Q = rng.permutation(n_features), rng.permutation(n_features)
    n_rows = n_queries * n_docs
    X = np.empty((n_rows, n_features))
    terms = np.empty((3, n_rows))
    for start in range(0, n_rows, BLOCK_ROWS):
        rows = slice(start, min(start + BLOCK_ROWS, n_rows))
        x = rng.uniform(-1.0, 1.0, size=(rows.stop - rows.start, n_features))
        X[rows] = x
        pairs = x * x[:, P]
        terms[0, rows] = x @ v
        terms[1, rows] = pairs.sum(axis=1)
        terms[2, rows] = (pairs * x[:, Q]).sum(axis=1)
    target = np.zeros(n_rows)
    for term in terms:
        deviation = term.std()
        target += (term - term.mean()) / (deviation if deviation > 0 else 1.0) / 3.0
    thresholds = np.quantile(target, np.cumsum(shares)[:-1])
    return RankingData._build_unchecked(
        X=X,
        y=np.searchsorted(thresholds, target, side="right").astype(np.float64),
        offsets=np.arange(n_queries + 1, dtype=np.int64) * n_docs,
        query_ids=np.arange(1, n_queries + 1),
    )


def _check_shares(grade_shares: Sequence[float] | None, n_grades: int) -> np.ndarray:
    if grade_shares is None:
        return np.full(n_grades, 1.0 / n_grades)
    shares = np.asarray(grade_shares, dtype=np.float64)
    if shares.shape != (n_grades,) or not np.isfinite(shares).all() or (shares < 0).any():
        raise ParameterError.of("make_artificial", "grade_shares", f"{n_grades} numbers ≥ 0", grade_shares)
    if abs(shares.sum() - 1.0) > 1e-9:
        raise ParameterError.of("make_artificial", "grade_shares", "numbers whose sum is 1", grade_shares)
    return shares
