"""LightGBM's lambdarank as tensors, for engines other than LightGBM. Imports PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from gainful.data.dataset import RankingData
from gainful.data.query_weights import rows_of_mean_one
from gainful.data.rows import Array
from gainful.losses.tensors import similar_lengths
from gainful.nets.device import tensor_device

PAIRS_AT_ONCE = 1 << 24  # elements (query, better place, place): bounds the memory of a step
SOFTENING = 0.01  # of score distances, LightGBM's


class LambdaRank:
    """Gradient and curvature of all rows, as LightGBM's ``lambdarank`` objective computes them.

    ``gains`` are those of the rows. Takes and returns tensors on ``device``; on the CPU also arrays.
    """

    changes = False

    def __init__(
        self, data: RankingData, gains: Array, *, truncation: int, sigmoid: float, normalize: bool, device: str
    ):
        self.truncation, self.sigmoid, self.normalize = truncation, sigmoid, normalize
        self.device, self.n_rows = tensor_device(device), data.n_rows
        weights = rows_of_mean_one(data)
        self.weights = None if weights is None else torch.as_tensor(np.asarray(weights), device=self.device)
        self.parts = [self._part(data.offsets, queries, gains) for queries in self._groups(data.counts)]

    def _groups(self, counts: Array) -> list[Array]:
        """Queries of similar length, few enough for one step."""
        groups = []
        for queries in similar_lengths(counts, slack=1 << 20):
            longest = int(counts[queries].max())
            size = max(1, PAIRS_AT_ONCE // (longest * min(longest, self.truncation)))
            groups += [queries[i : i + size] for i in range(0, len(queries), size)]
        return groups

    def _part(self, offsets: Array, queries: Array, gains: Array) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The row at each place (n_rows for padding), whether there is one, gains, and 1/ideal DCG."""
        starts, ends = offsets[queries, None], offsets[queries + 1, None]
        place = starts + np.arange(int((ends - starts).max()))
        inside = place < ends
        own = np.where(inside, gains[np.where(inside, place, 0)], 0.0)
        ideal = np.sort(own, axis=1)[:, ::-1][:, : self.truncation]
        best = (ideal / np.log2(2.0 + np.arange(ideal.shape[1]))).sum(axis=1)
        inverse = np.divide(1.0, best, out=np.zeros_like(best), where=best > 0.0)
        sent = (np.where(inside, place, self.n_rows), inside, own, inverse)
        rows, here, by_place, scale = (torch.as_tensor(np.ascontiguousarray(one), device=self.device) for one in sent)
        return rows, here, by_place, scale

    def __call__(self, scores: Any, iteration: int) -> tuple[Any, Any]:
        given = torch.as_tensor(scores, device=self.device)
        padded = torch.cat([given, given.new_zeros(1)])
        gradient, curvature = given.new_zeros(self.n_rows + 1), given.new_zeros(self.n_rows + 1)
        for rows, inside, gains, inverse in self.parts:
            gradient[rows], curvature[rows] = self._lambdas(padded[rows], inside, gains, inverse)
        found = [total[:-1] if self.weights is None else total[:-1] * self.weights for total in (gradient, curvature)]
        if isinstance(scores, np.ndarray):
            return found[0].numpy(), found[1].numpy()
        return found[0], found[1]

    def _lambdas(self, t: Tensor, inside: Tensor, gains: Tensor, inverse: Tensor) -> tuple[Tensor, Tensor]:
        """(m, n) each: pairs of a place within the truncation and a later one, by rank."""
        real = torch.where(inside, t, -torch.inf)
        order = torch.sort(real, dim=1, descending=True, stable=True).indices
        s, g, there = (values.gather(1, order) for values in (t, gains, inside))
        n = t.shape[1]
        top = slice(min(n, self.truncation))
        ranks = torch.arange(n, device=t.device)
        discount = 1.0 / torch.log2(2.0 + ranks.to(t.dtype))
        gap = g[:, top, None] - g[:, None, :]
        pair = (ranks[top, None] < ranks) & there[:, top, None] & there[:, None, :] & (gap != 0.0)
        sign = torch.sign(gap)
        apart = sign * (s[:, top, None] - s[:, None, :])  # the better document's score less the other's
        weight = gap.abs() * (discount[top, None] - discount).abs() * inverse[:, None, None]
        if self.normalize:
            last = there.sum(dim=1, keepdim=True) - 1
            differ = s[:, :1] != s.gather(1, last)
            weight = torch.where(differ[:, :, None], weight / (SOFTENING + apart.abs()), weight)
        weight = torch.where(pair, weight, 0.0)
        wrong = torch.sigmoid(-self.sigmoid * apart)
        pull = self.sigmoid * wrong * weight
        bend = self.sigmoid**2 * wrong * (1.0 - wrong) * weight
        by_rank, curve = torch.zeros_like(s), torch.zeros_like(s)
        by_rank[:, top] -= (sign * pull).sum(dim=2)
        by_rank += (sign * pull).sum(dim=1)
        curve[:, top] += bend.sum(dim=2)
        curve += bend.sum(dim=1)
        if self.normalize:
            total = 2.0 * pull.sum(dim=(1, 2))
            factor = torch.where(total > 0.0, torch.log2(1.0 + total) / total.clamp(min=1e-300), 1.0)
            by_rank, curve = by_rank * factor[:, None], curve * factor[:, None]
        return torch.zeros_like(t).scatter(1, order, by_rank), torch.zeros_like(t).scatter(1, order, curve)
