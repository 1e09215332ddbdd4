"""Steps of nets are PyTorch's own, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gainful.nets.steps import Group, Steps  # noqa: E402

OPTIMIZERS = ("adam", "adamw", "sgd")
RATE, DECAY = 0.01, 0.1


def weights():
    rng = np.random.default_rng(0)
    return [torch.tensor(rng.normal(size=size), dtype=torch.float32).requires_grad_() for size in ((3, 4), (4, 1), 4)]


def descend(optimizer, own, n):
    for _ in range(n):
        optimizer.zero_grad()
        sum(((weight - 1.0) ** 4).sum() for weight in own).backward()
        optimizer.step()


def of_pytorch(name, own):
    groups = [{"params": own[:2], "weight_decay": DECAY}, {"params": own[2:], "weight_decay": 0.0}]
    if name == "sgd":
        return torch.optim.SGD(groups, lr=RATE, momentum=0.9, nesterov=True)
    return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name](groups, lr=RATE)


def of_ours(name, own):
    return Steps(name, [Group(own[:2], DECAY), Group(own[2:], 0.0)], RATE)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_pytorch(name):
    theirs, ours = weights(), weights()
    descend(of_pytorch(name, theirs), theirs, 7)
    descend(of_ours(name, ours), ours, 7)
    assert all(torch.equal(a, b) for a, b in zip(theirs, ours, strict=True))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_memories_carry_over(name):
    straight, halted = weights(), weights()
    descend(of_ours(name, straight), straight, 7)
    first = of_ours(name, halted)
    descend(first, halted, 3)
    second = of_ours(name, halted)
    second.remember(dict(enumerate(first.memories())))
    descend(second, halted, 4)
    assert all(torch.equal(a, b) for a, b in zip(straight, halted, strict=True))
