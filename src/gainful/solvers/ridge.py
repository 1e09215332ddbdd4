"""Ridge regression in one blockwise pass over X, or by conjugate gradients if there are too many features for that.

scikit-learn's ``Ridge`` centres a copy of X; here only the (d, d) normal matrix is kept, in float64, so a
memory-mapped X of any length and float32 storage cost nothing extra.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from gainful.compute.estimators import ConvergenceWarning
from gainful.data.rows import Array, row_chunks
from gainful.data.spread import Spread

MOST_FEATURES_FOR_NORMAL_MATRIX = 4096  # 128 MiB of float64
MOST_REFINEMENTS = 8  # of conjugate gradients; two or three usually suffice
ENOUGH, LEAST_DIGITS = 1e-9, 1e-6  # relative change of the weights: at which to stop, and above which to warn

CHUNK_BYTES = 50e6  # of the centred rows that are in memory at a time

Each = Callable[..., list[Any]]
Targets = Callable[[Array], Array]


@dataclass(frozen=True)
class NormalEquations:
    """The sums from which ridge regression is solved for any alpha: of squares of features, and with the targets."""

    gram: Array
    moment: Array
    squares: float
    t_mean: float

    def solve(self, alpha: float) -> tuple[Array, float]:
        """The shortest minimiser, and its objective."""
        v = _solve(self.gram, self.moment, alpha)
        objective = self.squares - 2.0 * float(v @ self.moment) + float(v @ self.gram @ v) + alpha * float(v @ v)
        return v, objective


Share = Callable[[Callable[[], NormalEquations]], NormalEquations]


def solve_ridge(
    each: Each, spread: Spread, scale: str | None, alpha: float, share: Share = lambda make: make()
) -> tuple[Array, float, float]:
    """(v, b, objective) that minimise Σ ω_i (t_i − w·x_i − b)² + alpha ‖v‖², v = w·scales; the shortest such v.

    The data are in blocks, dense or CSR: ``each(task, *arguments)`` lists ``task(X, t, omega, *arguments)`` of all.
    One pass over the data, or many if there are too many features for a normal matrix. Features are centred before
    the products are formed, and scaled to unit length while solving, so that large offsets and scales cost no accuracy.
    ``share`` may replace the normal equations, which do not depend on alpha, by those of an earlier call.
    """
    x_mean, scales = spread.mean, spread.scales(scale)
    if len(x_mean) > MOST_FEATURES_FOR_NORMAL_MATRIX:
        t_mean = sum(each(_sum_of_targets)) / spread.total
        v, objective = _solve_by_conjugate_gradients(each, alpha, x_mean, scales, t_mean, spread.total)
    else:
        equations = share(lambda: _normal_equations(each, spread, scales))
        t_mean = equations.t_mean
        v, objective = equations.solve(alpha)
    return v, t_mean - float(x_mean @ (v / scales)), max(objective, 0.0)


def _normal_equations(each: Each, spread: Spread, scales: Array) -> NormalEquations:
    t_mean = sum(each(_sum_of_targets)) / spread.total
    parts = each(_second_moments, spread.mean, scales, t_mean)
    gram, moment, squares = (sum(part[i] for part in parts) for i in range(3))
    return NormalEquations(gram, moment, float(squares), t_mean)


def ridge_bytes(n_features: float) -> float:
    """The memory of the normal matrix, of its factor and of a product, and of one chunk of rows."""
    return CHUNK_BYTES + 3 * 8.0 * n_features**2 * (n_features <= MOST_FEATURES_FOR_NORMAL_MATRIX)


def _sum_of_targets(X: Any, t: Array, omega: Array) -> float:
    return float(omega @ t)


def _second_moments(
    X: Any, t: Array, omega: Array, x_mean: Array, scales: Array, t_mean: float
) -> tuple[Array, Array, float]:
    """Σ ω zz', Σ ω z t and Σ ω t² with z = (x − mean)/scale and t centred: (d, d), (d,) and a number."""
    gram, moment = np.zeros((X.shape[1], X.shape[1])), np.zeros(X.shape[1])
    for rows in row_chunks(*X.shape):
        block = X[rows]
        z = (block.toarray() if hasattr(block, "toarray") else block).astype(np.float64)
        z -= x_mean
        z /= scales
        weighted = z * omega[rows, None]
        gram += weighted.T @ z
        moment += weighted.T @ (t[rows] - t_mean)
    return gram, moment, float(omega @ (t - t_mean) ** 2)


def _solve(gram: Array, moment: Array, alpha: float) -> Array:
    """The shortest minimiser of w'Gw − 2 m'w + alpha w'w.

    With w = S⁻¹u and S the lengths of the features, the system in u is well conditioned whatever their units.
    """
    scale = np.sqrt(np.diag(gram))
    scale[scale == 0] = 1.0
    scaled, target = gram / scale / scale[:, None], moment / scale
    if alpha > 0:
        try:
            factor = scipy.linalg.cho_factor(scaled + np.diag(alpha / scale**2))
        except scipy.linalg.LinAlgError:
            pass  # alpha is below rounding: effectively 0
        else:
            return np.asarray(scipy.linalg.cho_solve(factor, target) / scale)
    values, vectors = scipy.linalg.eigh(scaled)
    kept = values > values[-1] * len(values) * np.finfo(np.float64).eps
    w = vectors[:, kept] @ ((vectors[:, kept].T @ target) / values[kept]) / scale
    if kept.all():
        return np.asarray(w)
    free = vectors[:, ~kept] / scale[:, None]  # directions that change no score
    return np.asarray(w - free @ scipy.linalg.lstsq(free, w)[0])


def _solve_by_conjugate_gradients(
    each: Each, alpha: float, x_mean: Array, scales: Array, t_mean: float, total: float
) -> tuple[Array, float]:
    """The same minimum from products with the blocks; nothing as long as the data is transferred.

    The normal equations square the condition number of X. So they are solved only for the remaining correction: the
    gradient of the objective is recomputed from the residuals of the rows, which loses no more digits than X itself,
    and the next solution is added to the sum of the previous ones.

    Without a penalty, or with fewer rows than features, the steps are unscaled: from 0 they stay in the span of the
    rows, which contains the shortest minimiser, and a penalty is the same number in all other directions. Otherwise
    each feature is scaled to unit length, which compensates for different units.
    """
    from scipy.sparse.linalg import LinearOperator, cg

    d = len(x_mean)
    lengths = np.ones(d)
    counts = each(_squared_lengths, x_mean)
    if alpha > 0 and sum(part[0] for part in counts) > d:
        lengths = np.sqrt(sum(part[1] for part in counts) / scales**2 + alpha)
        lengths[lengths == 0] = 1.0

    def product(v: Array) -> Array:
        u = np.ravel(v) / lengths
        return np.asarray((sum(each(_normal_product, x_mean, u / scales)) / scales + alpha * u) / lengths)

    def missing(v: Array) -> tuple[Array, float]:
        """Half the negative gradient, and the objective."""
        parts = each(_residual_products, x_mean, t_mean, v / scales)
        gradient = sum(part[0] for part in parts) / scales - alpha * v
        return gradient, float(sum(part[1] for part in parts)) + alpha * float(v @ v)

    operator = LinearOperator((d, d), matvec=product, dtype=np.float64)
    w = np.zeros(d)
    gradient, objective = missing(w)
    # the rest of constant targets is rounding
    constant = objective <= total * (8 * np.finfo(np.float64).eps * t_mean) ** 2
    left = 0.0 if constant or not gradient.any() else np.inf
    for _ in range(MOST_REFINEMENTS if left else 0):
        step, failed = cg(operator, gradient / lengths, rtol=1e-10, maxiter=20 * d)
        found = w + step / lengths
        gradient, lower = missing(found)
        moved = float(np.linalg.norm(found - w)) / max(float(np.linalg.norm(found)), np.finfo(np.float64).tiny)
        if moved >= left or lower > objective * (1 + 1e-9):  # the rest is rounding
            break
        w, objective, left = found, lower, moved
        if failed or left <= ENOUGH:
            break
    if left > LEAST_DIGITS:
        warnings.warn(
            f"ridge regression on {d:,} features stopped while its weights still moved by {left:.1g} of their length; "
            "a larger alpha or features of similar scale converge faster",
            ConvergenceWarning,
            stacklevel=3,
        )
    return w, objective


def _squared_lengths(X: Any, t: Array, omega: Array, x_mean: Array) -> tuple[int, Array]:
    """The number of rows, and Σ ω x² of the centred features."""
    squares = np.zeros(X.shape[1])
    for rows in row_chunks(*X.shape):
        block = X[rows]
        o = omega[rows]
        if isinstance(block, np.ndarray):
            away = block - x_mean
            squares += np.einsum("i,ij,ij->j", o, away, away)
        else:
            squares += _product(block.multiply(block).T, o) - 2.0 * x_mean * _product(block.T, o) + o.sum() * x_mean**2
    return X.shape[0], np.maximum(squares, 0.0)


def _residual_products(X: Any, t: Array, omega: Array, x_mean: Array, t_mean: float, w: Array) -> tuple[Array, float]:
    """Σ ω x r and Σ ω r² of the residuals r, with x and t centred."""
    r = (t - t_mean) - (_forward(X, w) - float(x_mean @ w))
    weighted = omega * r
    return np.asarray(_backward(X, weighted) - x_mean * weighted.sum()), float(weighted @ r)


def _normal_product(X: Any, t: Array, omega: Array, x_mean: Array, v: Array) -> Array:
    """Σ ω x x'v, with x centred."""
    r = omega * (_forward(X, v) - float(x_mean @ v))
    return np.asarray(_backward(X, r) - x_mean * r.sum())


def _forward(X: Any, v: Array) -> Array:
    """X·v, without a copy of X in float64."""
    scores = np.empty(X.shape[0])
    for rows in row_chunks(*X.shape):
        block = X[rows]
        scores[rows] = _product(block, v)
    return scores


def _backward(X: Any, r: Array) -> Array:
    """X'·r, without a copy of X in float64."""
    total = np.zeros(X.shape[1])
    for rows in row_chunks(*X.shape):
        block = X[rows]
        total += _product(block.T, r[rows])
    return total


def _product(block: Any, omega: Array) -> Array:
    return np.asarray(block @ omega, dtype=np.float64)
