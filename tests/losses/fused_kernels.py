"""The Triton kernels beside what they stand for; prints the relative error of each case as JSON.

Without a GPU, Triton's interpreter runs them: ``TRITON_INTERPRET`` must be set before Triton is imported, so this is a
script for a process of its own (``test_fused_kernels.py``).
"""

from __future__ import annotations

import json
import os
import warnings

import numpy as np
import torch

GPU = torch.cuda.is_available()
if not GPU:
    os.environ["TRITON_INTERPRET"] = "1"
DEVICE = "cuda" if GPU else "cpu"

from gainful.losses import loss, tensors  # noqa: E402
from gainful.nets.fused_output import fused_output  # noqa: E402
from gainful.nets.train import ACTIVATIONS  # noqa: E402

LOSSES = (
    "pairwise-hinge", "pairwise-squared-hinge", "ranknet(sigma=2.5)", "weighted-huber", "lambda", "lambda(k=5)",
    "lambdaloss",
)  # fmt: skip
# Ordinary scores; scores so far apart that their exponentials overflow; both in one batch; a common offset.
SCORES = {"near": (2.0, 0.0), "far": (2_000.0, 0.0), "mixed": (2.0, 0.0), "shifted": (2.0, 1e6)}
NETS = ((300, 5, 7), (1, 3, 64), (140, 4, 130))  # rows, features, units: around the sizes of tiles


def relative(found, wanted):
    return float((found - wanted).abs().max() / wanted.abs().max().clamp(min=1e-300))


def of_loss(text, scores):
    """The largest error of values and gradient of queries of 1 to 40 documents, with ties, beside the compiled loss."""
    rng = np.random.default_rng(0)
    counts = np.array([1, 3, 17, 40, 9])
    y, offsets = rng.integers(0, 4, counts.sum()).astype(float), np.concatenate([[0], np.cumsum(counts)])
    spread, shift = SCORES[scores]
    s = rng.normal(size=len(y)) * spread
    s[::5] = 0.0
    if scores == "mixed":
        s[offsets[3] : offsets[4]] *= 1_000.0
    s += shift
    wanted = [torch.from_numpy(np.asarray(one)) for one in loss(text).of_queries(s, y, offsets)]
    form = tensors.tensor_loss(loss(text), y, offsets, torch.zeros(0, dtype=torch.float64, device=DEVICE))
    found = form(torch.from_numpy(s).to(DEVICE))
    return max(relative(a.cpu(), b) for a, b in zip(found, wanted, strict=True))


def of_output(activation, n, d, units):
    """The largest error of the scores of a net and of its gradients by x, W, b, w and c, beside PyTorch's."""
    generator = torch.Generator().manual_seed(0)

    def draw(*size):
        return torch.randn(size, generator=generator, dtype=torch.float64).to(DEVICE)

    x, W, b, w, c, slopes = draw(n, d), draw(d, units), draw(units), draw(units, 1), draw(1), draw(n)
    x[::2] *= 1e-3
    b[::2] = 0.0  # so that some units are near 0, where tanh would lose digits
    x[-1] *= 1e3
    each = [one.requires_grad_() for one in (x, W, b, w, c)]
    plain = (ACTIVATIONS[activation](x @ W + b) @ w + c)[:, 0]
    fused = fused_output(*each, activation)
    by = [torch.autograd.grad(torch.dot(scores, slopes), each) for scores in (fused, plain)]
    return max(relative(a.detach(), b.detach()) for a, b in zip((fused, *by[0]), (plain, *by[1]), strict=True))


def cases():
    for text in LOSSES:
        for scores in SCORES:
            yield f"{text}, {scores}", lambda text=text, scores=scores: of_loss(text, scores)
    for activation in ACTIVATIONS:
        for size in NETS:
            yield f"{activation}, {size}", lambda activation=activation, size=size: of_output(activation, *size)


if __name__ == "__main__":
    tensors.fuses = lambda at: True
    warnings.simplefilter("ignore", RuntimeWarning)  # the interpreter's NumPy warns where a GPU overflows in silence
    print(json.dumps({name: error() for name, error in cases()}))
