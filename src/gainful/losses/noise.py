"""Losses averaged over noise on the scores.

The noise is a hash of what it is for: the grades of the query, the place of the document in it, the draw, the iteration
and a seed. There is no stream to share, so it depends neither on threads nor on how the data are cut into blocks.
Queries of the same grades in the same order have the same noise.

It is Gumbel noise: sorting by s/τ + Gumbel noise draws a ranking from the Plackett–Luce model with the weights
exp(s/τ), the model that YetiRank and the listwise losses assume, with τ the size of the noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gainful.compute.query_loop import Fill
from gainful.data.rows import Array, read_only

STEP = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ divided by the golden ratio, as in splitmix64


def mix(x: Array) -> Array:
    """A bijection of 64-bit integers whose results look random: the finaliser of splitmix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def row_keys(y: Array, offsets: Array, seed: int) -> Array:
    """A 64-bit key for each row, from the grades of its query, its place in it and the seed."""
    counts = np.diff(offsets)
    steps = (np.arange(1, len(y) + 1) - np.repeat(offsets[:-1], counts)).astype(np.uint64) * STEP
    grades = np.ascontiguousarray(y + 0.0, dtype=np.float64).view(np.uint64)  # −0 and 0 are one grade
    queries = np.add.reduceat(mix(grades + steps), offsets[:-1])
    return read_only(mix(np.repeat(mix(queries + mix(np.array([seed], dtype=np.uint64))), counts) + steps))


def gumbel(keys: Array, iteration: int, draw: int) -> Array:
    """Gumbel noise for each key."""
    x = mix(keys + mix(np.array([(iteration << 32) + draw + 1], dtype=np.uint64)))
    u = ((x >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53  # inside (0, 1)
    return np.asarray(-np.log(-np.log(u)))


class NoisyFill:
    """The mean over ``draws`` of noise, in one iteration, of a fill of values and gradient, or a ``curved`` one."""

    def __init__(
        self, fill: Any, keys: Array, offsets: Array, size: float, draws: int, curved: bool, iteration: int = 0
    ):
        self.fill, self.keys, self.offsets, self.size, self.draws = fill, keys, offsets, size, draws
        self.curved, self.iteration = curved, iteration

    def at(self, iteration: int, total: int) -> NoisyFill:
        return NoisyFill(self.fill, self.keys, self.offsets, self.size, self.draws, self.curved, iteration)

    def __call__(self, scores: Array, first: int, last: int, values: Array, gradient: Array) -> None:
        self._average([self.fill] * self.draws, scores, first, last, values, gradient)

    def bind_frozen(self, scores: Array, threads: int | None = None) -> Fill:
        """The loss with the weights at these scores and their noise: an ordinary function."""
        shifts = self._shifts(0, len(self.offsets) - 1)
        fills = [self.fill.bind_frozen(read_only(scores + shift), threads) for shift in shifts]

        def frozen(scores: Array, first: int, last: int, values: Array, gradient: Array) -> None:
            self._average(fills, scores, first, last, values, gradient)

        return frozen

    def _shifts(self, first: int, last: int) -> list[Array]:
        """The noise of each draw, for the rows of these queries."""
        keys = self.keys[int(self.offsets[first]) : int(self.offsets[last])]
        return [self.size * gumbel(keys, self.iteration, draw) for draw in range(self.draws)]

    def _average(self, fills: list[Any], scores: Array, first: int, last: int, values: Array, gradient: Array) -> None:
        here = slice(None) if self.curved else slice(first, last)
        own, slopes = np.empty(len(values)), np.empty(len(gradient))
        values[here], gradient[:] = 0.0, 0.0
        for fill, shift in zip(fills, self._shifts(first, last), strict=True):
            fill(read_only(scores + shift), first, last, own, slopes)
            values[here] += own[here]
            gradient += slopes
        values[here] /= self.draws
        gradient /= self.draws


def with_noise(fill: Any, params: dict[str, Any], y: Array, offsets: Array, curved: bool) -> Any:
    """``fill`` averaged over noise, or itself if the loss has none."""
    if not params.get("noise"):
        return fill
    keys = row_keys(y, offsets, int(params["seed"]))
    return NoisyFill(fill, keys, offsets, float(params["noise"]), int(params["draws"]), curved)
