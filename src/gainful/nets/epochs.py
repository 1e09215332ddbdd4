"""Epochs of training: one step per batch.

On a GPU a step is some forty small kernels, and starting them from Python takes longer than they run. So from the
second epoch on, the step of each batch is a CUDA graph, recorded once and started as a whole. Its arithmetic is that of
the plain step. Steps that need the host (batches sent one by one, losses without a form in tensors, losses that
change from one epoch to the next) stay plain.

This module imports PyTorch: import it on use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from gainful.data.rows import Array
from gainful.nets.graphs import Graph

MOST_GRAPHS = 2048  # a graph takes some memory


class Epochs:
    """Calls train a net for one epoch."""

    def __init__(self, net: Any, batches: Any, optimizer: Any, *, changes: bool = False):
        """``changes``: the loss changes from one epoch to the next."""
        self.net, self.batches, self.optimizer = net, batches, optimizer
        self.total = torch.zeros((), dtype=torch.float64, device=net.device)
        self.graphs: list[Graph[None]] = []
        if net.device.type == "cuda" and not changes and batches.on_device and len(batches) <= MOST_GRAPHS:
            pool = torch.cuda.graph_pool_handle()  # nothing in it outlives a step
            self.graphs = [Graph(net.device, pool=pool, generator=net.generator) for _ in range(len(batches))]

    def __call__(self, order: Array | Sequence[int]) -> float:
        """One step per batch, in this order; returns the mean loss of the queries, each before its batch's step."""
        self.total.zero_()
        for place in map(int, order):
            if self.graphs:
                self.graphs[place](partial(self._step, place))
            else:
                self._step(place)
        return float(self.total)

    def _step(self, place: int) -> None:
        with tensor_cores(self.net):
            self._plain_step(place)

    def _plain_step(self, place: int) -> None:
        batch = self.batches.all[place]
        scores = self.net(self.batches.x(place), train=True, layout=batch.layout)
        slopes = torch.empty_like(scores)
        each = scores.detach().view(-1, len(batch.row_weights))  # the models of an ensemble have a loss each
        for own, slope in zip(each, slopes.view_as(each), strict=True):
            values, slope[:] = batch.loss(own)
            self.total += torch.dot(values, batch.query_weights) * (self.batches.share[place] / len(each))
        self.optimizer.zero_grad()
        # The gradient by the scores, as that of a product: given directly, PyTorch would first import sympy, 0.4 s.
        torch.autograd.backward(torch.dot(scores.ravel(), (slopes * batch.row_weights).ravel()))
        self.optimizer.step()


@contextmanager
def tensor_cores(net: Any) -> Iterator[None]:
    """Products in float32 on a GPU may use its tensor cores, which round their factors to 11 bits."""
    if net.device.type != "cuda":
        yield
        return
    settings = torch.backends.cuda.matmul
    before, settings.allow_tf32 = settings.allow_tf32, True
    try:
        yield
    finally:
        settings.allow_tf32 = before
