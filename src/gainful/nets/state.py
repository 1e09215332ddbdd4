"""What a checkpoint holds of a net in training: weights, the optimizer's memory and the random streams.

This module imports PyTorch: import it on use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from gainful.data.rows import Array
from gainful.nets.steps import Steps
from gainful.training.monitor import Monitor


class NetState:
    """The state of one training, recorded at the end of each epoch and restored on resuming.

    Ctrl-C may come within an epoch. So the state after every epoch is kept in memory, and saved when a checkpoint is
    due or training was interrupted.
    """

    def __init__(self, net: Any, optimizer: Steps, order: np.random.Generator, seed: int, monitor: Monitor):
        self.net, self.optimizer, self.order, self.seed, self.monitor = net, optimizer, order, seed, monitor
        self.latest: dict[str, Any] | None = None

    def after_epoch(self, kept: list[Array]) -> None:
        """Record the state; ``kept`` are the weights of the best epoch."""
        if self.monitor.checkpoint is None:
            return
        self.latest = self._snapshot(kept)
        if self.monitor.checkpoint.due():
            self.monitor.checkpoint.save(self.latest)

    def save_if_interrupted(self) -> None:
        if self.monitor.checkpoint is not None and self.monitor.interrupted and self.latest is not None:
            self.monitor.checkpoint.save(self.latest)

    def _snapshot(self, kept: list[Array]) -> dict[str, Any]:
        arrays = {f"weights_{i}": weight for i, weight in enumerate(self.net.arrays())}
        arrays |= {f"kept_{i}": weight for i, weight in enumerate(kept)}
        for i, memory in enumerate(self.optimizer.memories()):
            arrays |= {f"memory_{i}_{name}": value.cpu().numpy().copy() for name, value in memory.items()}
        return arrays | {
            "dropout": self.net.generator.get_state().numpy().copy(),
            "order": self.order.bit_generator.state,
            "seed": self.seed,
            "monitor": self.monitor.record(),
        }

    def restore(self, state: Mapping[str, Any]) -> list[Array]:
        """Restore a recorded state; returns the weights of the best epoch."""
        _check_shapes(state, [tuple(weight.shape) for weight in self.net.weights])
        with torch.no_grad():
            for i, weight in enumerate(self.net.weights):
                weight.copy_(torch.from_numpy(state[f"weights_{i}"]))
        self.net.generator.set_state(torch.from_numpy(state["dropout"]))
        self.order.bit_generator.state = state["order"]
        memories: dict[int, dict[str, Any]] = {}
        for name in state:
            if name.startswith("memory_"):
                _, place, what = name.split("_", 2)
                memories.setdefault(int(place), {})[what] = torch.from_numpy(state[name])
        self.optimizer.remember(memories)
        self.monitor.restore(state["monitor"])
        self.latest = dict(state)
        return [state[f"kept_{i}"] for i in range(len(self.net.weights))]


def _check_shapes(state: Mapping[str, Any], shapes: list[tuple[int, ...]]) -> None:
    """Raise unless every array has the shape of its weight: PyTorch would stretch it."""
    for name, value in state.items():
        kind, _, rest = name.partition("_")
        if kind in ("weights", "kept") and np.shape(value) != shapes[int(rest)]:
            raise ValueError(f"{name} has the wrong shape")
