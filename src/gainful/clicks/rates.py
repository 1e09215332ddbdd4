"""Baselines: clickthrough rates, of everything, by position or by query-document pair, and clicks over expected clicks.

They hide nothing, so one count fits them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gainful.clicks.em import ROUNDS, Beta, Estimates, Fitted, Shape, sum_blocks
from gainful.clicks.index import PageIndex
from gainful.clicks.models import WEAK, ClickModel, Known, Users
from gainful.data.rows import Array


@dataclass
class _Rate(ClickModel):
    """A click has one probability, that of its slot or of its pair."""

    by_pair: ClassVar[bool] = False
    rate: ClassVar[str] = "rate"  # the name of the parameter

    def _slots(self, index: PageIndex) -> Array:
        raise TypeError(f"{type(self).__name__} does not say what its slots are")

    def _expect(self, index: PageIndex) -> Callable[[Estimates], tuple[float, dict[str, Array]]]:
        from gainful.clicks.model_kernels import count_clicks

        slot = self._slots(index)

        def expect(theta: Estimates) -> tuple[float, dict[str, Array]]:
            rates = theta[self.rate]
            shapes = {self.rate: Shape(self.by_pair, len(rates))}

            def task(first: int, last: int, low: int, sums: list[Array]) -> float:
                base = low if self.by_pair else 0
                rows = (index.pair, slot, index.clicked, rates)
                return float(count_clicks(index.offsets, index.weight, first, last, *rows, self.by_pair, base, *sums))

            return sum_blocks(index, shapes, task)

        return expect


@dataclass
class _SlotRate(_Rate):
    """A rate that knows nothing of documents: all are equally attractive, and examination is the rate."""

    shared_parameters: ClassVar[tuple[str, ...]] = ("rate",)

    def _start(self, index: PageIndex) -> tuple[dict[str, Array], dict[str, Beta]]:
        n_slots = int(self._slots(index).max()) + 1
        return {"rate": np.full(n_slots, 0.5)}, {"rate": WEAK}

    def _estimate(self, index: PageIndex, progress: Any, known: Known | None = None) -> Fitted:
        found = super()._estimate(index, progress, known)
        highest = float(found.theta["rate"].max())
        found.theta["attractiveness"] = np.full(index.n_pairs, highest)
        at = int(found.theta["rate"].argmax())
        found.errors["attractiveness"] = np.full(index.n_pairs, found.errors["rate"][at])
        found.priors["attractiveness"] = Beta.of_mean(highest, self._strength)
        return found

    def _known_parameters(self, users: Users) -> dict[str, Array]:
        same = np.full(len(users.attractiveness), users.attractiveness.mean())
        return {"rate": same[0] * users.examination, "attractiveness": same}

    def _examined(self, index: PageIndex, theta: Estimates) -> Array:
        rates = theta["rate"]
        slot = np.minimum(self._slots(index), len(rates) - 1)
        return np.asarray(rates[slot] / rates.max())


@dataclass
class GlobalCTR(_SlotRate):
    """One clickthrough rate for everything: P(c = 1) = ρ."""

    name: ClassVar[str] = "ctr"
    summary: ClassVar[str] = "one clickthrough rate for everything"

    def _known_parameters(self, users: Users) -> dict[str, Array]:
        known = super()._known_parameters(users)
        return known | {"rate": known["rate"][:1]}

    def _slots(self, index: PageIndex) -> Array:
        return np.zeros(len(index.pair), dtype=np.int32)


@dataclass
class RankCTR(_SlotRate):
    """A clickthrough rate by position: P(c = 1) = ρ_r."""

    name: ClassVar[str] = "rank-ctr"
    summary: ClassVar[str] = "a clickthrough rate for each position"

    def _slots(self, index: PageIndex) -> Array:
        return position_slots(index, self.depth)


@dataclass
class DocumentCTR(_Rate):
    """A clickthrough rate by query-document pair: P(c = 1) = ρ_qd, wherever the document is."""

    name: ClassVar[str] = "document-ctr"
    summary: ClassVar[str] = "a clickthrough rate for each query-document pair"
    by_pair: ClassVar[bool] = True
    rate: ClassVar[str] = "attractiveness"

    def _start(self, index: PageIndex) -> tuple[dict[str, Array], dict[str, Beta]]:
        weight = index.row_weight
        mean = (float(weight @ index.clicked) + 1.0) / (float(weight.sum()) + 2.0)
        prior = Beta.of_mean(mean, self._strength)
        return {"attractiveness": np.full(index.n_pairs, mean)}, {"attractiveness": prior}

    def _slots(self, index: PageIndex) -> Array:
        return index.pair

    def _examined(self, index: PageIndex, theta: Estimates) -> Array:
        return np.ones(len(index.pair))


@dataclass
class COEC(RankCTR):
    """Clicks over expected clicks: P(c = 1) = ρ_r κ_qd, where κ divides the clicks of a pair by those expected.

    Expected are the clicks that average documents would get in the same positions. κ may exceed 1, so
    ``attractiveness_`` is κ times the highest ρ, and may exceed 1 too; probabilities of clicks are cut there.
    (Zhang and Jones, "Comparing click logs and editorial labels for training query rewriting", 2007.)
    """

    name: ClassVar[str] = "coec"
    summary: ClassVar[str] = "clicks over expected clicks: a pair's clicks beside those of its positions"
    paper: ClassVar[str] = "Zhang and Jones, 2007"
    has_probabilities: ClassVar[bool] = False

    def _estimate(self, index: PageIndex, progress: Any, known: Known | None = None) -> Fitted:
        found = super()._estimate(index, progress, known)
        rates, weight = found.theta["rate"], index.row_weight
        highest = float(rates.max())
        clicks = np.bincount(index.pair, weights=weight * index.clicked, minlength=index.n_pairs)
        expected = np.bincount(index.pair, weights=weight * rates[self._slots(index)], minlength=index.n_pairs)
        # pseudo-impressions at the highest rate: a Gamma prior of mean 1 on κ, and a Poisson count of clicks
        pseudo = self._strength * highest
        for _ in range(ROUNDS if self.smoothing is None else 0):  # as Beta.learned
            kappa = (clicks + pseudo) / (expected + pseudo)
            known_pairs = max(index.n_pairs - pseudo * float((kappa / (expected + pseudo)).sum()), 0.0)
            pseudo = (known_pairs + 1.0) / (float(((kappa - 1.0) ** 2).sum()) + 1.0 / highest)
        found.theta["attractiveness"] = highest * (clicks + pseudo) / np.maximum(expected + pseudo, 1e-300)
        found.errors["attractiveness"] = highest * np.sqrt(clicks + pseudo) / np.maximum(expected + pseudo, 1e-300)
        return found

    def _known_parameters(self, users: Users) -> dict[str, Array]:
        return {"rate": users.examination}

    def _clicked(self, index: PageIndex, theta: Estimates) -> Array:
        return self._probabilities(index, False)

    def _probabilities(self, index: PageIndex, conditional: bool) -> Array:
        chance = self._examined(index, self.theta_) * self.theta_["attractiveness"][index.pair]
        return np.asarray(np.clip(chance, 1e-6, 1.0 - 1e-6))


def position_slots(index: PageIndex, depth: int) -> Array:
    """0 for position 1, and so on."""
    return (np.minimum(index.position, depth) - 1).astype(np.int32)
