"""Nets of fully connected layers on PyTorch, trained on any loss.

A loss is not differentiated here: it gives its gradient by score, which is propagated back through the net. On the
CPU that is the compiled loss; on a GPU its tensor form if it has one (:mod:`gainful.losses.tensors`), else the compiled
one by a round trip of one number per row.

The queries are shuffled once and cut into batches; each epoch takes the batches in a new order. So a loss is bound to
the grades of each batch once. Batches are gathered from X as they come and standardised there: X is not copied, except
to a GPU. All random numbers come from this module's own generators; PyTorch's global state does not change.

This module imports PyTorch: import it on use.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gainful.compute import query_loop
from gainful.data.dataset import RankingData
from gainful.data.log_scale import log_scale
from gainful.data.query_weights import query_shares
from gainful.data.rows import Array, read_only, rows_of_queries
from gainful.errors import DataError
from gainful.losses import Loss
from gainful.losses.tensors import fuses, tensor_loss
from gainful.nets.affine import affine
from gainful.nets.device import tensor_device
from gainful.nets.epochs import Epochs
from gainful.nets.state import NetState
from gainful.nets.steps import Group, Steps
from gainful.solvers.certificate import ConvergenceWarning
from gainful.training.monitor import Monitor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "silu": F.silu,
}  # fmt: skip
MEMORY_SHARE = 0.6  # of a GPU's free memory that X may take; if it needs more, batches are sent one by one
SCORE_ROWS = 1 << 17  # rows scored together on a GPU
ORDER, DROPOUT = 1, 2  # streams of random numbers


@dataclass(frozen=True)
class NetSettings:
    """How a net is built and trained."""

    hidden: tuple[int, ...]
    activation: str
    dropout: float
    batch_queries: int
    optimizer: str
    learning_rate: float
    weight_decay: float
    epochs: int
    device: str
    dtype: str
    seed: int
    output_scale: float = 1.0


@dataclass(frozen=True)
class Inputs:
    """What a net sees of a row: (x − shift)/scale, in ``dtype``, (n_features,) each.

    With ``unit``, x is first put on a logarithmic scale (:mod:`gainful.data.log_scale`).
    """

    shift: Array
    scale: Array
    dtype: str
    unit: Array | None = None

    def of(self, X: Any, rows: Array | slice) -> Array:
        """These rows of X, dense or CSR, as a new array."""
        block = X[rows] if isinstance(X, np.ndarray) else X[rows].toarray()
        if self.unit is not None:
            block = log_scale(block, self.unit)
        elif isinstance(rows, slice) and isinstance(X, np.ndarray):
            block = block.copy()
        block -= self.shift.astype(block.dtype)
        block /= self.scale.astype(block.dtype)
        with np.errstate(over="ignore"):  # without scaling; the loss is not finite then, which is reported
            return np.asarray(block, dtype=self.dtype)


class Net:
    """Scores of standardised rows. ``weights`` are W₁ (d, h₁), b₁ (h₁,), W₂, b₂, …; the last layer has one output."""

    def __init__(self, n_features: int, settings: NetSettings):
        self.activation = settings.activation
        self.dropout = settings.dropout
        self.device = torch.device(tensor_device(settings.device))
        self.dtype = getattr(torch, settings.dtype)
        self.weights = first_weights(n_features, settings, self.dtype, self.device)
        self.generator = torch.Generator(self.device).manual_seed(own_seed(settings.seed, DROPOUT))

    def layout(self, counts: Array) -> None:
        """Where the lists are does not matter: rows are scored one by one."""

    def score_blocks(self, offsets: Array) -> Iterator[tuple[slice, None]]:
        """Rows to score together."""
        for start in range(0, int(offsets[-1]), SCORE_ROWS):
            yield slice(start, min(start + SCORE_ROWS, int(offsets[-1]))), None

    def __call__(self, x: Tensor, train: bool = False, layout: None = None) -> Tensor:
        hidden = list(zip(self.weights[:-2:2], self.weights[1:-2:2], strict=True))
        drops = train and self.dropout > 0.0
        last = hidden.pop() if hidden and not drops and fuses(x) else None
        for W, b in hidden:
            x = ACTIVATIONS[self.activation](affine(x, W, b))
            if drops:
                x = x * self._mask(x)
        if last is not None:
            from gainful.nets.fused_output import fused_output

            return fused_output(x, *last, self.weights[-2], self.weights[-1], self.activation)
        return affine(x, self.weights[-2], self.weights[-1])[:, 0]

    def _mask(self, x: Tensor) -> Tensor:
        drawn = torch.rand(x.shape, generator=self.generator, dtype=self.dtype, device=self.device)
        return (drawn >= self.dropout).to(self.dtype) / (1.0 - self.dropout)

    def arrays(self) -> list[Array]:
        """A copy of the weights."""
        return [weight.detach().cpu().numpy().copy() for weight in self.weights]


def first_weights(n_features: int, settings: NetSettings, dtype: torch.dtype, device: torch.device) -> list[Tensor]:
    """Uniform with the variance that keeps signals in range (He for rectifiers, Glorot else); biases 0.

    Those of the output layer are multiplied by ``output_scale``. Drawn on the CPU, so that every device starts from the
    same net.
    """
    generator = torch.Generator().manual_seed(settings.seed)
    sizes = [n_features, *settings.hidden, 1]
    weights = []
    for place, (n, m) in enumerate(pairwise(sizes)):
        rectified = settings.activation in ("relu", "silu") and place < len(sizes) - 2
        limit = (6.0 / n) ** 0.5 if rectified else (6.0 / (n + m)) ** 0.5
        drawn = torch.rand((n, m), generator=generator, dtype=torch.float64) * (2.0 * limit) - limit
        weights += [drawn, torch.zeros(m)]
    weights[-2] *= settings.output_scale
    return [weight.to(device=device, dtype=dtype).requires_grad_() for weight in weights]


def own_seed(seed: int, stream: int) -> int:
    """The seed of one of several independent streams of random numbers."""
    return int(np.random.SeedSequence([seed, stream]).generate_state(1)[0])


# -- losses on batches -------------------------------------------------------------------------------------------------


class BatchLoss(Protocol):
    """The loss of one batch."""

    def __call__(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Scores (n,) → values (m,), gradient (n,)."""

    def stage(self, iteration: int, total: int) -> None:
        """Set the iteration, 1 … ``total``, for a loss that changes during training."""


class HostLoss:
    """The compiled loss of one batch; scores may be on any device."""

    def __init__(self, loss: Loss, data: RankingData):
        self.offsets, self.threads, self.staged = read_only(data.offsets), loss.entry.threads, loss.staged
        self.bound: Any = loss.bind_to(data)
        self.fill = self.bound

    def stage(self, iteration: int, total: int) -> None:
        if self.staged:
            self.fill = self.bound.at(iteration, total)

    def __call__(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        plain = read_only(scores.detach().to("cpu", torch.float64).numpy())
        values, gradient = query_loop.values_and_gradient(self.fill, self.offsets, plain, self.threads)
        return torch.from_numpy(values).to(scores), torch.from_numpy(gradient).to(scores)


def batch_loss(loss: Loss, data: RankingData, at: Tensor, tensors: bool) -> BatchLoss:
    """The loss of these queries: in tensors where wanted and possible, else compiled.

    Weights of documents, initial scores, preferences and clicks are not known to the forms in tensors.
    """
    plain = not (data.has_document_weights or data.has_init_scores or data.has_pairs or data.click_weights is not None)
    found = tensor_loss(loss, data.y, data.offsets, at) if tensors and plain else None
    return HostLoss(loss, data) if found is None else found


# -- batches -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Batch:
    """Some queries: their rows in X, their loss, and what weighs it (per query and per row, summing to 1 in mean).

    ``layout`` is where their lists are, for a net that sees lists.
    """

    rows: Array
    loss: BatchLoss
    query_weights: Tensor
    row_weights: Tensor
    layout: Any = None


class Batches:
    """The training queries, shuffled and cut into batches of at most ``batch_queries``."""

    def __init__(
        self,
        loss: Loss,
        data: RankingData,
        settings: NetSettings,
        inputs: Inputs,
        at: Tensor,
        layout: Callable[[Array], Any] = lambda counts: None,
    ):
        self.X, self.inputs, self.at = data.X, inputs, at
        shuffled = np.random.default_rng(settings.seed).permutation(data.n_queries)
        n = math.ceil(data.n_queries / settings.batch_queries)
        tensors = settings.device != "cpu"
        weights = query_shares(data) * data.n_queries
        self.all = []
        judged = data.replace(X=np.empty((data.n_rows, 0)))  # what a loss needs of the data
        for queries in np.array_split(shuffled, n):
            queries = np.sort(queries)
            counts, rows = data.counts[queries], rows_of_queries(data.offsets, queries)
            own = weights[queries] / len(queries)
            self.all.append(
                Batch(
                    rows,
                    batch_loss(loss, judged[queries], at, tensors),
                    torch.as_tensor(own, dtype=at.dtype, device=at.device),
                    torch.as_tensor(np.repeat(own, counts), dtype=at.dtype, device=at.device),
                    layout(counts),
                )
            )
        self.share = [len(batch.query_weights) / data.n_queries for batch in self.all]
        self.resident = self._send_all() if tensors and self._fits(data) else None

    def __len__(self) -> int:
        return len(self.all)

    @property
    def on_device(self) -> bool:
        """Whether all that a step needs is on the device."""
        return self.resident is not None and not any(isinstance(batch.loss, HostLoss) for batch in self.all)

    def x(self, place: int) -> Tensor:
        """The inputs of one batch."""
        return self._send(place) if self.resident is None else self.resident[place]

    def _send(self, place: int) -> Tensor:
        return torch.from_numpy(self.inputs.of(self.X, self.all[place].rows)).to(self.at.device)

    def _send_all(self) -> list[Tensor]:
        return [self._send(place) for place in range(len(self.all))]

    def _fits(self, data: RankingData) -> bool:
        if self.at.device.type == "cpu":
            return True
        free, _ = torch.cuda.mem_get_info(self.at.device)
        return bool(data.n_rows * data.n_features * self.at.element_size() <= MEMORY_SHARE * free)


# -- training ----------------------------------------------------------------------------------------------------------


def train_net(
    loss: Loss,
    data: RankingData,
    inputs: Inputs,
    settings: NetSettings,
    monitor: Monitor,
    validate: Callable[[list[Array]], float] | None = None,
    make: Callable[[int, Any], Any] = Net,
) -> list[Array]:
    """The weights of the epoch that the monitor keeps: the best on the validation data, or the last.

    ``make`` builds the net from the number of features and the settings: :class:`Net`, or one that sees lists.
    ``validate`` measures weights on the host; without it, validation data are scored on the device. A loss
    with a schedule reaches its final form only in the second half of it, so only those epochs are measured.
    """
    restoring = nullcontext if monitor.checkpoint is None else monitor.checkpoint.restoring
    found = None if monitor.checkpoint is None else monitor.checkpoint.state
    if found is not None:  # random_state may have drawn another seed
        with restoring():
            settings = replace(settings, seed=int(np.uint64(found["seed"])))
    net = make(data.n_features, settings)
    batches = Batches(loss, data, settings, inputs, net.weights[0].detach().ravel()[:0], net.layout)
    optimizer = _optimizer(net, settings)
    run_epoch = Epochs(net, batches, optimizer, changes=loss.staged)
    order = np.random.default_rng([settings.seed, ORDER])
    state = NetState(net, optimizer, order, settings.seed, monitor)
    kept: list[Array] = net.arrays()
    if found is not None:
        with restoring():
            kept = state.restore(found)
    done = settings.epochs if monitor.out_of_patience else len(monitor.history)
    with monitor:
        for epoch in range(done + 1, settings.epochs + 1):
            for batch in batches.all:
                batch.loss.stage(epoch, settings.epochs)
            objective = run_epoch(order.permutation(len(batches)))
            weights = net.arrays()
            if _ran_away(objective, weights, epoch, monitor):
                break
            judged = not loss.scheduled or epoch > 0.5 * settings.epochs
            validation = _validation(net, inputs, monitor, validate, weights) if judged else None
            # The monitor decides the same way; but Ctrl-C may come from its callback, so decide before calling it.
            if monitor.is_best(validation):
                kept = weights
            stop = monitor.step(objective=objective, validation=validation)
            state.after_epoch(kept)
            if stop:
                break
    state.save_if_interrupted()
    return kept


def _ran_away(objective: float, weights: list[Array], epoch: int, monitor: Monitor) -> bool:
    """Whether this epoch ended in NaN or infinite numbers; an error if no epoch was measured before it."""
    sound = all(np.isfinite(weight).all() for weight in weights)
    if np.isfinite(objective) and sound:
        return False
    what = f"the loss became {objective}" if not np.isfinite(objective) else "the weights became infinite"
    advice = "take a lower learning_rate, and scale='standard' where features have different units"
    if not np.isfinite(monitor.best_value):
        raise DataError(f"{what} in epoch {epoch}; {advice}")
    warnings.warn(
        f"{what} in epoch {epoch}, and training stopped; the model is that of epoch {monitor.best_iteration}, "
        f"the best on the validation data; {advice}",
        ConvergenceWarning,
        stacklevel=2,
    )
    return True


def _validation(
    net: Any, inputs: Inputs, monitor: Monitor, validate: Callable[[list[Array]], float] | None, weights: list[Array]
) -> float | None:
    if monitor.valid is None:
        return None
    if validate:
        return validate(weights)
    return monitor.evaluate(scores_of(net, monitor.valid.X, inputs, monitor.valid.offsets))


def scores_of(net: Any, X: Any, inputs: Inputs, offsets: Array | None = None) -> Array:
    """Scores of all rows, on the device of the net; of an ensemble their mean. A net that sees lists needs offsets."""
    scores = np.empty(X.shape[0])
    with torch.no_grad():
        for rows, layout in net.score_blocks(np.array([0, len(scores)]) if offsets is None else offsets):
            found = net(torch.from_numpy(inputs.of(X, rows)).to(net.device), layout=layout)
            scores[rows] = found.view(-1, found.shape[-1]).mean(dim=0).cpu().numpy()
    return scores


def _optimizer(net: Any, settings: NetSettings) -> Steps:
    """Weight decay applies to the matrices only, not to biases."""
    dimensions = net.weights[0].ndim
    matrices = [weight for weight in net.weights if weight.ndim == dimensions]
    biases = [weight for weight in net.weights if weight.ndim != dimensions]
    groups = [Group(matrices, settings.weight_decay), Group(biases, 0.0)]
    if settings.weight_decay == 0.0:
        groups = [Group(matrices + biases, 0.0)]
    return Steps(settings.optimizer, groups, settings.learning_rate)
