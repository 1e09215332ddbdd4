"""Losses on linear models with the features on a GPU: the counterpart of :class:`gainful.linear.risk.LinearRisk`.

X is sent once. Sums are in float64: X is kept in float64 if memory allows, otherwise in its stored type and widened
block by block.

This module imports PyTorch: import it only where needed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from gainful.data.dataset import RankingData
from gainful.data.query_weights import query_shares
from gainful.data.rows import Array
from gainful.errors import ParameterError
from gainful.losses import Loss
from gainful.nets.device import tensor_device
from gainful.nets.graphs import Graph
from gainful.nets.train import HostLoss, batch_loss

WIDE_SHARE = 0.5  # fraction of the free memory that X may take in float64
BLOCK_BYTES = 1 << 25  # size of a widened block: small enough for the cache of a GPU
SEND_ROWS = 1 << 16


class TensorLinearRisk:
    """R(w) = Σ_q ω_q L_q(X_q w) on a device."""

    def __init__(
        self,
        loss: Loss,
        data: RankingData,
        weights: Array | None = None,
        *,
        device: str,
        wide: bool | None = None,
    ):
        if not isinstance(data.X, np.ndarray):
            raise ParameterError(
                f"device={device!r} takes dense features, but these are sparse; use device='cpu', which takes both"
            )
        self.device = torch.device(tensor_device(device))
        at = torch.zeros(0, dtype=torch.float64, device=self.device)
        self.X = _send(data.X, self.device, self._has_room(data) if wide is None else wide)
        self.batch = batch_loss(loss, data, at, tensors=True)
        shares = query_shares(data) if weights is None else weights
        self.query_weights = torch.as_tensor(shares, device=self.device)
        self.row_weights = torch.repeat_interleave(
            self.query_weights, torch.as_tensor(np.array(data.counts), device=self.device)
        )
        self.n_features = data.n_features
        self.w = torch.zeros(data.n_features, dtype=torch.float64, device=self.device)
        self.graph: Graph[tuple[Tensor, Tensor]] | None = Graph(self.device) if self._records(loss) else None

    def _records(self, loss: Loss) -> bool:
        """Whether an evaluation is recorded as a CUDA graph: it is short, and starting its kernels takes as long."""
        return self.device.type == "cuda" and not loss.staged and not isinstance(self.batch, HostLoss)

    def _has_room(self, data: RankingData) -> bool:
        if self.device.type == "cpu":
            return False
        free, _ = torch.cuda.mem_get_info(self.device)
        return bool(8 * data.n_rows * data.n_features <= WIDE_SHARE * free)

    def at(self, iteration: int, total: int) -> TensorLinearRisk:
        """This risk, at iteration 1 … ``total`` of a staged loss."""
        self.batch.stage(iteration, total)
        return self

    def value_and_gradient(self, w: Array) -> tuple[float, Array, Array]:
        value, gradient, scores = self._at(w)
        return value, gradient, scores.cpu().numpy()

    def along(self, scores: Array, direction: Array, t: float) -> tuple[float, float]:
        d = torch.as_tensor(np.asarray(direction, dtype=np.float64), device=self.device)
        s = torch.as_tensor(np.asarray(scores, dtype=np.float64), device=self.device)
        values, slopes = self.batch(s + t * d)
        return float(self.query_weights @ values), float((slopes * self.row_weights) @ d)

    def without_scores(self, w: Array) -> tuple[float, Array]:
        """Value and gradient; the scores stay on the device."""
        value, gradient, _ = self._at(w)
        return value, gradient

    def _at(self, w: Array) -> tuple[float, Array, Tensor]:
        self.w.copy_(torch.from_numpy(np.array(w, dtype=np.float64)))
        result, scores = self._compute() if self.graph is None else self.graph(self._compute)
        found = result.cpu().numpy()
        return float(found[0]), found[1:], scores

    def _compute(self) -> tuple[Tensor, Tensor]:
        """The value followed by the gradient, and the scores."""
        scores = torch.cat([block @ self.w for block, _ in self._blocks()])
        values, slopes = self.batch(scores)
        slopes = slopes * self.row_weights
        gradient = torch.zeros_like(self.w)
        for block, rows in self._blocks():
            gradient += slopes[rows] @ block
        return torch.cat([(self.query_weights @ values)[None], gradient]), scores

    def _blocks(self) -> Iterator[tuple[Tensor, slice]]:
        """X in float64: at once if it is stored so, otherwise block by block."""
        n, d = self.X.shape
        step = n if self.X.dtype == torch.float64 else max(1, BLOCK_BYTES // (8 * d))
        for start in range(0, n, step):
            rows = slice(start, min(start + step, n))
            yield self.X[rows].to(torch.float64), rows


def _send(X: Array, device: torch.device, wide: bool) -> Tensor:
    """Send X to the device block by block, so that the host holds no second copy."""
    kind = torch.float64 if wide or X.dtype == np.float64 else torch.float32
    sent = torch.empty(X.shape, dtype=kind, device=device)
    for start in range(0, len(X), SEND_ROWS):
        block = np.array(X[start : start + SEND_ROWS])  # writable, as PyTorch requires
        sent[start : start + SEND_ROWS] = torch.from_numpy(block).to(device)
    return sent
