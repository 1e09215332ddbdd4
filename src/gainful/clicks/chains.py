"""Chains: the user reads the page from the top and stops somewhere. Cascade, DCM, simplified and full DBN.

The first document is examined. One that is examined is clicked with probability α_qd. After a click the user stops with
some probability; otherwise the next document is examined, with probability γ.
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
from gainful.parameters.constraints import Real, parameter

ALWAYS = np.ones(1)


@dataclass
class _Reading(ClickModel):
    """What all chains share once their parameters are known."""

    def _ends(self, index: PageIndex, theta: Estimates) -> tuple[Array, Array, float]:
        """The slot of each row, the probability to stop after a click in each slot, and that to read on."""
        raise TypeError(f"{type(self).__name__} does not say how a page ends")

    def _examined(self, index: PageIndex, theta: Estimates) -> Array:
        from gainful.clicks.model_kernels import examine_chain

        out = np.empty(len(index.pair))
        slot, *ends = self._ends(index, theta)
        examine_chain(index.offsets, index.pair, slot, theta["attractiveness"], *ends, out)
        return out

    def _clicked(self, index: PageIndex, theta: Estimates) -> Array:
        from gainful.clicks.model_kernels import click_chain

        out = np.empty(len(index.pair))
        slot, *ends = self._ends(index, theta)
        click_chain(index.offsets, index.pair, slot, index.clicked, theta["attractiveness"], *ends, out)
        return out

    def _draw(self, index: PageIndex, theta: Estimates, attraction: Array, draws: Array) -> Array:
        from gainful.clicks.model_kernels import draw_chain

        out = np.empty(len(index.pair), dtype=bool)
        slot, *ends = self._ends(index, theta)
        draw_chain(index.offsets, slot, attraction, *ends, draws, out)
        return out


@dataclass
class Cascade(_Reading):
    """The cascade model: the user reads down to the first click and stops there.

    Several clicks on a page cannot happen. A log has them, so a click after the first has probability ``slip``.
    Attractiveness is counted from documents down to the first click. (Craswell, Zoeter, Taylor and Ramsey, 2008.)
    """

    name: ClassVar[str] = "cascade"
    summary: ClassVar[str] = "cascade: read down to the first click, and stop there"
    paper: ClassVar[str] = "Craswell, Zoeter, Taylor and Ramsey, 2008"

    slip: float = parameter(
        1e-6, Real(low=0.0, high=0.5, open_low=True, help="probability of a click after the first, which has none")
    )

    def _start(self, index: PageIndex) -> tuple[dict[str, Array], dict[str, Beta]]:
        attraction, prior = examined_rates(index, self._strength)
        return {"attractiveness": attraction}, {"attractiveness": prior}

    def _expect(self, index: PageIndex) -> Callable[[Estimates], tuple[float, dict[str, Array]]]:
        from gainful.clicks.model_kernels import count_cascade

        def expect(theta: Estimates) -> tuple[float, dict[str, Array]]:
            rows = (index.pair, index.clicked, theta["attractiveness"])

            def task(first: int, last: int, low: int, sums: list[Array]) -> float:
                return float(count_cascade(index.offsets, index.weight, first, last, *rows, self.slip, low, *sums))

            return sum_blocks(index, {"attractiveness": Shape(True)}, task)

        return expect

    def _ends(self, index: PageIndex, theta: Estimates) -> tuple[Array, Array, float]:
        return np.zeros(len(index.pair), dtype=np.int32), ALWAYS, 1.0

    def _clicked(self, index: PageIndex, theta: Estimates) -> Array:
        return np.maximum(super()._clicked(index, theta), self.slip)


@dataclass
class _Chain(_Reading):
    """A chain with several clicks, fitted by EM: the stop after the last click is hidden."""

    iterates: ClassVar[bool] = True
    stop: ClassVar[str] = "satisfaction"  # the parameter that ends a page after a click
    stop_by_pair: ClassVar[bool] = True
    persistent: ClassVar[bool] = True  # γ = 1
    shared_parameters: ClassVar[tuple[str, ...]] = ("continuation",)

    def _slots(self, index: PageIndex, theta: Estimates) -> Array:
        """Where the stop of each row is."""
        return index.pair

    def _start(self, index: PageIndex) -> tuple[dict[str, Array], dict[str, Beta]]:
        attraction, prior = examined_rates(index, self._strength)
        stop, stop_prior = self._start_stop(index)
        go_on = ALWAYS if self.persistent else np.array([0.9])
        go_on_prior = Beta(WEAK.successes, WEAK.failures, fixed=np.array([self.persistent]))
        start = {"attractiveness": attraction, self.stop: stop, "continuation": go_on}
        return start, {"attractiveness": prior, self.stop: stop_prior, "continuation": go_on_prior}

    def _start_stop(self, index: PageIndex) -> tuple[Array, Beta]:
        """First estimates: the share of clicks that were the last; and the prior."""
        clicks, last = index.sum_by_pair(lambda part: (part.clicked, part.clicked & part.is_last_click))
        mean = (last.sum() + 1.0) / (clicks.sum() + 2.0)
        prior = Beta.of_mean(float(mean), self._strength)
        return (last + prior.successes + 0.5) / (clicks + self._strength + 1.0), prior

    def _expect(self, index: PageIndex) -> Callable[[Estimates], tuple[float, dict[str, Array]]]:
        from gainful.clicks.model_kernels import expect_chain

        def expect(theta: Estimates) -> tuple[float, dict[str, Array]]:
            attraction, stop, go_on = theta["attractiveness"], theta[self.stop], float(theta["continuation"][0])
            shapes = {
                "attractiveness": Shape(True),
                self.stop: Shape(self.stop_by_pair, len(stop)),
                "continuation": Shape(False, 1),
            }
            rows = (index.pair, self._slots(index, theta), index.clicked)

            def task(first: int, last: int, low: int, sums: list[Array]) -> float:
                spare = np.empty(index.longest + 1)
                base = low if self.stop_by_pair else 0
                pages = (index.offsets, index.weight, first, last, *rows, attraction, stop, go_on)
                return float(expect_chain(*pages, low, sums[0], base, sums[1], sums[2], spare))

            return sum_blocks(index, shapes, task)

        return expect

    def _ends(self, index: PageIndex, theta: Estimates) -> tuple[Array, Array, float]:
        return self._slots(index, theta), theta[self.stop], float(theta["continuation"][0])


@dataclass
class DCM(_Chain):
    """The dependent click model: after a click in position r the user goes on with probability λ_r = 1 − stop_r.

    ``max_iter=0`` gives the smoothed counts of the paper, which take the last click of a page for the end of reading.
    (Guo, Liu and Wang, "Efficient multiple-click models in web search", 2009.)
    """

    name: ClassVar[str] = "dcm"
    summary: ClassVar[str] = "dependent click: after a click, go on with a probability that depends on the position"
    paper: ClassVar[str] = "Guo, Liu and Wang, 2009"
    stop: ClassVar[str] = "stop"
    stop_by_pair: ClassVar[bool] = False
    shared_parameters: ClassVar[tuple[str, ...]] = ("stop", "continuation")

    def _slots(self, index: PageIndex, theta: Estimates) -> Array:
        return np.minimum(position_slots(index, self.depth), len(theta["stop"]) - 1).astype(np.int32)

    def _known_parameters(self, users: Users) -> dict[str, Array]:
        return {"stop": 1.0 - 0.8 * users.positions ** (-users.eta / 2.0), "continuation": ALWAYS}

    def _start_stop(self, index: PageIndex) -> tuple[Array, Beta]:
        slot, weight = position_slots(index, self.depth), index.row_weight
        n = int(slot.max()) + 1
        clicks = np.bincount(slot, weights=weight * index.clicked, minlength=n)
        last = np.bincount(slot, weights=weight * (index.clicked & index.is_last_click), minlength=n)
        return (last + WEAK.successes) / (clicks + WEAK.successes + WEAK.failures), WEAK


@dataclass
class SDBN(_Chain):
    """The simplified dynamic Bayesian network: after a click the user is satisfied, and stops, with probability σ_qd.

    Otherwise the next document is always examined (γ = 1). ``max_iter=0`` gives the smoothed counts of the paper, which
    take the last click of a page for the satisfied one. (Chapelle and Zhang, "A dynamic Bayesian network click model
    for web search ranking", 2009, section 5.)
    """

    name: ClassVar[str] = "sdbn"
    summary: ClassVar[str] = "simplified DBN: read until a click satisfies"
    paper: ClassVar[str] = "Chapelle and Zhang, 2009"
    pair_parameters: ClassVar[tuple[str, ...]] = ("attractiveness", "satisfaction")

    def _known_parameters(self, users: Users) -> dict[str, Array]:
        go_on = 1.0 if self.persistent else users.continuation
        return {"satisfaction": users.satisfaction, "continuation": np.array([go_on])}

    @property
    def satisfaction_(self) -> Array:
        """The probability that each pair of ``pairs_`` satisfies once it is clicked."""
        self._check_fitted()
        return self.theta_["satisfaction"][:-1]

    def _relevance(self) -> tuple[Array, Array]:
        a, s = self.theta_["attractiveness"], self.theta_["satisfaction"]
        da, ds = self.errors_["attractiveness"], self.errors_["satisfaction"]
        return a * s, np.sqrt((s * da) ** 2 + (a * ds) ** 2)


@dataclass
class DBN(SDBN):
    """The dynamic Bayesian network: as the simplified one, but a user who is not satisfied may give up.

    The next document is examined with probability γ, ``continuation_``. (Chapelle and Zhang, 2009.)
    """

    name: ClassVar[str] = "dbn"
    summary: ClassVar[str] = "dynamic Bayesian network: read until a click satisfies, or give up"
    needs_moves: ClassVar[bool] = True
    persistent: ClassVar[bool] = False

    @property
    def continuation_(self) -> float:
        """The probability γ that a user who is not satisfied reads on."""
        self._check_fitted()
        return float(self.theta_["continuation"][0])
