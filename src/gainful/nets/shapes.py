"""The shapes of weights, without PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

ARRAYS_OF_BLOCK = 6


def list_net_shapes(n_features: int, hidden: Sequence[int], blocks: int) -> list[tuple[int, ...]]:
    """Those of one model of :class:`gainful.nets.lists.ListNet`: hidden layers, attention blocks, output."""
    sizes = [n_features, *hidden]
    width = sizes[-1]
    layers = [shape for n, m in pairwise(sizes) for shape in ((n, m), (m,))]
    block = [(width, 3 * width), (3 * width,), (width, width), (width,), (width,), (width,)]
    return [*layers, *(block * blocks), (width, 1), (1,)]
