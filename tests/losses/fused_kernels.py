"""The Triton kernels beside what they stand for; prints the error of each case, and its limit, as JSON.

Without a GPU, Triton's interpreter runs them: ``TRITON_INTERPRET`` must be set before Triton is imported, so this is a
script for a process of its own (``test_fused_kernels.py``).
"""

from __future__ import annotations

import json
import os
import warnings
from functools import partial

import numpy as np
import torch

GPU = torch.cuda.is_available()
if not GPU:
    os.environ["TRITON_INTERPRET"] = "1"
DEVICE = "cuda" if GPU else "cpu"

from gainful.losses import loss, tensors  # noqa: E402
from gainful.nets import train  # noqa: E402
from gainful.nets.fused_output import fused_output  # noqa: E402

LOSSES = (
    "pairwise-hinge", "pairwise-squared-hinge", "ranknet(sigma=0.3)", "weighted-huber", "lambda", "lambda(k=5)",
    "lambdaloss",
)  # fmt: skip
# Ordinary scores; scores so far apart that their exponentials overflow; both in one batch; a common offset.
SCORES = {"near": (2.0, 0.0), "far": (20_000.0, 0.0), "mixed": (2.0, 0.0), "shifted": (2.0, 1e6)}
NETS = ((300, 5, 7), (1, 3, 64), (140, 4, 130))  # rows, features, units: around the sizes of tiles
HIDDEN = ((), (7,), (5, 70))


def largest(errors):
    return float(np.max(list(errors)))  # NaN if one is


def relative(found, wanted):
    return float((found - wanted).abs().max() / wanted.abs().max().clamp(min=1e-300))


def of_loss(text, scores, dtype):
    """The largest error of values and gradient of queries of 1 to 40 documents, with ties, beside the compiled loss."""
    rng = np.random.default_rng(0)
    counts = np.array([1, 3, 17, 40, 9])
    y, offsets = rng.integers(0, 4, counts.sum()).astype(float), np.concatenate([[0], np.cumsum(counts)])
    spread, shift = SCORES[scores]
    s = rng.normal(size=len(y)) * spread
    s[::5] = 0.0
    if scores == "mixed":
        s[offsets[3] : offsets[4]] *= 10_000.0
    s = (s + shift).astype(str(dtype).partition(".")[2]).astype(np.float64)
    wanted = [torch.from_numpy(np.asarray(one)) for one in loss(text).of_queries(s, y, offsets)]
    form = tensors.tensor_loss(loss(text), y, offsets, torch.zeros(0, dtype=dtype, device=DEVICE))
    found = form(torch.from_numpy(s).to(DEVICE, dtype))
    return largest(relative(a.cpu(), b) for a, b in zip(found, wanted, strict=True))


def of_output(activation, n, d, units):
    """The largest error of the scores of a net and of its gradients by x, W, b, w and c, beside PyTorch's."""
    generator = torch.Generator().manual_seed(0)

    def draw(*size):
        return torch.randn(size, generator=generator, dtype=torch.float64).to(DEVICE)

    x, W, b, w, c, slopes = draw(n, d), draw(d, units), draw(units), draw(units, 1), draw(1), draw(n)
    x[-1] *= 1e3
    each = [one.requires_grad_() for one in (x, W, b, w, c)]
    plain = (train.ACTIVATIONS[activation](x @ W + b) @ w + c)[:, 0]
    fused = fused_output(*each, activation)
    by = [torch.autograd.grad(torch.dot(scores, slopes), each) for scores in (fused, plain)]
    return largest(relative(a.detach(), b.detach()) for a, b in zip((fused, *by[0]), (plain, *by[1]), strict=True))


def of_unit(activation, dtype):
    """The largest relative error of h(z), and of h(z) + h'(z), of a single unit at z from 1e-6 to 30 of either sign."""
    z = torch.logspace(-6, 1.5, 200, dtype=torch.float64)
    z = torch.cat([z, -z]).to(DEVICE, dtype)[:, None].requires_grad_()
    one, none = torch.ones(1, 1, dtype=dtype, device=DEVICE), torch.zeros(1, dtype=dtype, device=DEVICE)
    found = fused_output(z, one, none, one, none, activation)
    wide = z.detach().double().requires_grad_()
    wanted = train.ACTIVATIONS[activation](wide)[:, 0]
    by = [torch.autograd.grad(h.sum(), at)[0][:, 0] for h, at in ((found, z), (wanted, wide))]
    smallest = 1e-30 if activation != "tanh" else 1e-300
    off = (found - wanted).detach().abs() / wanted.abs().clamp(min=smallest)
    return largest([float(off.max()), float((by[0] - by[1]).abs().max())])


def of_net(hidden, dropout):
    """Scores of a net by its own call, beside those without our kernels; 0 or 1: whether it used them as it should."""
    settings = train.NetSettings(
        hidden=hidden, activation="silu", dropout=dropout, batch_queries=1, optimizer="adam", learning_rate=0.1,
        weight_decay=0.0, epochs=1, device="cuda" if GPU else "torch-cpu", dtype="float64", seed=0,
    )  # fmt: skip
    net, used = train.Net(4, settings), []
    x = torch.randn(50, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).to(DEVICE)

    def scores(fuses, training):
        train.fuses = lambda at: used.append(fuses) or fuses
        net.generator.manual_seed(0)
        return net(x, train=training).detach()

    try:
        pairs = [(scores(True, training), scores(False, training)) for training in (False, True)]
    finally:
        train.fuses = tensors.fuses
    asked = 0 if not hidden else 2 if dropout else 4  # none to fuse; not while units are dropped
    return largest([*(relative(a, b) for a, b in pairs), float(len(used) != asked)])


def cases():
    """The name, the error as a function, and its limit."""
    for dtype, limit in ((torch.float64, 1e-13), (torch.float32, 2e-6)):
        for text in LOSSES:
            for scores in SCORES:
                yield f"{text}, {scores}, {dtype}", partial(of_loss, text, scores, dtype), limit
        for activation in train.ACTIVATIONS:
            yield f"{activation}, one unit, {dtype}", partial(of_unit, activation, dtype), limit
    for activation in train.ACTIVATIONS:
        for size in NETS:
            yield f"{activation}, {size}", partial(of_output, activation, *size), 1e-13
    for hidden in HIDDEN:
        for dropout in (0.0, 0.5):
            yield f"net {hidden}, dropout {dropout}", partial(of_net, hidden, dropout), 1e-13


if __name__ == "__main__":
    tensors.fuses = lambda at: True
    warnings.simplefilter("ignore", RuntimeWarning)  # the interpreter's NumPy warns where a GPU overflows in silence
    print(json.dumps({name: (error(), limit) for name, error, limit in cases()}))
