"""PBM and UBM: a document is clicked if it is examined and attractive, P(c = 1) = γ α_qd.

γ depends on the position (PBM), or also on the position of the last click above (UBM). Only products of γ and α are
seen, so one γ is free to choose: that of the first position (without a click above it) is 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gainful.clicks.em import Beta, Estimates, Shape, sum_blocks
from gainful.clicks.index import PageIndex
from gainful.clicks.models import WEAK, ClickModel, Users, examined_rates
from gainful.clicks.rates import position_slots
from gainful.data.rows import Array


@dataclass
class _Examined(ClickModel):
    """Examination by slot."""

    iterates: ClassVar[bool] = True
    shared_parameters: ClassVar[tuple[str, ...]] = ("examination",)
    needs_moves: ClassVar[bool] = True

    def _slots(self, index: PageIndex) -> Array:
        raise TypeError(f"{type(self).__name__} does not say what its slots are")

    def _n_slots(self, deepest: int) -> int:
        raise TypeError(f"{type(self).__name__} does not say how many slots it has")

    def _first_slot(self, highest: int) -> int:
        raise TypeError(f"{type(self).__name__} does not say which slot is always examined")

    def _start(self, index: PageIndex) -> tuple[dict[str, Array], dict[str, Beta]]:
        attraction, prior = examined_rates(index, self._strength)
        place = np.minimum(index.position, self.depth)
        examination = np.full(self._n_slots(int(place.max())), 0.5)
        fixed = np.zeros(len(examination), dtype=bool)
        fixed[self._first_slot(int(place.min()))] = True
        examination[fixed] = 1.0
        priors = {"attractiveness": prior, "examination": Beta(WEAK.successes, WEAK.failures, fixed)}
        return {"attractiveness": attraction, "examination": examination}, priors

    def _expect(self, index: PageIndex) -> Callable[[Estimates], tuple[float, dict[str, Array]]]:
        from gainful.clicks.model_kernels import expect_examined

        slot = self._slots(index)

        def expect(theta: Estimates) -> tuple[float, dict[str, Array]]:
            attraction, examination = theta["attractiveness"], theta["examination"]
            shapes = {"attractiveness": Shape(True), "examination": Shape(False, len(examination))}

            def task(first: int, last: int, low: int, sums: list[Array]) -> float:
                rows = (index.pair, slot, index.clicked)
                return float(
                    expect_examined(
                        index.offsets, index.weight, first, last, *rows, attraction, examination, low, *sums
                    )
                )

            return sum_blocks(index, shapes, task)

        return expect


@dataclass
class PBM(_Examined):
    """The position-based model: P(c = 1) = γ_r α_qd.

    (Craswell, Zoeter, Taylor and Ramsey, "An experimental comparison of click position-bias models", 2008.)
    """

    name: ClassVar[str] = "pbm"
    summary: ClassVar[str] = "position-based: examination depends on the position alone"
    paper: ClassVar[str] = "Craswell, Zoeter, Taylor and Ramsey, 2008"

    def _slots(self, index: PageIndex) -> Array:
        return position_slots(index, self.depth)

    def _n_slots(self, deepest: int) -> int:
        return deepest

    def _known_parameters(self, users: Users) -> dict[str, Array]:
        return {"examination": users.examination}

    def _first_slot(self, highest: int) -> int:
        return highest - 1

    def _examined(self, index: PageIndex, theta: Estimates) -> Array:
        examination = theta["examination"]
        return np.asarray(examination[np.minimum(self._slots(index), len(examination) - 1)])


@dataclass
class UBM(_Examined):
    """The user browsing model: P(c_r = 1) = γ_rr' α_qd, where r' is the position of the last click above r, or 0.

    (Dupret and Piwowarski, "A user browsing model to predict search engine click data from past observations", 2008.)
    """

    name: ClassVar[str] = "ubm"
    summary: ClassVar[str] = "user browsing: examination depends on the position and on that of the last click above"
    paper: ClassVar[str] = "Dupret and Piwowarski, 2008"

    def _slots(self, index: PageIndex) -> Array:
        return self._slots_within(index, self.depth)

    def _slots_within(self, index: PageIndex, depth: int) -> Array:
        from gainful.clicks.model_kernels import browsing_slots

        slot = np.empty(len(index.pair), dtype=np.int32)
        browsing_slots(index.offsets, index.position, index.clicked, depth, slot)
        return slot

    def _n_slots(self, deepest: int) -> int:
        return deepest * (deepest + 1) // 2

    def _known_parameters(self, users: Users) -> dict[str, Array]:
        return {"examination": np.concatenate([(r - np.arange(r)) ** -users.eta for r in users.positions])}

    def _first_slot(self, highest: int) -> int:
        return highest * (highest - 1) // 2

    def _fits(self, name: str, size: int) -> bool:
        return size >= 1 and self._n_slots(_deepest(size)) == size

    def _examined(self, index: PageIndex, theta: Estimates) -> Array:
        from gainful.clicks.model_kernels import examine_browsing

        out = np.empty(len(index.pair))
        values = (theta["attractiveness"], theta["examination"])
        examine_browsing(index.offsets, index.position, _deepest(len(theta["examination"])), index.pair, *values, out)
        return out

    def _draw(self, index: PageIndex, theta: Estimates, attraction: Array, draws: Array) -> Array:
        from gainful.clicks.model_kernels import draw_browsing

        out = np.empty(len(index.pair), dtype=bool)
        depth = _deepest(len(theta["examination"]))
        draw_browsing(index.offsets, index.position, depth, attraction, theta["examination"], draws, out)
        return out

    def _clicked(self, index: PageIndex, theta: Estimates) -> Array:
        slot = self._slots_within(index, _deepest(len(theta["examination"])))
        return np.asarray(theta["examination"][slot] * theta["attractiveness"][index.pair])


def _deepest(n_slots: int) -> int:
    """The deepest position that has this many slots with all above it, r (r + 1) / 2."""
    return int((np.sqrt(8 * n_slots + 1) - 1) / 2 + 0.5)
