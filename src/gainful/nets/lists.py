"""Nets that see the documents of a query together: self-attention over each list.

Rows are packed: every layer but the attention itself works on the rows of a batch as they are, whatever query they are
of. Attention needs lists, so there lists of similar length are padded to one width.

The models of an ensemble train side by side: each weight has a leading dimension, the model. They share the batches and
differ in their first weights, noise and dropout.

This module imports PyTorch: import it on use.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gainful.data.rows import Array, chunks
from gainful.losses.tensors import similar_lengths
from gainful.nets.device import tensor_device
from gainful.nets.shapes import ARRAYS_OF_BLOCK, list_net_shapes
from gainful.nets.train import ACTIVATIONS, DROPOUT, SCORE_ROWS, NetSettings, own_seed

MODEL = 16  # the stream of random numbers of the first model of an ensemble
EPSILON = 1e-5  # in the normalisation of a layer
CPU_SLACK, GPU_SLACK = 1 << 14, 1 << 22  # padded pairs of documents that cost less than another group of lists


@dataclass(frozen=True)
class ListNetSettings(NetSettings):
    """How a net over lists is built and trained."""

    heads: int = 1
    blocks: int = 1
    noise: float = 0.0
    models: int = 1


class Group:
    """Lists of similar length. ``rows`` (m·n,): the row at each place, some row for padding.

    ``inside`` (m, 1, 1, n) says which places are none, ``kept`` which of the m·n are; both are None without padding.
    """

    def __init__(self, starts: Array, counts: Array, device: torch.device):
        self.m, self.n = len(counts), int(counts.max())
        place = np.arange(self.n)
        inside = place < counts[:, None]
        own = np.where(inside, starts[:, None] + place, starts[:, None])
        self.own = own[inside]
        self.rows = torch.as_tensor(own.ravel(), device=device)
        padded = not inside.all()
        self.inside = torch.as_tensor(inside[:, None, None, :], device=device) if padded else None
        self.kept = torch.as_tensor(np.flatnonzero(inside.ravel()), device=device) if padded else None

    def attend(self, packed: Tensor, heads: int) -> Tensor:
        """Queries, keys and values of all rows (k, rows, 3w) → what each row of this group gathers, (k, own, w)."""
        k, width = len(packed), packed.shape[2] // 3
        lists = packed.index_select(1, self.rows).view(k * self.m, self.n, 3, heads, width // heads)
        query, key, value = lists.permute(2, 0, 3, 1, 4)
        mask = None if self.inside is None else self.inside.repeat(k, 1, 1, 1)
        found = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        found = found.transpose(1, 2).reshape(k, self.m * self.n, width)
        return found if self.kept is None else found.index_select(1, self.kept)


class Layout:
    """Where the lists of a batch are: groups of similar length, and the way back to the order of the rows."""

    def __init__(self, counts: Array, device: torch.device, slack: int | None = None):
        """``slack``: padded pairs of documents that cost less than another group of lists."""
        starts = np.cumsum(counts) - counts
        if slack is None:
            slack = GPU_SLACK if device.type == "cuda" else CPU_SLACK
        self.useful_pairs = int((counts**2).sum())
        self.groups = [Group(starts[some], counts[some], device) for some in similar_lengths(counts, slack)]
        self.back = torch.as_tensor(np.argsort(np.concatenate([group.own for group in self.groups])), device=device)

    def attend(self, packed: Tensor, heads: int) -> Tensor:
        found = torch.cat([group.attend(packed, heads) for group in self.groups], dim=1)
        return found.index_select(1, self.back)


class ListNet:
    """Scores (models, rows) of standardised rows.

    ``weights``: W, b of each hidden layer; of each block the projections to queries, keys and values (w, 3w), their
    biases, the projection of what attention gathers (w, w), its bias, and gain and shift of the normalisation; W, b of
    the output. All have a leading dimension, the model.
    """

    def __init__(self, n_features: int, settings: ListNetSettings):
        self.settings = settings
        self.activation = ACTIVATIONS[settings.activation]
        self.device = torch.device(tensor_device(settings.device))
        self.dtype = getattr(torch, settings.dtype)
        self.weights = first_weights(n_features, settings, self.dtype, self.device)
        self.generator = torch.Generator(self.device).manual_seed(own_seed(settings.seed, DROPOUT))

    def layout(self, counts: Array) -> Layout:
        return Layout(counts, self.device)

    def __call__(self, x: Tensor, train: bool = False, layout: Layout | None = None) -> Tensor:
        assert layout is not None
        settings, n_layers = self.settings, 2 * len(self.settings.hidden)
        z = x.expand(settings.models, *x.shape)
        if train and settings.noise > 0.0:
            z = z + settings.noise * torch.randn(
                z.shape, generator=self.generator, dtype=self.dtype, device=self.device
            )
        for W, b in zip(self.weights[:n_layers:2], self.weights[1:n_layers:2], strict=True):
            z = self._drop(self.activation(torch.baddbmm(b[:, None], z, W)), train)
        context = z
        for start in range(n_layers, len(self.weights) - 2, ARRAYS_OF_BLOCK):
            W, b, W_out, b_out, gain, shift = self.weights[start : start + ARRAYS_OF_BLOCK]
            gathered = layout.attend(torch.baddbmm(b[:, None], context, W), settings.heads)
            added = context + self._drop(torch.baddbmm(b_out[:, None], gathered, W_out), train)
            context = torch.addcmul(shift[:, None], F.layer_norm(added, added.shape[2:], eps=EPSILON), gain[:, None])
        crossed = z + context * z
        return torch.baddbmm(self.weights[-1][:, None], crossed, self.weights[-2])[:, :, 0]

    def _drop(self, x: Tensor, train: bool) -> Tensor:
        share = self.settings.dropout
        if not train or share == 0.0:
            return x
        drawn = torch.rand(x.shape, generator=self.generator, dtype=self.dtype, device=self.device)
        return x * (drawn >= share).to(self.dtype) / (1.0 - share)

    def score_blocks(self, offsets: Array) -> Iterator[tuple[slice, Layout]]:
        """Rows to score together, of whole queries."""
        ends = chunks(offsets, 0, len(offsets) - 1, SCORE_ROWS)
        for first, last in pairwise(ends):
            yield slice(int(offsets[first]), int(offsets[last])), self.layout(np.diff(offsets[first : last + 1]))

    def arrays(self) -> list[Array]:
        """A copy of the weights."""
        return [weight.detach().cpu().numpy().copy() for weight in self.weights]


def first_weights(n_features: int, settings: ListNetSettings, dtype: torch.dtype, device: torch.device) -> list[Tensor]:
    """As for plain nets (He for rectified layers, Glorot else, biases 0); gains and shifts of normalisations are 0.

    So the first scores are those of a plain net, and training adds what the list tells. Drawn on the CPU, so that every
    device starts from the same net.
    """
    wanted = list_net_shapes(n_features, settings.hidden, settings.blocks)
    models = []
    for model in range(settings.models):
        generator = torch.Generator().manual_seed(own_seed(settings.seed, MODEL + model))
        weights = [torch.zeros(shape, dtype=torch.float64) for shape in wanted]
        for place, shape in enumerate(wanted):
            if len(shape) == 2:
                rectified = settings.activation in ("relu", "silu") and place < 2 * len(settings.hidden)
                n, m = shape[0], min(shape[0], shape[1]) if shape[1] == 3 * shape[0] else shape[1]
                limit = (6.0 / n) ** 0.5 if rectified else (6.0 / (n + m)) ** 0.5
                drawn = torch.rand(shape, generator=generator, dtype=torch.float64)
                weights[place] = drawn * (2.0 * limit) - limit
        weights[-2] *= settings.output_scale
        models.append(weights)
    joint = (torch.stack(same) for same in zip(*models, strict=True))
    return [weight.to(device=device, dtype=dtype).requires_grad_() for weight in joint]
