"""How a fitted model scores, apart from how it was trained.

``Ranker._scorer`` returns one of these. ``predict`` and ``contributions`` evaluate it; exports translate it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gainful.data.log_scale import log_scale
from gainful.data.rows import Array, Columns, linear_scores
from gainful.errors import DataError
from gainful.nets.shapes import ARRAYS_OF_BLOCK
from gainful.trees.grow import contributions_of_rows, predict_rows
from gainful.trees.scoring import compiled_trees

NET_BLOCK = 256  # rows scored together; blocks have one fixed size, so a score does not depend on its neighbours
KERNEL_BLOCK = 2_000
LIST_ROWS = 4_096  # of lists of one length scored together
LIST_PAIRS = 1 << 20  # pairs of documents of one list compared at once, over all heads
ONE_THREAD = 1 << 18  # multiplications up to which OpenBLAS starts no threads, which cost more than a short list does
FEWEST_ROWS = 4  # of a product; where fewer would stay on one thread, threads pay
LAYER_EPSILON = 1e-5  # in the normalisation of a layer, as in training
LINK_NODES = 8  # of the quadrature along a link
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
    """What a model sees of a row: (x − shift)/scale, (n_features,) each.

    With ``unit``, x is first put on a logarithmic scale (:mod:`gainful.data.log_scale`).
    """

    shift: Array
    scale: Array
    unit: Array | None = None

    def __call__(self, X: Array) -> Array:
        x = X if self.unit is None else log_scale(X, self.unit)
        return np.asarray((x - self.shift) / self.scale)

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

    def of_sums(self, sums: Array) -> Array:
        """Scores from the plain sums, (n_rows, n_sums), whose start is added already."""
        if self.kind == "softmax":
            return np.asarray(_softmax(sums) @ self.relevance)
        return np.asarray(self.relevance[0] + _sigmoid(sums) @ np.diff(self.relevance))

    def slopes(self, sums: Array) -> Array:
        """The derivative of the score by each sum."""
        if self.kind == "softmax":
            chances = _softmax(sums)
            return np.asarray(chances * (self.relevance - (chances @ self.relevance)[:, None]))
        at_least = _sigmoid(sums)
        return np.asarray(at_least * (1.0 - at_least) * np.diff(self.relevance))

    def contributions(self, parts: Array) -> Array:
        """Contributions to the score from those to the sums, (n_rows, n_sums, n_features + 1), base last.

        The score moves from that of the base sums to that of the full ones along a straight line. On each stretch, a
        feature adds what it adds to the sums times the slope there (Aumann and Shapley's values of the link).
        """
        base = parts[:, :, -1] + (self.start if self.kind != "softmax" else 0.0)
        way = parts[:, :, :-1].sum(axis=2)
        shares = np.zeros((len(parts), parts.shape[2] - 1))
        nodes, weights = np.polynomial.legendre.leggauss(LINK_NODES)
        for node, weight in zip((nodes + 1.0) / 2.0, weights / 2.0, strict=True):
            shares += weight * np.einsum("rs,rsj->rj", self.slopes(base + node * way), parts[:, :, :-1])
        first, last = self.of_sums(base), self.of_sums(base + way)
        size = np.abs(shares).sum(axis=1)
        rest = (last - first - shares.sum(axis=1)) / np.where(size > 0.0, size, 1.0)  # of the quadrature
        return np.column_stack([shares + rest[:, None] * np.abs(shares), first])


def _softmax(sums: Array) -> Array:
    shifted = np.exp(sums - sums.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def _sigmoid(sums: Array) -> Array:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * sums)))


@dataclass(frozen=True)
class Trees:
    """``factor`` times the sum of the first ``iterations`` of a LightGBM booster, or ``link`` of its several sums."""

    booster: Any
    iterations: int
    n_jobs: int | None = None
    factor: float = 1.0
    link: Expectation | None = None

    additive = True

    def scores(self, X: Any) -> Array:
        compiled = compiled_trees(self.booster, self.iterations, len(X)) if isinstance(X, np.ndarray) else None
        if compiled is not None:
            predicted = compiled.scores(X, self.n_jobs)
        else:
            predicted = predict_rows(self.booster, X, self.iterations, self.n_jobs)
        return self.factor * predicted if self.link is None else self.link(predicted)

    def prepare(self) -> None:
        """Compile the trees now instead of when it has paid, for models that will score for a long time."""
        compiled_trees(self.booster, self.iterations, 0, at_once=True)

    def contributions(self, X: Any) -> Array:
        if self.link is None:
            return self.factor * contributions_of_rows(self.booster, X, self.iterations, self.n_jobs)
        return self.link.contributions(self.contributions_to_sums(X))

    def contributions_to_sums(self, X: Any) -> Array:
        """Those to each of the sums before the link, (n_rows, n_sums, n_features + 1), base last."""
        flat = contributions_of_rows(self.booster, X, self.iterations, self.n_jobs)
        return flat.reshape(X.shape[0], -1, X.shape[1] + 1)


@dataclass(frozen=True)
class Sum:
    """Σ_i factors[i]·parts[i](x): the score of a blend."""

    parts: tuple[Scorer, ...]
    factors: tuple[float, ...]

    @classmethod
    def of(cls, parts: Sequence[Scorer], factors: Sequence[float]) -> Scorer:
        """The sum, with all linear parts as one, and without sums in it; parts with factor 0 are left out."""
        used: list[tuple[Scorer, float]] = []
        for part, factor in zip(parts, factors, strict=True):
            inner = zip(part.parts, part.factors, strict=True) if isinstance(part, Sum) else [(part, 1.0)]
            used += [(one, factor * own) for one, own in inner if factor * own != 0.0]
        flat = [(part.fold_inputs(), factor) for part, factor in used if isinstance(part, Linear)]
        others = [(part, factor) for part, factor in used if not isinstance(part, Linear)]
        if flat:
            weights = np.sum([factor * part.weights for part, factor in flat], axis=0)
            joint = Linear(weights, float(sum(factor * part.intercept for part, factor in flat)))
            if not others:
                return joint
            others.append((joint, 1.0))
        return (
            cls(tuple(part for part, _ in others), tuple(factor for _, factor in others)) if others else Constant(0.0)
        )

    @property
    def additive(self) -> bool:
        return all(part.additive for part in self.parts)

    def prepare(self) -> None:
        for part in self.parts:
            prepare(part)

    def scores(self, X: Any) -> Array:
        total = np.zeros(X.shape[0])
        for part, factor in zip(self.parts, self.factors, strict=True):
            total += factor * part.scores(X)
        return total

    def scores_of_lists(self, X: Any, offsets: Array) -> Array:
        total = np.zeros(X.shape[0])
        for part, factor in zip(self.parts, self.factors, strict=True):
            total += factor * scores_of_lists(part, X, offsets)
        return total

    def contributions(self, X: Any) -> Array:
        total = np.zeros((X.shape[0], X.shape[1] + 1))
        for part, factor in zip(self.parts, self.factors, strict=True):
            total += factor * part.contributions(X)
        return total


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
class Block:
    """One layer of self-attention: context ↦ normalise(context + attention(context)), for each of k models.

    ``projection`` (k, w, 3w) and ``bias`` (k, 3w) give queries, keys and values; ``output`` (k, w, w) and
    ``output_bias`` (k, w) what is added; ``gain`` and ``shift`` (k, w) follow the normalisation.
    """

    projection: Array
    bias: Array
    output: Array
    output_bias: Array
    gain: Array
    shift: Array

    def __call__(self, model: int, context: Array, heads: int) -> Array:
        """Lists of one length, (lists, n, w)."""
        m, n, width = context.shape
        packed = product_of_lists(context, self.projection[model]) + self.bias[model]
        query, key, value = packed.reshape(m, n, 3, heads, -1).transpose(2, 0, 3, 1, 4)
        gathered = _attention(query, key, value).transpose(0, 2, 1, 3).reshape(m, n, width)
        added = context + (product_of_lists(gathered, self.output[model]) + self.output_bias[model])
        centred = added - added.mean(axis=2, keepdims=True)
        variance = (centred * centred).mean(axis=2, keepdims=True)
        return np.asarray(centred / np.sqrt(variance + LAYER_EPSILON) * self.gain[model] + self.shift[model])


def product_of_lists(lists: Array, W: Array) -> Array:
    """(lists, n, k) times (k, m), list by list: the product of a list does not depend on the others."""
    n = lists.shape[1]
    step = _rows_at_once(W.size, n)
    if step >= n:
        return np.asarray(lists @ W)
    found = np.empty((*lists.shape[:2], W.shape[1]))
    for start in range(0, n, step):
        np.matmul(lists[:, start : start + step], W, out=found[:, start : start + step])
    return found


def _rows_at_once(multiplications: int, otherwise: int) -> int:
    """Rows of a product that stays on one thread; ``otherwise`` if they are too few."""
    rows = ONE_THREAD // multiplications
    return rows if rows >= FEWEST_ROWS else otherwise


def _attention(query: Array, key: Array, value: Array) -> Array:
    """softmax(query·key/√size)·value, (lists, heads, n, size) each; some rows at a time, so that long lists fit."""
    _, heads, n, size = query.shape
    found, across = np.empty_like(value), key.transpose(0, 1, 3, 2)
    step = _rows_at_once(n * size, max(1, LIST_PAIRS // (heads * n)))
    for start in range(0, n, step):
        alike = (query[:, :, start : start + step] / np.sqrt(size)) @ across
        alike -= alike.max(axis=3, keepdims=True)
        np.exp(alike, out=alike)
        alike /= alike.sum(axis=3, keepdims=True)
        found[:, :, start : start + step] = alike @ value
    return found


@dataclass(frozen=True)
class ListNet(_NotAdditive):
    """A net that sees the documents of a list together; the mean of k models.

    z = the hidden layers of inputs(x), c = the attention blocks of the z of the whole list, and the score is the output
    layer of z·(1 + c). Layers are (W (k, n, m), b (k, m)). Nothing depends on the order of the documents.
    """

    layers: tuple[tuple[Array, Array], ...]
    blocks: tuple[Block, ...]
    output: tuple[Array, Array]
    heads: int
    activation: str
    inputs: Inputs

    @classmethod
    def of_weights(
        cls, weights: Sequence[Array], n_layers: int, heads: int, activation: str, inputs: Inputs
    ) -> ListNet:
        """From the weights in the order of training: layers, blocks, output."""
        wide = [np.asarray(weight, dtype=np.float64) for weight in weights]
        ends = 2 * n_layers
        starts = range(ends, len(wide) - 2, ARRAYS_OF_BLOCK)
        blocks = (Block(*wide[start : start + ARRAYS_OF_BLOCK]) for start in starts)
        layers = tuple(zip(wide[:ends:2], wide[1:ends:2], strict=True))
        return cls(layers, tuple(blocks), (wide[-2], wide[-1]), heads, activation, inputs)

    @property
    def n_models(self) -> int:
        return len(self.output[0])

    def scores(self, X: Any) -> Array:
        raise TypeError("a ListNet scores lists; use scores_of_lists")

    def scores_of_lists(self, X: Any, offsets: Array) -> Array:
        """In float64. Lists of one length go together, and a score does not depend on the other lists."""
        scores, counts = np.empty(X.shape[0]), np.diff(offsets)
        for n in np.unique(counts):
            starts = offsets[:-1][counts == n]
            step = max(1, LIST_ROWS // int(n))
            for first in range(0, len(starts), step):
                rows = (starts[first : first + step, None] + np.arange(n)).ravel()
                block = X[rows] if isinstance(X, np.ndarray) else X[rows].toarray()
                seen = self.inputs(np.asarray(block, dtype=np.float64))
                scores[rows] = self._of_same_length(seen.reshape(-1, int(n), seen.shape[1])).ravel()
        return scores

    def _of_same_length(self, x: Array) -> Array:
        """(lists, n, n_features) ↦ (lists, n)."""
        total = np.zeros(x.shape[:2])
        for model in range(self.n_models):
            z = x
            for W, b in self.layers:
                z = activate(self.activation, product_of_lists(z, W[model]) + b[model])
            context = z
            for block in self.blocks:
                context = block(model, context, self.heads)
            last, bias = self.output
            total += ((z + context * z) * last[model, :, 0]).sum(axis=2) + bias[model, 0]
        return total / self.n_models


def scores_of_lists(scorer: Scorer, X: Any, offsets: Array) -> Array:
    """Scores of the rows of lists, whether or not the scorer looks at lists."""
    return scorer.scores_of_lists(X, offsets) if isinstance(scorer, (ListNet, Sum)) else scorer.scores(X)


def prepare(scorer: Scorer) -> None:
    """Spend time now to score faster afterwards, where the scorer can."""
    if isinstance(scorer, (Trees, Sum)):
        scorer.prepare()


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
