"""Ranking losses as objectives of boosted trees."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gainful.compute import query_loop
from gainful.compute.estimators import ConvergenceWarning
from gainful.data.dataset import RankingData
from gainful.data.query_weights import weights_of_mean_one
from gainful.data.rows import Array, read_only
from gainful.errors import DataError
from gainful.losses import Loss

# Gradients by score shrink as 1/n with the length n of a list. A root mean square below this times 1/n is flat.
FLAT = 1e-3


class LossObjective:
    """Σ_q ω_q L_q of the scores, with ω_q of mean 1: the objective that LightGBM calls before each tree.

    A *Newton* step divides the gradient in a leaf by the curvature there; it is the default if the loss has a
    curvature. A *gradient* step fits the tree to the negative gradient itself; a gradient has no natural length, so
    ``scale`` stretches it: "auto" makes the root mean square of the first one 1 (of the first curvature the mean), in
    the unit of one document, so that ``l2`` and LightGBM's smallest leaf weight mean the same for every loss.

    A loss that changes during training does so over ``n_stages`` trees and then stays fixed.

    If ``data`` is one block of several, ``mean_weight`` is the mean weight of all queries.

    ``value`` is the objective at the last scores, if the loss computes it along with its gradient.
    """

    def __init__(
        self,
        loss: Loss,
        data: RankingData,
        n_stages: int,
        *,
        step: str = "auto",
        scale: float | str = "auto",
        start_trees: int = 0,
        threads: int | None = None,
        mean_weight: float | None = None,
    ):
        self.offsets = read_only(data.offsets)
        self.loss, self.n_stages, self.start_trees = loss, n_stages, start_trees
        documents = data.relative_weights
        self.curved = step != "gradient" and loss.entry.newton
        self.fill: Any = loss.bind_judgments(data, curved=self.curved)
        self.threads = threads if loss.entry.threads is None else loss.entry.threads
        self.shares = weights_of_mean_one(data, mean_weight)
        self.query_weights = np.repeat(self.shares, data.counts)  # of each row
        self.row_weights = self.query_weights if documents is None else self.query_weights * documents
        self.y, self.pairs = np.ascontiguousarray(data.y, dtype=np.float64), data.pairs
        self.by_row: tuple[Any, ...] = self.y, self.query_weights, self.row_weights
        self.scale = None if scale == "auto" else float(scale)
        self.value: float | None = None
        self.changes = loss.staged or start_trees > 0

    def __call__(self, scores: Any, iteration: int) -> tuple[Any, Any]:
        grades, query_weights, row_weights = self.by_row
        if iteration <= self.start_trees:
            return (scores - grades) * row_weights, row_weights
        gradient, curvature = self._derivatives(scores, iteration)
        if not all((abs(one) < math.inf).all() for one in (gradient, curvature) if one is not None):
            raise DataError(
                f"the loss {self.loss} gave a gradient that is not finite at tree {iteration} (scores from "
                f"{scores.min():.3g} to {scores.max():.3g}); a smaller learning_rate or gradient_scale may help"
            )
        if self.scale is None:
            self.scale = natural_scale(self._size(gradient, curvature))
        factor = query_weights * self.scale  # the loss has the weights of the documents
        return gradient * factor, row_weights if curvature is None else curvature * factor

    def state(self) -> dict[str, Any]:
        """What a checkpoint saves."""
        return {"scale": self.scale}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.scale = None if state["scale"] is None else float(state["scale"])

    def _derivatives(self, scores: Any, iteration: int) -> tuple[Any, Any]:
        scores = read_only(np.ascontiguousarray(scores, dtype=np.float64))
        fill = self.fill.at(min(iteration, self.n_stages), self.n_stages) if self.loss.staged else self.fill
        if self.curved:
            return query_loop.gradient_and_curvature(fill, self.offsets, scores, self.threads)
        values, gradient = query_loop.values_and_gradient(fill, self.offsets, scores, self.threads)
        self.value = float(self.shares @ values) / len(values)
        return gradient, None

    def gradient_size(self, scores: Array, iteration: int) -> GradientSize:
        """The size of the first gradient, before scaling."""
        return self._size(*self._derivatives(scores, iteration))

    def _size(self, gradient: Any, curvature: Any) -> GradientSize:
        return GradientSize(
            len(gradient),
            len(self.shares),
            float((gradient**2).sum()),
            None if curvature is None else float(curvature.sum()),
            self._has_pairs(),
            str(self.loss),
            self.start_trees,
        )

    def _has_pairs(self) -> bool:
        """Whether any query has pairs of documents, so that there is something to learn."""
        if self.pairs is not None:
            return len(self.pairs) > 0
        starts = self.offsets[:-1]
        return bool((np.maximum.reduceat(self.y, starts) > np.minimum.reduceat(self.y, starts)).any())


@dataclass(frozen=True)
class GradientSize:
    """Sums over rows that measure the first gradient; those of several blocks add up."""

    n_rows: int
    n_queries: int
    squares: float
    curvature: float | None
    has_pairs: bool
    loss: str
    start_trees: int

    def __add__(self, other: GradientSize) -> GradientSize:
        return GradientSize(
            self.n_rows + other.n_rows,
            self.n_queries + other.n_queries,
            self.squares + other.squares,
            None if self.curvature is None or other.curvature is None else self.curvature + other.curvature,
            self.has_pairs or other.has_pairs,
            self.loss,
            self.start_trees,
        )


def natural_scale(first: GradientSize) -> float:
    """The factor that makes the root mean square of the first gradient 1, or the mean of the first curvature.

    Where the start is flat, the factor is bounded: gradients grow beyond all numbers once the scores leave it.
    """
    size = math.sqrt(first.squares / first.n_rows)
    least = FLAT * first.n_queries / first.n_rows
    flat = size < least and first.has_pairs
    if flat:
        _warn_of_flat_start(first, size)
    if first.curvature is None:
        return 1.0 / max(size, least)
    mean = first.curvature / first.n_rows
    if flat:
        mean = max(mean, FLAT * least)  # a loss of σ·s has a gradient of order σ and a curvature of order σ²
    return 1.0 / mean if mean > 0.0 else 1.0


def _warn_of_flat_start(first: GradientSize, size: float) -> None:
    what = (
        "let the first trees learn the grades with start_trees=20"
        if first.start_trees == 0
        else f"even after start_trees={first.start_trees}; take a smoother form of the loss, or another loss"
    )
    warnings.warn(
        f"the loss {first.loss} has next to no gradient where its trees start (root mean square {size:.1e}); {what}",
        ConvergenceWarning,
        stacklevel=3,
    )
