"""Ridge regression in one pass of blocks over X, or by LSQR where there are too many features for that.

scikit-learn's ``Ridge`` centres a copy of X; here only the (d, d) normal matrix is kept, in float64, so a memory-mapped
X of any length and float32 storage cost nothing extra.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.linalg

from gainful.rows import Array

BLOCK_VALUES = 1 << 21
MOST_FEATURES_FOR_NORMAL_MATRIX = 4096  # 128 MiB of float64


def solve_ridge(X: Any, t: Array, *, alpha: float, weights: Array | None = None) -> tuple[Array, float, float]:
    """(w, b, objective) that minimise Σ ω_i (t_i − w·x_i − b)² + alpha ‖w‖²; the shortest w where many do.

    X is dense or CSR, (n, d). Features are centred before the products are formed, and scaled to unit length while
    solving, so that large offsets and scales cost no accuracy.
    """
    omega = np.ones(len(t)) if weights is None else weights
    total = omega.sum()
    x_mean = sum(_product(block.T, omega[rows]) for rows, block in _blocks(X)) / total
    t_mean = float(omega @ t / total)
    if X.shape[1] > MOST_FEATURES_FOR_NORMAL_MATRIX:
        return _solve_by_lsqr(X, t, alpha, omega, x_mean, t_mean)
    gram, moment = np.zeros((X.shape[1], X.shape[1])), np.zeros(X.shape[1])
    for rows, block in _blocks(X):
        centred = (block.toarray() if hasattr(block, "toarray") else block).astype(np.float64)
        centred -= x_mean
        weighted = centred * omega[rows, None]
        gram += weighted.T @ centred
        moment += weighted.T @ (t[rows] - t_mean)
    constant = np.diag(gram) <= total * (8 * np.finfo(np.float64).eps * x_mean) ** 2  # what is left is rounding
    gram[constant], gram[:, constant], moment[constant] = 0.0, 0.0, 0.0
    w = _solve(gram, moment, alpha)
    b = t_mean - float(x_mean @ w)
    spread = float(omega @ (t - t_mean) ** 2)
    objective = spread - 2.0 * float(w @ moment) + float(w @ gram @ w) + alpha * float(w @ w)
    return w, b, max(objective, 0.0)


def mean_spread(X: Any, weights: Array | None = None) -> float:
    """Σ ω_i (x_ij − mean_j)², averaged over the features: a penalty in this unit means the same on any data."""
    omega = np.ones(X.shape[0]) if weights is None else weights
    total, squares, sums = float(omega.sum()), 0.0, np.zeros(X.shape[1])
    for rows, block in _blocks(X):
        sums += _product(block.T, omega[rows])
        squared = block.multiply(block) if hasattr(block, "multiply") else np.square(block, dtype=np.float64)
        squares += float(_product(squared.T, omega[rows]).sum())
    return max(squares - float(sums @ sums) / total, 0.0) / int(X.shape[1])


def _solve(gram: Array, moment: Array, alpha: float) -> Array:
    """The shortest minimiser of w'Gw − 2 m'w + alpha w'w.

    With w = S⁻¹u and S the lengths of the features, the system in u is well conditioned whatever their units are.
    """
    scale = np.sqrt(np.diag(gram))
    scale[scale == 0] = 1.0
    scaled, target = gram / scale / scale[:, None], moment / scale
    if alpha > 0:
        try:
            factor = scipy.linalg.cho_factor(scaled + np.diag(alpha / scale**2))
        except scipy.linalg.LinAlgError:
            pass  # alpha vanishes beside rounding: as good as 0
        else:
            return np.asarray(scipy.linalg.cho_solve(factor, target) / scale)
    values, vectors = scipy.linalg.eigh(scaled)
    kept = values > values[-1] * len(values) * np.finfo(np.float64).eps
    w = vectors[:, kept] @ ((vectors[:, kept].T @ target) / values[kept]) / scale
    if kept.all():
        return np.asarray(w)
    free = vectors[:, ~kept] / scale[:, None]  # directions that change no score
    return np.asarray(w - free @ scipy.linalg.lstsq(free, w)[0])


def _solve_by_lsqr(
    X: Any, t: Array, alpha: float, omega: Array, x_mean: Array, t_mean: float
) -> tuple[Array, float, float]:
    """The same minimum from products with X alone, centring and weights applied on the way."""
    from scipy.sparse.linalg import LinearOperator, lsqr

    root = np.sqrt(omega)

    def forward(w: Array) -> Array:
        w = np.ravel(w)
        return np.asarray(root * (X @ w - float(x_mean @ w)))

    def backward(r: Array) -> Array:
        r = root * np.ravel(r)
        return np.asarray(X.T @ r - x_mean * r.sum())

    operator = LinearOperator(X.shape, matvec=forward, rmatvec=backward, dtype=np.float64)
    target = root * (t - t_mean)
    w = lsqr(operator, target, damp=np.sqrt(alpha), atol=1e-12, btol=1e-12, iter_lim=20 * max(X.shape))[0]
    residual = target - forward(w)
    return w, t_mean - float(x_mean @ w), float(residual @ residual) + alpha * float(w @ w)


def _product(block: Any, omega: Array) -> Array:
    return np.asarray(block @ omega, dtype=np.float64)


def _blocks(X: Any) -> Iterator[tuple[slice, Any]]:
    step = max(1, BLOCK_VALUES // max(1, X.shape[1]))
    for start in range(0, X.shape[0], step):
        rows = slice(start, min(start + step, X.shape[0]))
        yield rows, X[rows]
