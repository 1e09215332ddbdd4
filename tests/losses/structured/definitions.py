"""Losses, feature maps and targets written out over all rankings of one query, from the definitions alone."""

from __future__ import annotations

from functools import cache
from itertools import permutations

import numpy as np


@cache
def all_ranks(n: int) -> np.ndarray:
    """(n!, n): the rank, from 0, of each document in every ranking."""
    return np.array(list(permutations(range(n))))


def padded(values, n: int) -> np.ndarray:
    """The first n values, zeros beyond their end."""
    out = np.zeros(n)
    out[: min(n, len(values))] = np.asarray(values)[:n]
    return out


def gain_of(grades, gain: str = "exp2") -> np.ndarray:
    return 2.0 ** np.asarray(grades) - 1.0 if gain == "exp2" else np.asarray(grades, dtype=float)


class NdcgQuery:
    """One query: Δ and Ψ·s of all its rankings."""

    def __init__(self, grades, k, A, *, gain="exp2", discount=None):
        self.grades = np.asarray(grades, dtype=float)
        n = len(self.grades)
        D = 1.0 / np.log2(np.arange(2, n + 2)) if discount is None else padded(discount, n)
        self.D = np.where(np.arange(n) < (n if k is None else k), D, 0.0)
        self.A = padded(A, n)
        self.gain = gain_of(self.grades, gain)
        self.best = np.sort(self.gain)[::-1] @ self.D
        self.is_active = self.best > 0 and len(set(self.grades)) > 1

    def losses(self, ranks):
        return 1.0 - self.D[ranks] @ self.gain / self.best

    def products(self, ranks, s):
        return self.A[ranks] @ s

    def perfect(self):
        """All rankings by falling grade."""
        ranks = all_ranks(len(self.grades))
        by_rank = np.take_along_axis(np.broadcast_to(self.grades, ranks.shape), np.argsort(ranks, axis=1), axis=1)
        return ranks[(np.diff(by_rank, axis=1) <= 0).all(axis=1)]

    def target(self):
        return self.A[self.perfect()].mean(axis=0)

    def convex(self, s):
        ranks = all_ranks(len(s))
        return (self.losses(ranks) + self.products(ranks, s)).max() - self.target() @ s

    def tight(self, s):
        ranks = all_ranks(len(s))
        return (self.losses(ranks) + self.products(ranks, s)).max() - self.products(ranks, s).max()

    def slack(self, s):
        ranks = all_ranks(len(s))
        return max(0.0, (self.losses(ranks) * (1.0 + self.products(ranks, s) - self.target() @ s)).max())


class PrecisionQuery:
    """One query under average precision."""

    def __init__(self, grades, relevant=1.0):
        self.relevant = np.asarray(grades) >= relevant
        self.is_active = 0 < self.relevant.sum() < len(self.relevant)

    def losses(self, ranks):
        by_rank = np.take_along_axis(np.broadcast_to(self.relevant, ranks.shape), np.argsort(ranks, axis=1), axis=1)
        precision = np.cumsum(by_rank, axis=1) / np.arange(1, by_rank.shape[1] + 1)
        return 1.0 - (precision * by_rank).sum(axis=1) / self.relevant.sum()

    def products(self, ranks, s):
        total = np.zeros(len(ranks))
        for i in np.flatnonzero(self.relevant):
            for j in np.flatnonzero(~self.relevant):
                total += np.where(ranks[:, i] < ranks[:, j], 1.0, -1.0) * (s[i] - s[j])
        return total / (self.relevant.sum() * (~self.relevant).sum())

    def of_target(self, s):
        return s[self.relevant].mean() - s[~self.relevant].mean()

    def convex(self, s):
        ranks = all_ranks(len(s))
        return (self.losses(ranks) + self.products(ranks, s)).max() - self.of_target(s)

    def tight(self, s):
        ranks = all_ranks(len(s))
        return (self.losses(ranks) + self.products(ranks, s)).max() - self.products(ranks, s).max()


def families(k: int) -> dict[str, np.ndarray]:
    r = np.arange(1, k + 1)
    return {"linear": k + 1.0 - r, "sqrt": 1 / np.sqrt(r), "discount": 1 / np.log2(r + 1), "flat": np.ones(k)}
