"""The passes of ``swap_kernels`` on padded tensors, (queries, places). Imports PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor

from gainful.losses.swaps import Places


class Ranking:
    """The places of a bucket by rank: lower grades first among equal scores, the padding last.

    Documents of equal score and grade make a group.
    """

    def __init__(self, t: Tensor, levels: Tensor, inside: Tensor):
        n = t.shape[1]
        self.order = best_first(t, inside)
        scores, grades = t.gather(1, self.order), levels.gather(1, self.order)
        new = torch.ones_like(self.order)
        new[:, 1:] = (scores[:, 1:] != scores[:, :-1]) | (grades[:, 1:] != grades[:, :-1])
        self.group = new.cumsum(1) - 1
        self.sizes = torch.zeros_like(self.order).scatter_add_(1, self.group, torch.ones_like(self.order))
        self.back = torch.empty_like(self.order).scatter_(1, self.order, self.group)
        places = torch.arange(1, n + 1, device=t.device).expand_as(self.order)
        ranks = 2 * torch.zeros_like(self.order).scatter_add_(1, self.group, places) // self.sizes.clamp(min=1)
        self.twice = ranks.gather(1, self.back)
        self.shared_by = self.sizes.gather(1, self.back)

    def mean_gaps(self, sums: Tensor, here: slice, later: slice) -> Tensor:
        """The gaps of pairs of places, the mean over the orders of equal documents: as in ``weighted_kernels``."""
        m, n = self.shared_by[:, here, None], self.shared_by[:, None, later]
        apart = (self.twice[:, here, None] - self.twice[:, None, later]).abs()
        k = ((apart - m - n) // 2).clamp(min=0)
        return (sums[k + m] - sums[k] - sums[k + m + n] + sums[k + n]) / (m * n)

    def shared(self, by_rank: Tensor) -> Tensor:
        """By place, the mean over the group."""
        sums = torch.zeros_like(by_rank).scatter_add_(1, self.group, by_rank)
        return (sums / self.sizes.clamp(min=1)).gather(1, self.back)


def best_first(t: Tensor, inside: Tensor) -> Tensor:
    """The place of the document at each rank: lower grades first among equal scores, the padding last."""
    keys = torch.where(inside, t, -torch.inf).flip(1)
    return t.shape[1] - 1 - torch.sort(keys, dim=1, descending=True, stable=True).indices


def forms(places: Places, worth: Tensor, ranking: Ranking) -> tuple[Tensor, ...]:
    """P, Q, R, S by place where j stands above i, and where it stands below; ``worth`` by place."""
    kind = {"map": _precisions, "err": _stops}.get(places.kind, _first_relevant)
    return kind(places, worth.gather(1, ranking.order), ranking)


def _inside(places: Places, worth: Tensor) -> Tensor:
    """1/rank down to the cut-off, then 0."""
    ranks = torch.arange(1, worth.shape[1] + 1, dtype=worth.dtype, device=worth.device)
    return torch.where(ranks <= places.depth, 1.0 / ranks, 0.0)


def _precisions(places: Places, worth: Tensor, ranking: Ranking) -> tuple[Tensor, ...]:
    inside, hit = _inside(places, worth), worth > 0.0
    seen, passed = worth.cumsum(1), (worth * inside).cumsum(1)
    up = torch.where(hit, passed - inside - seen * inside, (seen + 1.0) * inside - passed)
    down = torch.where(hit, seen * inside - passed, passed - seen * inside)
    up, down, none = ranking.shared(up), ranking.shared(down), torch.zeros_like(worth)
    return none, none, up, up, none, none, down, down


def _first_relevant(places: Places, worth: Tensor, ranking: Ranking) -> tuple[Tensor, ...]:
    n = worth.shape[1]
    values = torch.zeros(n + 1, dtype=worth.dtype, device=worth.device)
    known = torch.as_tensor(places.values[: n + 1].copy(), dtype=worth.dtype, device=worth.device)
    values[: len(known)] = known
    values[places.depth :] = 0.0
    seen, hit = worth.cumsum(1), worth > 0.0
    one, two = ((seen < count).sum(dim=1, keepdim=True) for count in (1.0, 2.0))  # n if there is none
    ranks = torch.arange(n, device=worth.device).expand_as(ranking.order)
    up = torch.where(hit | (ranks >= one), 0.0, values[ranks] - values[one])
    down = torch.where(hit | (ranks <= one), 0.0, values[one] - values[torch.minimum(ranks, two)])
    share = ranking.shared((ranks == one).to(worth.dtype))
    none = torch.zeros_like(worth)
    return none, none, none, ranking.shared(up), share, ranking.shared(down), none, none


def _stops(places: Places, worth: Tensor, ranking: Ranking) -> tuple[Tensor, ...]:
    on = 1.0 - worth
    reading = torch.cat([torch.ones_like(on[:, :1]), on.cumprod(1)[:, :-1]], dim=1)
    share = reading * _inside(places, worth)
    total, rest = (worth * share).cumsum(1), 1.0 / on
    before = ranking.shared(total - worth * share + share)
    at, rest, none = ranking.shared(share + total * rest), ranking.shared(rest), torch.zeros_like(worth)
    return -before, rest, none, at, -rest, before, at, none
