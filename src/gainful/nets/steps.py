"""Adam, AdamW and SGD on the weights of a net.

The arithmetic is PyTorch's. Its optimizer classes are not used: their first step imports all of ``torch._dynamo``,
more than 1 s, to register with a compiler that is not in use.

This module imports PyTorch: import it on use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

MOMENTUM, BETAS, EPSILON = 0.9, (0.9, 0.999), 1e-8

Memory = dict[str, Tensor]


class Group:
    """Weights with the same weight decay, and what the optimizer remembers about each."""

    def __init__(self, weights: Sequence[Tensor], weight_decay: float):
        self.weights, self.weight_decay = list(weights), weight_decay
        self.memories: list[Memory] = []

    def memory_of(self, name: str) -> list[Tensor]:
        return [memory[name] for memory in self.memories]

    def gradients(self) -> list[Tensor]:
        return [weight.grad for weight in self.weights if weight.grad is not None]


class Steps:
    """Steps by the gradients of all weights: "adam", "adamw" or "sgd", which has Nesterov's momentum."""

    def __init__(self, optimizer: str, groups: Sequence[Group], learning_rate: float):
        self.optimizer, self.groups, self.learning_rate = optimizer, list(groups), learning_rate
        self.fused = groups[0].weights[0].device.type == "cuda"

    def zero_grad(self) -> None:
        for group in self.groups:
            for weight in group.weights:
                weight.grad = None

    @torch.no_grad()
    def step(self) -> None:
        for group in self.groups:
            if self.optimizer == "sgd":
                self._sgd(group)
            else:
                self._adam(group)

    def _sgd(self, group: Group) -> None:
        buffers: list[Tensor | None] = [*group.memory_of("momentum_buffer")] or [None] * len(group.weights)
        sgd(
            group.weights, group.gradients(), buffers, lr=self.learning_rate, weight_decay=group.weight_decay,
            momentum=MOMENTUM, dampening=0.0, nesterov=True, maximize=False,
        )  # fmt: skip
        group.memories = [{"momentum_buffer": buffer} for buffer in buffers if buffer is not None]

    def _adam(self, group: Group) -> None:
        if not group.memories:
            group.memories = [self._no_memory(weight) for weight in group.weights]
        (adamw if self.optimizer == "adamw" else adam)(
            group.weights, group.gradients(), group.memory_of("exp_avg"), group.memory_of("exp_avg_sq"), [],
            group.memory_of("step"),
            fused=self.fused or None, amsgrad=False, beta1=BETAS[0], beta2=BETAS[1], lr=self.learning_rate,
            weight_decay=group.weight_decay, eps=EPSILON, maximize=False,
        )  # fmt: skip

    def _no_memory(self, weight: Tensor) -> Memory:
        step = torch.zeros((), dtype=torch.float32, device=weight.device if self.fused else "cpu")
        return {"step": step, "exp_avg": torch.zeros_like(weight), "exp_avg_sq": torch.zeros_like(weight)}

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def memories(self) -> list[Memory]:
        """The memory of each weight, group by group; empty before the first step."""
        return [memory for group in self.groups for memory in group.memories]

    def remember(self, memories: Mapping[int, Memory]) -> None:
        """Continue from these memories, numbered as :meth:`memories` lists them."""
        if memories and sorted(memories) != list(range(sum(len(group.weights) for group in self.groups))):
            raise ValueError("there is not one memory for each weight")
        place = 0
        for group in self.groups:
            group.memories = []
            for weight in group.weights if memories else ():
                like = {"momentum_buffer": weight} if self.optimizer == "sgd" else self._no_memory(weight)
                if _kinds(memories[place]) != _kinds(like):
                    raise ValueError(f"memory {place} is not that of its weight")
                group.memories.append(self._to_device(memories[place], weight))
                place += 1

    def _to_device(self, memory: Memory, weight: Tensor) -> Memory:
        here = weight.device if self.fused else torch.device("cpu")
        return {name: value.to(here if name == "step" else weight.device) for name, value in memory.items()}


def _kinds(memory: Memory) -> dict[str, Any]:
    return {name: (value.shape, value.dtype) for name, value in memory.items()}
