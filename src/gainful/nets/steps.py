"""Adam, AdamW and SGD on the weights of a net.

The arithmetic is PyTorch's. Its optimizer classes are left out: their first step imports the whole of
``torch._dynamo``, more than 1 s, to tell a compiler about themselves that is not in use.

This module imports PyTorch: import it on use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

MOMENTUM, BETAS, EPSILON = 0.9, (0.9, 0.999), 1e-8

Memory = dict[str, Tensor]


class Group:
    """Some weights that share a weight decay, and what the optimizer remembers of each."""

    def __init__(self, weights: Sequence[Tensor], weight_decay: float):
        self.weights, self.weight_decay = list(weights), weight_decay
        self.memories: list[Memory] = []

    def kept(self, name: str) -> list[Tensor]:
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
        buffers: list[Tensor | None] = [*group.kept("momentum_buffer")] or [None] * len(group.weights)
        sgd(
            group.weights, group.gradients(), buffers, lr=self.learning_rate, weight_decay=group.weight_decay,
            momentum=MOMENTUM, dampening=0.0, nesterov=True, maximize=False,
        )  # fmt: skip
        group.memories = [{"momentum_buffer": buffer} for buffer in buffers if buffer is not None]

    def _adam(self, group: Group) -> None:
        if not group.memories:
            group.memories = [self._no_memory(weight) for weight in group.weights]
        (adamw if self.optimizer == "adamw" else adam)(
            group.weights, group.gradients(), group.kept("exp_avg"), group.kept("exp_avg_sq"), [], group.kept("step"),
            fused=self.fused or None, amsgrad=False, beta1=BETAS[0], beta2=BETAS[1], lr=self.learning_rate,
            weight_decay=group.weight_decay, eps=EPSILON, maximize=False,
        )  # fmt: skip

    def _no_memory(self, weight: Tensor) -> Memory:
        step = torch.zeros((), dtype=torch.float32, device=weight.device if self.fused else "cpu")
        return {"step": step, "exp_avg": torch.zeros_like(weight), "exp_avg_sq": torch.zeros_like(weight)}

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def memories(self) -> list[Memory]:
        """What is remembered of each weight, group by group; empty before the first step."""
        return [memory for group in self.groups for memory in group.memories]

    def remember(self, memories: Mapping[int, Memory]) -> None:
        """Go on as after the step that left these memories, numbered as :meth:`memories` lists them."""
        place = 0
        for group in self.groups:
            group.memories = []
            for weight in group.weights:
                if place in memories:
                    group.memories.append(self._placed(memories[place], weight))
                place += 1

    def _placed(self, memory: Memory, weight: Tensor) -> Memory:
        here = weight.device if self.fused else torch.device("cpu")
        return {name: value.to(here if name == "step" else weight.device) for name, value in memory.items()}
