"""How a fitted model scores, apart from how it was trained.

``Ranker._scorer`` returns one of these. ``predict`` and ``contributions`` evaluate it; exports translate it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gainful.data.rows import Array, Columns, linear_scores
from gainful.errors import DataError
from gainful.trees.grow import contributions_of_rows, predict_rows

NET_BLOCK = 256  # rows scored together; blocks have one fixed size, so a score does not depend on its neighbours
KERNEL_BLOCK = 2_000
LARGEST = float(np.finfo(np.float64).max)


class Scorer(Protocol):
    """A function from a checked feature matrix to one score per row."""

    @property
    def additive(self) -> bool:
        """Whether a score is a sum over features, so that there are contributions."""

    def scores(self, X: Any) -> Array: ...

    def contributions(self, X: Any) -> Array:
        """What each feature adds to each score, (n_rows, n_features + 1), the base last; only if ``additive``."""


class _NotAdditive:
    additive = False

    def contributions(self, X: Any) -> Array:
        raise TypeError(f"a {type(self).__name__} has no contributions")


@dataclass(frozen=True)
class Inputs:
    """What a model sees of a row: (x − shift)/scale, (n_features,) each."""

    shift: Array
    scale: Array

    def __call__(self, X: Array) -> Array:
        return np.asarray((X - self.shift) / self.scale)

    def after(self, first: Inputs) -> Inputs:
        """Both, ``first`` applied first."""
        return Inputs(first.shift + first.scale * self.shift, first.scale * self.scale)

    @property
    def idle(self) -> bool:
        return not self.shift.any() and bool((self.scale == 1.0).all())


@dataclass(frozen=True)
class Constant:
    """The same score for every row."""

    value: float
    additive = True

    def scores(self, X: Any) -> Array:
        return np.full(X.shape[0], self.value)

    def contributions(self, X: Any) -> Array:
        parts = np.zeros((X.shape[0], X.shape[1] + 1))
        parts[:, -1] = self.value
        return parts


@dataclass(frozen=True)
class Linear:
    """inputs(x)·weights + intercept."""

    weights: Array
    intercept: float
    inputs: Inputs | None = None  # None: the features as they are
    additive = True

    def fold_inputs(self) -> Linear:
        """The same scores from the features as they are."""
        if self.inputs is None:
            return self
        weights = self.weights / self.inputs.scale
        return Linear(weights, float(self.intercept - weights @ self.inputs.shift))

    def scores(self, X: Any) -> Array:
        plain = self.fold_inputs()
        return linear_scores(X, plain.weights) + plain.intercept

    def contributions(self, X: Any) -> Array:
        plain = self.fold_inputs()
        parts = np.empty((X.shape[0], len(plain.weights) + 1))
        parts[:, :-1] = X if isinstance(X, np.ndarray) else X.toarray()
        parts[:, :-1] *= plain.weights
        parts[:, -1] = plain.intercept
        return parts


@dataclass(frozen=True)
class Steps:
    """Σ_t weights[t]·[x_{features[t]} ≥ thresholds[t]]: a sum of step functions of single features."""

    features: Array
    thresholds: Array
    weights: Array
    additive = True

    def scores(self, X: Any) -> Array:
        scores = np.zeros(X.shape[0])
        for _, part in self._parts(X):
            scores += part
        return scores

    def contributions(self, X: Any) -> Array:
        parts = np.zeros((X.shape[0], X.shape[1] + 1))
        for j, part in self._parts(X):
            parts[:, j] = part
        return parts

    def _parts(self, X: Any) -> Iterator[tuple[int, Array]]:
        """Each feature that has steps, with what they add to the score of each row."""
        columns = Columns(X)
        for j in np.unique(self.features):
            mine = self.features == j
            order = np.argsort(self.thresholds[mine], kind="stable")
            heights = np.concatenate([[0.0], np.cumsum(self.weights[mine][order])])
            yield int(j), heights[np.searchsorted(self.thresholds[mine][order], columns[j], side="right")]


@dataclass(frozen=True)
class Expectation:
    """Expected relevance from the sums of several trees each: Σ_k Pr(k) relevance[k].

    "softmax": Pr is the softmax of K sums. "cumulative": sum k plus ``start[k]`` is the log odds of at least k.
    """

    kind: str
    relevance: Array
    start: Array

    def __call__(self, predicted: Array) -> Array:
        """Scores from what LightGBM predicts: the probabilities of a softmax, the plain sums otherwise."""
        if self.kind == "softmax":
            return np.asarray(predicted @ self.relevance)
        from scipy.special import expit  # SciPy is slow to load, and no other model needs it

        at_least = expit(predicted.reshape(-1, len(self.start)) + self.start)
        return np.asarray(self.relevance[0] + at_least @ np.diff(self.relevance))  # summed by parts


@dataclass(frozen=True)
class Trees:
    """``factor`` times the sum of the first ``iterations`` of a LightGBM booster, or ``link`` of its several sums."""

    booster: Any
    iterations: int
    n_jobs: int | None = None
    factor: float = 1.0
    link: Expectation | None = None

    @property
    def additive(self) -> bool:
        return self.link is None

    def scores(self, X: Any) -> Array:
        predicted = predict_rows(self.booster, X, self.iterations, self.n_jobs)
        return self.factor * predicted if self.link is None else self.link(predicted)

    def contributions(self, X: Any) -> Array:
        """With a link, those to the sums, (n_rows, sums · (n_features + 1))."""
        return self.factor * contributions_of_rows(self.booster, X, self.iterations, self.n_jobs)


@dataclass(frozen=True)
class Net(_NotAdditive):
    """Fully connected layers (W (n, m), b (m,)) with an activation between them, on standardised features."""

    layers: tuple[tuple[Array, Array], ...]
    activation: str
    inputs: Inputs

    @classmethod
    def of_weights(cls, weights: list[Array], activation: str, inputs: Inputs) -> Net:
        """From W_1, b_1, W_2, b_2, …"""
        wide = [np.asarray(weight, dtype=np.float64) for weight in weights]
        return cls(tuple(zip(wide[::2], wide[1::2], strict=True)), activation, inputs)

    def scores(self, X: Any) -> Array:
        """In float64, by blocks of one size."""
        scores, block = np.empty(X.shape[0]), np.zeros((NET_BLOCK, X.shape[1]))
        *hidden, (last, bias) = self.layers
        for start in range(0, len(scores), NET_BLOCK):
            rows = X[start : start + NET_BLOCK]
            n = rows.shape[0]
            block[:n] = rows if isinstance(rows, np.ndarray) else rows.toarray()
            z = self.inputs(block)
            for W, b in hidden:
                z = activate(self.activation, z @ W + b)
            scores[start : start + n] = ((z * last[:, 0]).sum(axis=1) + bias[0])[:n]
        return scores


def activate(name: str, z: Array) -> Array:
    """The functions between layers, as PyTorch has them; written into ``z``."""
    if name == "relu":
        return np.maximum(z, 0.0, out=z)
    if name == "tanh":
        return np.asarray(np.tanh(z, out=z))
    sigmoid = 0.5 * (1.0 + np.tanh(0.5 * z))
    return np.asarray(sigmoid if name == "sigmoid" else z * sigmoid)


@dataclass(frozen=True)
class Kernel(_NotAdditive):
    """Σ_l weights[l] k(z(x), landmarks[l]) with z(x) = (x − shift)·factor; scikit-learn's pairwise kernels by name."""

    kernel: str
    settings: Mapping[str, float]
    landmarks: Any  # as the kernel sees them
    weights: Array
    shift: Array
    factor: Array

    @property
    def inputs(self) -> Inputs:
        """A feature that was constant must not count: in units as large as a number can be, nothing is left of it."""
        scale = np.divide(1.0, self.factor, out=np.full(len(self.factor), LARGEST), where=self.factor > 0.0)
        return Inputs(self.shift, scale)

    def scores(self, X: Any) -> Array:
        scores = np.empty(X.shape[0])
        for start in range(0, X.shape[0], KERNEL_BLOCK):
            block = slice(start, start + KERNEL_BLOCK)
            scores[block] = self.similarities(X[block]) @ self.weights
        return scores

    def similarities(self, X: Any) -> Array:
        """k(z(x), landmark) of each row and landmark."""
        seen = scale_rows(X, self.shift, self.factor)
        if self.kernel == "rbf" and isinstance(seen, np.ndarray) and isinstance(self.landmarks, np.ndarray):
            return _gaussian(seen, self.landmarks, **self.settings)
        from sklearn.metrics.pairwise import pairwise_kernels  # slow to load, and no other model needs it

        return np.asarray(pairwise_kernels(seen, self.landmarks, metric=self.kernel, **self.settings))


def _gaussian(X: Array, landmarks: Array, gamma: float) -> Array:
    """scikit-learn's ``rbf_kernel``, to the last digit, without the second that loading its metrics takes."""
    squares = -2.0 * (X @ landmarks.T)
    squares += np.einsum("ij,ij->i", X, X)[:, None]
    squares += np.einsum("ij,ij->i", landmarks, landmarks)
    np.maximum(squares, 0.0, out=squares)
    squares *= -gamma
    return np.exp(squares, out=squares)


def scale_rows(X: Any, shift: Array, factor: Array) -> Any:
    """(x − shift)·factor in float64: the small eigenvalues of a float32 kernel are rounding errors."""
    with np.errstate(over="ignore"):
        if not isinstance(X, np.ndarray) and not shift.any():
            scaled = X.astype(np.float64).multiply(factor).tocsr()
            values = scaled.data
        else:
            scaled = values = (X if isinstance(X, np.ndarray) else X.toarray()).astype(np.float64)
            scaled -= shift
            scaled *= factor
    if not np.isfinite(values).all():
        raise DataError("X holds values that overflow in units of the training data's standard deviations")
    return scaled
