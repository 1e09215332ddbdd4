"""Ridge regression in one pass of blocks over X, or by LSQR where there are too many features for that.

scikit-learn's ``Ridge`` centres a copy of X; here only the (d, d) normal matrix is kept, in float64, so a memory-mapped
X of any length and float32 storage cost nothing extra.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from gainful.rows import Array

BLOCK_VALUES = 1 << 21
MOST_FEATURES_FOR_NORMAL_MATRIX = 4096  # 128 MiB of float64

Each = Callable[..., list[Any]]


def solve_ridge(X: Any, t: Array, *, alpha: float, weights: Array | None = None) -> tuple[Array, float, float]:
    """(w, b, objective) that minimise Σ ω_i (t_i − w·x_i − b)² + alpha ‖w‖²; the shortest w where many do.

    X is dense or CSR, (n, d). Features are centred before the products are formed, and scaled to unit length while
    solving, so that large offsets and scales cost no accuracy.
    """
    omega = np.ones(len(t)) if weights is None else weights
    if X.shape[1] > MOST_FEATURES_FOR_NORMAL_MATRIX:
        first = first_moments(X, t, omega)
        return _solve_by_lsqr(X, t, alpha, omega, first.x / first.total, first.t / first.total)
    return solve_ridge_of_sums(lambda task, *arguments: [task(X, t, omega, *arguments)], X.shape[1], alpha)


def solve_ridge_of_sums(each: Each, n_features: int, alpha: float) -> tuple[Array, float, float]:
    """The same for data in blocks: ``each(task, *arguments)`` lists ``task(X, t, omega, *arguments)`` of every block.

    Two passes over the data, or many where there are too many features for a normal matrix.
    """
    first = functools.reduce(Moments.__add__, each(first_moments))
    x_mean, t_mean = first.x / first.total, first.t / first.total
    if n_features > MOST_FEATURES_FOR_NORMAL_MATRIX:
        return _solve_by_conjugate_gradients(each, alpha, x_mean, t_mean)
    parts = each(second_moments, x_mean, t_mean)
    gram, moment = sum(part[0] for part in parts), sum(part[1] for part in parts)
    spread = float(sum(part[2] for part in parts))
    # what is left of a constant feature is rounding
    constant = np.diag(gram) <= first.total * (8 * np.finfo(np.float64).eps * x_mean) ** 2
    gram[constant], gram[:, constant], moment[constant] = 0.0, 0.0, 0.0
    w = _solve(gram, moment, alpha)
    b = t_mean - float(x_mean @ w)
    objective = spread - 2.0 * float(w @ moment) + float(w @ gram @ w) + alpha * float(w @ w)
    return w, b, max(objective, 0.0)


def mean_spread(X: Any, weights: Array | None = None) -> float:
    """Σ ω_i (x_ij − mean_j)², averaged over the features: a penalty in this unit means the same on any data."""
    omega = np.ones(X.shape[0]) if weights is None else weights
    return mean_spread_of_sums([first_moments(X, omega, omega)], X.shape[1])


def mean_spread_of_sums(parts: list[Moments], n_features: int) -> float:
    """The same from the first moments of the blocks of the data."""
    sums = functools.reduce(Moments.__add__, parts)
    return max(sums.squares - float(sums.x @ sums.x) / sums.total, 0.0) / n_features


@dataclass(frozen=True)
class Moments:
    """Σ ω, Σ ω x, Σ ω t and Σ ω ‖x‖² of some rows."""

    total: float
    x: Array
    t: float
    squares: float

    def __add__(self, other: Moments) -> Moments:
        return Moments(
            self.total + other.total, self.x + other.x, self.t + other.t, self.squares + other.squares
        )  # fmt: skip


def first_moments(X: Any, t: Array, omega: Array) -> Moments:
    x, squares = np.zeros(X.shape[1]), 0.0
    for rows, block in _blocks(X):
        if isinstance(block, np.ndarray):
            wide = block.astype(np.float64, copy=False)
            x += omega[rows] @ wide
            squares += float(omega[rows] @ np.einsum("ij,ij->i", wide, wide))
        else:
            x += _product(block.T, omega[rows])
            squares += float(_product(block.multiply(block).T, omega[rows]).sum())
    return Moments(float(omega.sum()), x, float(omega @ t), squares)


def second_moments(X: Any, t: Array, omega: Array, x_mean: Array, t_mean: float) -> tuple[Array, Array, float]:
    """Σ ω xx', Σ ω x t and Σ ω t² with x and t from their means: (d, d), (d,) and a number."""
    gram, moment = np.zeros((X.shape[1], X.shape[1])), np.zeros(X.shape[1])
    for rows, block in _blocks(X):
        centred = (block.toarray() if hasattr(block, "toarray") else block).astype(np.float64)
        centred -= x_mean
        weighted = centred * omega[rows, None]
        gram += weighted.T @ centred
        moment += weighted.T @ (t[rows] - t_mean)
    return gram, moment, float(omega @ (t - t_mean) ** 2)


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


def _solve_by_conjugate_gradients(each: Each, alpha: float, x_mean: Array, t_mean: float) -> tuple[Array, float, float]:
    """The same minimum from products with the blocks, none of which brings anything as long as the data."""
    from scipy.sparse.linalg import LinearOperator, cg

    starts = each(_centred_products, x_mean, t_mean)
    moment, lengths = sum(part[0] for part in starts), np.sqrt(sum(part[1] for part in starts) + alpha)
    spread = float(sum(part[2] for part in starts))
    lengths[lengths == 0] = 1.0

    def product(v: Array) -> Array:
        u = np.ravel(v) / lengths
        return np.asarray((sum(each(_normal_product, x_mean, u)) + alpha * u) / lengths)

    d = len(x_mean)
    scaled, _ = cg(
        LinearOperator((d, d), matvec=product, dtype=np.float64), moment / lengths, rtol=1e-12, maxiter=20 * d
    )
    w = scaled / lengths
    fitted = float(w @ (product(scaled) * lengths))
    return w, t_mean - float(x_mean @ w), max(spread - 2.0 * float(w @ moment) + fitted, 0.0)


def _centred_products(X: Any, t: Array, omega: Array, x_mean: Array, t_mean: float) -> tuple[Array, Array, float]:
    """Σ ω x t, Σ ω x² and Σ ω t², from the means."""
    r = omega * (t - t_mean)
    squared = X.multiply(X) if hasattr(X, "multiply") else np.square(X, dtype=np.float64)
    squares = _product(squared.T, omega) - 2.0 * x_mean * _product(X.T, omega) + omega.sum() * x_mean**2
    return _product(X.T, r) - x_mean * r.sum(), np.maximum(squares, 0.0), float(r @ (t - t_mean))


def _normal_product(X: Any, t: Array, omega: Array, x_mean: Array, v: Array) -> Array:
    r = omega * (_product(X, v) - float(x_mean @ v))
    return np.asarray(_product(X.T, r) - x_mean * r.sum())


def _product(block: Any, omega: Array) -> Array:
    return np.asarray(block @ omega, dtype=np.float64)


def _blocks(X: Any) -> Iterator[tuple[slice, Any]]:
    step = max(1, BLOCK_VALUES // max(1, X.shape[1]))
    for start in range(0, X.shape[0], step):
        rows = slice(start, min(start + step, X.shape[0]))
        yield rows, X[rows]
